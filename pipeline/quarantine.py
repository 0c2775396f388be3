"""Quarantine: bytes that a pipeline can't take are tried once, whatever path, run or `--force` brings them again.

An entry stands for a hash of bytes, what their name hints at, and the part of the pipeline that refused them. Other bytes
or another pipeline are another entry, so that a change of either releases a source by itself. Faults that may cure
themselves (a provider, a vector, a file that was changing) never get here: they are retried at the next run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline import publish
from pipeline.errors import RejectedInput
from pipeline.fingerprint import fingerprint
from pipeline.inventory import RETRIED
from pipeline.ledger import Session
from pipeline.parse.languages import hint
from pipeline.ports import Ports
from pipeline.rows import QuarantineRow, WorkRow
from pipeline.types import ContextSlug, SourcePath

PAGE_ROWS = 1000
NAMED_MAX = 10
_OWN = re.compile(r"[0-9]+|'[^']*'|\"[^\"]*\"|\S*/\S*")
"""What differs from source to source in one error's text: numbers, quoted names, paths."""


def entry_id(digest: str, path: SourcePath, pipeline: str) -> str:
    """Of an entry."""
    return fingerprint("quarantine", digest, hint(path.rpartition("/")[2]), pipeline)[:32]


def error_fingerprint(code: str, reason: str, path: SourcePath) -> str:
    """The same for the same trouble of different sources."""
    plain = reason.replace(path.rpartition("/")[2], "…")
    return fingerprint("error", code, _OWN.sub("…", plain))[:12]


def entry_of(row: WorkRow, pipeline: str, now: float) -> QuarantineRow | None:
    """The entry for a source that failed; None where another attempt may cure it, or its bytes aren't known."""
    if row.status != "failed" or row.code in RETRIED or not row.hash:
        return None
    return QuarantineRow(
        entry_id(row.hash, row.path, pipeline),
        row.path,
        row.hash,
        pipeline,
        error_fingerprint(row.code, row.reason, row.path),
        row.code,
        row.reason,
        now,
    )


def entries(session: Session, slug: ContextSlug) -> Iterator[QuarantineRow]:
    """Every one of a context."""
    after = ""
    while True:
        page = session.quarantine.page(slug, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def listed(ports: Ports, slug: ContextSlug) -> tuple[QuarantineRow, ...]:
    """Every entry, the same trouble together, then by path.

    Raises:
        RejectedInput: no such context.
    """
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        found = list(entries(session, slug))
    return tuple(sorted(found, key=lambda row: (row.error, row.path, row.id)))


def past(ports: Ports, slug: ContextSlug, rows: Sequence[QuarantineRow]) -> frozenset[str]:
    """Ids of those that hold nothing back by now: in the live version their source has other bytes, is well, or is gone.

    They are kept, as the same bytes may come back, or come under another path.
    """
    with ports.ledger.read() as session:
        live = session.versions.get(slug, publish.require_context(session, slug).live_version)
        if live is None:
            return frozenset()
        found = session.sources.at_for(slug, live.number, [row.path for row in rows])
    failed = {(source.path, source.seen_hash) for source in found if source.status == "failed"}
    return frozenset(row.id for row in rows if row.since <= live.live_at and (row.path, row.hash) not in failed)


def release(ports: Ports, slug: ContextSlug, given: Sequence[str]) -> tuple[QuarantineRow, ...]:
    """Let sources be tried again at the next run; those released.

    Args:
        ports: the deployment.
        slug: the context.
        given: paths, folders, error fingerprints or ids of entries; empty for all.

    Raises:
        RejectedInput: no such context, or nothing in quarantine under one of them; then all stay.
    """
    held = listed(ports, slug)
    wanted = [[row for row in held if _meant(row, text)] for text in given] or [list(held)]
    for text, rows in zip(given, wanted, strict=False):
        if not rows:
            raise not_held(slug, text, held)
    chosen = {row.id: row for rows in wanted for row in rows}
    with ports.ledger.transaction("quarantine.release", slug) as session:
        session.quarantine.release(slug, sorted(chosen))
    return tuple(chosen.values())


def of_path(ports: Ports, slug: ContextSlug, path: str) -> tuple[QuarantineRow, ...]:
    """The entries that a source, an error or an id stands for.

    Raises:
        RejectedInput: no such context, or none.
    """
    held = listed(ports, slug)
    found = tuple(row for row in held if _meant(row, path))
    if not found:
        raise not_held(slug, path, held)
    return found


def not_held(slug: ContextSlug, text: str, held: Sequence[QuarantineRow]) -> RejectedInput:
    """The error for what isn't in quarantine."""
    shown = ", ".join(row.path for row in held[:NAMED_MAX]) or "nothing"
    return RejectedInput("not_quarantined", f"{text} is not in quarantine in {slug}", remedy=f"in quarantine: {shown}")


def _meant(row: QuarantineRow, text: str) -> bool:
    top = text.rstrip("/")
    return row.path == top or row.path.startswith(top + "/") or text in (row.error, row.id)
