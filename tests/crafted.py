"""Archives made for tests: sound ones by the standard library, hostile ones by hand."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Mapping

Members = Mapping[str, bytes]


def zipped(members: Members | Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of these members; names as they are, however odd."""
    pairs = members.items() if isinstance(members, Mapping) else members
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in pairs:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, data)
    return out.getvalue()


def one(name: str, data: bytes, **changes: object) -> zipfile.ZipInfo:
    """A member's description with some of it set otherwise; `data` is what `zipped_infos` writes."""
    info = zipfile.ZipInfo(name)
    for key, value in changes.items():
        setattr(info, key, value)
    info.comment = data
    return info


def zipped_infos(infos: Iterable[zipfile.ZipInfo]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for info in infos:
            data, info.comment = info.comment, b""
            archive.writestr(info, data)
    return out.getvalue()


def raw_zip(entries: Iterable[dict[str, object]], *, shared: bool = False, count: int | None = None) -> bytes:
    """A zip written field by field, so that it may lie.

    Args:
        entries: `name` and `data`; optionally `flags`, `method`, `crc`, `size` (unpacked), `packed`, `body`.
        shared: all entries of the directory point at the first local header.
        count: what the end record says about their number.
    """
    local, directory, offset = b"", b"", 0
    listed = 0
    for number, entry in enumerate(entries):
        name, data = entry["name"], entry["data"]
        assert isinstance(name, bytes)
        assert isinstance(data, bytes)
        method = entry.get("method", 0)
        body = entry.get("body", zlib.compress(data, 9)[2:-4] if method == 8 else data)
        assert isinstance(body, bytes)
        crc, packed, size = (
            entry.get("crc", zlib.crc32(data)),
            entry.get("packed", len(body)),
            entry.get("size", len(data)),
        )
        common = struct.pack(
            "<5H3L2H", 20, entry.get("flags", 0), method, 0, (1 << 5) | 1, crc, packed, size, len(name), 0
        )
        if not (shared and number):
            offset = len(local)
            local += b"PK\x03\x04" + common + name + body
        directory += b"PK\x01\x02" + struct.pack("<H", 0x314) + common + struct.pack("<3H2L", 0, 0, 0, 0, offset) + name
        listed += 1
    told = listed if count is None else count
    return local + directory + b"PK\x05\x06" + struct.pack("<4H2LH", 0, 0, told, told, len(directory), len(local), 0)


def tarred(
    members: Members | Iterable[tuple[str, bytes]] = (),
    *,
    infos: Iterable[tuple[tarfile.TarInfo, bytes]] = (),
    mode: str = "w",
    form: int = tarfile.PAX_FORMAT,
) -> bytes:
    """A tar of these members, then of these descriptions; `mode` `w:gz` compresses it."""
    pairs = members.items() if isinstance(members, Mapping) else members
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, data in pairs:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info, data in infos:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def tar_info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", **changes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    for key, value in changes.items():
        setattr(info, key, value)
    return info


def tar_header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """One header block written field by field; `size` is the field's own bytes."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b"0000644\x00"
    block[108:116] = block[116:124] = b"0000000\x00"
    block[124 : 124 + len(size)] = size
    block[136:148] = b"00000000000\x00"
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\x00 " % sum(block)
    return bytes(block)
