"""Desired versus open records: what one source's new revision adds, keeps and removes.

The rule (DESIGN §3): a plan is a diff against the ledger's OPEN records, whatever the live pointer says. Wanted and
open stays; wanted and not open is added; open and not wanted is removed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline.rows import RecordRow

Wanted = TypeVar("Wanted")


@dataclass(frozen=True, slots=True)
class UpsertPlan(Generic[Wanted]):
    """A decision as a value; the flow obeys it."""

    add: tuple[Wanted, ...]
    keep: tuple[RecordRow, ...]
    remove: tuple[RecordRow, ...]


def plan_records(wanted: Mapping[str, Wanted], opened: Iterable[RecordRow]) -> UpsertPlan[Wanted]:
    """Diff by content fingerprint, which covers logical id, position, title, heading path, text and recipe.

    Args:
        wanted: content fingerprint to whatever describes the wanted record, in document order.
        opened: the source's open records, in any order.
    """
    keep, remove, held = [], [], set[Hashable]()
    for row in opened:
        if row.content in wanted and row.content not in held:
            held.add(row.content)
            keep.append(row)
        else:
            remove.append(row)
    return UpsertPlan(tuple(w for c, w in wanted.items() if c not in held), tuple(keep), tuple(remove))
