"""Memo, object store and clock in memory: the references that the contract tests run first, and the test doubles."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.errors import Conflict, RejectedInput
from pipeline.types import NO_ORIGINS, Origins


class MemoryMemo:
    """Port `Memo`. Threads may share one instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, bytes] = {}
        self._origins: dict[str, dict[str, bool]] = {}
        """Of a key: origin to whether it is one of several that the value comes from together."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there."""
        with self._lock:
            return {key: self._values[key] for key in keys if key in self._values}

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        """Store; a key that exists keeps its value."""
        with self._lock:
            for key, value in items.items():
                self._values.setdefault(key, bytes(value))
            for key, named in origins.items():
                if key in self._values:
                    held = self._origins.setdefault(key, {})
                    held.update((origin, joint) for origin in named if origin not in held)

    def forget(self, origins: Collection[str]) -> int:
        """Erase what comes from these and nowhere else, or jointly from one of them."""
        with self._lock:
            erased = 0
            for key, held in list(self._origins.items()):
                told = [held.pop(origin) for origin in origins if origin in held]
                if told and (any(told) or not held):
                    del self._origins[key]
                    erased += self._values.pop(key, None) is not None
            return erased

    def close(self) -> None:
        """Nothing is held; the values stay, as a file's would."""


class MemoryObjectStore:
    """Port `ObjectStore`. Threads may share one instance."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blobs: dict[str, bytes] = {}

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Store each blob, or none where one of them conflicts."""
        with self._lock:
            for key, data in items.items():
                if not key or any(part in ("", ".", "..") for part in key.split("/")) or not key.isascii():
                    raise RejectedInput("bad_key", f"{key!r} is not a key of '/'-separated ASCII parts")
                if self._blobs.get(key, data) != data:
                    raise Conflict("object_exists", f"object {key} exists with other bytes")
            self._blobs.update((key, bytes(data)) for key, data in items.items())

    def get(self, key: str) -> bytes:
        """The blob, or RejectedInput with code `no_such_object`."""
        with self._lock:
            if key not in self._blobs:
                raise RejectedInput("no_such_object", f"there is no object {key}")
            return self._blobs[key]

    def delete_many(self, keys: Sequence[str]) -> None:
        """Erase the keys that exist."""
        with self._lock:
            for key in keys:
                self._blobs.pop(key, None)

    def list(self, prefix: str) -> Iterator[str]:
        """Keys of this moment that start with `prefix`, in order."""
        with self._lock:
            keys = sorted(key for key in self._blobs if key.startswith(prefix))
        yield from keys


class VirtualClock:
    """Port `Clock`. Time passes only when somebody sleeps or calls `advance`."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        """Start at a fixed moment, seconds since the epoch, so that tests repeat."""
        self._lock = threading.Lock()
        self._now = start

    def now(self) -> float:
        """Seconds since the epoch."""
        with self._lock:
            return self._now

    def sleep(self, seconds: float) -> None:
        """Return at once, that much later."""
        self.advance(max(0.0, seconds))

    def advance(self, seconds: float) -> None:
        """Let time pass; a negative number sets the clock back, as real ones sometimes are."""
        with self._lock:
            self._now += seconds
