"""gc: what nobody can read goes, what anybody can read stays."""

import pytest
from world import SLUG, World, start, step

from pipeline import contexts, fsck, planning
from pipeline.adapters.memory import VirtualClock
from pipeline.collecting import collect
from pipeline.errors import Conflict


@pytest.fixture
def world():
    made = World()
    for n in range(30):
        made.put(f"{n}.md", *(f"w{n}x{k}" for k in range(20)))
    made.curate()
    yield made
    made.close()


def rewrite(world, mark):
    for n in range(30):
        world.put(f"{n}.md", *(f"{mark}{n}x{k}" for k in range(20)))
    world.curate()


def test_versions_past_keeping_go_without_a_run(world):
    """A pin that has ended, or a smaller keep_versions, frees its version now."""
    pin = contexts.pin(world.ports, SLUG, version=1, seconds=3600)
    rewrite(world, "v")
    rewrite(world, "w")
    assert world.readable() == [3, 2, 1]
    done = collect(world.ports, SLUG)
    assert (done.versions, done.delisted) == ((), 0), "pinned"
    contexts.unpin(world.ports, SLUG, pin.id)
    live = world.read(3)
    done = collect(world.ports, SLUG)
    assert (done.versions, done.delisted) == ((1,), 600)
    assert (world.readable(), world.read(3)) == ([3, 2], live)
    assert done.freed > 0
    again = collect(world.ports, SLUG)
    assert (again.versions, again.delisted, again.files) == ((), 0, 0)
    assert fsck.fsck(world.ports, SLUG, repair=False).found == {}


def test_files_that_nobody_names(world):
    named = set(world.objects.list("blobs/"))
    stray = "blobs/0/" + "0" * 64
    world.objects.put_many({stray: b"left by a run that died"})
    assert collect(world.ports, SLUG).files == 1
    assert set(world.objects.list("blobs/")) == named


def test_old_plans(world):
    for n in range(12):
        world.put("0.md", f"changed{n}")
        world.clock.advance(1)
        plan = planning.make(world.ports, world.request(), 1)
    assert collect(world.ports, SLUG).plans == 2
    assert planning.stored(world.ports, plan["plan"])


def test_not_beside_a_run(world):
    world.put("new.md", "omega")
    step(world, start(world))
    with pytest.raises(Conflict, match="is not at its end"):
        collect(world.ports, SLUG)
    assert isinstance(world.clock, VirtualClock)
