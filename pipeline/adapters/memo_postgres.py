"""Memo on PostgreSQL: what a fleet of several machines shares. Large values are objects, when there is an object store.

Only a cache: commits don't wait for the disk. With a size limit the longest unused are evicted now and then.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from pipeline.adapters.memo_codec import packed, unpacked
from pipeline.adapters.postgres_connections import LOCK_CLASS, Connection, Connections
from pipeline.errors import RejectedInput
from pipeline.file_ports import ObjectStore
from pipeline.ports import Clock
from pipeline.types import NO_ORIGINS, Origins

LARGE_BYTES: Final = 256 * 1024
"""A stored value past this size is an object: the database isn't made for such."""
MEMO_LOCK: Final = 1
_KEYS_AT_ONCE: Final = 500
_TOUCH_SECONDS: Final = 3_600.0
"""`used_at` is this coarse: most reads then write nothing."""
_EVICT_EVERY: Final = 100
"""Stores of one process between two looks at the whole size, which reads every row's."""
_QUICK: Final = "BEGIN; SET LOCAL synchronous_commit = off"
_TABLE: Final = (
    'CREATE TABLE IF NOT EXISTS lamina_memo (key TEXT COLLATE "C" PRIMARY KEY, used_at DOUBLE PRECISION NOT NULL, '
    "size BIGINT NOT NULL, value BYTEA, object TEXT)"
)
_ORIGINS: Final = (
    'CREATE TABLE IF NOT EXISTS lamina_memo_origin (origin TEXT COLLATE "C" NOT NULL, key TEXT COLLATE "C" NOT NULL, '
    "joint BOOLEAN NOT NULL, PRIMARY KEY (origin, key))"
)
_INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS lamina_memo_used ON lamina_memo (used_at, size)",
    "CREATE INDEX IF NOT EXISTS lamina_memo_origin_key ON lamina_memo_origin (key)",
)


class PostgresMemo:
    """Port `Memo`. Any number of processes may share it."""

    def __init__(self, url: str, clock: Clock, *, objects: ObjectStore | None = None, max_bytes: int = 0) -> None:
        """Connect and make the table where there is none.

        Args:
            url: of the database.
            clock: says when a value was last used.
            objects: takes large values; without one they are rows like the others.
            max_bytes: stored bytes of all values together that may be kept; 0 means any number.
        """
        self._connections = Connections(url, "memo")
        self._clock = clock
        self._objects = objects
        self._max_bytes = max_bytes
        self._stores = itertools.count()
        with self._connections.block("BEGIN") as db:
            db.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, MEMO_LOCK))
            for statement in (_TABLE, _ORIGINS, *_INDEXES):
                db.execute(statement)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there.

        Raises:
            Corruption: a value is damaged; the memo may be emptied at any time.
        """
        now = self._clock.now()
        found: dict[str, bytes] = {}
        for some in _groups(keys):
            with self._connections.block("BEGIN READ ONLY") as db:
                rows = db.execute(
                    "SELECT key, value, object, used_at FROM lamina_memo WHERE key = ANY(%s)", (some,)
                ).fetchall()
            gone = []
            for key, value, name, _ in rows:
                stored = bytes(value) if name is None else self._object(name)
                if stored is None:
                    gone.append(key)
                else:
                    found[key] = unpacked(stored, key, f"the memo at {self._connections.where}")
            stale = [key for key, _, _, used_at in rows if abs(now - used_at) > _TOUCH_SECONDS]
            if stale or gone:
                with self._connections.block(_QUICK) as db:
                    db.execute("UPDATE lamina_memo SET used_at = %s WHERE key = ANY(%s)", (now, stale))
                    db.execute("DELETE FROM lamina_memo WHERE key = ANY(%s)", (gone,))
        return found

    def _object(self, name: str) -> bytes | None:
        """The object's bytes; None where an eviction took it."""
        if self._objects is None:
            return None
        try:
            return self._objects.get(name)
        except RejectedInput:
            return None

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        """Store in one transaction, then evict now and then what is over the limit."""
        if not items and not origins:
            return
        now = self._clock.now()
        rows: list[tuple[str, float, int, bytes | None, str | None]] = []
        objects: dict[str, bytes] = {}
        for key, value in sorted(items.items()):  # in one order everywhere: two writers then never wait for each other
            stored = packed(value)
            name = None
            if self._objects is not None and len(stored) > LARGE_BYTES:
                name = f"memo/{hashlib.sha256(key.encode() + stored).hexdigest()}"
                objects[name] = stored
            rows.append((key, now, len(stored), stored if name is None else None, name))
        if objects and self._objects is not None:
            self._objects.put_many(objects)
        with self._connections.block(_QUICK) as db, db.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO lamina_memo (key, used_at, size, value, object) VALUES (%s, %s, %s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                rows,
            )
            cursor.executemany(
                "INSERT INTO lamina_memo_origin (origin, key, joint) SELECT %s, key, %s FROM lamina_memo WHERE key = %s "
                "ON CONFLICT DO NOTHING",
                [(origin, joint, key) for key in sorted(origins) for origin in sorted(origins[key])],
            )
            db.execute("SELECT 1")  # see `ledger_postgres`: starts the server's timer for silent transactions again
        if self._max_bytes and next(self._stores) % _EVICT_EVERY == 0:
            self._evict()

    def _evict(self) -> None:
        with self._connections.block(_QUICK) as db:
            over = _stored(db) - self._max_bytes
            if over <= 0:
                return
            gone = db.execute(
                "DELETE FROM lamina_memo WHERE key IN (SELECT key FROM (SELECT key, size, SUM(size) OVER (ORDER BY used_at, "
                "size, key) AS upto FROM lamina_memo) m WHERE upto - size < %s) RETURNING key, object",
                (over,),
            ).fetchall()
            _drop_origins(db, gone)
        self._delete_objects(gone)

    def forget(self, origins: Collection[str]) -> int:
        """Erase in one transaction. What the server keeps of deleted rows until it vacuums is the server's."""
        named = sorted(set(origins))
        with self._connections.block("BEGIN") as db:
            gone = db.execute(
                "DELETE FROM lamina_memo m WHERE EXISTS (SELECT 1 FROM lamina_memo_origin o WHERE o.key = m.key AND "
                "o.origin = ANY(%s) AND (o.joint OR NOT EXISTS (SELECT 1 FROM lamina_memo_origin p WHERE p.key = o.key "
                "AND NOT p.origin = ANY(%s)))) RETURNING key, object",
                (named, named),
            ).fetchall()
            _drop_origins(db, gone)
            db.execute("DELETE FROM lamina_memo_origin WHERE origin = ANY(%s)", (named,))
        self._delete_objects(gone)
        return len(gone)

    def _delete_objects(self, gone: Sequence[tuple[str, str | None]]) -> None:
        names = [name for _, name in gone if name is not None]
        if names and self._objects is not None:
            self._objects.delete_many(names)

    def close(self) -> None:
        """Release the connections. A later call opens new ones."""
        self._connections.close()


def _stored(db: Connection) -> int:
    row = db.execute("SELECT COALESCE(SUM(size), 0) FROM lamina_memo").fetchone()
    return int(row[0]) if row else 0


def _drop_origins(db: Connection, gone: Sequence[tuple[str, str | None]]) -> None:
    """No foreign key does it: its locks would make writers wait for each other in an order that nobody rules."""
    db.execute("DELETE FROM lamina_memo_origin WHERE key = ANY(%s)", ([key for key, _ in gone],))


def _groups(keys: Sequence[str]) -> Iterator[list[str]]:
    rest = iter(dict.fromkeys(keys))
    while some := list(islice(rest, _KEYS_AT_ONCE)):
        yield some
