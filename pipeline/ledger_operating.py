"""Protocols of the ledger about operating: published copies, and quarantine. See `pipeline.ledger` for their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from pipeline.rows import PublicationRow, QuarantineRow
from pipeline.types import ContextSlug


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
