"""parse: source bytes to a parsed document in the memo. The bytes parsed are the bytes hashed.

One bad source never stops the others: it gets a status, a code and a sentence, and the batch goes on.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.errors import RejectedInput
from pipeline.fingerprint import content_hash, fingerprint
from pipeline.ledger import Session, StatRow, WorkRow
from pipeline.parse import wire
from pipeline.ports import SourceStat
from pipeline.stages.inventory import unread_hash
from pipeline.stages.job import Job, Outcome
from pipeline.types import ParsedDocument, SourcePath

READ = frozenset({"new", "changed", "stale", "retry"})
"""Changes that read the source; the others need no bytes."""

STATUS = {"unsupported": "skipped", "empty_file": "skipped", "no_text": "empty"}
"""Codes of refusal that are not failures."""


def parse(job: Job) -> Outcome:
    """Parse what the memo doesn't hold yet."""
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, job.claim.batch)
    done: list[WorkRow] = []
    stats: dict[SourcePath, StatRow] = {}
    for row in rows:
        if row.change in READ:
            job.keep_going()
            done.append(_one(job, row, stats))
            job.report(row.size)

    def write(session: Session) -> None:
        session.work.update(job.run.id, done)
        session.sources.remember_stats(job.slug, stats)

    return Outcome(write, size=job.claim.size)


def _one(job: Job, row: WorkRow, stats: dict[SourcePath, StatRow]) -> WorkRow:
    try:
        data, stat = job.ports.sources(job.context).read(row.path, job.ports.limits.source_bytes)
    except RejectedInput as error:
        unread = SourceStat(row.path, row.size, row.mtime_ns, row.mtime_ns)
        return _refused(replace(row, hash=unread_hash(unread, error.code)), error)
    digest = content_hash(data)
    stats[row.path] = StatRow(stat.size, stat.mtime_ns, stat.change_ns, digest, job.ports.clock.now())
    row = replace(row, hash=digest, size=stat.size, mtime_ns=stat.mtime_ns)
    key = parse_key(job, row.path, digest)
    try:
        if key not in job.ports.memo.get_many([key]):
            _remember(job, key, job.ports.parser.parse(data, _name(row.path)))
    except RejectedInput as error:
        return _refused(row, error)
    return replace(row, status="ok", parse_key=key, code="", reason="")


def parsed(job: Job, row: WorkRow) -> ParsedDocument:
    """The parsed document behind `row.parse_key`; parsed again if neither cache nor memo holds it.

    Raises:
        RejectedInput: the source is gone, or holds other bytes by now.
    """
    held = job.cache.get(row.parse_key)
    if isinstance(held, ParsedDocument):
        return held
    found = job.ports.memo.get_many([row.parse_key]).get(row.parse_key)
    if found is not None:
        return wire.decode(found)
    data, _stat = job.ports.sources(job.context).read(row.path, job.ports.limits.source_bytes)
    if content_hash(data) != row.hash:
        raise RejectedInput("changing", f"{row.path} changed while the run was under way", remedy="run again")
    return _remember(job, row.parse_key, job.ports.parser.parse(data, _name(row.path)))


def parse_key(job: Job, path: SourcePath, digest: str) -> str:
    """Memo key: the bytes, the name's ending (a hint for the format) and the parsers."""
    name = _name(path)
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    return fingerprint("parse", digest, ending, job.recipe.parser)


def _remember(job: Job, key: str, document: ParsedDocument) -> ParsedDocument:
    job.ports.memo.put_many({key: wire.encode(document)})
    job.cache.put(key, document, len(document.text))
    return document


def _name(path: SourcePath) -> str:
    return path.rpartition("/")[2]


def _refused(row: WorkRow, error: RejectedInput) -> WorkRow:
    return replace(row, status=STATUS.get(error.code, "failed"), code=error.code, reason=error.message, parse_key="")
