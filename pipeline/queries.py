"""What is asked of a vector index, and what it tells about its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.filters import Filter
from pipeline.types import Float32Array


@dataclass(frozen=True, slots=True)
class DenseQuery:
    """Nearest records by cosine similarity."""

    vector: Float32Array
    """float32 (dim,), unit length."""


@dataclass(frozen=True, slots=True)
class SparseQuery:
    """Best records by the dot product of term weights."""

    weights: Mapping[int, float]
    """Term hash (uint32) to query weight, IDF already applied."""


@dataclass(frozen=True, slots=True)
class Search:
    """One request to one retriever. Version, scope and filter hold inside the search."""

    query: DenseQuery | SparseQuery
    k: int
    version: int
    """Records with `added <= version < removed` are searched, no others."""
    scope: tuple[str, ...] = ()
    """Prefixes of `source_path`, on whole path parts; empty means everything."""
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """How an index came to its hits."""

    records: int
    """Records that version, scope and filter let through."""
    exact: int = 0
    """Of those, scored one by one."""
    by_graph: int = 0
    """Of those, searched through a graph."""
    graphs: int = 0
    """Graphs that were asked."""
    ef: int = 0
    """Longest candidate list of a graph search."""
    distances: int = 0
    """Similarities computed, those inside graphs included; 0 for a sparse search."""
    segments: int = 0
    """Stored groups of records that were looked at."""
    unknown_fields: tuple[str, ...] = ()
    """Fields of the filter that no record has which was looked at, whatever its version and scope."""
    unusable: tuple[str, ...] = ()
    """Graph files that were passed over because they are damaged or gone; their records were searched exactly."""


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """One graph over part of a namespace's dense vectors (HNSW: Malkov & Yashunin 2020)."""

    records: int
    """Vectors in it, those of erased records included."""
    live: int
    m: int
    """Links of a vector."""
    ef_construction: int
    """Candidates looked at when a vector was linked."""
    ef_search: int
    """Candidates that a search looks at: the setting, or more where it took more to reach `recall`."""
    recall: float
    """Share of the ten nearest that such searches found of the graph's own vectors, when it was built."""
    bytes: int
    usable: bool
    """False: damaged or gone; the next `optimize` replaces it."""
