"""gc: what nobody can read any more goes now, not with the next run: versions, records, files, plans, and room on disk."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from pipeline import publish, purging, recording
from pipeline.errors import Conflict
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.types import ContextSlug, RunId

PAGE_KEYS = 1000
PLANS_LISTED = 10_000


@dataclass(frozen=True, slots=True)
class Collected:
    """What went."""

    context: ContextSlug
    versions: tuple[int, ...]
    """That can't be read any more."""
    delisted: int
    """Records that only they showed."""
    erased: int
    """Ids erased from index and object store, those of earlier runs included."""
    files: int
    """Files that no row names."""
    plans: int
    freed: int
    """Bytes that the index gave back."""


def collect(ports: Ports, slug: ContextSlug) -> Collected:
    """Clear a context of what nobody can read. Kept versions and pins stay what they are.

    Raises:
        RejectedInput: no such context.
        Conflict: code `run_active`: a run is at work.
        Unavailable: a store doesn't answer; to be called again.
    """
    before = _readable(ports, slug)
    delisted = publish.reclaim(ports, slug, hold=lambda session: _require_idle(session, slug))
    erased = publish.sweep(ports, slug)
    purging.carry_out(ports, slug)
    files = _files(ports, slug) + recording.clear_retained(ports, slug)
    plans = _plans(ports, slug)
    freed = ports.index(slug).shrink()
    gone = tuple(sorted(before - _readable(ports, slug)))
    return Collected(slug, gone, delisted, erased, files, plans, freed)


def _require_idle(session: Session, slug: ContextSlug) -> None:
    run = session.runs.active(slug)
    if run is not None:
        raise Conflict(
            "run_active",
            f"run {run.id} of {slug} is not at its end",
            remedy=f"let it end (lamina explain {run.id}): it clears away by itself",
        )


def _readable(ports: Ports, slug: ContextSlug) -> frozenset[int]:
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        return frozenset(version.number for version in session.versions.list(slug) if version.readable)


def _files(ports: Ports, slug: ContextSlug) -> int:
    """Erase blobs that no file row names: what runs left that died before they had listed it, or before they erased it.

    A run lists a blob before it writes it, and none is at work.
    """
    erased, keys = 0, ports.objects(slug).list("blobs/")
    while page := list(islice(keys, PAGE_KEYS)):
        with ports.ledger.read() as session:
            _require_idle(session, slug)
            named = session.files.named(slug, page)
        strays = [key for key in page if key not in named]
        ports.objects(slug).delete_many(strays)
        erased += len(strays)
    return erased


def _plans(ports: Ports, slug: ContextSlug) -> int:
    """Erase plans but the latest."""
    with ports.ledger.read() as session:
        runs = [run.id for run in session.runs.list(slug, PLANS_LISTED) if run.kind == "plan"]
    kept = frozenset(runs[: ports.limits.keep_runs])
    old = [
        key
        for key in ports.objects(slug).list("plans/")
        if RunId(key.removeprefix("plans/").removesuffix(".json")) not in kept
    ]
    ports.objects(slug).delete_many(old)
    return len(old)
