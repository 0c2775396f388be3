"""The fleet as operators run it: `lamina submit`, real Celery workers, a real broker, and what befalls them."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import numpy as np
import postgres_server
import pytest
from fleet_processes import Fleet, make_sources, wait_for
from pinecone_emulator import Behaviour, Fault, PineconeEmulator

from pipeline import bootstrap, curate, publish, search
from pipeline.errors import Unavailable
from pipeline.ports import Ports
from pipeline.settings import load
from pipeline.types import ContextSlug
from workers.schedule import QUEUES

SLUG = ContextSlug("notes")


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    more = {"LAMINA_LEDGER_URL": postgres_server.fresh_url()} if request.param == "postgres" else {}
    with Fleet(tmp_path / "home", **more) as made:
        yield made


@pytest.fixture
def small_fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path / "home") as made:
        yield made


def ports_of(fleet: Fleet) -> Ports:
    return bootstrap.build(load(fleet.environ, fleet.home))


def content(ports: Ports) -> tuple[list[tuple[object, ...]], np.ndarray]:
    """Logical ids, texts and places of what is live, and the vectors."""
    with ports.ledger.read() as session:
        context = publish.require_context(session, SLUG)
        rows = sorted(session.records.page_at(SLUG, context.live_version, "", 1_000_000), key=lambda r: r.logical_id)
    index = ports.index(SLUG)
    texts, vectors = [], []
    for space in sorted({r.namespace for r in rows}):
        mine = [r for r in rows if r.namespace == space]
        stored = index.fetch(space, [r.id for r in mine], vectors=True, metadata=True)
        assert len(stored.ids) == len(mine), "listed records that the index doesn't hold"
        texts += [(r.logical_id, r.path, r.position, m["text"]) for r, m in zip(mine, stored.metadata, strict=True)]
        vectors.append(stored.dense)
    return texts, np.concatenate(vectors)


def embedded(tmp_path: Path, sources: Path) -> tuple[list[tuple[object, ...]], np.ndarray]:
    """The same corpus curated by one process."""
    with Fleet(tmp_path / "embedded") as other:
        other.lamina("curate", str(sources), "--context", SLUG)
        ports = ports_of(other)
        try:
            return content(ports)
        finally:
            bootstrap.close(ports)


def same(found: tuple[list[tuple[object, ...]], np.ndarray], want: tuple[list[tuple[object, ...]], np.ndarray]) -> None:
    assert found[0] == want[0]
    assert np.allclose(found[1], want[1], rtol=0, atol=1e-5)


def check(fleet: Fleet, want: tuple[list[tuple[object, ...]], np.ndarray], flips: int = 1) -> None:
    """Nothing missing, nothing extra, and so many pointer moves."""
    ports = ports_of(fleet)
    try:
        same(content(ports), want)
        publish.sweep(ports, SLUG)
        with ports.ledger.read() as session:
            assert len(session.contexts.moves(SLUG)) == flips
            for space in session.records.namespaces(SLUG):
                held = [record for record, _, _ in ports.index(SLUG).scan(space)]
                assert len(session.records.get(SLUG, held)) == len(held), "rows in the index that nobody lists"
    finally:
        bootstrap.close(ports)


class Readers:
    """Ask at full rate beside the block: each answer is one version's, none fails."""

    def __init__(self, fleet: Fleet, slug: ContextSlug = SLUG, *, patient: bool = False) -> None:
        self.ports = ports_of(fleet)
        self.slug = slug
        self.patient = patient
        """A service that doesn't answer is asked again; a wrong answer never is."""
        self.seen: set[frozenset[str]] = set()
        self.errors: list[BaseException] = []
        self.asked = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        bootstrap.close(self.ports)
        assert not self.errors, self.errors[0]
        assert self.asked

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                answer = search.search(
                    self.ports, self.slug, search.Question("every document says", k=search.K_MAX, mode="sparse")
                )
                marks = frozenset(
                    str(r.metadata["text"]).split(" of ")[-1].split(" ")[0]
                    for r in answer.results
                    if "every" in str(r.metadata["text"])
                )
                self.seen.add(marks)
                self.asked += 1
                time.sleep(0.05 if self.patient else 0)  # an emulator takes its time from the workers
            except Unavailable as error:
                if not self.patient:
                    self.errors.append(error)
                    return
            except Exception as error:  # noqa: BLE001  # a reader's error must reach the test
                self.errors.append(error)
                return


def test_tasks_and_stages_are_the_same_list(small_fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """One registered task for each stage that has a body; each stage has a queue that workers serve."""
    for name, value in small_fleet.environ.items():
        if name.startswith("LAMINA_"):
            monkeypatch.setenv(name, value)
    from workers.tasks import CHORES, STAGE_TASKS, app  # noqa: PLC0415  # reads the settings as it is imported

    assert list(STAGE_TASKS) == [stage.name for stage in curate.STAGES if stage.body is not None]
    assert {name for name in app.tasks if name.startswith("lamina.")} == {
        f"lamina.{n}" for n in [*STAGE_TASKS, *CHORES]
    }
    assert {stage.waits for stage in curate.STAGES} <= QUEUES


def test_the_fleet_gives_what_one_process_gives(fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 40)
    for _ in range(2):
        fleet.work()
    run = fleet.lamina("submit", str(sources))["run"]
    assert fleet.until_ended(run) == "completed"
    check(fleet, embedded(tmp_path, sources))
    again = fleet.lamina("submit", str(sources))["run"]
    assert fleet.until_ended(again) == "noop"


def test_the_schedule_holds_contexts_against_the_ledger(tmp_path: Path) -> None:
    """And says what it found; rolling back works on a fleet as anywhere."""
    sources = tmp_path / "notes"
    make_sources(sources, 8)
    with Fleet(tmp_path / "home", LAMINA_FSCK_EVERY_S="2") as fleet:
        fleet.work()
        for mark in ("first", "second"):
            make_sources(sources, 8, mark=mark)
            run = fleet.lamina("submit", str(sources))["run"]
            assert fleet.until_ended(run) == "completed"
        first, live = (
            fleet.lamina("query", "notes", f"{mark}3word1", "--mode", "sparse")["hits"] for mark in ("first", "second")
        )
        assert (bool(first), bool(live)) == (False, True)
        assert fleet.lamina("rollback", "notes")["live_version"] == 1
        assert fleet.lamina("query", "notes", "first3word1", "--mode", "sparse")["hits"]

        def found() -> list[float]:
            rows = fleet.lamina("metrics")["metrics"]
            return [row["value"] for row in rows if row["name"] == "lamina_fsck_found"]

        wait_for(lambda: found() == [0], 60, "a check", every=0.5)
        ports = ports_of(fleet)
        with ports.ledger.read() as session:
            row = session.records.page_at(SLUG, 1, "", 1)[0]
        ports.index(SLUG).delete(row.namespace, [row.id])
        bootstrap.close(ports)
        wait_for(lambda: found() == [1], 60, "what it found", every=0.5)
        assert fleet.lamina("fsck", "notes", "--repair")["healed"] == {"missing": 1}


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


def test_cancel_reaches_workers_through_the_ledger(small_fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 200)
    small_fleet.work()
    run = small_fleet.lamina("submit", str(sources))["run"]
    wait_for(lambda: _done(small_fleet, run, "parse") > 2, 60, "some units")
    assert small_fleet.lamina("cancel", run)["state"] == "abandoned"
    wait_for(lambda: small_fleet.broker.waiting() == 0, 30, "messages of a cancelled run")
    ports = ports_of(small_fleet)
    try:
        with ports.ledger.read() as session:
            assert publish.require_context(session, SLUG).live_version == 0
    finally:
        bootstrap.close(ports)


def _done(fleet: Fleet, run: str, stage: str) -> int:
    return next((s["done"] for s in fleet.lamina("explain", run)["stages"] if s["stage"] == stage), 0)


def test_a_worker_told_to_stop_hands_back_and_ends_in_time(small_fleet: Fleet, tmp_path: Path) -> None:
    """SIGTERM amid the work: exit 0 well before the lease would run out by itself; the other one finishes the run."""
    sources = tmp_path / "notes"
    make_sources(sources, 120)
    first = small_fleet.work()
    run = small_fleet.lamina("submit", str(sources))["run"]
    wait_for(lambda: _done(small_fleet, run, "parse") > 1, 60, "some units")
    assert first.stop(40) == 0
    units = small_fleet.lamina("explain", run)["units"]
    assert all(unit["state"] == "waiting" for unit in units), units
    small_fleet.work()
    assert small_fleet.until_ended(run) == "completed"
    check(small_fleet, embedded(tmp_path, sources))


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
    wait_for(lambda: _done(fleet, run, "parse") > 1, 60, "some units")
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
