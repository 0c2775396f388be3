"""The knowledge folder: one version's files under stable paths, for people and for tools that read files."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from pipeline.errors import Unavailable
from pipeline.fingerprint import decode_path, encode_path
from pipeline.types import SourcePath

STATE = ".lamina-version"
"""Holds the version shown, or nothing while a refresh is under way."""

_UNFIT = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY}
)
"""What a file system says of a name that it can't hold, or that another file's or folder's name is in the way of."""


class LocalView:
    """`ports.KnowledgeView` over a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def shown(self) -> int:
        """The version shown; 0 before the first, -1 when a refresh was cut short."""
        try:
            text = (self._root / STATE).read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise _unavailable(error) from error
        return int(text) if text.isdigit() else -1

    def begin(self) -> None:
        """Mark the folder as under way."""
        self._mark("")

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
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            if error.errno not in _UNFIT:
                raise _unavailable(error) from error
            return False
        return True

    def read(self, path: str) -> bytes | None:
        """The file's bytes; None where no file stands under that name."""
        target = self._place(path)
        if target is None:
            return None
        try:
            return target.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in _UNFIT:
                return None
            raise _unavailable(error) from error

    def fits(self, path: str) -> bool:
        """Whether the name can stand beside what is there."""
        target = self._place(path)
        if target is None:
            return False
        try:
            return not stat.S_ISDIR(target.lstat().st_mode)
        except OSError as error:
            return error.errno not in _UNFIT

    def paths(self) -> Iterator[str]:
        """Every file but the mark, with links, which are never followed."""
        root = os.fsencode(self._root)
        for folder, folders, names in os.walk(root):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118  # bytes
            for name in (*names, *links):
                path = os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118  # bytes
                if path != os.fsencode(STATE):
                    yield encode_path(path)

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
        try:
            for item in self._root.iterdir():
                if item.name != STATE:
                    shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()
        except OSError as error:
            raise _unavailable(error) from error

    def end(self, version: int) -> None:
        """Mark the folder as showing `version`."""
        self._mark(str(version))

    def _mark(self, text: str) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            (self._root / STATE).write_text(text, "ascii")
        except OSError as error:
            raise _unavailable(error) from error

    def _place(self, path: str) -> Path | None:
        parts = PurePosixPath(os.fsdecode(decode_path(SourcePath(path)))).parts
        if not parts or ".." in parts or parts[0] in ("/", STATE):
            return None
        return self._root.joinpath(*parts)


def _unavailable(error: OSError) -> Unavailable:
    return Unavailable(
        "knowledge_folder",
        f"can't use the knowledge folder: {error}",
        remedy="check space and permissions, then run again",
    )
