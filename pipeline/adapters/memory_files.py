"""A source tree and a knowledge view in memory: what tests use, with the contract of the local ones."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.types import SourcePath


class MemorySourceTree:
    """`ports.SourceTree` over a mapping that its owner may change at any time."""

    def __init__(self, files: dict[SourcePath, bytes] | None = None) -> None:
        self.files = {} if files is None else files
        self.there = True
        self.touched: dict[SourcePath, int] = {}
        """Path to modification time, for tests that move it; 0 otherwise."""

    def exists(self) -> bool:
        """Whether the root is there."""
        return self.there

    def walk(self) -> Iterator[SourceStat]:
        """Every file, by path."""
        for path in sorted(self.files):
            yield self._stat(path)

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:
        """The bytes and their state."""
        if path not in self.files:
            raise RejectedInput("vanished", f"{path} went away while the run was under way")
        if len(self.files[path]) > limit_bytes:
            raise RejectedInput(
                "too_large", f"{path} has {len(self.files[path])} bytes, more than the {limit_bytes} that are read"
            )
        return self.files[path], self._stat(path)

    def _stat(self, path: SourcePath) -> SourceStat:
        moment = self.touched.get(path, 0)
        return SourceStat(path, len(self.files[path]), moment, moment)


class MemoryView:
    """`ports.KnowledgeView` over a mapping."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._shown = 0

    def shown(self) -> int:
        """The version shown."""
        return self._shown

    def begin(self) -> None:
        """Mark a refresh as under way."""
        self._shown = -1

    def write(self, path: str, data: bytes) -> bool:
        """Show a file."""
        self.files[path] = data
        return True

    def read(self, path: str) -> bytes | None:
        """What is shown there."""
        return self.files.get(path)

    def fits(self, path: str) -> bool:  # noqa: ARG002
        """Any name does."""
        return True

    def paths(self) -> Iterator[str]:
        """Every file."""
        return iter(sorted(self.files))

    def remove(self, path: str) -> None:
        """Hide a file."""
        self.files.pop(path, None)

    def clear(self) -> None:
        """Hide everything."""
        self.files.clear()

    def end(self, version: int) -> None:
        """Mark the view as whole."""
        self._shown = version
