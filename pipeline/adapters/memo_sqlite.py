"""Memo in one SQLite file that all contexts share.

Only a cache: a commit may be lost with the machine's power (synchronous NORMAL), never the file's soundness. Values are
compressed where that pays. With a size limit the longest unused are evicted when something is stored.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.adapters.memo_codec import packed, unpacked
from pipeline.errors import Corruption, PipelineError, Unavailable
from pipeline.ports import Clock

CHECKPOINT_PAGES = 4000
"""Pages of 4 KiB in the log before it is copied into the file: 16 MB, so that a bulk load syncs a quarter as often."""

LAYOUT: Final = 1
_KEYS_AT_ONCE: Final = 500
"""Keys in one statement."""
_EVICTIONS_MAX: Final = 8
"""Groups of `_KEYS_AT_ONCE` evicted in one call at most, so that a lowered limit doesn't stall one unlucky writer."""
_TOUCH_SECONDS: Final = 3_600.0
"""`used_at` is this coarse: most reads then write nothing."""
_SCHEMA: Final = (
    "CREATE TABLE memo (key TEXT PRIMARY KEY, used_at REAL NOT NULL, size INTEGER NOT NULL, value BLOB NOT NULL)",
    "CREATE INDEX memo_used ON memo (used_at, size)",
    "CREATE TABLE total (size INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
)


class SqliteMemo:
    """Port `Memo`. Processes may share the file; threads may share one instance."""

    def __init__(self, path: Path, clock: Clock, *, max_bytes: int = 0, busy_timeout_ms: int = 30_000) -> None:
        """Open the file, or make it where there is none.

        Args:
            path: of the database; its folder must exist.
            clock: says when a value was last used.
            max_bytes: stored bytes of all values together, compressed, that may be kept; 0 means any number.
            busy_timeout_ms: how long a write waits for another writer before it raises `Unavailable`.
        """
        self._path = path
        self._clock = clock
        self._max_bytes = max_bytes
        self._busy_timeout_ms = busy_timeout_ms
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        with self._transaction(write=True) as db:
            found = db.execute("PRAGMA user_version").fetchone()[0]
            if found == 0:
                for statement in _SCHEMA:
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {LAYOUT}")
            elif found != LAYOUT:
                raise Corruption(
                    "memo_layout",
                    f"{path} has layout {found}, this program reads {LAYOUT}",
                    remedy="Delete the file: it is only a cache.",
                )

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there.

        Raises:
            Corruption: the file or a value in it is damaged; deleting the file is safe.
        """
        now = self._clock.now()
        stored: dict[str, bytes] = {}
        stale: list[str] = []
        for some in _groups(keys):
            query = f"SELECT key, value, used_at FROM memo WHERE key IN ({_marks(some)})"  # noqa: S608 - only marks
            with self._transaction(write=False) as db:
                rows = db.execute(query, some).fetchall()
            stored.update((key, value) for key, value, _ in rows)
            stale.extend(key for key, _, used_at in rows if abs(now - used_at) > _TOUCH_SECONDS)
        for some in _groups(stale):
            with self._transaction(write=True) as db:
                db.execute(f"UPDATE memo SET used_at = ? WHERE key IN ({_marks(some)})", (now, *some))  # noqa: S608
        return {key: unpacked(value, key, str(self._path)) for key, value in stored.items()}

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Store in one transaction, then evict what is over the limit."""
        now = self._clock.now()
        encoded = {key: packed(value) for key, value in items.items()}
        if not encoded:
            return
        with self._transaction(write=True) as db:
            for some in _groups(list(encoded)):
                query = f"SELECT key FROM memo WHERE key IN ({_marks(some)})"  # noqa: S608 - only marks
                for (key,) in db.execute(query, some):
                    del encoded[key]
            rows = [(key, now, len(value), value) for key, value in encoded.items()]
            db.executemany("INSERT INTO memo VALUES (?, ?, ?, ?)", rows)
            db.execute("UPDATE total SET size = size + ?", (sum(map(len, encoded.values())),))
            if self._max_bytes:
                _evict(db, self._max_bytes)

    def close(self) -> None:
        """Release the connection. A later call opens a new one."""
        with self._lock:
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """One transaction on the one connection. Statements are short; compression happens outside."""
        with self._lock:
            db = self._db
            try:
                db = self._db = db or _open(self._path, self._busy_timeout_ms)
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield db
                db.execute("COMMIT")
            except sqlite3.Error as error:
                raise _translated(error, self._path) from error
            finally:
                if db is not None and db.in_transaction:
                    db.execute("ROLLBACK")


def _open(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return db


def _evict(db: sqlite3.Connection, max_bytes: int) -> None:
    """Delete the longest unused until the limit holds, or until this call has done its share."""
    for _ in range(_EVICTIONS_MAX):
        over = db.execute("SELECT size FROM total").fetchone()[0] - max_bytes
        if over <= 0:
            return
        freed, gone = 0, []
        oldest = db.execute("SELECT rowid, size FROM memo ORDER BY used_at, size LIMIT ?", (_KEYS_AT_ONCE,))
        for row, size in oldest.fetchall():
            if freed >= over:
                break
            freed += size
            gone.append((row,))
        db.executemany("DELETE FROM memo WHERE rowid = ?", gone)
        db.execute("UPDATE total SET size = size - ?", (freed,))


def _groups(keys: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(keys)
    while some := list(islice(rest, _KEYS_AT_ONCE)):
        yield some


def _marks(keys: Sequence[str]) -> str:
    return ",".join("?" * len(keys))


def _translated(error: sqlite3.Error, path: Path) -> PipelineError:
    """Our error for SQLite's; its primary codes are at https://sqlite.org/rescode.html."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    message = f"{path}: {error}"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable("memo_busy", message, remedy="Another process is writing; try again.")
    if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
        remedy = "Check that the disk has room and the folder can be written."
        return Unavailable("memo_unavailable", message, remedy=remedy)
    return Corruption("memo_corrupt", message, remedy="Delete the file: it is only a cache.")
