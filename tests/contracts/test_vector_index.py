"""The contract of port `VectorIndex`, for every adapter, and the agreement of the local index with the one in memory."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from pipeline.adapters import index_local_search
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.adapters.index_memory import MemoryIndex
from pipeline.errors import Corruption, RejectedInput, Unavailable
from pipeline.filters import parse_filter
from pipeline.queries import DenseQuery, Search, SparseQuery
from pipeline.types import OPEN, Hit, Namespace, RecordBatch, RecordId, SparseVectors

SPACE = Namespace("ctx.g1.chunks")
DIM = 8


def batch(*rows, added=1, namespace=SPACE, dim=DIM):
    """Rows of (id, dense, {term: weight}, metadata)."""
    terms = [sorted(row[2].items()) for row in rows]
    dense = np.zeros((len(rows), dim), np.float32)
    for position, row in enumerate(rows):
        dense[position, : len(row[1])] = row[1]
    return RecordBatch(
        namespace=namespace,
        added=added,
        ids=tuple(RecordId(row[0]) for row in rows),
        dense=dense,
        sparse=SparseVectors(
            indptr=np.cumsum([0, *map(len, terms)], dtype=np.int64),
            indices=np.array([term for row in terms for term, _ in row], np.uint32),
            values=np.array([value for row in terms for _, value in row], np.float32),
        ),
        metadata=tuple(row[3] for row in rows),
    )


def dense(*vector, k=10, version=1, **options):
    full = np.zeros(DIM, np.float32)
    full[: len(vector)] = vector
    return Search(DenseQuery(full), k, version, **options)


def sparse(weights, *, k=10, version=1, **options):
    return Search(SparseQuery(weights), k, version, **options)


def ids(hits):
    return [hit.id for hit in hits]


THREE = (
    (
        "a",
        [1, 0],
        {5: 0.5, 4294967295: 0.25},
        {"source_path": "docs/a.md", "text": "alpha", "n": 1, "tags": ("x", "y")},
    ),
    ("b", [0, 1], {5: 0.75}, {"source_path": "docs/sub/b.md", "text": "beta", "n": 2, "f": 0.5, "yes": True}),
    ("c", [0.6, 0.8], {}, {"source_path": "docs2/c.md", "text": "", "n": 3}),
)


class VectorIndexContract:
    def make(self, folder):
        raise NotImplementedError

    @pytest.fixture
    def index(self, tmp_path):
        index = self.make(tmp_path)
        yield index
        index.close()
        index.close()

    def test_empty(self, index):
        """A namespace that was never written is empty, and nothing done to it fails."""
        assert index.search(SPACE, dense(1)) == ()
        assert index.search(SPACE, sparse({1: 1.0})) == ()
        assert list(index.scan(SPACE)) == []
        stored = index.fetch(SPACE, [RecordId("a")], vectors=True, metadata=True)
        assert (stored.ids, stored.dense.shape[0], len(stored.sparse)) == ((), 0, 0)
        index.stamp(SPACE, [RecordId("a")], 2)
        index.delete(SPACE, [RecordId("a")])
        index.drop(SPACE)
        index.upsert(batch())
        assert list(index.scan(SPACE)) == []

    def test_fetch_gives_back_what_was_written_in_the_order_asked(self, index):
        index.upsert(batch(*THREE, added=3))
        stored = index.fetch(SPACE, [RecordId(x) for x in ("c", "gone", "a", "b")], vectors=True, metadata=True)
        assert stored.ids == ("c", "a", "b")
        assert stored.added == (3, 3, 3)
        assert stored.removed == (OPEN, OPEN, OPEN)
        assert stored.metadata == (THREE[2][3], THREE[0][3], THREE[1][3])
        kinds = {name: type(value) for name, value in stored.metadata[2].items()}
        assert kinds == {"source_path": str, "text": str, "n": int, "f": float, "yes": bool}
        assert stored.dense.dtype == np.float32
        assert stored.dense.tolist() == batch(THREE[2], THREE[0], THREE[1]).dense.tolist()
        assert stored.sparse.indptr.tolist() == [0, 0, 2, 3]
        assert stored.sparse.indices.tolist() == [5, 4294967295, 5]
        assert stored.sparse.values.tolist() == [0.5, 0.25, 0.75]

    def test_fetch_leaves_out_what_was_not_asked_for(self, index):
        index.upsert(batch(*THREE))
        stored = index.fetch(SPACE, [RecordId("a"), RecordId("b")], vectors=False, metadata=False)
        assert stored.dense.shape == (2, 0)
        assert (len(stored.sparse), stored.sparse.indptr.tolist()) == (2, [0, 0, 0])
        assert stored.metadata == ({}, {})

    def test_upsert_only_creates(self, index):
        """An id that exists keeps what it has, its stamp included; repeats in a batch count once; new ones are added."""
        index.upsert(batch(THREE[0]))
        index.stamp(SPACE, [RecordId("a")], 4)
        other = ("a", [0, 0, 1], {9: 1.0}, {"text": "other"})
        index.upsert(batch(other, THREE[1], THREE[1], added=2))
        index.upsert(batch(other, added=2))
        stored = index.fetch(SPACE, [RecordId("a")], vectors=True, metadata=True)
        assert (stored.added, stored.removed, stored.metadata[0]["text"]) == ((1,), (4,), "alpha")
        assert list(index.scan(SPACE)) == [("a", 1, 4), ("b", 2, OPEN)]
        assert ids(index.search(SPACE, sparse({9: 1.0}, version=2))) == []

    def test_stamp_and_delete_may_be_repeated(self, index):
        index.upsert(batch(*THREE))
        for _ in range(2):
            index.stamp(SPACE, [RecordId("b"), RecordId("gone")], 7)
            index.delete(SPACE, [RecordId("a"), RecordId("gone")])
        assert list(index.scan(SPACE)) == [("b", 1, 7), ("c", 1, OPEN)]
        assert ids(index.search(SPACE, dense(1, version=6))) == ["c", "b"]

    def test_a_deleted_id_may_be_created_again(self, index):
        index.upsert(batch(*THREE))
        index.delete(SPACE, [RecordId("a")])
        index.upsert(batch(("a", [0, 0, 1], {}, {"text": "again"}), added=2))
        stored = index.fetch(SPACE, [RecordId("a")], vectors=True, metadata=True)
        assert (stored.added, stored.metadata[0]["text"], stored.dense[0].tolist()[:3]) == ((2,), "again", [0, 0, 1])

    def test_dense_search(self, index):
        """Nearest first, ties by id, k of them."""
        index.upsert(batch(*THREE, ("aa", [1, 0], {}, {}), ("zero", [], {}, {})))
        hits = index.search(SPACE, dense(1, 0))
        assert ids(hits) == ["a", "aa", "c", "b", "zero"]
        assert [hit.score for hit in hits] == pytest.approx([1, 1, 0.6, 0, 0])
        assert ids(index.search(SPACE, dense(1, 0, k=1))) == ["a"]
        assert ids(index.search(SPACE, dense(1, 0, k=4))) == ["a", "aa", "c", "b"]
        assert index.search(SPACE, dense(1, 0, k=0)) == ()

    def test_sparse_search(self, index):
        """Only records that share a term; unsigned 32-bit terms; unknown terms are no error."""
        index.upsert(batch(*THREE))
        assert index.search(SPACE, sparse({5: 2.0, 7: 1.0})) == (Hit(RecordId("b"), 1.5), Hit(RecordId("a"), 1.0))
        assert ids(index.search(SPACE, sparse({4294967295: 1.0, 0: 1.0}))) == ["a"]
        assert index.search(SPACE, sparse({})) == ()
        assert index.search(SPACE, sparse({6: 1.0})) == ()

    def test_versions(self, index):
        """`added <= version < removed`, for both retrievers."""
        index.upsert(batch(THREE[0], added=2))
        index.upsert(batch(THREE[1], added=4))
        index.stamp(SPACE, [RecordId("a")], 5)
        seen = {v: set(ids(index.search(SPACE, dense(1, version=v)))) for v in range(7)}
        assert seen == {0: set(), 1: set(), 2: {"a"}, 3: {"a"}, 4: {"a", "b"}, 5: {"b"}, 6: {"b"}}
        assert seen == {v: set(ids(index.search(SPACE, sparse({5: 1.0}, version=v)))) for v in range(7)}

    def test_scope_and_filter_hold_inside_the_search(self, index):
        index.upsert(batch(*THREE))
        assert ids(index.search(SPACE, dense(1, scope=("docs",)))) == ["a", "b"]
        assert ids(index.search(SPACE, dense(1, scope=("docs/sub", "docs2/")))) == ["c", "b"]
        assert ids(index.search(SPACE, dense(1, k=1, filter=parse_filter({"n": {"$gt": 1}})))) == ["c"]
        assert ids(index.search(SPACE, dense(1, filter=parse_filter({"tags": "y"})))) == ["a"]
        assert ids(index.search(SPACE, dense(1, filter=parse_filter({"text": "beta"})))) == ["b"]
        assert ids(index.search(SPACE, sparse({5: 1.0}, filter=parse_filter({"n": 1}), scope=("docs2",)))) == []
        assert ids(index.search(SPACE, sparse({5: 1.0}, scope=("docs",), k=1))) == ["b"]

    def test_k_come_back_whenever_k_exist(self, index):
        """A filter that the best thousand fail still finds the worst few."""
        rows = [(f"r{i:04}", [1 - i / 4000], {1: 1 - i / 4000}, {"rare": i >= 1500}) for i in range(1505)]
        index.upsert(batch(*rows))
        rare = parse_filter({"rare": True})
        expected = [f"r{i}" for i in range(1500, 1504)]
        assert ids(index.search(SPACE, dense(1, k=4, filter=rare))) == expected
        assert ids(index.search(SPACE, sparse({1: 1.0}, k=4, filter=rare))) == expected

    def test_many_ties_are_cut_by_id(self, index):
        rows = [(f"r{i:04}", [0, 1], {1: 0.5}, {"even": i % 2 == 0}) for i in random.Random(1).sample(range(900), 900)]
        for at in range(0, 900, 300):
            index.upsert(batch(*rows[at : at + 300]))
        assert ids(index.search(SPACE, dense(0, 1, k=3))) == ["r0000", "r0001", "r0002"]
        assert ids(index.search(SPACE, sparse({1: 1.0}, k=3))) == ["r0000", "r0001", "r0002"]
        even = parse_filter({"even": True})
        assert ids(index.search(SPACE, dense(0, 1, k=3, filter=even))) == ["r0000", "r0002", "r0004"]

    def test_namespaces_are_apart(self, index):
        other = Namespace("ctx.g2.chunks")
        index.upsert(batch(*THREE))
        index.upsert(batch(("a", [1], {5: 1.0}, {}), namespace=other, dim=3))
        index.delete(other, [RecordId("b")])
        index.drop(other)
        index.drop(other)
        assert list(index.scan(other)) == []
        assert len(list(index.scan(SPACE))) == 3
        index.upsert(batch(("a", [1], {}, {}), namespace=other, dim=4))
        assert list(index.scan(other)) == [("a", 1, OPEN)]

    def test_another_dimension_is_refused(self, index):
        index.upsert(batch(*THREE))
        for call in (
            lambda: index.upsert(batch(("d", [1], {}, {}), dim=3)),
            lambda: index.search(SPACE, Search(DenseQuery(np.ones(3, np.float32)), 1, 1)),
        ):
            with pytest.raises(RejectedInput) as caught:
                call()
            assert caught.value.code == "dimension_mismatch"
        assert len(list(index.scan(SPACE))) == 3

    def test_scan_is_in_order_across_pages(self, index):
        names = [f"{i * 7919 % 2503:05}#é" for i in range(2503)]
        for at in range(0, 2503, 500):
            index.upsert(batch(*((name, [1], {}, {}) for name in names[at : at + 500])))
        assert [record for record, _, _ in index.scan(SPACE)] == sorted(names)

    def test_threads_may_share_it(self, index):
        """Concurrent writers of the same and of other ids, and readers, leave exactly the union."""
        failures = []

        def work(number):
            try:
                for at in range(0, 60, 10):
                    index.upsert(batch(*((f"t{(at + i + number * 10) % 60:02}", [1], {1: 1.0}, {}) for i in range(10))))
                    hits = index.search(SPACE, dense(1, k=100))
                    assert ids(hits) == sorted(set(ids(hits)))
            except Exception as error:  # noqa: BLE001 - a thread's failure must reach the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert ids(index.search(SPACE, dense(1, k=100))) == [f"t{i:02}" for i in range(60)]

    def test_the_trace_says_what_a_search_could_see(self, index):
        """Records let through, and fields of the filter that none of them has."""
        index.upsert(batch(*THREE))
        for query in (dense(1), sparse({5: 1.0})):
            assert index.explain(SPACE, query)[0] == index.search(SPACE, query)
            assert index.explain(SPACE, query)[1].records == 3
        _, trace = index.explain(SPACE, dense(1, filter=parse_filter({"n": {"$gte": 2}, "nobody": {"$exists": False}})))
        assert (trace.records, trace.unknown_fields) == (2, ("nobody",))
        _, trace = index.explain(SPACE, dense(1, scope=("docs2",), filter=parse_filter({"n": {"$lt": 3}})))
        assert (trace.records, trace.unknown_fields) == (0, ())
        assert index.explain(Namespace("none.g1.chunks"), dense(1))[1].records == 0

    def test_optimize_changes_no_answer(self, index):
        index.upsert(batch(*THREE))
        before = index.search(SPACE, dense(0.9, 0.1))
        assert index.optimize(SPACE, report=lambda _done, _total: None, stop=lambda: False) >= 0
        assert index.search(SPACE, dense(0.9, 0.1)) == before
        assert all(graph.usable for graph in index.graphs(SPACE))


class TestMemoryIndex(VectorIndexContract):
    def make(self, _folder):
        return MemoryIndex()


class TestLocalIndex(VectorIndexContract):
    def make(self, folder):
        return LocalIndex(folder / "index.db")

    def test_survives_reopening(self, tmp_path):
        first = self.make(tmp_path)
        first.upsert(batch(*THREE))
        first.close()
        second = self.make(tmp_path)
        assert ids(second.search(SPACE, dense(1))) == ["a", "c", "b"]
        second.close()

    def test_a_foreign_file_is_corruption(self, tmp_path):
        (tmp_path / "index.db").write_bytes(b"not a database, but long enough to look like one" * 400)
        with pytest.raises(Corruption):
            self.make(tmp_path)

    def test_a_busy_file_is_unavailable(self, tmp_path):
        """A writer waits for its deadline, then says so; readers don't wait at all."""
        index = LocalIndex(tmp_path / "index.db", busy_timeout_ms=1)
        index.upsert(batch(THREE[0]))
        with index._transaction(write=True):
            with pytest.raises(Unavailable) as caught:
                index.upsert(batch(THREE[1]))
            assert caught.value.code == "index_busy"
            assert ids(index.search(SPACE, dense(1))) == ["a"]
        index.upsert(batch(THREE[1]))
        index.close()

    def test_a_missing_folder_is_unavailable(self, tmp_path):
        with pytest.raises(Unavailable):
            LocalIndex(tmp_path / "gone" / "index.db")

    def test_a_failed_call_leaves_nothing(self, tmp_path):
        """Each call is one transaction: metadata that can't be written undoes the vectors before it."""
        index = self.make(tmp_path)
        with pytest.raises(ValueError, match="surrogates"):
            index.upsert(batch(THREE[0], ("b", [1], {}, {"text": "\ud800"})))
        assert list(index.scan(SPACE)) == []
        assert index.search(SPACE, dense(1)) == ()
        index.close()

    def test_small_segments_are_merged_and_holes_are_closed(self, tmp_path):
        """The number of segments follows the number of records, not of calls."""
        index = LocalIndex(tmp_path / "index.db", segment_rows=64)
        for i in range(200):
            index.upsert(batch((f"r{i:03}", [1], {i: 1.0}, {"n": i}), added=i + 1))

        def segments():
            with index._transaction(write=False) as db:
                return db.execute("SELECT count(*), sum(rows) FROM segment").fetchone()

        count, rows = segments()
        assert rows == 200
        assert count <= 16 + 200 // 32
        assert ids(index.search(SPACE, dense(1, k=300, version=150))) == [f"r{i:03}" for i in range(150)]
        assert ids(index.search(SPACE, sparse({77: 1.0}, version=200))) == ["r077"]
        index.delete(SPACE, [RecordId(f"r{i:03}") for i in range(180)])
        assert segments()[1] <= 2 * 20
        assert list(index.scan(SPACE)) == [(f"r{i:03}", i + 1, OPEN) for i in range(180, 200)]
        stored = index.fetch(SPACE, [RecordId("r199"), RecordId("r180")], vectors=True, metadata=True)
        assert stored.sparse.indices.tolist() == [199, 180]
        index.delete(SPACE, [RecordId(f"r{i:03}") for i in range(180, 200)])
        assert segments() == (0, None)
        index.close()


class _Optimizing(LocalIndex):
    """The local index with a graph over everything after each write."""

    def upsert(self, batch):
        super().upsert(batch)
        self.optimize(batch.namespace, report=lambda _done, _total: None, stop=lambda: False)


class TestLocalIndexWithGraphs(VectorIndexContract):
    def make(self, folder):
        return _Optimizing(folder / "index.db", segment_rows=2, graphs=GraphSettings(min_records=1, threads=1))

    def test_many_ties_are_cut_by_id(self, index):
        """A graph returns any of many equal records; which of them isn't known, but that they are equal is."""
        index.upsert(batch(*((f"r{i:04}", [0, 1], {}, {"even": i % 2 == 0}) for i in range(900))))
        hits = index.search(SPACE, dense(0, 1, k=3, filter=parse_filter({"even": True})))
        assert [hit.score for hit in hits] == [1, 1, 1]
        assert ids(hits) == sorted(ids(hits))
        assert all(int(hit.id[1:]) % 2 == 0 for hit in hits)

    @pytest.fixture(autouse=True)
    def _prefer_graphs(self, monkeypatch):
        """Scoring one by one looks dear, so that graphs answer though there are few records."""
        monkeypatch.setattr(index_local_search, "reading_cost", lambda _slots, _rows: 1e12)


@pytest.mark.parametrize("seed", range(4))
def test_local_and_memory_agree(tmp_path, seed):
    """The same seeded writes, then the same seeded queries: same ids, same scores, to the last bit."""
    draw = random.Random(seed)
    indexes = (MemoryIndex(), LocalIndex(tmp_path / "index.db", segment_rows=draw.choice([3, 17, 64])))
    folders = ["docs", "docs/sub", "docs2", "notes"]
    made = 0
    for version in range(1, 7):
        rows = []
        for _ in range(draw.randrange(1, 60)):
            vector = [draw.choice([0, 0.25, 0.5, draw.random()]) for _ in range(DIM)]
            terms = {draw.randrange(40): draw.choice([0.5, draw.random() + 0.01]) for _ in range(draw.randrange(8))}
            metadata = {
                "source_path": f"{draw.choice(folders)}/{made % 5}.md",
                "n": draw.randrange(5),
                "text": "t" * (made % 3),
            }
            if draw.random() < 0.5:
                metadata["tags"] = tuple(draw.sample("xyz", draw.randrange(3)))
            rows.append((f"r{draw.randrange(10**6)}.{made}", vector, terms, metadata))
            made += 1
        known = [RecordId(record) for record, _, _ in indexes[0].scan(SPACE)]
        gone, stamped = draw.sample(known, len(known) // 5), draw.sample(known, len(known) // 4)
        for index in indexes:
            index.upsert(batch(*rows, added=version))
            index.stamp(SPACE, stamped, version)
            index.delete(SPACE, gone)
    assert list(indexes[0].scan(SPACE)) == list(indexes[1].scan(SPACE))
    filters = [
        None,
        {"n": {"$gte": 2}},
        {"tags": "x"},
        {"$or": [{"text": "t"}, {"n": 4}]},
        {"tags": {"$exists": False}},
    ]
    for _ in range(60):
        document = draw.choice(filters)
        options = {
            "k": draw.choice([1, 3, 10, 1000]),
            "version": draw.randrange(8),
            "scope": tuple(draw.sample(folders, draw.randrange(3))),
            "filter": parse_filter(document) if document else None,
        }
        weights = {draw.randrange(45): draw.random() + 0.1 for _ in range(4)}
        for request in (dense(*[draw.random() for _ in range(DIM)], **options), sparse(weights, **options)):
            assert indexes[0].search(SPACE, request) == indexes[1].search(SPACE, request)
    indexes[1].close()
