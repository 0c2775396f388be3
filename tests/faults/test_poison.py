"""Units whose workers die: halved, until the source that kills them stands alone and is set aside."""

from __future__ import annotations

from collections import Counter

import pytest
from knowledge_facts import ARTIFACTS
from world import SLUG, World, start, text_of

from manifests import manifest_from
from pipeline import curate
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.errors import Conflict, Unavailable
from pipeline.limits import Limits
from pipeline.stages.job import DraftCache
from pipeline.stages.poison import POISON
from pipeline.types import SourcePath

STAGES = ("parse", "chunk", "screen", "embed_dense", "embed_sparse", "extract", "upsert")
BAD = SourcePath("p3.md")
WITH_ARTIFACTS = manifest_from(
    {"curate": {"chunks": {"chunking": {"target_size": 64, "overlap": 0}}, "artifacts": ARTIFACTS}}
)


def world_of(count: int) -> World:
    world = World(language=ExtractiveModel(), limits=Limits(batch_sources=8, unit_attempts=2, lease_s=30.0))
    for n in range(count):
        world.files[SourcePath(f"p{n}.md")] = text_of(f"word{n}")
    return world


def drive(world: World, stage: str, cache: DraftCache) -> Counter[str]:
    """Work until nothing is left; whoever claims `stage` over the bad source dies. Deaths by stage."""
    started = start(world, manifest=WITH_ARTIFACTS)
    deaths: Counter[str] = Counter()
    ports = world.ports_for("one")
    while True:
        try:
            claim = curate.next_claim(ports, started)
        except Unavailable as error:
            deaths[error.code] += 1
            return deaths
        except Conflict:
            return deaths  # the run has ended
        assert claim is not None
        with world.ledger.read() as session:
            rows = session.work.batch(claim.run, claim.batch)
        touched = claim.batch == 0 or any(row.path == BAD and row.code != POISON for row in rows)
        if claim.stage == stage and touched:
            deaths[stage] += 1
            world.clock.advance(31)
            continue
        curate.run_claim(ports, claim, cache, report=lambda _amount: None, lost=lambda: False)


@pytest.mark.parametrize("stage", STAGES)
def test_one_source_that_kills_its_workers_costs_that_source_alone(stage: str) -> None:
    """At whatever stage: the others go live, the bad one fails with a reason and its last good revision stays."""
    world = world_of(7)
    try:
        assert not drive(world, "", DraftCache())
        world.clock.advance(60)
        for path in list(world.files):
            world.files[path] = text_of("fresh", path.removesuffix(".md"))
            world.tree.touched[path] = int(world.clock.now() * 1e9)
        deaths = drive(world, stage, DraftCache())
        assert 2 <= deaths[stage] <= 2 * 4, "two deaths a halving, and eight sources are halved three times"
        with world.ledger.read() as session:
            run = session.runs.list(SLUG, 1)[0]
            rows = {row.path: row for row in session.sources.page(SLUG, 2, "", 100)}
        assert run.state == "completed"
        assert {path: row.code for path, row in rows.items() if row.status != "ok"} == {BAD: POISON}
        assert f"died or hung 2 times at {stage}" in rows[BAD].reason
        shown: dict[str, str] = {}
        for path, text, _ in world.read(2):
            shown[path] = shown.get(path, "") + text
        assert "word3" in shown[BAD]
        assert all("fresh" in text for path, text in shown.items() if path != BAD)
        index = {record for record, added, _ in world.raw_index.scan(world.listed(2)[0].namespace) if added == 2}
        assert index <= {row.id for row in world.listed(2)}, "no record of the bad source is left in the index"
    finally:
        world.close()


def test_a_source_set_aside_is_not_tried_again_while_nothing_changes() -> None:
    world = world_of(3)
    world.put(BAD, "bad")
    try:
        drive(world, "parse", DraftCache())
        assert drive(world, "parse", DraftCache()) == Counter()
        with world.ledger.read() as session:
            assert session.runs.list(SLUG, 1)[0].state == "noop"
        world.clock.advance(60)
        world.files[BAD] = text_of("good")
        world.tree.touched[BAD] = int(world.clock.now() * 1e9)
        drive(world, "", DraftCache())
        assert world.found("good") == [BAD]
    finally:
        world.close()


@pytest.mark.parametrize("stage", ["inventory", "reduce", "verify", "seal"])
def test_a_unit_of_the_whole_run_can_not_be_halved(stage: str) -> None:
    """It stops the run with a reason, and the run can be taken up later."""
    world = world_of(3)
    try:
        assert drive(world, stage, DraftCache()) == {stage: 2, "unit_stuck": 1}
    finally:
        world.close()
