"""Vector index in dicts: the reference that every other index must agree with, and the test double."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from pipeline.errors import RejectedInput
from pipeline.filters import fields_of, in_scope, matches
from pipeline.queries import DenseQuery, GraphInfo, Search, SearchTrace
from pipeline.types import (
    OPEN,
    Float32Array,
    Hit,
    Metadata,
    Namespace,
    RecordBatch,
    RecordId,
    SparseVectors,
    StoredRecords,
)


@dataclass(frozen=True, slots=True)
class _Record:
    added: int
    removed: int
    dense: Float32Array
    indices: npt.NDArray[np.uint32]
    values: Float32Array
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class _Space:
    dim: int
    records: dict[RecordId, _Record] = field(default_factory=dict)


class MemoryIndex:
    """Port `VectorIndex`. Threads may share one instance."""

    creates_only = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._spaces: dict[Namespace, _Space] = {}

    def settle(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Nothing to wait for: what was written is seen."""

    def upsert(self, batch: RecordBatch) -> None:
        """Create the records of a batch; ids that exist are passed over."""
        if not batch.ids:
            return
        with self._lock:
            space = self._spaces.get(batch.namespace) or _Space(batch.dense.shape[1])
            _check_dimension(batch.namespace, space.dim, batch.dense.shape[1])
            self._spaces[batch.namespace] = space
            for position, record in enumerate(batch.ids):
                indices, values = batch.sparse.row(position)
                dense = batch.dense[position].copy()
                metadata = dict(batch.metadata[position])
                space.records.setdefault(
                    record, _Record(batch.added, OPEN, dense, indices.copy(), values.copy(), metadata)
                )

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        """Set `removed` on the ids that exist."""
        with self._lock:
            records = self._records(namespace)
            for record in ids:
                if record in records:
                    records[record] = replace(records[record], removed=removed)

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Erase the ids that exist."""
        with self._lock:
            for record in ids:
                self._records(namespace).pop(record, None)

    def fetch(self, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool) -> StoredRecords:
        """What is stored for the ids, in their order."""
        with self._lock:
            space = self._spaces.get(namespace) or _Space(0)
            kept = [(record, space.records[record]) for record in ids if record in space.records]
        rows = [row for _, row in kept]
        shown = rows if vectors else []
        dense = np.zeros((len(kept), space.dim if vectors else 0), np.float32)
        for position, row in enumerate(shown):
            dense[position] = row.dense
        lengths = [len(row.indices) if vectors else 0 for row in rows]
        return StoredRecords(
            ids=tuple(record for record, _ in kept),
            added=tuple(row.added for row in rows),
            removed=tuple(row.removed for row in rows),
            dense=dense,
            sparse=SparseVectors(
                indptr=np.cumsum([0, *lengths], dtype=np.int64),
                indices=np.concatenate([np.zeros(0, np.uint32), *(row.indices for row in shown)]),
                values=np.concatenate([np.zeros(0, np.float32), *(row.values for row in shown)]),
            ),
            metadata=tuple(dict(row.metadata) if metadata else {} for row in rows),
        )

    def search(self, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
        """Exact search over every record that is visible, in scope and passes the filter.

        Raises:
            RejectedInput: the query vector has another dimension than the namespace.
        """
        return self.explain(namespace, request)[0]

    def explain(self, namespace: Namespace, request: Search) -> tuple[tuple[Hit, ...], SearchTrace]:
        """As `search`; everything is scored one by one."""
        with self._lock:
            space = self._spaces.get(namespace)
            if space is None or request.k <= 0:
                return (), SearchTrace(0)
            if isinstance(request.query, DenseQuery):
                _check_dimension(namespace, space.dim, len(request.query.vector))
            chosen = [(record, row) for record, row in space.records.items() if _wanted(row, request)]
            unknown = _unknown(space.records.values(), request)
        scored = (Hit(record, value) for record, row in chosen if (value := _score(row, request)) is not None)
        hits = tuple(sorted(scored, key=lambda hit: (-hit.score, hit.id))[: request.k])
        counted = len(chosen) if isinstance(request.query, DenseQuery) else 0
        return hits, SearchTrace(len(chosen), exact=len(chosen), distances=counted, unknown_fields=unknown)

    def optimize(self, namespace: Namespace, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
        """Nothing is ever due."""
        del namespace, report, stop
        return 0

    def graphs(self, namespace: Namespace) -> tuple[GraphInfo, ...]:
        """None: there are no graphs in memory."""
        del namespace
        return ()

    def scan(self, namespace: Namespace) -> Iterator[tuple[RecordId, int, int]]:
        """Every (id, added, removed) of this moment, by id."""
        with self._lock:
            rows = sorted((record, row.added, row.removed) for record, row in self._records(namespace).items())
        yield from rows

    def drop(self, namespace: Namespace) -> None:
        """Erase a namespace."""
        with self._lock:
            self._spaces.pop(namespace, None)

    def shrink(self, *, erase: bool = False) -> int:  # noqa: ARG002  # nothing is left to erase
        """See the port: there is no disk."""
        return 0

    def close(self) -> None:
        """Nothing is held; the records stay, as a file's would."""

    def _records(self, namespace: Namespace) -> dict[RecordId, _Record]:
        space = self._spaces.get(namespace)
        return space.records if space else {}


def _unknown(rows: Iterable[_Record], request: Search) -> tuple[str, ...]:
    seen = {name for row in rows if _wanted(row, replace(request, filter=None)) for name in row.metadata}
    return tuple(sorted(fields_of(request.filter) - seen)) if request.filter else ()


def _wanted(row: _Record, request: Search) -> bool:
    return (
        row.added <= request.version < row.removed
        and (not request.scope or in_scope(str(row.metadata.get("source_path", "")), request.scope))
        and (request.filter is None or matches(request.filter, row.metadata))
    )


def _score(row: _Record, request: Search) -> float | None:
    """None where a sparse query shares no term with the record."""
    if isinstance(request.query, DenseQuery):
        # The local index's function, so that scores agree to the last bit and ties mean the same.
        return float(np.einsum("ij,j->i", row.dense[None, :], request.query.vector)[0])
    weights = request.query.weights
    shared = [(term, at) for at, term in enumerate(row.indices.tolist()) if term in weights]
    return sum(float(row.values[at]) * weights[term] for term, at in shared) if shared else None


def _check_dimension(namespace: Namespace, held: int, given: int) -> None:
    if held != given:
        raise RejectedInput(
            "dimension_mismatch",
            f"namespace {namespace} holds vectors of {held} dimensions, got {given}",
            remedy="Embed with the model that this namespace was built with, or open a new generation.",
        )
