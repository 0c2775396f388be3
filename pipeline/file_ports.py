"""Ports of what stands in files: the object store, a context's sources, and the folder that shows a version.

Protocols only; see `pipeline.ports`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.types import SourcePath


class ObjectStore(Protocol):
    """Immutable blobs under keys of '/'-separated ASCII parts."""

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Store each blob; durable when it returns. The same key with the same bytes is a no-op.

        Raises:
            Conflict: a key exists with other bytes.
        """
        ...

    def get(self, key: str) -> bytes:
        """The blob.

        Raises:
            RejectedInput: code `no_such_object`.
        """
        ...

    def delete_many(self, keys: Sequence[str]) -> None:
        """Erase; keys that don't exist are passed over."""
        ...

    def list(self, prefix: str) -> Iterator[str]:
        """Keys that start with `prefix`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class SourceStat:
    """The cheap state of one staged file."""

    path: SourcePath
    size: int
    mtime_ns: int
    """Modification time, nanoseconds since the epoch."""
    change_ns: int
    """Inode change time, nanoseconds since the epoch; catches edits that put the modification time back."""


class SourceTree(Protocol):
    """The files of one context's source root."""

    def exists(self) -> bool:
        """Whether the root is there at all."""
        ...

    def walk(self) -> Iterator[SourceStat]:
        """Every file that is not ignored, ordered by path (by code point), with memory bounded by one folder.

        Symbolic links that leave the root are not followed.
        """
        ...

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:
        """Whole bytes and the cheap state that held while they were read.

        Raises:
            RejectedInput: codes `vanished`, `unreadable`, `too_large`, `changing`.
        """
        ...


class KnowledgeView(Protocol):
    """A folder that shows one version's files under their stable paths. A convenience: the ledger stays the fact."""

    def shown(self) -> int:
        """The version that the view shows; 0 for none, -1 when a refresh was cut short."""
        ...

    def begin(self) -> None:
        """Remember that a refresh is under way, so that a crash is noticed."""
        ...

    def write(self, path: str, data: bytes) -> bool:
        """Show a file; False where the file system can't hold the name."""
        ...

    def read(self, path: str) -> bytes | None:
        """What is shown under that path; None for nothing."""
        ...

    def fits(self, path: str) -> bool:
        """Whether the file system could hold the name as things stand."""
        ...

    def paths(self) -> Iterator[str]:
        """Every file there, whoever put it there, in any order; what is removed on the way may be told or not."""
        ...

    def remove(self, path: str) -> None:
        """Hide a file; one that isn't there is passed over."""
        ...

    def clear(self) -> None:
        """Hide everything."""
        ...

    def end(self, version: int) -> None:
        """Remember that the view shows `version`, whole."""
        ...
