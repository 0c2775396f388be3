"""A warm process that forks one process a case: an interpreter with everything imported, and no thread yet.

It reads one JSON line a command and answers each with one JSON line. `python -m faults.child` with `tests` on the path.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from faults.deployment import EMBEDDER, LEDGER_URL, MANIFEST, PURGED, SLUG, WHOLE, SharedClock, follow, open_ports
from faults.wrappers import InjectedError, Points, faulty

from pipeline import curate, deleting, loop
from pipeline.adapters import ledger_sqlite
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.drafts import DocumentFacts, draft_records
from pipeline.errors import PipelineError, Unavailable
from pipeline.parse import parse_bytes
from pipeline.ports import Ports
from pipeline.recipe import default_recipe
from pipeline.rows import RunRow
from pipeline.types import Embedding, Side, SourcePath

DEADLINE_S = 100.0
"""A case that takes longer is broken: it is killed and says so."""
BEATEN_S = 30.0


class TroubledEmbedder:
    """Answers its first call only once the leases were renewed beside it, and then by refusing to."""

    def __init__(self, points: Points) -> None:
        self.identity = EMBEDDER.identity
        self.concurrent = EMBEDDER.concurrent
        self.texts_per_call = EMBEDDER.texts_per_call
        self._points = points
        self._first = True

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:
        if self._first:
            self._first = False
            self._points.armed = True  # from here to the refusal this thread holds no lock while the other one beats
            before = self._points.trace.count("ledger.heartbeat")
            end = time.monotonic() + BEATEN_S
            while self._points.trace.count("ledger.heartbeat") < before + 2 and not self._points.hit:
                assert time.monotonic() < end, "no heartbeat"
                time.sleep(0.002)
            raise Unavailable("busy", "the model did not answer", retry_after_ms=0)
        return EMBEDDER.embed(texts, side=side)


def warm() -> None:
    """Load what is loaded once, by pure calls that start no thread."""
    for name, data in (("a.md", b"# A\n\nbody\n"), ("a.txt", b"body\n"), ("a.csv", b"a,b\n1,2\n")):
        document = parse_bytes(data, name)
        chunking = MANIFEST.curate.chunks.chunking
        chunks = chunk_document(
            document, chunking.strategy, ChunkOptions(chunking.target_size, 0, chunking.respect_sections)
        )
        draft_records(
            SLUG, [(DocumentFacts(SourcePath(name), "", (), "markdown"), chunks)], recipe="", context_tokens=64
        )
    EMBEDDER.embed(["body"])
    default_recipe({"static": EMBEDDER}, "").encoder().query_terms("body")
    assert threading.active_count() == 1


def case(given: dict[str, Any]) -> dict[str, object]:
    """Curate once in a forked process, hit where the case says."""
    points = Points(given.get("name", ""), given.get("when", ""), given.get("nth", 1), given.get("action", ""))
    points.act = _act(given)
    points.armed = not given.get("troubled")
    ledger_sqlite.BUSY_TIMEOUT_S = given.get("busy_s", ledger_sqlite.BUSY_TIMEOUT_S)
    if "idle_s" in given:
        url = Path(given["home"]) / LEDGER_URL
        url.write_text(f"{url.read_text()}&options=-cidle_in_transaction_session_timeout%3D{given['idle_s']}s")
    try:
        more = {key: given[key] for key in ("sandbox", "lease_s", "keep") if key in given}
        ports = open_ports(Path(given["home"]), **more)
        ports = faulty(ports, points)
        if given.get("troubled"):
            ports = replace(ports, embedders={"static": TroubledEmbedder(points)})
        run = FLOWS[given.get("flow", "curate")](ports)
    except InjectedError as error:
        return {"outcome": "injected", "error": str(error), "trace": points.trace}
    except PipelineError as error:
        return {"outcome": error.code, "error": error.message, "trace": points.trace}
    except BaseException:  # noqa: BLE001  # whatever it is, the test must see it
        return {"outcome": "broken", "error": traceback.format_exc(), "trace": points.trace}
    return {"outcome": run.state, "error": run.error, "trace": points.trace}


def _act(given: dict[str, Any]) -> Callable[[], None] | None:
    """What is done at the point, where that is more than a signal or an exception."""
    if given.get("action") == "full":
        return lambda: _let_files_grow(False)
    if given.get("action") == "jump":
        return lambda: SharedClock(Path(given["home"])).advance(given["by_s"])
    return None


def _let_files_grow(yes: bool) -> None:
    """Whether the kernel takes what this process writes to files: each write fails, as on a disk without room."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if yes else 0, hard))


def _purge(ports: Ports) -> RunRow:
    """What `lamina delete-sources --purge` does."""
    deleting.bury(ports, SLUG, [PURGED], purge=True)
    run = loop.curate_and_follow(ports, deleting.request(SLUG), 1)
    deleting.purge_rest(ports, SLUG)
    return run


FLOWS: dict[str, Callable[[Ports], RunRow]] = {
    "curate": follow,
    "force": lambda ports: follow(ports, WHOLE, force=True),
    "rollback": lambda ports: curate.rollback(ports, SLUG, None),
    "purge": _purge,
}


def fork(given: dict[str, Any]) -> dict[str, object]:
    pid = os.fork()
    if pid == 0:
        signal.alarm(int(DEADLINE_S))  # even where nobody waits for it
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        answer = case(given)
        _let_files_grow(True)
        Path(given["answer"]).write_text(json.dumps(answer))
        os._exit(0)
    return {"pid": pid}


def wait(given: dict[str, Any]) -> dict[str, object]:
    """Until the process has ended, or is stopped where that is waited for."""
    pid, options = given["pid"], os.WNOHANG | (os.WUNTRACED if given["stopped"] else 0)
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found, status = os.waitpid(pid, options)
        if found:
            if os.WIFSTOPPED(status):
                return {"ended": "stopped"}
            return {
                "ended": f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"
            }
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return {"ended": "deadline"}


def end(given: dict[str, Any]) -> dict[str, object]:
    """Whatever became of it."""
    with suppress(ChildProcessError):
        if os.waitpid(given["pid"], os.WNOHANG) == (0, 0):
            os.kill(given["pid"], signal.SIGKILL)
            os.waitpid(given["pid"], 0)
    return {}


def wake(given: dict[str, Any]) -> dict[str, object]:
    os.kill(given["pid"], signal.SIGCONT)
    return {}


def main() -> None:
    commands: dict[str, Callable[[dict[str, Any]], dict[str, object]]] = {
        "fork": fork,
        "wait": wait,
        "wake": wake,
        "end": end,
    }
    warm()
    gc.collect()
    gc.freeze()  # so that a fork's collector doesn't copy what all of them share
    print("{}", flush=True)  # noqa: T201  # the protocol
    for line in sys.stdin:
        given = json.loads(line)
        print(json.dumps(commands[given["do"]](given)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
