"""What one worker process keeps: its ports, opened with the first task and never shared with a parent or child."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from celery import Celery, signals

from pipeline import bootstrap, hosted
from pipeline.adapters.dispatch_celery import CONTROL, PREFIX, RECONCILE
from pipeline.fleet_ports import Dispatch
from pipeline.limits import Limits
from pipeline.ports import Ports
from pipeline.settings import Settings
from pipeline.stages.job import DraftCache

START_METHOD = "_LAMINA_POOL_START"
ASKED_EVERY = 4
"""Periods of the schedule after which every worker asks for a reconcile by itself."""
STOPPING = "_LAMINA_STOPPING_FILE"
"""Environment of a worker's processes, set by the worker itself: how they start, and the file that tells them to end."""


@dataclass(slots=True)
class Process:
    """One process's own."""

    ports: Ports
    dispatch: Dispatch
    cache: DraftCache = field(default_factory=DraftCache)


_held: dict[int, Process] = {}
_lock = threading.Lock()


def current(settings: Settings) -> Process:
    """What the process that asks keeps; a forked child opens its own."""
    with _lock:
        held = _held.get(os.getpid())
        if held is None:
            _held.clear()  # a parent's, whose connections are the parent's to close
            ports = bootstrap.build(settings)
            held = _held[os.getpid()] = Process(replace(ports, processors=1), hosted.dispatch(settings))
        return held


def stopping() -> bool:
    """Whether this worker was told to end."""
    path = os.environ.get(STOPPING)
    return path is not None and Path(path).exists()


def _keep_order(app: Celery, limits: Limits) -> None:
    """Ask for a reconcile now and then, in case that whoever has the schedule is dead. Two at once do no harm."""
    period = limits.reconcile_s * ASKED_EVERY
    while True:
        time.sleep(period)
        with suppress(Exception):  # the broker is away: it is asked again
            app.send_task(PREFIX + RECONCILE, queue=PREFIX + CONTROL, expires=period)


def watch(app: Celery, limits: Limits) -> None:
    """React to the worker's own life: tell its processes when it ends, look for lost work when it starts and now and then."""
    if STOPPING not in os.environ:
        os.environ[STOPPING] = str(Path(tempfile.gettempdir()) / f"lamina-stopping-{os.getpid()}")

    def ending(**_: Any) -> None:
        Path(os.environ[STOPPING]).touch()

    def ended(**_: Any) -> None:
        Path(os.environ[STOPPING]).unlink(missing_ok=True)

    def ready(**_: Any) -> None:
        app.send_task(PREFIX + RECONCILE, queue=PREFIX + CONTROL, expires=60)
        threading.Thread(target=_keep_order, args=(app, limits), name="order", daemon=True).start()

    def over(**_: Any) -> None:
        with _lock:
            held = _held.pop(os.getpid(), None)
        if held is not None:
            held.dispatch.close()
            bootstrap.close(held.ports)

    signals.worker_shutting_down.connect(ending, weak=False)
    signals.worker_shutdown.connect(ended, weak=False)
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_process_shutdown.connect(over, weak=False)
