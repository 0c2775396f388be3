"""Object store in a folder: one file a key, written whole or not at all.

A blob is written under `.incoming`, flushed, then renamed to its place; folders are flushed once a call. A crash leaves at
most files in `.incoming`, which no key can name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pipeline.errors import Conflict, PipelineError, RejectedInput, Unavailable
from pipeline.object_keys import checked

_INCOMING: Final = ".incoming"


class LocalObjectStore:
    """Port `ObjectStore`. Threads and processes may share the folder."""

    def __init__(self, root: Path) -> None:
        """Use a folder, which is made at the first write; nothing else may write to it."""
        self._root = root

    def put_many(self, items: Mapping[str, bytes]) -> None:
        """Store each blob; all are durable when it returns.

        Raises:
            Conflict: a key exists with other bytes, or names what is a folder of other keys. Nothing was written then.
            RejectedInput: code `bad_key`.
        """
        paths = {key: self._path(key) for key in items}
        try:
            new = [key for key, data in items.items() if not _holds(key, paths[key], data)]
            folders: set[Path] = set()
            for key in new:
                folders |= self._make_folder(paths[key].parent)
                self._write(paths[key], items[key])
            for folder in sorted(folders):
                _flush_folder(folder)
        except OSError as error:
            raise _translated(error) from error

    def get(self, key: str) -> bytes:
        """The blob.

        Raises:
            RejectedInput: codes `no_such_object`, `bad_key`.
        """
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise RejectedInput("no_such_object", f"there is no object {key}") from error
        except OSError as error:
            raise _translated(error) from error

    def delete_many(self, keys: Sequence[str]) -> None:
        """Erase the keys that exist; emptied folders stay, since a writer may be about to use them."""
        for key in keys:
            try:
                self._path(key).unlink()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
                if isinstance(error, PermissionError) and not self._path(key).is_dir():
                    raise _translated(error) from error
            except OSError as error:
                raise _translated(error) from error

    def list(self, prefix: str) -> Iterator[str]:
        """Keys that start with `prefix`, by code point; memory is bounded by the largest folder on the way."""
        yield from _walk(self._root, "", prefix)

    def _path(self, key: str) -> Path:
        return self._root / checked(key)

    def _make_folder(self, folder: Path) -> set[Path]:
        """The folder, made if need be, and every folder above it that got a new entry by that."""
        touched, at = {folder}, folder
        while not at.exists():
            at = at.parent
            touched.add(at)
        folder.mkdir(parents=True, exist_ok=True)
        return touched

    def _write(self, path: Path, data: bytes) -> None:
        incoming = self._root / _INCOMING
        incoming.mkdir(exist_ok=True)
        handle, name = tempfile.mkstemp(dir=incoming)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _holds(key: str, path: Path, data: bytes) -> bool:
    try:
        same = path.read_bytes() == data
    except FileNotFoundError:
        return False
    except (IsADirectoryError, NotADirectoryError) as error:
        raise Conflict("object_exists", f"{key}: one key can't be a folder of another") from error
    if not same:
        raise Conflict("object_exists", f"object {key} exists with other bytes")
    return True


def _walk(folder: Path, above: str, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            # A folder sorts as its name with '/', which is where its keys belong among its neighbours'.
            names = sorted(entry.name + "/" * entry.is_dir() for entry in entries if not entry.name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _translated(error) from error
    for name in names:
        key = above + name
        if not name.endswith("/"):
            if key.startswith(prefix):
                yield key
        elif key.startswith(prefix) or prefix.startswith(key):
            yield from _walk(folder / name, key, prefix)


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _translated(error: OSError) -> PipelineError:
    if isinstance(error, FileExistsError | NotADirectoryError | IsADirectoryError):
        return Conflict("object_exists", f"one key can't be a folder of another: {error}")
    return Unavailable(
        "object_store_unavailable", str(error), remedy="Check that the disk has room and the folder can be written."
    )
