"""What this process wrote to each namespace and hasn't seen in a search yet.

Pinecone shows a write to readers some time after it has taken it. A write's reply names its position in the namespace's
log, a search's reply the position up to which it has seen the log. Where either says nothing, what was written is kept
here by id, to be looked for.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.types import OPEN

STATES_MAX: Final = 20_000
"""Ids kept a namespace, 3 MB or so; past it a writer waits until its writes are seen."""

GONE: Final = -1
"""In place of `removed`, for an id that was erased."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """What a reader has to wait for."""

    position: int
    """Log position of the newest write."""
    located: bool
    """Whether every write's position is known."""
    states: Mapping[str, int]
    """Id to the `removed` that it must show."""
    made: frozenset[str]
    """Ids that this process wrote whole, so that they must be there."""


@dataclass(slots=True)
class _Space:
    position: int = 0
    located: bool = True
    states: dict[str, int] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)


class Writes:
    """Threads may share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spaces: dict[str, _Space] = {}

    def note(self, namespace: str, position: int | None, states: Mapping[str, int]) -> None:
        """Remember a write."""
        with self._lock:
            space = self._spaces.setdefault(namespace, _Space())
            space.states.update(states)
            space.made.update(id_ for id_, state in states.items() if state == OPEN)
            space.made.difference_update(id_ for id_, state in states.items() if state == GONE)
            if position is None:
                space.located = False
            else:
                space.position = max(space.position, position)

    def unseen(self, namespace: str) -> Unseen | None:
        """What was written and not seen; None where there is nothing to wait for."""
        with self._lock:
            space = self._spaces.get(namespace)
            if space is None:
                return None
            return Unseen(space.position, space.located, dict(space.states), frozenset(space.made))

    def in_the_way(self, namespace: str, ids: Iterable[str]) -> bool:
        """Whether a writer has to wait before it writes: too much is unseen, or what it makes was stamped or erased.

        An id that is made, erased and made again looks the same to a reader that has seen nothing of it but the first.

        Args:
            namespace: where.
            ids: what it is going to make.
        """
        with self._lock:
            space = self._spaces.get(namespace)
            if space is None:
                return False
            return len(space.states) >= STATES_MAX or any(space.states.get(id_, OPEN) != OPEN for id_ in ids)

    def seen(self, namespace: str, what: Unseen) -> None:
        """Forget what was waited for; what was written meanwhile stays."""
        with self._lock:
            space = self._spaces.get(namespace)
            if space is None:
                return
            for id_, state in what.states.items():
                if space.states.get(id_) == state:
                    del space.states[id_]
                    space.made.discard(id_)
            if not space.states and space.position <= what.position:
                del self._spaces[namespace]


def differing(wanted: Mapping[str, int], shown: Mapping[str, int], absent: Collection[str]) -> list[str]:
    """Ids that don't show what was written to them.

    Args:
        wanted: id to `removed`, or to `GONE`.
        shown: id to the `removed` that a search shows; ids that it doesn't show are missing.
        absent: ids that were stamped but don't exist, so that there is nothing to be seen of them.
    """
    return [
        id_
        for id_, state in wanted.items()
        if id_ not in absent and (id_ in shown if state == GONE else shown.get(id_) != state)
    ]
