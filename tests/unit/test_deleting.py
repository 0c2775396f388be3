"""Deleting sources from a context: what goes, what is read for it, and what keeps it out."""

import pytest
from world import SLUG, World

from pipeline import curate, deleting, loop
from pipeline.errors import RejectedInput
from pipeline.fingerprint import content_hash


def delete(world, *paths):
    world.clock.advance(1)
    deleting.bury(world.ports, SLUG, paths)
    return loop.curate_and_follow(world.ports, deleting.request(SLUG), 1)


@pytest.fixture
def world():
    made = World()
    for path, *words in (("a.md", "alpha"), ("b/c.md", "beta"), ("b/d.md", "gamma", "delta"), ("bc.md", "epsilon")):
        made.put(path, *words)
    made.curate()
    yield made
    made.close()


def paths(world):
    return sorted({path for path, _, _ in world.read(world.live())})


class CountingTree:
    """The world's tree, with what is asked of it."""

    def __init__(self, inner):
        self.inner, self.asked = inner, []

    def __getattr__(self, name):
        def ask(*given):
            self.asked.append((name, *given))
            return getattr(self.inner, name)(*given)

        return ask


def test_a_source_goes_and_nothing_is_read(world):
    world.tree = CountingTree(world.tree)
    parsed, embedded = list(world.parser.calls), list(world.embedders["hash"].texts)
    run = delete(world, "a.md")
    assert (run.state, run.trigger) == ("completed", "delete")
    assert paths(world) == ["b/c.md", "b/d.md", "bc.md"]
    assert world.found("alpha") == []
    assert world.tree.asked == []
    assert (world.parser.calls, world.embedders["hash"].texts) == (parsed, embedded)


def test_a_folder_goes_on_whole_path_parts(world):
    delete(world, "b/")
    assert paths(world) == ["a.md", "bc.md"]


def test_one_that_is_not_there_stops_the_others(world):
    with pytest.raises(RejectedInput, match=r"shows no source nothing\.md"):
        deleting.bury(world.ports, SLUG, ["a.md", "nothing.md"])
    assert world.curate().state == "noop"
    assert paths(world) == ["a.md", "b/c.md", "b/d.md", "bc.md"]


def test_it_stays_out_until_its_bytes_change(world):
    delete(world, "a.md")
    assert world.curate().state == "noop"
    world.put("new.md", "zeta")
    world.curate()
    assert paths(world) == ["b/c.md", "b/d.md", "bc.md", "new.md"]
    assert world.curate(force=True).state == "completed"
    assert "a.md" not in paths(world)
    world.put("a.md", "alpha", "edited")
    world.curate()
    assert "a.md" in paths(world)
    world.put("a.md", "alpha")
    world.curate()
    assert "a.md" in paths(world), "the tombstone ended with the other bytes"


def test_restored(world):
    delete(world, "b")
    with pytest.raises(RejectedInput, match=r"a\.md was not deleted"):
        deleting.unearth(world.ports, SLUG, ["b/c.md", "a.md"])
    assert deleting.unearth(world.ports, SLUG, ["b/c.md"]) == ("b/c.md",)
    world.curate()
    assert paths(world) == ["a.md", "b/c.md", "bc.md"]


def test_a_deletion_cut_short_is_carried_out_by_the_next_run(world):
    """Its intent stands in the ledger before it begins."""
    deleting.bury(world.ports, SLUG, ["a.md"])
    world.put("new.md", "zeta")
    world.curate()
    assert paths(world) == ["b/c.md", "b/d.md", "bc.md", "new.md"]


def test_after_a_rollback(world):
    """The deletion holds for what is live, and the rolled-back version's additions don't come back with it."""
    world.put("late.md", "omega")
    world.curate()
    curate.rollback(world.ports, SLUG, 1)
    delete(world, "a.md")
    assert paths(world) == ["b/c.md", "b/d.md", "bc.md"]
    world.curate()
    assert paths(world) == ["b/c.md", "b/d.md", "bc.md", "late.md"]


def test_all_of_them(world):
    run = delete(world, "a.md", "b", "bc.md")
    assert (run.state, paths(world)) == ("completed", [])


def test_a_source_that_changed_since_comes_in_as_what_it_is_now(world):
    world.put("a.md", "othello")
    delete(world, "a.md")
    assert "a.md" not in paths(world)
    world.curate()
    assert world.found("othello") == ["a.md"]
    assert content_hash(world.files["a.md"])
