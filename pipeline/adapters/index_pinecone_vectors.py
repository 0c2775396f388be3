"""Pinecone's vectors API, for indexes whose schema has no fields but `_values` and `_sparse_values`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from pipeline.adapters.index_pinecone_records import REMOVED, Held, Layout, Wired
from pipeline.adapters.pinecone_client import bad_reply
from pipeline.queries import DenseQuery, SparseQuery

_URL_BYTES_MAX: Final = 6_000
"""Ids of one fetch stand in its address, which proxies cut at 8 KB."""
_FETCHED_MAX: Final = 100
"""Fetched together: values and metadata always come along, a few megabytes."""
LIST_PAGE: Final = 100


class Vectors:
    """The requests of one index; each method makes one."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    updates_at_once: Final = 1
    """Records in one update."""

    def upsert(self, index: Any, namespace: str, records: Sequence[Wired]) -> int:
        """Write records whole. How many the service took."""
        vectors = []
        for record in records:
            vector: dict[str, Any] = {"id": record.id, "values": record.dense, "metadata": record.fields}
            if record.sparse is not None:
                vector["sparse_values"] = {"indices": record.sparse[0], "values": record.sparse[1]}
            vectors.append(vector)
        # Never with `batch_size`, which reports a batch that failed as a number in a reply that looks well.
        return int(index.upsert(vectors=vectors, namespace=namespace).upserted_count)

    def search(
        self,
        index: Any,
        namespace: str,
        query: DenseQuery | SparseQuery,
        top_k: int,
        filter: Mapping[str, Any] | None,  # noqa: A002 - the word of both sides
        fields: Sequence[str] = (),
    ) -> list[tuple[str, float, Mapping[str, Any]]]:
        """(id, score, all fields where any is asked for) as the service orders them."""
        asked: dict[str, Any]
        if isinstance(query, DenseQuery):
            asked = {"vector": query.vector.tolist()}
        else:
            asked = {"sparse_vector": {"indices": list(query.weights), "values": list(query.weights.values())}}
        reply = index.query(
            namespace=namespace, top_k=top_k, filter=filter or None, include_metadata=bool(fields), **asked
        )
        _check(reply.namespace, namespace, "query")
        return [(match.id, float(match.score), match.metadata or {}) for match in reply.matches]

    def fetch_blocks(self, ids: Sequence[str], *, vectors: bool, metadata: bool) -> list[Sequence[str]]:
        """The ids in groups that one request fetches."""
        del vectors, metadata
        groups: list[Sequence[str]] = []
        group: list[str] = []
        size = 0
        for id_ in ids:
            width = len(quote(id_, safe="")) + 5
            if group and (len(group) == _FETCHED_MAX or size + width > _URL_BYTES_MAX):
                groups.append(group)
                group, size = [], 0
            group.append(id_)
            size += width
        return [*groups, group] if group else groups

    def fetch(
        self, index: Any, namespace: str, ids: Sequence[str], *, vectors: bool, metadata: bool
    ) -> dict[str, Held]:
        """What is there of the ids."""
        del vectors, metadata
        reply = index.fetch(ids=list(ids), namespace=namespace)
        _check(reply.namespace, namespace, "fetch")
        held = {}
        for id_, vector in reply.vectors.items():
            sparse = vector.sparse_values
            pair = (sparse.indices, sparse.values) if sparse is not None and sparse.indices else None
            held[id_] = Held(vector.values, pair, vector.metadata or {})
        return held

    def stamp(self, index: Any, namespace: str, ids: Sequence[str], removed: int) -> None:
        """Set `removed` if the record exists."""
        (id_,) = ids
        index.update(id=id_, namespace=namespace, set_metadata={REMOVED: removed})

    def delete(self, index: Any, namespace: str, ids: Sequence[str]) -> None:
        """Erase those that exist."""
        index.delete(ids=list(ids), namespace=namespace)

    def page(self, index: Any, namespace: str, token: str | None) -> tuple[list[str], str | None]:
        """The next ids in order, and where to go on."""
        reply = index.list_paginated(namespace=namespace, limit=LIST_PAGE, pagination_token=token)
        _check(reply.namespace, namespace, "list")
        return [row.id for row in reply.vectors], reply.pagination.next if reply.pagination else None


def _check(found: str, asked: str, what: str) -> None:
    """The client takes any object for a reply, an empty one as well; a real one names its namespace."""
    if found != asked:
        raise bad_reply(what, "the reply is about another namespace, or none")
