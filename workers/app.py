"""The Celery application, made from settings: `celery -A workers.app worker`. `lamina worker` starts it with the right options."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery

from pipeline import hosted
from pipeline.adapters.dispatch_celery import configuration
from pipeline.settings import load
from workers import logs, process, schedule

settings = load(os.environ, Path.cwd())

settings.home.mkdir(parents=True, exist_ok=True)
app = Celery("lamina", include=["workers.tasks"])
app.conf.update(
    configuration(hosted.require_broker(settings), settings.limits.unit_limit_s),
    beat_schedule=schedule.beat(settings.limits),
    beat_schedule_filename=str(settings.home / "beat"),
    worker_consumer="workers.consumer:GuardedConsumer",
    worker_pool_start_method=os.environ.get(process.START_METHOD, "fork"),
)
schedule.check_times(settings.limits, app.conf.broker_transport_options["visibility_timeout"])
logs.set_up()
process.watch(app, settings.limits)
