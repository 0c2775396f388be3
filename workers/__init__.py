"""The fleet's processes: Celery workers that do units of curate runs. No rules here: `pipeline.fleet` holds them.

`app` makes the Celery application from settings, `tasks` registers one task a stage, `schedule` holds queues and times
as data and checks them, `process` is what one worker process keeps.
"""
