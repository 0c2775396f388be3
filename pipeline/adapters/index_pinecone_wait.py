"""Waiting on Pinecone: until searches show a write, and for one's turn to write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from pipeline.adapters.index_pinecone_fresh import GONE, Unseen, Writes, differing
from pipeline.adapters.index_pinecone_open import Opened
from pipeline.adapters.index_pinecone_records import KEYS, REMOVED, id_key
from pipeline.adapters.index_pinecone_search import axis, look
from pipeline.errors import Unavailable
from pipeline.types import Namespace, RecordId

S = TypeVar("S")
T = TypeVar("T")

SIDE_BY_SIDE: Final = 8
"""Requests of one call at a time."""
_LOOKED_FOR: Final = 100
"""Ids looked for in one search; one API gives all their metadata with them."""
_LOOK_S: Final = 1.0
"""A look that has begun may end so much later, so that a wait ends with what it waited for in its message."""
_POLL_FIRST_S: Final = 0.02
_POLL_S: Final = 1.0


class Deadline:
    """How long a wait may take, with growing pauses."""

    def __init__(self, seconds: float, what: str) -> None:
        self._until = time.monotonic() + seconds
        self._what = what
        self._pause_s = _POLL_FIRST_S

    def left_s(self) -> float:
        """Seconds that one more look may take: those left, or one where there are fewer."""
        return max(_LOOK_S, self._until - time.monotonic())

    def pause(self) -> None:
        """Wait a little.

        Raises:
            Unavailable: code `not_fresh`: the deadline has passed.
        """
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise Unavailable(
                "not_fresh",
                f"Pinecone doesn't show {self._what} yet",
                remedy="Run again; if it stays so, allow more time or look at the service's status.",
            )
        time.sleep(min(self._pause_s, left_s))
        self._pause_s = min(_POLL_S, 2 * self._pause_s)


class Pace:
    """Lets through so many records a second in each namespace. Threads share one."""

    def __init__(self, records_per_s: float) -> None:
        self._rate = records_per_s
        self._lock = threading.Lock()
        self._next: dict[str, float] = {}

    def wait(self, namespace: str, records: int) -> None:
        """Wait until it is these records' turn."""
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next.get(namespace, now))
            self._next[namespace] = turn + records / self._rate
        time.sleep(turn - now)


def side_by_side(work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """The work's results in order, a few at a time; after a failure nothing more is begun."""
    if len(items) < 2:  # noqa: PLR2004
        return [work(item) for item in items]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def await_writes(opened: Opened, namespace: Namespace, writes: Writes, seconds: float) -> None:
    """Return once searches show what this process has written so far.

    Raises:
        Unavailable: code `not_fresh`.
    """
    unseen = writes.unseen(namespace)
    if unseen is None:
        return
    deadline = Deadline(seconds, f"what was written to namespace {namespace}")
    while not _shown(opened, namespace, unseen, deadline):
        deadline.pause()
    writes.seen(namespace, unseen)


def await_ids(opened: Opened, namespace: Namespace, ids: Sequence[RecordId], seconds: float) -> None:
    """Return once searches show each of the ids.

    Raises:
        Unavailable: code `not_fresh`.
    """
    deadline = Deadline(seconds, f"all of the {len(ids)} records asked for in namespace {namespace}")
    for at in range(0, len(ids), _LOOKED_FOR):
        block = ids[at : at + _LOOKED_FOR]
        while len(_states(opened, namespace, block, deadline)) < len(block):
            deadline.pause()


def _shown(opened: Opened, namespace: Namespace, unseen: Unseen, deadline: Deadline) -> bool:
    answer = look(opened, namespace, axis(opened), 1, None, deadline_s=deadline.left_s())
    if unseen.located and answer is not None and answer.indexed is not None:
        return answer.indexed >= unseen.position
    if unseen.made and (answer is None or not answer.value):
        return False  # the namespace itself isn't shown yet, so that there is nobody to tell a position
    states = list(unseen.states.items())
    groups = (dict(states[at : at + _LOOKED_FOR]) for at in range(0, len(states), _LOOKED_FOR))
    return all(_group_shown(opened, namespace, group, unseen.made, deadline) for group in groups)


def _group_shown(
    opened: Opened, namespace: Namespace, wanted: Mapping[str, int], made: Collection[str], deadline: Deadline
) -> bool:
    shown = _states(opened, namespace, list(wanted), deadline)
    # Of an id that never was, stamping leaves nothing to be seen.
    doubtful = [id_ for id_, state in wanted.items() if state != GONE and id_ not in shown and id_ not in made]
    there: set[str] = set()
    for block in opened.family.fetch_blocks(doubtful, vectors=False, metadata=False):

        def fetch(index: Any, part: Sequence[str] = block) -> Mapping[str, Any]:
            return opened.family.fetch(index, namespace, part, vectors=False, metadata=False)

        answer = opened.there("fetch", fetch, deadline.left_s())
        there |= set(answer.value if answer else ())
    return not differing(wanted, shown, set(doubtful) - there)


def _states(opened: Opened, namespace: Namespace, ids: Sequence[str], deadline: Deadline) -> dict[str, int]:
    """Id to `removed`, as a search shows them."""
    wanted = {KEYS: {"$in": [id_key(id_) for id_ in ids]}}
    answer = look(opened, namespace, axis(opened), len(ids), wanted, fields=(REMOVED,), deadline_s=deadline.left_s())
    shown = {id_: fields.get(REMOVED) for id_, _, fields in (answer.value if answer else ())}
    return {id_: int(removed) if isinstance(removed, int | float) else GONE for id_, removed in shown.items()}
