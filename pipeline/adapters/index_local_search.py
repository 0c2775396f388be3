"""One search in the local index: what may be found, how each part of it is searched, and the best of all.

First every rule that decides what may be found (version, scope, filter) is applied, so that from then on the number of
allowed records is known. Segments that no graph covers are scored row by row. Of a graph's records those that are
allowed are scored row by row too where they are few; else the graph is asked for so many more than `k` as its share of
allowed records needs, and what comes back is checked, scored by the stored vectors, and asked for again if too little
is left.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.adapters.index_local_facets import UNCOLUMNED, Column, Mask, Rule, decode, text_column
from pipeline.adapters.index_local_graph import GraphRow, OpenGraph
from pipeline.adapters.index_local_segments import ROWS_MAX, Int64Array, dense_scores, sparse_scores
from pipeline.adapters.index_local_tables import BY_PLACE, IDS_AT_ONCE, reading_cost, vectors_at
from pipeline.queries import DenseQuery, Search, SearchTrace, SparseQuery
from pipeline.types import Float32Array, Hit, RecordId

Scores = npt.NDArray[np.float64]

CANDIDATE_COST: Final = 8.0
"""Microseconds of one candidate of a graph search. This and the two costs of reading rows, in `index_local_tables`, were
measured by `benchmarks/index.py` on 384 dimensions; only their ratios matter."""
PREFERENCE: Final = 2.0
"""Where all may be found, a graph is asked unless scoring each costs less than half: it touches far fewer pages."""
SHARE_MIN: Final = 1 / 64
"""Where a smaller share may be found each is scored: among so many others a graph misses some."""
DEPTH: Final = 2
"""Candidates for each record that is fetched beyond the usual: far from the question a graph misses more."""
SPARE: Final = 16
"""Candidates beyond `k` that are scored by the stored vectors: float16 may have changed places with the k-th."""


@dataclass(frozen=True, slots=True)
class Part:
    """A segment of which something may be found."""

    number: int
    graph: int
    rows: int
    slots: Int64Array
    """Allowed slots, rising."""


@dataclass(slots=True)
class _Count:
    """What is told in the trace."""

    exact: int = 0
    by_graph: int = 0
    graphs: int = 0
    ef: int = 0
    distances: int = 0
    unusable: list[str] = field(default_factory=list)


def find(
    db: sqlite3.Connection,
    space: tuple[int, int],
    request: Search,
    graphs: Mapping[int, GraphRow],
    opened: Callable[[GraphRow], OpenGraph | None],
) -> tuple[tuple[Hit, ...], SearchTrace]:
    """The k best allowed records, and how they were found.

    Args:
        db: in a transaction.
        space: number and dimension of the namespace.
        request: what is asked.
        graphs: of the namespace, by number.
        opened: a graph's mapped file; None where it can't be used.
    """
    rule = Rule(request.filter, request.scope)
    parts = list(allowed(db, space[0], request.version, rule))
    count = _Count()
    if isinstance(request.query, SparseQuery):
        places, scores = _sparse(db, parts, request.query)
    else:
        places, scores = _dense(db, space[1], parts, request, _Graphs(graphs, opened), count)
    trace = SearchTrace(
        sum(len(part.slots) for part in parts),
        exact=count.exact,
        by_graph=count.by_graph,
        graphs=count.graphs,
        ef=count.ef,
        distances=count.distances,
        segments=len(parts),
        unknown_fields=tuple(sorted(rule.unknown)),
        unusable=tuple(count.unusable),
    )
    return _best(db, places, scores, request.k), trace


@dataclass(frozen=True, slots=True)
class _Graphs:
    rows: Mapping[int, GraphRow]
    opened: Callable[[GraphRow], OpenGraph | None]


def allowed(db: sqlite3.Connection, space: int, version: int, rule: Rule) -> Iterator[Part]:
    """Segments with the slots that version, scope and filter let through, where there are any."""
    query = "SELECT number, graph, rows, added_max, removed_min FROM segment WHERE space = ? ORDER BY number"
    for number, graph, rows, added_max, removed_min in db.execute(query, (space,)).fetchall():
        mask: Mask | None = None
        if not added_max <= version < removed_min:
            added, removed = db.execute("SELECT added, removed FROM segment WHERE number = ?", (number,)).fetchone()
            mask = np.frombuffer(added, "<i8") <= version
            mask &= version < np.frombuffer(removed, "<i8")
            if not mask.any():
                continue
        fits = rule.allowed(partial(_column, db, number, rows), rows)
        if fits is not None:
            mask = fits if mask is None else mask & fits
        slots = np.arange(rows) if mask is None else np.flatnonzero(mask)
        if len(slots):
            yield Part(number, graph, rows, slots)


def _column(db: sqlite3.Connection, number: int, rows: int, name: str) -> Column | None:
    if name == UNCOLUMNED:
        query = "SELECT place % 65536, text FROM record WHERE place >= ? AND place < ?"
        bounds = (number * ROWS_MAX, (number + 1) * ROWS_MAX)
        return text_column(dict(db.execute(query, bounds)), rows)
    found = db.execute("SELECT codes, vocabulary FROM facet WHERE segment = ? AND field = ?", (number, name)).fetchone()
    return decode(*found) if found else None


def _sparse(db: sqlite3.Connection, parts: Sequence[Part], query: SparseQuery) -> tuple[Int64Array, Scores]:
    places, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
    for part in parts:
        terms, starts = db.execute("SELECT terms, starts FROM posting WHERE number = ?", (part.number,)).fetchone()
        with db.blobopen("posting", "postings", part.number, readonly=True) as blob:

            def read(offset: int, length: int, blob: sqlite3.Blob = blob) -> bytes:
                blob.seek(offset)
                return blob.read(length)

            found, touched = sparse_scores(terms, starts, read, query.weights, part.rows)
        slots = part.slots[touched[part.slots]]
        places.append(slots + part.number * ROWS_MAX)
        scores.append(found[slots])
    return np.concatenate(places), np.concatenate(scores)


def _dense(
    db: sqlite3.Connection, dim: int, parts: Sequence[Part], request: Search, graphs: _Graphs, count: _Count
) -> tuple[Int64Array, Scores]:
    assert isinstance(request.query, DenseQuery)
    vector = request.query.vector
    by_graph: dict[int, list[Part]] = {}
    for part in parts:
        by_graph.setdefault(part.graph, []).append(part)
    places, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
    for number, some in by_graph.items():
        found = _through_graph(db, dim, some, request.k, vector, graphs, graphs.rows.get(number), count)
        if found is None:
            found = _one_by_one(db, dim, some, vector)
            count.exact += len(found[0])
            count.distances += len(found[0])
        places.append(found[0])
        scores.append(found[1])
    return np.concatenate(places), np.concatenate(scores)


def _one_by_one(
    db: sqlite3.Connection, dim: int, parts: Sequence[Part], vector: Float32Array
) -> tuple[Int64Array, Scores]:
    places, scores = [], []
    for part in parts:
        scores.append(dense_scores(vectors_at(db, part.number, part.slots, part.rows, dim), vector).astype(np.float64))
        places.append(part.slots + part.number * ROWS_MAX)
    return np.concatenate(places), np.concatenate(scores)


def _through_graph(
    db: sqlite3.Connection,
    dim: int,
    parts: Sequence[Part],
    k: int,
    vector: Float32Array,
    graphs: _Graphs,
    row: GraphRow | None,
    count: _Count,
) -> tuple[Int64Array, Scores] | None:
    """Hits of a graph's records, scored exactly; None where it is cheaper, or needed, to score each of them."""
    if row is None or not row.usable:
        return None
    total = sum(len(part.slots) for part in parts)
    wanted = min(k + SPARE, total)
    # Of the nearest `fetch` records of the graph about `wanted` are allowed, where the allowed ones lie like the others.
    fetch = -(-wanted * row.records // total)
    each = sum(reading_cost(len(part.slots), part.rows) for part in parts)
    if min(k, total) == total or total < SHARE_MIN * row.records:
        return None
    if _candidates(row, fetch) * CANDIDATE_COST > each * (PREFERENCE if total == row.records else 1):
        return None
    graph = graphs.opened(row)
    if graph is None:
        count.unusable.append(row.file)
        return None
    found = _Allowed(parts)
    while True:
        ef = _candidates(row, fetch)
        keys, distances = graph.nearest(vector, min(fetch, row.records), ef)
        count.distances += distances
        count.ef = max(count.ef, ef)
        kept = keys[found.holds(keys)]
        if len(kept) >= min(k, total):
            break
        # Few of the nearest are allowed, or the graph doesn't reach all of its own.
        if fetch >= row.records or _candidates(row, 2 * fetch) * CANDIDATE_COST > each:
            return None
        fetch *= 2
    count.graphs += 1
    count.by_graph += total
    kept = np.sort(kept[: k + SPARE])
    count.distances += len(kept)
    return kept, _scores_at(db, dim, kept, {part.number: part.rows for part in parts}, vector)


def _candidates(row: GraphRow, fetch: int) -> int:
    return min(max(row.ef_search, DEPTH * fetch), row.records)


class _Allowed:
    """Which keys of a graph are allowed."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._numbers = np.array([part.number for part in parts], np.int64)
        starts = np.cumsum([0, *(part.rows for part in parts)])
        self._starts, self._rows = starts[:-1], np.diff(starts)
        self._mask = np.zeros(starts[-1], np.bool_)
        for part, start in zip(parts, self._starts, strict=True):
            self._mask[part.slots + start] = True

    def holds(self, keys: Int64Array) -> Mask:
        at = np.minimum(np.searchsorted(self._numbers, keys // ROWS_MAX), len(self._numbers) - 1)
        slots = keys % ROWS_MAX
        known = (self._numbers[at] == keys // ROWS_MAX) & (slots < self._rows[at])
        allowed_keys: Mask = known & self._mask[np.where(known, self._starts[at] + slots, 0)]
        return allowed_keys


def _scores_at(
    db: sqlite3.Connection, dim: int, places: Int64Array, rows: Mapping[int, int], vector: Float32Array
) -> Scores:
    """Exact scores of rising places."""
    scores = []
    for number in np.unique(places // ROWS_MAX).tolist():
        slots = places[places // ROWS_MAX == number] % ROWS_MAX
        scores.append(dense_scores(vectors_at(db, number, slots, rows[number], dim), vector).astype(np.float64))
    return np.concatenate(scores)


def _best(db: sqlite3.Connection, places: Int64Array, scores: Scores, k: int) -> tuple[Hit, ...]:
    """The k best, ties by id."""
    if len(scores) > k:
        # Only what reaches the k-th score can be among the k best; ties at the cut all stay.
        reach = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        places, scores = places[reach], scores[reach]
    known: dict[int, str] = {}
    query = f"SELECT place, id FROM record WHERE {BY_PLACE}"  # noqa: S608 - a constant
    for at in range(0, len(places), IDS_AT_ONCE):
        known.update(db.execute(query, (json.dumps(places[at : at + IDS_AT_ONCE].tolist()),)))
    hits = [Hit(RecordId(known[p]), s) for p, s in zip(places.tolist(), scores.tolist(), strict=True)]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))[:k])
