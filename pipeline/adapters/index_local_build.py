"""Building the local index's graphs: what is due, and the work itself, done beside searches and writes.

Sizes grow as in a binary counter: a new graph takes in every older one that isn't larger, so that there are about
log2(records / min_records) graphs and each record is linked that often in its life. A graph a third of which was erased
is built anew from what is left, and one whose file is damaged from all.

Nothing waits for it. Vectors are read a segment at a time in transactions of their own; a file counts from the one
transaction that lists it. Killed before that, it leaves a file that nobody lists, which the next builder removes.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from pipeline.adapters.index_local_graph import NEAREST, SAMPLE, GraphRow, GraphSettings, NewGraph, file_crc
from pipeline.adapters.index_local_segments import ROWS_MAX, Int64Array
from pipeline.adapters.index_local_tables import find_space, rewrite, vectors_at
from pipeline.types import Float32Array, Namespace

LIVE_SHARE: Final = 2 / 3
"""A graph with less of it alive is built anew."""
FRESH_SHARE: Final = 5
"""A namespace that has a graph gets the next one at a fifth of `min_records`: so many are scored one by one till then."""
SUFFIX: Final = ".graph"


class Transactions(Protocol):
    """How the index opens a transaction."""

    def __call__(self, *, write: bool) -> AbstractContextManager[sqlite3.Connection]:
        """A connection inside a transaction of its own."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """What the builder needs to know of a segment."""

    number: int
    rows: int
    live: int
    graph: int


@dataclass(frozen=True, slots=True)
class Due:
    """What one new graph is made of."""

    space: tuple[int, int]
    segments: tuple[Segment, ...]
    replaced: tuple[int, ...]
    """Graphs that it takes in."""
    file: str
    """Name of the new file: that of no file ever listed."""

    @property
    def records(self) -> int:
        """Live records."""
        return sum(segment.live for segment in self.segments)


def graph_rows(db: sqlite3.Connection, space: int) -> dict[int, GraphRow]:
    """The graphs of a namespace, by number."""
    query = (
        "SELECT number, file, records, size, crc, m, ef_construction, ef_search, recall, usable FROM graph"
        " WHERE space = ? ORDER BY number"
    )
    return {row[0]: GraphRow(*row) for row in ((*found[:9], bool(found[9])) for found in db.execute(query, (space,)))}


def due(
    db: sqlite3.Connection, namespace: Namespace, settings: GraphSettings, segment_rows: int, folder: Path
) -> Due | None:
    """What should be built now, if anything."""
    space = find_space(db, namespace)
    if space is None or not settings.min_records:
        return None
    query = "SELECT number, rows, live, graph FROM segment WHERE space = ? ORDER BY number"
    segments = [Segment(*row) for row in db.execute(query, (space[0],))]
    graphs = graph_rows(db, space[0])
    members: dict[int, list[Segment]] = {number: [] for number in graphs}
    fresh: list[Segment] = []
    for segment in segments:
        row = graphs.get(segment.graph)
        if row is not None and row.usable and (folder / row.file).exists():
            members[segment.graph].append(segment)
        elif segment.live and (row is not None or segment.rows * 2 >= segment_rows):
            fresh.append(segment)  # smaller ones are still to be merged with others
    chosen, replaced = list(fresh), [number for number, held in members.items() if not held]
    for number, held in members.items():
        if held and sum(s.live for s in held) < LIVE_SHARE * graphs[number].records:
            chosen += held
            replaced.append(number)
    total = sum(segment.live for segment in chosen)
    worn = len(chosen) > len(fresh) or any(s.graph in graphs for s in fresh)
    if (total < (_fewest(settings) if members else settings.min_records) and not worn) or not chosen:
        return None
    for number in sorted(members, key=lambda n: graphs[n].records):
        if number not in replaced and sum(s.live for s in members[number]) <= total:
            chosen += members[number]
            replaced.append(number)
            total += sum(s.live for s in members[number])
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'graph'").fetchone()
    return Due(space, tuple(sorted(chosen, key=lambda s: s.number)), tuple(replaced), f"{last + 1}{SUFFIX}")


def _fewest(settings: GraphSettings) -> int:
    return max(settings.min_records // FRESH_SHARE, 1)


def build(
    transaction: Transactions,
    wanted: Due,
    folder: Path,
    settings: GraphSettings,
    *,
    report: Callable[[int, int], None],
    stop: Callable[[], bool],
) -> int:
    """Build one graph and list it. Records in it; 0 where it was stopped, or where nothing lives of what was due."""
    segments = _compacted(transaction, wanted, stop)
    total = max(sum(segment.live for segment in segments), 1)
    if sum(segment.live for segment in segments) < _fewest(settings):
        _publish(transaction, wanted, (), None)
        return 0
    graph = NewGraph(wanted.space[1], settings)
    sample = _Sample(total, wanted.space[1])
    for keys, vectors in _vectors(transaction, segments, wanted.space[1]):
        if stop():
            return 0
        rest = sample.take(keys, vectors)
        graph.add(keys[rest], vectors[rest])
        report(len(graph), total)
    nearest = _nearest(sample, _vectors(transaction, segments, wanted.space[1]))
    ef, recall = graph.calibrated(sample.vectors, nearest)
    graph.add(sample.keys, sample.vectors)
    report(len(graph), total)
    path = folder / wanted.file
    graph.save(path)
    crc = file_crc(path, stop)
    if stop():
        path.unlink()
        return 0
    _sync(folder)
    made = GraphRow(
        0,
        path.name,
        len(graph),
        path.stat().st_size,
        crc,
        settings.m,
        settings.ef_construction,
        ef,
        recall,
        usable=True,
    )
    _publish(transaction, wanted, segments, made)
    return len(graph)


def _compacted(transaction: Transactions, wanted: Due, stop: Callable[[], bool]) -> tuple[Segment, ...]:
    """The segments to build from, those with many holes rewritten without them."""
    kept: list[Segment] = []
    for segment in wanted.segments:
        if stop() or segment.live > LIVE_SHARE * segment.rows:
            kept.append(segment)
            continue
        with transaction(write=True) as db:
            last = db.execute("SELECT max(number) FROM segment").fetchone()[0]
            rewrite(db, wanted.space, [segment.number])
            query = "SELECT number, rows, live, graph FROM segment WHERE space = ? AND number > ?"
            kept += [Segment(*row) for row in db.execute(query, (wanted.space[0], last))]
    return tuple(kept)


def close_holes(transaction: Transactions, folder: Path) -> None:
    """Write every segment anew that erased records have left holes in; graphs over such go, and are built again."""
    with transaction(write=False) as db:
        holed = db.execute(
            "SELECT s.number, s.graph, s.space, p.dim FROM segment s JOIN space p ON p.number = s.space WHERE s.live < s.rows"
        ).fetchall()
    for number, graph, space, dim in holed:
        with transaction(write=True) as db:
            if graph:
                db.execute("UPDATE segment SET graph = 0 WHERE graph = ?", (graph,))
                db.execute("DELETE FROM graph WHERE number = ?", (graph,))
            if db.execute("SELECT 1 FROM segment WHERE number = ?", (number,)).fetchone():
                rewrite(db, (space, dim), [number])
    with only_builder(folder) as chosen, transaction(write=False) as db:
        if chosen:
            tidy(db, folder)


def _vectors(
    transaction: Transactions, segments: Sequence[Segment], dim: int
) -> Iterator[tuple[Int64Array, Float32Array]]:
    """Keys and vectors of live rows, a segment at a time; segments that are gone by now are passed over."""
    for segment in segments:
        with transaction(write=False) as db:
            row = db.execute("SELECT removed, rows FROM segment WHERE number = ?", (segment.number,)).fetchone()
            if row is None:
                continue
            slots = np.flatnonzero(np.frombuffer(row[0], "<i8"))  # a hole is removed at 0
            vectors = vectors_at(db, segment.number, slots, row[1], dim)
        yield slots + segment.number * ROWS_MAX, vectors


class _Sample:
    """Vectors, spread evenly, that a graph is tried with before it holds them: questions aren't among its vectors either."""

    def __init__(self, records: int, dim: int) -> None:
        self._step = max(records // SAMPLE, 2)
        self._seen = 0
        self.keys = np.zeros(0, np.int64)
        self.vectors = np.zeros((0, dim), np.float32)

    def take(self, keys: Int64Array, vectors: Float32Array) -> npt.NDArray[np.bool_]:
        """Keep some of the next vectors; which are left."""
        chosen = (np.arange(len(keys)) + self._seen) % self._step == 0
        self._seen += len(keys)
        self.keys = np.concatenate((self.keys, keys[chosen]))
        self.vectors = np.concatenate((self.vectors, vectors[chosen]))
        rest: npt.NDArray[np.bool_] = ~chosen
        return rest


def _nearest(sample: _Sample, everything: Iterator[tuple[Int64Array, Float32Array]]) -> list[Float32Array]:
    """Similarities of the nearest neighbours of each vector of the sample, found one by one; none is of the sample itself."""
    best = np.zeros((len(sample.keys), 0), np.float32)
    for keys, vectors in everything:
        rest = ~np.isin(keys, sample.keys)
        best = np.concatenate((best, sample.vectors @ vectors[rest].T), axis=1)
        if best.shape[1] > NEAREST:
            best = np.partition(best, best.shape[1] - NEAREST, axis=1)[:, -NEAREST:]
    return list(-np.sort(-best, axis=1))


def _publish(transaction: Transactions, wanted: Due, segments: Sequence[Segment], made: GraphRow | None) -> None:
    """List the new graph and strike the ones that it takes in, in one transaction."""
    with transaction(write=True) as db:
        for number in wanted.replaced:
            db.execute("UPDATE segment SET graph = 0 WHERE graph = ?", (number,))
            db.execute("DELETE FROM graph WHERE number = ?", (number,))
        if made is None:
            return
        values = (
            wanted.space[0], made.file, made.records, made.size, made.crc, made.m, made.ef_construction, made.ef_search,
            made.recall,
        )  # fmt: skip
        cursor = db.execute(
            "INSERT INTO graph (space, file, records, size, crc, m, ef_construction, ef_search, recall, usable)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
            values,
        )
        db.executemany(
            "UPDATE segment SET graph = ? WHERE number = ?", [(cursor.lastrowid, s.number) for s in segments]
        )


def tidy(db: sqlite3.Connection, folder: Path) -> None:
    """Remove graph files that nobody lists: what a killed builder left, and what was replaced. For the builder only."""
    listed = {file for (file,) in db.execute("SELECT file FROM graph")}
    for path in folder.glob(f"*{SUFFIX}"):
        if path.name not in listed:
            path.unlink(missing_ok=True)


@contextmanager
def only_builder(folder: Path) -> Iterator[bool]:
    """Whether this caller is the one that may build; never waits."""
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
