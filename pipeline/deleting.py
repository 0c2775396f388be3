"""Sources deleted from a context, whatever stands in its folder: tombstones, and a small run that removes what they left.

A tombstone names a path and the hash of the bytes that are unwanted there. Every curate keeps to it: a file with those
bytes stays out, one with others comes in and ends the tombstone. It is written before the run, so that a deletion that
was cut short is carried out by whichever run comes next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline import collecting, publish, purging
from pipeline.errors import RejectedInput
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.request import CurateRequest
from pipeline.rows import SourceRow
from pipeline.types import ContextSlug, SourcePath

PAGE_ROWS = 1000
"""Ledger rows at a time."""
NAMED_MAX = 10
"""Paths that one message lists."""


def bury(ports: Ports, slug: ContextSlug, given: Sequence[str], *, purge: bool = False) -> tuple[SourcePath, ...]:
    """Put tombstones on live sources; those that are meant, by path.

    Args:
        ports: the deployment.
        slug: the context.
        given: paths of sources as the ledger writes them, or folders of such.
        purge: ask for their purge as well, also of sources that are no longer live.

    Raises:
        RejectedInput: no such context, or nothing under a path that is live, or for a purge, kept or recorded; then
            nothing is deleted.
    """
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
        found = [list(_meant(session, slug, context.live_version, text)) for text in given]
        old = [list(_ever(session, slug, text)) if purge else [] for text in given]
    for text, live, earlier in zip(given, found, old, strict=True):
        if not (live or earlier):
            raise RejectedInput(
                "no_source",
                f"{slug} shows no source {text}, and none below it",
                remedy=f"give paths as `lamina sources {slug}` shows them, or folders of such",
            )
    hashes = {row.path: row.seen_hash for rows in found for row in rows}
    doomed = tuple(sorted({*hashes, *(path for paths in old for path in paths)}))
    with ports.ledger.transaction("sources.bury", slug) as session:
        session.sources.bury(slug, hashes, ports.clock.now())
        if purge:
            session.purges.ask(slug, doomed, ports.clock.now())
    return doomed


def unearth(ports: Ports, slug: ContextSlug, given: Sequence[str]) -> tuple[SourcePath, ...]:
    """Take tombstones back; what they kept out comes in with the next curate. The paths, in order.

    Raises:
        RejectedInput: no such context, or no tombstone under a path; then all stay.
    """
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        held = list(_tombstones(session, slug))
    wanted = [[path for path in held if _under(path, text)] for text in given]
    for text, paths in zip(given, wanted, strict=True):
        if not paths:
            shown = ", ".join(held[:NAMED_MAX]) or "none"
            raise RejectedInput("no_tombstone", f"{text} was not deleted from {slug}", remedy=f"deleted ones: {shown}")
    back = tuple(sorted({path for some in wanted for path in some}))
    with ports.ledger.transaction("sources.unearth", slug) as session:
        session.sources.unmark_removed(slug, back)
    return back


def request(slug: ContextSlug) -> CurateRequest:
    """The run that removes what was deleted, and reads no other source."""
    return CurateRequest(slug, allow_empty=True, buried_only=True, trigger="delete")


def any_live(ports: Ports, slug: ContextSlug, paths: Sequence[SourcePath]) -> bool:
    """Whether a run has anything to remove: old sources are purged without one."""
    with ports.ledger.read() as session:
        live = publish.require_context(session, slug).live_version
        return any(
            session.sources.at_for(slug, live, paths[at : at + PAGE_ROWS]) for at in range(0, len(paths), PAGE_ROWS)
        )


def purge_rest(ports: Ports, slug: ContextSlug) -> None:
    """Carry out what of a purge no run has carried out: one that found nothing to delete clears nothing away.

    Raises:
        Conflict: code `run_active`: a run is at work, which will do it.
    """
    if purging.standing(ports, slug).pending:
        collecting.collect(ports, slug)


def _meant(session: Session, slug: ContextSlug, version: int, text: str) -> Iterator[SourceRow]:
    exact = session.sources.at_for(slug, version, [SourcePath(text)])
    if exact:
        yield from exact
        return
    after = ""
    while True:
        page = session.sources.page(slug, version, after, PAGE_ROWS)
        yield from (row for row in page if _under(row.path, text))
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _ever(session: Session, slug: ContextSlug, text: str) -> Iterator[SourcePath]:
    """Paths that are meant, of every version kept or recorded, and deleted ones."""
    after = ""
    while page := session.sources.ever(slug, after, PAGE_ROWS):
        yield from (path for path in page if _under(path, text))
        after = page[-1]
    yield from (path for path in _tombstones(session, slug) if _under(path, text))


def _tombstones(session: Session, slug: ContextSlug) -> Iterator[SourcePath]:
    after = ""
    while True:
        page = session.sources.buried(slug, after, PAGE_ROWS)
        yield from (path for path, _ in page)
        if len(page) < PAGE_ROWS:
            return
        after = page[-1][0]


def _under(path: str, text: str) -> bool:
    top = text.rstrip("/")
    return path == top or path.startswith(top + "/")
