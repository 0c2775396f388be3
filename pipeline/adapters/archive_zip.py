"""Zip archives as entries and pieces, for the child of `archive_sandbox`. Reading is `zipfile`'s; the suspicion is ours.

Before a byte is read: the directory's size and count, that no two entries share bytes of the archive, and that what
they say they take up fits into it.
"""

from __future__ import annotations

import calendar
import itertools
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from pipeline.archives import Entry, ImportLimits, Kind
from pipeline.errors import RejectedInput

PIECE_BYTES = 1 << 18

_END = struct.Struct("<4s4H2LH")
"""End of the central directory: mark, this disk, first disk, entries here, entries, bytes, offset, comment's length."""
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_LOCAL = struct.Struct("<4s5H3L2H")
_COMMENT_BYTES_MAX = 65_535
_COUNT_WRAPS = 65_536
"""Writers that know no Zip64 count modulo this."""

_ENCRYPTED = 0x1 | 0x40 | 0x2000
_PATCHED = 0x20
_UTF8 = 0x800
_AES = 99
_METHODS = {
    1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "lzma", 20: "Zstandard", 93: "Zstandard", 95: "xz",
    98: "PPMd",
}  # fmt: skip
_UNIX = (3, 19)
"""Systems whose attributes hold a Unix mode."""

_TIMES, _UNICODE_NAME = 0x5455, 0x7075
_DOCUMENTS = frozenset({"[content_types].xml", "_rels/.rels", "meta-inf/container.xml", "meta-inf/manifest.mf"})
"""Names, in lower case, that only files have which are one document or one program: Office, EPUB, Java."""


def read(file: BinaryIO, size: int, limits: ImportLimits) -> tuple[Kind, Iterator[Entry | bytes]]:
    """What the archive is, and its entries with their bytes.

    Raises:
        RejectedInput: it is damaged, lies, or has too many entries. Damage may also show as an exception of `zipfile`.
    """
    count = _declared(file, size, limits)
    archive = zipfile.ZipFile(file)
    infos = archive.infolist()
    if len(infos) % _COUNT_WRAPS != count % _COUNT_WRAPS:
        raise _corrupt(f"it says that it has {count:,} entries, but lists {len(infos):,}")
    if len(infos) > limits.members:
        raise _too_many(len(infos), limits)
    if (infos and infos[0].filename == "mimetype") or any(info.filename.lower() in _DOCUMENTS for info in infos):
        return "document", iter(())
    _check_ranges(file, infos, archive.start_dir, size)
    return "zip", _events(archive, infos)


def _declared(file: BinaryIO, size: int, limits: ImportLimits) -> int:
    """Entries that the archive says it has; found as `zipfile` does, which would first read the whole directory."""
    span = min(size, _END.size + _COMMENT_BYTES_MAX)
    file.seek(size - span)
    tail = file.read(span)
    at = len(tail) - _END.size
    if not (at >= 0 and tail[at : at + 4] == b"PK\x05\x06" and tail.endswith(b"\x00\x00")):
        at = tail.rfind(b"PK\x05\x06", 0, len(tail) - _END.size + 4)
    if at < 0:
        raise _corrupt("its directory is missing: it was cut short, or is no zip")
    _, disk, first, _, count, directory, _, _ = _END.unpack_from(tail, at)
    start = size - span + at - _LOCATOR.size - _END64.size
    if start >= 0:
        file.seek(start)
        end64 = file.read(_END64.size + _LOCATOR.size)
        if end64[_END64.size :].startswith(b"PK\x06\x07") and end64.startswith(b"PK\x06\x06"):
            _, _, _, _, disk, first, _, count, directory, _ = _END64.unpack_from(end64)
    if disk or first:
        raise RejectedInput("archive_unsupported", "it is one part of an archive that was split")
    if count > limits.members:
        raise _too_many(count, limits)
    if directory > limits.directory_bytes:
        raise RejectedInput(
            "import_limit", f"its directory has {directory:,} bytes, more than the {limits.directory_bytes:,} allowed"
        )
    return int(count)


def _check_ranges(file: BinaryIO, infos: list[zipfile.ZipInfo], directory: int, size: int) -> None:
    """Every entry has bytes of its own: small archives that unpack for ever let thousands share the same ones."""
    if sum(info.compress_size for info in infos) > size:
        raise _corrupt("its entries say that they take up more than the whole of it")
    spans = []
    for info in infos:
        file.seek(info.header_offset)
        head = file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or not head.startswith(b"PK\x03\x04"):
            raise _corrupt(f"there is no entry where {_shown(info)} should be")
        *_, name_bytes, extra_bytes = _LOCAL.unpack(head)
        body = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
        spans.append((info.header_offset, body + info.compress_size, info))
    spans.sort(key=lambda span: span[:2])
    for (_, stop, info), (start, _, other) in itertools.pairwise(spans):
        if stop > start:
            raise _corrupt(f"{_shown(info)} and {_shown(other)} share the same bytes")
    if spans and max(stop for _, stop, _ in spans) > directory:
        raise _corrupt("an entry runs into its directory")


def _events(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo]) -> Iterator[Entry | bytes]:
    for info in infos:
        reason = _refusal(info)
        kind = _unix_kind(info)
        if info.filename.endswith("/") or kind == "folder":
            yield Entry(_name(info), "folder")
        elif reason or kind:
            yield Entry(_name(info), "refused", reason or f"is {kind}")
        else:
            yield Entry(_name(info), "file", "", info.compress_size, _modified(info))
            yield from _pieces(archive, info)


def _refusal(info: zipfile.ZipInfo) -> str:
    if info.flag_bits & _ENCRYPTED or info.compress_type == _AES:
        return "is encrypted"
    if info.flag_bits & _PATCHED:
        return "holds a patch, not a file"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        how = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        return f"is compressed with {how}; only deflate is read"
    return ""


def _unix_kind(info: zipfile.ZipInfo) -> str:
    """What the entry is besides a file, by its Unix mode; empty for files and where there is no mode."""
    mode = info.external_attr >> 16
    if info.create_system not in _UNIX or not stat.S_IFMT(mode) or stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "folder"
    return "a link" if stat.S_ISLNK(mode) else "a device, pipe or socket"


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    if info.compress_type == zipfile.ZIP_STORED and info.compress_size != info.file_size:
        raise _corrupt(f"{_shown(info)} isn't compressed, yet has two sizes")
    produced = 0
    try:
        with archive.open(info) as stream:
            while piece := stream.read(PIECE_BYTES):
                produced += len(piece)
                yield piece
    except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise _corrupt(f"{_shown(info)} can't be read: {error}") from error
    if produced != info.file_size:  # `zipfile` is content when a stream ends early with the right checksum
        raise _corrupt(f"{_shown(info)} has {produced:,} bytes and says that it has {info.file_size:,}")


def _name(info: zipfile.ZipInfo) -> bytes:
    """The stored name in UTF-8. Without the flag it is that all the same, in most archives; else the old code page."""
    if info.flag_bits & _UTF8:
        return info.orig_filename.encode("utf-8")
    raw = info.orig_filename.encode("cp437")
    told = _extra(info).get(_UNICODE_NAME, b"")
    if told[:1] == b"\x01" and told[1:5] == struct.pack("<L", zlib.crc32(raw)):
        return told[5:]
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return info.orig_filename.encode("utf-8")
    return raw


def _modified(info: zipfile.ZipInfo) -> float:
    """The time in the Unix field; else the old local one, read as UTC so that every machine gives the same."""
    told = _extra(info).get(_TIMES, b"")
    if len(told) >= 5 and told[0] & 1:  # noqa: PLR2004  # flags and one time
        return float(struct.unpack_from("<l", told, 1)[0])
    try:
        return float(calendar.timegm(info.date_time))
    except ValueError:  # the thirteenth month, or none
        return 0.0


def _extra(info: zipfile.ZipInfo) -> dict[int, bytes]:
    fields: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(info.extra):
        tag, length = struct.unpack_from("<HH", info.extra, at)
        fields.setdefault(tag, info.extra[at + 4 : at + 4 + length])
        at += 4 + length
    return fields


def _shown(info: zipfile.ZipInfo) -> str:
    return repr(info.orig_filename[:200])


def _corrupt(what: str) -> RejectedInput:
    return RejectedInput("archive_corrupt", what)


def _too_many(count: int, limits: ImportLimits) -> RejectedInput:
    return RejectedInput("import_limit", f"it has {count:,} entries, more than the {limits.members:,} allowed")
