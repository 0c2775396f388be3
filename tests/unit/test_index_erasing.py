"""shrink(erase=True) of the local index: what was deleted stands in no file any more, and nothing else is lost."""

import numpy as np
import pytest

from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.queries import DenseQuery, Search
from pipeline.types import Namespace, RecordBatch, RecordId, SparseVectors

DIM, COUNT = 16, 3072
SPACE = Namespace("a.g1.chunks")


def vectors(count):
    array = np.random.default_rng(count).normal(size=(count, DIM))
    return (array / np.linalg.norm(array, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def filled(tmp_path):
    index = LocalIndex(
        tmp_path / "index.sqlite", segment_rows=128, graphs=GraphSettings(min_records=400, ef_search=96, threads=1)
    )
    nothing = SparseVectors(np.zeros(COUNT + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32))
    ids = tuple(RecordId(f"r{i:06}") for i in range(COUNT))
    index.upsert(RecordBatch(SPACE, 1, ids, vectors(COUNT), nothing, tuple({"text": f"t{i}"} for i in range(COUNT))))
    assert optimize(index) == COUNT
    yield index
    index.close()


def optimize(index):
    return index.optimize(SPACE, report=lambda _done, _total: None, stop=lambda: False)


def files(index):
    return sorted(path.name for path in index._graph_folder.glob("*.graph"))


def test_what_is_erased_stands_in_no_file(tmp_path, filled):
    """Of a segment under a graph, too, from which few records are gone; the rest is found as before, and graphs come back."""
    gone = [RecordId(f"r{i:06}") for i in range(5, COUNT, 500)]
    spoken = filled.fetch(SPACE, gone, vectors=True, metadata=False).dense
    asked = [Search(DenseQuery(vectors(n)[0]), COUNT, 1) for n in (1, 2)]
    filled.delete(SPACE, gone)
    expected = [filled.search(SPACE, one) for one in asked]

    def holding():
        found = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        return sum(vector.tobytes() in data for vector in spoken for data in found)

    filled.shrink()
    assert holding() >= len(gone), "else nothing is shown"
    filled.shrink(erase=True)
    assert holding() == 0
    assert files(filled) == []
    assert [filled.search(SPACE, one) for one in asked] == expected
    assert optimize(filled) == COUNT - len(gone)
    assert holding() == 0
    before = filled._path.read_bytes()
    filled.shrink(erase=True)
    assert len(filled._path.read_bytes()) == len(before)
    assert files(filled), "where nothing is erased no graph goes"
