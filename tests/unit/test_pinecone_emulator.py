"""The emulator of Pinecone, asked by the service's official client: shapes, limits, lag, faults and the journal."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pinecone
import pytest
from pinecone_emulator import Behaviour, Fault, PineconeEmulator
from pinecone_emulator.inference import tokens

TESTS = Path(__file__).parents[1]
NAMED = {"emb": {"type": "dense_vector", "dimension": 3, "metric": "dotproduct"}, "kw": {"type": "sparse_vector"}}
PLAIN = {"_values": NAMED["emb"], "_sparse_values": NAMED["kw"]}
SPACE = "ctx.g1.chunks"


@pytest.fixture
def server():
    with PineconeEmulator() as server:
        yield server


@pytest.fixture
def client(server):
    # Certificates would be read anew for each of the client's parts, and nothing here is encrypted.
    with pinecone.Pinecone(api_key=server.key, host=server.url, ssl_verify=False) as client:
        yield client


@pytest.fixture
def documents(client):
    client.indexes.create(name="d", schema={"fields": NAMED}, timeout=-1)
    with client.index(name="d") as index:
        yield index


@pytest.fixture
def vectors(client):
    client.indexes.create(name="v", schema={"fields": PLAIN}, timeout=-1)
    with client.index(name="v") as index:
        yield index


@pytest.fixture
def no_waits(monkeypatch):
    """The client's pauses between two tries, through the seam that it offers for tests."""
    from pinecone._internal import http_client  # noqa: PLC0415

    monkeypatch.setattr(http_client, "_retry_sleep", lambda _seconds: None)


def document(id_="a", emb=(1, 0, 0), **fields):
    return {"_id": id_, "emb": list(emb), **fields}


def vector(id_="a", values=(1, 0, 0), **fields):
    return {"id": id_, "values": list(values), "metadata": fields}


def by_dense(*values):
    return [{"type": "dense_vector", "field": "emb", "values": list(values)}]


def refused(call):
    with pytest.raises(pinecone.ApiError) as caught:
        call()
    return caught.value.status_code


class TestControlPlane:
    def test_indexes(self, server, client):
        made = client.indexes.create(name="x", schema={"fields": NAMED})
        assert (made.name, made.status.ready, made.host) == ("x", True, f"{server.url}/index/x")
        assert made.schema.fields["emb"].dimension == 3
        assert [index.name for index in client.indexes.list()] == ["x"]
        assert refused(lambda: client.indexes.create(name="x", schema={"fields": NAMED})) == 409
        client.indexes.delete("x")
        assert refused(lambda: client.indexes.describe("x")) == 404

    def test_an_index_takes_a_while(self, server, client):
        server.behaviour.ready_after_s = 0.2
        assert client.indexes.create(name="x", schema={"fields": NAMED}, timeout=-1).host is None
        server.behaviour.ready_after_s = 0
        assert client.indexes.describe("x").status.ready

    @pytest.mark.parametrize(
        "fields",
        [
            {"e": {"type": "dense_vector", "dimension": 0, "metric": "cosine"}},
            {"e": {"type": "dense_vector", "dimension": 20_001, "metric": "cosine"}},
            {"e": NAMED["emb"], "f": NAMED["emb"]},
            {"_e": NAMED["emb"]},
            {"e": {"type": "semantic_text", "model": "m"}},
        ],
    )
    def test_schemas_that_are_refused(self, client, fields):
        assert refused(lambda: client.indexes.create(name="x", schema={"fields": fields})) == 400

    def test_namespaces(self, documents):
        documents.create_namespace(name="one")
        documents.documents.upsert(namespace="two", documents=[document()])
        found = {space.name: space.record_count for page in documents.list_namespaces() for space in page.namespaces}
        assert found == {"one": 0, "two": 1}
        documents.delete_namespace(name="two")
        assert refused(lambda: documents.describe_namespace(name="two")) == 404
        assert refused(lambda: documents.delete_namespace(name="two")) == 404

    def test_keys_and_versions(self, server):
        with pinecone.Pinecone(api_key="wrong", host=server.url) as other:
            assert refused(lambda: list(other.indexes.list())) == 401
        stranger = {"X-Pinecone-Api-Version": "2025-01"}
        with pinecone.Pinecone(api_key=server.key, host=server.url, additional_headers=stranger) as other:
            assert refused(lambda: list(other.indexes.list())) == 400


class TestDocuments:
    def test_write_and_read(self, documents):
        rows = [
            document("a", kw={"indices": [7, 4_294_967_295], "values": [0.5, 0.25]}, n=1, tags=["x"]),
            document("b", (0, 1, 0), n=2, none=None, empty=[]),
        ]
        reply = documents.documents.upsert(namespace=SPACE, documents=rows)
        assert (reply.upserted_count, reply.response_info.lsn_committed) == (2, 1)
        found = documents.documents.search(
            namespace=SPACE, score_by=by_dense(1, 0, 0), top_k=5, include_fields=["n", "tags"]
        )
        assert [match.to_dict() for match in found.matches] == [
            {"_id": "a", "_score": 1.0, "n": 1.0, "tags": ["x"]},
            {"_id": "b", "_score": 0.0, "n": 2.0},
        ]
        assert isinstance(found.matches[0].to_dict()["n"], float)  # as the service gives every number
        assert found.response_info.lsn_reconciled == 1
        clause = [{"type": "sparse_vector", "field": "kw", "sparse_values": {"indices": [7, 9], "values": [2.0, 1.0]}}]
        found = documents.documents.search(namespace=SPACE, score_by=clause, top_k=5)
        assert [(match.id, match.score) for match in found.matches] == [("a", 1.0)]  # those that share a term
        fetched = documents.documents.fetch(namespace=SPACE, ids=["b", "gone"]).documents
        assert {id_: row.to_dict() for id_, row in fetched.items()} == {
            "b": {"_id": "b", "emb": [0.0, 1.0, 0.0], "n": 2.0}
        }

    def test_update_delete_and_list(self, documents):
        names = [f"r{n:03}" for n in range(250)]
        documents.documents.upsert(namespace=SPACE, documents=[document(name, n=1) for name in reversed(names)])
        assert [row.id for row in documents.documents.list(namespace=SPACE)] == names
        assert len(list(documents.documents.list(namespace=SPACE, prefix="r00", limit=3))) == 10
        patches = [{"_id": "r000", "n": 5, "_remove_fields": []}, {"_id": "nobody", "n": 5}]
        documents.documents.update(namespace=SPACE, documents=patches)
        reply = documents.documents.update(namespace=SPACE, filter={"n": 5}, set_fields={"m": "x"}, remove_fields=["n"])
        assert reply.matched_records == 1
        assert documents.documents.fetch(namespace=SPACE, ids=["r000", "nobody"]).documents["r000"].get("m") == "x"
        documents.documents.delete(namespace=SPACE, ids=names[:100])
        assert documents.documents.delete(namespace=SPACE, filter={"n": {"$gte": 1}}).matched_records == 150
        assert list(documents.documents.list(namespace=SPACE)) == []

    def test_the_vectors_api_is_refused(self, documents):
        assert refused(lambda: documents.upsert(vectors=[vector()], namespace=SPACE)) == 400
        assert refused(lambda: documents.query(vector=[1, 0, 0], top_k=1, namespace=SPACE)) == 400

    @pytest.mark.parametrize(
        ("change", "status"),
        [
            ({"emb": [1, 0]}, 400),
            ({"emb": [0, 0, 0]}, 400),
            ({"emb": [float("nan"), 0, 0]}, 400),
            ({"kw": {"indices": [], "values": []}}, 400),
            ({"kw": {"indices": [1, 1], "values": [1, 1]}}, 400),
            ({"kw": {"indices": [1 << 32], "values": [1]}}, 400),
            ({"kw": {"indices": list(range(2049)), "values": [1.0] * 2049}}, 400),
            ({"kw": {"indices": list(range(2048)), "values": [1.0] * 2048}}, 202),
            ({"text": "x" * 41_000}, 400),
            ({"text": "x" * 40_000}, 202),
            ({"_hidden": 1}, 400),
            ({"$price": 1}, 400),
            ({"k" * 65: 1}, 400),
            ({"deep": {"a": 1}}, 400),
            ({"mixed": ["a", 1]}, 400),
        ],
    )
    def test_limits_of_a_document(self, documents, change, status):
        def write():
            documents.documents.upsert(namespace=SPACE, documents=[document("b"), document() | change])

        assert write() is None if status == 202 else refused(write) == status
        held = [row.id for row in documents.documents.list(namespace=SPACE)]
        assert held == (["a", "b"] if status == 202 else [])

    def test_limits_of_a_request(self, documents):
        many = [document(f"r{n}", text="y" * 30_000) for n in range(80)]
        assert refused(lambda: documents.documents.upsert(namespace=SPACE, documents=many)) == 413
        filters = (
            {"n": {"$gt": "text"}},
            {"n": {"$near": 1}},
            {"$and": []},
            {"n": {"$in": []}},
            {"n": {"$in": [True]}},
        )
        for bad in filters:
            call = {"namespace": SPACE, "score_by": by_dense(1, 0, 0), "top_k": 1, "filter": bad}
            assert refused(lambda call=call: documents.documents.search(**call)) == 400


class TestVectors:
    def test_write_and_read(self, vectors):
        row = vector("a", n=1) | {"sparse_values": {"indices": [7], "values": [0.5]}}
        reply = vectors.upsert(vectors=[row, vector("b", (0, 1, 0))], namespace=SPACE)
        assert (reply.upserted_count, reply.response_info.lsn_committed) == (2, 1)
        found = vectors.query(vector=[1, 0, 0], top_k=2, namespace=SPACE, include_metadata=True, include_values=True)
        assert [(m.id, m.score, m.metadata) for m in found.matches] == [("a", 1.0, {"n": 1.0}), ("b", 0.0, None)]
        assert (found.matches[0].sparse_values.indices, found.matches[1].values) == ([7], [0.0, 1.0, 0.0])
        sparse = {"indices": [7], "values": [2.0]}
        both = vectors.query(vector=[0, 1, 0], sparse_vector=sparse, top_k=2, namespace=SPACE)
        assert [(m.id, m.score) for m in both.matches] in ([("a", 1.0), ("b", 1.0)], [("b", 1.0), ("a", 1.0)])
        assert [m.id for m in vectors.query(sparse_vector=sparse, top_k=2, namespace=SPACE).matches] == ["a"]
        assert [m.id for m in vectors.query(id="b", top_k=1, namespace=SPACE).matches] == ["b"]
        assert vectors.fetch(ids=["a", "gone"], namespace=SPACE).vectors.keys() == {"a"}
        assert vectors.describe_index_stats().namespaces[SPACE].vector_count == 2

    def test_update_delete_and_list(self, vectors):
        names = [f"r{n:03}" for n in range(150)]
        vectors.upsert(vectors=[vector(name, n=1) for name in names])  # the default namespace
        assert [row.id for page in vectors.list() for row in page.vectors] == names
        vectors.update(id="r000", set_metadata={"n": 5})
        vectors.update(id="nobody", set_metadata={"n": 5})
        assert vectors.query(vector=[1, 0, 0], top_k=9, filter={"n": 5}).matches[0].id == "r000"
        vectors.delete(ids=names[1:])
        assert vectors.describe_index_stats().namespaces["__default__"].vector_count == 1
        vectors.delete(delete_all=True)
        assert vectors.query(vector=[1, 0, 0], top_k=9).matches == []
        assert refused(lambda: vectors.delete(ids=["a"], namespace="never-written")) == 404
        assert vectors.fetch(ids=["a"], namespace="never-written").vectors == {}

    def test_limits(self, vectors):
        many = [vector(f"r{n}") for n in range(1001)]
        assert refused(lambda: vectors.upsert(vectors=many)) == 400
        assert refused(lambda: vectors.upsert(vectors=[vector("x" * 513)])) == 400
        assert refused(lambda: vectors.upsert(vectors=[vector(values=(1, 0))])) == 400
        assert refused(lambda: vectors.upsert(vectors=[vector(values=(0, 0, 0))])) == 400
        assert refused(lambda: vectors.fetch(ids=[f"r{n}" for n in range(1001)])) == 400
        assert refused(lambda: vectors.fetch(ids=["x" * 500] * 50)) == 414
        assert refused(lambda: vectors.delete(ids=[f"r{n}" for n in range(1001)])) == 400

    def test_a_query_of_zeros_answers(self, vectors):
        """Readers use one to sample a namespace's fields."""
        vectors.upsert(vectors=[vector("a", n=1), vector("b", (0, 1, 0))], namespace=SPACE)
        found = vectors.query(vector=[0.0] * 3, top_k=5, namespace=SPACE, include_metadata=True)
        assert sorted((m.id, m.score) for m in found.matches) == [("a", 0.0), ("b", 0.0)]

    def test_the_documents_api_is_refused(self, vectors):
        assert refused(lambda: vectors.documents.fetch(namespace=SPACE, ids=["a"])) == 400

    def test_a_second_of_updates(self, server, vectors):
        vectors.upsert(vectors=[vector("a")])
        server.behaviour.updates_per_s = 2
        server.faults.clear()
        began = time.monotonic()
        for _ in range(3):
            vectors.update(id="a", set_metadata={"n": 1})  # the third is refused, and tried again
        assert time.monotonic() - began > 0.9


class TestFilters:
    @pytest.mark.parametrize(
        ("wanted", "expected"),
        [
            ({"n": 1}, "a"),
            ({"n": {"$ne": 1}}, "b"),
            ({"n": {"$gt": 1, "$lte": 2}}, "b"),
            ({"t": "x"}, "ac"),
            ({"t": {"$ne": "x"}}, "b"),
            ({"t": {"$in": ["y", "z"]}}, "bc"),
            ({"t": {"$nin": ["y"]}}, "a"),
            ({"yes": True}, "c"),
            ({"yes": 1}, ""),
            ({"n": {"$exists": False}}, "c"),
            ({"$or": [{"n": 2}, {"yes": True}]}, "bc"),
            ({"$and": [{"t": "x"}, {"n": {"$exists": True}}]}, "a"),
        ],
    )
    def test_operators(self, vectors, wanted, expected):
        rows = [vector("a", n=1, t="x"), vector("b", n=2, t=["y"]), vector("c", t=["x", "y"], yes=True)]
        vectors.upsert(vectors=rows)
        assert sorted(m.id for m in vectors.query(vector=[1, 0, 0], top_k=9, filter=wanted).matches) == list(expected)

    def test_negation_is_for_documents(self, server, documents):
        documents.documents.upsert(namespace=SPACE, documents=[document("a", n=1), document("b", n=2), document("c")])
        call = {"namespace": SPACE, "score_by": by_dense(1, 0, 0), "top_k": 9}
        found = documents.documents.search(**call, filter={"$not": {"n": 1}})
        assert sorted(m.id for m in found.matches) == ["b", "c"]
        for loose, expected in ((False, ["b"]), (True, ["b", "c"])):
            server.behaviour.missing_is_unequal = loose
            found = documents.documents.search(**call, filter={"n": {"$ne": 1}})
            assert sorted(m.id for m in found.matches) == expected


class TestTextSearch:
    """Indexes that embed text themselves, as the readers of published pairs ask them."""

    @pytest.fixture(params=["multilingual-e5-large", "pinecone-sparse-english-v0"])
    def index(self, client, request):
        embed = {"model": request.param, "field_map": {"text": "chunk_text"}}
        client.indexes.create_for_model(name="pair", cloud="aws", region="us-east-1", embed=embed)
        with client.index(name="pair") as index:
            texts = {"a": "the cat sat on the mat", "b": "quarterly tax return form", "c": "a cat and a dog"}
            records = [{"_id": id_, "chunk_text": text, "start_index": 0} for id_, text in texts.items()]
            index.upsert_records(namespace="mailing", records=records)
            yield index

    def test_search_by_text(self, index):
        query = {"top_k": 2, "inputs": {"text": "where is the cat"}}
        hits = index.search(namespace="mailing", query=query, fields=["chunk_text"]).result.hits
        assert hits[0].id == "a"
        assert hits[0].fields == {"chunk_text": "the cat sat on the mat"}
        assert hits[0].score > hits[1].score > 0
        query["filter"] = {"start_index": {"$gt": 0}}
        assert index.search(namespace="mailing", query=query).result.hits == []

    def test_search_and_rerank(self, index):
        rerank = {"model": "bge-reranker-v2-m3", "rank_fields": ["chunk_text"], "top_n": 1}
        found = index.search(namespace="mailing", query={"top_k": 3, "inputs": {"text": "dog and cat"}}, rerank=rerank)
        assert [hit.id for hit in found.result.hits] == ["c"]

    def test_ninety_six_records(self, index):
        records = [{"_id": f"r{n}", "chunk_text": "x"} for n in range(97)]
        assert refused(lambda: index.upsert_records(namespace="mailing", records=records)) == 400
        assert refused(lambda: index.upsert_records(namespace="mailing", records=[{"_id": "r", "text": "x"}])) == 400


class TestModels:
    def test_embed(self, client):
        texts = ["the cat sat", "the cat ran", "tax return"]
        found = client.inference.embed("multilingual-e5-large", texts, {"input_type": "passage"})
        near, far = (sum(a * b for a, b in zip(found[0].values, found[at].values, strict=True)) for at in (1, 2))
        assert near > far
        again = client.inference.embed("multilingual-e5-large", texts[:1], {"input_type": "passage"})
        assert again[0].values == found[0].values
        other = client.inference.embed("multilingual-e5-large", texts[:1], {"input_type": "query"})
        assert other[0].values != found[0].values
        assert found.usage.total_tokens == sum(len(tokens(text)) + 2 for text in texts)

    def test_embed_limits(self, client):
        embed = client.inference.embed
        assert refused(lambda: embed("multilingual-e5-large", ["x"] * 97, {"input_type": "passage"})) == 400
        assert refused(lambda: embed("multilingual-e5-large", ["x"])) == 400
        assert refused(lambda: embed("no-such-model", ["x"], {"input_type": "passage"})) == 404
        long = {"input_type": "passage", "truncate": "NONE"}
        assert refused(lambda: embed("multilingual-e5-large", ["word " * 600], long)) == 400
        assert len(embed("multilingual-e5-large", ["word " * 600], {"input_type": "passage"})) == 1

    def test_rerank(self, client):
        found = client.inference.rerank("bge-reranker-v2-m3", "big cat", ["tax", "a cat", "a big cat"], top_n=2)
        assert [row.index for row in found.data] == [2, 1]
        assert 0 < found.data[1].score < found.data[0].score < 1
        assert refused(lambda: client.inference.rerank("bge-reranker-v2-m3", "q", ["x"] * 101)) == 400

    def test_catalogue(self, client):
        assert "multilingual-e5-large" in client.inference.list_models().names()
        assert client.inference.model.get("multilingual-e5-large").default_dimension == 1024


class TestLag:
    def test_writes_are_seen_later_and_searches_say_how_far(self, server, documents):
        server.behaviour.lag_s = 600
        written = documents.documents.upsert(namespace=SPACE, documents=[document()]).response_info.lsn_committed
        call = {"namespace": SPACE, "score_by": by_dense(1, 0, 0), "top_k": 1}
        found = documents.documents.search(**call)
        assert (found.matches, found.response_info.is_reconciled(written)) == ([], False)
        assert documents.documents.fetch(namespace=SPACE, ids=["a"]).documents == {}
        assert list(documents.documents.list(namespace=SPACE)) == []
        server.release()
        found = documents.documents.search(**call)
        assert (len(found.matches), found.response_info.is_reconciled(written)) == (1, True)
        assert documents.documents.fetch(namespace=SPACE, ids=["a"]).response_info.lsn_reconciled is None

    def test_out_of_order_the_newest_wins(self, server, documents):
        """Ids become visible one by one, in any order; a position counts only once everything up to it is seen."""
        server.behaviour.lag_s, server.behaviour.out_of_order = 0.4, True
        names = [f"r{n:02}" for n in range(40)]
        documents.documents.upsert(namespace=SPACE, documents=[document(name, n=1) for name in names])
        documents.documents.update(namespace=SPACE, documents=[{"_id": name, "n": 2} for name in names])
        documents.documents.delete(namespace=SPACE, ids=names[:20])
        partly, until = set(), time.monotonic() + 5
        call = {"namespace": SPACE, "score_by": by_dense(1, 0, 0), "top_k": 99, "include_fields": ["n"]}
        while True:
            found = documents.documents.search(**call)
            partly.add(len(found.matches))
            if found.response_info.is_reconciled(3):
                break
            assert time.monotonic() < until
        assert len(partly) > 2
        assert {match.id: match.get("n") for match in found.matches} == dict.fromkeys(names[20:], 2.0)

    def test_positions_may_be_left_out(self, server, vectors):
        server.behaviour.sparse_lsn = False
        row = vector() | {"sparse_values": {"indices": [7], "values": [0.5]}}
        assert vectors.upsert(vectors=[row]).response_info.lsn_committed == 1
        assert vectors.query(vector=[1, 0, 0], top_k=1).response_info.lsn_reconciled == 1
        sparse = {"indices": [7], "values": [0.5]}
        assert vectors.query(sparse_vector=sparse, top_k=1).response_info.lsn_reconciled is None
        server.behaviour.lsn = False
        assert vectors.upsert(vectors=[row]).response_info.lsn_committed is None
        assert vectors.query(vector=[1, 0, 0], top_k=1).response_info.lsn_reconciled is None


@pytest.mark.usefixtures("no_waits")
class TestFaults:
    @pytest.mark.parametrize("kind", ["reset_before", "reset_after", "half_body", "status"])
    def test_the_client_tries_again(self, server, documents, kind):
        """Which of them took effect before they failed stands in the journal."""
        server.faults.add(Fault(kind, 503, path="documents/upsert"))
        if kind == "half_body":  # the client reads bodies where it no longer tries again
            with pytest.raises(pinecone.PineconeConnectionError):
                documents.documents.upsert(namespace=SPACE, documents=[document()])
        else:
            assert documents.documents.upsert(namespace=SPACE, documents=[document()]).upserted_count == 1
        writes = [write for write in server.journal if write.event == "accepted"]
        assert len(writes) == (2 if kind == "reset_after" else 1)
        assert server.faults.injected == 1

    def test_statuses_and_what_they_ask(self, server, documents):
        server.faults.add(Fault("status", 429, retry_after="7", message="slow down", times=-1))
        with pytest.raises(pinecone.RateLimitError) as caught:
            documents.documents.fetch(namespace=SPACE, ids=["a"])
        assert (caught.value.retry_after, caught.value.message) == (7.0, "slow down")
        assert server.faults.injected == 4

    @pytest.mark.parametrize("kind", ["garbage", "empty", "slow_body", "hang"])
    def test_replies_that_are_none(self, server, documents, kind):
        server.faults.add(Fault(kind, times=-1))
        with pytest.raises(pinecone.PineconeError):
            documents.documents.search(namespace=SPACE, score_by=by_dense(1, 0, 0), top_k=1, timeout=0.04)

    def test_rules_count(self, server, vectors):
        server.faults.add(Fault("status", 400, path="query", skip=1, times=2))
        statuses = []
        for _ in range(4):
            try:
                vectors.query(vector=[1, 0, 0], top_k=1)
                statuses.append(200)
            except pinecone.ApiError as error:
                statuses.append(error.status_code)
        assert statuses == [200, 400, 400, 200]

    def test_chance_follows_its_seed(self, server, vectors):
        def run():
            server.faults.clear()
            server.faults.by_chance(0.5, Fault("status", 400), seed=11)
            failed = []
            for _ in range(20):
                try:
                    vectors.query(vector=[1, 0, 0], top_k=1)
                    failed.append(False)
                except pinecone.ApiError:
                    failed.append(True)
            return failed

        first = run()
        assert first == run()
        assert 4 < sum(first) < 16

    def test_a_kind_that_there_is_not(self):
        with pytest.raises(ValueError, match="a fault is one of"):
            Fault("explode")


class TestJournal:
    def test_writes_as_they_came_and_as_they_were_seen(self, server, documents):
        server.behaviour.lag_s = 600
        documents.documents.upsert(namespace=SPACE, documents=[document("a", n=1), document("b")])
        documents.documents.delete(namespace=SPACE, ids=["a"])
        assert [(write.event, write.call, write.lsn) for write in server.journal] == [
            ("accepted", "documents.upsert", 1),
            ("accepted", "documents.delete", 2),
        ]
        assert server.journal[0].after == {"a": {"n": 1.0}, "b": {}}
        server.release()
        applied = [(write.lsn, write.after) for write in server.journal if write.event == "applied"]
        assert applied == [(1, {"a": {"n": 1.0}}), (1, {"b": {}}), (2, {"a": None})]
        assert [write.seq for write in server.journal] == list(range(5))

    def test_positions_rise_under_many_writers(self, server, vectors):
        def write(number):
            for at in range(10):
                vectors.upsert(vectors=[vector(f"{number}.{at}")], namespace=SPACE)

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [write.lsn for write in server.journal if write.event == "accepted"] == list(range(1, 41))
        assert vectors.describe_index_stats().total_vector_count == 40


def post(url, body=None):
    with urlopen(Request(url, json.dumps(body or {}).encode(), method="POST")) as reply:
        return json.load(reply)


def test_as_a_process_of_its_own():
    """Started on a port, told how to behave, read and reset over the network."""
    command = [sys.executable, "-m", "pinecone_emulator", "--key", "k", "--lag", "9", "--address", "127.0.0.77"]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            post(f"{url}/_behaviour", {"lag_s": 0.0})
            with pinecone.Pinecone(api_key="k", host=url) as client:
                client.indexes.create(name="d", schema={"fields": NAMED}, timeout=-1)
                with client.index(host=url) as index:  # the bare host, since there is one index
                    post(f"{url}/_faults", [{"kind": "status", "status": 400, "path": "upsert"}])
                    assert refused(lambda: index.documents.upsert(namespace=SPACE, documents=[document()])) == 400
                    index.documents.upsert(namespace=SPACE, documents=[document()])
                with urlopen(f"{url}/_journal") as reply:
                    assert [line["event"] for line in json.load(reply)] == ["accepted", "applied"]
                post(f"{url}/_reset")
                assert list(client.indexes.list()) == []
        finally:
            process.terminate()


def test_each_server_has_an_address_of_its_own():
    """The client's budget of repeats goes by host, whatever the port: one test must not use up another's."""
    with PineconeEmulator() as one, PineconeEmulator(Behaviour(lag_s=1)) as other:
        hosts = {server.url.split(":")[1] for server in (one, other)}
        assert len(hosts) == 2
        assert all(host.startswith("//127.") for host in hosts)
