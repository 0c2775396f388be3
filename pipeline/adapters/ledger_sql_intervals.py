"""Tables of the artifact leg as rows: what is the same for statements, subjects, members, artifacts and edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

from pipeline.adapters.ledger_database import BLOCK, Database, marks
from pipeline.rows import ArtifactRow, EdgeRow, MemberRow, StatementRow, SubjectRow
from pipeline.types import ContextSlug

COLUMNS: dict[type[Any], tuple[str, str]] = {
    StatementRow: ("statement", "id, path, kind, type, name, seq, data, added, removed"),
    SubjectRow: ("subject", "id, type, key, name, documents, mentions, membership, data, added, removed"),
    MemberRow: ("member", "id, subject, path, added, removed"),
    ArtifactRow: ("artifact", "id, type, name, scope, format, basis, membership, file, data, added, removed"),
    EdgeRow: ("edge", "id, type, source, target, path, data, added, removed"),
}
_VALUES = {kind: attrgetter(*(item.name for item in fields(kind))) for kind in COLUMNS}
"""A row's values in the order of its columns."""
SEEN = "added <= ? AND removed > ?"

Row = TypeVar("Row", StatementRow, SubjectRow, MemberRow, ArtifactRow, EdgeRow)


UNPLANNED = (
    "NOT EXISTS (SELECT 1 FROM removal WHERE removal.run = ? AND removal.kind = ? AND removal.id = {0}.id "
    "AND {0}.added < (SELECT number FROM run WHERE run.id = removal.run))"
)
"""An open row that the run doesn't remove: rows that it adds itself stay, also under an id that it removes."""


class Intervals:
    """Rows with version intervals of whichever of the five tables."""

    def __init__(self, db: Database) -> None:
        self.db = db

    # ---- intervals, alike for the five tables

    def add(
        self, slug: ContextSlug, rows: Sequence[StatementRow | SubjectRow | MemberRow | ArtifactRow | EdgeRow]
    ) -> None:
        for kind, (table, columns) in COLUMNS.items():
            self.db.many(
                f"INSERT INTO {table} (context, {columns}) VALUES ({marks(columns.count(',') + 2)}) ON CONFLICT DO NOTHING",
                [(slug, *_VALUES[kind](row)) for row in rows if isinstance(row, kind)],
            )

    def select(self, kind: type[Row], where: str, values: Sequence[object], order: str = "id") -> list[Row]:
        """Rows of one table in an order of the database."""
        return self._rows(kind, f"{where} ORDER BY {order}", values)

    def _rows(self, kind: type[Row], where: str, values: Sequence[object]) -> list[Row]:
        table, columns = COLUMNS[kind]
        return [kind(*row) for row in self.db.all(f"SELECT {columns} FROM {table} WHERE {where}", values)]

    def each(
        self,
        kind: type[Row],
        where: str,
        values: Sequence[object],
        column: str,
        items: Sequence[str],
        order: str = "id",
    ) -> tuple[Row, ...]:
        """Rows whose `column` is one of some values, in order.

        They are put in order here: asked to do it, the database walks an index that has the order instead of the one
        that has the values.
        """
        out: list[Row] = []
        for at in range(0, len(items), BLOCK):
            some: Sequence[str] = items[at : at + BLOCK]
            out += self._rows(kind, f"{where} AND {column} IN ({marks(len(some))})", (*values, *some))
        out.sort(key=attrgetter(*order.split(", ")))
        return tuple(out)
