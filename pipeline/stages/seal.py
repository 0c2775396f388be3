"""seal: the point of no return. One ledger transaction stamps every planned removal; only then is the index stamped.

If the pointer moved since the run was planned, its base is gone: it is abandoned, nothing having been stamped. From the
transaction on, whoever takes the run over rolls it forward; stamps are never taken back (DESIGN §5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from pipeline import publish
from pipeline.codec import decode_counts
from pipeline.errors import Unavailable
from pipeline.ledger import Session
from pipeline.rows import RecordRow
from pipeline.stages.job import Job, Outcome, chunk_namespace
from pipeline.stages.upsert import terms_key
from pipeline.stages.verify import additions, removals

KEYS_AT_ONCE = 16
"""Batches whose counts are in memory together."""

DOCUMENTS = -1
"""The term under which the documents themselves are counted."""


def seal(job: Job) -> Outcome:
    """Seal in the ledger, stamp the index, read the stamps back."""
    if job.run.state == "running":
        deltas = _count_deltas(job)
        with job.ports.ledger.transaction("seal") as session:
            job.hold(session)
            sealed = publish.seal(session, job.run, deltas)
        if not sealed:
            return Outcome(lambda session: _abandon(job, session))
    stamped = 0
    for page in removals(job):
        job.keep_going()
        _stamp(job, page)
        stamped += len(page)
        job.report(len(page))
    return Outcome(size=max(stamped, 1))


def _abandon(job: Job, session: Session) -> None:
    publish.abandon(session, job.run, job.ports.clock.now(), state="abandoned", error=publish.MOVED)


def _stamp(job: Job, page: Sequence[RecordRow]) -> None:
    index = job.ports.index(job.slug)
    for namespace in sorted({r.namespace for r in page}):
        ids = [r.id for r in page if r.namespace == namespace]
        index.stamp(namespace, ids, job.run.number)
        stored = index.fetch(namespace, ids, vectors=False, metadata=False)
        if any(removed != job.run.number for removed in stored.removed):
            raise Unavailable(
                "not_fresh", f"the index doesn't show the stamps of version {job.run.number} yet", remedy="run again"
            )


def _count_deltas(job: Job) -> dict[int, dict[int, int]]:
    """Generation to term to documents gained or lost: additions minus removals, also those of rolled-back versions."""
    counts: dict[int, Counter[int]] = {job.run.generation: Counter()}
    if not _added_by_batch(job, counts[job.run.generation]):
        counts[job.run.generation].clear()
        _count(job, additions(job), 1, counts)
    _count(job, removals(job), -1, counts)
    return {generation: dict(tally) for generation, tally in counts.items()}


def _added_by_batch(job: Job, tally: Counter[int]) -> bool:
    """Add up what the upserts have counted; False where the memo has let some of it go."""
    with job.ports.ledger.read() as session:
        batches = session.units.batches(job.run.id, "upsert")
        planned = session.records.count_added(job.slug, job.run.number)
    keys = [terms_key(job, batch) for batch in batches]
    for at in range(0, len(keys), KEYS_AT_ONCE):
        part = keys[at : at + KEYS_AT_ONCE]
        for data in job.ports.memo.get_many(part).values():
            documents, terms = decode_counts(data)
            tally.update(terms)
            tally[DOCUMENTS] += documents
    return tally[DOCUMENTS] == planned


def _count(job: Job, pages: Iterable[Sequence[RecordRow]], sign: int, counts: dict[int, Counter[int]]) -> None:
    """Count the terms of records that the index holds."""
    for page in pages:
        job.keep_going()
        for namespace in sorted({r.namespace for r in page}):
            ids = [r.id for r in page if r.namespace == namespace]
            stored = job.ports.index(job.slug).fetch(namespace, ids, vectors=True, metadata=False)
            terms, times = np.unique(stored.sparse.indices, return_counts=True)
            tally = counts.setdefault(generation_of(job, namespace), Counter())
            for term, n in zip(terms.tolist(), times.tolist(), strict=True):
                tally[term] += sign * n
            tally[DOCUMENTS] += sign * len(ids)


def generation_of(job: Job, namespace: str) -> int:
    """The generation that a chunk namespace of this context belongs to."""
    generation = int(namespace.rsplit(".", 2)[1][1:])
    assert chunk_namespace(job.slug, generation) == namespace
    return generation
