"""Artifacts as rows of one SQLite file. The file's bytes are a function of the rows, columns and edges alone.

Names that people gave become identifiers that need no quotes; what became of each stands in the table `_columns`. Key
columns hold '' for a part that is missing, since SQL takes each NULL for another value and would let duplicates in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlite_utils

from pipeline.fingerprint import canonical_json

PROVENANCE = (("_id", str), ("_sources", str), ("_title", str))
"""Columns that each table has beside the declared ones."""
ROWS_AT_ONCE = 500
AFFINITY: dict[str, type] = {"TEXT": str, "INTEGER": int, "REAL": float, "NUMERIC": float}
PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Table:
    """One type's table."""

    type: str
    columns: tuple[tuple[str, str], ...]
    """Declared name and affinity, in order."""
    natural_key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRow:
    """One artifact as a row."""

    id: str
    title: str
    sources: tuple[str, ...]
    values: Mapping[str, Any]
    """By declared name."""


@dataclass(frozen=True, slots=True)
class Names:
    """Declared names and the identifiers that stand for them."""

    table: str
    columns: Mapping[str, str]


def identifiers(tables: Sequence[Table]) -> dict[str, Names]:
    """Safe identifiers for every table and column, by type. Columns whose names come to one identifier are one column."""
    taken: set[str] = {"_columns", "_edges"}
    out = {}
    for table in tables:
        name = _unique(identifier(table.type), taken)
        out[table.type] = Names(name, {column: identifier(column) for column, _ in table.columns})
    return out


def identifier(name: str) -> str:
    """Lower-case ASCII letters, digits and underscores; never empty, never a digit in front, never our own columns."""
    plain = unicodedata.normalize("NFKD", name.casefold())
    kept = re.sub(r"[^a-z0-9]+", "_", "".join(c for c in plain if not unicodedata.combining(c))).strip("_")
    if not kept:
        kept = "x" + "".join(f"{ord(c):x}" for c in name[:8])
    return f"n{kept}" if kept[0].isdigit() else kept


def _unique(name: str, taken: set[str]) -> str:
    found, n = name, 2
    while found in taken or found.startswith("sqlite_"):
        found, n = f"{name}_{n}", n + 1
    taken.add(found)
    return found


@dataclass(slots=True)
class Written:
    """What was written, and what could not be as given."""

    rows: int = 0
    conflicts: int = 0
    """Rows that came under a natural key that a row before them had; the later one holds."""


def write(
    path: Path, tables: Sequence[Table], rows: Mapping[str, Iterable[TableRow]], edges: Iterable[Sequence[Any]]
) -> Written:
    """Write the file, which must not exist.

    Args:
        path: where.
        tables: in the order of the manifest.
        rows: by type, in a fixed order; a later row under the same natural key wins, column by column.
        edges: (type, source id, source title, target id, target title, attributes as JSON, sources as JSON).
    """
    known, done = identifiers(tables), Written()
    db = sqlite_utils.Database(path)
    try:
        db.conn.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        db.conn.execute("PRAGMA journal_mode = OFF")
        db.conn.execute("PRAGMA synchronous = OFF")
        for table in tables:
            _create(db, table, known[table.type])
            _fill(db, table, known[table.type], rows.get(table.type, ()), done)
        _name_map(db, tables, known)
        _edges(db, edges)
        db.conn.commit()
        db.conn.execute("VACUUM")
    finally:
        db.conn.close()
    return done


def _create(db: sqlite_utils.Database, table: Table, names: Names) -> None:
    key = _key(table, names)
    declared: dict[str, str] = {}
    for column, affinity in table.columns:
        declared.setdefault(names.columns[column], affinity)
    lines = [
        f'"{column}" {affinity}' + (" NOT NULL DEFAULT ''" if column in key else "")
        for column, affinity in declared.items()
    ]
    lines += [f'"{name}" TEXT NOT NULL' for name, _ in PROVENANCE]
    db.conn.execute(f'CREATE TABLE "{names.table}" ({", ".join(lines)})')
    unique = key or ("_id",)
    listed = ", ".join(f'"{column}"' for column in unique)
    db.conn.execute(f'CREATE UNIQUE INDEX "{names.table}_key" ON "{names.table}" ({listed})')


def _key(table: Table, names: Names) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names.columns[column] for column in table.natural_key if column in names.columns))


def _fill(db: sqlite_utils.Database, table: Table, names: Names, rows: Iterable[TableRow], done: Written) -> None:
    key = _key(table, names)
    columns = [*dict.fromkeys(names.columns.values()), *(name for name, _ in PROVENANCE)]
    listed, marks = ", ".join(f'"{c}"' for c in columns), ", ".join("?" * len(columns))
    renewed = ", ".join(
        f'"{c}" = excluded."{c}"' if c.startswith("_") else f'"{c}" = coalesce(excluded."{c}", "{c}")'
        for c in columns
        if c not in key
    )
    target = ", ".join(f'"{c}"' for c in key or ("_id",))
    sql = f'INSERT INTO "{names.table}" ({listed}) VALUES ({marks}) ON CONFLICT ({target}) DO UPDATE SET {renewed}'  # noqa: S608 - identifiers of ours
    written = 0
    for row in rows:
        cells = {
            names.columns[c]: v for c, v in reversed(list(row.values.items())) if c in names.columns and v is not None
        }
        cells.update({c: "" for c in key if cells.get(c) is None})
        own = (row.id, canonical_json(list(row.sources)), row.title)
        values = [cells.get(c) for c in columns[: -len(PROVENANCE)]]
        db.conn.execute(sql, [_stored(v) for v in values] + list(own))
        written += 1
    held = db.conn.execute(f'SELECT COUNT(*) FROM "{names.table}"').fetchone()[0]  # noqa: S608 - as above
    done.rows += held
    done.conflicts += written - held


def _stored(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else canonical_json(value)


def _name_map(db: sqlite_utils.Database, tables: Sequence[Table], known: Mapping[str, Names]) -> None:
    rows = [
        {"table_name": known[t.type].table, "column_name": known[t.type].columns[c], "type": t.type, "name": c}
        for t in tables
        for c, _ in t.columns
    ]
    db.table("_columns").create({"table_name": str, "column_name": str, "type": str, "name": str})
    db.table("_columns").insert_all(rows, batch_size=ROWS_AT_ONCE)


def _edges(db: sqlite_utils.Database, edges: Iterable[Sequence[Any]]) -> None:
    columns = ("type", "source", "source_title", "target", "target_title", "attributes", "sources")
    db.table("_edges").create(dict.fromkeys(columns, str))
    db.table("_edges").insert_all((dict(zip(columns, edge, strict=True)) for edge in edges), batch_size=ROWS_AT_ONCE)
