"""The port that reads archives, and the limits of an import.

An archive is hostile until proven otherwise: whoever reads one only lists its entries and hands out their bytes. Names,
totals and collisions are judged by the flow (`pipeline.importing`), on bytes that really came.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Literal, Protocol

Kind = Literal["zip", "tar", "tar.gz", "gzip", "document"]
"""What a file turned out to be. `gzip` holds no tar; `document` is a zip that is one document (an Office file, an EPUB).
Neither has entries."""

HEAD_BYTES = 512
"""Bytes at the start of a file that `recognise` looks at."""

_CHECKSUM = slice(148, 156)
_MARKS = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"Rar!\x1a\x07", "rar"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    *((b"BZh%d1AY&SY" % level, "bzip2") for level in range(1, 10)),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"LZIP\x01", "lzip"),
    (b"\x1f\x9d", "compress"),
    (b"MSCF\x00\x00\x00\x00", "cab"),
    (b"!<arch>\n", "ar"),
)
OPENABLE = ("zip", "tar", "gzip")
"""What `ArchiveReader.open` takes, of the names that `recognise` gives."""


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """Bounds of one import, on bytes that were really read. Past one of them nothing of the import is published."""

    archive_bytes: int = 2 << 30
    """Size of one archive."""
    output_bytes: int = 10 << 30
    """What the whole import may come to."""
    output_ratio: int = 100
    """An archive's output over its own size, once the output is past `grace_bytes`."""
    member_bytes: int = 2 << 30
    """Size of one entry."""
    member_ratio: int = 200
    """An entry's size over its packed size, once it is past `grace_bytes`."""
    grace_bytes: int = 1 << 20
    """Output that no ratio is asked of: small files may be very compressible."""
    members: int = 100_000
    """Entries of all archives together, folders and refused ones included."""
    depth: int = 32
    """Parts of a path. This and the next two refuse one entry, not the import."""
    name_bytes: int = 1024
    """A whole path in UTF-8, the folder to import into included."""
    part_bytes: int = 255
    """One part of a path in UTF-8."""
    header_bytes: int = 1 << 20
    """One extended header (pax, GNU long name) of a tar."""
    directory_bytes: int = 64 << 20
    """The central directory of a zip."""
    wall_seconds: float = 900.0
    """How long the reader of one archive may keep its caller waiting, all in all."""
    cpu_seconds: int = 600
    """Processor time of the reader of one archive."""
    memory_bytes: int = 1 << 30
    """Address space of the reader."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of an archive, as the archive describes it. Nothing of it has been checked."""

    name: bytes
    """As stored, in UTF-8 where its encoding is known; longer ones are cut to `NAME_BYTES_READ`."""
    kind: Literal["file", "folder", "refused"]
    """Bytes follow for a file only."""
    reason: str = ""
    """Why it is refused, whatever its name: a link, encrypted …"""
    packed_bytes: int = -1
    """Bytes that it takes up in the archive; -1 where only the whole is compressed."""
    modified: float = 0.0
    """Seconds since the epoch; 0 where it isn't known."""


NAME_BYTES_READ = 4096
"""More than any name that is accepted."""


class Archive(Protocol):
    """One archive that is being read."""

    @property
    def kind(self) -> Kind:
        """What it is."""
        ...

    def events(self) -> Iterator[Entry | bytes]:
        """Entries in the archive's order, each followed by the pieces of its bytes, 1 MiB at most. Can be read once.

        Raises:
            RejectedInput: it is damaged, lies about itself, or its reader passed a limit. What came before is void.
        """
        ...

    def close(self) -> None:
        """Stop reading. May be repeated."""
        ...


class ArchiveReader(Protocol):
    """Opens archives."""

    def open(self, file: BinaryIO, limits: ImportLimits) -> Archive:
        """Begin to read a file that `recognise` calls `zip`, `tar` or `gzip`. Its position is undefined afterwards.

        Args:
            file: a regular file, open for reading.
            limits: bounds of the reader itself: headers, ratios, time, memory.

        Raises:
            RejectedInput: as `Archive.events`.
            Unavailable: the reader can't be started.
        """
        ...


def recognise(head: bytes) -> str:
    """The kind of archive that a file is by its first `HEAD_BYTES`, `zip` or `rar`, say; empty when it is none."""
    for mark, kind in _MARKS:
        if head.startswith(mark):
            return kind
    return "tar" if is_tar_header(head) else ""


def is_tar_header(block: bytes) -> bool:
    """Whether a block begins a tar, old ones without a signature included: its checksum holds."""
    if len(block) < HEAD_BYTES:
        return False
    told = block[_CHECKSUM].strip(b" \x00")
    blanked = block[:148] + b" " * 8 + block[156:HEAD_BYTES]
    if not told.isdigit() or len(told) > len(b"7777777") or b"8" in told or b"9" in told:
        return False
    total = sum(blanked)
    # Some old writers took bytes for signed numbers.
    return int(told, 8) == total or int(told, 8) == total - 256 * sum(byte > 127 for byte in blanked)  # noqa: PLR2004
