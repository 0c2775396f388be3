"""The tables of the local index, and what is read and written in one transaction; `index_local` opens and ends those.

space    a namespace and its dimension
segment  rows, live rows, and the versions of its rows as arrays: the search's copy of record.added and .removed
dense, posting   the vectors of a segment (see `index_local_segments`); never change
record   id, versions, path and metadata of one row; `place` = segment * 65536 + slot
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipeline.adapters.index_local_segments import (
    ROWS_MAX,
    Int64Array,
    Segment,
    dense_scores,
    join,
    pack,
    sparse_scores,
    take,
    unpack_sparse,
)
from pipeline.errors import RejectedInput
from pipeline.filters import Filter, fields_of, in_scope, matches
from pipeline.ports import DenseQuery, Search, SparseQuery
from pipeline.types import (
    OPEN,
    Float32Array,
    Hit,
    Metadata,
    MetadataValue,
    Namespace,
    RecordBatch,
    RecordId,
    SparseVectors,
)

IDS_AT_ONCE: Final = 1_000
"""Ids in one statement."""
_CANDIDATES_FIRST: Final = 256
_CANDIDATES_MAX: Final = 4_096
"""Metadata is read for the best candidates first, in groups that double between these bounds."""

SCHEMA: Final = """
CREATE TABLE space (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, dim INTEGER NOT NULL);
CREATE TABLE segment (
    number INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, rows INTEGER NOT NULL, live INTEGER NOT NULL,
    added BLOB NOT NULL, removed BLOB NOT NULL);
CREATE INDEX segment_space ON segment (space);
CREATE TABLE dense (number INTEGER PRIMARY KEY, vectors BLOB NOT NULL);
CREATE TABLE posting (number INTEGER PRIMARY KEY, terms BLOB NOT NULL, starts BLOB NOT NULL, postings BLOB NOT NULL);
CREATE TABLE record (
    place INTEGER PRIMARY KEY, space INTEGER NOT NULL, id TEXT NOT NULL, added INTEGER NOT NULL, removed INTEGER NOT NULL,
    source_path TEXT NOT NULL, metadata TEXT NOT NULL, text TEXT, UNIQUE (space, id));
CREATE INDEX record_path ON record (space, source_path);
"""
BY_ID: Final = "space = ? AND id IN (SELECT value FROM json_each(?))"
_BY_PLACE: Final = "place IN (SELECT value FROM json_each(?))"


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
        path = str(metadata.get("source_path", ""))
        # The text is most of the metadata, and filters hardly ever ask for it: it stands apart.
        text = metadata.pop("text") if isinstance(metadata.get("text"), str) else None
        document = json.dumps(metadata, separators=(",", ":"))
        yield number * ROWS_MAX + slot, space, batch.ids[position], batch.added, OPEN, path, document, text


def write_segment(db: sqlite3.Connection, space: int, segment: Segment, versions: tuple[Int64Array, Int64Array]) -> int:
    """Store vectors with the (added, removed) of their rows, all of them live. Returns the segment's number."""
    rows = len(versions[0])
    values = (space, rows, rows, versions[0].astype("<i8").tobytes(), versions[1].astype("<i8").tobytes())
    cursor = db.execute("INSERT INTO segment (space, rows, live, added, removed) VALUES (?, ?, ?, ?, ?)", values)
    number = int(cursor.lastrowid or 0)
    db.execute("INSERT INTO dense VALUES (?, ?)", (number, segment.dense))
    db.execute("INSERT INTO posting VALUES (?, ?, ?, ?)", (number, segment.terms, segment.starts, segment.postings))
    return number


def drop_segment(db: sqlite3.Connection, number: int) -> None:
    """Erase a segment's vectors and versions, not its records."""
    db.execute("DELETE FROM segment WHERE number = ?", (number,))
    db.execute("DELETE FROM dense WHERE number = ?", (number,))
    db.execute("DELETE FROM posting WHERE number = ?", (number,))


def set_removed(db: sqlite3.Connection, number: int, slots: list[int], removed: int) -> None:
    """Bring the segment's array up to date with `record.removed`."""
    (raw,) = db.execute("SELECT removed FROM segment WHERE number = ?", (number,)).fetchone()
    array = np.frombuffer(raw, "<i8").copy()
    array[slots] = removed
    db.execute("UPDATE segment SET removed = ? WHERE number = ?", (array.tobytes(), number))


def rewrite(db: sqlite3.Connection, space: tuple[int, int], numbers: Sequence[int]) -> None:
    """Replace segments by one without holes, or by none where nothing lives."""
    bounds = [(number * ROWS_MAX, (number + 1) * ROWS_MAX) for number in numbers]
    query = "SELECT place, added, removed FROM record WHERE place >= ? AND place < ? ORDER BY place"
    kept = [row for bound in bounds for row in db.execute(query, bound)]
    if kept:
        places = [row[0] for row in kept]
        versions = np.array([row[1] for row in kept], np.int64), np.array([row[2] for row in kept], np.int64)
        number = write_segment(db, space[0], pack(*read_vectors(db, places, space[1])), versions)
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
        matrix, terms, starts, postings = db.execute(
            "SELECT vectors, terms, starts, postings FROM dense JOIN posting USING (number) WHERE number = ?", (number,)
        ).fetchone()
        rows = np.frombuffer(matrix, "<f4").reshape(-1, dim)
        dense[at] = rows[slots]
        parts.append(take(unpack_sparse(terms, starts, postings, len(rows)), slots))
        seen.append(at)
    order = np.argsort(np.concatenate(seen)) if seen else np.zeros(0, np.int64)
    return dense, take(join(parts), order)


def slots_in_scope(db: sqlite3.Connection, space: int, prefixes: Sequence[str]) -> dict[int, list[int]]:
    """Slots under the prefixes, by segment. The rule is applied to each distinct path once, then joined by an index."""
    paths = db.execute("SELECT DISTINCT source_path FROM record WHERE space = ?", (space,))
    wanted = [path for (path,) in paths if in_scope(path, prefixes)]
    query = "SELECT place FROM record WHERE space = ? AND source_path IN (SELECT value FROM json_each(?))"
    return dict(by_segment(place for (place,) in db.execute(query, (space, json.dumps(wanted)))))


def score(
    db: sqlite3.Connection, space: tuple[int, int], request: Search, allowed: Mapping[int, list[int]] | None
) -> tuple[Int64Array, npt.NDArray[np.float64]]:
    """Place and score of every record that may be a hit."""
    places, scores = [np.zeros(0, np.int64)], [np.zeros(0)]
    segments = db.execute("SELECT number, added, removed FROM segment WHERE space = ? ORDER BY number", (space[0],))
    for number, added, removed in segments:
        visible = np.frombuffer(added, "<i8") <= request.version
        visible &= request.version < np.frombuffer(removed, "<i8")
        if allowed is not None:
            inside = np.zeros_like(visible)
            inside[allowed.get(number, [])] = True
            visible &= inside
        if not visible.any():
            continue
        if isinstance(request.query, DenseQuery):
            (raw,) = db.execute("SELECT vectors FROM dense WHERE number = ?", (number,)).fetchone()
            matrix = np.frombuffer(raw, "<f4").reshape(-1, space[1])
            found = dense_scores(matrix, request.query.vector).astype(np.float64)
        else:
            found, touched = _sparse(db, number, request.query, len(visible))
            visible &= touched
        slots = np.flatnonzero(visible)
        places.append(slots + number * ROWS_MAX)
        scores.append(found[slots])
    return np.concatenate(places), np.concatenate(scores)


def _sparse(
    db: sqlite3.Connection, number: int, query: SparseQuery, rows: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    terms, starts = db.execute("SELECT terms, starts FROM posting WHERE number = ?", (number,)).fetchone()
    with db.blobopen("posting", "postings", number, readonly=True) as blob:

        def read(offset: int, length: int) -> bytes:
            blob.seek(offset)
            return blob.read(length)

        return sparse_scores(terms, starts, read, query.weights, rows)


def best(
    db: sqlite3.Connection, places: Int64Array, scores: npt.NDArray[np.float64], k: int, condition: Filter | None
) -> tuple[Hit, ...]:
    """The k best that pass the filter, ties by id."""
    if condition is None and len(scores) > k:
        # Only what reaches the k-th score can be among the k best; ties at the cut all stay.
        reach = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        places, scores = places[reach], scores[reach]
    order = np.argsort(-scores, kind="stable")
    hits: list[Hit] = []
    at, size = 0, _CANDIDATES_FIRST
    while at < len(order) and (len(hits) < k or scores[order[at]] >= hits[-1].score):
        group = order[at : at + size]
        known = _identify(db, places[group].tolist(), condition)
        new = (
            Hit(known[place], score)
            for place, score in zip(places[group].tolist(), scores[group].tolist(), strict=True)
            if place in known
        )
        hits = sorted([*hits, *new], key=lambda hit: (-hit.score, hit.id))[:k]
        at, size = at + size, min(size * 2, _CANDIDATES_MAX)
    return tuple(hits)


def _identify(db: sqlite3.Connection, places: list[int], condition: Filter | None) -> dict[int, RecordId]:
    """Ids of the places whose metadata pass."""
    if condition is None:
        query = f"SELECT place, id FROM record WHERE {_BY_PLACE}"  # noqa: S608 - a constant
        return {place: RecordId(record) for place, record in db.execute(query, (json.dumps(places),))}
    text = "text" if "text" in fields_of(condition) else "NULL"
    query = f"SELECT place, id, metadata, {text} FROM record WHERE {_BY_PLACE}"  # noqa: S608 - constants
    rows = db.execute(query, (json.dumps(places),))
    return {row[0]: RecordId(row[1]) for row in rows if matches(condition, decode_metadata(row[2], row[3]))}


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


def check_dimension(namespace: Namespace, held: int, given: int) -> None:
    """Refuse vectors of another model; RejectedInput, code `dimension_mismatch`."""
    if held != given:
        raise RejectedInput(
            "dimension_mismatch",
            f"namespace {namespace} holds vectors of {held} dimensions, got {given}",
            remedy="Embed with the model that this namespace was built with, or open a new generation.",
        )
