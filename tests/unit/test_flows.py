"""The curate flow as its callers see it: incremental, resumable, refusing, and never paying twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from dataclasses import replace

import pytest
from world import SECTIONS, SLUG, WHOLE, CountingParser, HashEmbedder, World, start, step_until, text_of

from manifests import manifest_from
from pipeline import contexts, contract, curate, loop, publish, search, starting, tokens
from pipeline.adapters.memory import MemoryMemo
from pipeline.errors import Conflict, RejectedInput, Unavailable
from pipeline.filters import parse_filter
from pipeline.limits import Limits
from pipeline.types import ParsedDocument, SourcePath


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


def _parser(world: World) -> CountingParser:
    assert isinstance(world.parser, CountingParser)
    return world.parser


def _embedder(world: World) -> HashEmbedder:
    found = world.embedders["hash"]
    assert isinstance(found, HashEmbedder)
    return found


def _delta(output: str) -> dict[str, int]:
    return json.loads(output)["delta"]


def test_the_places_of_all_stages_are_known() -> None:
    """DESIGN §5 fixes the order; legs that this build doesn't run yet have their place and no body."""
    names = [s.name for s in curate.STAGES]
    assert names == [
        "inventory", "parse", "chunk", "screen", "embed_dense", "embed_sparse", "extract", "reduce", "upsert", "layers",
        "verify", "seal", "flip", "reclaim",
    ]  # fmt: skip
    assert [s.name for s in curate.STAGES if s.body is None] == ["layers"]


def test_a_second_run_does_nothing(world: World) -> None:
    """NOOP: nothing unchanged costs a parse, an embedding or an index write, and no number is claimed."""
    world.put("p.md", "a", "b")
    first = world.curate()
    parsed, embedded = len(_parser(world).calls), len(_embedder(world).texts)
    second = world.curate()
    assert (first.number, second.state, second.number) == (1, "noop", 0)
    assert json.loads(second.output)["delta"] == "empty"
    assert (len(_parser(world).calls), len(_embedder(world).texts)) == (parsed, embedded)


def test_an_edit_costs_its_own_chunks(world: World) -> None:
    for n in range(20):
        world.put(f"d{n}.md", f"word{n}", f"other{n}")
    world.curate()
    before = len(_embedder(world).texts)
    world.put("d3.md", "word3", "other3", "added")
    run = world.curate()
    assert len(_embedder(world).texts) == before + 1
    assert _parser(world).calls.count("d3.md") == 2
    assert len(_parser(world).calls) == 21
    assert (_delta(run.output)["changed"], _delta(run.output)["chunks_updated"]) == (1, 1)


def test_a_rename_embeds_nothing_when_the_text_is_the_same(world: World) -> None:
    """The same text is embedded once, whatever source it stands in."""
    world.put("a.md", "x", "y")
    world.curate()
    before = len(_embedder(world).texts)
    world.files[SourcePath("b.md")] = world.files.pop(SourcePath("a.md"))
    world.curate()
    assert world.found("body") == ["b.md"]
    assert len(_embedder(world).texts) == before


def test_the_same_bytes_at_two_paths_are_two_sources(world: World) -> None:
    """O-33: deleting one of two equal files removes its records alone, and embeds nothing."""
    world.put("a/notice.md", "notice")
    world.put("b/notice.md", "notice")
    world.curate()
    assert world.found("notice") == ["a/notice.md", "b/notice.md"]
    world.drop("a/notice.md")
    before = len(_embedder(world).texts)
    world.curate()
    assert world.found("notice") == ["b/notice.md"]
    assert len(_embedder(world).texts) == before
    world.drop("b/notice.md")
    world.curate()
    assert world.texts() == []


def test_a_document_that_gets_shorter_leaves_nothing(world: World) -> None:
    """O-34."""
    world.put("d.md", *(f"part{i}" for i in range(5)))
    world.curate()
    world.put("d.md", "part0", "changed1")
    world.curate()
    assert len(world.texts()) == 2
    assert not [t for t in world.texts() if "part4" in t]
    world.curate(WHOLE, force=True)
    assert len(world.texts()) == 1
    assert world.curate(WHOLE).state == "noop"


def test_a_failed_source_keeps_its_last_good_revision(world: World) -> None:
    """One bad source never stops the others, and is never reported as success."""
    world.put("p.md", "good")
    world.put("q.md", "fine")
    world.curate()
    world.put("p.md", "REFUSE")
    world.put("q.md", "finer")
    run = world.curate()
    output = json.loads(run.output)
    assert output["status"] == "partial"
    assert (output["delta"]["failed"], output["delta"]["failed_sources"]) == (1, ["p.md"])
    assert world.texts() == ["# finer\n\nbody of finer", "# good\n\nbody of good"]


def test_a_failed_source_is_not_parsed_again_until_its_bytes_change(world: World) -> None:
    world.put("p.md", "REFUSE")
    world.put("q.md", "fine")
    world.curate()
    calls = len(_parser(world).calls)
    again = world.curate()
    assert again.state == "noop"
    assert json.loads(again.output)["status"] == "partial"
    assert len(_parser(world).calls) == calls
    world.put("q.md", "finer")
    other = json.loads(world.curate().output)
    assert (other["status"], other["delta"]["failed_sources"]) == ("partial", ["p.md"]), "it is named while it fails on"
    world.put("p.md", "mended")
    assert json.loads(world.curate().output)["status"] == "completed"


def test_a_bad_vector_fails_its_source_alone(world: World) -> None:
    """O-32: what would poison the index never reaches it; the source is tried again at the next run."""
    embedder = _embedder(world)

    def fail(text: str) -> None:
        if "poison" in text:
            raise RejectedInput("vectors", "the model refused it")

    embedder.fail = fail
    world.put("bad.md", "poison")
    world.put("ok.md", "fine")
    run = world.curate()
    assert json.loads(run.output)["delta"]["failed_sources"] == ["bad.md"]
    assert world.texts() == ["# fine\n\nbody of fine"]
    embedder.fail = lambda _text: None
    world.curate()
    assert len(world.texts()) == 2


def test_a_source_whose_cutting_fails_fails_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault nobody foresaw, in one document's chunks: it is told with its path, and the others go live."""
    count = tokens.boundaries

    def faulty(text: str) -> object:
        if "odd" in text:
            raise ZeroDivisionError("a fault of our own")
        return count(text)

    monkeypatch.setattr(tokens, "boundaries", faulty)
    world.put("good.md", "a")
    world.put("bad.md", "odd")
    assert json.loads(world.curate().output)["delta"]["failed_sources"] == ["bad.md"]
    assert world.texts() == ["# a\n\nbody of a"]


def test_a_million_blanks_cost_nobody_else(world: World) -> None:
    """A run of white space that tiktoken can't take is a source like any other."""
    world.put("good.md", "a")
    world.files[SourcePath("blank.txt")] = b"one" + b" " * 1_100_000 + b"two\n"
    assert json.loads(world.curate().output)["delta"]["failed"] == 0
    assert "two" in " ".join(world.texts())


def test_empty_and_unsupported_files_are_skipped(world: World) -> None:
    world.files[SourcePath("empty.md")] = b""
    world.files[SourcePath("picture.png")] = b"\x89PNG\r\n\x1a\n" + bytes(40)
    world.put("p.md", "text")
    output = json.loads(world.curate().output)
    assert output["status"] == "completed"
    assert output["sources_skipped_unreadable"] == 2
    assert world.curate().state == "noop"


def test_a_lost_memo_costs_work_and_changes_nothing(world: World) -> None:
    world.put("p.md", "a", "b")
    world.curate()
    started = None
    world.put("p.md", "a", "c")
    world.clock.advance(1)
    started = start(world)
    step_until(world, started, "chunk")
    world.memo = MemoryMemo()
    run = loop.drive(world.ports_for("one"), started, 1)
    assert run.state == "completed"
    assert len(world.texts()) == 2


def test_a_living_run_refuses_a_second_one(world: World) -> None:
    world.put("p.md", "a")
    start(world, "one")
    with pytest.raises(Conflict) as error:
        start(world, "two")
    assert error.value.code == "run_active"
    assert "lamina cancel" in error.value.remedy


def test_a_dead_run_is_resumed_and_its_first_owner_is_fenced_off(world: World) -> None:
    world.put("p.md", "a")
    first = start(world, "one")
    step_until(world, first, "parse")
    world.clock.advance(world.limits.lease_s + 1)
    second = start(world, "two")
    assert (second.run, second.resumed) == (first.run, True)
    with pytest.raises(Conflict):
        curate.next_claim(world.ports_for("one"), first)
    assert loop.drive(world.ports_for("two"), second, 1).state == "completed"
    assert len(_parser(world).calls) == 1
    with world.ledger.read() as session:
        assert publish.require_context(session, SLUG).redispatch_count == 1


def test_a_run_whose_process_is_known_to_be_gone_is_resumed_at_once(world: World) -> None:
    """After kill -9 nobody waits for a lease: the run and its units are taken over, and nothing is done twice."""
    world.put("p.md", "a")
    world.put("q.md", "b")
    first = start(world, "one")
    step_until(world, first, "chunk")
    assert curate.next_claim(world.ports_for("one"), first) is not None
    second = starting.start(replace(world.ports_for("two"), is_gone=lambda owner: owner == "one"), world.request())
    assert second.resumed
    assert loop.drive(world.ports_for("two"), second, 1).state == "completed"
    assert sorted(_parser(world).calls) == ["p.md", "q.md"]


def test_a_dead_run_with_other_inputs_is_abandoned_and_paid_work_kept(world: World) -> None:
    world.put("p.md", "a")
    first = start(world, "one")
    step_until(world, first, "upsert")
    embedded = len(_embedder(world).texts)
    world.clock.advance(world.limits.lease_s + 1)
    run = loop.curate_and_follow(world.ports_for("two"), world.request(WHOLE), 1)
    with world.ledger.read() as session:
        old = session.runs.get(first.run)
    assert old is not None
    assert (old.state, run.state, run.number) == ("abandoned", "completed", 2)
    assert len(_parser(world).calls) == 1
    assert len(_embedder(world).texts) == embedded


def test_cancel_before_the_seal_leaves_nothing(world: World) -> None:
    world.put("p.md", "a")
    world.curate()
    world.put("p.md", "b")
    world.clock.advance(1)
    started = start(world)
    step_until(world, started, "upsert")
    assert curate.cancel(world.ports, started.run).state == "abandoned"
    assert world.live() == 1
    namespace = world.listed(1)[0].namespace
    assert len(list(world.raw_index.scan(namespace))) == 1
    with pytest.raises(RejectedInput):
        curate.cancel(world.ports, started.run)


def test_cancel_after_the_seal_rolls_forward(world: World) -> None:
    world.put("p.md", "a")
    world.curate()
    world.put("p.md", "b")
    world.clock.advance(1)
    started = start(world)
    step_until(world, started, "seal")
    assert curate.cancel(world.ports, started.run).state == "sealed"
    assert loop.drive(world.ports_for("one"), started, 1).state == "completed"
    assert world.live() == 2


def test_an_unforced_manifest_change_reaches_new_sources_only(world: World) -> None:
    world.put("p.md", "a", "b")
    world.curate()
    world.put("q.md", "c", "d")
    run = world.curate(WHOLE)
    assert len(world.texts()) == 3
    assert json.loads(run.notes)["stale"] == 1
    world.curate(WHOLE, force=True)
    assert len(world.texts()) == 2


def test_a_model_change_needs_force(world: World) -> None:
    world.embedders["other"] = HashEmbedder("other", dim=8)
    world.put("p.md", "a")
    world.curate()
    with pytest.raises(RejectedInput) as error:
        world.curate(settings={"embedder": "other"})
    assert error.value.code == "model_change"
    run = world.curate(force=True, settings={"embedder": "other"})
    with world.ledger.read() as session:
        versions = {v.number: v.generation for v in session.versions.list(SLUG)}
    assert (run.number, versions) == (2, {1: 1, 2: 2})
    assert world.found("body") == ["p.md"]
    curate.rollback(world.ports, SLUG, 1)
    world.put("q.md", "b")
    assert world.curate().state == "completed", "an unforced run follows the live version's recipe again"


def test_a_refused_source_moves_into_a_new_generation_with_its_last_good_text(world: World) -> None:
    other = HashEmbedder("other", dim=8)
    world.embedders["other"] = other
    world.put("p.md", "good")
    world.curate()
    world.put("p.md", "REFUSE")
    world.curate(force=True, settings={"embedder": "other"})
    assert world.texts() == ["# good\n\nbody of good"]
    hits = search.search(world.ports, SLUG, search.Question("good", mode="dense")).results
    assert [r.metadata["source_path"] for r in hits] == ["p.md"]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"curate": {"artifacts": {"enabled": True, "artifact_types": [{"name": "x"}]}}}, "language_not_served"),
        ({"curate": {"chunks": {"enabled": False}}}, "nothing_to_build"),
        ({"curate": {"chunks": {"embedding_model": "multilingual-e5-large"}}}, "model_not_served"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_runs(
    world: World, document: dict[str, object], code: str
) -> None:
    world.put("p.md", "a")
    with pytest.raises(RejectedInput) as error:
        world.curate(manifest_from(document))
    assert error.value.code == code
    assert error.value.remedy
    assert not _parser(world).calls


def test_a_named_model_that_is_the_default_changes_nothing(world: World) -> None:
    world.put("p.md", "a")
    world.curate(SECTIONS)
    named = {"curate": {"chunks": {"embedding_model": "hash", "chunking": {"target_size": 64, "overlap": 0}}}}
    run = world.curate(manifest_from(named))
    assert (run.state, json.loads(run.notes)["stale"]) == ("noop", 0)


def test_every_bad_setting_is_listed(world: World) -> None:
    world.put("p.md", "a")
    with pytest.raises(RejectedInput) as error:
        world.curate(settings={"embedder": "nope", "stemming": "klingon", "colour": "red"})
    for word in ("nope", "klingon", "colour"):
        assert word in error.value.message


def test_an_emptied_folder_is_refused_unless_it_is_meant(world: World) -> None:
    world.put("p.md", "a")
    world.curate()
    world.drop("p.md")
    world.clock.advance(1)
    with pytest.raises(RejectedInput) as error:
        loop.curate_and_follow(world.ports, replace(world.request(), allow_empty=False), 1)
    assert error.value.code == "empty_root"
    assert world.texts() == ["# a\n\nbody of a"]
    world.curate(allow_empty=True)
    assert world.texts() == []


def test_too_many_failures_stop_the_flip() -> None:
    world = World(limits=Limits(batch_sources=2, failed_share=0.5))
    try:
        world.put("p.md", "a")
        world.curate()
        world.put("p.md", "REFUSE")
        world.put("q.md", "REFUSE")
        run = world.curate()
        assert (run.state, world.live()) == ("failed", 1)
        assert "failed_share" in run.error
    finally:
        world.close()


def test_a_model_that_is_down_for_long_is_not_held_against_the_unit(world: World) -> None:
    """However often it was handed back: the reason stands in the ledger, and the run goes on once the model is back."""
    world.put("p.md", "a")

    def fail(_text: str) -> None:
        raise Unavailable("down", "the model doesn't answer")

    _embedder(world).fail = fail
    started = start(world)
    step_until(world, started, "screen")
    for _ in range(2 * world.limits.unit_attempts):
        with pytest.raises(Unavailable) as error:
            step_until(world, started, "embed_dense")
        assert error.value.code == "down"
    with world.ledger.read() as session:
        run = session.runs.get(started.run)
    assert run is not None
    assert "the model doesn't answer" in run.error
    _embedder(world).fail = lambda _text: None
    step_until(world, started, "reclaim")
    assert world.texts()


def test_a_full_disk_stops_the_run_and_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own refusal, from a file that may not grow; with room again the same run goes on to its end."""
    connect, most = world.ledger._connection, 1_000_000

    def limited() -> sqlite3.Connection:
        connection: sqlite3.Connection = connect()
        connection.execute(f"PRAGMA max_page_count = {most}")
        return connection

    monkeypatch.setattr(world.ledger, "_connection", limited)
    for n in range(60):
        world.put(f"{n:03d}-{'long name ' * 15}.md", f"word{n}")
    started = start(world)
    step_until(world, started, "inventory")
    most = connect().execute("PRAGMA page_count").fetchone()[0]
    with pytest.raises(Unavailable) as error:
        loop.drive(world.ports_for("one"), started, 1)
    assert error.value.code == "disk_full"
    assert "space" in error.value.remedy
    assert world.live() == 0
    most = 1_000_000
    resumed = start(world)
    assert resumed.run == started.run
    assert loop.drive(world.ports_for("one"), resumed, 1).state == "completed"
    assert len(world.texts()) == 60


def test_pins_end_and_are_bounded(world: World) -> None:
    world.put("p.md", "a")
    world.curate()
    held = contexts.pin(world.ports, SLUG, version=None, seconds=60)
    for word in "bcd":
        world.put("p.md", word)
        world.curate()
    assert 1 in world.readable()
    world.clock.advance(120)
    world.put("p.md", "e")
    world.curate()
    assert 1 not in world.readable()
    with pytest.raises(RejectedInput):
        contexts.unpin(world.ports, SLUG, held.id)
    with pytest.raises(RejectedInput):
        contexts.pin(world.ports, SLUG, version=None, seconds=10**9)
    with pytest.raises(Conflict):
        search.search(world.ports, SLUG, search.Question("body", version=1))


def test_scope_and_filter_hold_inside_the_search(world: World) -> None:
    world.put("a/x.md", "one")
    world.put("ab/x.md", "two")
    world.curate()
    assert world.found("body", scope=("a",)) == ["a/x.md"]
    only = parse_filter({"source_path": {"$eq": "ab/x.md"}})
    assert world.found("body", filter=only) == ["ab/x.md"]


def test_the_knowledge_view_shows_the_live_version(world: World) -> None:
    world.put("p.md", "a")
    world.put("q.md", "b")
    world.curate()
    world.drop("q.md")
    world.curate()
    assert sorted(world.view.files) == ["chunks/p.md.chunks.jsonl"]
    curate.rollback(world.ports, SLUG, None)
    assert sorted(world.view.files) == ["chunks/p.md.chunks.jsonl", "chunks/q.md.chunks.jsonl"]
    world.view.begin()
    world.view.files["stray"] = b"x"
    assert publish.refresh_view(world.ports, SLUG)
    assert "stray" not in world.view.files


def test_a_long_list_of_failures_is_capped_and_spilled(world: World) -> None:
    """DESIGN §9: at most 100 in the output, the whole list in a run file."""
    for n in range(contract.FAILED_SOURCES_MAX + 5):
        world.put(f"f{n:03d}.md", "REFUSE")
    world.put("ok.md", "fine")
    output = json.loads(world.curate(batch_size=50).output)["delta"]
    assert (output["failed"], len(output["failed_sources"]), output["failed_sources_truncated"]) == (105, 100, True)
    lines = world.objects.get(output["failed_sources_file"]).decode().splitlines()
    assert len(lines) == 105
    assert json.loads(lines[0]) == {"path": "f000.md", "reason": "f000.md says REFUSE"}


def test_two_threads_build_what_one_builds() -> None:
    one, two = World(), World()
    try:
        for world in (one, two):
            for n in range(12):
                world.files[SourcePath(f"d{n}.md")] = text_of(f"a{n}", f"b{n}")
        one.curate()
        two.clock.advance(1)
        loop.curate_and_follow(two.ports, two.request(), 3)
        assert one.read(1) == two.read(1)
        assert [r.logical_id for r in one.listed(1)] == [r.logical_id for r in two.listed(1)]
    finally:
        one.close()
        two.close()


class _Interrupted(CountingParser):
    """Ctrl-C comes while the second document is read."""

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        parsed = super().parse(data, name)
        if len(self.calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return parsed


def test_ctrl_c_reaches_the_thread_that_waits_and_no_unit_is_torn(world: World) -> None:
    """Raised in the midst of a unit it could leave a transaction open, and whoever hands the units back would hang."""
    for name in "abc":
        world.put(f"{name}.md", name)
    world.parser = _Interrupted()
    world.ports = world.ports_for("one")
    started = start(world)
    with pytest.raises(KeyboardInterrupt):
        loop.drive(world.ports, started, 1)
    with world.ledger.read() as session:
        run = session.runs.require(started.run, started.fence)
    assert (run.state, run.error) == ("running", "")
    again = start(world, "two")  # at once: the clock stands still, and a lease would not have run out
    assert again.resumed
    assert loop.drive(world.ports_for("two"), again, 1).state == "completed"
    assert len(world.texts()) == 3
    assert sorted(world.parser.calls) == ["a.md", "b.md", "c.md"]
