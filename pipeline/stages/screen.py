"""screen: chunks to the plan of records: what this version adds, keeps and removes, written to the ledger as intent.

Quality rules drop chunks that can't be found by anybody. What remains becomes drafts, and the drafts are diffed against
the OPEN records of their source, whatever the live pointer says (DESIGN §3). Sources that failed, and sources that a
rolled-back version left different from what is live, restate what is live.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pipeline.drafts import Draft, blob_key, draft_records, listing, listing_path
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint, restamp
from pipeline.ledger import Session
from pipeline.rows import FileRow, RecordRow, SourceRow, WorkRow
from pipeline.screen import screen as apply_rules
from pipeline.stages.chunk import chunked
from pipeline.stages.job import Job, Outcome, pipeline_fingerprint
from pipeline.types import OPEN, SourcePath
from pipeline.upsert import plan_records

RESTATED = frozenset({"failed"})
"""Statuses under which the last good revision stays. An empty or skipped file is what its owner made of it."""


@dataclass(frozen=True, slots=True)
class Screened:
    """One source after screening."""

    drafts: tuple[Draft, ...]
    rejected: Mapping[str, int]


def screen(job: Job) -> Outcome:
    """Screen, draft, and write the plan of the batch."""
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, job.claim.batch)
    tokens = 0
    plan: list[Wanted] = []
    for row in rows:
        job.keep_going()
        judged, found = _one(job, row) if row.status == "ok" else (row, Screened((), {}))
        tokens += sum(d.tokens for d in found.drafts)
        plan.append(Wanted(judged, {d.content: d for d in found.drafts}, listing(found.drafts)))
        job.report(row.size)
    return Outcome(lambda session: write_plan(job, session, plan), size=max(tokens, 1))


def _one(job: Job, row: WorkRow) -> tuple[WorkRow, Screened]:
    try:
        found = screened(job, row)
    except RejectedInput as error:
        return replace(row, status="failed", code=error.code, reason=error.message), Screened((), {})
    return replace(row, chunks=len(found.drafts), screened=canonical_json(dict(found.rejected))), found


def screened(job: Job, row: WorkRow) -> Screened:
    """Drafts of a source whose `chunk_key` is set; a pure function of it, the path and the recipe.

    Raises:
        RejectedInput: neither cache, memo nor source holds what is needed any more.
    """
    recipe = job.recipe.fingerprint()
    key = f"{row.chunk_key}|{row.path}|{recipe}"
    held = job.cache.get(key)
    if isinstance(held, Screened):
        return held
    documents = tuple(chunked(job, row).each(row.path))
    passed, rejected = apply_rules([chunk for _, chunks in documents for chunk in chunks], job.recipe.screen)
    verdicts = iter(passed)
    kept = [(facts, [chunk for chunk in chunks if next(verdicts)]) for facts, chunks in documents]
    drafts = draft_records(job.slug, kept, recipe=recipe, context_tokens=job.recipe.context_tokens)
    found = Screened(drafts, rejected)
    job.cache.put(key, found, 2 * sum(len(d.embed_text) for d in drafts))
    return found


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one source should be at this version; records by content fingerprint."""

    row: WorkRow
    drafts: Mapping[str, Draft]
    listing: bytes


def write_plan(job: Job, session: Session, plan: Iterable[Wanted]) -> None:
    """Diff every source against what is open and write the intent; an earlier attempt's plan is dropped first."""
    plan = tuple(plan)
    slug, number = job.slug, job.run.number
    paths = [w.row.path for w in plan]
    session.records.unplan(slug, job.run.id, number, paths)
    opened = _by_path(session.records.open_for(slug, paths), lambda r: r.path)
    live = _by_path(session.records.at_for(slug, job.run.base_version, paths), lambda r: r.path)
    rows = []
    for wanted in plan:
        path = wanted.row.path
        if wanted.row.status in RESTATED or wanted.row.change == "carry":
            restated = _restated(job, live.get(path, ()))
        else:
            restated = {content: _planned(job, path, draft) for content, draft in wanted.drafts.items()}
        decided = plan_records(restated, opened.get(path, ()))
        session.records.add(slug, decided.add)
        session.records.plan_removals(job.run.id, "record", [r.id for r in decided.remove])
        first = wanted.row.change == "new"
        created, updated = (len(decided.add), 0) if first else (0, len(decided.add))
        rows.append(replace(wanted.row, chunks_created=created, chunks_updated=updated, fingerprint=_fingerprint(job)))
    plan_sources(job, session, rows)
    _plan_files(job, session, plan)
    session.work.update(job.run.id, rows)


def _fingerprint(job: Job) -> str:
    return pipeline_fingerprint(job.manifest, job.recipe)


def _planned(job: Job, path: SourcePath, draft: Draft) -> RecordRow:
    return RecordRow(
        draft.record_id(path, job.run.number),
        draft.logical_id,
        path,
        draft.position,
        draft.content,
        job.namespace,
        job.run.number,
    )


def _restated(job: Job, live: Iterable[RecordRow]) -> dict[str, RecordRow]:
    """What is live, as planned records with its vectors, or with new ones where the generation is new."""
    out = {}
    for row in live:
        # Under a new generation the content is other content, as a record's vectors are part of what it says.
        content = row.content if row.namespace == job.namespace else fingerprint("moved", row.content, job.namespace)
        out[content] = replace(
            row,
            id=restamp(row.id, job.run.number),
            content=content,
            namespace=job.namespace,
            added=job.run.number,
            removed=OPEN,
            copy_of=row.id,
        )
    return out


Row = TypeVar("Row")


def _by_path(rows: Iterable[Row], path: Callable[[Row], SourcePath]) -> dict[SourcePath, tuple[Row, ...]]:
    groups: dict[SourcePath, list[Row]] = defaultdict(list)
    for row in rows:
        groups[path(row)].append(row)
    return {key: tuple(group) for key, group in groups.items()}


def plan_sources(job: Job, session: Session, rows: Iterable[WorkRow]) -> None:
    """Plan the sources' states, in place of what was planned for them before."""
    rows = tuple(rows)
    paths = [row.path for row in rows]
    session.records.unplan_sources(job.slug, job.run.id, job.run.number, paths)
    opened = {row.path: row for row in session.sources.open_for(job.slug, paths)}
    live = {row.path: row for row in session.sources.at_for(job.slug, job.run.base_version, paths)}
    add, remove = [], []
    for row in rows:
        wanted, held = _source(job, row, live.get(row.path)), opened.get(row.path)
        if wanted is not None and held is not None and _says(wanted) == _says(held):
            continue
        if held is not None:
            remove.append(row.path)
        if wanted is not None:
            add.append(wanted)
    session.sources.add(job.slug, add)
    session.records.plan_removals(job.run.id, "source", remove)


def _source(job: Job, row: WorkRow, live: SourceRow | None) -> SourceRow | None:
    number, now = job.run.number, job.ports.clock.now()
    if row.change == "deleted":
        return None
    if row.change == "carry":
        return live and replace(live, added=number, removed=OPEN)
    good, chunks, curated_at, warnings = row.hash, row.chunks, now, row.warnings
    if row.status in RESTATED and live is not None:
        good, chunks, curated_at, warnings = live.hash, live.chunks, live.curated_at, live.warnings
    elif row.status != "ok":
        good, chunks, warnings = "", 0, ""
    planned = SourceRow(
        row.path,
        good,
        row.hash,
        row.size,
        row.mtime_ns,
        row.status,
        row.code,
        row.reason,
        row.fingerprint,
        chunks,
        curated_at,
        number,
        warnings=warnings,
        artifact_status=row.artifact_status,
        artifact_reason=row.artifact_reason,
        artifact_key=row.artifact_key,
    )
    if live is None or row.artifact_status == "ok" or row.status in ("empty", "skipped"):
        return planned
    # Extraction didn't run, or failed: the listed statements are those of before, whatever became of the chunks.
    return replace(
        planned,
        artifact_status=row.artifact_status or live.artifact_status,
        artifact_reason=row.artifact_reason or live.artifact_reason,
        artifact_key=live.artifact_key,
    )


def _says(row: SourceRow) -> tuple[object, ...]:
    return (
        row.hash,
        row.seen_hash,
        row.status,
        row.code,
        row.reason,
        row.fingerprint,
        row.chunks,
        row.warnings,
        row.artifact_status,
        row.artifact_reason,
        row.artifact_key,
    )


def _plan_files(job: Job, session: Session, plan: Iterable[Wanted]) -> None:
    plan = tuple(plan)
    paths = [w.row.path for w in plan]
    opened = _by_path(session.files.open_for(job.slug, paths), lambda r: r.source)
    live = _by_path(session.files.at_for(job.slug, job.run.base_version, paths), lambda r: r.source)
    add: list[FileRow] = []
    remove: list[str] = []
    for wanted in plan:
        path = wanted.row.path
        files: dict[str, tuple[str, int]] = {}
        if wanted.row.status in RESTATED or wanted.row.change == "carry":
            files = {f.path: (f.blob, f.size) for f in live.get(path, ())}
        elif wanted.listing:
            files = {listing_path(path): (blob_key(wanted.listing), len(wanted.listing))}
        held = {f.path: (f.blob, f.size) for f in opened.get(path, ())}
        remove += [name for name, blob in held.items() if files.get(name) != blob]
        add += [FileRow(name, path, *blob, job.run.number) for name, blob in files.items() if held.get(name) != blob]
    session.files.add(job.slug, add)
    session.records.plan_removals(job.run.id, "file", remove)
