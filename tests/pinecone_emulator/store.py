"""What the emulator holds: indexes, namespaces, records, and when a write becomes visible.

Each namespace counts its writes (LSN). A write is accepted at once and journalled; readers see it once the lag is over.
It is kept as what it leaves behind for each id, so that writes may become visible out of order and the newest still wins.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .filters import Filter, matches


class Refused(Exception):
    """An error reply in the service's form."""

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


@dataclass
class Behaviour:
    """How the service behaves; tests change it while it runs."""

    lag_s: float = 0.0
    """From the reply to a write until readers see it."""
    out_of_order: bool = False
    """Each id of each write becomes visible at a time of its own within the lag."""
    lsn: bool = True
    """False: no reply carries a log position."""
    sparse_lsn: bool = True
    """False: searches by sparse vectors carry none."""
    ready_after_s: float = 0.0
    """From the creation of an index until it can be used."""
    updates_per_s: int | None = None
    """Records updated a second in a namespace, past which updates are refused with 429."""
    drop_empty_lists: bool = True
    """Empty lists in metadata are not kept, as null isn't."""
    missing_is_unequal: bool = False
    """Whether `$ne` and `$nin` hold of a missing field. No client should rely on either."""


@dataclass(frozen=True)
class Record:
    """What a namespace holds under one id."""

    dense: Any
    """float32 (dim,), or None."""
    sparse: tuple[Any, Any] | None
    """uint32 indices, float32 values."""
    fields: dict[str, Any]


@dataclass(frozen=True)
class Write:
    """One line of the journal."""

    seq: int
    event: str
    """`accepted` as the request came in, `applied` as readers see it."""
    at: float
    """Seconds since the emulator started."""
    call: str
    index: str
    namespace: str
    lsn: int
    after: dict[str, dict[str, Any] | None]
    """Id to the fields that it has afterwards; None for an id that is gone."""

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass
class Namespace:
    accepted: dict[str, Record] = field(default_factory=dict)
    visible: dict[str, Record] = field(default_factory=dict)
    seen_lsn: dict[str, int] = field(default_factory=dict)
    """Id to the newest write of it that readers see."""
    pending: list[tuple[float, int, str, str | None, Record | None]] = field(default_factory=list)
    """(visible at, LSN, call, id, what it leaves); the id is None for a write that touched nothing."""
    last_lsn: int = 0
    updates: list[float] = field(default_factory=list)
    exists: bool = False
    stack: tuple[list[str], Any] | None = None
    """Ids and matrix of the visible dense vectors; None where it has to be made anew."""


@dataclass
class Index:
    name: str
    fields: dict[str, dict[str, Any]]
    """The schema."""
    deployment: dict[str, Any]
    created: float
    tags: dict[str, str] | None = None
    namespaces: dict[str, Namespace] = field(default_factory=dict)

    def named(self, kind: str) -> str | None:
        """The field of that type."""
        return next((name for name, spec in self.fields.items() if spec["type"] == kind), None)

    @property
    def family(self) -> str:
        """Which of the data APIs writes to it."""
        if self.named("semantic_text"):
            return "records"
        return "vectors" if set(self.fields) <= {"_values", "_sparse_values"} else "documents"

    @property
    def dimension(self) -> int | None:
        return next((spec["dimension"] for spec in self.fields.values() if spec.get("dimension")), None)

    @property
    def metric(self) -> str:
        return next((spec["metric"] for spec in self.fields.values() if spec.get("metric")), "dotproduct")


class Store:
    """Everything behind the endpoints. One lock; each method is atomic."""

    def __init__(self, behaviour: Behaviour, seed: int = 0) -> None:
        self.behaviour = behaviour
        self.lock = threading.RLock()
        self._seed = seed
        self.reset()

    def reset(self) -> None:
        """Forget every index, record and line of the journal."""
        with self.lock:
            self.indexes: dict[str, Index] = {}
            self.journal: list[Write] = []
            self._random = random.Random(self._seed)
            self._started = time.monotonic()

    def index(self, name: str) -> Index:
        if name not in self.indexes:
            raise Refused(404, "NOT_FOUND", f"Resource {name} not found")
        return self.indexes[name]

    def space(self, index: Index, name: str, *, make: bool = False) -> Namespace | None:
        """A namespace with everything applied that is due; None where it isn't there."""
        found = index.namespaces.get(name)
        if found is None:
            if not make:
                return None
            found = index.namespaces[name] = Namespace()
        self._apply(index, name, found)
        return found if make or found.exists or found.visible else None

    def write(self, index: Index, namespace: str, call: str, after: dict[str, Record | None]) -> int:
        """Accept a write. The LSN that it got."""
        with self.lock:
            space = self.space(index, namespace, make=True)
            assert space is not None
            space.last_lsn += 1
            now = time.monotonic()
            lag = self.behaviour.lag_s
            for id_, record in after.items():
                if record is None:
                    space.accepted.pop(id_, None)
                else:
                    space.accepted[id_] = record
                wait = lag * self._random.random() if self.behaviour.out_of_order else lag
                space.pending.append((now + wait, space.last_lsn, call, id_, record))
            if not after:
                space.pending.append((now + lag, space.last_lsn, call, None, None))
            self._note("accepted", index.name, namespace, (space.last_lsn, call), after)
            self._apply(index, namespace, space)
            return space.last_lsn

    def drop(self, index: Index, namespace: str) -> None:
        """Delete a namespace with all that it holds, once the lag is over."""
        with self.lock:
            space = self.space(index, namespace)
            if space is None:
                raise Refused(404, "NOT_FOUND", f"Namespace {namespace} not found")
            self.write(index, namespace, "drop", dict.fromkeys([*space.accepted, *space.visible]))
            space.exists = False

    def release(self) -> None:
        """Let readers see at once whatever still lags."""
        with self.lock:
            for index in self.indexes.values():
                for name, space in index.namespaces.items():
                    space.pending = [(0.0, *row[1:]) for row in space.pending]
                    self._apply(index, name, space)

    def indexed_lsn(self, space: Namespace) -> int:
        """Up to here everything is visible."""
        return min((lsn for _, lsn, *_ in space.pending), default=space.last_lsn + 1) - 1

    def count_updates(self, space: Namespace, records: int) -> None:
        """Refuse what goes past the rate."""
        rate, now = self.behaviour.updates_per_s, time.monotonic()
        if rate is None:
            return
        space.updates = [at for at in space.updates if now - at < 1]
        if len(space.updates) + records > rate:
            raise Refused(429, "RESOURCE_EXHAUSTED", "too many updated records a second", {"Retry-After": "1"})
        space.updates += [now] * records

    def _apply(self, index: Index, name: str, space: Namespace) -> None:
        now = time.monotonic()
        due = [row for row in space.pending if row[0] <= now]
        if not due:
            return
        space.pending = [row for row in space.pending if row[0] > now]
        space.stack = None
        for _, lsn, call, id_, record in sorted(due, key=lambda row: row[:2]):
            space.exists |= call.endswith("upsert") or call == "create_namespace"
            if id_ is not None and lsn > space.seen_lsn.get(id_, 0):
                space.seen_lsn[id_] = lsn
                if record is None:
                    space.visible.pop(id_, None)
                else:
                    space.visible[id_] = record
                self._note("applied", index.name, name, (lsn, call), {id_: record})

    def _note(
        self, event: str, index: str, namespace: str, what: tuple[int, str], after: dict[str, Record | None]
    ) -> None:
        shown = {id_: None if record is None else record.fields for id_, record in after.items()}
        seq, at = len(self.journal), time.monotonic() - self._started
        self.journal.append(Write(seq, event, at, what[1], index, namespace, what[0], shown))


def ranked(
    index: Index, space: Namespace, wanted: Filter | None, *, dense: Any = None, sparse: Any = None, loose: bool = False
) -> list[tuple[str, float]]:
    """Ids and scores, best first. Equal scores stand in no order that a client could know."""
    chosen: Callable[[str], bool] = lambda id_: (  # noqa: E731 - short, and used below twice
        wanted is None or matches(wanted, space.visible[id_].fields, missing_is_unequal=loose)
    )
    scores: dict[str, float] = {}
    if dense is not None:
        ids, matrix = _stack(space)
        if ids:
            found = matrix @ np.asarray(dense, np.float32)
            if index.metric == "cosine":
                norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(np.asarray(dense, np.float32))
                found = np.divide(found, norms, out=np.zeros_like(found), where=norms > 0)
            scores = {id_: float(score) for id_, score in zip(ids, found.tolist(), strict=True) if chosen(id_)}
    if sparse is not None:
        asked = dict(zip(*sparse, strict=True))
        for id_, record in space.visible.items():
            if record.sparse is None or (dense is not None and id_ not in scores) or not chosen(id_):
                continue
            terms, weights = record.sparse
            shared = [(t, w) for t, w in zip(terms.tolist(), weights.tolist(), strict=True) if t in asked]
            if shared:
                scores[id_] = scores.get(id_, 0.0) + sum(asked[t] * w for t, w in shared)
    return sorted(scores.items(), key=lambda pair: (-pair[1], zlib.crc32(pair[0].encode()), pair[0]))


def _stack(space: Namespace) -> tuple[list[str], Any]:
    if space.stack is None:
        ids = [id_ for id_, record in space.visible.items() if record.dense is not None]
        space.stack = ids, np.array([space.visible[id_].dense for id_ in ids], np.float32)
    return space.stack


def page(ids: Iterable[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """The next ids in order, and where to go on."""
    rest: Iterator[str] = (id_ for id_ in sorted(ids) if id_ > after)
    found = [id_ for _, id_ in zip(range(limit + 1), rest, strict=False)]
    return found[:limit], found[limit - 1] if len(found) > limit else None
