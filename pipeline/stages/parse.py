"""parse: source bytes to a parsed document in the memo. The bytes parsed are the bytes hashed.

One bad source never stops the others: it gets a status, a code and a sentence, and the batch goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline import quarantine, recording
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import content_hash
from pipeline.ledger import Session
from pipeline.parse import wire
from pipeline.rows import StatRow, WorkRow
from pipeline.stages.inventory import unread_hash
from pipeline.stages.job import Job, Outcome, pipeline_fingerprint
from pipeline.types import Origins, ParsedDocument, SourcePath

READ = frozenset({"new", "changed", "stale", "retry"})
"""Changes that read the source; the others need no bytes."""

UNSAVED_BYTES_MAX = 1_000_000
"""Parsed bytes that a crash may cost: what is kept back to be stored in one call."""

STATUS = {"unsupported": "skipped", "empty_file": "skipped", "no_text": "empty"}
"""Codes of refusal that are not failures."""


def parse(job: Job) -> Outcome:
    """Parse what the memo doesn't hold yet."""
    with job.ports.ledger.read() as session:
        rows = [
            row
            for row in session.work.batch(job.run.id, job.claim.batch)
            if row.change in READ and row.status != "failed"
        ]
    stats: dict[SourcePath, StatRow] = {}
    read = [_read(job, row, stats) for row in rows]
    read, spared = _spared(job, read)
    held = job.ports.memo.get_many(sorted({row.parse_key for row, _ in read if row.parse_key}))
    fresh: dict[str, bytes] = {}
    done = []
    for row, data in read:
        job.keep_going()
        done.append(_one(job, row, data, held, fresh))
        job.report(row.size)
    job.ports.memo.put_many(fresh, _origins(job, [row for row, _ in read]))
    _retain(job, done, {row.path: data for row, data in read})

    refused = [quarantine.entry_of(row, job.recipe.parser, job.ports.clock.now()) for row in done]

    def write(session: Session) -> None:
        session.work.update(job.run.id, done)
        session.sources.remember_stats(job.slug, stats)
        session.quarantine.spare(job.slug, spared)
        session.quarantine.put(job.slug, [entry for entry in refused if entry is not None])

    return Outcome(write, size=job.claim.size)


def _retain(job: Job, done: Sequence[WorkRow], data: Mapping[SourcePath, bytes]) -> None:
    """Keep the bytes of what parsed, where the deployment wants them kept. A batch's bytes are bounded by settings."""
    if job.ports.limits.retain_sources:
        kept = {recording.retained_key(row.hash): data[row.path] for row in done if row.status == "ok"}
        job.ports.objects(job.slug).put_many({key: value for key, value in kept.items() if value})


def _spared(job: Job, read: Sequence[tuple[WorkRow, bytes]]) -> tuple[list[tuple[WorkRow, bytes]], list[str]]:
    """The rows, those in quarantine as failed before they are tried; and the ids of the entries."""
    pipelines = (job.recipe.parser, pipeline_fingerprint(job.manifest, job.recipe))
    ids = {
        row.path: [quarantine.entry_id(row.hash, row.path, p) for p in pipelines] for row, _ in read if row.parse_key
    }
    with job.ports.ledger.read() as session:
        found = session.quarantine.held(job.slug, sorted({id_ for some in ids.values() for id_ in some}))
    held = {entry.id: entry for entry in found}
    out: list[tuple[WorkRow, bytes]] = []
    spared: set[str] = set()
    for row, data in read:
        entry = next((held[id_] for id_ in ids.get(row.path, ()) if id_ in held), None)
        if entry is None:
            out.append((row, data))
            continue
        spared.add(entry.id)
        out.append((replace(row, status="failed", code=entry.code, reason=entry.reason, parse_key=""), b""))
    return out, sorted(spared)


def _read(job: Job, row: WorkRow, stats: dict[SourcePath, StatRow]) -> tuple[WorkRow, bytes]:
    """The row with the hash of the bytes that are parsed, and the bytes. A batch's bytes are bounded by settings."""
    try:
        data, stat = job.ports.sources(job.context).read(row.path, job.ports.limits.source_bytes)
    except RejectedInput as error:
        unread = SourceStat(row.path, row.size, row.mtime_ns, row.mtime_ns)
        return _refused(replace(row, hash=unread_hash(unread, error.code)), error), b""
    digest = job.ports.recorded(row.path) or content_hash(data)
    stats[row.path] = StatRow(stat.size, stat.mtime_ns, stat.change_ns, digest, job.ports.clock.now())
    key = recording.parse_key(row.path, digest, job.recipe.parser)
    return replace(row, hash=digest, size=stat.size, mtime_ns=stat.mtime_ns, status="", parse_key=key), data


def _one(job: Job, row: WorkRow, data: bytes, held: Mapping[str, bytes], fresh: dict[str, bytes]) -> WorkRow:
    if not row.parse_key:
        return row  # it could not be read
    try:
        if row.parse_key not in held and row.parse_key not in fresh:
            document = job.ports.parser.parse(data, _name(row.path))
            row = replace(row, job=job.ports.parser.last_job())
            fresh[row.parse_key] = wire.encode(document)
            size = len(document.text) + sum(len(part.document.text) for part in document.parts)
            job.cache.put(row.parse_key, document, size)
    except RejectedInput as error:
        return _refused(replace(row, job=job.ports.parser.last_job()), error)
    if sum(map(len, fresh.values())) > UNSAVED_BYTES_MAX:
        job.ports.memo.put_many(fresh, {key: job.origins([row.path]) for key in fresh})
        fresh.clear()
    return replace(row, status="ok", code="", reason="")


def parsed(job: Job, row: WorkRow) -> ParsedDocument:
    """The parsed document behind `row.parse_key`; parsed again if neither cache nor memo holds it.

    Raises:
        RejectedInput: the source is gone, or holds other bytes by now.
    """
    held = job.cache.take(row.parse_key)
    if isinstance(held, ParsedDocument):
        return held
    found = job.ports.memo.get_many([row.parse_key]).get(row.parse_key)
    if found is not None:
        return wire.decode(found)
    data, _stat = job.ports.sources(job.context).read(row.path, job.ports.limits.source_bytes)
    if content_hash(data) != row.hash:
        raise RejectedInput("changing", f"{row.path} changed while the run was under way", remedy="run again")
    document = job.ports.parser.parse(data, _name(row.path))
    job.ports.memo.put_many({row.parse_key: wire.encode(document)}, _origins(job, [row]))
    return document


def _origins(job: Job, rows: Sequence[WorkRow]) -> Origins:
    """What each parsed text comes from, also where the memo had it from another source with the same bytes."""
    paths: dict[str, list[SourcePath]] = {}
    for row in rows:
        if row.parse_key:
            paths.setdefault(row.parse_key, []).append(row.path)
    return {key: job.origins(some) for key, some in paths.items()}


def _name(path: SourcePath) -> str:
    return path.rpartition("/")[2]


def _refused(row: WorkRow, error: RejectedInput) -> WorkRow:
    return replace(row, status=STATUS.get(error.code, "failed"), code=error.code, reason=error.message, parse_key="")
