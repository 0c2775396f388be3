"""A unit whose workers die again and again: its batch is halved until one source is left, and that one is set aside.

The parts get batch numbers of their own, as other workers may hold values of the old batch in their caches. What was
done for the batch at earlier stages stays done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import content_hash
from pipeline.quarantine import entry_of
from pipeline.rows import WorkRow
from pipeline.stages.inventory import unread_hash
from pipeline.stages.job import Job, pipeline_fingerprint
from pipeline.stages.screen import Wanted, write_plan

POISON = "poison"
"""Code of a source at which workers die."""

PLANNED_AFTER = ("embed_dense", "embed_sparse", "extract", "upsert")
"""Stages behind the one that plans records: a source that is set aside there has a plan that must be taken back."""


def isolate(job: Job) -> bool:
    """Halve the claimed batch, or set its only source aside as failed; False where neither can be done any more."""
    claim = job.claim
    if claim.batch <= 0:
        return False
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, claim.batch)
    if not rows or (len(rows) == 1 and rows[0].code == POISON):
        return False
    aside = _set_aside(job, rows[0]) if len(rows) == 1 else None
    with job.ports.ledger.transaction("unit.isolate", job.slug) as session:
        job.hold(session)
        fresh = session.work.highest_batch(job.run.id) + 1
        parts = [rows] if aside else [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
        if aside is not None:
            if claim.stage in PLANNED_AFTER:
                write_plan(job, session, [Wanted(aside, {}, b"")])
            session.work.update(job.run.id, [aside])
            entry = entry_of(aside, pipeline_fingerprint(job.manifest, job.recipe), job.ports.clock.now())
            session.quarantine.put(job.slug, [entry] if entry is not None else [])
        for batch, part in enumerate(parts, fresh):
            session.work.move(job.run.id, [row.path for row in part], batch)
        sizes = {batch: _share(claim.size, part, rows) for batch, part in enumerate(parts, fresh)}
        session.units.replace(claim, sizes)
    return True


def _set_aside(job: Job, row: WorkRow) -> WorkRow:
    stage, died = job.claim.stage, job.claim.attempts - job.claim.failures - 1
    return replace(
        row,
        status="failed",
        code=POISON,
        reason=f"workers died or hung {died} times at {stage} of it; other sources went on",
        hash=row.hash or _hash(job, row),
        chunks=0,
        parse_key="",
        chunk_key="",
    )


def _hash(job: Job, row: WorkRow) -> str:
    """Of the bytes, so that the next run finds the source unchanged and leaves it alone."""
    try:
        data, _stat = job.ports.sources(job.context).read(row.path, job.ports.limits.source_bytes)
    except RejectedInput:
        return unread_hash(SourceStat(row.path, row.size, row.mtime_ns, row.mtime_ns), POISON)
    return content_hash(data)


def _share(size: int, part: Sequence[WorkRow], whole: Sequence[WorkRow]) -> int:
    return max(1, size * len(part) // len(whole))
