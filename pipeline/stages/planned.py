"""The planned additions of a batch, with the text that each embeds. Shared by the embed stages and upsert."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.drafts import Draft, context_line
from pipeline.errors import Corruption
from pipeline.fingerprint import text_hash
from pipeline.rows import RecordRow, WorkRow
from pipeline.stages.job import Job
from pipeline.stages.screen import screened
from pipeline.types import Metadata, RecordId, SourcePath, StoredRecords


@dataclass(frozen=True, slots=True)
class Planned:
    """One record that this run adds."""

    record: RecordRow
    metadata: Metadata
    embed_text: str
    embed_digest: str
    """SHA-256 of `embed_text`."""
    sources: tuple[str, ...]
    """What it is made of: a chunk of one source, an artifact of several."""

    @property
    def record_tokens(self) -> int:
        """Tokens of the chunk, by which progress is counted."""
        return int(self.metadata["tokens"])  # type: ignore[arg-type]  # every chunk's metadata holds the number


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """What this run adds for one source."""

    row: WorkRow
    written: tuple[Planned, ...]
    """Records with vectors of their own."""
    copied: tuple[RecordRow, ...]
    """Records whose vectors are those of `copy_of`, in the same namespace."""


def planned(job: Job) -> tuple[PlannedSource, ...]:
    """Every source of the batch that adds records, in path order.

    Once the dense stage has passed, a batch's plan doesn't change any more, and is kept for the stages behind it.
    """
    key = f"planned|{job.run.id}|{job.claim.batch}"
    held = job.cache.get(key) if job.claim.stage != "embed_dense" else None
    if isinstance(held, tuple):
        return held
    found = _load(job)
    if job.claim.stage != "embed_dense":
        job.cache.put(key, found, sum(len(p.embed_text) for source in found for p in source.written) // 8)
    return found


def _load(job: Job) -> tuple[PlannedSource, ...]:
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, job.claim.batch)
        added: dict[SourcePath, list[RecordRow]] = {}
        for record in session.records.added_for(job.slug, job.run.number, [row.path for row in rows]):
            added.setdefault(record.path, []).append(record)
        sources = {old for records in added.values() for r in records if (old := r.copy_of) is not None}
        copied_from = {r.id: r for r in session.records.get(job.slug, sorted(sources))}
    return tuple(_source(job, row, added[row.path], copied_from) for row in rows if row.path in added)


def _source(
    job: Job, row: WorkRow, records: Sequence[RecordRow], copied_from: dict[RecordId, RecordRow]
) -> PlannedSource:
    fresh = [r for r in records if r.copy_of is None]
    moved = [r for r in records if r.copy_of is not None and copied_from[r.copy_of].namespace != job.namespace]
    copied = tuple(r for r in records if r.copy_of is not None and copied_from[r.copy_of].namespace == job.namespace)
    written = [*_fresh(job, row, fresh), *_moved(job, moved, copied_from)]
    return PlannedSource(row, tuple(written), copied)


def _fresh(job: Job, row: WorkRow, records: Sequence[RecordRow]) -> list[Planned]:
    if not records:
        return []
    drafts: dict[str, Draft] = {d.content: d for d in screened(job, row).drafts}
    out = []
    for record in records:
        draft = drafts.get(record.content)
        if draft is None:
            raise Corruption("plan_mismatch", f"record {record.id} was planned from chunks that are different now")
        out.append(Planned(record, draft.metadata, draft.embed_text, draft.embed_digest, (record.path,)))
    return out


def _moved(job: Job, records: Sequence[RecordRow], copied_from: dict[RecordId, RecordRow]) -> list[Planned]:
    """Last good revisions that enter a new generation: the same text, embedded by the new model."""
    out = []
    for record in records:
        assert record.copy_of is not None
        old = copied_from[record.copy_of]
        stored: StoredRecords = job.ports.index(job.slug).fetch(old.namespace, [old.id], vectors=False, metadata=True)
        if not stored.ids:
            raise Corruption("record_missing", f"record {old.id} is listed but the index doesn't hold it")
        metadata = stored.metadata[0]
        headings = metadata.get("headings", ())
        lead = context_line(
            str(metadata.get("title", "")), headings if isinstance(headings, tuple) else (), job.recipe.context_tokens
        )
        text = f"{lead}{metadata.get('prefix', '')}{metadata['text']}"
        out.append(Planned(record, metadata, text, text_hash(text), (record.path,)))
    return out
