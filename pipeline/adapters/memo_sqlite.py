"""Memo in one SQLite file that all contexts share.

Only a cache: a commit may be lost with the machine's power (synchronous NORMAL), never the file's soundness. Values are
compressed where that pays. With a size limit the longest unused are evicted when something is stored.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

from pipeline.adapters.memo_codec import packed, unpacked
from pipeline.errors import Corruption, PipelineError, Unavailable
from pipeline.ports import Clock
from pipeline.types import NO_ORIGINS, Origins

CHECKPOINT_PAGES = 4000
"""Pages of 4 KiB in the log before it is copied into the file: 16 MB, so that a bulk load syncs a quarter as often."""

LAYOUT: Final = 2
_KEYS_AT_ONCE: Final = 500
"""Keys in one statement."""
_EVICTIONS_MAX: Final = 8
"""Groups of `_KEYS_AT_ONCE` evicted in one call at most, so that a lowered limit doesn't stall one unlucky writer."""
_TOUCH_SECONDS: Final = 3_600.0
"""`used_at` is this coarse: most reads then write nothing."""
_SCHEMA: Final = (
    (
        "CREATE TABLE memo (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, used_at REAL NOT NULL, size INTEGER NOT NULL, "
        "value BLOB NOT NULL)"
    ),
    "CREATE INDEX memo_used ON memo (used_at, size)",
    "CREATE TABLE total (size INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
    "CREATE TABLE origin (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    (
        "CREATE TABLE derived (origin INTEGER NOT NULL, entry INTEGER NOT NULL, joint INTEGER NOT NULL, "
        "PRIMARY KEY (origin, entry)) WITHOUT ROWID"
    ),
    "CREATE INDEX derived_entry ON derived (entry)",
)
_UNKNOWN: Final = ("DROP TABLE memo", "DROP TABLE total")
"""Layout 1 noted no origins, so that nobody could tell what to forget: it is emptied, at the cost of work."""


class SqliteMemo:
    """Port `Memo`. Processes may share the file; threads may share one instance."""

    def __init__(self, path: Path, clock: Clock, *, max_bytes: int = 0, busy_timeout_ms: int = 30_000) -> None:
        """The file is opened, or made, by the first call: what needs no memo, a question for one, goes on without a sound one.

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

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        """Store in one transaction, then evict what is over the limit."""
        now = self._clock.now()
        encoded = {key: packed(value) for key, value in items.items()}
        if not encoded and not origins:
            return
        named = sorted({origin for each in origins.values() for origin in each})
        links = [(joint, origin, key) for key, each in origins.items() for origin in each]
        with self._transaction(write=True) as db:
            for some in _groups(list(encoded)):
                query = f"SELECT key FROM memo WHERE key IN ({_marks(some)})"  # noqa: S608 - only marks
                for (key,) in db.execute(query, some):
                    del encoded[key]
            rows = [(key, now, len(value), value) for key, value in encoded.items()]
            db.executemany("INSERT INTO memo (key, used_at, size, value) VALUES (?, ?, ?, ?)", rows)
            db.execute("UPDATE total SET size = size + ?", (sum(map(len, encoded.values())),))
            db.executemany("INSERT OR IGNORE INTO origin (name) VALUES (?)", [(name,) for name in named])
            db.executemany(
                "INSERT OR IGNORE INTO derived SELECT o.id, m.id, ? FROM origin o, memo m WHERE o.name = ? AND m.key = ?",
                links,
            )
            if self._max_bytes:
                _evict(db, self._max_bytes)

    def forget(self, origins: Collection[str]) -> int:
        """Erase in one transaction each origin; freed pages are overwritten, and the log is emptied."""
        erased = 0
        for name in sorted(set(origins)):
            with self._transaction(write=True) as db:
                erased += _forget(db, name)
        if erased:
            with self._lock:
                assert self._db is not None
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return erased

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
                if db is None:
                    db = self._db = _open(self._path, self._busy_timeout_ms)
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
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        if _layout(db) != LAYOUT:  # asked before a lock is taken: whoever only reads waits for no writer
            _lay_out(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _layout(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _lay_out(db: sqlite3.Connection, path: Path) -> None:
    db.execute("BEGIN IMMEDIATE")
    found = _layout(db)
    if found in (0, 1):
        for statement in (*(_UNKNOWN if found else ()), *_SCHEMA):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {LAYOUT}")
    elif found != LAYOUT:
        raise Corruption(
            "memo_layout",
            f"{path} has layout {found}, this program reads {LAYOUT}",
            remedy="Delete the file: it is only a cache.",
        )
    db.execute("COMMIT")


def _evict(db: sqlite3.Connection, max_bytes: int) -> None:
    """Delete the longest unused until the limit holds, or until this call has done its share."""
    for _ in range(_EVICTIONS_MAX):
        over = db.execute("SELECT size FROM total").fetchone()[0] - max_bytes
        if over <= 0:
            return
        freed, gone = 0, []
        oldest = db.execute("SELECT id, size FROM memo ORDER BY used_at, size LIMIT ?", (_KEYS_AT_ONCE,))
        for row, size in oldest.fetchall():
            if freed >= over:
                break
            freed += size
            gone.append((row,))
        _delete(db, gone, freed)


def _forget(db: sqlite3.Connection, name: str) -> int:
    found = db.execute("SELECT id FROM origin WHERE name = ?", (name,)).fetchone()
    if found is None:
        return 0
    doomed = db.execute(
        "SELECT d.entry, m.size FROM derived d JOIN memo m ON m.id = d.entry WHERE d.origin = ? AND (d.joint = 1 OR "
        "NOT EXISTS (SELECT 1 FROM derived o WHERE o.entry = d.entry AND o.origin <> d.origin))",
        found,
    ).fetchall()
    _delete(db, [(entry,) for entry, _ in doomed], sum(size for _, size in doomed))
    db.execute("DELETE FROM derived WHERE origin = ?", found)
    db.execute("DELETE FROM origin WHERE id = ?", found)
    return len(doomed)


def _delete(db: sqlite3.Connection, entries: Sequence[tuple[int]], size: int) -> None:
    db.executemany("DELETE FROM memo WHERE id = ?", entries)
    db.executemany("DELETE FROM derived WHERE entry = ?", entries)
    db.execute("UPDATE total SET size = size - ?", (size,))


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
