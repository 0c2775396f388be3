"""The ledger port: rows, and the small protocols that read and write them over one connection.

The ledger is the only mutable state that counts (DESIGN §1, idea 3). Everything in one `transaction` block commits or
nothing does; a block is tiny and never spans a parser, model, index or network call. A write block sees and changes
rows under the database's write lock, so read-then-write inside one block can't be overtaken.

Errors owed by every method: `Unavailable` (busy past the deadline, disk full), `Corruption` (damaged file), and
`Conflict` with code `stale_fence` from the methods that take a fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pipeline.types import OPEN, ContextSlug, LogicalId, Namespace, RecordId, RunId, SourcePath

RUN_ACTIVE = ("running", "sealed", "flipped")
"""States in which a run still owns its context; the last two can only go forward."""


BLOBS = Namespace("blobs")
"""Where tombstones of blobs stand; no index namespace has this name (theirs hold a dot)."""


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One context and its live pointer."""

    slug: ContextSlug
    kind: str
    """`folder`: read in place; `staged`: files were copied in with `lamina add`."""
    root: str
    """Absolute folder, encoded like a source path; empty for a staged context."""
    created_at: float
    live_version: int = 0
    epoch: int = 0
    """Raised by every pointer move; part of every compare-and-set."""
    highest_version: int = 0
    redispatch_count: int = 0


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a flow over a context."""

    id: RunId
    context: ContextSlug
    kind: str
    """curate, rollback, delete."""
    trigger: str
    state: str
    """running, sealed, flipped; then one of completed, noop, abandoned, retired, failed."""
    force: bool
    created_by: str
    created_at: float
    input: str
    """Canonical JSON of the run's `CurateInput`."""
    manifest: str = ""
    """Canonical JSON of the manifest that the run follows."""
    recipe: str = ""
    """Canonical JSON of the recipe that the run follows."""
    base_version: int = 0
    base_epoch: int = 0
    number: int = 0
    """The version claimed; 0 until there is something to write."""
    generation: int = 0
    fence: int = 0
    owner: str = ""
    lease_until: float = 0.0
    started_at: float = 0.0
    active_at: float = 0.0
    ended_at: float = 0.0
    cancel_requested: bool = False
    output: str = ""
    error: str = ""
    notes: str = ""
    """Canonical JSON of what the inventory saw: sources found, stale, standing failures, skipped."""


@dataclass(frozen=True, slots=True)
class UnitClaim:
    """A leased slice of a run: one stage over one batch. The fence makes late reports of a lost lease harmless."""

    run: RunId
    run_fence: int
    stage: str
    batch: int
    fence: int
    attempts: int
    size: int
    """Work in the stage's own unit (bytes, tokens, records)."""


@dataclass(frozen=True, slots=True)
class StageSummary:
    """How far one stage of a run has got."""

    stage: str
    units: int
    units_done: int
    size: int
    size_done: int
    first_at: float
    """When its first unit was claimed; 0 before that."""
    last_at: float
    """When its latest unit ended; 0 before that."""
    embed_tokens: int
    """Tokens that its units ran through an embedding model."""


@dataclass(frozen=True, slots=True)
class WorkRow:
    """What a run does about one source."""

    path: SourcePath
    batch: int
    change: str
    """new, changed, stale (forced), retry, deleted, carry (restates what is live over what a rolled-back version left)."""
    size: int
    mtime_ns: int
    hash: str = ""
    """Hash of the bytes that were parsed; inventory's until then."""
    status: str = ""
    """ok, failed, empty, skipped; empty until parsed."""
    code: str = ""
    reason: str = ""
    fingerprint: str = ""
    """What the source's chunks are a function of: content, manifest leg, recipe, stage versions."""
    parse_key: str = ""
    chunk_key: str = ""
    chunks: int = 0
    """Chunks kept after screening."""
    screened: str = ""
    """Canonical JSON: screening rule to count."""
    chunks_created: int = 0
    chunks_updated: int = 0


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What one version knows of one source."""

    path: SourcePath
    hash: str
    """Hash of the last good revision, whose chunks are listed; empty when there never was one."""
    seen_hash: str
    """Hash of the bytes last judged; differs from `hash` while the newest revision fails."""
    size: int
    mtime_ns: int
    status: str
    code: str
    reason: str
    fingerprint: str
    chunks: int
    curated_at: float
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record as the ledger lists it."""

    id: RecordId
    logical_id: LogicalId
    path: SourcePath
    position: int
    content: str
    """Fingerprint of everything the record says: equal content under OPEN means nothing to write."""
    namespace: Namespace
    added: int
    removed: int = OPEN
    copy_of: RecordId | None = None
    """Set on planned additions whose vectors come from another listed record."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of the knowledge tree: a stable path and the blob behind it."""

    path: str
    source: SourcePath
    blob: str
    size: int
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One claimed version number and what it means."""

    number: int
    run: RunId
    generation: int
    manifest: str
    recipe: str
    state: str
    """claimed, sealed, live (was made live at least once), retired, abandoned."""
    readable: bool
    claimed_at: float
    live_at: float
    records: int
    """Records visible at this version, counted in the seal transaction."""


@dataclass(frozen=True, slots=True)
class PinRow:
    """A reader's hold on one version."""

    id: str
    version: int
    until: float
    created_at: float


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One move of the live pointer."""

    epoch: int
    version: int
    run: RunId
    at: float


@dataclass(frozen=True, slots=True)
class StatRow:
    """The cheap state under which a file was last hashed."""

    size: int
    mtime_ns: int
    change_ns: int
    hash: str
    checked_at: float


class Contexts(Protocol):
    """Contexts and the live pointer."""

    def create(self, row: ContextRow) -> None: ...
    def get(self, slug: ContextSlug) -> ContextRow | None: ...
    def list(self) -> tuple[ContextRow, ...]: ...
    def delete(self, slug: ContextSlug) -> None:
        """Erase every row of the context, in every table."""
        ...

    def claim_number(self, slug: ContextSlug) -> int:
        """The highest number ever claimed + 1, now claimed."""
        ...

    def move(self, slug: ContextSlug, version: int, run: RunId, at: float) -> None:
        """Point at `version`, raise the epoch, mark the version readable and remember the move."""
        ...

    def count_redispatch(self, slug: ContextSlug) -> None: ...
    def moves(self, slug: ContextSlug) -> tuple[MoveRow, ...]:
        """Newest first."""
        ...


class Runs(Protocol):
    """Runs, their ownership and their fences."""

    def create(self, row: RunRow) -> None:
        """Insert; `Conflict` (code `run_active`) when the context already has an active run."""
        ...

    def get(self, run: RunId) -> RunRow | None: ...
    def active(self, slug: ContextSlug) -> RunRow | None: ...
    def list(self, slug: ContextSlug | None, limit: int) -> tuple[RunRow, ...]:
        """Newest first."""
        ...

    def adopt(self, run: RunId, owner: str, until: float, now: float) -> int:
        """Take the run over: the returned fence makes every earlier owner's reports stale."""
        ...

    def renew(self, run: RunId, fence: int, until: float, now: float) -> bool:
        """Extend the lease; False when the fence is stale or the run has ended."""
        ...

    def require(self, run: RunId, fence: int) -> RunRow:
        """The active run under this fence, or `Conflict` `stale_fence`."""
        ...

    def plan(self, run: RunId, number: int, generation: int) -> None: ...
    def set_state(self, run: RunId, state: str, now: float, *, output: str = "", error: str = "") -> None: ...
    def set_error(self, run: RunId, error: str, now: float) -> None: ...
    def set_notes(self, run: RunId, notes: str) -> None: ...
    def request_cancel(self, run: RunId) -> None: ...
    def forget(self, slug: ContextSlug, keep: int) -> None:
        """Drop work, units and removal plans of ended runs older than the newest `keep`; run rows stay."""
        ...


class Units(Protocol):
    """Leased slices of a run."""

    def create(self, run: RunId, stage: str, sizes: Mapping[int, int]) -> None:
        """Add waiting units, batch to size; those that exist are kept as they are."""
        ...

    def claim(
        self, run: RunId, run_fence: int, stages: Sequence[str], *, owner: str, until: float, now: float
    ) -> UnitClaim | None:
        """Lease a waiting or expired unit of the first stage in `stages` that has one."""
        ...

    def renew(self, claim: UnitClaim, until: float) -> bool: ...
    def finish(self, claim: UnitClaim, now: float, *, embed_tokens: int = 0) -> None:
        """Mark done; `Conflict` `stale_fence` when the lease was lost to somebody else."""
        ...

    def release(self, claim: UnitClaim) -> None:
        """Hand the unit back; a stale fence is passed over."""
        ...

    def unfinished(self, run: RunId, stages: Sequence[str]) -> int: ...
    def summary(self, run: RunId) -> tuple[StageSummary, ...]: ...


class Work(Protocol):
    """The run's plan by source."""

    def clear(self, run: RunId) -> None: ...
    def add(self, run: RunId, rows: Sequence[WorkRow]) -> None: ...
    def batch(self, run: RunId, batch: int) -> tuple[WorkRow, ...]: ...
    def update(self, run: RunId, rows: Sequence[WorkRow]) -> None: ...
    def holds(self, run: RunId, paths: Sequence[SourcePath]) -> frozenset[SourcePath]: ...
    def count(self, run: RunId) -> int: ...
    def each(self, run: RunId) -> Iterator[WorkRow]:
        """Every row, by path."""
        ...


class Sources(Protocol):
    """Source states by version, and the cheap-state cache."""

    def add(self, slug: ContextSlug, rows: Sequence[SourceRow]) -> None: ...
    def open_for(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[SourceRow, ...]: ...
    def at_for(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[SourceRow, ...]: ...
    def page(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SourceRow, ...]:
        """Sources visible at `version` with path > `after`, by path."""
        ...

    def stats(self, slug: ContextSlug, after: str, limit: int) -> tuple[tuple[SourcePath, StatRow], ...]: ...
    def remember_stats(self, slug: ContextSlug, rows: Mapping[SourcePath, StatRow]) -> None: ...
    def forget_stats(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> None: ...
    def mark_removed(self, slug: ContextSlug, paths: Sequence[SourcePath], version: int, at: float) -> None:
        """Remember that these staged files were removed; the next curate drops what they left in the index."""
        ...

    def removed(self, slug: ContextSlug, live: int) -> tuple[tuple[SourcePath, int, float], ...]:
        """(path, version then live, when) of removed files that `live` still shows."""
        ...


class Records(Protocol):
    """Record listings by version, planned removals, tombstones, term counts."""

    def add(self, slug: ContextSlug, rows: Sequence[RecordRow]) -> None:
        """List planned additions; an id that is listed already is kept as it is."""
        ...

    def open_for(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]: ...
    def at_for(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]: ...
    def added_for(self, slug: ContextSlug, number: int, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]: ...
    def diverged(self, slug: ContextSlug, live: int) -> tuple[SourcePath, ...]:
        """Paths whose open records, sources or files differ from those visible at `live`."""
        ...

    def listed(self, slug: ContextSlug, version: int, ids: Sequence[RecordId]) -> dict[RecordId, LogicalId]:
        """Those of `ids` that are visible at `version`."""
        ...

    def get(self, slug: ContextSlug, ids: Sequence[RecordId]) -> tuple[RecordRow, ...]: ...
    def page_added(self, slug: ContextSlug, number: int, after: str, limit: int) -> tuple[RecordRow, ...]: ...
    def page_removed(self, slug: ContextSlug, number: int, after: str, limit: int) -> tuple[RecordRow, ...]: ...
    def plans_anything(self, slug: ContextSlug, run: RunId, number: int) -> bool:
        """Whether the run adds or removes any record, source or file."""
        ...

    def page_planned(self, run: RunId, after: str, limit: int) -> tuple[RecordRow, ...]:
        """Records whose removal is planned by the run."""
        ...

    def page_at(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[RecordRow, ...]: ...
    def openings(self, slug: ContextSlug, version: int, limit: int) -> tuple[RecordRow, ...]:
        """First and second records of some sources that `version` shows: those with the lowest ids."""
        ...

    def unplan(self, slug: ContextSlug, run: RunId, number: int, paths: Sequence[SourcePath]) -> None:
        """Drop what an earlier attempt planned for these paths, records, sources and files alike."""
        ...

    def plan_removals(self, run: RunId, kind: str, ids: Iterable[str]) -> None: ...
    def stamp_planned(self, slug: ContextSlug, run: RunId, number: int) -> None:
        """Set `removed = number` on every planned record, source and file; each must still be OPEN."""
        ...

    def delist_additions(self, slug: ContextSlug, number: int, now: float) -> None:
        """Forget what the number added; record ids become tombstones."""
        ...

    def reclaim(self, slug: ContextSlug, now: float) -> int:
        """Delist CLOSED rows that no readable version sees; ids and orphaned blobs become tombstones. Records delisted."""
        ...

    def tombstones(self, slug: ContextSlug, after: str, limit: int) -> tuple[tuple[Namespace, RecordId], ...]:
        """Delisted ids that no row lists again, by id; blobs stand under the namespace `BLOBS`."""
        ...

    def drop_tombstones(self, slug: ContextSlug, before: float) -> None: ...
    def namespaces(self, slug: ContextSlug) -> tuple[Namespace, ...]: ...
    def add_counts(self, slug: ContextSlug, generation: int, number: int, deltas: Mapping[int, int]) -> None:
        """Term to documents gained or lost by `number`; term -1 counts the documents themselves."""
        ...

    def counts(self, slug: ContextSlug, generation: int, version: int, terms: Sequence[int]) -> dict[int, int]: ...
    def visible(self, slug: ContextSlug, version: int) -> int: ...


class Files(Protocol):
    """The path → blob table."""

    def changed_between(self, slug: ContextSlug, old: int, new: int, after: str, limit: int) -> tuple[FileRow, ...]:
        """Rows that exactly one of the two versions sees, by path."""
        ...

    def add(self, slug: ContextSlug, rows: Sequence[FileRow]) -> None: ...
    def open_for(self, slug: ContextSlug, sources: Sequence[SourcePath]) -> tuple[FileRow, ...]: ...
    def at_for(self, slug: ContextSlug, version: int, sources: Sequence[SourcePath]) -> tuple[FileRow, ...]: ...
    def page(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[FileRow, ...]: ...


class Versions(Protocol):
    """Claimed numbers, readability, pins."""

    def add(self, slug: ContextSlug, row: VersionRow) -> None: ...
    def get(self, slug: ContextSlug, number: int) -> VersionRow | None: ...
    def list(self, slug: ContextSlug) -> tuple[VersionRow, ...]:
        """Newest first."""
        ...

    def set_state(self, slug: ContextSlug, number: int, state: str) -> None: ...
    def set_records(self, slug: ContextSlug, number: int, records: int) -> None: ...
    def mark_unreadable(self, slug: ContextSlug, keep: frozenset[int]) -> None:
        """Every readable version outside `keep` becomes unreadable, for ever."""
        ...

    def pin(self, slug: ContextSlug, row: PinRow) -> None: ...
    def unpin(self, slug: ContextSlug, pin: str) -> bool: ...
    def pins(self, slug: ContextSlug) -> tuple[PinRow, ...]: ...


class Session(Protocol):
    """The ledger's protocols over one open block."""

    @property
    def contexts(self) -> Contexts: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def units(self) -> Units: ...
    @property
    def work(self) -> Work: ...
    @property
    def sources(self) -> Sources: ...
    @property
    def records(self) -> Records: ...
    @property
    def files(self) -> Files: ...
    @property
    def versions(self) -> Versions: ...


class Ledger(Protocol):
    """Where the fact is."""

    def transaction(self, label: str) -> AbstractContextManager[Session]:
        """A write block; commits on leaving, rolls back on an exception. `label` names it in fault tests and logs."""
        ...

    def read(self) -> AbstractContextManager[Session]:
        """A read block over one consistent snapshot."""
        ...

    def close(self) -> None:
        """Release connections. May be repeated."""
        ...
