"""Protocols of the ledger about operating: published copies, quarantine, purges. See `pipeline.ledger` for their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline.rows import PublicationRow, QuarantineRow
from pipeline.types import ContextSlug, RunId, SourcePath


class Publications(Protocol):
    """Copies of live versions for third-party readers."""

    def get(self, slug: ContextSlug, target: str) -> PublicationRow | None: ...
    def list(self, target: str) -> tuple[tuple[ContextSlug, PublicationRow], ...]:
        """Every context's on that target, by context."""
        ...

    def save(self, slug: ContextSlug, row: PublicationRow) -> None:
        """Insert, or put in place of the one with its target."""
        ...

    def delete(self, slug: ContextSlug, target: str) -> None: ...
    def versions(self, slug: ContextSlug) -> frozenset[int]:
        """Versions of which a copy holds records, whole or in part."""
        ...


class Dump(Protocol):
    """A context's rows as they are, for backups."""

    @property
    def schema(self) -> int:
        """Number of the tables' form; rows of a lower one can be inserted."""
        ...

    def tables(self) -> tuple[str, ...]:
        """In the order in which they are to be inserted."""
        ...

    def columns(self, table: str) -> tuple[str, ...]: ...
    def rows(self, slug: ContextSlug, table: str) -> Iterator[tuple[object, ...]]:
        """Every row of the context, with memory bounded."""
        ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Rows of a context that isn't there.

        Raises:
            RejectedInput: code `bad_backup`: there is no such table or column.
        """
        ...


class Quarantine(Protocol):
    """Bytes that a pipeline can't take."""

    def put(self, slug: ContextSlug, rows: Sequence[QuarantineRow]) -> None:
        """Insert; one that is there already stays as it is."""
        ...

    def held(self, slug: ContextSlug, ids: Sequence[str]) -> tuple[QuarantineRow, ...]:
        """Those of `ids` that are there."""
        ...

    def spare(self, slug: ContextSlug, ids: Sequence[str]) -> None:
        """Count one more attempt that was not made."""
        ...

    def page(self, slug: ContextSlug, after: str, limit: int) -> tuple[QuarantineRow, ...]:
        """By id, past `after`."""
        ...

    def release(self, slug: ContextSlug, ids: Sequence[str]) -> None: ...


class Purges(Protocol):
    """Sources of which nothing may be left. What comes under their paths later is another matter."""

    def ask(self, slug: ContextSlug, paths: Sequence[SourcePath], at: float) -> None:
        """Doom every revision of these that there is by now."""
        ...

    def wanted(self, slug: ContextSlug, after: str, limit: int) -> tuple[SourcePath, ...]: ...
    def holding(self, slug: ContextSlug) -> frozenset[int]:
        """Versions that show doomed revisions which are out of the newest one, and versions marked."""
        ...

    def mark(self, slug: ContextSlug, numbers: frozenset[int]) -> None:
        """Note that these versions are no longer whole, for ever."""
        ...

    def clean(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> None:
        """Erase what runs noted in words about these sources, and the names that runs past their flip had planned with."""
        ...

    def reword(self, run: RunId, output: str, notes: str) -> None:
        """Put these in place of what the run told."""
        ...

    def done(self, slug: ContextSlug) -> int:
        """Sources under purge of which no doomed revision is listed any more."""
        ...

    def finish(self, slug: ContextSlug) -> None:
        """Forget the purges of those."""
        ...
