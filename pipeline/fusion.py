"""Fusion: the results of several retrievers made into one order.

A convex combination of scores, each as a share of its retriever's best for the question: the function that Bruch, Gai &
Ingber ("An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS 42:1, 2023) call TM2C2, with 0 as the least
score of both retrievers. Reciprocal rank fusion sees only places: a weak retriever's tenth counts as much as a strong
one's, however little it fits. Here a retriever that finds nothing far better than the rest moves the order little. The
one parameter is the weight of each retriever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pipeline.types import Hit, RecordId


@dataclass(frozen=True, slots=True)
class Fused:
    """One record's place in the common order."""

    id: RecordId
    score: float
    """Between 0 and 1; 1 means best by every retriever."""
    shares: Mapping[str, float]
    """What each leg added. A leg that didn't name the record adds what its last hit would have got."""


def fuse(
    legs: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], complete: Collection[str] = ()
) -> list[Fused]:
    """Every record that a leg names, best first, ties by id. Linear in the hits but for the sort.

    Args:
        legs: hits of each retriever, best first, in any scale that has 0 for "nothing in common".
        weights: what each leg's best hit adds to a score; they add up to 1.
        complete: legs that had no more to give: what they didn't name scores 0, not what their last hit did.
    """
    scores = {name: {hit.id: max(hit.score, 0.0) for hit in hits} for name, hits in legs.items()}
    best = {name: max(found.values(), default=0.0) for name, found in scores.items()}
    rest = {name: 0.0 if name in complete else min(found.values(), default=0.0) for name, found in scores.items()}
    fused = []
    for id_ in {id_ for found in scores.values() for id_ in found}:
        shares = {
            name: weights[name] * (found.get(id_, rest[name]) / best[name]) if best[name] > 0 else 0.0
            for name, found in scores.items()
        }
        fused.append(Fused(id_, sum(shares.values()), shares))
    return sorted(fused, key=lambda one: (-one.score, one.id))
