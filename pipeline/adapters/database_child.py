"""The process inside `database_local`: runs one SELECT over one SQLite file, then ends.

Standard input takes one JSON document (`file`, `sql`, `rows`, `seconds`); standard output gives one: `columns`, `rows`
and `more`, or `code`, `message` and `tables`. A single function call in SQL can run for hours and no handler of SQLite's
sees it; that is why this is a process of its own, which whoever started it may kill.
"""

from __future__ import annotations

import json
import math
import resource
import sqlite3
import sys
import time
import urllib.parse
from contextlib import suppress
from typing import Any

MEMORY_BYTES = 1 << 30
TEMPORARY_BYTES = 256 << 20
"""Of one file that a sort is spilled to."""
RESULT_BYTES = 32 << 20
"""Of all cells together."""
TEXT_BYTES = 10_000_000
"""Of one cell, of one row, and of whatever stands between."""
TABLES_NAMED = 50
STEPS = 1000
"""Of SQLite's machine between two looks at the clock."""

_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, TEXT_BYTES),
    (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (sqlite3.SQLITE_LIMIT_COLUMN, 500),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (sqlite3.SQLITE_LIMIT_VDBE_OP, 250_000),
    (sqlite3.SQLITE_LIMIT_FUNCTION_ARG, 100),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})
"""Functions that reach outside the database, where a build of SQLite has them."""


class _TooMuch(Exception):
    """The result passes `RESULT_BYTES`."""


def main() -> None:
    """Answer the one question on standard input."""
    asked = json.load(sys.stdin)
    _confine(float(asked["seconds"]))
    json.dump(answer(asked["file"], asked["sql"], int(asked["rows"]), float(asked["seconds"])), sys.stdout)


def _confine(seconds: float) -> None:
    cpu = math.ceil(seconds) + 2
    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_FSIZE, TEMPORARY_BYTES),
                       (resource.RLIMIT_CPU, cpu), (resource.RLIMIT_CORE, 0)):  # fmt: skip
        with suppress(ValueError, OSError):  # what a system doesn't offer is left to the parent's clock
            resource.setrlimit(what, (most, most))


def answer(file: str, sql: str, rows: int, seconds: float) -> dict[str, Any]:
    """The table, or what is wrong."""
    db = sqlite3.connect(f"file:{urllib.parse.quote(file)}?mode=ro&immutable=1", uri=True, isolation_level=None)
    try:
        try:
            tables = _tables(db)
        except sqlite3.Error as error:
            return {"code": "damaged", "message": str(error), "tables": []}
        _guard(db, time.monotonic() + seconds)
        try:
            return _select(db, sql, rows)
        except (MemoryError, _TooMuch):
            return {"code": "sql_too_large", "message": "the result is too large", "tables": tables}
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, ValueError) as error:
            return {"code": _code(error), "message": str(error), "tables": tables}
    finally:
        db.close()


def _tables(db: sqlite3.Connection) -> list[str]:
    """Each table with its columns."""
    db.execute("PRAGMA temp_store = 1")  # sorts spill to files, which have a limit, and not to memory
    named = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT ?", (TABLES_NAMED,))
    return [f"{name}({', '.join(_columns_of(db, name))})" for (name,) in named.fetchall()]


def _columns_of(db: sqlite3.Connection, table: str) -> list[str]:
    return [str(name) for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _guard(db: sqlite3.Connection, until: float) -> None:
    for limit, most in _LIMITS:
        db.setlimit(limit, most)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    db.set_progress_handler(lambda: time.monotonic() > until, STEPS)
    db.set_authorizer(_authorize)


def _authorize(action: int, first: str | None, second: str | None, *_: object) -> int:
    """Reading is allowed and nothing else; a function's name is the second argument."""
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or first or "").lower() not in _FORBIDDEN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _select(db: sqlite3.Connection, sql: str, rows: int) -> dict[str, Any]:
    cursor = db.execute(sql)
    if cursor.description is None:
        return {"code": "bad_sql", "message": "there is no SELECT in it", "tables": _tables_again(db)}
    held: list[list[Any]] = []
    size = 0
    for row in cursor:
        if len(held) == rows:
            return {"columns": _columns(cursor), "rows": held, "more": True}
        held.append([_cell(value) for value in row])
        size += sum(len(cell) if isinstance(cell, str) else 8 for cell in held[-1])
        if size > RESULT_BYTES:
            raise _TooMuch
    return {"columns": _columns(cursor), "rows": held, "more": False}


def _tables_again(db: sqlite3.Connection) -> list[str]:
    db.set_authorizer(None)
    return _tables(db)


def _columns(cursor: sqlite3.Cursor) -> list[str]:
    return [str(column[0]) for column in cursor.description]


def _cell(value: Any) -> Any:
    """A value as JSON has it: bytes as SQL spells them, numbers without end as words."""
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _code(error: Exception) -> str:
    if "interrupted" in str(error):
        return "sql_time"
    return "sql_too_large" if "too big" in str(error) or "disk" in str(error) or "full" in str(error) else "bad_sql"
