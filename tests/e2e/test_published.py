"""The published pair: what third-party readers rely on holds after curates, edits, rollbacks, crashes and bad services."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fleet_processes import Fleet, lamina, make_sources, wait_for
from pinecone_emulator import Fault, PineconeEmulator
from world import SLUG, World

from pipeline import contexts, curate, publication, published_schema
from pipeline.adapters.pair_pinecone import PairSettings, PineconePair
from pipeline.adapters.pinecone_client import PineconeAccount
from pipeline.errors import Conflict, PipelineError, RejectedInput, Unavailable
from pipeline.fleet_ports import PublishedRecord
from pipeline.ports import Ports
from pipeline.publication_carrier import Carrier, Published
from pipeline.published_schema import Fields

LEGS = ("dense", "sparse")
PAIR = {"dense": "docs", "sparse": "docs-sparse"}
OPENED: list[PineconePair] = []
"""Closed when a test ends."""
TYPES = {str: "string", float: "number", bool: "boolean", list: "string[]"}


@pytest.fixture
def service() -> Iterator[PineconeEmulator]:
    with PineconeEmulator(key="m4rked-key") as server:
        yield server
        while OPENED:
            OPENED.pop().close()


def pair_of(service: PineconeEmulator, **more: Any) -> PineconePair:
    account = PineconeAccount(service.key, service.url, 10.0)
    OPENED.append(PineconePair(PairSettings(account, PAIR["dense"], **more)))
    return OPENED[-1]


def publishing(world: World, service: PineconeEmulator, owner: str = "one", **more: Any) -> Ports:
    return replace(world.ports_for(owner), pair=pair_of(service, **more))


def shown(service: PineconeEmulator, leg: str, namespace: str) -> dict[str, dict[str, Any]]:
    """Id to fields of what readers of one index see."""
    index = service.store.indexes.get(PAIR[leg])
    space = index.namespaces.get(namespace) if index else None
    return {id_: record.fields for id_, record in space.visible.items()} if space else {}


def live_records(world: World) -> dict[str, str]:
    """Id to text of what the live version shows."""
    rows = [row for row in world.listed(world.live()) if row.namespace.endswith(".chunks")]
    stored = {row.id: world.raw_index.fetch(row.namespace, [row.id], vectors=False, metadata=True) for row in rows}
    return {id_: str(found.metadata[0]["text"]) for id_, found in stored.items()}


def check_readers_contract(service: PineconeEmulator, namespace: str, expected: dict[str, str]) -> None:
    """What a reader of such pairs relies on, point by point."""
    dense, sparse = (shown(service, leg, namespace) for leg in LEGS)
    assert dense == sparse, "the same ids with the same metadata in both"
    assert {id_: fields["chunk_text"] for id_, fields in dense.items()} == expected, "live records only"
    types: dict[str, set[str]] = {}
    for fields in dense.values():
        for name, value in fields.items():
            assert isinstance(value, str | float | bool | list), "flat, no nulls"
            assert not isinstance(value, float) or math.isfinite(value)
            types.setdefault(name, set()).add(TYPES[type(value)])
        identity = next(fields[name] for name in ("document_number", "url", "doc_id") if name in fields)
        assert isinstance(identity, str)
        assert identity.strip()
        assert isinstance(fields.get("chunk_index", fields.get("start_index")), float)
        for name, value in fields.items():
            if name.endswith("_epoch"):
                assert isinstance(value, float), "dates that ranges can filter"
    assert all(len(found) == 1 for found in types.values()), "one type a field"
    by_document: dict[tuple[str, str], set[str]] = {}
    for fields in dense.values():
        by_document.setdefault((fields["source_path"], fields["doc_id"]), set()).add(fields["doc_id"])
    assert all(len(ids) == 1 for ids in by_document.values())
    manifest = json.loads(shown(service, "dense", "_mcp_config")["schema_manifest"]["chunk_text"])
    if expected:
        declared = manifest["namespaces"][namespace]["metadata_schema"]
        assert all(declared[name] in found for name, found in types.items())
    else:
        assert namespace not in manifest["namespaces"]


class TestFlow:
    def test_the_copy_follows_what_is_live(self, service: PineconeEmulator) -> None:
        world = World()
        ports = publishing(world, service)
        world.put("a.md", "alpha", "beta")
        world.put("b.md", "gamma")
        world.curate()
        assert publication.behind(ports) == (SLUG,)
        done = publication.bring_up(ports, SLUG)
        assert (done.version, done.written, done.deleted, done.records[SLUG]) == (1, 3, 0, 3)
        check_readers_contract(service, SLUG, live_records(world))
        world.put("a.md", "alpha", "delta")
        world.drop("b.md")
        world.curate()
        done = publication.bring_up(ports, SLUG)
        assert (done.version, done.written, done.deleted) == (2, 1, 2)
        check_readers_contract(service, SLUG, live_records(world))
        curate.rollback(ports, SLUG, None)
        done = publication.bring_up(ports, SLUG)
        assert (done.version, done.written, done.deleted) == (1, 2, 1)
        check_readers_contract(service, SLUG, live_records(world))
        before = len(service.journal)
        assert publication.bring_up(ports, SLUG).written == 0
        assert (publication.behind(ports), len(service.journal)) == ((), before), "nothing to do, nothing written"

    def test_what_it_shows_stays_readable_until_it_has_moved_on(self, service: PineconeEmulator) -> None:
        """Else nobody could tell any more what has to be erased."""
        world = World(limits=replace(World().limits, keep_versions=1))
        ports = publishing(world, service)
        world.put("a.md", "alpha")
        world.curate()
        publication.bring_up(ports, SLUG)
        for word in ("beta", "gamma", "delta"):
            world.put("a.md", word)
            world.curate()
        assert 1 in world.readable()
        publication.bring_up(ports, SLUG)
        check_readers_contract(service, SLUG, live_records(world))
        world.put("a.md", "epsilon")
        world.curate()
        assert 1 not in world.readable()

    def test_a_cut_off_publication_goes_on_where_it_was(self, service: PineconeEmulator) -> None:
        """Whatever is live by then: the version on its way arrives first; nothing that was written is written twice."""
        world = World()
        for n in range(250):
            world.put(f"{n:03}.md", f"w{n}")
        world.curate()
        ports = publishing(world, service)
        asked = iter([False, False, True])
        done = publication.bring_up(ports, SLUG, stop=lambda: next(asked))
        assert (done.stopped, done.version, done.written) == (True, 0, 192)
        world.put("000.md", "edited")
        world.curate()
        again = publication.bring_up(ports, SLUG)
        assert (again.version, again.written, again.deleted) == (2, 250 - 192 + 1, 1)
        check_readers_contract(service, SLUG, live_records(world))
        upserts = [
            w for w in service.journal if w.event == "accepted" and w.namespace == SLUG and w.call == "records.upsert"
        ]
        assert sum(len(write.after) for write in upserts) == 2 * 251, "each record once in each index"

    def test_two_at_once(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        first, second = publishing(world, service), publishing(world, service, "two")
        pair = pair_of(service)
        pair.open()
        held = publication._take(first, pair, SLUG, check=False)  # a holder that falls silent
        assert held is not None
        with pytest.raises(Conflict, match="one is publishing ctx"):
            publication.bring_up(second, SLUG)
        assert publication.behind(second) == ()
        world.clock.advance(1000)
        assert publication.behind(second) == (SLUG,)
        assert publication.bring_up(second, SLUG).version == 1
        zombie = Carrier(first, pair, SLUG, held, Published(SLUG, "docs"))
        with pytest.raises(Conflict, match="another process"):
            zombie.carry(check=False)
        check_readers_contract(service, SLUG, live_records(world))

    def test_late_writes_and_strangers_are_put_right(self, service: PineconeEmulator) -> None:
        """Ids are held against the ledger where counts differ, and always when asked to."""
        world = World()
        world.put("a.md", "alpha", "beta", "gamma")
        world.curate()
        ports = publishing(world, service)
        publication.bring_up(ports, SLUG)
        pair = pair_of(service)
        pair.open()
        ids = sorted(shown(service, "dense", SLUG))
        pair.write(SLUG, [PublishedRecord(i, "left behind", {}) for i in ("0" * 32, "f" * 32)])  # type: ignore[arg-type]
        index = service.store.indexes["docs-sparse"]
        service.store.write(index, SLUG, "vectors.delete", dict.fromkeys(ids[:2]))
        done = publication.bring_up(ports, SLUG, check=True)
        assert (done.missing, done.strays) == (2, 2)
        check_readers_contract(service, SLUG, live_records(world))
        pair.write(SLUG, [PublishedRecord("e" * 32, "left behind", {})])  # type: ignore[arg-type]
        world.put("b.md", "delta")
        world.curate()
        assert publication.bring_up(ports, SLUG).strays == 1, "the counts said so"
        check_readers_contract(service, SLUG, live_records(world))

    def test_anything_in_any_order(self, service: PineconeEmulator) -> None:
        """Edits, rollbacks, publications that are stopped, crash or meet a bad service; in the end all of it is right."""
        choose = random.Random(11)
        world = World(limits=replace(World().limits, keep_versions=3))
        ports = publishing(world, service)
        for turn in range(40):
            match choose.choice(("edit", "edit", "drop", "rollback", "publish", "stop", "crash", "faults")):
                case "edit":
                    world.put(
                        f"{choose.randrange(6)}.md",
                        *(f"w{choose.randrange(40)}" for _ in range(choose.randrange(1, 5))),
                    )
                    world.curate()
                case "drop":
                    world.drop(f"{choose.randrange(6)}.md")
                    world.curate()
                case "rollback" if len(world.readable()) > 1:
                    curate.rollback(ports, SLUG, choose.choice([v for v in world.readable() if v != world.live()]))
                case "stop" if world.live():
                    publication.bring_up(ports, SLUG, stop=lambda: choose.random() < 0.5)
                case "crash" if world.live():
                    after = choose.randrange(1, 12)
                    service.faults.add(Fault("reset_after", skip=after, times=50))
                    with suppress(PipelineError):
                        publication.bring_up(publishing(world, service, f"dead{turn}"), SLUG)
                    service.faults.clear()
                    world.clock.advance(1000)
                case "faults" if world.live():
                    service.faults.add(Fault("status", 503, times=2), Fault("reset_after"), Fault("reset_before"))
                    with suppress(Unavailable):
                        publication.bring_up(ports, SLUG)
                    service.faults.clear()
                    world.clock.advance(1000)
                case "publish" if world.live():
                    publication.bring_up(ports, SLUG)
                    check_readers_contract(service, SLUG, live_records(world))
        publication.bring_up(ports, SLUG)
        check_readers_contract(service, SLUG, live_records(world))

    def test_a_namespace_of_others_is_left_alone(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        pair = pair_of(service)
        pair.open()
        pair.write(SLUG, [PublishedRecord("theirs", "not ours", {})])  # type: ignore[arg-type]
        with pytest.raises(RejectedInput, match=r"namespace ctx .* holds 1 records already"):
            publication.bring_up(publishing(world, service), SLUG)
        assert list(shown(service, "dense", SLUG)) == ["theirs"]

    def test_what_others_declare_stays(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        pair = pair_of(service)
        pair.open()
        theirs = {"description": "ours and theirs", "namespaces": {"mail": {"metadata_schema": {"subject": "string"}}}}
        pair.write_dense("_mcp_config", PublishedRecord("schema_manifest", json.dumps(theirs), {}))  # type: ignore[arg-type]
        ports = publishing(world, service)
        publication.bring_up(ports, SLUG)
        told = json.loads(shown(service, "dense", "_mcp_config")["schema_manifest"]["chunk_text"])
        assert (told["description"], set(told["namespaces"])) == ("ours and theirs", {"mail", SLUG})
        assert publication.withdraw(ports, SLUG)
        assert not publication.withdraw(ports, SLUG)
        told = json.loads(shown(service, "dense", "_mcp_config")["schema_manifest"]["chunk_text"])
        assert set(told["namespaces"]) == {"mail"}
        assert [shown(service, leg, SLUG) for leg in LEGS] == [{}, {}]

    def test_a_forgotten_context_is_taken_out(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        ports = publishing(world, service)
        publication.bring_up(ports, SLUG)
        contexts.forget(ports, SLUG)
        assert [shown(service, leg, SLUG) for leg in LEGS] == [{}, {}]

    def test_an_index_that_is_none_of_a_pair(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        pair_of(service, dense_model="pinecone-sparse-english-v0").open  # noqa: B018  # only built
        ports = publishing(world, service, dense_model="pinecone-sparse-english-v0")
        with pytest.raises(RejectedInput, match="makes no dense vectors"):
            publication.bring_up(ports, SLUG)

    def test_patterns_of_contexts(self, service: PineconeEmulator) -> None:
        world = World()
        world.put("a.md", "alpha")
        world.curate()
        assert publication.behind(publishing(world, service, contexts="hand*, other")) == ()
        assert publication.behind(publishing(world, service, contexts="other, c?x")) == (SLUG,)


class TestRecords:
    def test_fields(self) -> None:
        fields = Fields()
        metadata = {
            "text": "body", "title": " ", "author": ["Ada", "Grace"], "url": "", "doc_id": "d1", "date_epoch": 12.5,
            "draft": True, "_own": "x", "$own": "x", "tags": [], "n" * 70: "x", "id": "taken", "chunk_text": "taken",
        }  # fmt: skip
        made, cut = published_schema.record("r1", metadata, fields, "ns")  # type: ignore[arg-type]
        assert (made.text, cut) == ("body", False)
        assert made.fields == {"author": ["Ada", "Grace"], "doc_id": "d1", "date_epoch": 12.5, "draft": True}
        other, _ = published_schema.record("r2", {"text": "b", "author": "Ada", "draft": 1}, fields, "ns")  # type: ignore[arg-type]
        assert (other.fields, fields.left_out) == ({}, 2)
        assert fields.schemas["ns"] == {
            "chunk_text": "string", "author": "string[]", "doc_id": "string", "date_epoch": "number", "draft": "boolean",
        }  # fmt: skip

    @pytest.mark.parametrize("text", ["x" * 50_000, "é" * 30_000, '"\n' * 20_000, "😀" * 12_000])
    def test_a_record_too_large(self, text: str) -> None:
        metadata = {"text": text, "doc_id": "d", "note": "y" * 5000}
        made, cut = published_schema.record("r", metadata, Fields(), "ns")  # type: ignore[arg-type]
        assert cut
        assert text.startswith(made.text)
        assert made.fields == {"doc_id": "d"}
        size = len(json.dumps({**made.fields, "chunk_text": made.text}, ensure_ascii=False).encode())
        assert published_schema.RECORD_BYTES_MAX - 8 <= size <= published_schema.RECORD_BYTES_MAX

    def test_a_schema_without_room(self) -> None:
        wide = {f"field{n}": "string" for n in range(2500)}
        text, undeclared = published_schema.document(
            {"wide": wide, "slim": {"a": "number"}}, "no json", ["wide", "slim"]
        )
        assert (undeclared, set(json.loads(text)["namespaces"])) == (("wide",), {"slim"})


def commanded(service: PineconeEmulator) -> dict[str, str]:
    return {
        "LAMINA_PINECONE_API_KEY": service.key, "LAMINA_PINECONE_CONTROL_URL": service.url, "LAMINA_PUBLISHED_INDEX": "docs",
    }  # fmt: skip


def test_by_command(service: PineconeEmulator, tmp_path: Path) -> None:
    """curate and rollback publish by themselves; artifacts have a namespace of their own; readers find by text."""
    service.behaviour.lag_s = 0.2
    sources, home, more = tmp_path / "notes", tmp_path / "home", commanded(service)
    make_sources(sources, 6)
    lamina(home, more, "curate", str(sources))
    told = lamina(home, more, "publish", "notes")
    assert (told["version"], told["written"]) == (1, 0)
    assert told["records"]["notes"] == len(shown(service, "dense", "notes")) > 0
    (sources / "doc00001.md").unlink()
    lamina(home, more, "curate", str(sources))
    service.release()
    assert {fields["source_path"] for fields in shown(service, "sparse", "notes").values()} == {
        f"doc0000{n}.md" for n in (0, 2, 3, 4, 5)
    }
    lamina(home, more, "rollback", "notes")
    assert lamina(home, more, "publish", "notes", "--check")["strays"] == 0
    metrics = {row["name"]: row["value"] for row in lamina(home, more, "metrics")["metrics"]}
    assert metrics["lamina_publication_lag_seconds"] == 0
    assert lamina(home, more, "publish", "notes", "--withdraw") == {"context": "notes", "withdrawn": True}


def test_by_a_fleet(service: PineconeEmulator, tmp_path: Path) -> None:
    """A worker publishes what a run made live, though the service refuses it at first."""
    sources = tmp_path / "notes"
    make_sources(sources, 12)
    with Fleet(tmp_path / "home", **commanded(service)) as fleet:
        fleet.work()
        service.faults.add(Fault("status", 503, path="indexes", times=3))
        run = fleet.lamina("submit", str(sources))["run"]
        assert fleet.until_ended(run, 120) == "completed"
        wait_for(lambda: len(shown(service, "sparse", "notes")) >= 12, 60, "the copy")
        wait_for(lambda: "schema_manifest" in shown(service, "dense", "_mcp_config"), 30, "the schema")
        assert shown(service, "dense", "notes") == shown(service, "sparse", "notes")
