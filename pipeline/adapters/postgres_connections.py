"""Connections to PostgreSQL, one for each thread of a process; blocks over them; PostgreSQL's errors as ours.

No wait is without an end: connecting, locks, statements, and a transaction whose process fell silent inside it are all
bounded by the server's own limits. A forked child opens connections of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pipeline.errors import Corruption, PipelineError, RejectedInput, Unavailable

Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_S = 10
"""How long a connection may take to come about."""
LOCK_S = 20
"""How long a block waits for another before it reports `Unavailable`, as on SQLite."""
STATEMENT_S = 300
"""A statement that takes longer is ended by the server."""
IDLE_S = 15
"""A worker that is silent for so long inside a block (paused, cut off) loses it: others wait for its lock, and for longer."""
LOCK_CLASS = 0x1A417A
"""The first half of every advisory lock of ours, so that other users of the database aren't met."""
LIMITS = (
    f"-c lock_timeout={LOCK_S}s -c statement_timeout={STATEMENT_S}s -c idle_in_transaction_session_timeout={IDLE_S}s "
    "-c client_encoding=UTF8"
)


class Connections:
    """What one database's address leads to."""

    def __init__(self, url: str, what: str) -> None:
        """Read the address; connect with the first block.

        Args:
            url: `postgresql://user:password@host:port/database`, with any option of libpq.
            what: what is kept there, for messages: "ledger".

        Raises:
            RejectedInput: the address can't be read.
        """
        try:
            given = conninfo_to_dict(url)
        except psycopg.Error:
            # libpq's message may quote the address, and that holds a password.
            raise RejectedInput(
                "bad_settings",
                "ledger_url isn't a PostgreSQL address",
                remedy="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
            ) from None
        self._what = what
        self.where = f"{given.get('host', 'localhost')}:{given.get('port', 5432)}/{given.get('dbname', '')}"
        options = f"{LIMITS} {given.pop('options', '')}".strip()
        keeping = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
        self._address = make_conninfo(
            "", **{"application_name": "lamina", "connect_timeout": CONNECT_S, **keeping, **given, "options": options}
        )
        self._local = threading.local()
        self._all: list[tuple[int, Connection]] = []
        self._lock = threading.Lock()

    @contextmanager
    def block(self, begin: str) -> Iterator[Connection]:
        """A transaction on this thread's connection; commits on leaving, rolls back on an exception."""
        try:
            connection = self._begun(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
        except psycopg.Error as error:
            raise translate(error, f"the {self._what} at {self.where}") from error

    def close(self) -> None:
        """Close the connections that threads of this process hold."""
        with self._lock:
            for pid, connection in self._all:
                if pid == os.getpid():  # a parent's socket is the parent's to close
                    connection.close()
            self._all.clear()
            self._local = threading.local()

    def _begun(self, begin: str) -> Connection:
        """A connection with its transaction open: a new one where the server has dropped the one at rest."""
        connection = self._connection()
        try:
            connection.execute(begin.encode())
        except psycopg.OperationalError:
            if not connection.closed:
                raise
            connection = self._connection()
            connection.execute(begin.encode())
        return connection

    def _connection(self) -> Connection:
        held: tuple[int, Connection] | None = getattr(self._local, "held", None)
        if held is not None and held[0] == os.getpid() and not held[1].closed:
            return held[1]
        # Autocommit leaves BEGIN and COMMIT to the blocks: psycopg then opens no transaction of its own.
        connection = psycopg.connect(self._address, autocommit=True)
        with self._lock:
            self._all = [(pid, old) for pid, old in self._all if pid == os.getpid() and not old.closed]
            self._all.append((os.getpid(), connection))
        self._local.held = (os.getpid(), connection)
        return connection


def translate(error: psycopg.Error, place: str) -> PipelineError:
    """PostgreSQL's exceptions as ours. Neither message nor cause holds a password."""
    state = error.sqlstate or ""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if state in ("55P03", "40P01", "40001"):
        return Unavailable(
            "ledger_busy", f"{place} was locked for {LOCK_S} s", remedy="try again; is another run stuck?"
        )
    if state.startswith("53"):  # disk full, out of memory, too many connections
        return Unavailable("ledger_full", f"{place} has no room: {text}", remedy="give the server more")
    if state.startswith("28"):
        return Unavailable("unauthorized", f"{place} refuses the user: {text}", remedy="correct ledger_url")
    if state in ("42501", "3D000", "3F000"):
        return Unavailable("ledger_unreadable", f"can't use {place}: {text}", remedy="check the grants")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state[:2] in ("08", "57", "25"):
        return Unavailable("ledger_away", f"{place} does not answer: {text}", remedy="is it running?")
    return Corruption("ledger_sql", f"{place} refused a statement: {text}")
