"""The tables of the local index, and what is read and written in one transaction; `index_local` opens and ends those.

space    a namespace and its dimension
segment  rows, live rows, the graph that covers it (0: none), and the versions of its rows as arrays: the search's copy of
         record.added and .removed, with the highest and the lowest of each, by which most segments are judged whole
dense    the dense vectors of a segment, 16 rows a block; `place` as in record, of the block's first row. The pages of a
         long value are a chain that has to be followed from its start: one row of a block is found fast. Never change
posting  the sparse vectors of a segment (see `index_local_segments`); never change
facet    the filter columns of a segment (see `index_local_facets`); never change
graph    the graph files of a namespace (see `index_local_graph`)
record   id, versions, path and metadata of one row; `place` = segment * 65536 + slot
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Final

import numpy as np

from pipeline.adapters.index_local_facets import columns, encode
from pipeline.adapters.index_local_segments import ROWS_MAX, Int64Array, Segment, join, pack, take, unpack_sparse
from pipeline.errors import RejectedInput
from pipeline.types import (
    OPEN,
    Float32Array,
    Metadata,
    MetadataValue,
    Namespace,
    RecordBatch,
    RecordId,
    SparseVectors,
)

IDS_AT_ONCE: Final = 1_000
"""Ids in one statement."""
BLOCK_ROWS: Final = 16
_BLOCK_COST: Final = 12.0
_ROW_COST: Final = 0.6
"""Microseconds of a block read for one of its vectors, and of each vector of a segment read whole."""

SCHEMA: Final = """
CREATE TABLE space (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, dim INTEGER NOT NULL);
CREATE TABLE segment (
    number INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, rows INTEGER NOT NULL, live INTEGER NOT NULL,
    graph INTEGER NOT NULL, added BLOB NOT NULL, removed BLOB NOT NULL,
    added_max INTEGER NOT NULL, removed_min INTEGER NOT NULL);
CREATE INDEX segment_space ON segment (space);
CREATE TABLE facet (segment INTEGER NOT NULL, field TEXT NOT NULL, codes BLOB NOT NULL, vocabulary TEXT NOT NULL);
CREATE UNIQUE INDEX facet_field ON facet (segment, field);
CREATE TABLE graph (
    number INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, file TEXT NOT NULL, records INTEGER NOT NULL,
    size INTEGER NOT NULL, crc INTEGER NOT NULL, m INTEGER NOT NULL, ef_construction INTEGER NOT NULL,
    ef_search INTEGER NOT NULL, recall REAL NOT NULL, usable INTEGER NOT NULL);
CREATE TABLE dense (place INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE posting (number INTEGER PRIMARY KEY, terms BLOB NOT NULL, starts BLOB NOT NULL, postings BLOB NOT NULL);
CREATE TABLE record (
    place INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, added INTEGER NOT NULL, removed INTEGER NOT NULL,
    metadata TEXT NOT NULL, text TEXT, UNIQUE (space, id));
"""
BY_ID: Final = "space = ? AND id IN (SELECT value FROM json_each(?))"
BY_PLACE: Final = "place IN (SELECT value FROM json_each(?))"


def find_space(db: sqlite3.Connection, namespace: Namespace) -> tuple[int, int] | None:
    """Number and dimension of a namespace."""
    row: tuple[int, int] | None = db.execute("SELECT number, dim FROM space WHERE name = ?", (namespace,)).fetchone()
    return row


def held_ids(db: sqlite3.Connection, space: int, ids: Sequence[RecordId]) -> set[str]:
    """Which of the ids exist."""
    query = f"SELECT id FROM record WHERE {BY_ID}"  # noqa: S608 - a constant
    return {row[0] for some in id_groups(ids) for row in db.execute(query, (space, json.dumps(some)))}


def record_rows(batch: RecordBatch, chosen: Int64Array, space: int, number: int) -> Iterator[tuple[Any, ...]]:
    """Rows of the table `record` for the chosen positions of a batch, which are the slots of segment `number`."""
    for slot, position in enumerate(chosen.tolist()):
        metadata = dict(batch.metadata[position])
        # The text is most of the metadata, and filters hardly ever ask for it: it stands apart.
        text = metadata.pop("text") if isinstance(metadata.get("text"), str) else None
        document = json.dumps(metadata, separators=(",", ":"))
        yield number * ROWS_MAX + slot, space, batch.ids[position], batch.added, OPEN, document, text


def write_segment(
    db: sqlite3.Connection,
    space: int,
    segment: Segment,
    versions: tuple[Int64Array, Int64Array],
    metadata: Sequence[Metadata],
) -> int:
    """Store vectors, the (added, removed) of their rows and their filter columns, all live. The segment's number."""
    rows = len(versions[0])
    values = (
        space, rows, rows, versions[0].astype("<i8").tobytes(), versions[1].astype("<i8").tobytes(),
        int(versions[0].max()), int(versions[1].min()),
    )  # fmt: skip
    cursor = db.execute(
        "INSERT INTO segment (space, rows, live, graph, added, removed, added_max, removed_min)"
        " VALUES (?, ?, ?, 0, ?, ?, ?, ?)",
        values,
    )
    number = int(cursor.lastrowid or 0)
    facets = ((number, name, *encode(column)) for name, column in columns(metadata))
    db.executemany("INSERT INTO facet VALUES (?, ?, ?, ?)", facets)
    size = len(segment.dense) // rows * BLOCK_ROWS
    blocks = enumerate(range(0, len(segment.dense), size))
    db.executemany(
        "INSERT INTO dense VALUES (?, ?)",
        ((number * ROWS_MAX + i * BLOCK_ROWS, segment.dense[at : at + size]) for i, at in blocks),
    )
    db.execute("INSERT INTO posting VALUES (?, ?, ?, ?)", (number, segment.terms, segment.starts, segment.postings))
    return number


def drop_segment(db: sqlite3.Connection, number: int) -> None:
    """Erase a segment's vectors and versions, not its records."""
    db.execute("DELETE FROM segment WHERE number = ?", (number,))
    db.execute("DELETE FROM dense WHERE place >= ? AND place < ?", (number * ROWS_MAX, (number + 1) * ROWS_MAX))
    db.execute("DELETE FROM posting WHERE number = ?", (number,))
    db.execute("DELETE FROM facet WHERE segment = ?", (number,))


def set_removed(db: sqlite3.Connection, number: int, slots: list[int], removed: int) -> None:
    """Bring the segment's array up to date with `record.removed`."""
    (raw,) = db.execute("SELECT removed FROM segment WHERE number = ?", (number,)).fetchone()
    array = np.frombuffer(raw, "<i8").copy()
    array[slots] = removed
    db.execute(
        "UPDATE segment SET removed = ?, removed_min = ? WHERE number = ?", (array.tobytes(), int(array.min()), number)
    )


def rewrite(db: sqlite3.Connection, space: tuple[int, int], numbers: Sequence[int]) -> None:
    """Replace segments by one without holes, or by none where nothing lives."""
    bounds = [(number * ROWS_MAX, (number + 1) * ROWS_MAX) for number in numbers]
    query = "SELECT place, added, removed, metadata FROM record WHERE place >= ? AND place < ? ORDER BY place"
    kept = [row for bound in bounds for row in db.execute(query, bound)]
    if kept:
        places = [row[0] for row in kept]
        versions = np.array([row[1] for row in kept], np.int64), np.array([row[2] for row in kept], np.int64)
        number = write_segment(
            db, space[0], pack(*read_vectors(db, places, space[1])), versions,
            [decode_metadata(row[3], None) for row in kept],
        )  # fmt: skip
        moves = [(number * ROWS_MAX + slot, place) for slot, place in enumerate(places)]
        db.executemany("UPDATE record SET place = ? WHERE place = ?", moves)
    for number in numbers:
        drop_segment(db, number)


def read_vectors(db: sqlite3.Connection, places: Sequence[int], dim: int) -> tuple[Float32Array, SparseVectors]:
    """Vectors at the places, in their order; each segment is read once."""
    array = np.array(places, np.int64)
    dense = np.zeros((len(array), dim), np.float32)
    parts: list[SparseVectors] = []
    seen: list[Int64Array] = []
    for number in np.unique(array // ROWS_MAX).tolist():
        at = np.flatnonzero(array // ROWS_MAX == number)
        slots = array[at] % ROWS_MAX
        terms, starts, postings, rows = db.execute(
            "SELECT terms, starts, postings, rows FROM posting JOIN segment USING (number) WHERE number = ?", (number,)
        ).fetchone()
        dense[at] = vectors_at(db, number, slots, rows, dim)
        parts.append(take(unpack_sparse(terms, starts, postings, rows), slots))
        seen.append(at)
    order = np.argsort(np.concatenate(seen)) if seen else np.zeros(0, np.int64)
    return dense, take(join(parts), order)


def decode_metadata(document: str, text: str | None) -> Metadata:
    """Metadata as it was written: JSON has lists where we have tuples."""
    values: dict[str, MetadataValue] = json.loads(document)
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    if text is not None:
        values["text"] = text
    return values


def id_groups(ids: Sequence[RecordId]) -> Iterator[list[RecordId]]:
    """The ids, as many at a time as one statement takes."""
    rest = iter(ids)
    while some := list(islice(rest, IDS_AT_ONCE)):
        yield some


def by_segment(places: Iterator[int]) -> Iterator[tuple[int, list[int]]]:
    """Places as slots of segments, in order."""
    for number, group in groupby(sorted(places), key=lambda place: place // ROWS_MAX):
        yield number, [place % ROWS_MAX for place in group]


def vectors_at(db: sqlite3.Connection, number: int, slots: Int64Array, rows: int, dim: int) -> Float32Array:
    """Stored dense vectors of a segment at some slots, in their order; only the blocks that hold them are read."""
    first = number * ROWS_MAX
    blocks = np.unique(slots // BLOCK_ROWS)
    if len(blocks) * BLOCK_ROWS >= rows:
        query = "SELECT vectors FROM dense WHERE place >= ? AND place < ? ORDER BY place"
        read = db.execute(query, (first, first + ROWS_MAX))
    else:
        places = json.dumps((blocks * BLOCK_ROWS + first).tolist())
        read = db.execute(
            "SELECT vectors FROM dense WHERE place IN (SELECT value FROM json_each(?)) ORDER BY place", (places,)
        )
    matrix: Float32Array = np.frombuffer(b"".join(row[0] for row in read), "<f4").reshape(-1, dim)
    if len(slots) == len(matrix) == rows and (slots[:-1] < slots[1:]).all():
        return matrix
    if len(blocks) * BLOCK_ROWS < rows:
        slots = np.searchsorted(blocks, slots // BLOCK_ROWS) * BLOCK_ROWS + slots % BLOCK_ROWS
    return matrix[slots]


def reading_cost(slots: int, rows: int) -> float:
    """Microseconds that `vectors_at` takes for some slots spread over a segment, and the scores with it."""
    return min(slots * _BLOCK_COST, rows * _ROW_COST)


def check_dimension(namespace: Namespace, held: int, given: int) -> None:
    """Refuse vectors of another model; RejectedInput, code `dimension_mismatch`."""
    if held != given:
        raise RejectedInput(
            "dimension_mismatch",
            f"namespace {namespace} holds vectors of {held} dimensions, got {given}",
            remedy="Embed with the model that this namespace was built with, or open a new generation.",
        )
