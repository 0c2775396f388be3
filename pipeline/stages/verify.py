"""verify: show that what was generated is stored, id by id, and pass the gates; nothing flips without it.

Conservation is shown for the run's own ids (O(delta)), by reading them back, never by index statistics (invariant 3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pipeline import contract, publish
from pipeline.errors import Corruption
from pipeline.ledger import Session
from pipeline.rows import RecordRow
from pipeline.stages import gates
from pipeline.stages.job import Job, Outcome
from pipeline.types import OPEN

PAGE_ROWS = 1000
"""Ids read back at a time."""


def verify(job: Job) -> Outcome:
    """Read every planned addition back, then ask the gates.

    Raises:
        Corruption: code `conservation`: records are planned that the index doesn't hold as planned.
    """
    missing: list[str] = []
    count = 0
    for page in additions(job):
        job.keep_going()
        count += len(page)
        for namespace in sorted({r.namespace for r in page}):
            ids = [r.id for r in page if r.namespace == namespace]
            index = job.ports.index(job.slug)
            index.settle(namespace, ids)
            stored = index.fetch(namespace, ids, vectors=False, metadata=False)
            good = {
                id_ for id_, added, removed in zip(stored.ids, stored.added, stored.removed, strict=True)
                if (added, removed) == (job.run.number, OPEN)
            }  # fmt: skip
            missing += [id_ for id_ in ids if id_ not in good]
        job.report(len(page))
    if missing:
        raise Corruption(
            "conservation",
            f"{len(missing)} of {count} records of version {job.run.number} are not in the index, {missing[0]} among them",
            remedy=f"lamina cancel {job.run.id}, then curate again; finished work is kept",
        )
    _no_dangling_edges(job)
    tally = contract.tally(job.ports, job.run)
    if not job.run.force and _nothing_changed(job):
        standing = (
            json.loads(job.run.notes or "{}").get("standing", 0) + tally.failed + tally.empty + tally.errored_sources
        )
        return Outcome(lambda session: _noop(job, session, standing))
    refused = gates.refusal(job, tally)
    if refused:
        return Outcome(lambda session: _refuse(job, session, refused))
    return Outcome(size=max(count, 1))


def _no_dangling_edges(job: Job) -> None:
    """The gate of the edges: each ends at two artifacts of the version."""
    with job.ports.ledger.read() as session:
        dangling = session.knowledge.dangling(job.slug, job.run.id)
    if dangling:
        raise Corruption(
            "dangling_edges",
            f"version {job.run.number} would hold edges to artifacts that it doesn't hold, {dangling[0]} among them",
            remedy=f"lamina cancel {job.run.id}, then curate again; report this",
        )


def additions(job: Job) -> Iterator[tuple[RecordRow, ...]]:
    """What the run adds, page by page."""
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.records.page_added(job.slug, job.run.number, after, PAGE_ROWS)
        if page:
            yield page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def removals(job: Job) -> Iterator[tuple[RecordRow, ...]]:
    """Records whose removal the run plans, page by page."""
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.records.page_planned(job.run.id, after, PAGE_ROWS)
        if page:
            yield page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def _refuse(job: Job, session: Session, reason: str) -> None:
    publish.abandon(session, job.run, job.ports.clock.now(), state="failed", error=reason)


def _nothing_changed(job: Job) -> bool:
    """Whether the new version would show just what the live one shows: nothing planned, and nothing open that isn't live."""
    with job.ports.ledger.read() as session:
        planned = session.records.plans_anything(job.slug, job.run.id, job.run.number)
        return not planned and not session.records.diverged(job.slug, job.run.base_version)


def _noop(job: Job, session: Session, standing: int) -> None:
    output = contract.noop_output(job.run, standing=standing)
    publish.end_unchanged(session, job.run, job.ports.clock.now(), output)
