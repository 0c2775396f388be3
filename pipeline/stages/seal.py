"""seal: the point of no return. One ledger transaction stamps every planned removal; only then is the index stamped.

If the pointer moved since the run was planned, its base is gone: it is abandoned, nothing having been stamped. From the
transaction on, whoever takes the run over rolls it forward; stamps are never taken back (DESIGN §5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pipeline import publish
from pipeline.codec import decode_counts
from pipeline.errors import Unavailable
from pipeline.ledger import Session
from pipeline.namespaces import DOCUMENTS, counts_key, counts_of
from pipeline.rows import RecordRow
from pipeline.stages.job import Job, Outcome
from pipeline.stages.upsert import terms_key
from pipeline.stages.verify import additions, removals

KEYS_AT_ONCE = 16
"""Batches whose counts are in memory together."""

PAIRS_AT_ONCE = 10_000
"""Counts turned into Python numbers at a time, on their way to the ledger."""


def seal(job: Job) -> Outcome:
    """Seal in the ledger, stamp the index, read the stamps back."""
    if job.run.state == "running":
        deltas = _count_deltas(job)
        with job.ports.ledger.transaction("seal", job.slug) as session:
            job.hold(session)
            spaces = (job.namespace, job.artifact_namespace)
            sealed = publish.seal(session, job.run, {g: t.pairs() for g, t in deltas.items()}, spaces)
            if sealed:  # decisions that an abandoned run has read are still to be taken up
                decided = json.loads(job.run.notes or "{}").get("decided", [])
                session.knowledge.apply_decisions(job.slug, decided, job.run.number)
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


@dataclass(slots=True)
class _Tally:
    """Document counts as two arrays: with a vocabulary's hundreds of thousands of terms a dict takes ten times the bytes."""

    terms: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    documents: int = 0

    def add(self, terms: npt.NDArray[np.uint32], counts: npt.NDArray[np.int64], documents: int) -> None:
        """Add counts, which may be negative."""
        self.terms, places = np.unique(np.concatenate((self.terms, terms)), return_inverse=True)
        both = np.concatenate((self.counts, counts))
        self.counts = np.zeros(len(self.terms), np.int64)
        np.add.at(self.counts, places, both)
        self.documents += documents

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(term, change) where there is one, the documents first."""
        yield DOCUMENTS, self.documents
        for at in range(0, len(self.terms), PAIRS_AT_ONCE):
            block = slice(at, at + PAIRS_AT_ONCE)
            yield from zip(self.terms[block].tolist(), self.counts[block].tolist(), strict=True)


def _count_deltas(job: Job) -> dict[int, _Tally]:
    """Generation to what it gains or loses: additions minus removals, also those of rolled-back versions."""
    added = _added_by_batch(job)
    tallies = added or {}
    if added is None:
        _count(job, additions(job), 1, tallies)
    _count(job, removals(job), -1, tallies)
    return tallies


def _added_by_batch(job: Job) -> dict[int, _Tally] | None:
    """The sums of what the upserts have counted; None where the memo has let some of it go."""
    with job.ports.ledger.read() as session:
        batches = session.units.batches(job.run.id, "upsert")
        planned = session.records.count_added(job.slug, job.run.number)
    chunks, artifacts = counts_key(job.run.generation, "chunks"), counts_key(job.run.generation, "artifacts")
    tallies: dict[int, _Tally] = {chunks: _Tally()}
    keys = [(terms_key(job, batch), artifacts if batch < 0 else chunks) for batch in batches]
    for at in range(0, len(keys), KEYS_AT_ONCE):
        some = dict(keys[at : at + KEYS_AT_ONCE])
        for key, counted in job.ports.memo.get_many(sorted(some)).items():
            tallies.setdefault(some[key], _Tally()).add(*decode_counts(counted))
    return tallies if sum(tally.documents for tally in tallies.values()) == planned else None


def _count(job: Job, pages: Iterable[Sequence[RecordRow]], sign: int, tallies: dict[int, _Tally]) -> None:
    """Count the terms of records that the index holds."""
    for page in pages:
        job.keep_going()
        for namespace in sorted({r.namespace for r in page}):
            ids = [r.id for r in page if r.namespace == namespace]
            stored = job.ports.index(job.slug).fetch(namespace, ids, vectors=True, metadata=False)
            terms, times = np.unique(stored.sparse.indices, return_counts=True)
            tallies.setdefault(counts_of(namespace), _Tally()).add(terms, sign * times, sign * len(ids))
