"""Seeded histories of a whole fleet on a virtual clock; and proof that they would notice if the engine were wrong.

`SIMULATION_SEEDS=0:1000` runs more of them. A failing one is named, and always fails the same way.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from simulation import history

from pipeline import fleet, publish
from pipeline.adapters.ledger_sql_fleet import SqlUnits
from pipeline.adapters.ledger_sql_records import SqlRecords
from pipeline.adapters.ledger_sql_runs import SqlRuns

GROUPS = 10
FIRST, LAST = map(int, os.environ.get("SIMULATION_SEEDS", "0:200").split(":"))
MUTANT_SEEDS = 40


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_history_ends_well(group: int) -> None:
    """Killed, asleep past its lease, without answers or messages: one flip, all of it, nothing else, nothing left to do."""
    harms: Counter[str] = Counter()
    for seed in range(FIRST + group, LAST, GROUPS):
        try:
            harms.update(history(seed).harms)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    if LAST - FIRST >= 200:
        assert {kind for kind, n in harms.items() if n} >= {
            "crash",
            "inside",
            "sleep",
            "outage",
            "drop",
            "twice",
            "late",
            "flush",
        }


def test_a_seed_is_a_history() -> None:
    """Else a failing one could not be looked at again."""
    once, again = history(7), history(7)
    assert (once.turns, once.harms) == (again.turns, again.harms)


# ---- mutants: the engine with one rule broken

Patch = Callable[[pytest.MonkeyPatch], None]


def lost_workers_keep_their_units(patch: pytest.MonkeyPatch) -> None:
    """A lease never runs out, and one that lies far ahead isn't taken for a clock that has been set back."""
    claim = SqlUnits.claim

    def for_ever(self: Any, run: Any, fence: int, stages: Any, **given: Any) -> Any:
        return claim(self, run, fence, stages, **{**given, "until": 1e12})

    patch.setattr(SqlUnits, "claim", for_ever)
    patch.setattr(SqlUnits, "recall", lambda *_given: None)


def lost_messages_are_not_sent_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet, "_overdue", lambda *_given: None)


def silent_workers_keep_their_lanes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fleet, "_overdue", _only_sent(fleet._overdue))


def _only_sent(overdue: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ports, session, run, lane: None if lane.state == "held" else overdue(ports, session, run, lane)


def removals_are_not_stamped_in_the_index(patch: pytest.MonkeyPatch) -> None:
    from pipeline.adapters.index_local import LocalIndex  # noqa: PLC0415

    patch.setattr(LocalIndex, "stamp", lambda *_given: None)


def removals_are_not_stamped_in_the_ledger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlRecords, "stamp_planned", lambda *_given: None)


def the_folder_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publish, "refresh_view", lambda *_given: True)


def a_sweep_takes_what_is_listed(patch: pytest.MonkeyPatch) -> None:
    def tombstones(self: Any, slug: Any, after: str, limit: int) -> Any:
        rows = self._db.all(
            "SELECT namespace, id FROM record WHERE context = ? AND id > ? AND added = 1 ORDER BY id LIMIT ?",
            (slug, after, min(limit, 1)),
        )
        return tuple((row[0], row[1]) for row in rows)

    patch.setattr(SqlRecords, "tombstones", tombstones)


def a_flip_of_its_own_each_time(patch: pytest.MonkeyPatch) -> None:
    """The pointer is moved again by whoever does the unit again."""
    flipped = publish.flip

    def flip(session: Any, run: Any, now: float, output: str) -> None:
        flipped(session, run, now, output)
        session.contexts.move(run.context, run.number, run.id, now)

    patch.setattr(publish, "flip", flip)


def a_run_that_ended_goes_on(patch: pytest.MonkeyPatch) -> None:
    """The last stage doesn't say so."""
    patch.setattr(SqlRuns, "set_state", _but_completed(SqlRuns.set_state))


def _but_completed(set_state: Callable[..., Any]) -> Callable[..., Any]:
    def set_(self: Any, run: Any, state: str, now: float, **more: Any) -> None:
        if state != "completed":
            set_state(self, run, state, now, **more)

    return set_


def records_are_written_once_too_few(patch: pytest.MonkeyPatch) -> None:
    """Of a block that is written again after a crash, one is taken for written; and nobody looks."""
    from pipeline.adapters.index_local import LocalIndex  # noqa: PLC0415
    from pipeline.stages import verify  # noqa: PLC0415

    upsert = LocalIndex.upsert
    seen: set[Any] = set()

    def lossy(self: Any, batch: Any) -> None:
        again = batch.ids in seen
        seen.add(batch.ids)
        if not again and len(seen) % 7 == 3:
            return
        upsert(self, batch)

    patch.setattr(LocalIndex, "upsert", lossy)
    patch.setattr(verify, "additions", lambda _job: iter(()))


MUTANTS: tuple[Patch, ...] = (
    lost_workers_keep_their_units,
    lost_messages_are_not_sent_again,
    silent_workers_keep_their_lanes,
    removals_are_not_stamped_in_the_index,
    removals_are_not_stamped_in_the_ledger,
    the_folder_is_left_behind,
    a_sweep_takes_what_is_listed,
    a_flip_of_its_own_each_time,
    a_run_that_ended_goes_on,
    records_are_written_once_too_few,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_noticed(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some history ends badly with it."""
    monkeypatch.setattr("simulation.TURNS_MAX", 6000)
    for seed in range(MUTANT_SEEDS):
        try:
            with monkeypatch.context() as patch:
                history(seed, fleet_begins=lambda: mutant(patch))  # called at once
        except (AssertionError, Exception):  # noqa: BLE001  # whatever shows that something is wrong
            return
    pytest.fail(f"{MUTANT_SEEDS} histories ended well with the mutant")
