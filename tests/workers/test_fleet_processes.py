"""The fleet as operators run it: `lamina submit`, real Celery workers and a real broker. Its faults: `tests/faults`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_checks import SLUG, check, done, embedded, fleet_on, ports_of
from fleet_processes import Fleet, make_sources, wait_for

from pipeline import bootstrap, curate, publish
from workers.schedule import QUEUES


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_on(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def small_fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path / "home") as made:
        yield made


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


def test_cancel_reaches_workers_through_the_ledger(small_fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 200)
    small_fleet.work()
    run = small_fleet.lamina("submit", str(sources))["run"]
    wait_for(lambda: done(small_fleet, run, "parse") > 2, 60, "some units")
    assert small_fleet.lamina("cancel", run)["state"] == "abandoned"
    wait_for(lambda: small_fleet.broker.waiting() == 0, 30, "messages of a cancelled run")
    ports = ports_of(small_fleet)
    try:
        with ports.ledger.read() as session:
            assert publish.require_context(session, SLUG).live_version == 0
    finally:
        bootstrap.close(ports)


def test_a_worker_told_to_stop_hands_back_and_ends_in_time(small_fleet: Fleet, tmp_path: Path) -> None:
    """SIGTERM amid the work: exit 0 well before the lease would run out by itself; the other one finishes the run."""
    sources = tmp_path / "notes"
    make_sources(sources, 120)
    first = small_fleet.work()
    run = small_fleet.lamina("submit", str(sources))["run"]
    wait_for(lambda: done(small_fleet, run, "parse") > 1, 60, "some units")
    assert first.stop(40) == 0
    units = small_fleet.lamina("explain", run)["units"]
    assert all(unit["state"] == "waiting" for unit in units), units
    small_fleet.work()
    assert small_fleet.until_ended(run) == "completed"
    check(small_fleet, embedded(tmp_path, sources))


def test_a_small_run_has_a_lane_of_its_own(small_fleet: Fleet, tmp_path: Path) -> None:
    """A worker of the queue `small` ends it while nobody serves the queues that a large run waits in."""
    large, small = tmp_path / "large", tmp_path / "small"
    make_sources(large, 40)
    make_sources(small, 3)
    small_fleet.work("--queues", "small,control")
    first = small_fleet.lamina("submit", str(large))["run"]
    second = small_fleet.lamina("submit", str(small))["run"]
    assert small_fleet.until_ended(second) == "completed"
    assert small_fleet.state(first) == "running"
    assert done(small_fleet, first, "parse") == 0
    small_fleet.work()
    assert small_fleet.until_ended(first) == "completed"


def test_a_run_that_comes_later_has_its_share(small_fleet: Fleet, tmp_path: Path) -> None:
    """A context with a sixth of the units doesn't wait until a larger one that came first has ended."""
    large, medium = tmp_path / "large", tmp_path / "medium"
    make_sources(large, 600)
    make_sources(medium, 40)
    small_fleet.work()
    first = small_fleet.lamina("submit", str(large))["run"]
    wait_for(lambda: done(small_fleet, first, "parse") > 1, 60, "some units")
    second = small_fleet.lamina("submit", str(medium))["run"]
    assert small_fleet.until_ended(second) == small_fleet.until_ended(first) == "completed"
    ports = ports_of(small_fleet)
    try:
        with ports.ledger.read() as session:
            ended = [publish.require_run(session, run).ended_at for run in (second, first)]
        assert ended[0] < ended[1]
    finally:
        bootstrap.close(ports)
