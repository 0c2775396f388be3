"""Port `VectorIndex` on Pinecone: the contract through both APIs, agreement with the index in memory, and what goes wrong.

The real client talks over loopback to the emulator, which stands in for the service.
"""

from __future__ import annotations

import json
import logging
import random
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from contracts.test_vector_index import DIM, SPACE, THREE, VectorIndexContract, batch, dense, ids, sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from pinecone_emulator import Behaviour, Fault, PineconeEmulator, limits
from pinecone_emulator.filters import check
from pinecone_emulator.filters import matches as service_matches

from pipeline.adapters import index_pinecone_fresh
from pipeline.adapters.index_memory import MemoryIndex
from pipeline.adapters.index_pinecone import PineconeIndex
from pipeline.adapters.index_pinecone_filter import condition
from pipeline.adapters.index_pinecone_open import PineconeSettings
from pipeline.adapters.index_pinecone_records import Layout, metadata_of, wired
from pipeline.adapters.index_pinecone_wait import Pace
from pipeline.adapters.pinecone_client import PineconeAccount, PineconeClient, _put_under
from pipeline.errors import Corruption, PipelineError, RejectedInput, Unavailable
from pipeline.filters import in_scope, matches, parse_filter
from pipeline.types import OPEN, Namespace, RecordId

FAMILIES = ("documents", "vectors")
FAST = 1e6
"""Records stamped a second where the pace isn't what is tested."""


def settings_of(server, *, family="auto", key=None, deadline_s=20.0, **changes):
    account = PineconeAccount(server.key if key is None else key, server.url, deadline_s)
    return PineconeSettings(
        account, "lamina", family=family, **{"updates_per_s": FAST, "fresh_deadline_s": 20, **changes}
    )


class _OnPinecone(VectorIndexContract):
    """The contract, with what Pinecone keeps of it where that is less."""

    family = "documents"
    behaviour = Behaviour()

    @pytest.fixture
    def server(self):
        with PineconeEmulator(Behaviour(**self.behaviour.__dict__)) as server:
            yield server

    @pytest.fixture
    def index(self, server):
        index = PineconeIndex(settings_of(server, family=self.family))
        yield index
        index.close()
        index.close()

    def test_upsert_only_creates(self, index):
        """Nothing is written on condition: a repeat of the same record is as if it were new, but changes nothing else."""
        index.upsert(batch(THREE[0]))
        index.stamp(SPACE, [RecordId("a")], 4)
        index.upsert(batch(THREE[1], THREE[1], added=2))
        assert list(index.scan(SPACE)) == [("a", 1, 4), ("b", 2, OPEN)]
        index.upsert(batch(THREE[0]))
        stored = index.fetch(SPACE, [RecordId("a")], vectors=True, metadata=True)
        assert (stored.added, stored.removed, stored.metadata[0]) == ((1,), (OPEN,), THREE[0][3])

    def test_namespaces_are_apart(self, index):
        """All of one dimension, which is the index's."""
        other = Namespace("ctx.g2.chunks")
        index.upsert(batch(*THREE))
        index.upsert(batch(("a", [1], {5: 1.0}, {}), namespace=other))
        index.delete(other, [RecordId("b")])
        index.drop(other)
        index.drop(other)
        assert list(index.scan(other)) == []
        assert len(list(index.scan(SPACE))) == 3
        index.upsert(batch(("a", [0, 1], {}, {}), namespace=other, added=3))
        assert list(index.scan(other)) == [("a", 3, OPEN)]

    def test_scan_is_in_order_across_pages(self, index):
        """Ids are ASCII."""
        names = [f"{i * 7919 % 1103:05}#e" for i in range(1103)]
        for at in range(0, 1103, 500):
            index.upsert(batch(*((name, [1], {}, {}) for name in names[at : at + 500])))
        assert [record for record, _, _ in index.scan(SPACE)] == sorted(names)

    def test_the_trace_says_what_a_search_could_see(self, index):
        """The service tells nothing of its work: the hits, and unknown fields where nothing was found."""
        index.upsert(batch(*THREE))
        for query, hits in ((dense(1), 3), (sparse({5: 1.0}), 2)):
            assert index.explain(SPACE, query)[0] == index.search(SPACE, query)
            assert index.explain(SPACE, query)[1].records == hits
        for document, unknown in (({"n": {"$gte": 9}, "nobody": 1}, ("nobody",)), ({"n": 9}, ()), ({"tags": "z"}, ())):
            hits, trace = index.explain(SPACE, dense(1, filter=parse_filter(document)))
            assert (hits, trace.records, trace.unknown_fields) == ((), 0, unknown)
        assert index.explain(Namespace("none.g1.chunks"), dense(1))[1].records == 0

    def test_another_dimension_is_refused(self, index):
        super().test_another_dimension_is_refused(index)
        with pytest.raises(RejectedInput, match="index lamina holds vectors of 8 dimensions, got 3") as caught:
            index.upsert(batch(("d", [1], {}, {}), dim=3))
        assert "pinecone_index" in caught.value.remedy


class TestDocuments(_OnPinecone):
    """An index whose schema names its fields."""


class TestVectors(_OnPinecone):
    """An index of vectors."""

    family = "vectors"


class TestDocumentsLater(_OnPinecone):
    """Writes are shown late, and in any order."""

    behaviour = Behaviour(lag_s=0.03, out_of_order=True)


class TestVectorsLater(_OnPinecone):
    """Writes are shown late, and no search by sparse vectors says how late."""

    family = "vectors"
    behaviour = Behaviour(lag_s=0.03, sparse_lsn=False)


class TestVectorsWithoutPositions(_OnPinecone):
    """No reply carries a log position; metadata may keep empty lists, and missing fields be unequal to everything."""

    family = "vectors"
    behaviour = Behaviour(lag_s=0.03, lsn=False, drop_empty_lists=False, missing_is_unequal=True)


@pytest.fixture
def server():
    with PineconeEmulator() as server:
        yield server


@pytest.fixture(params=FAMILIES)
def index(request, server):
    index = PineconeIndex(settings_of(server, family=request.param))
    yield index
    index.close()


@pytest.fixture
def no_waits(monkeypatch):
    """The client's pauses between two tries, of a second or so each, through the seam that it offers for tests."""
    from pinecone._internal import http_client  # noqa: PLC0415  # heavy

    monkeypatch.setattr(http_client, "_retry_sleep", lambda _seconds: None)


def paths(server):
    return [path for _, path, _ in server.requests]


def draw_rows(draw, made, count):
    """Numbers with few bits, so that every product and sum is exact whatever the order of adding."""
    folders, rows = ["docs", "docs/sub", "docs2", "notes"], []
    for at in range(made, made + count):
        vector = [draw.choice([0, 0, 0.25, 0.5, -0.5]) for _ in range(DIM)] if draw.random() < 0.9 else []
        terms = {draw.randrange(40): draw.choice([0.25, 0.5, 0.75]) for _ in range(draw.randrange(8))}
        metadata = {
            "source_path": f"{draw.choice(folders)}/{at % 5}.md",
            "n": draw.randrange(5),
            "text": "t" * (at % 3),
        }
        if draw.random() < 0.5:
            metadata |= {"tags": tuple(draw.sample("xyz", draw.randrange(3))), "half": draw.choice([0.5, 1.0, 2.0])}
        if draw.random() < 0.3:
            metadata |= {
                "_hidden": draw.random() < 0.5,
                "$price": draw.randrange(3),
                "k" * 90: "long",
                "lamina_added": 1,
            }
        rows.append((f"r{draw.randrange(10**6)}.{at}", vector, terms, metadata))
    return rows


FILTERS = [
    None,
    {},
    {"n": {"$gte": 2}},
    {"n": {"$lt": 3.5}},
    {"tags": "x"},
    {"tags": {"$ne": "x"}},
    {"tags": {"$nin": ["x", "y"]}},
    {"tags": {"$in": []}},
    {"tags": {"$nin": []}},
    {"tags": {"$exists": False}},
    {"tags": {"$exists": True}},
    {"half": 1},
    {"half": {"$in": [1, "t"]}},
    {"_hidden": True},
    {"_hidden": {"$in": [True, 1]}},
    {"_hidden": {"$ne": True}},
    {"$or": [{"text": "t"}, {"n": 4}]},
    {"$and": [{"$or": [{"k" * 90: "long"}, {"n": {"$in": [0, 1]}}]}, {"n": {"$ne": 0}}]},
    {"lamina_added": 1},
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_pinecone_and_memory_agree(server, family, seed):
    """The same seeded writes, then the same seeded queries: the same ids, and the same scores within 1e-5."""
    server.behaviour.missing_is_unequal, server.behaviour.drop_empty_lists = seed == 1, seed != 2
    draw = random.Random(seed)
    memory, pinecone = MemoryIndex(), PineconeIndex(settings_of(server, family=family))
    made = 0
    for version in range(1, 6):
        rows = draw_rows(draw, made, draw.randrange(1, 50))
        made += len(rows)
        known = [RecordId(record) for record, _, _ in memory.scan(SPACE)]
        gone, stamped = draw.sample(known, len(known) // 5), draw.sample(known, len(known) // 4)
        for index in (memory, pinecone):
            index.upsert(batch(*rows, added=version))
            index.stamp(SPACE, stamped, version)
            index.delete(SPACE, gone)
    assert list(memory.scan(SPACE)) == list(pinecone.scan(SPACE))
    known = [RecordId(record) for record, _, _ in memory.scan(SPACE)]
    held = [index.fetch(SPACE, known, vectors=True, metadata=True) for index in (memory, pinecone)]
    assert held[0].metadata == held[1].metadata
    assert [[type(v) for v in row.values()] for row in map(_sorted, held[0].metadata)] == [
        [type(v) for v in row.values()] for row in map(_sorted, held[1].metadata)
    ]
    assert held[0].dense.tolist() == held[1].dense.tolist()
    assert held[0].sparse.indices.tolist() == held[1].sparse.indices.tolist()
    for _ in range(60):
        document = draw.choice(FILTERS)
        options = {
            "k": draw.choice([1, 3, 10, 1000]),
            "version": draw.randrange(8),
            "scope": tuple(draw.sample(["docs", "docs/sub/", "docs2", "notes/1.md", ""], draw.randrange(3))),
            "filter": None if document is None else parse_filter(document),
        }
        vector = [draw.choice([0, 0.25, -0.5, 1]) for _ in range(DIM)] if draw.random() < 0.9 else []
        weights = {draw.randrange(45): draw.choice([0.125, 0.5, 2.0]) for _ in range(4)}
        for request in (dense(*vector, **options), sparse(weights, **options)):
            wanted, found = memory.search(SPACE, request), pinecone.search(SPACE, request)
            assert ids(found) == ids(wanted), (document, options)
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted], abs=1e-5)
    pinecone.close()


def _sorted(row):
    return dict(sorted(row.items()))


LAYOUT = Layout("emb", "kw", DIM)
NAMES = st.sampled_from(["n", "tags", "emb", "_n", "$n", "lamina_added", "k" * 70, "", "é", "a b", "x.y", "tab\t"])
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2, 2)
VALUES = st.booleans() | NUMBERS | TEXTS | st.lists(st.sampled_from("xyz") | TEXTS, max_size=3).map(tuple)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=6)


def on_the_service(metadata, *, drop_empty_lists=True):
    """A record's fields as they come back: numbers as floats, empty lists gone or not."""
    (record,) = wired(batch(("a", [1], {}, metadata)), LAYOUT)
    assert record.bytes < 10_000
    sent = json.loads(json.dumps(record.fields))
    return limits.metadata(sent, "a", documents=True, drop_empty_lists=drop_empty_lists)


@settings(deadline=None)
@given(metadata=RECORDS, drop=st.booleans())
def test_any_metadata_comes_back(metadata, drop):
    """Names, values and types, whatever the service does to numbers and empty lists."""
    found = metadata_of(on_the_service(metadata, drop_empty_lists=drop), LAYOUT)
    assert found == metadata
    assert {name: type(value) for name, value in found.items()} == {n: type(value) for n, value in metadata.items()}


def comparisons(operand):
    return st.fixed_dictionaries({}, optional=dict.fromkeys(("$eq", "$ne"), operand)).filter(bool)


OPERANDS = st.booleans() | st.integers(-2, 2) | st.sampled_from(["x", "y", 0.5, 1.0])
CONDITIONS = st.one_of(
    OPERANDS,
    comparisons(OPERANDS),
    st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), st.integers(-2, 2) | st.just(0.5), min_size=1),
    st.dictionaries(st.sampled_from(["$in", "$nin"]), st.lists(OPERANDS, max_size=3), min_size=1),
    st.builds(lambda yes: {"$exists": yes}, st.booleans()),
)
DOCUMENTS = st.recursive(
    st.dictionaries(NAMES.filter(lambda name: name and name[0] != "$"), CONDITIONS, max_size=2),
    lambda inner: st.dictionaries(
        st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3), min_size=1
    ),
    max_leaves=4,
)


@settings(deadline=None)
@given(metadata=RECORDS, document=DOCUMENTS, drop=st.booleans(), loose=st.booleans())
def test_any_filter_means_the_same(metadata, document, drop, loose):
    """Ours on the record, and its translation on what the service holds, whatever it makes of missing fields."""
    fields = on_the_service(metadata, drop_empty_lists=drop)
    request = dense(1, version=3, filter=parse_filter(document))
    translated = condition(request, LAYOUT)
    found = False
    if translated is not None:
        check(translated, negation=False)
        found = service_matches(translated, fields, missing_is_unequal=loose)
    assert found == matches(request.filter, metadata)


@settings(deadline=None)
@given(path=st.text(st.sampled_from("ab/"), max_size=12), prefix=st.text(st.sampled_from("ab/"), max_size=6))
def test_any_scope_means_the_same(path, prefix):
    """A prefix on whole path parts is one of the record's keys."""
    translated = condition(dense(1, version=3, scope=(prefix,)), LAYOUT)
    fields = on_the_service({"source_path": path})
    assert service_matches(translated, fields, missing_is_unequal=False) == in_scope(path, [prefix])


def test_scores_of_unit_vectors_are_near_enough(index):
    """With vectors of any bits, order and score agree with the index in memory within 1e-5."""
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((300, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    rows = [(f"r{at:03}", row.tolist(), {at % 7: float(rng.random()) + 0.1}, {}) for at, row in enumerate(vectors)]
    memory = MemoryIndex()
    for target in (memory, index):
        target.upsert(batch(*rows))
    for request in (dense(*vectors[3], k=50), sparse({3: 0.3, 5: 1.7}, k=50)):
        wanted = {hit.id: hit.score for hit in memory.search(SPACE, request)}
        found = index.search(SPACE, request)
        assert {hit.id: hit.score for hit in found} == pytest.approx(wanted, abs=1e-5)
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


class TestSearchRequests:
    def test_one_request_a_search(self, server, index):
        """None to ask for freshness where this process has written nothing."""
        index.upsert(batch(*((f"r{at:02}", [1 - at / 100, 0.5], {1: 0.5 + at / 100}, {}) for at in range(60))))
        reader = PineconeIndex(settings_of(server))
        reader.search(SPACE, dense(1, k=5))
        server.requests.clear()
        assert len(reader.search(SPACE, dense(1, k=5))) == 5
        assert len(reader.search(SPACE, sparse({1: 1.0}, k=5))) == 5
        assert len(server.requests) == 2
        reader.close()

    def test_what_can_match_nothing_asks_nothing(self, server, index):
        index.upsert(batch(*THREE))
        index.search(SPACE, dense(1))
        server.requests.clear()
        nothing = parse_filter({"$and": [{"n": {"$in": []}}, {"n": 1}]})
        assert index.search(SPACE, dense(1, filter=nothing)) == index.search(SPACE, sparse({})) == ()
        assert server.requests == []

    def test_no_more_than_ten_thousand(self, index):
        """That is the service's limit, for any `k`."""
        index.upsert(batch(*THREE))
        assert len(index.search(SPACE, dense(1, k=160_000))) == 3

    def test_texts_are_not_ordered(self, index):
        index.upsert(batch(*THREE))
        with pytest.raises(RejectedInput, match=r"field 'text', operator \$gt") as caught:
            index.search(SPACE, dense(1, filter=parse_filter({"text": {"$gt": "a"}})))
        assert (caught.value.code, "_epoch" in caught.value.remedy) == ("bad_filter", True)

    def test_long_queries_and_records_keep_their_heaviest_terms(self, index):
        """2,048 of them; of equal ones those with the smaller hash."""
        terms = dict.fromkeys(range(5000), 0.5) | {9000 + at: 0.75 for at in range(100)}
        index.upsert(batch(("a", [1], terms, {})))
        stored = index.fetch(SPACE, [RecordId("a")], vectors=True, metadata=False)
        assert stored.sparse.indices.tolist() == [*range(1948), *range(9000, 9100)]
        (hit,) = index.search(SPACE, sparse(dict.fromkeys(range(3000), 1.0)))
        assert hit.score == pytest.approx(1948 * 0.5)


class TestLimits:
    @pytest.mark.parametrize(
        ("metadata", "code", "says"),
        [
            ({"text": "x" * 50_000}, "metadata_too_large", "field 'text'"),
            ({"a": "x" * 10_000, "b": "é" * 16_000}, "metadata_too_large", "field 'b'"),
            ({"source_path": "a/" * 20_000}, "metadata_too_large", "field 'source_path'"),
            ({"n": 2**53 + 1}, "bad_metadata", "field 'n'"),
            ({"n": float("nan")}, "bad_metadata", "field 'n'"),
            ({"n": None}, "bad_metadata", "field 'n'"),
            ({"n": (1, 2)}, "bad_metadata", "field 'n'"),
            ({"text": "half \ud800"}, "bad_metadata", "field 'text'"),
        ],
    )
    def test_metadata_that_does_not_fit(self, server, index, metadata, code, says):
        """Refused by record and field before anything is written, the good records beside it too."""
        with pytest.raises(RejectedInput) as caught:
            index.upsert(batch(THREE[0], ("the-bad-one", [1], {}, metadata)))
        assert caught.value.code == code
        assert "'the-bad-one'" in caught.value.message
        assert says in caught.value.message
        assert not any("upsert" in path for path in paths(server))

    @pytest.mark.parametrize("name", ["", "é", "a\0b", "x" * 513])
    def test_ids_that_do_not_fit(self, index, name):
        """Can't be written; asked for, they simply aren't there."""
        with pytest.raises(RejectedInput) as caught:
            index.upsert(batch((name, [1], {}, {})))
        assert caught.value.code == "bad_record_id"
        index.upsert(batch(THREE[0]))
        strange = RecordId(name)
        index.stamp(SPACE, [strange], 2)
        index.delete(SPACE, [strange])
        assert index.fetch(SPACE, [strange, RecordId("a")], vectors=False, metadata=False).ids == ("a",)

    def test_upserts_are_divided_by_count_and_by_bytes(self, server, index):
        """The emulator refuses more than 1,000 records or 2 MB."""
        index.upsert(batch(*((f"r{at:04}", [1], {}, {}) for at in range(2300))))
        assert len([path for path in paths(server) if "upsert" in path]) == 3
        server.requests.clear()
        index.upsert(batch(*((f"s{at:04}", [1], {at: 0.5}, {"text": "y" * 30_000}) for at in range(150))))
        assert 3 <= len([path for path in paths(server) if "upsert" in path]) <= 4
        assert len(list(index.scan(SPACE))) == 2450

    def test_a_thousand_ids_at_once(self, index):
        """Addresses stay short enough, whatever the API puts there."""
        names = [RecordId(f"{'source' * 10}#{at:04}.0#1") for at in range(1200)]
        index.upsert(batch(*((name, [1], {}, {}) for name in names)))
        assert index.fetch(SPACE, names, vectors=True, metadata=True).ids == tuple(names)
        index.stamp(SPACE, names[:300], 5)
        index.delete(SPACE, names[300:])
        assert list(index.scan(SPACE)) == [(name, 1, 5) for name in names[:300]]

    def test_metadata_comes_back_as_it_went_in(self, index):
        """Types, empty values, and names that the service doesn't take."""
        odd = {
            "_under": "a", "$dollar": 1, "lamina_added": "mine", "lamina_dense": "b", "_values": "c", "": "nameless",
            "ключ" * 20: ("x",), "tab\t": True, "zero": 0, "minus": -0.0, "one": 1.0, "big": 1e300, "int": 2**53,
            "none": (), "_none": (), "blank": "", "blanks": ("", "a"), "no": False, "é": 1.5, "_float": 3.0,
        }  # fmt: skip
        index.upsert(batch(("a", [1], {}, odd), ("b", [], {}, {})))
        stored = index.fetch(SPACE, [RecordId("a"), RecordId("b")], vectors=True, metadata=True)
        assert stored.metadata == (odd, {})
        assert [type(stored.metadata[0][name]) for name in odd] == [type(value) for value in odd.values()]
        assert stored.dense[1].tolist() == [0.0] * DIM


class TestOpening:
    def test_nothing_is_made_before_the_first_write(self, server, index):
        assert index.search(SPACE, dense(1)) == ()
        index.settle(SPACE, [RecordId("a")])
        assert not server.store.indexes
        index.upsert(batch(*THREE))
        (made,) = server.store.indexes.values()
        assert (made.family, made.dimension, made.metric) == (index._settings.family, DIM, "dotproduct")

    def test_the_family_is_what_the_index_is(self, server):
        """`auto` finds it; a new index is for documents."""
        for family in (*FAMILIES, "auto"):
            server.reset()
            writer = PineconeIndex(settings_of(server, family=family))
            writer.upsert(batch(*THREE))
            writer.close()
            index = PineconeIndex(settings_of(server))
            assert ids(index.search(SPACE, dense(1))) == ["a", "c", "b"]
            assert any("documents" in path for path in paths(server)) == (family != "vectors")
            index.close()

    @pytest.mark.parametrize(
        ("fields", "family", "says"),
        [
            ({"_values": ("dense_vector", "dotproduct")}, "auto", "1 dense and 0 sparse"),
            ({"e": ("dense_vector", "euclidean"), "s": ("sparse_vector", "")}, "auto", "metric is euclidean"),
            ({"e": ("dense_vector", "cosine"), "s": ("sparse_vector", "")}, "vectors", "documents API"),
        ],
    )
    def test_an_index_that_can_not_be_used(self, server, fields, family, says):
        create(server, fields)
        index = PineconeIndex(settings_of(server, family=family))
        with pytest.raises(RejectedInput, match=says) as caught:
            index.search(SPACE, dense(1))
        index.close()
        assert (caught.value.code, "pinecone_index" in caught.value.remedy) == ("index_unfit", True)

    def test_somebody_elses_index_of_another_metric(self, server):
        """With vectors of unit length the cosine is the dot product; their names of fields are kept."""
        create(server, {"emb": ("dense_vector", "cosine"), "kw": ("sparse_vector", "")})
        index = PineconeIndex(settings_of(server))
        index.upsert(batch(("a", [0.6, 0.8], {5: 1.0}, {"emb": "text", "kw": 1}), ("z", [], {}, {})))
        assert index.search(SPACE, dense(1))[0].score == pytest.approx(0.6)
        assert ids(index.search(SPACE, dense(1))) == ["a", "z"]
        assert ids(index.search(SPACE, dense(1, filter=parse_filter({"emb": "text"})))) == ["a"]
        stored = index.fetch(SPACE, [RecordId("a")], vectors=False, metadata=True)
        assert stored.metadata[0] == {"emb": "text", "kw": 1}
        index.close()

    def test_several_processes_make_it_at_once(self, server):
        """One does; all wait until it is ready."""
        server.behaviour.ready_after_s = 0.2
        indexes, failures = [PineconeIndex(settings_of(server)) for _ in range(4)], []

        def write(at):
            try:
                indexes[at].upsert(batch((f"r{at}", [1], {}, {})))
            except PipelineError as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        indexes[0].settle(SPACE, [RecordId(f"r{at}") for at in range(4)])
        assert len(indexes[0].search(SPACE, dense(1))) == 4
        for index in indexes:
            index.close()

    def test_an_index_that_never_becomes_ready(self, server):
        server.behaviour.ready_after_s = 60
        index = PineconeIndex(settings_of(server, create_deadline_s=0.2))
        with pytest.raises(Unavailable) as caught:
            index.upsert(batch(*THREE))
        index.close()
        assert caught.value.code == "index_not_ready"

    @pytest.mark.parametrize(
        ("url", "key", "code"),
        [
            ("ftp://x", "k", "bad_control_url"),
            ("http://user:secret@x", "k", "bad_control_url"),
            ("http://[", "k", "bad_control_url"),
            ("http://x.example", "", "bad_api_key"),
            ("http://x.example", "k\n", "bad_api_key"),
            ("http://x.example", "ключ", "bad_api_key"),
        ],
    )
    def test_settings_that_can_not_be_used(self, url, key, code):
        with pytest.raises(RejectedInput) as caught:
            PineconeClient(PineconeAccount(key, url))
        assert caught.value.code == code
        assert "secret" not in caught.value.message

    def test_another_client_than_the_one_we_know(self):
        with pytest.raises(Unavailable) as caught:
            _put_under(object(), None)
        assert caught.value.code == "pinecone_unknown"


def create(server, fields):
    """An index made by somebody else."""

    def make(client):
        specs = {
            name: {"type": kind, **({"dimension": DIM, "metric": metric} if metric else {})}
            for name, (kind, metric) in fields.items()
        }
        client.indexes.create(name="lamina", schema={"fields": specs}, timeout=-1)

    client = PineconeClient(PineconeAccount(server.key, server.url))
    client.call("create", make)
    client.close()


TRANSIENT = [
    Fault("status", 503),
    Fault("status", 500),
    Fault("status", 429, retry_after="0"),
    Fault("reset_before"),
    Fault("reset_after"),
    Fault("half_body"),
]
DATA = r"/index/lamina/(?!.*describe)"


@pytest.mark.usefixtures("no_waits")
class TestFaults:
    @pytest.mark.parametrize("fault", TRANSIENT, ids=lambda fault: f"{fault.kind}-{fault.status}")
    def test_what_passes_is_tried_again(self, server, index, fault):
        """Each call's first try fails, before or after it took effect; the result is as if it hadn't."""
        index.upsert(batch(("first", [0, 1], {1: 1.0}, {})))
        for call, wanted in (
            (lambda: index.upsert(batch(*THREE)), None),
            (lambda: index.stamp(SPACE, [RecordId("b")], 7), None),
            (lambda: index.delete(SPACE, [RecordId("a")]), None),
            (lambda: index.settle(SPACE, [RecordId("b")]), None),
            (lambda: ids(index.search(SPACE, dense(0, 1, version=6))), ["b", "first", "c"]),
            (lambda: ids(index.search(SPACE, sparse({5: 1.0}))), ["b"]),
            (lambda: index.fetch(SPACE, [RecordId("b")], vectors=True, metadata=True).removed, (7,)),
            (lambda: list(index.scan(SPACE)), [("b", 1, 7), ("c", 1, OPEN), ("first", 1, OPEN)]),
            (lambda: index.drop(SPACE), None),
            (lambda: list(index.scan(SPACE)), []),
        ):
            server.faults.clear()
            server.faults.add(Fault(fault.kind, fault.status, fault.retry_after, path=DATA))
            assert call() == wanted
            assert server.faults.injected == 1

    @pytest.mark.parametrize(
        ("fault", "kind", "code"),
        [
            (Fault("status", 503, times=-1), Unavailable, "provider_down"),
            (Fault("status", 429, retry_after="55", times=-1), Unavailable, "rate_limited"),
            (Fault("status", 429, times=-1), Unavailable, "rate_limited"),
            (Fault("status", 401), Unavailable, "unauthorized"),
            (Fault("status", 403), Unavailable, "unauthorized"),
            (Fault("status", 402), Unavailable, "quota"),
            (Fault("status", 400), RejectedInput, "refused"),
            (Fault("status", 413), RejectedInput, "too_large"),
            (Fault("status", 302), Corruption, "bad_reply"),
            (Fault("reset_before", times=-1), Unavailable, "provider_down"),
            (Fault("hang"), Unavailable, "provider_timeout"),
            (Fault("slow_body"), Unavailable, "provider_timeout"),
            (Fault("garbage"), Corruption, "bad_reply"),
            (Fault("empty"), Corruption, "bad_reply"),
        ],
        ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else None,
    )
    def test_what_does_not_pass_is_an_error_of_ours(self, server, index, fault, kind, code):
        """Never a wrong answer, never a write reported as done; afterwards the same calls work."""
        index.upsert(batch(*THREE))
        index.search(SPACE, dense(1))
        index._client._account = PineconeAccount(server.key, server.url, 0.25 if code == "provider_timeout" else 9.0)
        for name, call in (
            ("upsert", lambda: index.upsert(batch(("d", [1], {}, {})))),
            ("search", lambda: index.search(SPACE, dense(1))),
            ("fetch", lambda: index.fetch(SPACE, [RecordId("a")], vectors=False, metadata=False)),
            ("list", lambda: list(index.scan(SPACE))),
        ):
            server.faults.clear()
            server.faults.add(Fault(fault.kind, fault.status, fault.retry_after, "no", r"/index/", fault.times))
            with pytest.raises(kind) as caught:
                call()
            assert caught.value.code == code, name
            if fault.retry_after:
                assert caught.value.retry_after_ms == 55_000
        server.faults.clear()
        index._client._account = PineconeAccount(server.key, server.url, 20.0)
        index.upsert(batch(("d", [1], {}, {})))
        assert ids(index.search(SPACE, dense(1))) == ["a", "d", "c", "b"]

    def test_an_upsert_that_took_less_than_it_was_given_is_not_done(self, server, index):
        index.upsert(batch(THREE[0]))
        server.faults.add(Fault("miscount", path="upsert"))
        with pytest.raises(Unavailable, match="took 1 of 2 records"):
            index.upsert(batch(*THREE[1:]))
        index.upsert(batch(*THREE[1:]))

    def test_a_call_ends_at_its_deadline(self, server, index):
        """Whatever the service asks to wait, and however slowly it talks."""
        index.upsert(batch(*THREE))
        index._client._account = PineconeAccount(server.key, server.url, 0.3)
        for fault in (
            Fault("slow_head", times=-1),
            Fault("slow_body", times=-1),
            Fault("hang", times=-1),
            Fault("status", 503, "9", times=-1),
        ):
            server.faults.clear()
            server.faults.add(fault)
            began = time.monotonic()
            with pytest.raises(Unavailable):
                index.fetch(SPACE, [RecordId("a")], vectors=False, metadata=False)
            assert time.monotonic() - began < 5

    @pytest.mark.parametrize("family", FAMILIES)
    def test_by_chance_nothing_is_lost(self, server, family):
        """A fifth of all requests fail, writes are late and out of order; callers repeat what was unavailable."""
        server.behaviour.lag_s, server.behaviour.out_of_order = 0.01, True
        server.faults.by_chance(0.2, *(Fault(f.kind, f.status, f.retry_after, path=DATA) for f in TRANSIENT), seed=7)
        index, memory, draw = PineconeIndex(settings_of(server, family=family)), MemoryIndex(), random.Random(3)

        def repeat(call):
            for _ in range(30):
                try:
                    return call()
                except Unavailable:
                    continue
            raise AssertionError("never available")

        made = 0
        for version in range(1, 9):
            rows = draw_rows(draw, made, 20)
            made += 20
            known = [RecordId(record) for record, _, _ in memory.scan(SPACE)]
            gone, stamped = draw.sample(known, len(known) // 5), draw.sample(known, len(known) // 4)
            for target in (index, memory):
                repeat(lambda target=target, rows=rows, version=version: target.upsert(batch(*rows, added=version)))
                repeat(lambda target=target, s=stamped, version=version: target.stamp(SPACE, s, version))
                repeat(lambda target=target, gone=gone: target.delete(SPACE, gone))
            assert repeat(lambda: list(index.scan(SPACE))) == list(memory.scan(SPACE))
            query = dense(0.5, 0.25, -0.5, k=15, version=version)
            assert ids(repeat(lambda query=query: index.search(SPACE, query))) == ids(memory.search(SPACE, query))
        assert server.faults.injected > 20
        index.close()

    def test_foreign_records_are_damage(self, index):
        """Only Lamina writes to its namespaces."""
        index.upsert(batch(*THREE))
        held = index._held
        held.call("update", lambda client: _strip(client, held.family))
        with pytest.raises(Corruption) as caught:
            list(index.scan(SPACE))
        assert caught.value.code == "foreign_record"


@pytest.mark.parametrize("retry_after", ["30", None])
def test_a_wait_that_would_not_end_in_time_is_the_callers(server, index, retry_after):
    """The client would sleep as long as it is asked to, and longer; here its waits are real."""
    index.upsert(batch(*THREE))
    index.search(SPACE, dense(1))
    index._client._account = PineconeAccount(server.key, server.url, 0.5)
    server.faults.add(Fault("status", 429, retry_after, times=-1))
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        index.search(SPACE, dense(1))
    assert time.monotonic() - began < 10
    assert server.faults.injected == 1
    assert (caught.value.code, caught.value.retry_after_ms) == ("rate_limited", 30_000 if retry_after else None)


def _strip(client, family):
    if type(family).__name__ == "Documents":
        client.documents.update(namespace=SPACE, documents=[{"_id": "a", "lamina_added": "text"}])
    else:
        client.update(id="a", namespace=SPACE, set_metadata={"lamina_added": "text"})


class TestFreshness:
    @pytest.mark.parametrize("lsn", [True, False])
    def test_settle_waits_for_other_writers(self, server, index, lsn):
        """A reader that wrote nothing sees, after `settle`, what others had written before it."""
        server.behaviour.lsn = lsn
        other = PineconeIndex(settings_of(server))
        index.upsert(batch(("old", [1], {1: 1.0}, {})))
        index.settle(SPACE, [])
        assert ids(other.search(SPACE, dense(1))) == ["old"]
        server.behaviour.lag_s = 0.6
        index.upsert(batch(*THREE))
        assert ids(other.search(SPACE, dense(1))) == ["old"]
        other.settle(SPACE, [])
        assert ids(other.search(SPACE, dense(1))) == ["old"]
        other.settle(SPACE, [RecordId(record) for record in "abc"])
        assert len(other.search(SPACE, dense(1))) == 4
        assert len(other.search(SPACE, sparse({5: 1.0}))) == 2
        other.close()

    @pytest.mark.parametrize("lsn", [True, False])
    def test_own_writes_are_seen_or_it_says_so(self, server, index, lsn):
        """Never an old answer: past the deadline it is `not_fresh`, and later the new one."""
        server.behaviour.lsn = lsn
        index.upsert(batch(*THREE))
        index.settle(SPACE, [])
        server.behaviour.lag_s = 600
        object.__setattr__(index._settings, "fresh_deadline_s", 0.08)
        index.stamp(SPACE, [RecordId("a")], 2)
        for call in (
            lambda: index.search(SPACE, dense(1, version=2)),
            lambda: index.fetch(SPACE, [RecordId("a")], vectors=False, metadata=False),
            lambda: list(index.scan(SPACE)),
            lambda: index.settle(SPACE, []),
            lambda: index.settle(SPACE, [RecordId("b"), RecordId("nobody")]),
        ):
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.code == "not_fresh"
        server.release()
        assert ids(index.search(SPACE, dense(1, version=2))) == ["c", "b"]

    def test_stamping_what_is_not_there_leaves_nothing_to_wait_for(self, server, index):
        server.behaviour.lsn, server.behaviour.lag_s = False, 0.05
        index.upsert(batch(*THREE))
        index.stamp(SPACE, [RecordId("nobody"), RecordId("a")], 3)
        index.delete(SPACE, [RecordId("nobody2")])
        assert next(index.scan(SPACE)) == ("a", 1, 3)

    @pytest.mark.parametrize("lsn", [True, False])
    def test_made_erased_and_made_again(self, server, index, lsn):
        """What is read is the last, never the first, and never nothing."""
        server.behaviour.lsn, server.behaviour.lag_s = lsn, 0.05
        for version in range(1, 5):
            index.upsert(batch(("a", [1], {}, {}), added=version))
            assert [row[1] for row in index.scan(SPACE)] == [version]
            index.delete(SPACE, [RecordId("a")])
            index.upsert(batch(("a", [1], {}, {}), added=version))
            index.stamp(SPACE, [RecordId("a")], 9)
            index.upsert(batch(("a", [1], {}, {}), added=version))
            assert list(index.scan(SPACE)) == [("a", version, OPEN)]
            index.delete(SPACE, [RecordId("a")])
        assert list(index.scan(SPACE)) == []

    def test_what_is_remembered_is_bounded(self, server, index, monkeypatch):
        """A writer that gets far ahead of the service waits for it."""
        monkeypatch.setattr(index_pinecone_fresh, "STATES_MAX", 40)
        server.behaviour.lag_s = 0.02
        for at in range(0, 200, 20):
            index.upsert(batch(*((f"r{at + i:03}", [1], {}, {}) for i in range(20))))
            assert len(index._writes.unseen(SPACE).states) <= 40
        for at in range(0, 160, 10):
            index.delete(SPACE, [RecordId(f"r{at + i:03}") for i in range(10)])
            assert len(index._writes.unseen(SPACE).states) <= 40
        assert len(list(index.scan(SPACE))) == 40

    def test_stamps_keep_the_pace(self, server):
        """The service refuses more than its rate of updated records; the adapter stays below."""
        pace, slow, began = Pace(100), Pace(0.05), time.monotonic()
        for _ in range(4):
            pace.wait("ns", 10)
        slow.wait("one", 1)
        slow.wait("another", 1)
        assert 0.28 < time.monotonic() - began < 10
        server.behaviour.updates_per_s = 100
        for family in FAMILIES:
            server.store.reset()
            index = PineconeIndex(settings_of(server, family=family, updates_per_s=90))
            names = [RecordId(f"r{at:03}") for at in range(100)]
            index.upsert(batch(*((name, [1], {}, {}) for name in names)))
            index.stamp(SPACE, names, 2)
            assert {removed for _, _, removed in index.scan(SPACE)} == {2}
            index.close()
        assert not server.faults.injected


SECRET = 'pc-sk_planted/9"0'


class TestOutside:
    def test_the_key_is_in_no_error_and_no_log(self, caplog):
        """Not even where the service repeats it."""
        caplog.set_level(logging.DEBUG)
        found = []
        with PineconeEmulator(key=SECRET) as server:
            index = PineconeIndex(settings_of(server))
            index.upsert(batch(*THREE))
            shown = f"your key {SECRET} and {json.dumps(SECRET)}"
            for status in (400, 401, 403, 404, 409, 429, 500, 503):
                server.faults.clear()
                server.faults.add(
                    Fault("status", status, retry_after="90", message=shown, path="(upsert|create)", times=-1)
                )
                with pytest.raises(PipelineError) as caught:
                    index.upsert(batch(*THREE))
                found += [*traceback.format_exception(caught.value), repr(caught.value), caught.value.remedy]
            found += [
                repr(index._settings),
                repr(index._client._opened.client),
                str(vars(index._client._opened.client)),
            ]
            index.close()
            assert {headers["api-key"] for _, _, headers in server.requests} == {SECRET}
        everything = "\n".join([*found, caplog.text])
        for form in (SECRET, json.dumps(SECRET)[1:-1], SECRET[-6:]):
            assert form not in everything

    def test_the_environment_is_not_read(self, server, monkeypatch):
        """Settings are the only reader of it; the client has variables of its own."""
        for name in ("API_KEY", "CONTROLLER_HOST", "GRPC_SCHEME"):
            monkeypatch.setenv(f"PINECONE_{name}", "leaked")
        monkeypatch.setenv("PINECONE_ADDITIONAL_HEADERS", '{"X-Team": "leaked", "Api-Key": "leaked"}')
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.delenv("PINECONE_GRPC_SCHEME")
        index = PineconeIndex(settings_of(server))
        index.upsert(batch(*THREE))
        index.close()
        assert "leaked" not in str(server.requests)
        assert server.requests[0][2].keys() <= {
            *("accept", "accept-encoding", "api-key", "connection", "content-length", "content-type", "host"),
            *("user-agent", "x-pinecone-api-version"),
        }

    def test_nothing_is_imported_before_it_is_used(self):
        """Whoever doesn't use the service doesn't pay for its client."""
        script = (
            "import sys\n"
            "import pipeline.curate, pipeline.search, pipeline.bootstrap\n"
            "from pipeline.adapters import embedder_pinecone, index_pinecone, reranker_pinecone\n"
            "from pipeline.adapters.index_pinecone_open import PineconeSettings\n"
            "from pipeline.adapters.pinecone_client import PineconeAccount\n"
            "account = PineconeAccount('k')\n"
            "index_pinecone.PineconeIndex(PineconeSettings(account, 'x')).close()\n"
            "embedder_pinecone.PineconeEmbedder(embedder_pinecone.PineconeEmbedderSettings(account)).close()\n"
            "reranker_pinecone.PineconeReranker(reranker_pinecone.PineconeRerankerSettings(account)).close()\n"
            "assert not {'pinecone', 'httpx', 'httpcore', 'orjson', 'msgspec'} & set(sys.modules), 'heavy'\n"
        )
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
        assert run.returncode == 0, run.stderr

    def test_a_forked_child_has_connections_of_its_own(self, server):
        """And leaves the parent's as they are."""
        script = (
            "import os, sys\n"
            f"sys.path[:0] = [{str(ROOT / 'tests')!r}]\n"
            "from contracts.test_vector_index import SPACE, THREE, batch, dense, ids\n"
            "from pipeline.adapters.index_pinecone import PineconeIndex\n"
            "from pipeline.adapters.index_pinecone_open import PineconeSettings\n"
            "from pipeline.adapters.pinecone_client import PineconeAccount\n"
            f"account = PineconeAccount({server.key!r}, {server.url!r}, 10.0)\n"
            "index = PineconeIndex(PineconeSettings(account, 'lamina'))\n"
            "index.upsert(batch(*THREE))\n"
            "assert ids(index.search(SPACE, dense(1))) == ['a', 'c', 'b']\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    index.upsert(batch(('d', [1], {}, {})))\n"
            "    good = ids(index.search(SPACE, dense(1))) == ['a', 'd', 'c', 'b']\n"
            "    os._exit(0 if good else 9)\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
            "index.settle(SPACE, ['d'])\n"
            "assert ids(index.search(SPACE, dense(1))) == ['a', 'd', 'c', 'b']\n"
            "index.close()\n"
        )
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT)
        assert run.returncode == 0, run.stderr


ROOT = Path(__file__).parents[2]
