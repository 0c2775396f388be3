"""Graphs of the local index: built when due, never wrong, whatever happens to them and beside them."""

from __future__ import annotations

import multiprocessing
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from pipeline.adapters import index_local_build
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings, NewGraph
from pipeline.adapters.index_memory import MemoryIndex
from pipeline.filters import parse_filter
from pipeline.queries import DenseQuery, Search
from pipeline.types import Namespace, RecordBatch, RecordId, SparseVectors

SPACE = Namespace("ctx.g1.chunks")
DIM = 16
SETTINGS = GraphSettings(min_records=400, ef_search=96, threads=1)


def unit(array):
    return (array / np.linalg.norm(array, axis=-1, keepdims=True)).astype(np.float32)


def vectors(rng, count):
    """Points around twenty centres, as texts on some subjects are."""
    centres = np.random.default_rng(1).normal(size=(20, DIM))
    return unit(centres[rng.integers(0, 20, count)] + 0.5 * rng.normal(size=(count, DIM)))


def records(rng, first, count, added=1):
    numbers = range(first, first + count)
    return RecordBatch(
        SPACE,
        added,
        tuple(RecordId(f"r{i:06}") for i in numbers),
        vectors(rng, count),
        SparseVectors(np.zeros(count + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32)),
        tuple({"source_path": f"{'ab'[i % 2]}/{i % 7}.md", "n": i % 100, "text": f"t{i % 3}"} for i in numbers),
    )


def question(vector, k=10, version=1, **options):
    return Search(DenseQuery(vector), k, version, **options)


def optimize(index, report=lambda _done, _total: None, stop=lambda: False):
    return index.optimize(SPACE, report=report, stop=stop)


@pytest.fixture
def index(tmp_path):
    made = LocalIndex(tmp_path / "index.sqlite", segment_rows=128, graphs=SETTINGS)
    yield made
    made.close()


@pytest.fixture
def filled(index):
    index.upsert(records(np.random.default_rng(0), 0, 3072))
    assert optimize(index) == 3072
    return index


def files(index):
    return sorted(path.name for path in index._graph_folder.glob("*.graph"))


def agree(index, reference, requests, *, recall=0.97):
    """Hits are allowed, as many as there can be, exactly scored, and nearly all of the best."""
    found = wanted = 0
    for request in requests:
        hits, trace = index.explain(SPACE, request)
        right = reference.search(SPACE, request)
        every = {hit.id: hit.score for hit in reference.search(SPACE, question(request.query.vector, 10**6, request.version, scope=request.scope, filter=request.filter))}  # fmt: skip
        assert len(hits) == len(right)
        assert {hit.id: hit.score for hit in hits}.items() <= every.items()
        assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.id))
        assert trace.records == len(every)
        found += len({hit.id for hit in hits} & {hit.id for hit in right})
        wanted += len(right)
    assert found >= recall * wanted


def test_a_small_namespace_gets_no_graph(index):
    index.upsert(records(np.random.default_rng(0), 0, 399))
    assert optimize(index) == 0
    assert (index.graphs(SPACE), files(index)) == ((), [])
    assert optimize(LocalIndex(index._path, graphs=GraphSettings(min_records=0))) == 0
    assert index.optimize(Namespace("nothing.g1.chunks"), report=print, stop=lambda: False) == 0


def test_a_search_goes_through_the_graph(filled):
    """A tenth of the similarities that an exact search takes, the same hits, and the trace says how."""
    rng = np.random.default_rng(2)
    reference = MemoryIndex()
    reference.upsert(records(np.random.default_rng(0), 0, 3072))
    requests = [question(vector) for vector in vectors(rng, 50)]
    agree(filled, reference, requests)
    traces = [filled.explain(SPACE, request)[1] for request in requests]
    assert all((t.graphs, t.by_graph + t.exact, t.records) == (1, 3072, 3072) for t in traces)
    assert all(0 < t.distances < 1200 for t in traces)
    (graph,) = filled.graphs(SPACE)
    assert (graph.records, graph.live, graph.m, graph.ef_construction, graph.usable) == (3072, 3072, 16, 128, True)
    assert graph.recall >= 0.99
    assert graph.ef_search >= 96


def test_newer_records_are_found_before_any_graph_holds_them(filled):
    fresh = records(np.random.default_rng(5), 9000, 20, added=2)
    filled.upsert(fresh)
    for vector, id_ in zip(fresh.dense, fresh.ids, strict=True):
        assert filled.search(SPACE, question(vector, 1, 2))[0].id == id_
        assert filled.search(SPACE, question(vector, 1, 1))[0].id != id_


@pytest.mark.parametrize("condition", [{"n": {"$lt": 50}}, {"n": {"$lt": 10}}, {"n": 7}, {"text": "t1"}, {"n": -1}])
@pytest.mark.parametrize("scope", [(), ("a",), ("b/3.md",)])
def test_filters_and_scopes_hold_inside(filled, condition, scope):
    reference = MemoryIndex()
    reference.upsert(records(np.random.default_rng(0), 0, 3072))
    rng = np.random.default_rng(3)
    options = {"scope": scope, "filter": parse_filter(condition)}
    agree(filled, reference, [question(v, k, **options) for v in vectors(rng, 6) for k in (1, 10, 200)])


def test_graphs_grow_like_a_counter(index):
    """Few graphs, whatever the number of builds, and no record is linked more often than the sizes double."""
    rng = np.random.default_rng(0)
    linked = 0
    for step in range(16):
        index.upsert(records(rng, step * 512, 512, added=step + 1))
        linked += optimize(index)
        assert len(index.graphs(SPACE)) <= 5
        assert files(index) == sorted(row.file for row in rows(index))
    assert linked <= 16 * 512 * 5
    assert optimize(index) == 0


def rows(index):
    with index._transaction(write=False) as db:
        (space,) = db.execute("SELECT number FROM space").fetchone()
        return list(index_local_build.graph_rows(db, space).values())


def test_a_worn_graph_is_built_anew_without_what_was_erased(filled):
    gone = [RecordId(f"r{i:06}") for i in range(0, 3072, 2)]
    filled.delete(SPACE, gone)
    before = filled.search(SPACE, question(vectors(np.random.default_rng(4), 1)[0]))
    assert not {hit.id for hit in before} & set(gone)
    assert optimize(filled) > 1300
    (graph,) = filled.graphs(SPACE)
    assert graph.records == graph.live
    assert len(files(filled)) == 1
    with filled._transaction(write=False) as db:
        assert db.execute("SELECT sum(rows) FROM segment").fetchone()[0] <= 1536 * 1.5


def test_a_namespace_that_shrank_needs_no_graph(filled):
    filled.delete(SPACE, [RecordId(f"r{i:06}") for i in range(3022)])
    optimize(filled)
    assert filled.graphs(SPACE) == ()
    assert len(filled.search(SPACE, question(vectors(np.random.default_rng(4), 1)[0], 200))) == 50
    optimize(filled)
    assert files(filled) == []


def test_dropping_a_namespace_removes_its_files(filled):
    filled.drop(SPACE)
    assert files(filled) == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "empty", "other"])
@pytest.mark.parametrize("reopened", [True, False])
def test_a_damaged_file_is_passed_over_and_built_again(tmp_path, filled, damage, reopened):
    (name,) = files(filled)
    path = filled._graph_folder / name
    request = question(vectors(np.random.default_rng(6), 1)[0])
    right = filled.search(SPACE, request)
    index = filled
    if reopened:
        index = LocalIndex(tmp_path / "index.sqlite", segment_rows=128, graphs=SETTINGS)
    else:
        filled.close()  # forgets what it has checked
    data = bytearray(path.read_bytes())
    if damage == "flipped":
        data[len(data) // 2] ^= 4
    changed = {"cut": data[:-9], "empty": b"", "other": bytes(len(data))}.get(damage, data)
    path.unlink()
    if damage != "gone":
        path.write_bytes(changed)
    hits, trace = index.explain(SPACE, request)
    assert {hit.id for hit in hits} >= {hit.id for hit in right[:9]}
    assert (trace.graphs, trace.exact, trace.unusable) == (0, 3072, (name,))
    assert [graph.usable for graph in index.graphs(SPACE)] == [False]
    assert optimize(index) > 0
    assert index.explain(SPACE, request)[1].graphs == 1
    assert [graph.usable for graph in index.graphs(SPACE)] == [True]
    assert name not in files(index)
    index.close()


class Killed(Exception):
    """Stands for a process that ends here."""


@pytest.mark.parametrize("at", ["add", "calibrated", "half a file", "saved", "listed"])
@pytest.mark.parametrize("graph_before", [True, False])
def test_a_killed_builder_leaves_searches_right(index, monkeypatch, at, graph_before):
    rng = np.random.default_rng(0)
    reference = MemoryIndex()
    for step in range(2):
        batch = records(rng, step * 1000, 1000)
        for one in (index, reference):
            one.upsert(batch)
        if graph_before and not step:
            assert optimize(index) > 0

    def killed(*_args, **_named):
        raise Killed

    with monkeypatch.context() as patched:
        if at == "half a file":
            patched.setattr(NewGraph, "save", lambda _self, path: (path.write_bytes(b"half"), killed()))
        elif at == "saved":
            patched.setattr(index_local_build, "file_crc", killed)
        elif at == "listed":
            patched.setattr(index_local_build, "_publish", killed)
        else:
            patched.setattr(NewGraph, at, killed)
        with pytest.raises(Killed):
            optimize(index)
    requests = [question(vector) for vector in vectors(rng, 10)]
    agree(index, reference, requests)
    assert optimize(index) > 0
    agree(index, reference, requests)
    assert files(index) == sorted(row.file for row in rows(index))


def test_stopping_leaves_no_trace(index):
    index.upsert(records(np.random.default_rng(0), 0, 1000))
    asked = []
    assert optimize(index, stop=lambda: len(asked) > 3 or asked.append(1) is not None) == 0
    assert (index.graphs(SPACE), files(index)) == ((), [])


def test_one_builder_at_a_time(index):
    """The second returns at once; and progress reaches the number of records."""
    index.upsert(records(np.random.default_rng(0), 0, 1000))
    inside = []
    told = []

    def report(done, total):
        told.append((done, total))
        if not inside:
            inside.append(optimize(LocalIndex(index._path, segment_rows=128, graphs=SETTINGS)))

    built = optimize(index, report=report)
    assert inside == [0]
    assert told[-1] == (built, built)


def test_evenly_spread_vectors_get_longer_candidate_lists(tmp_path):
    """Where nothing falls into groups a graph needs more candidates; it finds out how many, and says so."""
    rng = np.random.default_rng(0)
    index = LocalIndex(
        tmp_path / "index.sqlite", segment_rows=512, graphs=GraphSettings(min_records=1000, ef_search=10)
    )
    batch = records(rng, 0, 4096)
    spread = RecordBatch(SPACE, 1, batch.ids, unit(rng.normal(size=(4096, 96))), batch.sparse, batch.metadata)
    index.upsert(spread)
    optimize(index)
    (graph,) = index.graphs(SPACE)
    assert graph.ef_search > 50
    assert graph.recall >= 0.99
    found = 0
    for vector in unit(rng.normal(size=(50, 96))):
        right = np.argsort(-(spread.dense @ vector))[:10]
        found += len({spread.ids[i] for i in right} & {hit.id for hit in index.search(SPACE, question(vector))})
    assert found >= 490  # of 500
    index.close()


@pytest.mark.parametrize("seed", range(3))
def test_any_history_agrees_with_the_reference(tmp_path, seed):
    """Seeded upserts, stamps, deletes, builds, reopenings; then questions at every version, scope and filter."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    settings = GraphSettings(min_records=300, ef_search=96, threads=1)
    index = LocalIndex(tmp_path / "index.sqlite", segment_rows=draw.choice([64, 128]), graphs=settings)
    reference = MemoryIndex()
    made = 0
    for version in range(1, 9):
        batch = records(rng, made, draw.randrange(100, 900), added=version)
        made += len(batch.ids)
        known = [record for record, _, _ in reference.scan(SPACE)]
        gone, stamped = draw.sample(known, len(known) // 8), draw.sample(known, len(known) // 6)
        for one in (index, reference):
            one.upsert(batch)
            one.stamp(SPACE, stamped, version)
            one.delete(SPACE, gone)
        if draw.random() < 0.7:
            optimize(index)
        if draw.random() < 0.3:
            index.close()
            index = LocalIndex(tmp_path / "index.sqlite", segment_rows=128, graphs=settings)
        requests = [
            question(
                vector,
                draw.choice([1, 10, 50]),
                draw.randrange(1, version + 1),
                scope=draw.choice([(), ("a",), ("b/1.md", "a/2.md")]),
                filter=draw.choice([None, parse_filter({"n": {"$gte": 90}}), parse_filter({"text": {"$ne": "t0"}})]),
            )
            for vector in vectors(rng, 12)
        ]
        agree(index, reference, requests)
    assert index.graphs(SPACE)
    assert list(index.scan(SPACE)) == list(reference.scan(SPACE))
    index.close()


def _writing(path, seed):
    """Another process: writes, erases, builds."""
    index = LocalIndex(path, segment_rows=128, graphs=SETTINGS)
    rng = np.random.default_rng(seed)
    for step in range(6):
        first = 100_000 * seed + step * 300
        index.upsert(records(rng, first, 300, added=2))
        index.delete(SPACE, [RecordId(f"r{i:06}") for i in range(first, first + 250)])
        optimize(index)
    index.close()


def test_readers_at_full_rate_see_no_builder(filled):
    """While two processes write, erase and build, every answer at version 1 is whole and exactly scored."""
    request = question(vectors(np.random.default_rng(6), 1)[0], 20)
    kept = {f"r{i:06}" for i in range(3072)}
    answers, errors = [], []
    done = threading.Event()

    def read():
        try:
            while not done.is_set():
                answers.append(filled.search(SPACE, request))
        except BaseException as error:  # noqa: BLE001  # carried to the test
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_writing, args=(filled._path, seed)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    filled.delete(SPACE, [RecordId(f"r{i:06}") for i in range(1536, 3072)])
    optimize(filled)
    done.set()
    for thread in threads:
        thread.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert not errors
    assert len(answers) > 10
    for hits in answers:
        assert len(hits) == 20
        assert {hit.id for hit in hits} <= kept
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_the_model_may_be_loaded_after_a_graph():
    """The two native libraries crash the process in the wrong order: ours is the right one."""
    program = (
        "import sys; from pipeline.adapters import index_local_graph; index_local_graph._library();"
        "import onnxruntime; sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 7
