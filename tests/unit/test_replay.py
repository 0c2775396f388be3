"""replay does a past run again from what was recorded of it: the same comes out, and nobody is asked."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from knowledge_facts import ARTIFACTS
from world import SECTIONS, SLUG, WHOLE, CountingParser, HashEmbedder, World, text_of

from manifests import Manifest, manifest_from
from pipeline import merges, recording, replay
from pipeline.adapters.memory import MemoryMemo
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.errors import Conflict, RejectedInput
from pipeline.fingerprint import content_hash
from pipeline.models import ModelReply, ModelRequest
from pipeline.types import RecordBatch, RunId, SourcePath


class Asked(ExtractiveModel):
    """The extractive model as a provider that is paid: its answers must be recorded, as it may answer otherwise."""

    deterministic = False

    def __init__(self) -> None:
        self.calls = 0
        self.down = False

    def answer(self, request: ModelRequest) -> ModelReply:
        assert not self.down, "a provider was asked"
        self.calls += 1
        return super().answer(request)


def both(size: int = 64) -> Manifest:
    chunks = {"chunking": {"target_size": size, "overlap": 0}}
    return manifest_from({"curate": {"chunks": chunks, "artifacts": ARTIFACTS}})


BOTH = both()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(language=Asked())
    made.limits = replace(made.limits, retain_sources=1)
    made.ports = made.ports_for("one")
    yield made
    made.close()


@pytest.fixture
def scratch() -> Iterator[World]:
    made = World(opened=False)
    yield made
    made.close()


@pytest.fixture
def other() -> Iterator[World]:
    made = World(opened=False)
    yield made
    made.close()


def history(world: World) -> list[RunId]:
    """Runs over edits, deletes and two manifests, so that the last version is made of what several of them left."""
    runs = []
    for n in range(5):
        world.put(f"{n}.md", f"plant {n}", f"tool {n % 2}")
    runs.append(world.curate(BOTH))
    world.put("1.md", "plant 1", "shovel")
    world.drop("2.md")
    runs.append(world.curate(BOTH))
    world.put("5.md", "plant 5", *(f"tool {n}" for n in range(9)))
    world.files[SourcePath("bad.md")] = b"# REFUSE"
    runs.append(world.curate(both(256)))
    world.put("3.md", "plant 3", "spade")
    world.put("bad.md", "plant 4")
    runs.append(world.curate(both(256)))
    assert [run.state for run in runs] == ["completed"] * 4
    return [run.id for run in runs]


def cut_off(world: World) -> None:
    """From here on, nothing of the outside is there: no file, no parser, no provider."""
    world.files.clear()
    world.tree.walk = world.tree.read = _refuse  # type: ignore[method-assign]
    world.language.down = True  # type: ignore[union-attr]
    for embedder in world.embedders.values():
        embedder.embed = _refuse  # type: ignore[method-assign]
    world.parser.parse = _refuse  # type: ignore[method-assign]


def _refuse(*_args: object, **_named: object) -> object:
    raise AssertionError("the outside was asked")


def again(world: World, scratch: World, run: RunId, **ask: object) -> replay.Json:
    return replay.replay(world.ports, scratch.ports, replay.Ask(run, **ask), 1)


def rows(world: World) -> list[object]:
    """Everything that the ledger tells of the context, but for what was paid."""
    live = world.live()
    with world.ledger.read() as session:
        return [
            session.versions.list(SLUG), session.runs.list(SLUG, 99), session.records.page_at(SLUG, live, "", 9999),
            session.files.page(SLUG, live, "", 9999), session.sources.page(SLUG, live, "", 9999),
        ]  # fmt: skip


def test_every_version_comes_out_the_same_with_the_world_gone(world: World) -> None:
    runs = history(world)
    world.limits = replace(world.limits, keep_versions=9)
    cut_off(world)
    before = rows(world)
    readable = world.readable()
    digests = {}
    for run in runs:
        made = World(opened=False)
        report = again(world, made, run)
        digests[run] = report["digest"]
        expected = True if report["version"] in readable else None
        assert report["equal"] is expected, report["differences"]
        assert (report["embedded_texts"], report["model_calls"], report["changed"]) == (0, 0, False)
        if expected:
            assert report["counts"].keys() == {f"{k}_same" for k in ("chunk", "vector", "artifact", "edge", "file")}
            assert report["counts"]["chunk_same"] == report["counts"]["vector_same"] == len(made.read(made.live()))
        made.close()
    assert len(set(digests.values())) == 4
    assert sum(version in readable for version in (1, 2, 3, 4)) == 2
    assert rows(world) == before, "a replay changes nothing"


def test_two_replays_of_a_version_that_nobody_can_read_any_more_are_the_same(
    world: World, scratch: World, other: World
) -> None:
    run = history(world)[0]
    cut_off(world)
    first, second = again(world, scratch, run), again(world, other, run)
    assert first["equal"] is None
    assert "can't be read any more" in first["reason"]
    assert first["digest"] == second["digest"]


def test_from_parse_reads_the_bytes_that_were_kept(world: World, scratch: World) -> None:
    run = history(world)[-1]
    world.files.clear()
    assert isinstance(world.parser, CountingParser)
    world.parser.calls.clear()
    report = again(world, scratch, run, stage="parse")
    assert report["equal"], report["differences"]
    assert sorted(set(world.parser.calls)) == ["0.md", "1.md", "3.md", "4.md", "5.md", "bad.md"]
    assert report["embedded_texts"] == 0


def test_bytes_that_were_not_kept_are_named_and_nothing_begins(world: World, scratch: World) -> None:
    run = history(world)[-1]
    with world.ledger.read() as session:
        sources = session.sources.page(SLUG, 4, "", 99)
    store = world.ports.objects(SLUG)
    store.delete_many([recording.retained_key(row.hash) for row in sources if row.path in ("0.md", "3.md")])
    with pytest.raises(Conflict, match=r"the bytes of 2 of 6 sources stand in no recording: 0\.md, 3\.md$") as error:
        again(world, scratch, run, stage="parse")
    assert "retain_sources" in str(error.value.remedy)
    assert again(world, scratch, run)["equal"]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("parse", "the parsed text of 6 of 6 sources"),
        ("dense", "the hash vector of"),
        ("answer", "an answer of lamina-extractive-1 to MentionsTask"),
    ],
)
def test_a_recording_that_is_gone_is_named(world: World, scratch: World, kind: str, told: str) -> None:
    run = history(world)[-1]
    cut_off(world)
    assert isinstance(world.memo, MemoryMemo)
    for key in [key for key in world.memo._values if key.startswith(f"{kind}:")]:
        del world.memo._values[key]
    with pytest.raises(Conflict, match=told) as error:
        again(world, scratch, run)
    assert error.value.code == "not_recorded"


def test_live_asks_for_what_is_gone_and_records_it(world: World, scratch: World, other: World) -> None:
    run = history(world)[-1]
    assert isinstance(world.memo, MemoryMemo)
    gone = [key for key in world.memo._values if key.startswith(("dense:", "answer:"))]
    for key in gone:
        del world.memo._values[key]
    report = again(world, scratch, run, live=True)
    assert report["equal"], report["differences"]
    assert report["embedded_texts"] > 0
    assert report["model_calls"] > 0
    cut_off(world)
    assert again(world, other, run)["equal"], "what was asked for is recorded"


def test_from_extract_asks_a_provider_only_under_live(world: World, scratch: World, other: World) -> None:
    run = history(world)[-1]
    with pytest.raises(Conflict, match="an answer of"):
        again(world, scratch, run, stage="extract")
    report = again(world, other, run, stage="extract", live=True)
    assert report["model_calls"] > 0
    assert report["embedded_texts"] == 0


def test_another_manifest_shows_what_would_be_otherwise(world: World, scratch: World) -> None:
    run = history(world)[-1]
    world.language.down = True  # type: ignore[union-attr]
    report = again(world, scratch, run, manifest=WHOLE, live=True, questions=("spade",))
    assert (report["equal"], report["changed"]) == (False, True)
    assert report["counts"]["chunk_missing"] > 0
    assert report["counts"]["artifact_missing"] > 0, "the other manifest extracts none"
    assert report["differences_total"] == sum(n for k, n in report["counts"].items() if not k.endswith("_same"))
    (asked,) = report["questions"]
    assert not asked["same"]
    assert asked["then"][0]["source"] == "3.md"
    assert world.curate(both(256)).state == "noop", "the context is as it was"


def test_some_sources_only(world: World, scratch: World) -> None:
    run = history(world)[-1]
    cut_off(world)
    report = again(world, scratch, run, sources="[0-3].md")
    assert report["equal"], report["differences"]
    assert report["counts"]["chunk_same"] == sum(path in ("0.md", "1.md", "3.md") for path, _, _ in world.read(4))
    assert "artifact_same" not in report["counts"], "what the whole corpus decides about is left out"
    with pytest.raises(RejectedInput, match="no source that matches"):
        again(world, scratch, run, sources="nothing/*")


def test_what_a_replay_finds_otherwise_it_says(world: World, scratch: World) -> None:
    """A vector that was spoilt in the index, and a chunk that is gone from it."""
    run = history(world)[-1]
    listed = [row for row in world.listed(4) if row.namespace.endswith(".chunks")]
    spoilt, gone = listed[0], listed[1]
    held = world.raw_index.fetch(spoilt.namespace, [spoilt.id], vectors=True, metadata=True)
    batch = RecordBatch(spoilt.namespace, spoilt.added, held.ids, -held.dense, held.sparse, held.metadata)
    world.raw_index.delete(spoilt.namespace, [spoilt.id, gone.id])
    world.raw_index.upsert(batch)
    report = again(world, scratch, run)
    assert report["equal"] is False
    assert {(d["kind"], d["what"], d["name"]) for d in report["differences"]} == {
        ("vector", "changed", spoilt.logical_id), ("vector", "missing", gone.logical_id),
    }  # fmt: skip
    assert report["vectors_max_difference"] > 0.1


def test_publish_brings_an_old_run_back_as_a_new_version(world: World, scratch: World) -> None:
    runs = history(world)
    then = again(world, scratch, runs[0])
    texts = scratch.texts()
    cut_off(world)
    other = World(opened=False)
    report = again(world, other, runs[0], publish=True)
    assert report["published"]["state"] == "completed"
    assert report["published"]["version"] == world.live() == 5
    assert world.texts() == texts
    assert then["digest"] == report["digest"]
    with world.ledger.read() as session:
        made = session.runs.get(RunId(report["published"]["run"]))
    assert made is not None
    assert made.trigger == "replay"
    other.close()


def test_publish_of_a_part_is_refused(world: World, scratch: World) -> None:
    run = history(world)[-1]
    with pytest.raises(RejectedInput, match="would take the others out"):
        again(world, scratch, run, sources="0.md", publish=True)


def test_runs_that_made_nothing_can_not_be_replayed(world: World, scratch: World) -> None:
    history(world)
    noop = world.curate(both(256))
    for run, told in ((noop.id, "made no version live"), (RunId("0" * 16), "there is no run")):
        with pytest.raises(RejectedInput, match=told):
            again(world, scratch, run)
    with pytest.raises(RejectedInput, match="can't begin at 'flip'"):
        again(world, scratch, noop.id, stage="flip")


def test_only_the_last_runs_are_recorded(scratch: World) -> None:
    world = World(limits=replace(World().limits, keep_runs=2, keep_versions=1, retain_sources=1))
    runs = []
    for n in range(4):
        world.put("a.md", f"alpha {n}")
        runs.append(world.curate(SECTIONS).id)
    with pytest.raises(Conflict, match="version 2 of ctx is no longer recorded, 3 is the first that is"):
        again(world, scratch, runs[1])
    assert again(world, scratch, runs[2])["equal"] is None
    kept = set(world.objects.list("retained/"))
    assert kept == {recording.retained_key(recording_hash(n)) for n in (2, 3)}, "bytes go with their recordings"
    world.close()


def recording_hash(n: int) -> str:
    return content_hash(text_of(f"alpha {n}"))


def test_nothing_is_recorded_where_no_runs_are_kept(scratch: World) -> None:
    world = World(limits=replace(World().limits, keep_runs=0))
    world.put("a.md", "alpha")
    run = world.curate(SECTIONS)
    with pytest.raises(Conflict, match="no longer recorded"):
        again(world, scratch, run.id)
    world.close()


def test_human_decisions_hold_in_the_replay_as_they_did(world: World, scratch: World) -> None:
    for n in range(3):
        world.put(f"{n}.md", f"plant {n}")
    world.curate(BOTH)
    world.clock.advance(1)
    with world.ledger.read() as session:
        names = sorted(row.name for row in session.knowledge.page_subjects(SLUG, 1, "", 99) if row.type == "thing")
    merges.pair(world.ports, SLUG, "pin", "thing", (names[0], names[1]))
    world.put("3.md", "plant 3")
    run = world.curate(BOTH)
    report = again(world, scratch, run.id)
    assert report["equal"], report["differences"]


def test_a_second_embedder_of_an_earlier_time_needs_no_provider(scratch: World) -> None:
    """Sources keep the vectors they have until they change; a new embedder takes them all, by --force."""
    world = World(embedders={"hash": HashEmbedder(), "wide": HashEmbedder("wide", 24)})
    world.put("a.md", "alpha")
    world.put("b.md", "beta")
    world.curate(SECTIONS, settings={"embedder": "hash"})
    run = world.curate(SECTIONS, settings={"embedder": "wide"}, force=True)
    assert run.state == "completed", run.error
    for embedder in world.embedders.values():
        embedder.embed = _refuse  # type: ignore[method-assign]
    report = again(world, scratch, run.id)
    assert report["equal"], report["differences"]
    assert json.loads(run.recipe)["model"]["name"] == "wide"
    world.close()
