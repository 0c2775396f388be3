"""A fleet under faults, as operators run it: `lamina submit`, real Celery workers, a real broker, and what befalls them."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import postgres_server
import pytest
from fleet_checks import Readers, check, done, embedded, fleet_on, ports_of
from fleet_processes import Broker, Fleet, make_sources, wait_for
from pinecone_emulator import Behaviour, Fault, PineconeEmulator

from pipeline import bootstrap, publish
from pipeline.types import ContextSlug


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_on(request.param, tmp_path) as made:
        yield made


def test_a_flushed_broker_and_killed_workers_change_nothing(fleet: Fleet, tmp_path: Path) -> None:
    """Redis flushed in mid-run, then killed without persistence, then each worker killed once."""
    sources = tmp_path / "notes"
    make_sources(sources, 120)
    workers = [fleet.work(), fleet.work()]
    run = fleet.lamina("submit", str(sources))["run"]
    time.sleep(1.5)
    fleet.broker.flush()
    time.sleep(1)
    fleet.broker.kill()
    fleet.broker.start()
    for worker in workers:
        worker.kill()
        fleet.work()
    assert fleet.until_ended(run) == "completed"
    check(fleet, embedded(tmp_path, sources))


def test_a_worker_that_slept_past_its_lease_changes_nothing(tmp_path: Path) -> None:
    """A whole worker tree is stopped amid a run, others finish it and curate another version; then it wakes up.

    On PostgreSQL: SQLite's lock can't be taken from a process that is stopped while it holds it, and then others wait.
    """
    with Fleet(tmp_path / "home", LAMINA_LEDGER_URL=postgres_server.fresh_url()) as fleet:
        _sleep_and_wake(fleet, tmp_path)


def _sleep_and_wake(fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 60)
    sleeper = fleet.work()
    run = fleet.lamina("submit", str(sources))["run"]
    wait_for(lambda: done(fleet, run, "parse") > 1, 60, "some units")
    sleeper.signal(signal.SIGSTOP)
    fleet.work()
    assert fleet.until_ended(run) == "completed"
    make_sources(sources, 60, mark="second")
    again = fleet.lamina("submit", str(sources))["run"]
    assert fleet.until_ended(again) == "completed"
    with Readers(fleet) as readers:
        sleeper.signal(signal.SIGCONT)
        time.sleep(6)
    assert readers.seen == {frozenset({"second"})}
    check(fleet, embedded(tmp_path, sources), flips=2)


STORM_S = 60.0
HOSTED = {"LAMINA_INDEX": "pinecone", "LAMINA_PINECONE_DEADLINE_S": "20"}


@pytest.fixture(params=["local", "hosted"])
def stormy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Fleet, PineconeEmulator | None]]:
    """Everything on local files, or ledger and vectors on servers."""
    if request.param == "local":
        with Fleet(tmp_path / "home") as made:
            yield made, None
        return
    with PineconeEmulator(Behaviour(lag_s=0.1)) as service:
        more = {
            **HOSTED, "LAMINA_LEDGER_URL": postgres_server.fresh_url(), "LAMINA_PINECONE_API_KEY": service.key,
            "LAMINA_PINECONE_CONTROL_URL": service.url,
        }  # fmt: skip
        with Fleet(tmp_path / "home", **more) as made:
            yield made, service


def test_a_storm_of_kills(stormy: tuple[Fleet, PineconeEmulator | None], tmp_path: Path) -> None:
    """A minute of random kills of worker trees, of single children and of the broker, while readers ask all the time.

    Where vectors are hosted, one request in ten meets a reset, before or after it was carried out, or a refusal.
    """
    fleet, service = stormy
    sources = tmp_path / "notes"
    make_sources(sources, 30, mark="first")
    chance = random.Random(7)
    for _ in range(2):
        fleet.work()
    first = fleet.lamina("submit", str(sources))["run"]
    assert fleet.until_ended(first) == "completed"
    make_sources(sources, 400 if service is None else 160, mark="second")
    run = fleet.lamina("submit", str(sources))["run"]
    end = time.monotonic() + STORM_S
    if service is not None:
        resets = (Fault("reset_before"), Fault("reset_after"), Fault("status"), Fault("status", 429, retry_after="1"))
        service.faults.by_chance(0.1, *resets, seed=7)
    with Readers(fleet, patient=service is not None) as readers:
        while time.monotonic() < end:
            time.sleep(chance.uniform(1, 4))
            what = chance.random()
            if what < 0.4:
                chance.choice(fleet.workers).kill()
            elif what < 0.6:
                chance.choice(fleet.workers).kill_child(chance)
            elif what < 0.8:
                fleet.broker.flush()
            else:
                fleet.broker.kill()
                fleet.broker.start()
            fleet.bury()
            while len(fleet.workers) < 2:
                fleet.work(wait=False)
        assert fleet.until_ended(run, 240) == "completed"
    assert readers.seen <= {frozenset({"first"}), frozenset({"second"})}, "an answer of two versions"
    if service is not None:
        assert service.faults.injected > 20
        service.faults.clear()
    check(fleet, embedded(tmp_path, sources), flips=2)


def test_a_sleeper_with_a_stamp_and_a_delete_under_way(tmp_path: Path) -> None:
    """A worker is stopped while its stamp and, in another turn, its delete stand at the service's door.

    Others finish the run and curate on. Then the request goes through and the worker wakes. Readers see nothing of it;
    what it leaves in the index is gone after one sweep, and the sweep says how much that was.
    """
    with PineconeEmulator(Behaviour(lag_s=0.05)) as service:
        more = {
            **HOSTED, "LAMINA_LEDGER_URL": postgres_server.fresh_url(), "LAMINA_PINECONE_API_KEY": service.key,
            "LAMINA_PINECONE_CONTROL_URL": service.url, "LAMINA_KEEP_VERSIONS": "1",
        }  # fmt: skip
        with Fleet(tmp_path / "home", **more) as fleet:
            for turn, verb in enumerate(("update", "delete")):
                _asleep_amid(fleet, service, tmp_path, verb, turn)


def _asleep_amid(fleet: Fleet, service: PineconeEmulator, tmp_path: Path, verb: str, turn: int) -> None:
    sources = tmp_path / f"notes{turn}" / "notes"
    context = f"notes{turn}"
    make_sources(sources, 20)
    sleeper = fleet.work()
    run = fleet.lamina("submit", str(sources), "--context", context)["run"]
    assert fleet.until_ended(run) == "completed"
    make_sources(sources, 20, mark="second")
    with service.held(rf"documents/{verb}$") as gate:
        run = fleet.lamina("submit", str(sources), "--context", context)["run"]
        wait_for(gate.reached.is_set, 90, f"a {verb}")
        sleeper.signal(signal.SIGSTOP)
        fleet.work()
        assert fleet.until_ended(run, 180) == "completed"
        make_sources(sources, 20, mark="third")
        again = fleet.lamina("submit", str(sources), "--context", context)["run"]
        assert fleet.until_ended(again, 180) == "completed"
        gate.let_through()
        with Readers(fleet, ContextSlug(context), patient=True) as readers:
            sleeper.signal(signal.SIGCONT)
            time.sleep(4)
    assert readers.seen == {frozenset({"third"})}
    ports = ports_of(fleet)
    try:
        slug = ContextSlug(context)
        publish.sweep(ports, slug)
        publish.restamp(ports, slug)
        assert publish.restamp(ports, slug) == 0, "one sweep heals"
        with ports.ledger.read() as session:
            for space in session.records.namespaces(slug):
                held = [record for record, _, _ in ports.index(slug).scan(space)]
                assert len(session.records.get(slug, held)) == len(held), "rows in the index that nobody lists"
    finally:
        bootstrap.close(ports)
    for worker in fleet.workers:
        worker.kill()
    fleet.bury()


def test_messages_delivered_twice_or_late_do_nothing(tmp_path: Path) -> None:
    """Every message that waits in a queue, or that a worker hasn't acknowledged, is put into its queue twice more."""
    with Fleet(tmp_path / "home") as fleet:
        sources = tmp_path / "notes"
        make_sources(sources, 40)
        for _ in range(2):
            fleet.work()
        with Repeater(fleet.broker, times=2) as repeater:
            run = fleet.lamina("submit", str(sources))["run"]
            assert fleet.until_ended(run) == "completed"
        assert repeater.repeated > 20
        again = fleet.lamina("submit", str(sources))["run"]  # with the last of the copies still in the queues
        assert fleet.until_ended(again) == "noop"
        check(fleet, embedded(tmp_path, sources))


class Repeater:
    """Delivers beside the block what has been delivered, as a broker does whose acknowledgements get lost."""

    def __init__(self, broker: Broker, times: int) -> None:
        self.times = times
        self.seen: set[bytes] = set()
        self._client = broker.client()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._repeat)

    @property
    def repeated(self) -> int:
        return len(self.seen)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _repeat(self) -> None:
        while not self._stop.wait(0.02):
            waiting = [
                (key, message)
                for key in self._client.keys("lamina.*")
                if self._client.type(key) == b"list"
                for message in self._client.lrange(key, 0, -1)
            ]
            # Kombu holds what isn't acknowledged as [message, exchange, routing key]; a queue is named by its key.
            for entry in self._client.hvals("unacked"):
                message, _, queue = json.loads(entry)
                waiting.append((queue.encode(), json.dumps(message).encode()))
            for queue, message in waiting:
                tag = json.loads(message)["properties"]["delivery_tag"].encode()
                if tag not in self.seen:
                    self.seen.add(tag)
                    self._client.lpush(queue, *[message] * self.times)
