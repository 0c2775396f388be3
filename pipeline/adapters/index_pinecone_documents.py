"""Pinecone's documents API, for indexes whose schema names its fields. Each function makes one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipeline.adapters.index_pinecone_records import ADDED, REMOVED, ZERO, Held, Layout, Wired
from pipeline.adapters.pinecone_client import bad_reply
from pipeline.queries import DenseQuery, SparseQuery

_STAMPS: Final = (ADDED, REMOVED)
_FETCHED_MAX: Final = 1_000
_VECTORS_MAX: Final = 100
"""Fetched together: a few megabytes."""
_METADATA_MAX: Final = 100
LIST_PAGE: Final = 100


class Documents:
    """The requests of one index."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    updates_at_once: Final = 1_000
    """Records in one update."""

    def upsert(self, index: Any, namespace: str, records: Sequence[Wired]) -> int:
        """Write records whole. How many the service took."""
        documents = []
        for record in records:
            document = {"_id": record.id, self.layout.dense: record.dense, **record.fields}
            if record.sparse is not None:
                document[self.layout.sparse] = _sparse(*record.sparse)
            documents.append(document)
        return int(index.documents.upsert(namespace=namespace, documents=documents).upserted_count)

    def search(
        self,
        index: Any,
        namespace: str,
        query: DenseQuery | SparseQuery,
        top_k: int,
        filter: Mapping[str, Any] | None,  # noqa: A002 - the word of both sides
        fields: Sequence[str] = (),
    ) -> list[tuple[str, float, Mapping[str, Any]]]:
        """(id, score, fields asked for) as the service orders them."""
        if isinstance(query, DenseQuery):
            clause = {"type": "dense_vector", "field": self.layout.dense, "values": query.vector.tolist()}
        else:
            weights = _sparse(list(query.weights), list(query.weights.values()))
            clause = {"type": "sparse_vector", "field": self.layout.sparse, "sparse_values": weights}
        reply = index.documents.search(
            namespace=namespace, top_k=top_k, score_by=[clause], include_fields=list(fields), filter=filter or None
        )
        found = [match.to_dict() for match in reply.matches]
        if any(not isinstance(row.get("_id"), str) or not isinstance(row.get("_score"), int | float) for row in found):
            raise bad_reply("search", "a match without id or score")
        return [(row["_id"], float(row["_score"]), row) for row in found]

    def fetch_blocks(self, ids: Sequence[str], *, vectors: bool, metadata: bool) -> list[Sequence[str]]:
        """The ids in groups that one request fetches."""
        size = _VECTORS_MAX if vectors else _METADATA_MAX if metadata else _FETCHED_MAX
        return [ids[at : at + size] for at in range(0, len(ids), size)]

    def fetch(
        self, index: Any, namespace: str, ids: Sequence[str], *, vectors: bool, metadata: bool
    ) -> dict[str, Held]:
        """What is there of the ids."""
        # Naming none gives every field, the vectors included: their names are known, those of metadata aren't.
        names = None if metadata else [*_STAMPS, *((*self.layout_fields, ZERO) if vectors else ())]
        reply = index.documents.fetch(namespace=namespace, ids=list(ids), include_fields=names)
        held: dict[str, Held] = {}
        for id_, document in reply.documents.items():
            fields = document.to_dict()
            dense, pair = fields.get(self.layout.dense) or [], _pair(fields.get(self.layout.sparse))
            if not (_numbers(dense) and all(map(_numbers, pair)) and len(pair[0]) == len(pair[1])):
                raise bad_reply("fetch", f"document {id_[:80]!r} with vectors that aren't ones")
            held[id_] = Held(
                dense, pair if pair[0] else None, {k: v for k, v in fields.items() if k not in self.layout_fields}
            )
        return held

    @property
    def layout_fields(self) -> tuple[str, str]:
        """The two vector fields."""
        return self.layout.dense, self.layout.sparse

    def stamp(self, index: Any, namespace: str, ids: Sequence[str], removed: int) -> None:
        """Set `removed` on those that exist."""
        index.documents.update(namespace=namespace, documents=[{"_id": id_, REMOVED: removed} for id_ in ids])

    def delete(self, index: Any, namespace: str, ids: Sequence[str]) -> None:
        """Erase those that exist."""
        index.documents.delete(namespace=namespace, ids=list(ids))

    def page(self, index: Any, namespace: str, token: str | None) -> tuple[list[str], str | None]:
        """The next ids in order, and where to go on."""
        pages = index.documents.list(namespace=namespace, limit=LIST_PAGE, pagination_token=token).pages()
        page = next(iter(pages))
        return [row.id for row in page.items], page.pagination_token


def _pair(value: Any) -> tuple[Any, Any]:
    found = value if isinstance(value, dict) else {}
    return found.get("indices") or [], found.get("values") or []


def _numbers(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, int | float) for value in values)


def _sparse(terms: Sequence[int], weights: Sequence[float]) -> dict[str, Any]:
    return {"indices": list(terms), "values": list(weights)}
