"""The ledger on PostgreSQL: for fleets whose workers stand on several machines.

The SQL is SQLite's, word for word; this module rewrites parameter marks and gives text columns the collation of code
points, in which SQLite orders too. A write block takes its context's advisory lock first, so that blocks of one context
follow one another as they do in one SQLite file, and those of different contexts don't wait for each other. A read block
is one snapshot (REPEATABLE READ).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pipeline.adapters.ledger_database import Row
from pipeline.adapters.ledger_schema import MIGRATIONS
from pipeline.adapters.ledger_sql_session import SqlSession
from pipeline.adapters.postgres_connections import LOCK_CLASS, Connection, Connections
from pipeline.errors import Corruption
from pipeline.types import ContextSlug

SCHEMA_LOCK = 0


class _PostgresDatabase:
    """One open block. Text that PostgreSQL can't hold (NUL) is stored as U+FFFD."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[object] = ()) -> int:
        return self._connection.execute(_marked(sql), _storable(values)).rowcount

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(sql), (_storable(row) for row in rows))
        # That was a pipeline, after which the server's timer for silent transactions isn't running (seen on 18.4): a
        # worker that fell asleep here would keep its lock. Any plain statement starts the timer.
        self._connection.execute("SELECT 1")

    def one(self, sql: str, values: Sequence[object] = ()) -> Row | None:
        return self._connection.execute(_marked(sql), _storable(values)).fetchone()

    def all(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        return self._connection.execute(_marked(sql), _storable(values)).fetchall()


def _marked(sql: str) -> bytes:
    """'?' as psycopg's marks. No literal in the ledger's SQL holds a question mark (`tests/contracts/test_ledger.py`)."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


def _storable(values: Sequence[object]) -> tuple[object, ...]:
    return tuple(v.replace("\0", "\ufffd") if isinstance(v, str) and "\0" in v else v for v in values)


class PostgresLedger:
    """`ledger.Ledger` on a PostgreSQL database, in the schema that its address' search path names."""

    def __init__(self, url: str) -> None:
        """Connect and bring the tables up to date.

        Args:
            url: `postgresql://user:password@host:port/database`, with any option of libpq.

        Raises:
            RejectedInput: the address can't be read.
            Unavailable: nothing answers there, or it refuses the user.
            Corruption: the tables are of a newer Lamina.
        """
        self._connections = Connections(url, "ledger")
        self._migrate()

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[SqlSession]:  # noqa: ARG002  # for fault tests
        """A write block; see the port."""
        with self._connections.block("BEGIN ISOLATION LEVEL READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, context))
            yield SqlSession(_PostgresDatabase(connection))

    @contextmanager
    def read(self) -> Iterator[SqlSession]:
        """A read block; see the port."""
        with self._connections.block("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield SqlSession(_PostgresDatabase(connection))

    def close(self) -> None:
        """Close the connections that threads of this process hold."""
        self._connections.close()

    def _migrate(self) -> None:
        with self._connections.block("BEGIN") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, SCHEMA_LOCK))
            connection.execute("CREATE TABLE IF NOT EXISTS lamina_schema (version BIGINT NOT NULL)")
            row = connection.execute("SELECT max(version) FROM lamina_schema").fetchone()
            found = int(row[0] or 0) if row else 0
            if found > len(MIGRATIONS):
                raise Corruption(
                    "ledger_too_new",
                    f"the ledger at {self._connections.where} was written by a newer Lamina (schema {found}, this one knows {len(MIGRATIONS)})",
                    remedy="upgrade Lamina, or set ledger_url to another database",
                )
            for statements in MIGRATIONS[found:]:
                for statement in statements:
                    connection.execute(statement.replace(" TEXT", ' TEXT COLLATE "C"').encode())
            if found < len(MIGRATIONS):
                connection.execute("INSERT INTO lamina_schema (version) VALUES (%s)", (len(MIGRATIONS),))
