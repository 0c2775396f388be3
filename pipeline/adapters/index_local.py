"""Vector index in one SQLite file, with graph files beside it once it is large.

Records are grouped into segments (`index_local_segments`): one row of a table holds the vectors of up to `segment_rows`
records as matrices, another each filter column (`index_local_facets`). That is what makes exact search fast: no row is
decoded one by one, and what may be found is known before anything is scored (`index_local_search`). Past a size,
`optimize` builds graphs over segments (`index_local_build`); what is newer than the last graph is searched exactly, so
nothing ever waits for one. Reading memory is bounded by one segment plus a score per allowed record; a graph's mapped
pages are the kernel's.

Every call but `optimize` is one transaction. Upserts create only. Deleted rows leave holes until a segment is half
empty; small segments are merged, so that their number stays within a factor of the records' number / `segment_rows`.
Segments under a graph stay as they are until a new graph takes them in.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.adapters.index_local_build import build, close_holes, due, graph_rows, only_builder, tidy
from pipeline.adapters.index_local_graph import Damaged, GraphRow, GraphSettings, OpenGraph
from pipeline.adapters.index_local_search import find
from pipeline.adapters.index_local_segments import ROWS_MAX, Int64Array, Segment, pack, take
from pipeline.adapters.index_local_tables import (
    BY_ID,
    IDS_AT_ONCE,
    SCHEMA,
    by_segment,
    check_dimension,
    decode_metadata,
    drop_segment,
    find_space,
    held_ids,
    id_groups,
    read_vectors,
    record_rows,
    rewrite,
    set_removed,
    write_segment,
)
from pipeline.errors import Corruption, PipelineError, Unavailable
from pipeline.queries import DenseQuery, GraphInfo, Search, SearchTrace
from pipeline.types import OPEN, Hit, Namespace, RecordBatch, RecordId, SparseVectors, StoredRecords

LAYOUT: Final = 2
"""Stored in the file; another number is another table layout."""
PAGE_BYTES: Final = 16_384
"""Vectors are long blobs: larger pages mean fewer links to follow; much larger ones make small writes dear."""
_SMALL_SEGMENTS_MAX: Final = 16
"""Segments less than half full that a namespace may have before they are merged."""


class LocalIndex:
    """Port `VectorIndex` over one file. Threads and processes may share the file; threads may share one instance."""

    creates_only = True

    def __init__(
        self,
        path: Path,
        *,
        segment_rows: int = 1_024,
        busy_timeout_ms: int = 30_000,
        graphs: GraphSettings = GraphSettings(),  # noqa: B008 - frozen
    ) -> None:
        """Open the file, or make it where there is none.

        Args:
            path: of the database; its folder must exist.
            segment_rows: records searched at a time; bounds memory to about `segment_rows * (dim + terms) * 8` bytes.
            busy_timeout_ms: how long a write waits for another writer before it raises `Unavailable`.
            graphs: when graphs are built, and how; their files stand in a folder beside `path`, named after it.
        """
        assert 1 <= segment_rows <= ROWS_MAX, "segment_rows must fit 16 bits"
        self._path = path
        self._segment_rows = segment_rows
        self._busy_timeout_ms = busy_timeout_ms
        self._lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._settings = graphs
        self._graph_folder = path.parent / f"{path.stem}.graphs"
        self._graphs: dict[str, OpenGraph] = {}
        self._opening = threading.Lock()
        with self._transaction(write=True) as db:
            _prepare(db, path)

    def settle(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Nothing to wait for: what was written is seen."""

    def upsert(self, batch: RecordBatch) -> None:
        """Create the records of a batch in one transaction; ids that exist, and repeats in the batch, are passed over."""
        first = {record: position for position, record in reversed(list(enumerate(batch.ids)))}
        if not first:
            return
        with self._transaction(write=False) as db:
            space = find_space(db, batch.namespace)
            held = held_ids(db, space[0], batch.ids) if space else set()
        # Packed before the write lock is taken; again inside only if another writer was first with one of the ids.
        positions = sorted(position for record, position in first.items() if record not in held)
        packed = _pack(batch, positions, self._segment_rows)
        if not packed:
            return
        with self._transaction(write=True) as db:
            dim = batch.dense.shape[1]
            db.execute("INSERT OR IGNORE INTO space (name, dim) VALUES (?, ?)", (batch.namespace, dim))
            space = find_space(db, batch.namespace)
            assert space is not None
            check_dimension(batch.namespace, space[1], dim)
            late = held_ids(db, space[0], [batch.ids[position] for position in positions])
            if late:
                fresh = [position for position in positions if batch.ids[position] not in late]
                packed = _pack(batch, fresh, self._segment_rows)
            for chosen, segment in packed:
                versions = np.full(len(chosen), batch.added, np.int64), np.full(len(chosen), OPEN, np.int64)
                metadata = [batch.metadata[position] for position in chosen.tolist()]
                number = write_segment(db, space[0], segment, versions, metadata)
                db.executemany(
                    "INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?)", record_rows(batch, chosen, space[0], number)
                )
            self._merge_small(db, space)

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        """Set `removed` on the ids that exist, in one transaction."""
        with self._transaction(write=True) as db:
            space = find_space(db, namespace)
            for some in id_groups(ids if space else ()):
                rows = db.execute(
                    f"UPDATE record SET removed = ? WHERE {BY_ID} RETURNING place",  # noqa: S608 - a constant
                    (removed, space[0] if space else 0, json.dumps(some)),
                ).fetchall()
                for number, slots in by_segment(place for (place,) in rows):
                    set_removed(db, number, slots, removed)

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Erase the ids that exist, in one transaction; segments that are half empty then are packed again."""
        with self._transaction(write=True) as db:
            space = find_space(db, namespace)
            if space is None:
                return
            touched: set[int] = set()
            for some in id_groups(ids):
                rows = db.execute(
                    f"DELETE FROM record WHERE {BY_ID} RETURNING place",  # noqa: S608 - a constant
                    (space[0], json.dumps(some)),
                ).fetchall()
                for number, slots in by_segment(place for (place,) in rows):
                    # No version is below 0, so that a hole is never visible.
                    set_removed(db, number, slots, 0)
                    db.execute("UPDATE segment SET live = live - ? WHERE number = ?", (len(slots), number))
                    touched.add(number)
            for number in sorted(touched):
                rows, live, graph = db.execute(
                    "SELECT rows, live, graph FROM segment WHERE number = ?", (number,)
                ).fetchone()
                if live * 2 <= rows and not graph:
                    rewrite(db, space, [number])

    def fetch(self, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool) -> StoredRecords:
        """What is stored for the ids, in their order; each segment is read once."""
        with self._transaction(write=False) as db:
            space = find_space(db, namespace)
            found: dict[str, tuple[Any, ...]] = {}
            columns = "id, place, added, removed" + (", metadata, text" if metadata else "")
            for some in id_groups(ids if space else ()):
                query = f"SELECT {columns} FROM record WHERE {BY_ID}"  # noqa: S608 - constants
                found.update((row[0], row) for row in db.execute(query, (space[0] if space else 0, json.dumps(some))))
            kept = [found[record] for record in ids if record in found]
            places = [row[1] for row in kept]
            dim = space[1] if space else 0
            dense, sparse = read_vectors(db, places, dim) if vectors else (np.zeros((len(kept), 0), np.float32), None)
        return StoredRecords(
            ids=tuple(RecordId(row[0]) for row in kept),
            added=tuple(row[2] for row in kept),
            removed=tuple(row[3] for row in kept),
            dense=dense,
            sparse=sparse
            or SparseVectors(np.zeros(len(kept) + 1, np.int64), np.zeros(0, np.uint32), dense[:0, 0:0].ravel()),
            metadata=tuple(decode_metadata(row[4], row[5]) if metadata else {} for row in kept),
        )

    def search(self, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
        """The k best records that version, scope and filter let through.

        Raises:
            RejectedInput: the query vector has another dimension than the namespace.
        """
        return self.explain(namespace, request)[0]

    def explain(self, namespace: Namespace, request: Search) -> tuple[tuple[Hit, ...], SearchTrace]:
        """As `search`, with how it was done."""
        broken: list[GraphRow] = []
        with self._transaction(write=False) as db:
            space = find_space(db, namespace)
            if space is None or request.k <= 0:
                return (), SearchTrace(0)
            if isinstance(request.query, DenseQuery):
                check_dimension(namespace, space[1], len(request.query.vector))
            rows = graph_rows(db, space[0])
            found = find(db, space, request, rows, lambda row: self._open_graph(row, broken))
        if broken:
            self._mark_unusable(broken)
        return found

    def optimize(self, namespace: Namespace, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
        """Build the graphs that are due. Memory: the new graph's own size, and a segment's vectors."""
        built = 0
        with only_builder(self._graph_folder) as chosen:
            while chosen and not stop():
                with self._transaction(write=False) as db:
                    wanted = due(db, namespace, self._settings, self._segment_rows, self._graph_folder)
                    tidy(db, self._graph_folder)
                if wanted is None:
                    break
                records = build(self._transaction, wanted, self._graph_folder, self._settings, report=report, stop=stop)
                built += records
                if not records:
                    break
        return built

    def graphs(self, namespace: Namespace) -> tuple[GraphInfo, ...]:
        """The namespace's graphs, the largest first."""
        with self._transaction(write=False) as db:
            space = find_space(db, namespace)
            rows = graph_rows(db, space[0]) if space else {}
            query = "SELECT graph, sum(live) FROM segment WHERE space = ? GROUP BY graph"
            live = dict(db.execute(query, (space[0],))) if space else {}
        found = (
            GraphInfo(
                row.records, live.get(row.number, 0), row.m, row.ef_construction, row.ef_search, row.recall, row.size,
                row.usable,
            )
            for row in rows.values()
        )  # fmt: skip
        return tuple(sorted(found, key=lambda graph: -graph.records))

    def scan(self, namespace: Namespace) -> Iterator[tuple[RecordId, int, int]]:
        """Every (id, added, removed) by id, a page at a time; each page sees the state of its moment."""
        last = ""
        while True:
            with self._transaction(write=False) as db:
                page = db.execute(
                    "SELECT id, added, removed FROM record WHERE space = (SELECT number FROM space WHERE name = ?)"
                    " AND id > ? ORDER BY id LIMIT ?",
                    (namespace, last, IDS_AT_ONCE),
                ).fetchall()
            for record, added, removed in page:
                yield RecordId(record), added, removed
            if len(page) < IDS_AT_ONCE:
                return
            last = page[-1][0]

    def drop(self, namespace: Namespace) -> None:
        """Erase a namespace. Its pages are used again for what is written next; the file doesn't shrink."""
        with self._transaction(write=True) as db:
            space = find_space(db, namespace)
            if space is None:
                return
            db.execute("DELETE FROM record WHERE space = ?", (space[0],))
            for (number,) in db.execute("SELECT number FROM segment WHERE space = ?", (space[0],)).fetchall():
                drop_segment(db, number)
            files = [file for (file,) in db.execute("SELECT file FROM graph WHERE space = ?", (space[0],))]
            db.execute("DELETE FROM graph WHERE space = ?", (space[0],))
            db.execute("DELETE FROM space WHERE number = ?", (space[0],))
        for file in files:
            self._graphs.pop(file, None)
            (self._graph_folder / file).unlink(missing_ok=True)

    def shrink(self, *, erase: bool = False) -> int:
        """See the port. Readers go on meanwhile; writers wait."""
        before = self._path.stat().st_size
        if erase:
            close_holes(self._transaction, self._graph_folder)
        self.close()
        try:
            with closing(sqlite3.connect(self._path, timeout=self._busy_timeout_ms / 1000, isolation_level=None)) as db:
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        return max(0, before - self._path.stat().st_size)

    def close(self) -> None:
        """Close the idle connections and graphs. A later call opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
            self._graphs.clear()
        for db in idle:
            db.close()

    def _open_graph(self, row: GraphRow, broken: list[GraphRow]) -> OpenGraph | None:
        """The mapped graph, checked once by this process; None, and noted, where it isn't as it was built."""
        with self._opening:
            if row.file not in self._graphs:
                self._graphs = {
                    name: held for name, held in self._graphs.items() if (self._graph_folder / name).exists()
                }
                try:
                    self._graphs[row.file] = OpenGraph(self._graph_folder / row.file, row)
                except Damaged:
                    broken.append(row)
                    return None
            return self._graphs[row.file]

    def _mark_unusable(self, rows: Sequence[GraphRow]) -> None:
        """Note damaged graphs, so that the next `optimize` replaces them; searches are right without this note."""
        with suppress(PipelineError), self._transaction(write=True) as db:
            db.executemany("UPDATE graph SET usable = 0 WHERE number = ?", [(row.number,) for row in rows])

    def _merge_small(self, db: sqlite3.Connection, space: tuple[int, int]) -> None:
        small = db.execute(
            "SELECT number, live FROM segment WHERE space = ? AND graph = 0 AND live * 2 < ? ORDER BY live, number",
            (space[0], self._segment_rows),
        ).fetchall()
        if len(small) <= _SMALL_SEGMENTS_MAX:
            return
        numbers, rows = [], 0
        for number, live in small:
            rows += live
            if rows > self._segment_rows:
                break
            numbers.append(number)
        rewrite(db, space, sorted(numbers))

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        """A connection of one's own for one transaction; connections are used again, so few are ever open."""
        db: sqlite3.Connection | None = None
        try:
            with self._lock:
                db = self._idle.pop() if self._idle else None
            db = db or _open(self._path, self._busy_timeout_ms)
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield db
            db.execute("COMMIT")
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        finally:
            if db is not None:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                with self._lock:
                    self._idle.append(db)


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables in an empty file; refuse another layout."""
    found = db.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        for statement in filter(str.strip, SCHEMA.split(";")):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {LAYOUT}")
    elif found != LAYOUT:
        raise Corruption(
            "index_layout",
            f"{path} has layout {found}, this program reads {LAYOUT}",
            remedy="Use the version of Lamina that wrote it, or delete the file and curate again.",
        )


def _pack(batch: RecordBatch, positions: Sequence[int], segment_rows: int) -> list[tuple[Int64Array, Segment]]:
    chosen = np.array(positions, np.int64)
    parts = [chosen[at : at + segment_rows] for at in range(0, len(chosen), segment_rows)]
    return [(part, pack(batch.dense[part], take(batch.sparse, part))) for part in parts]


def _open(path: Path, busy_timeout_ms: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=busy_timeout_ms / 1000, isolation_level=None, check_same_thread=False)
    db.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    # No memory map: mapped pages count as this process's memory, which must not grow with the corpus.
    db.execute("PRAGMA mmap_size = 0")
    return db


def _translated(error: sqlite3.Error, path: Path) -> PipelineError:
    """Our error for SQLite's; its primary codes are at https://sqlite.org/rescode.html."""
    primary = getattr(error, "sqlite_errorcode", 0) & 0xFF
    message = f"{path}: {error}"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return Unavailable("index_busy", message, remedy="Another process is writing; try again.")
    if primary in (
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
    ):
        return Unavailable(
            "index_unavailable", message, remedy="Check that the disk has room and the folder can be written."
        )
    return Corruption("index_corrupt", message, remedy="Restore it, or delete it and run: lamina fsck CONTEXT --repair")
