"""Ports that die at a named point: just before or just after one of their durable effects lands."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from pipeline.file_ports import KnowledgeView, ObjectStore
from pipeline.ledger import Ledger, Session
from pipeline.ports import Memo, Ports, VectorIndex
from pipeline.types import NO_ORIGINS, ContextSlug, Namespace, Origins, RecordBatch, RecordId


class InjectedError(Exception):
    """What an exception at a point is: nothing that the product knows."""


@dataclass
class Points:
    """Counts the effects as they come, and acts at one of them."""

    name: str = ""
    """`port.effect`; empty: only count."""
    when: str = ""
    """before or after; inside, for a process that falls asleep in a write block."""
    nth: int = 1
    action: str = ""
    """kill, raise or stop; or whatever `act` does."""
    act: Callable[[], None] | None = None
    armed: bool = True
    """Hits count only while it is set."""
    hit: bool = False
    trace: list[str] = field(default_factory=list)
    """Names in the order in which their effects were about to happen."""
    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    blocks: threading.RLock = field(default_factory=threading.RLock)
    """Held around write blocks of a process that will be stopped: it sleeps while no thread of it has SQLite's lock."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, name: str, when: str) -> None:
        """An effect is about to land, or has landed."""
        with self._lock:
            self._seen[name, when] += self.armed
            hit = self.armed and (name, when, self._seen[name, when]) == (self.name, self.when, self.nth)
            if when == "before":
                self.trace.append(name)
        if not hit:
            return
        self.hit = True
        if self.act is not None:
            self.act()
            return
        if self.action == "raise":
            raise InjectedError(f"{name}:{when}")
        # Sent to this very thread, so that not one more instruction of it runs.
        if self.action == "kill":
            signal.raise_signal(signal.SIGKILL)
        with self.blocks:
            signal.raise_signal(signal.SIGSTOP)

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        self.at(name, "before")
        yield
        self.at(name, "after")


class FaultLedger:
    """Each write block is one effect, named by its label."""

    def __init__(self, inner: Ledger, points: Points) -> None:
        self._inner, self._points = inner, points
        self.read = inner.read
        self.close = inner.close

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[Session]:
        """A process that dies does so with its block written and not yet committed.

        One that is stopped stops before the block begins instead: so the block runs on what its owner knew when it fell
        asleep; and SQLite's lock, which a sleeper would hold, isn't taken (another test has that case).
        """
        name = f"ledger.{label}"
        asleep = self._points.action == "stop"
        if asleep:
            self._points.at(name, "before")
        with self._points.blocks if asleep else nullcontext(), self._inner.transaction(label, context) as session:
            yield session
            self._points.at(name, "inside" if asleep else "before")
        self._points.at(name, "after")


class FaultIndex:
    def __init__(self, inner: VectorIndex, points: Points) -> None:
        self._inner, self._points = inner, points
        self.fetch, self.search, self.scan, self.close = inner.fetch, inner.search, inner.scan, inner.close
        self.settle, self.creates_only = inner.settle, inner.creates_only
        self.explain, self.optimize, self.graphs = inner.explain, inner.optimize, inner.graphs

    def upsert(self, batch: RecordBatch) -> None:
        with self._points.around("index.upsert"):
            self._inner.upsert(batch)

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        with self._points.around("index.stamp"):
            self._inner.stamp(namespace, ids, removed)

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        with self._points.around("index.delete"):
            self._inner.delete(namespace, ids)

    def shrink(self, *, erase: bool = False) -> int:
        with self._points.around("index.shrink"):
            return self._inner.shrink(erase=erase)

    def drop(self, namespace: Namespace) -> None:
        with self._points.around("index.drop"):
            self._inner.drop(namespace)


class FaultMemo:
    def __init__(self, inner: Memo, points: Points) -> None:
        self._inner, self._points = inner, points
        self.get_many, self.close = inner.get_many, inner.close

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        with self._points.around("memo.put_many"):
            self._inner.put_many(items, origins, joint=joint)

    def forget(self, origins: Collection[str]) -> int:
        with self._points.around("memo.forget"):
            return self._inner.forget(origins)


class FaultObjects:
    def __init__(self, inner: ObjectStore, points: Points) -> None:
        self._inner, self._points = inner, points
        self.get, self.list = inner.get, inner.list

    def put_many(self, items: Mapping[str, bytes]) -> None:
        with self._points.around("objects.put_many"):
            self._inner.put_many(items)

    def delete_many(self, keys: Sequence[str]) -> None:
        with self._points.around("objects.delete_many"):
            self._inner.delete_many(keys)


class FaultView:
    def __init__(self, inner: KnowledgeView, points: Points) -> None:
        self._inner, self._points = inner, points
        self.shown, self.read, self.fits, self.paths = inner.shown, inner.read, inner.fits, inner.paths

    def begin(self) -> None:
        with self._points.around("view.begin"):
            self._inner.begin()

    def write(self, path: str, data: bytes) -> bool:
        with self._points.around("view.write"):
            return self._inner.write(path, data)

    def remove(self, path: str) -> None:
        with self._points.around("view.remove"):
            self._inner.remove(path)

    def clear(self) -> None:
        with self._points.around("view.clear"):
            self._inner.clear()

    def end(self, version: int) -> None:
        with self._points.around("view.end"):
            self._inner.end(version)


def faulty(ports: Ports, points: Points) -> Ports:
    """The same deployment with every durable effect going through `points`."""
    index, objects, view = ports.index, ports.objects, ports.view
    return replace(
        ports,
        ledger=FaultLedger(ports.ledger, points),
        memo=FaultMemo(ports.memo, points),
        index=lambda slug: FaultIndex(index(slug), points),
        objects=lambda slug: FaultObjects(objects(slug), points),
        view=lambda slug: FaultView(view(slug), points),
    )
