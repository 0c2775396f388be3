"""A folder that a version's files are written into. Their paths are untrusted: nothing is ever written outside.

Every folder on the way is opened from the one above it and never through a link, so that a link which stands in the
folder, or is put there meanwhile, leads nowhere.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from pipeline.errors import RejectedInput, Unavailable
from pipeline.fingerprint import decode_path
from pipeline.types import SourcePath

PART = b".lamina-export.part"
"""A file under way, in the folder where it will stand."""
_IN_THE_WAY = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EEXIST, errno.ENOTEMPTY})
_UNFIT = frozenset({errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class ExportFolder:
    """An open folder; close it."""

    def __init__(self, folder: Path, *, force: bool) -> None:
        """Make it, or take it as it is.

        Args:
            folder: where; the last part may be a link that the caller chose.
            force: take one that holds something.

        Raises:
            RejectedInput: it holds something, is no folder, or can't be made.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, ValueError) as error:
            raise RejectedInput(
                "bad_folder", f"can't write into {folder}: {error}", remedy="name an empty or a new folder"
            ) from error
        if not force and os.listdir(self._root):  # noqa: PTH208 - of the folder that is open, whatever its name is now
            self.close()
            raise RejectedInput(
                "not_empty", f"{folder} is not empty", remedy="name an empty or a new folder, or give --force"
            )

    def write(self, path: str, data: bytes) -> str:
        """Put a file in its place, whole at any moment; why it wasn't, or nothing where it was.

        Raises:
            Unavailable: no space, no permission.
        """
        parts = decode_path(SourcePath(path)).split(b"/")
        if any(part in (b"", b".", b"..", PART) or b"\0" in part for part in parts):
            return "its path leads outside the folder"
        try:
            handle = self._descend(parts[:-1])
            try:
                _replace(handle, parts[-1], data)
            finally:
                os.close(handle)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return "something else has its name, or the name of a folder on the way"
            if error.errno in _UNFIT:
                return "the file system can't hold its name"
            raise Unavailable(
                "export_folder", f"can't write {path}: {error.strerror}", remedy="check space and permissions"
            ) from error
        return ""

    def _descend(self, parts: list[bytes]) -> int:
        handle = os.dup(self._root)
        for part in parts:
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=handle)
                below = os.open(part, _FOLDER, dir_fd=handle)
            finally:
                os.close(handle)
            handle = below
        return handle

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._root)


def _replace(folder: int, name: bytes, data: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(PART, dir_fd=folder)
    part = os.open(PART, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    try:
        with os.fdopen(part, "wb") as file:
            file.write(data)
        os.replace(PART, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(PART, dir_fd=folder)
        raise
