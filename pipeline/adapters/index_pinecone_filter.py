"""Our filters in Pinecone's terms.

The two languages differ where a field is missing, where lists are empty, in booleans inside lists, and in texts, which
Pinecone doesn't order. Each comparison is therefore written so that it means the same whatever the service makes of the
first three; an ordering of texts is refused. Conditions that hold for every record or for none are worked out here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline.adapters.index_pinecone_records import ADDED, EMPTY, KEYS, REMOVED, Layout, scope_key
from pipeline.errors import RejectedInput
from pipeline.filters import ORDERINGS, Comparison, Filter
from pipeline.queries import Search

Document = dict[str, Any]
Condition = Document | bool
"""A filter document, or that it always or never holds."""


def condition(request: Search, layout: Layout) -> Document | None:
    """Version, scope and the caller's filter as one document; None where nothing can match.

    Raises:
        RejectedInput: code `bad_filter`: an ordering of texts.
    """
    parts: list[Condition] = [{ADDED: {"$lte": request.version}}, {REMOVED: {"$gt": request.version}}]
    prefixes = [prefix.rstrip("/") for prefix in request.scope]
    if prefixes and all(prefixes):  # an empty prefix is the root: everything
        parts.append({KEYS: {"$in": sorted({scope_key(prefix) for prefix in prefixes})}})
    if request.filter is not None:
        parts.append(_translated(request.filter, layout))
    whole = _all(parts)
    return whole if isinstance(whole, dict) else None


def present(field: str, layout: Layout) -> Document:
    """Records that have a field at all."""
    stored = layout.stored(field)
    return {"$or": [{stored: {"$exists": True}}, {EMPTY: {"$in": [stored]}}]}


def _translated(filter: Filter, layout: Layout) -> Condition:  # noqa: A002 - the word that callers use
    if isinstance(filter, Comparison):
        return _comparison(filter, layout)
    parts = [_translated(part, layout) for part in filter.parts]
    return _all(parts) if filter.operator == "$and" else _any(parts)


def _comparison(comparison: Comparison, layout: Layout) -> Condition:
    stored, operator, operands = layout.stored(comparison.field), comparison.operator, comparison.operands
    if operator == "$exists":
        return present(comparison.field, layout) if operands[0] else _missing(stored)
    if operator in ORDERINGS:
        if isinstance(operands[0], str):
            raise RejectedInput(
                "bad_filter",
                f"field {comparison.field!r}, operator {operator}: Pinecone orders numbers only, not texts",
                remedy="Compare the number beside it: a date's seconds stand in the field with _epoch at its end.",
            )
        return {stored: {operator: operands[0]}}
    booleans = [value for value in operands if isinstance(value, bool)]
    others = [value for value in operands if not isinstance(value, bool)]
    if operator in ("$eq", "$in"):
        listed: list[Condition] = [{stored: {"$in": others}}] if others else []
        return _any([*listed, *({stored: {"$eq": value}} for value in booleans)])
    unequal: list[Condition] = [{stored: {"$nin": others}}] if others else []
    unlike = _all([*unequal, *({stored: {"$ne": value}} for value in booleans)])
    return _any([unlike, _missing(stored), {EMPTY: {"$in": [stored]}}])


def _missing(stored: str) -> Document:
    """No such field. `$nin` alone would leave out records without any empty list."""
    absent: Document = {"$or": [{EMPTY: {"$exists": False}}, {EMPTY: {"$nin": [stored]}}]}
    return {"$and": [{stored: {"$exists": False}}, absent]}


def _all(parts: Iterable[Condition]) -> Condition:
    kept = [part for part in parts if part is not True]
    if False in kept:
        return False
    documents = [part for part in kept if isinstance(part, dict)]
    return {"$and": documents} if len(documents) > 1 else documents[0] if documents else True


def _any(parts: Iterable[Condition]) -> Condition:
    kept = [part for part in parts if part is not False]
    if True in kept:
        return True
    documents = [part for part in kept if isinstance(part, dict)]
    return {"$or": documents} if len(documents) > 1 else documents[0] if documents else False
