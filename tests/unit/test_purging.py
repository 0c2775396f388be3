"""A purge leaves nothing of a source: not in kept versions, memo, recordings or free pages; and nothing else goes with it."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest
from knowledge_facts import ARTIFACTS
from world import SLUG, World

from manifests import manifest_from
from pipeline import collecting, contexts, curate, deleting, loop, purging, recording, replay
from pipeline.adapters.ledger_sqlite import SqliteLedger
from pipeline.adapters.memory import MemoryMemo
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.errors import Conflict, RejectedInput, Unavailable
from pipeline.fsck import fsck
from pipeline.types import RunId

BOTH = manifest_from({"curate": {"chunks": {"chunking": {"target_size": 64, "overlap": 0}}, "artifacts": ARTIFACTS}})


class Paid(ExtractiveModel):
    """The extractive model as one whose answers are kept."""

    deterministic = False


@pytest.fixture
def world() -> Iterator[World]:
    made = World(language=Paid())
    made.limits = replace(made.limits, retain_sources=1, keep_versions=3)
    made.ports = made.ports_for("one")
    yield made
    made.close()


def purge(world: World, *paths: str) -> purging.Standing:
    world.clock.advance(1)
    deleting.bury(world.ports, SLUG, paths, purge=True)
    run = loop.curate_and_follow(world.ports, deleting.request(SLUG), 1)
    assert run.state in ("completed", "noop"), run.error
    deleting.purge_rest(world.ports, SLUG)
    return purging.standing(world.ports, SLUG)


def history(world: World) -> list[RunId]:
    """Versions 1 to 3: `b.md` comes with the second, shares a heading with `a.md`, and says different things over time."""
    world.put("a.md", "heron", "shared reed")
    runs = [world.curate(BOTH).id]
    world.clock.advance(1)
    world.put("b.md", "secret otter", "shared reed")
    runs.append(world.curate(BOTH).id)
    world.clock.advance(1)
    world.put("b.md", "secret beaver", "shared reed")
    world.put("a.md", "heron", "shared reed", "crane")
    runs.append(world.curate(BOTH).id)
    return runs


def known(world: World) -> str:
    """Everything that any store holds, as text."""
    memo = world.memo
    assert isinstance(memo, MemoryMemo)
    objects = [world.objects.get(key) for key in world.objects.list("")]
    world.raw_index.close()
    index = (world.home / "index.sqlite").read_bytes().decode("utf-8", "replace")
    ledger = world.ledger
    assert isinstance(ledger, SqliteLedger)
    rows = "\n".join(sqlite3.connect(ledger._path).iterdump())
    return "\n".join([
        *(value.decode("utf-8", "replace") for value in (*memo._values.values(), *objects)), index, rows,
        repr(world.view.files),
    ])  # fmt: skip


def test_nothing_of_it_is_left_anywhere(world: World) -> None:
    history(world)
    assert "secret otter" in known(world)
    standing = purge(world, "b.md")
    assert standing == purging.Standing(unavailable=(2, 3), pinned=(), pending=0)
    assert "secret" not in known(world)
    assert world.readable() == [4, 1]
    assert world.texts(1)
    assert fsck(world.ports, SLUG, repair=False).found == {}
    assert world.live() == 4
    world.clock.advance(1)
    world.drop("b.md")
    assert world.curate(BOTH).state == "noop", "what is left is what an undisturbed context has"


def test_what_other_sources_say_too_stays(world: World) -> None:
    history(world)
    memo = world.memo
    assert isinstance(memo, MemoryMemo)
    mine = {key for key, held in memo._origins.items() if f"{SLUG}/a.md" in held and not any(held.values())}
    world.clock.advance(1)
    purge(world, "b.md")
    assert mine
    assert mine <= set(memo._values), "of what stands in both, the other's stays"
    world.clock.advance(1)
    embedded = len(world.embedders["hash"].texts)
    world.curate(BOTH, force=True)
    assert len(world.embedders["hash"].texts) == embedded, "and needs no embedding again"


def test_an_equal_source_of_another_context_loses_nothing(world: World) -> None:
    history(world)
    memo = world.memo
    assert isinstance(memo, MemoryMemo)
    alone = {key for key, held in memo._origins.items() if not any(held.values())}
    memo.put_many({}, {key: ["other/copy.md"] for key in alone})
    purge(world, "b.md")
    assert alone
    assert alone <= set(memo._values)


def test_a_pinned_version_waits_for_its_pin(world: World) -> None:
    history(world)
    contexts.pin(world.ports, SLUG, version=2, seconds=100.0)
    standing = purge(world, "b.md")
    assert (standing.unavailable, [number for number, _ in standing.pinned], standing.pending) == ((3,), [2], 1)
    assert any("secret otter" in text for text in world.texts(2)), "the pin's owner goes on reading"
    with pytest.raises(RejectedInput, match="version 2 of ctx can't be read"):
        curate.rollback(world.ports, SLUG, 2)
    with pytest.raises(Conflict, match="until the pins that it has end"):
        contexts.pin(world.ports, SLUG, version=2, seconds=1000.0)
    world.clock.advance(200)
    collecting.collect(world.ports, SLUG)
    assert purging.standing(world.ports, SLUG) == purging.Standing(unavailable=(2, 3), pinned=(), pending=0)
    assert "secret" not in known(world)


def test_what_was_deleted_before_can_still_be_purged(world: World) -> None:
    history(world)
    world.clock.advance(1)
    world.drop("b.md")
    world.curate(BOTH)
    assert purge(world, "b.md").pending == 0
    assert "secret" not in known(world)
    with pytest.raises(RejectedInput, match=r"shows no source c\.md"):
        deleting.bury(world.ports, SLUG, ["c.md"], purge=True)


def test_what_comes_under_the_path_later_is_another_matter(world: World) -> None:
    history(world)
    purge(world, "b.md")
    world.clock.advance(1)
    world.put("b.md", "public duck")
    world.curate(BOTH)
    world.clock.advance(1)
    world.put("b.md", "public goose")
    world.curate(BOTH)
    assert world.readable() == [6, 5, 4]
    collecting.collect(world.ports, SLUG)
    assert world.readable() == [6, 5, 4]
    assert any("public duck" in text for text in world.texts(5))


def test_a_purged_version_is_neither_replayed_nor_gone_back_to(world: World) -> None:
    runs = history(world)
    purge(world, "b.md")
    scratch = World(opened=False)
    with pytest.raises(Conflict, match="version 3 of ctx held sources that were purged since"):
        replay.replay(world.ports, scratch.ports, replay.Ask(runs[2]), 1)
    assert replay.replay(world.ports, scratch.ports, replay.Ask(runs[0]), 1)["equal"], "without it, as before"
    scratch.close()
    with pytest.raises(RejectedInput, match="can't be read"):
        curate.rollback(world.ports, SLUG, 3)


def test_the_version_after_it_is_still_recorded(world: World) -> None:
    history(world)
    purge(world, "b.md")
    with world.ledger.read() as session:
        newest = session.runs.list(SLUG, 1)[0]
    scratch = World(opened=False)
    report = replay.replay(world.ports, scratch.ports, replay.Ask(newest.id), 1)
    assert report["equal"], report["differences"]
    scratch.close()


def test_bytes_of_the_source_are_erased_and_those_of_others_stay(world: World) -> None:
    history(world)
    assert len(list(world.objects.list(recording.RETAINED))) == 4
    purge(world, "b.md")
    assert len(list(world.objects.list(recording.RETAINED))) == 2


class Away:
    """A store of which some calls never answer."""

    def __init__(self, inner: object, *names: str) -> None:
        self.inner, self.names = inner, names

    def __getattr__(self, name: str) -> object:
        if name in self.names:
            raise Unavailable("away", f"the store is away when asked to {name}")
        return getattr(self.inner, name)


@pytest.mark.parametrize("call", ["forget", "shrink"])
def test_a_purge_that_was_cut_short_is_carried_out_by_the_next_run(world: World, call: str) -> None:
    history(world)
    world.clock.advance(1)
    deleting.bury(world.ports, SLUG, ["b.md"], purge=True)
    index = Away(world.raw_index, call)
    broken = replace(world.ports, memo=Away(world.memo, call), index=lambda _slug: index)
    with pytest.raises(Unavailable, match=call):
        loop.curate_and_follow(broken, deleting.request(SLUG), 1)
    assert purging.standing(world.ports, SLUG).pending == 1
    assert "b.md" not in {path for path, _, _ in world.read(world.live())}, "what is live is without it all the same"
    world.clock.advance(60)
    loop.curate_and_follow(world.ports, deleting.request(SLUG), 1)
    assert purging.standing(world.ports, SLUG).pending == 0
    assert "secret" not in known(world)


def test_without_anything_to_purge_nothing_is_asked(world: World) -> None:
    history(world)
    index = Away(world.raw_index, "shrink")
    purging.carry_out(replace(world.ports, memo=Away(world.memo, "forget"), index=lambda _slug: index), SLUG)
