"""What the ledger's SQL needs of a database connection, and two small builders of SQL text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Row = tuple[Any, ...]
Item = TypeVar("Item")

BLOCK = 500
"""Values in one IN list: far below SQLite's 32,766 and PostgreSQL's 65,535 parameters."""


class Database(Protocol):
    """One connection inside one open block. Parameters are '?', also over PostgreSQL (the adapter rewrites them)."""

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        """Execute; the number of rows changed."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute once for each row."""
        ...

    def one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        """The first row, if any."""
        ...

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Every row. Only for queries that are bounded by LIMIT, by an IN list or by a run's batch."""
        ...


def marks(n: int) -> str:
    """`n` parameter marks; an empty IN list is written as one NULL, which matches nothing."""
    return ", ".join("?" * n) or "NULL"


def blocks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Slices of at most BLOCK items."""
    for at in range(0, len(items), BLOCK):
        yield items[at : at + BLOCK]
