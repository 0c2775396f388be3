"""Tar archives, plain or gzipped, as entries and pieces, for the child of `archive_sandbox`.

The headers are read here and not by `tarfile`, whose searches through hostile pax headers take quadratic time, whose
sparse maps have no bound, which goes backwards on negative sizes, and which takes a damaged header for the end. This
reader only goes forward, in steps that it knows before it takes them; what it reads of sound archives is what
`tarfile` reads, which a test holds it to.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from pipeline.archives import Entry, ImportLimits, Kind, is_tar_header
from pipeline.errors import RejectedInput

PIECE_BYTES = 1 << 18
BLOCK = 512

_RAW_BYTES = 1 << 16
_ZERO = bytes(BLOCK)
_KINDS = {
    b"1": "a hard link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe", b"S": "a sparse file",
    b"M": "the rest of a file that was split", b"V": "a label, not a file", b"D": "an incremental folder, not a file",
}  # fmt: skip
_WITHOUT_DATA = b"123456"
_FILES = b"0\x007"
_ABOUT_OTHERS = b"xXgLK"
"""Kinds of headers that say something about entries to come."""
_HEADERS_PER_ENTRY = 4
"""Headers that an entry may have, at most: its own, pax, a long name and a long link. Entries themselves are counted by
whoever reads them; this bounds headers that never come to an entry."""
_LENGTH_DIGITS_MAX = 8
_SIZE_DIGITS_MAX = 19
_SPARSE = b"GNU.sparse."
_SPARSE_NAME = b"GNU.sparse.name"
_TOLD = (b"path", b"size", b"mtime", _SPARSE_NAME)
"""What an extended header may say that matters here."""


def read(file: BinaryIO, size: int, limits: ImportLimits) -> tuple[Kind, Iterator[Entry | bytes]]:
    """What the file is, and its entries with their bytes.

    Raises:
        RejectedInput: it is damaged or passes a limit.
    """
    head = file.read(2)
    file.seek(0)
    source = _Gzip(file, size, limits) if head == b"\x1f\x8b" else _Plain(file)
    first = source.take(BLOCK)
    if source.gzipped and first != _ZERO and not is_tar_header(first):
        return "gzip", iter(())
    return "tar.gz" if source.gzipped else "tar", _Tar(source, limits).events(first)


class _Plain:
    """A file that is read forwards."""

    gzipped = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def take(self, count: int) -> bytes:
        """`count` bytes; fewer only at the end."""
        return self._file.read(count)

    def begin_member(self) -> None:
        """From here on bytes belong to the next entry."""


class _Gzip(_Plain):
    """The inflated bytes of a gzip file of any number of parts, with ratios kept."""

    gzipped = True

    def __init__(self, file: BinaryIO, size: int, limits: ImportLimits) -> None:
        super().__init__(file)
        self._size = size
        self._limits = limits
        self._inflater = zlib.decompressobj(wbits=31)
        self._raw = b""
        self._used = self._given = 0
        self._used_before = self._given_before = 0

    def take(self, count: int) -> bytes:
        """`count` bytes; fewer only at the end, and then the checksums have been right."""
        out = bytearray()
        while len(out) < count:
            if self._inflater.eof and not self._next_part():
                break
            if not self._raw and not self._inflater.eof:
                self._raw = self._file.read(_RAW_BYTES)
                if not self._raw:
                    raise _corrupt("it was cut short")
            piece = self._inflater.decompress(self._raw, count - len(out))
            left = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
            self._used += len(self._raw) - len(left)
            self._raw = left
            self._given += len(piece)
            out += piece
            self._keep_ratio()
        return bytes(out)

    def begin_member(self) -> None:
        """From here on bytes belong to the next entry."""
        self._used_before, self._given_before = self._used, self._given

    def _next_part(self) -> bool:
        """Whether another gzip part follows; zeros, with which tapes are padded, are none."""
        while len(self._raw) < 2:  # noqa: PLR2004  # the mark
            more = self._file.read(_RAW_BYTES)
            if not more:
                break
            self._raw = (self._raw + more).lstrip(b"\x00")
        self._raw = self._raw.lstrip(b"\x00")
        if not self._raw:
            return False
        if not self._raw.startswith(b"\x1f\x8b"):
            raise _corrupt("something that isn't gzip follows the gzip")
        self._inflater = zlib.decompressobj(wbits=31)
        return True

    def _keep_ratio(self) -> None:
        limits = self._limits
        used, given = self._used - self._used_before, self._given - self._given_before
        if given > limits.grace_bytes and given > limits.member_ratio * max(used, 1):
            raise RejectedInput(
                "import_limit", f"an entry is more than {limits.member_ratio} times as large as its packed form"
            )
        total = min(limits.output_bytes, max(limits.output_ratio * self._size, limits.grace_bytes))
        # Headers and padding aren't output: a thousand tiny files are mostly that.
        if self._given > total + limits.members * 2 * BLOCK:
            raise RejectedInput("import_limit", f"it holds more than {total:,} bytes, the most for its size")


@dataclass(slots=True)
class _Header:
    """One header, with what the extended ones before it say."""

    name: bytes
    type: bytes
    size: int
    modified: float
    sparse: bool
    extended: bool
    """Sparse, old style: more blocks of the map follow."""


@dataclass(slots=True)
class _Tar:
    source: _Plain
    limits: ImportLimits
    headers: int = 0
    common: dict[bytes, bytes] = field(default_factory=dict)
    """What global pax headers say about all that follow."""

    def events(self, block: bytes) -> Iterator[Entry | bytes]:
        own: dict[bytes, bytes] = {}
        announced = False
        while block != _ZERO:
            self.headers += 1
            if self.headers > _HEADERS_PER_ENTRY * self.limits.members:
                raise RejectedInput("import_limit", f"it has more than the {self.limits.members:,} entries allowed")
            header = _header(block, {**self.common, **own})
            if header.type in _ABOUT_OTHERS:
                self._extend(header, own)
                announced |= header.type != b"g"
            else:
                own, announced = {}, False
                yield from self._entry(header)
            self.source.begin_member()
            block = self.source.take(BLOCK)
        if announced:
            raise _corrupt("its last header is about an entry that isn't there")
        self._end()

    def _extend(self, header: _Header, own: dict[bytes, bytes]) -> None:
        if header.size > self.limits.header_bytes:
            raise RejectedInput(
                "import_limit",
                f"an extended header has {header.size:,} bytes, more than the {self.limits.header_bytes:,} allowed",
            )
        body = self._exactly(header.size)
        self._skip(-header.size % BLOCK)
        if header.type == b"L":
            own[b"path"] = body.split(b"\x00", 1)[0]
        elif header.type != b"K":
            target = self.common if header.type == b"g" else own
            for key, value in _records(body):
                if key in _TOLD:
                    target[key] = value
                if key.startswith(_SPARSE):
                    target[_SPARSE] = key

    def _entry(self, header: _Header) -> Iterator[Entry | bytes]:
        extended = header.extended
        while extended:
            extended = bool(self._exactly(BLOCK)[504])
        left = 0 if header.type in _WITHOUT_DATA else header.size
        padding = -left % BLOCK
        if header.type == b"5" or (header.type in _FILES and header.name.endswith(b"/")):
            yield Entry(header.name, "folder")
        elif header.sparse or header.type not in _FILES:
            kind = "a sparse file" if header.sparse else _KINDS.get(header.type, f"of an unknown kind {header.type!r}")
            yield Entry(header.name, "refused", f"is {kind}")
        else:
            yield Entry(header.name, "file", "", -1, header.modified)
            while left:
                piece = self._exactly(min(left, PIECE_BYTES))
                left -= len(piece)
                yield piece
        self._skip(left + padding)

    def _end(self) -> None:
        """Behind the mark of the end there are zeros, if anything: what isn't would be lost without a word."""
        while piece := self.source.take(PIECE_BYTES):
            if piece.strip(b"\x00"):
                raise _corrupt("something follows its end; several archives in one file can't be read")

    def _skip(self, count: int) -> None:
        while count:
            count -= len(self._exactly(min(count, PIECE_BYTES)))

    def _exactly(self, count: int) -> bytes:
        data = self.source.take(count)
        if len(data) < count:
            raise _corrupt("it was cut short")
        return data


def _header(block: bytes, told: Mapping[bytes, bytes]) -> _Header:
    if len(block) < BLOCK:
        raise _corrupt("it was cut short: the mark of its end is missing")
    if not is_tar_header(block):
        raise _corrupt("one of its headers is damaged")
    name = block[:100].split(b"\x00", 1)[0]
    if block[257:263] == b"ustar\x00" and block[345]:
        name = block[345:500].split(b"\x00", 1)[0] + b"/" + name
    kind = block[156:157]
    if kind in _ABOUT_OTHERS:  # what was told is about the entry, not about its further headers
        told = {}
    return _Header(
        name=told.get(_SPARSE_NAME) or told.get(b"path") or name,
        type=kind,
        size=_decimal(told[b"size"]) if told.get(b"size") else _number(block[124:136]),
        modified=_time(told.get(b"mtime", b""), block[136:148]),
        sparse=kind == b"S" or _SPARSE in told,
        extended=kind == b"S" and bool(block[482]),
    )


def _decimal(raw: bytes) -> int:
    if not raw.isdigit() or len(raw) > _SIZE_DIGITS_MAX:
        raise _corrupt("one of its headers holds a size that is no number")
    return int(raw)


def _number(raw: bytes) -> int:
    """A number of a header: octal text, or the extension for large ones."""
    if raw[0] == 0x80:  # noqa: PLR2004  # the mark of the extension; below zero it is 0xff
        return int.from_bytes(raw[1:], "big")
    text = raw.split(b"\x00", 1)[0].strip(b" ")
    try:
        number = int(text or b"0", 8)
    except ValueError:
        number = -1
    if number < 0:
        raise _corrupt("one of its headers holds a size that is no number")
    return number


def _time(told: bytes, raw: bytes) -> float:
    try:
        value = float(told) if told else float(_number(raw))
    except (ValueError, OverflowError, RejectedInput):
        return 0.0
    return value if math.isfinite(value) else 0.0


def _records(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The `length key=value` lines of a pax header. Each step goes forward by the length that it has checked."""
    at = 0
    while at < len(body) and body[at]:
        space = body.find(b" ", at, at + _LENGTH_DIGITS_MAX + 1)
        digits = body[at:space] if space > 0 else b""
        stop = at + int(digits) if digits.isdigit() else 0
        key, sign, value = body[space + 1 : stop - 1].partition(b"=")
        if stop <= space + 1 or stop > len(body) or body[stop - 1 : stop] != b"\n" or not sign:
            raise _corrupt("an extended header is damaged")
        yield key, value
        at = stop


def _corrupt(what: str) -> RejectedInput:
    return RejectedInput("archive_corrupt", what)
