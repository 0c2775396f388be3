"""The artifact leg from run to run: what moves, what stays, what is asked, what is left."""

from __future__ import annotations

import json
from typing import Any

import pytest
from knowledge_facts import ARTIFACTS, knowledge, nothing_of
from world import SLUG, World, start, step_until

from manifests import Manifest, manifest_from
from pipeline import publish
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.contract_state import curation_state
from pipeline.errors import RejectedInput
from pipeline.models import DocumentTask, MentionsTask, ModelReply, ModelRequest, ReduceTask
from pipeline.rows import RunRow


class Counted(ExtractiveModel):
    """The extractive model, its requests kept; it refuses to reduce the subjects that it is told."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.refuses: set[str] = set()

    def answer(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        if isinstance(request.task, ReduceTask) and request.task.name in self.refuses:
            raise RejectedInput("model_refused", "the model refuses this one")
        return super().answer(request)

    def reduced(self) -> set[str]:
        return {r.task.name for r in self.asked if isinstance(r.task, ReduceTask)}


def manifest(**changed: Any) -> Manifest:
    return manifest_from(
        {"curate": {"chunks": {"chunking": {"target_size": 64, "overlap": 0}}, "artifacts": {**ARTIFACTS, **changed}}}
    )


BOTH = manifest()


@pytest.fixture
def world() -> Any:
    made = World(language=Counted())
    yield made
    made.close()


def model(world: World) -> Counted:
    assert isinstance(world.language, Counted)
    return world.language


def run(world: World, wanted: Manifest = BOTH, **more: Any) -> RunRow:
    model(world).asked.clear()
    return world.curate(wanted, **more)


def things(world: World) -> dict[str, Any]:
    """Name to data of the subjects' artifacts."""
    live = world.live()
    with world.ledger.read() as session:
        page = session.knowledge.page_artifacts(SLUG, live, ("", "", ""), 1000)
    return {a.name: json.loads(a.data) for a in page if a.type == "thing"}


def test_one_edited_document_of_a_hundred_moves_the_subjects_that_it_touches(world: World) -> None:
    for i in range(100):
        world.put(f"{i:03}.md", f"plant {i // 2}", f"tool {i}")
    assert run(world).state == "completed"
    before = knowledge(world, 1)
    world.put("040.md", "plant 20", "shovel")
    second = run(world)
    assert model(world).reduced() == {"plant 20", "shovel"}
    assert sum(isinstance(r.task, MentionsTask | DocumentTask) for r in model(world).asked) == 3
    delta = json.loads(second.output)["delta"]
    assert (delta["corpus_artifacts"], delta["artifacts_updated"], delta["artifacts_created"]) == (2, 2, 0)
    after = knowledge(world, 2)
    moved = {a[0] for a in after["artifacts"]} ^ {a[0] for a in before["artifacts"]}
    assert len(moved) == 2  # tool 40 is gone, shovel is there
    assert run(world).state == "noop"
    assert not model(world).asked


def test_deleting_a_source_leaves_nothing_of_it(world: World) -> None:
    world.put("a.md", "pump", "tank")
    world.put("deep/b.md", "tank", "tower")
    run(world)
    assert set(things(world)) == {"pump", "tank", "tower"}
    first = knowledge(world, 1)
    world.drop("deep/b.md")
    run(world)
    assert set(things(world)) == {"pump", "tank"}
    assert nothing_of("deep/b.md", world, 2)
    assert "tower" not in json.dumps(knowledge(world, 2), default=repr)
    world.put("deep/b.md", "tank", "tower")
    run(world)
    again = knowledge(world, 3)
    assert {k: v for k, v in again.items() if k != "vectors"} == {k: v for k, v in first.items() if k != "vectors"}


def test_a_deleted_source_is_gone_from_an_artifact_that_cannot_be_made_again(world: World) -> None:
    world.put("a.md", "pump")
    world.put("b.md", "pump")
    run(world)
    model(world).refuses = {"pump"}
    world.drop("b.md")
    ended = run(world)
    assert json.loads(ended.output)["status"] == "partial"
    assert "pump" not in things(world)
    assert nothing_of("b.md", world, 2)
    model(world).refuses = set()
    assert json.loads(run(world).output)["status"] == "completed"
    assert "pump" in things(world)


def test_what_was_said_stays_where_the_model_refuses_an_edited_source(world: World) -> None:
    world.put("a.md", "pump")
    run(world)
    held = things(world)["pump"]
    model(world).refuses = {"pump"}
    world.put("a.md", "pump", "valve")
    output = json.loads(run(world).output)
    assert (output["status"], output["delta"]["artifacts_errored"], output["delta"]["failed_sources"]) == (
        "partial", 1, ["a.md"],
    )  # fmt: skip
    assert things(world)["pump"] == held
    assert "valve" in things(world)
    model(world).refuses = set()
    assert json.loads(run(world).output)["status"] == "completed"
    assert things(world)["pump"] != held
    assert run(world).state == "noop"


def test_a_cap_takes_the_subjects_of_most_sources_and_pays_for_no_other(world: World) -> None:
    for i in range(4):
        world.put(f"{i}.md", "common", *(["shared"] if i < 2 else []), f"own {i}")
    capped = manifest(max_artifacts_per_type=2)
    run(world, capped)
    assert set(things(world)) == {"common", "shared"} == model(world).reduced()
    world.put("2.md", "common", "own 3")
    world.put("1.md", "common", "own 3")
    run(world, capped)
    assert set(things(world)) == {"common", "own 3"}  # three sources speak of it, one of what had the place before
    assert run(world, capped).state == "noop"


def test_min_doc_count(world: World) -> None:
    world.put("a.md", "common", "rare")
    world.put("b.md", "common")
    twice = manifest(min_doc_count=2)
    run(world, twice)
    assert set(things(world)) == {"common"}
    world.put("b.md", "common", "rare")
    run(world, twice)
    assert set(things(world)) == {"common", "rare"}
    world.drop("b.md")
    run(world, twice)
    assert things(world) == {}


@pytest.mark.parametrize("gated", [{"legs": ("chunks",)}, {"skip_corpus_aggregation": True}])
def test_what_a_limited_run_leaves_the_next_one_takes_up(world: World, gated: dict[str, Any]) -> None:
    world.put("a.md", "pump", "tank")
    world.put("b.md", "tank")
    run(world)
    world.put("a.md", "pump", "tower")
    world.drop("b.md")
    run(world, **gated)
    assert world.found("tower") == ["a.md"]
    assert "tower" not in things(world)
    run(world)
    fresh = World(language=ExtractiveModel())
    try:
        fresh.put("a.md", "pump", "tower")
        fresh.curate(BOTH)
        held, scratch = knowledge(world, world.live()), knowledge(fresh, 1)
        assert [name for name in scratch if scratch[name] != held[name]] == []
    finally:
        fresh.close()
    assert run(world).state == "noop"


def test_a_leg_that_is_switched_off_goes_with_force(world: World) -> None:
    world.put("a.md", "pump")
    run(world)
    off = manifest(enabled=False)
    world.put("b.md", "tank")
    run(world, off)
    assert set(things(world)) == {"pump"}  # what is indexed follows another manifest only by force
    run(world, off, force=True)
    held = knowledge(world, world.live())
    assert not any(value for name, value in held.items() if name != "counts")
    run(world, BOTH, force=True)
    assert set(things(world)) == {"pump", "tank"}


def test_the_state_tells_what_an_unfinished_run_has_found(world: World) -> None:
    """`source_pointers` and `source_glossary` while a run is cut short; empty once it has ended."""
    world.put("a.md", "pump", "terms")
    terms = {"name": "term", "kind": "glossary", "sections": ["terms"]}
    wanted = manifest(artifact_types=[*ARTIFACTS["artifact_types"], terms])
    world.files["b.md"] = b"# Terms\n\n- Gate: opens the field.\n- Latch: holds the gate.\n"  # type: ignore[index]
    started = start(world, manifest=wanted)
    assert step_until(world, started, "extract")

    def state() -> dict[str, Any]:
        with world.ledger.read() as session:
            return curation_state(session, publish.require_context(session, SLUG))

    held = state()
    assert [entry["name"] for entry in held["source_pointers"]["a.md"]] == ["pump", "terms"]
    assert held["source_glossary"]["b.md"] == [
        {"type": "term", "name": "Gate", "clause": "opens the field."},
        {"type": "term", "name": "Latch", "clause": "holds the gate."},
    ]
    assert step_until(world, started, "reclaim")
    assert (state()["source_pointers"], state()["source_glossary"]) == ({}, {})
    live = world.live()
    with world.ledger.read() as session:
        page = session.knowledge.page_artifacts(SLUG, live, ("", "", ""), 1000)
    assert {a.name: json.loads(a.data)["body"] for a in page if a.type == "term"} == {
        "Gate": "> opens the field. [1]", "Latch": "> holds the gate. [1]",
    }  # fmt: skip
    types = {t.name for r in model(world).asked if isinstance(r.task, MentionsTask) for t in r.task.types}
    assert types == {"thing"}  # a glossary asks nobody
