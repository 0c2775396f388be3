"""watch: a run for each change that has come to rest, and one after another."""

import pytest
from world import SLUG, World

from pipeline.errors import Conflict, RejectedInput, Unavailable
from pipeline.watching import GONE, SETTLE_MAX_S, Watcher


class Days:
    """What happens at each look, by its number; the clock is the world's."""

    def __init__(self, world, happens, looks):
        self.world, self.happens, self.looks, self.slept = world, happens, looks, []
        self.count = 0
        sleep = world.clock.sleep

        def sleeping(seconds):
            self.slept.append(seconds)
            world.clock.advance(seconds)
            sleep(0)
            self.count += 1
            if self.count in happens:
                happens[self.count]()

        world.clock.sleep = sleeping

    def stop(self):
        return self.count >= self.looks


@pytest.fixture
def world():
    made = World()
    made.put("a.md", "alpha")
    yield made
    made.close()


def watched(world, happens, looks=8, curate=None, settle=2.0):
    days = Days(world, happens, looks)
    watcher = Watcher(world.ports, SLUG, 5.0, settle)
    return list(watcher.events(curate or world.curate, days.stop)), days


def test_it_curates_at_once_and_after_each_change(world):
    events, _ = watched(world, {2: lambda: world.put("b.md", "beta"), 5: lambda: world.drop("a.md")})
    assert [event.run.state for event in events] == ["completed"] * 3
    assert world.texts() == ["# beta\n\nbody of beta"]


def test_nothing_happens_when_nothing_changes(world):
    events, days = watched(world, {})
    assert len(events) == 1
    assert days.slept == [5.0] * 8


def test_it_waits_until_the_files_have_come_to_rest(world):
    """A copy under way isn't curated half."""
    happens = {n: (lambda n=n: world.put(f"{n}.md", f"w{n}")) for n in range(2, 6)}
    events, _ = watched(world, happens, looks=12)
    assert len(events) == 2, "one run for all of them"
    assert len(world.texts()) == 5


def test_files_that_never_rest_are_curated_all_the_same(world):
    happens = {n: (lambda n=n: world.put("log.md", f"w{n}")) for n in range(2, 200)}
    events, days = watched(world, happens, looks=90)
    assert len(events) >= 3
    assert days.slept.count(2.0) >= SETTLE_MAX_S / 2


def test_a_change_during_a_run_is_seen_after_it(world):
    late = [True]

    def curate():
        run = world.curate()
        if late:
            late.clear()
            world.put("late.md", "omega")
        return run

    events, _ = watched(world, {}, curate=curate)
    assert len(events) == 2
    assert world.found("omega") == ["late.md"]


@pytest.mark.parametrize("error", [Unavailable("down", "away"), Conflict("run_active", "another run")])
def test_what_may_pass_is_tried_again_later_each_time(world, error):
    left = [error] * 4

    def curate():
        if left:
            raise left.pop()
        return world.curate()

    events, _ = watched(world, {}, looks=12, curate=curate)
    waits = [event.wait_s for event in events if event.error]
    assert waits == [5.0, 5.0, 5.0, 5.0]
    assert events[-1].run.state == "completed"


def test_a_refusal_waits_for_the_next_change(world):
    def curate():
        if len(world.files) == 1:
            raise RejectedInput("empty_root", "nothing there")
        return world.curate()

    events, _ = watched(world, {4: lambda: world.put("b.md", "beta")}, curate=curate)
    assert [(event.error is not None, event.wait_s) for event in events] == [(True, 0.0), (False, 0.0)]


def test_a_large_folder_is_looked_at_less_often(world):
    """Each look here takes a second by the clock."""
    walk = world.tree.walk

    def slow():
        world.clock.advance(1.0)
        return walk()

    world.tree.walk = slow
    _, days = watched(world, {})
    assert set(days.slept) == {20.0}


def test_a_folder_that_is_gone_and_comes_back(world):
    there = [True]
    world.tree.exists = lambda: there[0]
    watcher = Watcher(world.ports, SLUG, 5.0, 2.0)
    before = watcher.signature()
    there[0] = False
    assert watcher.signature() == GONE
    there[0] = True
    assert watcher.signature() == before
