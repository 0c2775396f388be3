"""Vector index on Pinecone, through its official client: one index for all contexts, a namespace for each collection.

What is stored stands in `index_pinecone_records`, how filters are put in `index_pinecone_filter`. A dense and a sparse
search are one request each, over the two vector fields of one index. A second one follows where the service can't say
what the port promises: which of many equal records have the smallest ids, and, where fewer than `k` records lie nearer
than a right angle, which have a dense vector of zeros. No search gives more than 10,000 records.

Three promises of the port are weaker here:

- Nothing on Pinecone is written on condition that it isn't there. An upsert of an id that exists writes it again. Ids are
  write-once, so that the content is the same; but a late repeat sets `removed` back to OPEN. Readers check the ledger, and
  the sweep stamps again (`publish.restamp`). Fetching first would cost a read for each write and still leave a gap.
- A call is atomic by request, not as a whole: one that fails may have written some of its records. It may be repeated.
- Readers see a write some time after it is durable. A read waits until it sees all that this process wrote to the
  namespace; `settle` waits for other writers' records too. Past the deadline that is `Unavailable`, code `not_fresh`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

import numpy as np

from pipeline.adapters.index_pinecone_fresh import GONE, Writes
from pipeline.adapters.index_pinecone_open import Opened, PineconeSettings, check_dimension, create, find
from pipeline.adapters.index_pinecone_records import (
    Held,
    Layout,
    blocks,
    dense_of,
    interval,
    metadata_of,
    sparse_of,
    storable_id,
    wired,
)
from pipeline.adapters.index_pinecone_search import ranked, unknown_fields
from pipeline.adapters.index_pinecone_wait import Deadline, Pace, await_ids, await_writes, side_by_side
from pipeline.adapters.pinecone_client import PineconeClient, bad_reply
from pipeline.errors import Unavailable
from pipeline.queries import DenseQuery, GraphInfo, Search, SearchTrace
from pipeline.types import OPEN, Hit, Metadata, Namespace, RecordBatch, RecordId, SparseVectors, StoredRecords

_IDS_AT_ONCE: Final = 1_000
_NOTHING: Final = RecordId("lamina_nothing")
"""An id that no record has: deleting it changes nothing, and its reply names the end of the namespace's log."""


class PineconeIndex:
    """Port `VectorIndex`. Threads may share one instance; a forked child opens connections of its own."""

    creates_only = False

    def __init__(self, settings: PineconeSettings) -> None:
        """Nothing is imported or connected yet; the first write makes the index where there is none."""
        self._settings = settings
        self._client = PineconeClient(settings.account)
        self._held: Opened | None = None
        self._pid = os.getpid()
        self._writes, self._pace = Writes(), Pace(settings.updates_per_s)

    def upsert(self, batch: RecordBatch) -> None:
        """Write the records of a batch; see the module docstring on ids that exist.

        Raises:
            RejectedInput: a record that Pinecone can't hold, by id and field, or another dimension. Nothing is written.
        """
        if not batch.ids:
            return
        space, dim = batch.namespace, batch.dense.shape[1]
        opened = self._held = self._opened() or create(self._client, self._settings, dim)
        check_dimension(self._settings, opened.layout.dim, dim)
        records = list(wired(batch, opened.layout))
        self._make_room(opened, space, batch.ids)
        for block in blocks(iter(records)):
            answer = opened.call("upsert", lambda index, part=block: opened.family.upsert(index, space, part))  # type: ignore[misc]
            self._own_writes().note(space, answer.written, dict.fromkeys((record.id for record in block), OPEN))
            if answer.value != len(block):
                raise Unavailable("partial_write", f"Pinecone took {answer.value} of {len(block)} records")

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        """Set `removed` on the ids that exist, no faster than the service allows."""
        opened, wanted = self._opened(), _storable(ids)
        if opened is None:
            return
        size = max(1, min(opened.family.updates_at_once, int(self._settings.updates_per_s / 2)))
        self._own_writes()

        def update(group: Sequence[RecordId]) -> None:
            self._pace.wait(namespace, len(group))
            self._write(opened, namespace, group, removed)

        side_by_side(update, [wanted[at : at + size] for at in range(0, len(wanted), size)])

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Erase the ids that exist."""
        opened, wanted = self._opened(), _storable(ids)
        if opened is None:
            return
        for at in range(0, len(wanted), _IDS_AT_ONCE):
            self._write(opened, namespace, wanted[at : at + _IDS_AT_ONCE], GONE)

    def fetch(self, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool) -> StoredRecords:
        """What is stored for the ids, in their order."""
        opened = self._opened()
        if opened is None:
            return _stored([], None, vectors=False, metadata=False)
        self._await(opened, namespace)
        held = _fetched(opened, namespace, _storable(ids), vectors=vectors, metadata=metadata)
        kept = [(id_, held[id_]) for id_ in ids if id_ in held]
        return _stored(kept, opened.layout, vectors=vectors, metadata=metadata)

    def search(self, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
        """The best records; at most 10,000.

        Raises:
            RejectedInput: another dimension than the index's, or code `bad_filter`: an ordering of texts.
        """
        opened = self._opened()
        if opened is None:
            return ()
        if isinstance(request.query, DenseQuery):
            check_dimension(self._settings, opened.layout.dim, len(request.query.vector))
        self._await(opened, namespace)
        return ranked(opened, namespace, request)

    def explain(self, namespace: Namespace, request: Search) -> tuple[tuple[Hit, ...], SearchTrace]:
        """As `search`. Of its work the service tells nothing: `records` are the hits, at least so many were let through.

        `unknown_fields` is looked up where nothing was found, by a request for each field of the filter.
        """
        hits, opened = self.search(namespace, request), self._opened()
        unknown = () if hits or opened is None or request.k <= 0 else unknown_fields(opened, namespace, request)
        return hits, SearchTrace(len(hits), unknown_fields=unknown)

    def optimize(self, namespace: Namespace, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
        """Nothing is ever due: the service does it by itself."""
        del namespace, report, stop
        return 0

    def graphs(self, namespace: Namespace) -> tuple[GraphInfo, ...]:
        """None that the service tells of."""
        del namespace
        return ()

    def scan(self, namespace: Namespace) -> Iterator[tuple[RecordId, int, int]]:
        """Every (id, added, removed), a page of ids at a time; what is written meanwhile may or may not be seen."""
        opened = self._opened()
        if opened is None:
            return
        self._await(opened, namespace)
        token, last = None, ""
        while True:
            page = opened.there("list", lambda index, at=token: opened.family.page(index, namespace, at))  # type: ignore[misc]
            if page is None:
                return
            ids, token = page.value
            if ids != sorted(ids) or (ids and ids[0] <= last):
                raise bad_reply("list", "the ids are not in order")
            held = _fetched(opened, namespace, [RecordId(id_) for id_ in ids], vectors=False, metadata=False)
            for id_ in ids:
                if id_ in held:  # else it was erased between the two requests
                    yield (RecordId(id_), *interval(id_, held[id_].fields))
            last = ids[-1] if ids else last
            if not token:
                return

    def drop(self, namespace: Namespace) -> None:
        """Erase the namespace, and wait until it is gone: what is written to it afterwards stays."""
        opened = self._opened()
        if opened is None:
            return
        self._await(opened, namespace)  # a namespace that isn't shown yet can't be deleted
        opened.there("delete namespace", lambda index: index.delete_namespace(name=namespace))
        deadline = Deadline(self._settings.fresh_deadline_s, f"that namespace {namespace} is gone")
        while opened.there("describe namespace", lambda index: index.describe_namespace(name=namespace)) is not None:
            deadline.pause()

    def settle(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Return once searches show everything that this process wrote, and that anyone wrote to `ids`.

        May be repeated; changes nothing.

        Args:
            namespace: where.
            ids: records whose writes, each of them accepted, may be other processes'; none, where there are no such.

        Raises:
            Unavailable: code `not_fresh`: not within the deadline.
        """
        opened = self._opened()
        if opened is None:
            return
        if ids:
            end = opened.there("settle", lambda index: opened.family.delete(index, namespace, [_NOTHING]))
            if end is not None and end.written is not None:
                self._own_writes().note(namespace, end.written, {})
            else:  # without a position there is one way to know: to look for each
                await_ids(opened, namespace, _storable(ids), self._settings.fresh_deadline_s)
        self._await(opened, namespace)

    def shrink(self, *, erase: bool = False) -> int:  # noqa: ARG002  # nothing is left to erase
        """See the port: room is the service's."""
        return 0

    def close(self) -> None:
        """End idle connections; the next call opens new ones."""
        self._client.close()

    def _opened(self) -> Opened | None:
        if self._held is None:
            self._held = find(self._client, self._settings)
        return self._held

    def _own_writes(self) -> Writes:
        if self._pid != os.getpid():  # what the parent wrote is the parent's to wait for
            self._writes, self._pace = Writes(), Pace(self._settings.updates_per_s)
            self._pid = os.getpid()
        return self._writes

    def _await(self, opened: Opened, namespace: Namespace) -> None:
        await_writes(opened, namespace, self._own_writes(), self._settings.fresh_deadline_s)

    def _make_room(self, opened: Opened, namespace: Namespace, made: Sequence[RecordId] = ()) -> None:
        """Before a write: don't get too far ahead of what can be seen."""
        if self._own_writes().in_the_way(namespace, made):
            self._await(opened, namespace)

    def _write(self, opened: Opened, namespace: Namespace, ids: Sequence[RecordId], state: int) -> None:
        def use(index: Any) -> None:
            if state == GONE:
                opened.family.delete(index, namespace, ids)
            else:
                opened.family.stamp(index, namespace, ids, state)

        self._make_room(opened, namespace)
        answer = opened.there("delete" if state == GONE else "update", use)
        if answer is None and self._own_writes().unseen(namespace) is not None:
            self._await(opened, namespace)  # this process wrote to the namespace, which isn't shown yet
            answer = opened.there("delete" if state == GONE else "update", use)
        if answer is not None:
            self._own_writes().note(namespace, answer.written, dict.fromkeys(ids, state))


def _storable(ids: Sequence[RecordId]) -> list[RecordId]:
    """Each id once; those that Pinecone can't hold don't exist there."""
    return [id_ for id_ in dict.fromkeys(ids) if storable_id(id_)]


def _fetched(
    opened: Opened, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool
) -> dict[str, Held]:
    family = opened.family

    def fetch(block: Sequence[str]) -> dict[str, Held]:
        answer = opened.there(
            "fetch", lambda index: family.fetch(index, namespace, block, vectors=vectors, metadata=metadata)
        )
        return {} if answer is None else answer.value

    found: dict[str, Held] = {}
    for part in side_by_side(fetch, family.fetch_blocks(ids, vectors=vectors, metadata=metadata)):
        found |= part
    return found


def _stored(
    kept: Sequence[tuple[RecordId, Held]], layout: Layout | None, *, vectors: bool, metadata: bool
) -> StoredRecords:
    dim = layout.dim if layout and vectors else 0
    dense = np.zeros((len(kept), dim), np.float32)
    rows = [(np.zeros(0, np.uint32), np.zeros(0, np.float32))] * len(kept)
    for at, (id_, row) in enumerate(kept if vectors else []):
        vector = dense_of(row, dim)
        if vector.shape != (dim,):
            raise bad_reply("fetch", f"record {id_} came with {len(vector)} numbers of {dim}")
        dense[at], rows[at] = vector, sparse_of(row)
    intervals = [interval(id_, row.fields) for id_, row in kept]
    empty: Metadata = {}
    return StoredRecords(
        ids=tuple(id_ for id_, _ in kept),
        added=tuple(added for added, _ in intervals),
        removed=tuple(removed for _, removed in intervals),
        dense=dense,
        sparse=SparseVectors(
            indptr=np.array(list(accumulate((len(terms) for terms, _ in rows), initial=0)), np.int64),
            indices=np.concatenate([np.zeros(0, np.uint32), *(terms for terms, _ in rows)]),
            values=np.concatenate([np.zeros(0, np.float32), *(weights for _, weights in rows)]),
        ),
        metadata=tuple(metadata_of(row.fields, layout) if layout and metadata else empty for _, row in kept),
    )
