"""`ArchiveReader` in a child process for each archive, with limits of memory, time and files: archives are hostile.

What the child sends is taken for a claim. Its frames are checked here; names, totals and ratios by whoever reads them.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, Literal, cast, get_args

import pipeline
from pipeline.adapters.archive_child import DONE, ENTRY, HEAD, KIND, PIECE, READY, REJECTED
from pipeline.archives import NAME_BYTES_READ, Entry, ImportLimits, Kind
from pipeline.errors import RejectedInput, Unavailable

_BOOT = "import sys, importlib; sys.path += sys.argv[1].split(chr(0x1f)); importlib.import_module(sys.argv[2]).main(sys.argv[3])"
"""What a child runs: `-I` keeps the environment and the working folder out of its path, so the way to the package is
passed in."""
_FRAME_BYTES_MAX = 1 << 20
_PIPE_BYTES = 1 << 18
_END_SECONDS = 5.0
"""How long a child whose pipe is closed may take to be gone before it's killed."""
_TEXT_CHARS = 500
_CODES = ("archive_corrupt", "archive_memory", "archive_unsupported", "import_limit")
"""Refusals that a child may give."""


class SandboxedArchiveReader:
    """`ports.ArchiveReader`. Thread-safe: every archive has a process of its own."""

    def __init__(self, *, module: str = "pipeline.adapters.archive_child", module_root: Path | None = None) -> None:
        """Start nothing yet.

        Args:
            module: what a child runs, a module with `main(limits)`.
            module_root: folder to import `module` from, if not the package's own.
        """
        self._module = module
        self._roots = [str(Path(pipeline.__file__).parent.parent), *([str(module_root)] if module_root else [])]

    def open(self, file: BinaryIO, limits: ImportLimits) -> SandboxedArchive:
        """See `archives.ArchiveReader.open`.

        Further codes: `archive_timeout`, `archive_memory`, `archive_crashed`.
        """
        file.seek(0)
        arguments = [sys.executable, "-I", "-c", _BOOT, chr(0x1F).join(self._roots), self._module]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter with our own arguments
                [*arguments, json.dumps(asdict(limits))],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"LC_ALL": "C.UTF-8"},  # secrets in the environment are none of an archive's business
                bufsize=0,
            )
        except OSError as error:
            raise Unavailable("archive_start", f"the process that reads archives can't be started: {error}") from error
        return SandboxedArchive(process, limits)


class SandboxedArchive:
    """`archives.Archive`: one process and its pipe."""

    kind: Kind

    def __init__(self, process: subprocess.Popen[bytes], limits: ImportLimits) -> None:
        assert process.stdout is not None, "it was asked for"
        self._process = process
        self._limits = limits
        self._out = process.stdout
        self._buffer = bytearray()
        self._waited = 0.0
        os.set_blocking(self._out.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        try:
            self._await_start()
            self.kind = self._told_kind()
        except BaseException:
            self.close()
            raise

    def _await_start(self) -> None:
        try:
            kind, _ = self._frame()
        except RejectedInput as error:
            raise Unavailable("archive_start", "the process that reads archives ended before it was ready") from error
        if kind != READY:
            raise _crashed("it spoke before it was ready")

    def _told_kind(self) -> Kind:
        kind, body = self._frame()
        told = body.decode("ascii", "replace")
        if kind != KIND or told not in get_args(Kind):
            raise self._refusal(kind, body)
        return cast("Kind", told)

    def events(self) -> Iterator[Entry | bytes]:
        """See `archives.Archive.events`."""
        seen = False
        while True:
            kind, body = self._frame()
            if kind == DONE:
                return
            if kind == ENTRY:
                entry = _entry(body)
                seen = entry.kind == "file"
                yield entry
            elif kind == PIECE and seen:
                yield body
            else:
                raise self._refusal(kind, body)

    def close(self) -> None:
        """End the process. May be repeated."""
        self._selector.close()
        self._out.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _frame(self) -> tuple[bytes, bytes]:
        self._fill(HEAD.size)
        kind, size = HEAD.unpack_from(self._buffer)
        if size > _FRAME_BYTES_MAX:
            raise _crashed(f"it announced {size:,} bytes at once")
        self._fill(HEAD.size + size)
        body = bytes(memoryview(self._buffer)[HEAD.size : HEAD.size + size])
        del self._buffer[: HEAD.size + size]
        return kind, body

    def _fill(self, count: int) -> None:
        """Wait until the buffer holds `count` bytes. Only waiting counts against the limit: what we do in between is slow too."""
        while len(self._buffer) < count:
            began = time.monotonic()
            ready = self._selector.select(max(0.0, self._limits.wall_seconds - self._waited))
            self._waited += time.monotonic() - began
            if not ready:
                raise RejectedInput("archive_timeout", f"reading it took more than {self._limits.wall_seconds:g} s")
            piece = os.read(self._out.fileno(), _PIPE_BYTES)
            if not piece:
                raise self._cause_of_death()
            self._buffer += piece

    def _refusal(self, kind: bytes, body: bytes) -> RejectedInput:
        try:
            code, message = (str(part) for part in json.loads(body)) if kind == REJECTED else ("", "")
        except (ValueError, TypeError, RecursionError):
            code = message = ""
        if code not in _CODES:
            return _crashed("it gave an answer that makes no sense")
        return RejectedInput(code, message[:_TEXT_CHARS])

    def _cause_of_death(self) -> RejectedInput:
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            status = 0
        if status in {-signal.SIGXCPU, -signal.SIGALRM}:
            return RejectedInput("archive_timeout", f"reading it took more than {self._limits.cpu_seconds} s of CPU")
        if status == -signal.SIGKILL:
            return RejectedInput(
                "archive_memory", "the process that read it was killed, most likely for want of memory"
            )
        return _crashed(signal.Signals(-status).name if status < 0 else f"exit status {status}")


def _entry(body: bytes) -> Entry:
    try:
        name, kind, reason, packed, modified = json.loads(body)
        raw, packed_bytes, when = name.encode("latin-1"), int(packed), float(modified)
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise _crashed("it described an entry that makes no sense") from error
    if kind not in ("file", "folder", "refused") or len(raw) > NAME_BYTES_READ:
        raise _crashed("it described an entry that makes no sense")
    told = cast('Literal["file", "folder", "refused"]', kind)
    return Entry(raw, told, str(reason)[:_TEXT_CHARS], packed_bytes, when if math.isfinite(when) else 0.0)


def _crashed(how: str) -> RejectedInput:
    return RejectedInput("archive_crashed", f"the process that read it failed: {how}")
