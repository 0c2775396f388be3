"""The ledger on PostgreSQL: for fleets whose workers stand on several machines.

The SQL is SQLite's, word for word; this module rewrites parameter marks and gives text columns the collation of code
points, in which SQLite orders too. A write block takes its context's advisory lock first, so that blocks of one context
follow one another as they do in one SQLite file, and those of different contexts don't wait for each other. A read block
is one snapshot (REPEATABLE READ).

No wait is without an end: connecting, locks, statements, and a transaction whose worker fell silent inside it are all
bounded by the server's own limits. Connections belong to a thread of a process: a forked child opens its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pipeline.adapters.ledger_database import Row
from pipeline.adapters.ledger_schema import MIGRATIONS
from pipeline.adapters.ledger_sql_session import SqlSession
from pipeline.errors import Corruption, PipelineError, RejectedInput, Unavailable
from pipeline.types import ContextSlug

CONNECT_S = 10
"""How long a connection may take to come about."""
LOCK_S = 20
"""How long a write block waits for another of its context before it reports `Unavailable`, as on SQLite."""
STATEMENT_S = 300
"""A statement that takes longer is ended by the server."""
IDLE_S = 15
"""A worker that is silent for so long inside a block (paused, cut off) loses it: others wait for its lock, and for longer."""
LOCK_CLASS = 0x1A417A
"""The first half of every advisory lock of ours, so that other users of the database aren't met."""
SCHEMA_LOCK = 0
LIMITS = (
    f"-c lock_timeout={LOCK_S}s -c statement_timeout={STATEMENT_S}s -c idle_in_transaction_session_timeout={IDLE_S}s "
    "-c client_encoding=UTF8"
)


class _PostgresDatabase:
    """One open block. Text that PostgreSQL can't hold (NUL) is stored as U+FFFD."""

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
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
    """`ledger.Ledger` on a PostgreSQL database, in the schema that its URL's search path names."""

    def __init__(self, url: str) -> None:
        """Connect and bring the tables up to date.

        Args:
            url: `postgresql://user:password@host:port/database`, with any option of libpq.

        Raises:
            RejectedInput: the URL can't be read.
            Unavailable: nothing answers there, or it refuses the user.
            Corruption: the tables are of a newer Lamina.
        """
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            # libpq's message may quote the URL, and that holds a password.
            raise RejectedInput(
                "bad_settings",
                "ledger_url isn't a PostgreSQL address",
                remedy="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
            ) from None
        self._where = f"{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
        options = f"{LIMITS} {given.pop('options', '')}".strip()
        keeping = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
        self._address = make_conninfo(
            "", **{"application_name": "lamina", "connect_timeout": CONNECT_S, **keeping, **given, "options": options}
        )
        self._local = threading.local()
        self._all: list[tuple[int, psycopg.Connection[Row]]] = []
        self._lock = threading.Lock()
        self._migrate()

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[SqlSession]:  # noqa: ARG002  # for fault tests
        """A write block; see the port."""
        with self._block("BEGIN ISOLATION LEVEL READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK_CLASS, context))
            yield SqlSession(_PostgresDatabase(connection))

    @contextmanager
    def read(self) -> Iterator[SqlSession]:
        """A read block; see the port."""
        with self._block("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield SqlSession(_PostgresDatabase(connection))

    def close(self) -> None:
        """Close the connections that threads of this process hold."""
        with self._lock:
            for pid, connection in self._all:
                if pid == os.getpid():  # a parent's socket is the parent's to close
                    connection.close()
            self._all.clear()
            self._local = threading.local()

    @contextmanager
    def _block(self, begin: str) -> Iterator[psycopg.Connection[Row]]:
        try:
            connection = self._connection()
            try:
                connection.execute(begin.encode())
                yield connection
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            connection.execute("COMMIT")
        except psycopg.Error as error:
            self._refuse(error)

    def _connection(self) -> psycopg.Connection[Row]:
        held: tuple[int, psycopg.Connection[Row]] | None = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid() and not held[1].closed:
            return held[1]
        # Autocommit leaves BEGIN and COMMIT to the blocks: psycopg then opens no transaction of its own.
        connection = psycopg.connect(self._address, autocommit=True)
        with self._lock:
            self._all = [(pid, old) for pid, old in self._all if pid == os.getpid() and not old.closed]
            self._all.append((os.getpid(), connection))
        self._local.held = (os.getpid(), connection)
        return connection

    def _migrate(self) -> None:
        with self._block("BEGIN") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK_CLASS, SCHEMA_LOCK))
            connection.execute("CREATE TABLE IF NOT EXISTS lamina_schema (version BIGINT NOT NULL)")
            row = connection.execute("SELECT max(version) FROM lamina_schema").fetchone()
            found = int(row[0] or 0) if row else 0
            if found > len(MIGRATIONS):
                raise Corruption(
                    "ledger_too_new",
                    f"the ledger at {self._where} was written by a newer Lamina (schema {found}, this one knows {len(MIGRATIONS)})",
                    remedy="upgrade Lamina, or set ledger_url to another database",
                )
            for statements in MIGRATIONS[found:]:
                for statement in statements:
                    connection.execute(statement.replace(" TEXT", ' TEXT COLLATE "C"').encode())
            if found < len(MIGRATIONS):
                connection.execute("INSERT INTO lamina_schema (version) VALUES (%s)", (len(MIGRATIONS),))

    def _refuse(self, error: psycopg.Error) -> NoReturn:
        raise translate(error, self._where) from error


def translate(error: psycopg.Error, where: str) -> PipelineError:
    """PostgreSQL's exceptions as ours. Neither message nor cause holds a password."""
    state = error.sqlstate or ""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state in ("55P03", "40P01", "40001"):
        return Unavailable(
            "ledger_busy", f"the ledger at {where} was locked for {LOCK_S} s", remedy="try again; is another run stuck?"
        )
    if state.startswith("53"):  # disk full, out of memory, too many connections
        return Unavailable("ledger_full", f"the ledger at {where} has no room: {text}", remedy="give the server more")
    if state.startswith("28"):
        return Unavailable(
            "unauthorized", f"the ledger at {where} refuses the user: {text}", remedy="correct ledger_url"
        )
    if state in ("42501", "3D000", "3F000"):
        return Unavailable("ledger_unreadable", f"can't use the ledger at {where}: {text}", remedy="check the grants")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state[:2] in ("08", "57", "25"):
        return Unavailable("ledger_away", f"the ledger at {where} does not answer: {text}", remedy="is it running?")
    return Corruption("ledger_sql", f"the ledger at {where} refused a statement: {text}")
