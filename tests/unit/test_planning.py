"""plan says what a run then does, changes nothing, and apply does it or refuses."""

from dataclasses import replace

import pytest
from world import SECTIONS, SLUG, WHOLE, World, start, step

from pipeline import contract, planning
from pipeline.errors import Conflict, RejectedInput
from pipeline.rows import RUN_ACTIVE
from pipeline.types import RunId, SourcePath


@pytest.fixture
def world():
    made = World()
    for n in range(5):
        made.put(f"{n}.md", f"alpha{n}", f"beta{n}")
    made.curate()
    yield made
    made.close()


def plan(world, **request):
    world.clock.advance(1)
    return planning.make(world.ports, world.request(**request), 1)


def by_source(document):
    return {row["source"]: row for row in document["sources"]}


def edit(world):
    world.put("0.md", "alpha0", "edited")
    world.put("new.md", "omega")
    world.drop("1.md")
    world.files[SourcePath("bad.md")] = b"# REFUSE"


def test_it_says_what_becomes_of_each_source(world):
    edit(world)
    document = plan(world)
    rows = by_source(document)
    assert document["changes"] == {"changed": 1, "deleted": 1, "new": 2}
    assert document["unchanged"] == 3
    told = {path: [row[k] for k in ("change", "added", "removed", "kept")] for path, row in rows.items()}
    assert told == {
        "0.md": ["changed", 1, 1, 1], "1.md": ["deleted", 0, 2, 0], "bad.md": ["new", 0, 0, 0], "new.md": ["new", 1, 0, 0],
    }  # fmt: skip
    assert rows["0.md"]["why"] == "its bytes changed"
    assert (rows["bad.md"]["status"], rows["bad.md"]["reason"]) == ("failed", "bad.md says REFUSE")
    assert rows["new.md"]["tokens"] > 0
    assert rows["0.md"]["tokens"] > 0


def test_it_changes_nothing(world):
    edit(world)
    before, texts, listed = world.read(1), list(world.embedders["hash"].texts), world.listed(1)
    scanned = [row for space in {r.namespace for r in listed} for row in world.raw_index.scan(space)]
    document = plan(world)
    assert (world.live(), world.read(1), world.listed(1)) == (1, before, listed)
    assert world.embedders["hash"].texts == texts, "nothing is embedded"
    assert [row for space in {r.namespace for r in listed} for row in world.raw_index.scan(space)] == scanned
    with world.ledger.read() as session:
        run = session.runs.get(RunId(document["plan"]))
        assert session.records.tombstones(SLUG, "", 10) == ()
        assert session.runs.active(SLUG) is None
    assert (run.kind, run.state) == ("plan", "abandoned")


@pytest.mark.parametrize("forced", [False, True])
def test_the_run_does_what_the_plan_says(world, forced):
    """Record by record, and token by token."""
    edit(world)
    document = plan(world, force=forced, manifest=WHOLE if forced else SECTIONS)
    old = {row.id for row in world.listed(1)}
    spent = len(world.embedders["hash"].texts)
    run = planning.apply(world.ports, RunId(document["plan"]), 1)
    assert (run.state, run.kind, world.live()) == ("completed", "curate", run.number)
    new = {row.id for row in world.listed(run.number)}
    records = document["records"]
    assert (len(new - old), len(old - new)) == (records["added"] + records["copied"], records["removed"])
    embedded = next(stage for stage in document["stages"] if stage["stage"] == "embed_dense")
    assert len(world.embedders["hash"].texts) - spent == embedded["texts"]
    tally = contract.tally(world.ports, run)
    assert dict(tally.changes) == document["changes"]
    if forced:
        assert by_source(document)["2.md"]["why"] == "forced: the manifest's chunk leg changed"


def test_planning_and_applying_parse_once(world):
    edit(world)
    world.parser.calls.clear()
    document = plan(world)
    planning.apply(world.ports, RunId(document["plan"]), 1)
    assert sorted(world.parser.calls) == ["0.md", "bad.md", "new.md"]


@pytest.mark.parametrize("what", ["bytes", "another source", "a version", "recipe"])
def test_the_world_moved(world, what):
    edit(world)
    document = plan(world)
    if what == "bytes":
        world.put("0.md", "alpha0", "edited", "again")
    elif what == "another source":
        world.put("more.md", "psi")
    elif what == "a version":
        world.curate()
    else:
        world.parser.identity = "other parsers"
    live, listed = world.live(), world.listed(world.live())
    world.clock.advance(1)
    with pytest.raises(Conflict, match="no longer holds") as caught:
        planning.apply(world.ports, RunId(document["plan"]), 1)
    assert caught.value.code == "world_moved"
    if what == "another source":
        assert "more.md" in caught.value.message
    assert (world.live(), world.listed(live)) == (live, listed)
    with world.ledger.read() as session:
        assert session.runs.active(SLUG) is None


def test_nothing_to_do(world):
    document = plan(world)
    assert (document["nothing_to_do"], document["sources"], document["unchanged"]) == (True, [], 5)
    world.clock.advance(1)
    assert planning.apply(world.ports, RunId(document["plan"]), 1).state == "noop"


def test_what_force_would_change_is_counted(world):
    assert plan(world, manifest=WHOLE)["stale"] == 5


def test_known_vectors_cost_nothing(world):
    """They are found by text, wherever that stood before."""
    world.put("copy.md", "alpha3")
    row = by_source(plan(world))["copy.md"]
    assert (row["tokens"], row["cached_tokens"] > 0) == (0, True)


def test_stages_are_told_with_the_pace_of_earlier_runs(world):
    edit(world)
    stages = {stage["stage"]: stage for stage in plan(world)["stages"]}
    assert [name for name, stage in stages.items() if stage["done"]] == ["inventory", "parse", "chunk", "screen"]
    assert stages["upsert"]["work"] == 2
    assert stages["embed_dense"]["work"] > 0


def test_not_while_a_run_is_at_work(world):
    edit(world)
    begun = start(world, "other")
    step(world, begun, "other")
    with pytest.raises(Conflict) as caught:
        plan(world)
    assert caught.value.code == "run_active"


def test_an_unfinished_run_gives_way_to_a_plan(world):
    """Its work is in the memo; what it had planned isn't what there is to do now."""
    edit(world)
    begun = start(world)
    step(world, begun)
    world.clock.advance(100)
    world.put("more.md", "psi")
    assert "more.md" in by_source(plan(world))
    with world.ledger.read() as session:
        assert session.runs.get(begun.run).state not in RUN_ACTIVE


def test_a_curate_after_a_plan_that_died(world):
    """Whoever comes next ends it, and starts with what the sources are now."""
    edit(world)
    begun = start(world, kind="plan")
    step(world, begun)
    world.clock.advance(100)
    world.put("more.md", "psi")
    run = world.curate()
    assert (run.kind, run.state) == ("curate", "completed")
    assert world.found("psi") == ["more.md"]


def test_no_such_plan(world):
    run = world.curate(force=True)
    for plan_id in ("nothing", run.id):
        with pytest.raises(RejectedInput, match="there is no plan"):
            planning.apply(world.ports, RunId(plan_id), 1)
    assert replace(world.ports, owner="two").owner == "two"
