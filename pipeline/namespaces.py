"""Names of index namespaces, and the keys under which the ledger counts their terms. One rule, one place."""

from __future__ import annotations

from pipeline.types import ContextSlug, Namespace

KINDS = ("chunks", "artifacts")


DOCUMENTS = -1
"""The term under which the documents themselves are counted."""


def namespace_of(slug: ContextSlug, generation: int, kind: str) -> Namespace:
    """`{context}.g{n}.{kind}`."""
    assert kind in KINDS
    return Namespace(f"{slug}.g{generation}.{kind}")


def counts_key(generation: int, kind: str) -> int:
    """Under what the ledger counts documents and terms: a generation's chunks are one collection, its artifacts another."""
    return generation * len(KINDS) + KINDS.index(kind)


def counts_of(namespace: str) -> int:
    """The same, from a namespace."""
    _, generation, kind = namespace.rsplit(".", 2)
    return counts_key(int(generation[1:]), kind)
