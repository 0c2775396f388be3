"""A context's rows as they are, for backups, over SQL. Names of tables and columns come from the schema alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.adapters.ledger_database import Database, marks
from pipeline.adapters.ledger_schema import MIGRATIONS
from pipeline.errors import RejectedInput
from pipeline.types import ContextSlug

KEYS: Final = {
    "source": ("path", "added"), "source_removed": ("path",), "source_tombstone": ("path",), "record": ("id",),
    "file": ("path", "added"), "version": ("number",), "move": ("epoch",), "term_count": ("generation", "term", "version"),
    "tombstone": ("id",), "statement": ("id", "added"), "name_key": ("type", "key", "name"), "subject": ("id", "added"),
    "member": ("id", "added"), "artifact": ("id", "added"), "edge": ("id", "added"), "decision": ("id",),
    "quarantine": ("id",), "purge": ("path",), "run": ("id",), "unit": ("run", "stage", "batch"), "work": ("run", "path"),
    "spend": ("run", "model", "tier"), "context": ("slug",),
}  # fmt: skip
"""Tables that a backup holds, and by what their rows are read page by page. Left out: what belongs to a deployment (pins,
leases, lanes, published copies, states of files on its disks). The context comes last: with it the rest is there."""
_BY_RUN = ("unit", "work", "spend")


def _columns() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for statement in (one for migration in MIGRATIONS for one in migration):
        made = re.match(r"CREATE TABLE (\w+) \((.*)\)$", statement, re.DOTALL)
        if made:
            parts = made[2].partition("PRIMARY KEY (")[0] if "PRIMARY KEY (" in made[2] else made[2]
            found[made[1]] = re.findall(r"(\w+) (?:TEXT|BIGINT|DOUBLE)", parts)
        grown = re.match(r"ALTER TABLE (\w+) ADD COLUMN (\w+)", statement)
        if grown:
            found[grown[1]].append(grown[2])
    return {table: tuple(columns) for table, columns in found.items()}


COLUMNS: Final = _columns()
PAGE_ROWS: Final = 1000


class SqlDump:
    """`ledger.Dump`."""

    schema: Final = len(MIGRATIONS)

    def __init__(self, db: Database) -> None:
        self._db = db

    def tables(self) -> tuple[str, ...]:
        return tuple(KEYS)

    def columns(self, table: str) -> tuple[str, ...]:
        return COLUMNS[table]

    def rows(self, slug: ContextSlug, table: str) -> Iterator[tuple[object, ...]]:
        keys, columns = KEYS[table], COLUMNS[table]
        places = [columns.index(key) for key in keys]
        owner = {"context": "slug = ?", **dict.fromkeys(_BY_RUN, "run IN (SELECT id FROM run WHERE context = ?)")}
        where, order = owner.get(table, "context = ?"), ", ".join(keys)
        after: tuple[object, ...] | None = None
        while True:
            past = f" AND ({order}) > ({marks(len(keys))})" if after else ""
            page = self._db.all(
                f"SELECT {', '.join(columns)} FROM {table} WHERE {where}{past} ORDER BY {order} LIMIT {PAGE_ROWS}",
                (slug, *(after or ())),
            )
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = tuple(page[-1][place] for place in places)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if table not in KEYS or not set(columns) <= set(COLUMNS[table]) or len(set(columns)) != len(columns):
            raise RejectedInput(
                "bad_backup",
                f"the backup holds a table {table!r} with other columns than this Lamina's",
                remedy="upgrade",
            )
        self._db.many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(len(columns))})", rows)
