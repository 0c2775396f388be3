"""Purges: what stood in deleted sources is erased from everything that keeps it, not just hidden from readers.

A deletion takes a source out of the live version; versions that are kept still show it, the memo and recordings still know
it. A purge erases those as well. It is asked for in the ledger, together with the deletion, and carried out by every
`reclaim` until nothing is left: versions that hold the source become unreadable, but for pinned ones, which wait for their
pins; memo entries go that come from the source and nowhere else, or from it among others together; kept bytes go with the
rows that name them; at last the index is written anew without what stood behind deleted records.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import publish, recording
from pipeline.fingerprint import canonical_json
from pipeline.ports import Ports
from pipeline.rows import RUN_ACTIVE
from pipeline.types import ContextSlug, SourcePath

PAGE_ROWS = 1000
RUNS_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Standing:
    """How far purges are."""

    unavailable: tuple[int, ...]
    """Versions that held purged sources and can't be read any more."""
    pinned: tuple[tuple[int, float], ...]
    """Versions that hold purged sources and until when a pin, seconds since the epoch, keeps them readable."""
    pending: int
    """Sources whose purge is not at its end."""


def carry_out(ports: Ports, slug: ContextSlug) -> None:
    """Erase what is left of sources under purge, once `publish.reclaim` has delisted what may go. May be repeated.

    Raises:
        Unavailable: a store doesn't answer; the purge stays asked for.
    """
    after, any_ = "", False
    while True:
        with ports.ledger.read() as session:
            paths = session.purges.wanted(slug, after, PAGE_ROWS)
        if paths:
            any_ = True
            _erase(ports, slug, paths)
        if len(paths) < PAGE_ROWS:
            break
        after = paths[-1]
    if not any_:
        return
    _reword(ports, slug)
    recording.clear_retained(ports, slug)
    with ports.ledger.read() as session:
        done = session.purges.done(slug)
    if done:
        ports.index(slug).shrink(erase=True)
        with ports.ledger.transaction("purge.finish", slug) as session:
            session.purges.finish(slug)


def _erase(ports: Ports, slug: ContextSlug, paths: Sequence[SourcePath]) -> None:
    ports.memo.forget([recording.origin(slug, path) for path in paths])
    with ports.ledger.transaction("purge.clean", slug) as session:
        session.purges.clean(slug, paths)


def _reword(ports: Ports, slug: ContextSlug) -> None:
    """Take out of what ended runs told the words that may come from sources: questions, values in conflict, reasons."""
    with ports.ledger.read() as session:
        ended = [run for run in session.runs.list(slug, RUNS_LISTED) if run.state not in RUN_ACTIVE]
    for run in ended:
        output, notes = json.loads(run.output or "{}"), json.loads(run.notes or "{}")
        spoken = [key for key in ("sample_queries",) if output.get(key)]
        delta = output.get("delta")
        file = delta.get("failed_sources_file", "") if isinstance(delta, dict) else ""
        if not (spoken or file or notes.get("conflicts")):
            continue
        output |= {key: [] for key in spoken}
        notes |= {"conflicts": []} if "conflicts" in notes else {}
        if file:
            ports.objects(slug).delete_many([file])
            output["delta"]["failed_sources_file"] = ""
        with ports.ledger.transaction("purge.reword", slug) as session:
            session.purges.reword(run.id, canonical_json(output), canonical_json(notes))


def standing(ports: Ports, slug: ContextSlug) -> Standing:
    """How far the context's purges are.

    Raises:
        RejectedInput: no such context.
    """
    now = ports.clock.now()
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        holding = session.purges.holding(slug)
        readable = {version.number for version in session.versions.list(slug) if version.readable}
        pins: dict[int, float] = {}
        for pin in session.versions.pins(slug):
            if now < pin.until and pin.version in holding & readable:
                pins[pin.version] = max(pin.until, pins.get(pin.version, 0.0))
        pending, after = 0, ""
        while page := session.purges.wanted(slug, after, PAGE_ROWS):
            pending, after = pending + len(page), page[-1]
    return Standing(tuple(sorted(holding - readable)), tuple(sorted(pins.items())), pending)
