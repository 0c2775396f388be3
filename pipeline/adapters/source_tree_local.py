"""A context's source tree as a local folder, read in place.

`.laminaignore` files (gitignore syntax, in any folder) leave files out. Links are followed only to places inside the
root. Names may hold any byte the file system allows; they appear as `fingerprint.encode_path` writes them.
"""

from __future__ import annotations

import os
import stat as stat_module
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import decode_path, encode_path
from pipeline.types import SourcePath

IGNORE_FILE = b".laminaignore"
IGNORE_BYTES_MAX = 1_000_000

NEVER = frozenset({b".git", b".hg", b".svn", b"__pycache__", b".venv", b"node_modules", b".DS_Store", IGNORE_FILE})
"""Names that no corpus means."""

_FOLDER = "ps_d"
"""The group of pathspec's expressions that holds the slash behind a folder's name."""

READ_TRIES = 3
"""How often a file that changes while it is read is read again."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """One `.laminaignore`: patterns and the folder that they are relative to."""

    base: str
    spec: GitIgnoreSpec


class LocalSourceTree:
    """`ports.SourceTree` over a folder."""

    def __init__(self, root: Path) -> None:
        self._root = os.fsencode(root)

    def exists(self) -> bool:
        """Whether the root is a folder."""
        return os.path.isdir(self._root)  # noqa: PTH112  # paths are bytes here, which pathlib doesn't take

    def walk(self) -> Iterator[SourceStat]:
        """Every file that is not ignored, by path."""
        if self.exists():
            real = os.path.realpath(self._root)
            yield from self._folder(b"", (), (real,))

    def _folder(self, relative: bytes, rules: tuple[_Rules, ...], above: tuple[bytes, ...]) -> Iterator[SourceStat]:
        folder = os.path.join(self._root, relative) if relative else self._root  # noqa: PTH118
        try:
            with os.scandir(folder) as scan:
                entries = [e for e in scan if e.name not in NEVER]
        except OSError as error:
            if relative and isinstance(error, FileNotFoundError | NotADirectoryError):
                return  # gone since its parent was listed
            raise RejectedInput(
                "unreadable_folder",
                f"can't list {encode_path(relative) or 'the source folder'}: {error.strerror}",
                remedy="give read permission, or leave it out by .laminaignore",
            ) from error
        rules = self._with_rules(folder, relative, rules)
        for _key, entry, is_folder in sorted(self._placed(entries), key=lambda item: item[0]):
            path = relative + b"/" + entry.name if relative else entry.name
            if rules and _ignored(encode_path(path), is_folder, rules):
                continue
            if is_folder:
                inside = self._enter(entry, above)
                if inside is not None:
                    yield from self._folder(path, rules, inside)
            else:
                found = self._file(entry, path)
                if found is not None:
                    yield found

    @staticmethod
    def _placed(entries: list[os.DirEntry[bytes]]) -> Iterator[tuple[str, os.DirEntry[bytes], bool]]:
        """Sort keys that give whole paths in code point order: a folder sorts as its name and the slash behind it."""
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            name = encode_path(entry.name)
            yield (f"{name}/" if is_folder else name), entry, is_folder

    def _enter(self, entry: os.DirEntry[bytes], above: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
        """The chain of real folders down to this one; None for a link that leaves the root or closes a loop."""
        if not entry.is_symlink():
            return (*above, os.path.join(above[-1], entry.name))  # noqa: PTH118
        real = os.path.realpath(entry.path)
        return (*above, real) if _within(real, above[0]) and real not in above else None

    def _file(self, entry: os.DirEntry[bytes], path: bytes) -> SourceStat | None:
        try:
            if entry.is_symlink() and not _within(os.path.realpath(entry.path), os.path.realpath(self._root)):
                return None
            found = entry.stat()
        except OSError:
            return None  # a link to nothing, or gone since the listing
        return _stat(encode_path(path), found) if stat_module.S_ISREG(found.st_mode) else None

    def _with_rules(self, folder: bytes, relative: bytes, rules: tuple[_Rules, ...]) -> tuple[_Rules, ...]:
        try:
            # A pipe of that name must not be waited for.
            with open(os.path.join(folder, IGNORE_FILE), "rb", opener=_open_now) as file:  # noqa: PTH118
                text = file.read(IGNORE_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            return rules
        base = encode_path(relative) + "/" if relative else ""
        return (*rules, _Rules(base, GitIgnoreSpec.from_lines(text.splitlines())))

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:
        """Whole bytes and the state they were read under; a file that moves meanwhile is read again."""
        real = os.path.realpath(os.path.join(self._root, decode_path(path)))  # noqa: PTH118
        if not _within(real, os.path.realpath(self._root)):
            raise RejectedInput(
                "vanished", f"{path} leads out of the source folder", remedy="replace the link by the file"
            )
        try:
            for _ in range(READ_TRIES):
                data, before, after = _read_once(real, path, limit_bytes)
                if before == after and len(data) == before.size:
                    return data, before
        except FileNotFoundError as error:
            raise RejectedInput(
                "vanished", f"{path} went away while the run was under way", remedy="run again"
            ) from error
        except OSError as error:
            raise RejectedInput(
                "unreadable", f"can't read {path}: {error.strerror}", remedy="give read permission, or leave it out"
            ) from error
        raise RejectedInput("changing", f"{path} is being written all the time", remedy="run again when it has settled")


def _read_once(real: bytes, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat, SourceStat]:
    handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat_module.S_ISREG(found.st_mode):
            raise RejectedInput("unreadable", f"{path} is not a regular file", remedy="leave it out by .laminaignore")
        if found.st_size > limit_bytes:
            raise RejectedInput(
                "too_large",
                f"{path} has {found.st_size:,} bytes, more than the {limit_bytes:,} that are read",
                remedy="split it, leave it out by .laminaignore, or raise source_bytes in lamina.toml",
            )
        with open(handle, "rb", closefd=False) as file:
            data = file.read(limit_bytes + 1)
        return data, _stat(path, found), _stat(path, os.fstat(handle))
    finally:
        os.close(handle)


def _open_now(path: Any, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _stat(path: SourcePath, found: os.stat_result) -> SourceStat:
    return SourceStat(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _within(real: bytes, root: bytes) -> bool:
    return real == root or real.startswith(root.rstrip(b"/") + b"/")


def _ignored(path: str, is_folder: bool, rules: tuple[_Rules, ...]) -> bool:  # noqa: FBT001  # private, one caller
    """The last matching line of the nearest `.laminaignore` that has one decides, as git has it."""
    for rule in reversed(rules):
        entry = path[len(rule.base) :] + ("/" if is_folder else "")
        for pattern in reversed(rule.spec.patterns):
            if pattern.include is not None and _names(pattern, entry):
                return bool(pattern.include)
    return False


def _names(pattern: Any, entry: str) -> bool:
    """Whether the pattern means this entry, and not merely a folder above it, about which was decided before.

    `GitIgnoreSpec` itself can't tell a folder from what is below it, and so leaves out `*`, `!*/`, `!*.md` entirely.
    """
    for match in pattern.regex.finditer(entry):
        whole, own = match.end() == len(entry), match.groupdict().get(_FOLDER) is not None
        # `a/**` ends in the slash of `a/`, and means only what is below.
        if whole if own else not (whole and entry.endswith("/")):
            return True
    return False
