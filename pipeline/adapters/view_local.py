"""The knowledge folder: one version's files under stable paths, for people and for tools that read files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

from pipeline.fingerprint import decode_path
from pipeline.types import SourcePath

STATE = ".lamina-version"
"""Holds the version shown, or nothing while a refresh is under way."""


class LocalView:
    """`ports.KnowledgeView` over a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shown(self) -> int:
        """The version shown; 0 before the first, -1 when a refresh was cut short."""
        try:
            text = (self._root / STATE).read_text("ascii")
        except FileNotFoundError:
            return 0
        return int(text) if text.isdigit() else -1

    def begin(self) -> None:
        """Mark the folder as under way."""
        self._root.mkdir(parents=True, exist_ok=True)
        (self._root / STATE).write_text("", "ascii")

    def write(self, path: str, data: bytes) -> bool:
        """Show a file, whole at any moment; False where the name doesn't fit the file system."""
        target = self._place(path)
        if target is None:
            return False
        part = target.with_name(target.name[:200] + ".part")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.replace(target)
        except OSError:
            part.unlink(missing_ok=True)
            return False
        return True

    def remove(self, path: str) -> None:
        """Hide a file, and the folders that it leaves empty."""
        target = self._place(path)
        if target is None:
            return
        try:
            target.unlink(missing_ok=True)
            parent = target.parent
            while parent != self._root and not any(parent.iterdir()):
                parent.rmdir()
                parent = parent.parent
        except OSError:
            return  # never shown, as the name didn't fit

    def clear(self) -> None:
        """Hide everything but the mark."""
        for item in self._root.iterdir():
            if item.name != STATE:
                shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()

    def end(self, version: int) -> None:
        """Mark the folder as showing `version`."""
        (self._root / STATE).write_text(str(version), "ascii")

    def _place(self, path: str) -> Path | None:
        parts = PurePosixPath(os.fsdecode(decode_path(SourcePath(path)))).parts
        if not parts or ".." in parts or parts[0] in ("/", STATE):
            return None
        return self._root.joinpath(*parts)
