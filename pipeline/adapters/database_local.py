"""SELECT over a version's SQLite file, in a process of its own with limits of time, memory and result.

The file is copied to a private folder that goes with the call, so that nothing which runs there can reach the store.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pipeline
from pipeline.errors import Corruption, RejectedInput, Unavailable

_BOOT = "import sys, importlib; sys.path += sys.argv[1:2]; importlib.import_module(sys.argv[2]).main()"
"""`-I` keeps the environment and the working folder out of the child's path, so the way to the package is passed in."""
_MODULE = "pipeline.adapters.database_child"
_GRACE_S = 2.0
"""After its time the child may start and end for so long; then it is killed."""
_REMEDIES = {
    "sql_time": "ask for less, or allow more time: --seconds N",
    "sql_too_large": "ask for fewer rows or columns",
}


@dataclass(frozen=True, slots=True)
class Table:
    """What a SELECT found."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Texts, numbers and None; bytes as SQL spells them."""
    more: bool
    """Whether there are rows past the limit."""


def select(database: bytes, sql: str, *, rows: int, seconds: float) -> Table:
    """What a SELECT finds.

    Args:
        database: the file's bytes.
        sql: one statement; anything but reading is refused.
        rows: most rows.
        seconds: most time.

    Raises:
        RejectedInput: code `bad_sql`: it is no SELECT that fits the tables; `sql_time`, `sql_too_large`: a limit.
        Corruption: code `damaged_database`.
        Unavailable: the process can't be started, or ended without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="lamina-") as folder:
        file = Path(folder) / "knowledge.sqlite"
        try:
            file.write_bytes(database)
        except OSError as error:
            raise Unavailable("no_space", f"can't write a temporary copy of the database: {error}") from error
        question = json.dumps({"file": str(file), "sql": sql, "rows": rows, "seconds": seconds})
        reply = _ask(question, folder, seconds)
    if "columns" in reply:
        return Table(tuple(reply["columns"]), tuple(map(tuple, reply["rows"])), reply["more"])
    raise _refusal(reply, seconds)


def _ask(question: str, folder: str, seconds: float) -> dict[str, Any]:
    arguments = [sys.executable, "-I", "-c", _BOOT, str(Path(pipeline.__file__).parent.parent), _MODULE]
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own arguments
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "SQLITE_TMPDIR": folder},  # secrets are none of a question's business
        )
    except OSError as error:
        raise Unavailable("database_start", f"the process that reads the database can't be started: {error}") from error
    try:
        out, _ = process.communicate(question.encode("utf-8"), timeout=seconds + _GRACE_S)
    except subprocess.TimeoutExpired:
        return {"code": "sql_time", "message": ""}
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    try:
        held = json.loads(out)
    except ValueError:
        held = None
    if not isinstance(held, dict):
        code = "sql_time" if process.returncode < 0 else "crashed"  # a signal: its processor time was up
        return {"code": code, "message": f"the process that reads the database ended with status {process.returncode}"}
    return held


def _refusal(reply: dict[str, Any], seconds: float) -> Exception:
    code, message = str(reply.get("code")), str(reply.get("message"))
    if code == "crashed":
        return Unavailable("database_crashed", message, remedy="ask for less")
    if code == "damaged":
        return Corruption("damaged_database", f"the version's database can't be read: {message}", remedy="curate anew")
    if code == "sql_time":
        return RejectedInput(code, f"the question took more than {seconds:g} s", remedy=_REMEDIES[code])
    if code == "sql_too_large":
        return RejectedInput(code, f"the question needs too much room: {message}", remedy=_REMEDIES[code])
    tables = reply.get("tables")
    named = "; ".join(map(str, tables)) if isinstance(tables, list) and tables else "none"
    if "authoriz" in message or "prohibited" in message:
        message = f"only reading is allowed, with one SELECT ({message})"
    return RejectedInput("bad_sql", f"the database refuses this: {message}", remedy=f"tables: {named}")
