"""What is live, and the only ways in which that changes.

Invariants, and what a crash after each step leaves behind:

1. Additions are listed in the ledger (intent) before the index holds them. A crash leaves rows that no reader's version
   sees; a resumed run writes them again under the same ids, an abandoned one turns the listings into tombstones.
2. `seal` sets `removed` on every planned row and counts the terms, in one transaction under (live version, epoch, run
   fence). A crash before it leaves nothing removed. A crash after it leaves index stamps to be set: rolled forward.
3. `flip` moves the pointer, in one transaction under the same three. A crash before it: readers still see the old
   version, to which stamps of a higher number mean nothing. A crash after it: readers see the new one; the rest is tidying.
4. A flip that finds the pointer moved retires the version: its number never goes live; its additions, stamps and counts
   stay, and the next plan treats them like any other.
5. `reclaim` marks versions unreadable, then delists, in one transaction; only then does it delete. A crash leaves
   tombstones, which the next sweep erases. Rows under tombstones are invisible at once: readers check the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice

from pipeline import recording
from pipeline.errors import Conflict, Corruption, RejectedInput
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.rows import BLOBS, RUN_ACTIVE, ContextRow, FileRow, RunRow
from pipeline.types import ContextSlug, Namespace, RunId

PAGE_ROWS = 1000
"""Rows handled at a time by sweep and view."""


def require_run(session: Session, run: RunId) -> RunRow:
    """The run.

    Raises:
        RejectedInput: there is no such run.
    """
    found = session.runs.get(run)
    if found is None:
        raise RejectedInput("no_run", f"there is no run {run}", remedy="see: lamina runs CONTEXT")
    return found


def require_context(session: Session, slug: ContextSlug) -> ContextRow:
    """The context's row.

    Raises:
        RejectedInput: code `no_context`.
    """
    row = session.contexts.get(slug)
    if row is None:
        known = ", ".join(c.slug for c in session.contexts.list()) or "none yet"
        raise RejectedInput("no_context", f"there is no context {slug!r}", remedy=f"contexts: {known}")
    return row


def pointer_stands(session: Session, run: RunRow) -> bool:
    """Whether the live pointer is where it was when the run was planned."""
    context = require_context(session, run.context)
    return (context.live_version, context.epoch) == (run.base_version, run.base_epoch)


def seal(
    session: Session, run: RunRow, deltas: Mapping[int, Iterable[tuple[int, int]]], namespaces: Collection[Namespace]
) -> bool:
    """Stamp the plan in the ledger; False, with nothing written, when the pointer has moved.

    Args:
        session: a write block in which the caller has proved its fence.
        run: as it was when its unit was claimed.
        deltas: counts key (see `namespaces`) to (term, change of document count).
        namespaces: where every record of the version must stand.

    Raises:
        Corruption: code `two_generations`: readers of the version would miss records.
    """
    if not pointer_stands(session, run):
        return False
    session.records.stamp_planned(run.context, run.id, run.number)
    for generation, changes in deltas.items():
        session.records.add_counts(run.context, generation, run.number, changes)
    session.versions.set_state(run.context, run.number, "sealed")
    shown = session.records.visible(run.context, run.number)
    strays = sum(n for space, n in shown.items() if space not in namespaces)
    if strays:
        raise Corruption(
            "two_generations",
            f"version {run.number} would show {strays} records that stand outside {' and '.join(namespaces)}",
            remedy=f"lamina cancel {run.id}, then curate again; report this",
        )
    session.versions.set_records(run.context, run.number, sum(shown.values()))
    session.runs.set_state(run.id, "sealed", run.active_at)
    return True


def flip(session: Session, run: RunRow, now: float, output: str) -> None:
    """Make the run's version live, or retire it when the pointer has moved since the seal."""
    if pointer_stands(session, run):
        session.contexts.move(run.context, run.number, run.id, now)
        session.runs.set_state(run.id, "flipped", now, output=output)
        return
    session.versions.set_state(run.context, run.number, "retired")
    session.runs.set_state(
        run.id, "retired", now, error="the live version was moved after this one was sealed; it never goes live"
    )


def abandon(session: Session, run: RunRow, now: float, *, state: str, error: str = "", output: str = "") -> None:
    """End a run before its seal: delist what it added. The number is never used again."""
    assert run.state == "running", "a sealed run can only go forward"
    if run.number:
        session.records.delist_additions(run.context, run.number, now)
        session.versions.set_state(run.context, run.number, "abandoned")
    session.runs.set_state(run.id, state, now, output=output, error=error)


MOVED = "the live version was moved while the run was under way"


def end_unchanged(session: Session, run: RunRow, now: float, output: str) -> None:
    """End a run that found nothing to write. What it compared with must still be live, or it has said nothing."""
    if pointer_stands(session, run):
        abandon(session, run, now, state="noop", output=output)
    else:
        abandon(session, run, now, state="abandoned", error=MOVED)


def kept_versions(session: Session, slug: ContextSlug, keep: int, now: float) -> frozenset[int]:
    """The live version, the `keep` most recently live ones by pointer moves, every pinned one, and what is published.

    Of recent ones that hold purged sources, none.
    """
    live = require_context(session, slug).live_version
    purged = session.purges.holding(slug)
    recent = dict.fromkeys(move.version for move in session.contexts.moves(slug) if move.version not in purged)
    pinned = {pin.version for pin in session.versions.pins(slug) if now < pin.until}
    return frozenset({live, *islice(recent, keep), *pinned, *session.publications.versions(slug)})


def reclaim(ports: Ports, slug: ContextSlug, hold: Callable[[Session], None]) -> int:
    """Mark versions unreadable and delist what only they saw, in one transaction. Records delisted.

    Args:
        ports: the deployment.
        slug: the context.
        hold: proves the caller's claim inside the transaction.
    """
    now = ports.clock.now()
    with ports.ledger.transaction("reclaim", slug) as session:
        hold(session)
        for pin in session.versions.pins(slug):
            if pin.until <= now:
                session.versions.unpin(slug, pin.id)
        session.purges.mark(slug, session.purges.holding(slug))
        session.versions.mark_unreadable(slug, kept_versions(session, slug, ports.limits.keep_versions, now))
        first = recording.first_recorded(session, slug, ports.limits.keep_runs)
        delisted = session.records.reclaim(slug, first, now)
        session.knowledge.forget_names(slug)
        return delisted


def sweep(ports: Ports, slug: ContextSlug) -> int:
    """Erase everything under a tombstone, again if need be; drop tombstones past the longest late write. Ids erased."""
    erased, after = 0, ""
    while True:
        with ports.ledger.read() as session:
            page = session.records.tombstones(slug, after, PAGE_ROWS)
        for namespace in sorted({namespace for namespace, _ in page}):
            ids = [record for space, record in page if space == namespace]
            if namespace == BLOBS:
                ports.objects(slug).delete_many(ids)
            else:
                ports.index(slug).delete(namespace, ids)
        erased += len(page)
        if len(page) < PAGE_ROWS:
            break
        after = page[-1][1]
    horizon = ports.clock.now() - 3 * (ports.limits.late_write_s + ports.limits.lease_s)
    with ports.ledger.transaction("sweep", slug) as session:
        session.records.drop_tombstones(slug, horizon)
    return erased


def restamp(ports: Ports, slug: ContextSlug) -> int:
    """Set index stamps that a late write took back, for every closed record still listed. Stamps set."""
    fixed = 0
    with ports.ledger.read() as session:
        versions = [v.number for v in session.versions.list(slug) if v.state in ("sealed", "live", "retired")]
    for number in versions:
        after = ""
        while True:
            with ports.ledger.read() as session:
                page = session.records.page_removed(slug, number, after, PAGE_ROWS)
            for namespace in sorted({r.namespace for r in page}):
                ids = [r.id for r in page if r.namespace == namespace]
                stored = ports.index(slug).fetch(namespace, ids, vectors=False, metadata=False)
                wrong = [i for i, removed in zip(stored.ids, stored.removed, strict=True) if removed != number]
                ports.index(slug).stamp(namespace, wrong, number)
                fixed += len(wrong)
            if len(page) < PAGE_ROWS:
                break
            after = page[-1].id
    return fixed


def move_to(session: Session, slug: ContextSlug, version: int | None, run: RunRow, now: float) -> int:
    """Roll back or redo: the pointer moves to a readable version, nothing else changes. The version now live.

    Args:
        session: a write block.
        slug: the context.
        version: where to; None for the one that was live before the current one.
        run: the recorded run that does it.
        now: the time.

    Raises:
        RejectedInput: no such version, not readable any more, or live already.
    """
    context = require_context(session, slug)
    purged = session.purges.holding(slug)
    readable = [v.number for v in session.versions.list(slug) if v.readable and v.number not in purged]
    if version is None:
        earlier = [
            m.version
            for m in session.contexts.moves(slug)
            if m.version != context.live_version and m.version in readable
        ]
        if not earlier:
            raise RejectedInput(
                "no_earlier_version",
                f"{slug} has no earlier version to go back to",
                remedy="see: lamina versions " + slug,
            )
        version = earlier[0]
    if version == context.live_version:
        raise RejectedInput(
            "already_live", f"version {version} of {slug} is live already", remedy="see: lamina versions " + slug
        )
    if version not in readable:
        listed = ", ".join(map(str, sorted(readable))) or "none"
        raise RejectedInput(
            "not_readable", f"version {version} of {slug} can't be read (any more)", remedy=f"readable: {listed}"
        )
    session.contexts.move(slug, version, run.id, now)
    return version


def require_readable(session: Session, slug: ContextSlug, version: int) -> None:
    """Raise `RejectedInput` for a version that never was, `Conflict` `version_gone` for one that can't be read any more."""
    row = session.versions.get(slug, version)
    if row is None:
        raise RejectedInput("no_version", f"{slug} has no version {version}", remedy="see: lamina versions " + slug)
    if not row.readable:
        raise Conflict(
            "version_gone",
            f"version {version} of {slug} can't be read (any more)",
            remedy="see: lamina versions " + slug,
        )


def cancel(session: Session, run: RunRow, now: float) -> str:
    """Abandon an active run before its seal; past it, say that it rolls forward. The state it has afterwards."""
    if run.state not in RUN_ACTIVE:
        raise RejectedInput("run_ended", f"run {run.id} has ended already: {run.state}", remedy="nothing to do")
    if run.state == "running":
        abandon(session, run, now, state="abandoned", error="cancelled")
        return "abandoned"
    session.runs.request_cancel(run.id)
    return run.state


def refresh_view(ports: Ports, slug: ContextSlug) -> bool:
    """Bring the knowledge folder to the live version, at the cost of what differs. False where names didn't fit."""
    view, whole = ports.view(slug), True
    while True:  # again where the pointer moved meanwhile: this process may have slept and written over somebody's work
        with ports.ledger.read() as session:
            live = require_context(session, slug).live_version
            shown = view.shown()
            row = session.versions.get(slug, shown)
        if shown == live:
            return whole
        view.begin()
        try:
            if shown and (row is None or not row.readable):  # cut short, or its files were reclaimed since
                view.clear()
                shown = 0
            whole = _show_changes(ports, slug, shown, live)
        except BaseException:
            view.begin()  # whatever anybody has marked since: what stands there now isn't a whole version
            raise
        view.end(live)


def _show_changes(ports: Ports, slug: ContextSlug, shown: int, live: int) -> bool:
    whole, after = True, ""
    while True:
        with ports.ledger.read() as session:
            page = session.files.changed_between(slug, shown, live, after, PAGE_ROWS)
        full = len(page) == PAGE_ROWS
        if full:  # the two rows of one path may stand on both sides of the cut: leave that path to the next page
            page = tuple(row for row in page if row.path != page[-1].path)
        whole &= _show(ports, slug, page, live)
        if not full:
            return whole
        after = page[-1].path


def _show(ports: Ports, slug: ContextSlug, page: tuple[FileRow, ...], live: int) -> bool:
    view, whole = ports.view(slug), True
    there = {row.path for row in page if row.added <= live < row.removed}
    for path in sorted({row.path for row in page} - there):
        view.remove(path)
    for row in page:
        if row.path in there and row.added <= live < row.removed:
            whole &= view.write(row.path, ports.objects(slug).get(row.blob))
    return whole
