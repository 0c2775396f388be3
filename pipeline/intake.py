"""Reading what an import is given: bytes to bodies beside the tree, entries judged one by one, limits counted.

Nothing here touches the tree. Memory is flat: bytes pass in pieces, and of a file only its head and tail are kept, which
is what telling its format takes.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pipeline.archives import HEAD_BYTES, OPENABLE, Archive, Entry, ImportLimits, recognise
from pipeline.errors import RejectedInput
from pipeline.fingerprint import encode_path
from pipeline.import_names import TakenNames, bytes_of, checked, passed_over
from pipeline.import_report import Record, Report
from pipeline.landing import Landing
from pipeline.parse.detect import detect
from pipeline.ports import Ports
from pipeline.types import SourcePath

COPY_BYTES = 1 << 20
_HEAD, _TAIL = 4096, 1 << 18
"""Bytes at both ends of a file that `detect` looks at."""
_FUTURE_S = 86_400.0
"""How far ahead of our clock a modification time may be and still be believed."""
_ORIGIN_CHARS = 300
_ARCHIVE_NAMES = (b".zip", b".tar", b".tgz", b".tar.gz")
_DOCUMENT_MARKS = (b"[Content_Types].xml", b"mimetypeapplication/")
_REPACK = "unpack it and import what was in it, or pack it anew as .zip or .tar.gz"
_REMEDIES = {
    "import_limit": "split it, or leave out what is too large",
    "archive_corrupt": "make or fetch the archive anew: nothing of a damaged one can be trusted",
}


@dataclass(frozen=True, slots=True)
class Output:
    """A file that is to appear in the tree."""

    path: str
    """From `import_names.checked`."""
    body: int
    """Its number in the landing."""

    @property
    def source(self) -> SourcePath:
        """The path as the ledger writes it."""
        return encode_path(bytes_of(self.path))


class Body:
    """One file on its way in; past `keep_bytes` it is only counted."""

    def __init__(self, place: Path, keep_bytes: int) -> None:
        self._place = place
        self._keep_bytes = keep_bytes
        self._file = place.open("wb")
        self.size = 0
        self.head = self.tail = b""

    @property
    def dropped(self) -> bool:
        """Whether it became too large."""
        return self.size > self._keep_bytes

    def write(self, piece: bytes) -> None:
        """Take more bytes."""
        self.size += len(piece)
        if self.dropped:
            return
        if len(self.head) < _HEAD:
            self.head = (self.head + piece[:_HEAD])[:_HEAD]
        self.tail = (self.tail + piece[-_TAIL:])[-_TAIL:]
        self._file.write(piece)

    def finish(self, modified_ns: int) -> None:
        """Make it durable. `modified_ns` is nanoseconds since the epoch; 0 leaves the time of writing."""
        self._file.flush()
        handle = self._file.fileno()
        os.fchmod(handle, 0o644)
        if modified_ns:
            os.utime(handle, ns=(modified_ns, modified_ns))
        os.fsync(handle)
        self._file.close()

    def drop(self) -> None:
        """Take it away. May be repeated."""
        self._file.close()
        self._place.unlink(missing_ok=True)


@dataclass(slots=True)
class _Member:
    """The entry of an archive whose bytes are coming."""

    name: str
    origin: str
    entry: Entry
    path: str = ""
    body: Body | None = None
    """None for what is left out: its bytes are only counted."""
    size: int = 0


@dataclass(slots=True)
class Intake:
    """Where an import stands while it reads what it was given."""

    ports: Ports
    limits: ImportLimits
    prefix: str
    """Folder of the tree to put everything into, checked; empty for its top."""
    work: Landing
    report: Report
    names: TakenNames = field(default_factory=TakenNames)
    outputs: list[Output] = field(default_factory=list)
    members: int = 0
    bytes_read: int = 0

    def take(self, given: str, name: bytes, file: BinaryIO) -> None:
        """Copy a file or expand an archive.

        Args:
            given: the file as a person knows it.
            name: its own name, without folders.
            file: the regular file, open at its start.

        Raises:
            RejectedInput: nothing of the import may be published.
        """
        before = os.fstat(file.fileno())
        try:
            kind = recognise(_read(file, given, HEAD_BYTES))
            opened = self._expand(given, file, before.st_size) if kind in OPENABLE else ""
            file.seek(0)
            if not kind and name.lower().endswith(_ARCHIVE_NAMES):
                raise _void("archive_corrupt", given, "it is named as an archive, but doesn't begin as one")
            if not kind or opened == "document":
                self._copy(given, name, file, before)
            elif not opened or opened == "gzip":
                what = "a gzip file that holds no tar" if opened else f"an archive of kind {kind}"
                self._fail(given, f"is {what}, which can't be opened: {_REPACK}", kind)
        except _Unreadable as error:
            self._fail(given, str(error))
        after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise RejectedInput(
                "changing", f"{given} was written while it was read. Nothing was imported", remedy="run again"
            )

    def _copy(self, given: str, name: bytes, file: BinaryIO, state: os.stat_result) -> None:
        path = self._accepted(given, name)
        if not path:
            return
        if state.st_size > self.ports.limits.source_bytes:
            self._skip(given, self._too_large(state.st_size))
            return
        body = Body(self.work.body(len(self.outputs)), self.ports.limits.source_bytes)
        try:
            while not body.dropped and (piece := _read(file, given, COPY_BYTES)):  # it may be growing for ever
                self.bytes_read += len(piece)
                body.write(piece)
            self._require_room(given)
            fmt = self._settle(given, path, body, state.st_mtime_ns)
        except BaseException:
            body.drop()
            raise
        if fmt:
            self.report.add(Record(given, "copied", (self.outputs[-1].source,), fmt, size=body.size))

    def _expand(self, given: str, file: BinaryIO, size: int) -> str:
        """What the archive turned out to be, its entries taken where it has any; empty where none can be opened."""
        if size > self.limits.archive_bytes:
            raise _void(
                "import_limit", given, f"it has {size:,} bytes, more than the {self.limits.archive_bytes:,} allowed"
            )
        if self.ports.archives is None:
            return ""
        try:
            with closing(self.ports.archives.open(file, self.limits)) as archive:
                if archive.kind not in ("gzip", "document"):
                    self._members(given, archive, size)
                return archive.kind
        except RejectedInput as error:
            if error.code == "same_name":
                raise
            raise _void(error.code, given, error.message) from error

    def _members(self, given: str, archive: Archive, size: int) -> None:
        first = len(self.outputs)
        most = self.bytes_read + max(self.limits.grace_bytes, self.limits.output_ratio * size)
        written = 0
        member: _Member | None = None
        try:
            for event in archive.events():
                if isinstance(event, Entry):
                    written += self._end(member)
                    member = self._begin(given, event)
                else:
                    assert member is not None, "a reader gives an entry before its bytes"
                    self._feed(member, event, most)
            written += self._end(member)
        except BaseException:
            if member is not None and member.body is not None:
                member.body.drop()
            raise
        out = tuple(output.source for output in self.outputs[first:])
        self.report.add(Record(given, "extracted", out, archive.kind, size=written))

    def _begin(self, given: str, entry: Entry) -> _Member:
        self.members += 1
        if self.members > self.limits.members:
            raise RejectedInput("import_limit", f"there are more than the {self.limits.members:,} entries allowed")
        name = encode_path(entry.name)[:_ORIGIN_CHARS]
        member = _Member(name, f"{given}!/{name}", entry)
        if entry.kind == "refused":
            self._skip(member.origin, entry.reason)
        elif entry.kind == "file":
            member.path = self._accepted(member.origin, entry.name)
            if member.path:
                member.body = Body(self.work.body(len(self.outputs)), self.ports.limits.source_bytes)
        return member

    def _feed(self, member: _Member, piece: bytes, bytes_read_max: int) -> None:
        limits, name = self.limits, member.name
        member.size += len(piece)
        self.bytes_read += len(piece)
        packed = member.entry.packed_bytes
        if packed >= 0 and member.size > max(limits.grace_bytes, limits.member_ratio * packed):
            raise RejectedInput(
                "import_limit", f"{name} is more than {limits.member_ratio} times as large as its packed form"
            )
        if member.size > limits.member_bytes:
            raise RejectedInput("import_limit", f"{name} has more than the {limits.member_bytes:,} bytes allowed")
        if self.bytes_read > bytes_read_max:
            raise RejectedInput(
                "import_limit", f"with {name} it becomes more than {limits.output_ratio} times as large as it is"
            )
        self._require_room(name)
        if member.body is not None:
            member.body.write(piece)

    def _end(self, member: _Member | None) -> int:
        """Bytes that the entry adds to the tree."""
        if member is None or member.body is None:
            return 0
        modified = member.entry.modified
        sane = 0 < modified < self.ports.clock.now() + _FUTURE_S
        fmt = self._settle(member.origin, member.path, member.body, int(modified * 1e9) if sane else 0)
        return member.size if fmt else 0

    def _settle(self, origin: str, path: str, body: Body, modified_ns: int) -> str:
        """The format of a file that came whole, now an output; empty when it was left out after all."""
        if body.dropped:
            body.drop()
            self._skip(origin, self._too_large(body.size))
            return ""
        try:
            fmt = _format(body, path)
        except RejectedInput as error:
            body.drop()
            self._skip(origin, error.message)
            return ""
        self.names.claim(path, origin)
        body.finish(modified_ns)
        self.outputs.append(Output(path, len(self.outputs)))
        return fmt

    def _accepted(self, origin: str, name: bytes) -> str:
        """Where a file of this name goes; empty when it is left out."""
        try:
            path = checked(name, self.prefix, self.limits)
        except RejectedInput as error:
            self._skip(origin, error.message)
            return ""
        reason = passed_over(path, self.ports.unread_names)
        if reason:
            self._skip(origin, reason)
        return "" if reason else path

    def _require_room(self, name: str) -> None:
        if self.bytes_read > self.limits.output_bytes:
            raise RejectedInput(
                "import_limit",
                f"with {name} the import comes to more than the {self.limits.output_bytes:,} bytes allowed",
                remedy=_REMEDIES["import_limit"],
            )

    def _too_large(self, size: int) -> str:
        return f"has {size:,} bytes, more than the {self.ports.limits.source_bytes:,} that are read (source_bytes)"

    def _skip(self, origin: str, reason: str) -> None:
        self.report.add(Record(origin, "skipped", reason=reason))

    def _fail(self, given: str, reason: str, fmt: str = "") -> None:
        self.report.add(Record(given, "failed", fmt=fmt, reason=reason))


class _Unreadable(Exception):
    """A given file can't be read."""


def _read(file: BinaryIO, given: str, count: int) -> bytes:
    try:
        return file.read(count)
    except OSError as error:
        raise _Unreadable(f"can't read {given}: {error.strerror}") from error


def _format(body: Body, path: str) -> str:
    """What a file is. Archives inside archives are files like others: nobody asked to open them.

    Raises:
        RejectedInput: code `unsupported`: indexing would pass it over.
    """
    data = body.tail if body.size <= _TAIL else body.head + body.tail
    try:
        return detect(data, encode_path(bytes_of(path)))
    except RejectedInput:
        kind = recognise(body.head)
        if not kind or any(mark in data for mark in _DOCUMENT_MARKS):
            raise
        return kind


def _void(code: str, given: str, message: str) -> RejectedInput:
    """What ends the whole import."""
    return RejectedInput(code, f"{given}: {message}. Nothing was imported", remedy=_REMEDIES.get(code, _REPACK))
