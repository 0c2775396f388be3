"""Quarantine: bytes that can't be taken are tried once, and again when something changes or somebody says so."""

from dataclasses import replace

import pytest
from world import SLUG, World

from pipeline import loop, quarantine
from pipeline.errors import RejectedInput, Unavailable
from pipeline.types import SourcePath


@pytest.fixture
def world():
    made = World()
    made.put("good.md", "alpha")
    made.files[SourcePath("bad.md")] = b"# REFUSE 1"
    made.curate()
    yield made
    made.close()


def tried(world):
    """What was parsed since the last question."""
    calls, world.parser.calls = world.parser.calls, []
    return sorted(calls)


def past(world):
    rows = quarantine.listed(world.ports, SLUG)
    ids = quarantine.past(world.ports, SLUG, rows)
    return sorted(row.path for row in rows if row.id in ids)


def test_a_bad_source_is_tried_once(world):
    assert tried(world) == ["bad.md", "good.md"]
    world.curate()
    assert world.curate(force=True).state in ("completed", "noop")
    assert "bad.md" not in tried(world), "not even when everything is planned anew"
    (entry,) = quarantine.listed(world.ports, SLUG)
    assert (entry.path, entry.code, entry.spared) == ("bad.md", "refused", 1)


def test_the_same_bytes_under_another_name_are_not_tried(world):
    tried(world)
    world.files[SourcePath("copies/bad.md")] = b"# REFUSE 1"
    world.put("new.md", "beta")
    run = world.curate()
    assert tried(world) == ["new.md"]
    assert run.state == "completed"
    live = world.live()
    with world.ledger.read() as session:
        (row,) = session.sources.at_for(SLUG, live, ["copies/bad.md"])
    assert (row.status, row.code) == ("failed", "refused")


def test_it_is_let_out_by_a_change_of_bytes(world):
    tried(world)
    world.put("bad.md", "cured")
    world.curate()
    assert tried(world) == ["bad.md"]
    assert world.found("cured") == ["bad.md"]
    assert past(world) == ["bad.md"], "what the source no longer has is kept, and told apart"


def test_what_is_past(world):
    """A source that is gone, or well under other parsers; not one that failed in a version which never came to be."""
    assert past(world) == []
    world.put("new.md", "beta")
    world.files[SourcePath("worse.md")] = b"# REFUSE 2"
    strict = replace(world.ports, limits=replace(world.limits, failed_share=0.0))
    world.clock.advance(1)
    run = loop.curate_and_follow(strict, world.request())
    assert (run.state, "gate failed" in run.error) == ("failed", True)
    assert past(world) == []
    world.drop("bad.md")
    world.clock.advance(1)
    world.curate()
    assert past(world) == ["bad.md"]
    world.parser.identity, world.parser.parse = "other parsers", world.parser.inner.parse
    world.clock.advance(1)
    world.curate(force=True)
    assert past(world) == ["bad.md", "worse.md"]


def test_it_is_let_out_by_a_change_of_parsers(world):
    tried(world)
    world.parser.identity = "other parsers"
    world.curate(force=True)
    assert "bad.md" in tried(world)


def test_it_is_let_out_by_hand(world):
    tried(world)
    world.parser.parse = world.parser.inner.parse  # mended, under the same name
    assert world.curate().state == "noop"
    with pytest.raises(RejectedInput, match=r"good\.md is not in quarantine"):
        quarantine.release(world.ports, SLUG, ["bad.md", "good.md"])
    assert [row.path for row in quarantine.release(world.ports, SLUG, ["bad.md"])] == ["bad.md"]
    world.curate()
    assert world.found("refuse") == ["bad.md"]
    assert quarantine.listed(world.ports, SLUG) == ()


def test_released_and_still_bad(world):
    quarantine.release(world.ports, SLUG, [])
    tried(world)
    world.curate()
    assert tried(world) == ["bad.md"]
    world.curate()
    assert tried(world) == []


def test_what_may_cure_itself_is_retried(world):
    """A vector that can't be stored is a provider's fault, not the source's."""
    world.put("vector.md", "gamma")
    embedder = world.embedders["hash"]

    def fail(text):
        if "gamma" in text:
            raise RejectedInput("vectors", "no vector for it")

    embedder.fail = fail
    world.curate()
    assert [row.path for row in quarantine.listed(world.ports, SLUG)] == ["bad.md"]
    embedder.fail = lambda _text: None
    world.curate()
    assert world.found("gamma") == ["vector.md"]


def test_an_outage_quarantines_nothing(world):
    world.put("new.md", "beta")
    world.parser.parse = lambda _data, _name: (_ for _ in ()).throw(Unavailable("down", "the service is away"))
    with pytest.raises(Unavailable):
        world.curate()
    assert [row.path for row in quarantine.listed(world.ports, SLUG)] == ["bad.md"]


def test_the_same_trouble_has_the_same_fingerprint(world):
    for n in range(3):
        world.files[SourcePath(f"more/{n}.md")] = f"# REFUSE {n + 10}".encode()
    world.curate()
    rows = quarantine.listed(world.ports, SLUG)
    assert len({row.error for row in rows}) == 1
    assert [row.path for row in rows] == ["bad.md", "more/0.md", "more/1.md", "more/2.md"]
    assert len(quarantine.of_path(world.ports, SLUG, rows[0].error)) == 4
    assert len(quarantine.release(world.ports, SLUG, ["more"])) == 3
    assert len(quarantine.release(world.ports, SLUG, [rows[0].error])) == 1


def test_the_last_good_revision_stays(world):
    world.files[SourcePath("good.md")] = b"# REFUSE 2"
    world.curate()
    assert world.found("alpha") == ["good.md"]
    world.curate(force=True)
    assert world.found("alpha") == ["good.md"]
    world.ports = replace(world.ports, owner="two")
    assert world.curate().state == "noop"
