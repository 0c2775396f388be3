"""Graph files of the local index: built, checked, opened, searched.

A graph (HNSW: Malkov & Yashunin, "Efficient and robust approximate nearest neighbor search using hierarchical navigable
small world graphs", IEEE TPAMI 42:4, 2020; by the library usearch) stands in one file that never changes. It is mapped
into memory, not read: what isn't looked at costs nothing, and the kernel takes pages back when it needs them. Vectors in
it are float16, enough to find candidates; their scores are computed anew from the stored float32 vectors.

How many candidates a search must look at depends on the data: some hundred where vectors fall into groups, thousands
where they are spread evenly. So a new graph is asked for the neighbours of some of its own vectors, which are known, and
keeps the number that finds them (`calibrated`).
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.adapters.index_local_segments import Int64Array
from pipeline.types import Float32Array

RECALL: Final = 0.995
"""What a graph is calibrated to reach of the ten nearest; questions lie farther from its vectors than its vectors do."""
SAMPLE: Final = 256
_TRIAL: Final = 2_000_000
"""Candidates of all searches of one trial together: where each takes very many, fewer are made."""
_TRIALS_MIN: Final = 32
"""Vectors that a new graph is tried with."""
_ALONE: Final = 4096
"""Vectors that are linked one after the other: side by side the first ones don't see each other, and some stay unlinked."""
NEAREST: Final = 10
NEAR: Final = 2e-4
"""Similarities of float16 vectors differ by less from those of the stored ones."""
_CRC_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """When graphs are built, and how."""

    min_records: int = 50_000
    """Records past which a graph is due; fewer are searched exactly. 0: never."""
    m: int = 16
    ef_construction: int = 128
    ef_search: int = 256
    """Candidates that a search looks at, at least."""
    threads: int = 0
    """Threads that build; 0: as many as there are processors."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One graph as the index file lists it."""

    number: int
    file: str
    records: int
    size: int
    crc: int
    m: int
    ef_construction: int
    ef_search: int
    recall: float
    usable: bool


class Damaged(Exception):
    """The file isn't the one that was built."""


class OpenGraph:
    """A checked, mapped graph. Threads may share it."""

    def __init__(self, path: Path, row: GraphRow) -> None:
        """Check the whole file, then map it: the library trusts what it maps.

        Raises:
            Damaged: the file is gone or isn't the one that was built.
        """
        try:
            if path.stat().st_size != row.size or file_crc(path) != row.crc:
                raise Damaged(f"{path.name} isn't as it was built")
            self._index = _library().restore(str(path), view=True)
        except OSError as error:
            raise Damaged(f"{path.name} can't be read: {error.strerror}") from error
        if self._index is None or len(self._index) != row.records:
            raise Damaged(f"{path.name} isn't a graph of {row.records} records")
        self._lock = threading.Lock()

    def nearest(self, vector: Float32Array, count: int, ef: int) -> tuple[Int64Array, int]:
        """About the `count` nearest keys, and how many similarities were computed."""
        with self._lock:  # the length of the candidate list is a property of the whole index
            self._index.expansion_search = ef
            found = self._index.search(vector, count, threads=1)
        return found.keys.astype(np.int64), int(found.computed_distances)


class NewGraph:
    """A graph in the making: as much memory as its file takes, about (2 * dim + 10 * m) bytes a vector."""

    def __init__(self, dim: int, settings: GraphSettings) -> None:
        self._settings = settings
        self._threads = settings.threads or os.cpu_count() or 1
        self._index = _library()(
            ndim=dim,
            metric="ip",
            dtype="f16",
            connectivity=settings.m,
            expansion_add=settings.ef_construction,
            expansion_search=settings.ef_search,
        )

    def __len__(self) -> int:
        return len(self._index)

    def add(self, keys: Int64Array, vectors: Float32Array) -> None:
        """Link vectors in, with all threads once the graph has some size."""
        names = keys.astype(np.uint64)
        alone = min(max(_ALONE - len(self._index), 0), len(keys))
        for part, threads in ((slice(0, alone), 1), (slice(alone, None), self._threads)):
            if len(names[part]):
                self._index.add(names[part], vectors[part], threads=threads)

    def calibrated(self, sample: Float32Array, nearest: Sequence[Float32Array]) -> tuple[int, float]:
        """The smallest of some candidate numbers that finds what is nearest, and the share found; at most all records.

        Args:
            sample: vectors (n, dim) that the graph doesn't hold.
            nearest: for each, the similarities of its nearest, the best first. What is found counts by its similarity,
                as in ann-benchmarks: one of many copies is as good as another.
        """
        ef = self._settings.ef_search
        while True:
            self._index.expansion_search = ef
            tried = max(_TRIAL // ef, _TRIALS_MIN)
            found = wanted = 0
            for vector, similarities in zip(sample[:tried], nearest[:tried], strict=True):
                wanted += len(similarities)
                # Twice as many are fetched as in a search, where stored vectors decide about their order.
                hits = self._index.search(vector, 2 * NEAREST + 1, threads=1).distances
                near = int(np.count_nonzero(1.0 - hits >= similarities[-1] - NEAR)) if len(similarities) else 0
                found += min(near, len(similarities))
            recall = found / wanted if wanted else 1.0
            if recall >= RECALL or ef >= len(self._index):
                return ef, recall
            ef = min(ef * 3 // 2, len(self._index))

    def save(self, path: Path) -> None:
        """Write the file and make it durable."""
        self._index.save(str(path))
        with path.open("rb+") as file:
            os.fsync(file.fileno())


def file_crc(path: Path, stop: Callable[[], bool] = lambda: False) -> int:
    """CRC-32 of a file, read block by block."""
    crc = 0
    with path.open("rb") as file:
        while (block := file.read(_CRC_BLOCK)) and not stop():
            crc = zlib.crc32(block, crc)
    return crc


def _library() -> Any:
    # Imported here: a command that searches no graph should not pay for it. Both libraries carry a C++ runtime of their
    # own, and onnxruntime crashes the process when it is loaded after usearch's; the other way round both work.
    import onnxruntime  # noqa: F401, PLC0415
    from usearch.index import Index  # noqa: PLC0415

    return Index
