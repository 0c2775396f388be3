"""What operators and strangers do to a fleet: wrong addresses, garbage in the queues, kills, folders full of code."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_processes import ROOT, Fleet, Worker, make_sources, wait_for

from pipeline import hosted
from pipeline.errors import RejectedInput
from pipeline.settings import load

SECRET = "m4rked"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path / "home") as made:
        yield made


class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        [
            f"redis://:{SECRET}#w@127.0.0.1:7391/0", f"redis://:{SECRET}#w/1@h:1", f"redis://:{SECRET}@[bad", f"http://:{SECRET}@h/0",
            f"redis://:{SECRET}@h:99999/0", f"redis://:{SECRET}@h:1/notadb", f"memory://{SECRET}", SECRET, f"redis://:{SECRET}@",
            f"redis+socket://:{SECRET}@", f"redis://:{SECRET}@h:port/0",
        ],
    )  # fmt: skip
    def test_a_wrong_one_is_refused_before_anything_happens(self, url: str, tmp_path: Path) -> None:
        """And never shown: a wrong one may hold a password in any place."""
        settings = load({"LAMINA_HOME": str(tmp_path), "LAMINA_BROKER_URL": url}, tmp_path)
        with pytest.raises(RejectedInput) as caught:
            hosted.require_broker(settings)
        assert caught.value.code == "bad_broker"
        assert SECRET not in str(caught.value) + caught.value.remedy

    @pytest.mark.parametrize(
        "url",
        ["redis://h", "redis://h:1/0", "rediss://user:p%23w@h:6380/12", "redis+socket:///run/s", "redis://h:1/0?ssl=1"],
    )
    def test_a_right_one(self, url: str, tmp_path: Path) -> None:
        settings = load({"LAMINA_HOME": str(tmp_path), "LAMINA_BROKER_URL": url}, tmp_path)
        assert hosted.require_broker(settings) == url

    def test_a_submission_with_a_wrong_one_leaves_no_run(self, fleet: Fleet, tmp_path: Path) -> None:
        make_sources(tmp_path / "notes", 2)
        fleet.environ["LAMINA_BROKER_URL"] = f"redis://:{SECRET}#w@h/0"
        refused = fleet.lamina("submit", str(tmp_path / "notes"), status=2)
        assert refused is None or SECRET not in json.dumps(refused)
        fleet.environ["LAMINA_BROKER_URL"] = fleet.broker.url
        assert fleet.lamina("contexts")["contexts"] == []


GARBAGE = (
    (None, "null"), (None, "[]"), (None, "5"), (None, json.dumps("text")), ({"timelimit": ["a", "b"]}, "[[], {}, {}]"),
    ({"id": None}, "[[], {}, {}]"), ({"eta": 5, "expires": []}, "[[], {}, {}]"), ({"task": None}, "[[], {}, {}]"),
)  # fmt: skip


def test_garbage_in_a_queue_kills_no_worker(fleet: Fleet, tmp_path: Path) -> None:
    """It is put aside; the same worker does what comes behind it."""
    worker = fleet.work()
    with fleet.broker.client() as client:
        for n, (more, body) in enumerate(GARBAGE):
            headers = {
                "task": "lamina.parse",
                "id": f"x{n}",
                "lang": "py",
                "argsrepr": "",
                "kwargsrepr": "",
                **(more or {}),
            }
            message = {
                "body": base64.b64encode(body.encode()).decode(), "content-encoding": "utf-8", "content-type": "application/json",
                "headers": headers,
                "properties": {
                    "correlation_id": f"x{n}", "reply_to": "", "delivery_mode": 2, "priority": 0, "delivery_tag": f"tag{n}",
                    "delivery_info": {"exchange": "", "routing_key": "lamina.cpu"}, "body_encoding": "base64",
                },
            }  # fmt: skip
            client.lpush("lamina.cpu", json.dumps(message))
    make_sources(tmp_path / "notes", 8)
    run = fleet.lamina("submit", str(tmp_path / "notes"))["run"]
    assert fleet.until_ended(run) == "completed"
    assert worker.process.poll() is None


def test_a_fleet_without_a_schedule_finds_lost_work(fleet: Fleet, tmp_path: Path) -> None:
    """No beat anywhere, and the queues are emptied: every worker asks for a reconcile now and then."""
    worker = Worker(fleet.environ, fleet.home / "no-beat.log", "--name", "plain", "--concurrency", "1")
    fleet.workers.append(worker)
    wait_for(worker.ready, 60, "the worker")
    worker.signal(signal.SIGSTOP)
    make_sources(tmp_path / "notes", 8)
    run = fleet.lamina("submit", str(tmp_path / "notes"))["run"]
    fleet.broker.flush()
    worker.signal(signal.SIGCONT)
    assert fleet.until_ended(run, 90) == "completed"


def test_what_was_not_sent_is_not_said_to_be(fleet: Fleet, tmp_path: Path) -> None:
    make_sources(tmp_path / "notes", 8)
    fleet.broker.kill()
    done = fleet.lamina("submit", str(tmp_path / "notes"))
    assert done["told"] is False
    refused = fleet.lamina("requeue", done["run"], status=3)
    assert refused is None
    fleet.broker.start()
    assert fleet.lamina("requeue", done["run"])["sent"] >= 1
    fleet.work()
    assert fleet.until_ended(done["run"]) == "completed"


def test_lamina_up(tmp_path: Path) -> None:
    """Started in a folder full of modules that must not be imported; a killed worker is replaced; a second fleet refused."""
    corpus = tmp_path / "corpus"
    make_sources(corpus, 6)
    for name in ("celery.py", "redis.py", "workers.py"):
        (corpus / name).write_text(f"open({str(tmp_path / 'foreign')!r}, 'w').write('ran')\n")
    environ = {
        **{k: v for k, v in os.environ.items() if not k.startswith("LAMINA_")}, "PYTHONPATH": str(ROOT), "LAMINA_HOME": str(tmp_path / "home"),
        "LAMINA_EMBEDDER": "static", "LAMINA_LEASE_S": "4", "LAMINA_RECONCILE_S": "1",
    }  # fmt: skip
    log = tmp_path / "up.log"
    # In the folder of the corpus `python -m pipeline` would import from it, too, so it is named by its path there.
    out = log.open("ab")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pipeline", "up", "--workers", "1"], env=environ, cwd=corpus,
        stdout=out, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        wait_for(lambda: log.read_bytes().count(b" ready.") >= 2, 60, lambda: log.read_text("utf-8"))
        second = subprocess.run(
            [sys.executable, "-P", "-m", "pipeline", "up", "--workers", "1"], env=environ, cwd=tmp_path,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode == 2
        assert "is up for" in second.stderr
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        os.kill(children[1], signal.SIGKILL)
        wait_for(lambda: b"worker1 ended (signal 9); it is started again" in log.read_bytes(), 20, "its replacement")
        wait_for(lambda: log.read_bytes().count(b" ready.") >= 3, 60, "the new worker")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "pipeline", "submit", str(corpus), "--wait", "--json"], env=environ, cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert not (tmp_path / "foreign").exists()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        out.close()
    assert not (tmp_path / "home" / "broker").exists()
