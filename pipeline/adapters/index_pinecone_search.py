"""One retriever's answer on Pinecone: as many of the best as were asked for, ties by id, whatever the service leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pipeline.adapters.index_pinecone_filter import condition, present
from pipeline.adapters.index_pinecone_open import Opened
from pipeline.adapters.index_pinecone_records import ZERO, heaviest
from pipeline.adapters.pinecone_client import Answer, bad_reply
from pipeline.filters import fields_of
from pipeline.queries import DenseQuery, Search, SparseQuery
from pipeline.types import Hit, Namespace, RecordId

TOP_K_MAX: Final = 10_000
_SPARE: Final = 32
"""Asked for beyond `k`, so that a few equal records at the cut need no second request."""
_WIDER: Final = 8
"""How many times as many are asked for where more are equal."""

Rows = list[tuple[str, float, Mapping[str, Any]]]


def ranked(opened: Opened, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
    """The best records that version, scope and filter let through. The query's dimension was checked."""
    wanted, query = condition(request, opened.layout), request.query
    k = min(request.k, TOP_K_MAX)
    if wanted is None or k <= 0:
        return ()
    if isinstance(query, SparseQuery):
        terms = heaviest(list(query.weights), list(query.weights.values()))
        return (
            tuple(_best(opened, namespace, SparseQuery(dict(zip(*terms, strict=True))), k, wanted)) if terms[0] else ()
        )
    if not query.vector.any():  # everything is at a right angle to it, the zeros' stand-ins too
        return tuple(_best(opened, namespace, query, k, wanted))
    hits = _best(opened, namespace, query, k, {"$and": [wanted, {ZERO: {"$exists": False}}]})
    if len(hits) < k or hits[-1].score <= 0:
        zeros = _best(opened, namespace, axis(opened), k, {"$and": [wanted, {ZERO: {"$eq": True}}]})
        hits = sorted([*hits, *(Hit(hit.id, 0.0) for hit in zeros)], key=lambda hit: (-hit.score, hit.id))[:k]
    return tuple(hits)


def unknown_fields(opened: Opened, namespace: Namespace, request: Search) -> tuple[str, ...]:
    """Fields of the filter that no record of the namespace has; one request for each."""
    fields = sorted(fields_of(request.filter)) if request.filter is not None else ()
    return tuple(
        field for field in fields if not _rows(look(opened, namespace, axis(opened), 1, present(field, opened.layout)))
    )


def look(
    opened: Opened,
    namespace: Namespace,
    query: DenseQuery | SparseQuery,
    top_k: int,
    wanted: Mapping[str, Any] | None,
    *,
    fields: Sequence[str] = (),
    deadline_s: float | None = None,
) -> Answer[Rows] | None:
    """One search; None where the namespace isn't there."""
    family = opened.family
    return opened.there(
        "search", lambda index: family.search(index, namespace, query, top_k, wanted, fields), deadline_s
    )


def axis(opened: Opened) -> DenseQuery:
    """A query whose scores nobody looks at."""
    vector = np.zeros(opened.layout.dim, np.float32)
    vector[0] = 1
    return DenseQuery(vector)


def _best(
    opened: Opened, namespace: Namespace, query: DenseQuery | SparseQuery, k: int, wanted: Mapping[str, Any]
) -> list[Hit]:
    asked = min(TOP_K_MAX, k + _SPARE)
    while True:
        rows = _rows(look(opened, namespace, query, asked, wanted))
        if len(rows) > asked:
            raise bad_reply("search", f"{len(rows)} matches where {asked} were asked for")
        # A sparse score of 0 says that no term is shared.
        kept = [(id_, score) for id_, score, _ in rows if isinstance(query, DenseQuery) or score]
        hits = sorted((Hit(RecordId(id_), score) for id_, score in kept), key=lambda hit: (-hit.score, hit.id))
        # Of records that are equal at the cut, those that the service left out may have the smaller ids.
        whole = len(kept) < asked or asked == TOP_K_MAX
        if whole or hits[k - 1].score > hits[-1].score:
            return hits[:k]
        asked = min(TOP_K_MAX, asked * _WIDER)


def _rows(answer: Answer[Rows] | None) -> Rows:
    return [] if answer is None else answer.value
