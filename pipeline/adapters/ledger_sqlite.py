"""The ledger on SQLite: one file, WAL, every commit synced before it returns.

Each thread has a connection of its own. A write block is `BEGIN IMMEDIATE`, so it never has to upgrade a read lock;
the busy timeout bounds its wait. Only workers on one machine may share the file (DESIGN §1, idea 3).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pipeline.adapters.ledger_database import Row
from pipeline.adapters.ledger_schema import MIGRATIONS
from pipeline.adapters.ledger_sql_session import SqlSession
from pipeline.errors import Corruption, PipelineError, Unavailable
from pipeline.types import ContextSlug

BUSY_TIMEOUT_S = 20.0
"""How long a write block waits for another writer before it reports `Unavailable`."""


class _SqliteDatabase:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        return self._connection.execute(sql, values).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(sql, rows)

    def one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        row: Row | None = self._connection.execute(sql, values).fetchone()
        return row

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()


class SqliteLedger:
    """`ledger.Ledger` on one SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._migrate()

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[SqlSession]:  # noqa: ARG002  # the file has one lock
        """A write block; see the port."""
        with self._block("BEGIN IMMEDIATE") as session:
            yield session

    @contextmanager
    def read(self) -> Iterator[SqlSession]:
        """A read block; see the port."""
        with self._block("BEGIN") as session:
            yield session

    def close(self) -> None:
        """Close the connections of every thread."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()
            self._local = threading.local()

    @contextmanager
    def _block(self, begin: str) -> Iterator[SqlSession]:
        try:
            connection = self._connection()
            try:
                connection.execute(begin)
                yield SqlSession(_SqliteDatabase(connection))
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()
                raise
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _connection(self) -> sqlite3.Connection:
        held: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if held is None:
            held = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            held.execute("PRAGMA journal_mode = WAL")
            held.execute("PRAGMA synchronous = FULL")
            held.execute("PRAGMA secure_delete = ON")  # what is purged stands in no free page either
            with self._lock:
                self._all.append(held)
            self._local.connection = held
        return held

    def _migrate(self) -> None:
        try:
            connection = self._connection()
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if found > len(MIGRATIONS):
                raise Corruption(
                    "ledger_too_new",
                    f"the ledger {self._path} was written by a newer Lamina (schema {found}, this one knows {len(MIGRATIONS)})",
                    remedy="upgrade Lamina, or point LAMINA_HOME elsewhere",
                )
            if found == len(MIGRATIONS):
                return
            connection.execute("BEGIN IMMEDIATE")
            found = int(connection.execute("PRAGMA user_version").fetchone()[0])
            for statements in MIGRATIONS[found:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise translate(error, self._path) from error


def translate(error: sqlite3.Error, path: Path) -> PipelineError:
    """SQLite's exceptions as ours."""
    text = str(error)
    if "locked" in text or "busy" in text:
        return Unavailable(
            "ledger_busy",
            f"the ledger {path} was locked for {BUSY_TIMEOUT_S:g} s",
            remedy="try again; is another run stuck?",
        )
    if "full" in text:
        return Unavailable(
            "disk_full", f"no space left for the ledger {path}", remedy="free some space, then run again"
        )
    if "I/O error" in text:
        return Unavailable(
            "disk_error",
            f"the disk did not take or give what belongs to the ledger {path}: {text}",
            remedy="is it full, over its quota or failing? free some space, then run again",
        )
    if "malformed" in text or "not a database" in text:
        return Corruption(
            "ledger_damaged", f"the ledger {path} is damaged: {text}", remedy="restore LAMINA_HOME from a backup"
        )
    if "unable to open" in text or "readonly" in text:
        return Unavailable(
            "ledger_unreadable", f"can't open the ledger {path}: {text}", remedy="check the folder's permissions"
        )
    return Corruption("ledger_sql", f"the ledger {path} refused a statement: {text}")
