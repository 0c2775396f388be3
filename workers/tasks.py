"""One task a stage, each a single call; and the two that keep the fleet in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from pipeline import fleet, loop, publication
from pipeline.adapters.dispatch_celery import FSCK, OPTIMIZE, PREFIX, PUBLISH, RECONCILE
from pipeline.curate import ACTIVE_STAGES
from pipeline.errors import PipelineError
from pipeline.fsck import fsck as check
from pipeline.fsck import told
from pipeline.types import ContextSlug, RunId
from pipeline.units import Token
from workers import process
from workers.app import app, settings

LOG = logging.getLogger("lamina.worker")


def _task(stage: str) -> Callable[[str, int, int], str]:
    def do(run: str, lane: int, seq: int) -> str:
        held = process.current(settings)
        token = Token(stage, RunId(run), lane, seq)
        began = time.monotonic()
        outcome = fleet.step(held.ports, token, held.dispatch, cache=held.cache, stopping=process.stopping)
        spent = round(time.monotonic() - began, 3)
        LOG.info("unit", extra={"run": run, "stage": stage, "lane": lane, "outcome": outcome, "seconds": spent})
        return outcome

    return do


def reconcile() -> int:
    """Put right what messages and workers have lost."""
    held = process.current(settings)
    return fleet.reconcile(held.ports, held.dispatch)


def optimize(context: str) -> int:
    """Build what makes searches of a large context fast, once a version is live."""
    held = process.current(settings)
    return loop.optimize(held.ports, ContextSlug(context), report=lambda _done, _total: None, stop=process.stopping)


def publish(context: str) -> str:
    """Bring the context's published copy up to its live version. A message that comes twice finds nothing to do."""
    held = process.current(settings)
    until = time.monotonic() + held.ports.limits.unit_limit_s / 2

    def stop() -> bool:
        return process.stopping() or time.monotonic() > until  # `reconcile` has it gone on with

    try:
        done = publication.bring_up(held.ports, ContextSlug(context), stop=stop)
    except PipelineError as error:
        LOG.warning("publish", extra={"context": context, "outcome": error.code})
        return error.code
    LOG.info("publish", extra={"context": context, "written": done.written, "deleted": done.deleted})
    return "stopped" if done.stopped else "published"


def fsck() -> int:
    """Hold every context against the ledger; findings. Nothing is repaired: that is for somebody who has looked."""
    held = process.current(settings)
    with held.ports.ledger.read() as session:
        idle = [c.slug for c in session.contexts.list() if c.live_version and session.runs.active(c.slug) is None]
        last = {
            slug: max((r.ended_at for r in session.runs.list(slug, 50) if r.kind == "fsck"), default=0.0)
            for slug in idle
        }
    until, found = time.monotonic() + held.ports.limits.unit_limit_s / 2, 0
    for slug in sorted(idle, key=lambda one: last[one]):
        if process.stopping() or time.monotonic() > until:
            break  # those that were not reached come first the next time
        report = check(held.ports, slug, repair=False)
        found += sum(report.found.values())
        LOG.info("fsck", extra={"context": slug, "outcome": told(report) or "sound"})
    return found


BODIES: dict[str, Callable[..., object]] = {RECONCILE: reconcile, OPTIMIZE: optimize, PUBLISH: publish, FSCK: fsck}
STAGE_TASKS = {stage.name: app.task(_task(stage.name), name=PREFIX + stage.name) for stage in ACTIVE_STAGES}
"""Stage to its task."""
CHORES = {name: app.task(body, name=PREFIX + name) for name, body in BODIES.items()}
"""The tasks beside the stages."""
