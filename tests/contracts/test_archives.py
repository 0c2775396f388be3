"""The `ArchiveReader` port: what is read of sound archives, and that hostile ones end in one refusal.

The same frames are made in this process, where thousands of examples are cheap, and behind the sandbox.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crafted import one, raw_zip, tar_header, tar_info, tarred, zipped, zipped_infos
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.adapters import archive_child
from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
from pipeline.archives import Entry, ImportLimits, recognise
from pipeline.errors import RejectedInput, Unavailable

HERE = Path(__file__).parent
MEMBERS = {"a.md": b"# A\n", "b/c.md": b"x" * 300_000, "empty.txt": b"", "Gr\u00f6\u00dfe.md": b"1"}
SMALL = ImportLimits(grace_bytes=10_000, members=50, header_bytes=4096, directory_bytes=10_000, output_bytes=1 << 20)


def sandboxed(data: bytes, limits: ImportLimits, folder: Path) -> tuple[str, list[Entry | bytes]]:
    place = folder / "archive"
    place.write_bytes(data)
    with place.open("rb") as file:
        archive = SandboxedArchiveReader().open(file, limits)
        try:
            return archive.kind, list(archive.events())
        finally:
            archive.close()


def inside(data: bytes, limits: ImportLimits = SMALL) -> tuple[str, list[Entry | bytes]]:
    """What the child would send, as its parent would take it."""
    kind, events = "", []
    for mark, body in archive_child.frames(io.BytesIO(data), limits):
        if mark == archive_child.REJECTED:
            code, message = json.loads(body)
            raise RejectedInput(code, message)
        if mark == archive_child.KIND:
            kind = body.decode()
        elif mark == archive_child.ENTRY:
            name, *rest = json.loads(body)
            events.append(Entry(name.encode("latin-1"), *rest))
        elif mark == archive_child.PIECE:
            events.append(body)
    return kind, events


def files(events: list[Entry | bytes]) -> dict[str, bytes]:
    """Names and bytes of the files among the events; each name must come once."""
    out: dict[str, bytes] = {}
    current = ""
    for event in events:
        if isinstance(event, bytes):
            assert 0 < len(event) <= 1 << 20
            out[current] += event
        elif event.kind == "file":
            current = event.name.decode("utf-8", "surrogateescape")
            assert current not in out
            out[current] = b""
    return out


def refused(events: list[Entry | bytes]) -> dict[str, str]:
    return {e.name.decode(): e.reason for e in events if isinstance(e, Entry) and e.kind == "refused"}


def refusal(data: bytes, limits: ImportLimits = SMALL) -> str:
    """Code and message of what must be refused."""
    with pytest.raises(RejectedInput) as error:
        inside(data, limits)
    return f"{error.value.code}: {error.value.message}"


SOUND = [
    ("zip", zipped(MEMBERS)),
    ("zip", zipped(MEMBERS, zipfile.ZIP_STORED)),
    ("tar", tarred(MEMBERS)),
    ("tar", tarred(MEMBERS, form=tarfile.GNU_FORMAT)),
    ("tar", tarred({**MEMBERS, "p" * 90 + "/" + "n" * 90: b"ustar splits it"}, form=tarfile.USTAR_FORMAT)),
    ("tar.gz", tarred(MEMBERS, mode="w:gz")),
]


@pytest.mark.parametrize(("kind", "data"), SOUND)
def test_sound_archives(kind: str, data: bytes, tmp_path: Path) -> None:
    """Every entry comes with its bytes, in pieces; the sandbox changes nothing."""
    found = sandboxed(data, ImportLimits(), tmp_path)
    assert found == inside(data, ImportLimits())
    assert found[0] == kind
    assert MEMBERS.items() <= files(found[1]).items()


def test_files_are_left_alone(tmp_path: Path) -> None:
    """Reading an archive writes nothing, neither beside it nor where the caller stands."""
    before = sorted(tmp_path.iterdir())
    sandboxed(zipped(MEMBERS), ImportLimits(), tmp_path)
    assert sorted(tmp_path.iterdir()) == [*before, tmp_path / "archive"]


def test_folders_and_times() -> None:
    """A zip's time is UTC or its Unix field; a tar's is what it says, fractions included."""
    stamp = bytes.fromhex("5554 0500 01") + (1_600_000_000).to_bytes(4, "little")
    _, events = inside(
        zipped_infos(
            [
                one("d/", b""),
                one("old", b"1", date_time=(2020, 2, 3, 4, 5, 6)),
                one("new", b"1", date_time=(2020, 2, 3, 4, 5, 6), extra=stamp),
                one("never", b"1", date_time=(1980, 0, 0, 0, 0, 0)),
            ]
        )
    )
    assert [(e.name, e.kind, e.modified) for e in events if isinstance(e, Entry)] == [
        (b"d/", "folder", 0.0), (b"old", "file", 1580702706.0), (b"new", "file", 1.6e9), (b"never", "file", 0.0),
    ]  # fmt: skip
    _, events = inside(tarred(infos=[(tar_info("d", tarfile.DIRTYPE), b""), (tar_info("f", mtime=1.25e9 + 0.5), b"1")]))
    assert [(e.name.rstrip(b"/"), e.kind, e.modified) for e in events if isinstance(e, Entry)] == [
        (b"d", "folder", 0.0),
        (b"f", "file", 1.25e9 + 0.5),
    ]


@pytest.mark.parametrize(
    ("stored", "flags", "name"),
    [
        ("Größe".encode(), 0x800, "Größe"),
        ("Größe".encode(), 0, "Größe"),
        ("Größe".encode("cp437"), 0, "Größe"),
        (b"a\x00b", 0, "a\x00b"),
    ],
)
def test_names_in_zips(stored: bytes, flags: int, name: str) -> None:
    """UTF-8 with the flag or without, else the old code page; what is behind a NUL isn't cut off."""
    _, events = inside(raw_zip([{"name": stored, "data": b"1", "flags": flags}]))
    assert files(events) == {name: b"1"}


def test_unicode_name_field() -> None:
    """Older Windows archives have the true name beside the local one."""
    field = b"\x01" + zlib.crc32(b"Gr__e").to_bytes(4, "little") + "Größe".encode()
    extra = (0x7075).to_bytes(2, "little") + len(field).to_bytes(2, "little") + field
    assert list(files(inside(zipped_infos([one("Gr__e", b"1", extra=extra)]))[1])) == ["Größe"]


# ---------------------------------------------------------------- left out, by entry
def test_kinds_of_tar_entries() -> None:
    """Only files are read; everything else is named, and what follows it is found."""
    sparse = tar_info("new-sparse", pax_headers={"GNU.sparse.map": "0,1", "GNU.sparse.size": "5"})
    infos = [
        (tar_info("link", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (tar_info("hard", tarfile.LNKTYPE, "a.md"), b""),
        (tar_info("char", tarfile.CHRTYPE), b""),
        (tar_info("block", tarfile.BLKTYPE), b""),
        (tar_info("fifo", tarfile.FIFOTYPE), b""),
        (sparse, b"1"),
        (tar_info("old-sparse", tarfile.GNUTYPE_SPARSE), b"1" * 700),
        (tar_info("strange", b"Q"), b"1" * 700),
        (tar_info("last.md"), b"found"),
    ]
    _, events = inside(tarred({"a.md": b"1"}, infos=infos))
    assert refused(events) == {
        "link": "is a link", "hard": "is a hard link", "char": "is a device", "block": "is a device",
        "fifo": "is a pipe", "new-sparse": "is a sparse file", "old-sparse": "is a sparse file",
        "strange": "is of an unknown kind b'Q'",
    }  # fmt: skip
    assert files(events) == {"a.md": b"1", "last.md": b"found"}


def test_sparse_file_with_a_map_of_several_blocks() -> None:
    """The blocks of an old sparse map are passed over, not taken for entries."""
    head = bytearray(tar_header(b"sparse", b"%011o\x00" % 512, b"S"))
    head[482] = 1
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\x00 " % sum(head)
    more = bytes(504) + b"\x01" + bytes(7)
    _, events = inside(bytes(head) + more + bytes(512) + b"d" * 512 + tarred({"a.md": b"1"}))
    assert list(refused(events)) == ["sparse"]
    assert files(events) == {"a.md": b"1"}


def test_kinds_of_zip_entries() -> None:
    """Links, devices, encrypted entries and foreign compression are named; the rest is read."""
    infos = [
        one("link", b"/etc/passwd", create_system=3, external_attr=0o120777 << 16),
        one("fifo", b"", create_system=3, external_attr=0o010644 << 16),
        one("dir", b"", create_system=3, external_attr=0o040755 << 16),
        one("plain", b"1", create_system=3, external_attr=0o100644 << 16),
        one("dos", b"2", create_system=0, external_attr=0o120777 << 16),
    ]
    kind, events = inside(zipped_infos(infos))
    assert (kind, files(events)) == ("zip", {"plain": b"1", "dos": b"2"})
    assert refused(events) == {"link": "is a link", "fifo": "is a device, pipe or socket"}
    entries = [
        {"name": b"secret", "data": b"1", "flags": 1},
        {"name": b"aes", "data": b"1", "method": 99, "flags": 1},
        {"name": b"patch", "data": b"1", "flags": 0x20},
        {"name": b"old", "data": b"1", "method": 9},
        {"name": b"odd", "data": b"1", "method": 77},
        {"name": b"fine", "data": b"1"},
    ]
    _, events = inside(raw_zip(entries))
    assert refused(events) == {
        "secret": "is encrypted", "aes": "is encrypted", "patch": "holds a patch, not a file",
        "old": "is compressed with deflate64; only deflate is read",
        "odd": "is compressed with method 77; only deflate is read",
    }  # fmt: skip
    assert files(events) == {"fine": b"1"}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_dense_compression_is_not_unpacked(method: int) -> None:
    """Methods that reach ratios of hundred thousands aren't even begun."""
    _, events = inside(zipped([("bomb", bytes(10 << 20)), ("a.md", b"1")], method), SMALL)
    assert "is compressed with" in refused(events)["bomb"]


# ---------------------------------------------------------------- sound tars, as tarfile reads them
NAMES = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=60)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map("/".join)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(PATHS, st.binary(max_size=1500), max_size=5),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    st.sampled_from(["w", "w:gz"]),
    st.sampled_from([0, 1, 1_700_000_000, 1_700_000_000.25]),
)
def test_tars_are_read_as_tarfile_reads_them(members: dict[str, bytes], form: int, mode: str, mtime: float) -> None:
    """Long names, extended headers and large numbers mean what they mean to the library that wrote them."""
    infos = [(tar_info(name, mtime=mtime), data) for name, data in members.items()]
    data = tarred(infos=infos, form=form, mode=mode)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        want = [(m.name, archive.extractfile(m).read(), m.mtime) for m in archive]  # type: ignore[union-attr]
    _, events = inside(data, ImportLimits())
    told = [(e.name.decode("utf-8", "surrogateescape"), e.modified) for e in events if isinstance(e, Entry)]
    assert told == [(name, modified) for name, _, modified in want]
    assert list(files(events).values()) == [content for _, content, _ in want]


def test_long_names_and_numbers() -> None:
    """GNU long names, pax names and sizes, the extension for large numbers, a name that isn't UTF-8."""
    long = "d/" * 100 + "n" * 150
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        assert files(inside(tarred({long: b"1"}, form=form))[1]) == {long: b"1"}
    large = tar_header(b"a.md", b"\x80" + (3).to_bytes(11, "big")) + b"abc" + bytes(509) + bytes(1024)
    assert files(inside(large)[1]) == {"a.md": b"abc"}
    assert files(inside(tar_header(b"Gr\xf6\xdfe", b"%011o\x00" % 0) + bytes(1024))[1]) == {"Gr\udcf6\udcdfe": b""}
    told = tarred(infos=[(tar_info("x", pax_headers={"path": "told.md"}), b"1")])
    assert files(inside(told)[1]) == {"told.md": b"1"}


def test_several_gzip_parts_and_padding() -> None:
    """gzip files may be concatenated, and padded with zeros."""
    data = tarred({"a.md": b"1" * 2000})
    parts = gzip.compress(data[:700]) + gzip.compress(data[700:]) + bytes(1000)
    assert files(inside(parts)[1]) == {"a.md": b"1" * 2000}
    assert "isn't gzip follows" in refusal(gzip.compress(data) + b"trailing")


# ---------------------------------------------------------------- refused whole
def shortened(data: bytes) -> Iterator[bytes]:
    yield from (data[:n] for n in (len(data) - 1, len(data) - 30, len(data) // 2, 100, 40))


@pytest.mark.parametrize("data", [zipped(MEMBERS), tarred(MEMBERS, mode="w:gz")], ids=["zip", "tar.gz"])
def test_truncated(data: bytes) -> None:
    for short in shortened(data):
        assert refusal(short, ImportLimits()).startswith("archive_corrupt")


def test_truncated_tar() -> None:
    """Cut between two entries too: only the mark of the end tells that nothing is missing."""
    data = tarred({"a.md": b"1", "b.md": b"2"})
    assert len(files(inside(data[:2560])[1])) == 2
    for cut in (2048, 2047, 1536, 1025, 1024, 700, 513):
        assert refusal(data[:cut]).startswith("archive_corrupt: it was cut short"), cut


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def test_damaged_contents() -> None:
    """Checksums are those of the archive, at the end of an entry or of the whole."""
    stored = zipped({"a.md": b"hello world"}, zipfile.ZIP_STORED)
    assert "Bad CRC" in refusal(damaged(stored, stored.index(b"hello")))
    deflated = zipped({"a.md": random.Random(1).randbytes(5000)})
    assert refusal(damaged(deflated, 2000)).startswith("archive_corrupt")
    packed = tarred({"a.md": random.Random(1).randbytes(5000)}, mode="w:gz")
    assert refusal(damaged(packed, 2000)).startswith("archive_corrupt")
    assert refusal(damaged(packed, len(packed) - 6)).startswith("archive_corrupt")


def test_a_damaged_header_is_not_the_end() -> None:
    """tarfile would stop there without a word, and lose what follows."""
    data = tarred({"a.md": b"1", "b.md": b"2", "c.md": b"3"})
    assert "headers is damaged" in refusal(damaged(data, 1024 + 5))


def test_what_follows_the_end_is_not_lost() -> None:
    data = tarred({"a.md": b"1"}) + tarred({"b.md": b"2"})
    assert "something follows its end" in refusal(data)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"size": 5, "packed": 11}, "two sizes"),
        ({"method": 8, "size": 5}, "Bad CRC"),
        ({"method": 8, "size": 5000}, "has 11 bytes and says that it has 5,000"),
        ({"packed": 5_000_000}, "take up more than the whole"),
        ({"packed": 60, "size": 60}, "runs into its directory"),
        ({"method": 8, "body": b"\xff\xff\xff"}, "can't be read"),
        ({"crc": 1}, "Bad CRC"),
    ],
)
def test_lying_headers(entry: dict[str, object], told: str) -> None:
    assert told in refusal(raw_zip([{"name": b"a.md", "data": b"hello world", **entry}]))


def test_a_size_that_ends_the_stream_early() -> None:
    """A checksum made to fit the first bytes gives those bytes and no more: bounded by what is declared."""
    entry = {"name": b"a", "data": b"hello world", "method": 8, "size": 5, "crc": zlib.crc32(b"hello")}
    assert files(inside(raw_zip([entry]))[1]) == {"a": b"hello"}


def test_overlapping_entries() -> None:
    """A thousand names for one stretch of bytes: 50 kB that would unpack to a gigabyte."""
    entries = [{"name": b"same", "data": bytes(1000), "method": 8}] * 40
    assert "share the same bytes" in refusal(raw_zip(entries, shared=True))
    nested = raw_zip([{"name": b"a", "data": b"1" * 200}, {"name": b"b", "data": b"2"}])
    at = nested.index(b"PK\x01\x02")
    longer = nested[:at] + nested[at:].replace((200).to_bytes(4, "little") * 2, (220).to_bytes(4, "little") * 2, 1)
    assert "share the same bytes" in refusal(longer)


def test_directories_that_lie() -> None:
    entries = [{"name": b"%d" % n, "data": b""} for n in range(5)]
    assert "says that it has 4 entries, but lists 5" in refusal(raw_zip(entries, count=4))
    data = raw_zip(entries)
    assert refusal(data[: data.index(b"PK\x01\x02")] + data[-22:]).startswith("archive_corrupt")
    assert refusal(b"PK\x03\x04" + bytes(500)).startswith("archive_corrupt: its directory is missing")
    parts = bytearray(data)
    parts[-18] = 1
    assert refusal(bytes(parts)).startswith("archive_unsupported")


def test_counts_are_known_before_reading() -> None:
    """Entries are counted in the directory: not one byte of the first is read."""
    data = zipped({str(n): b"1" for n in range(51)})
    frames = [mark for mark, _ in archive_child.frames(io.BytesIO(data), SMALL)]
    assert frames == [archive_child.READY, archive_child.REJECTED]
    assert refusal(data) == "import_limit: it has 51 entries, more than the 50 allowed"
    wrapped = raw_zip(({"name": b"%d" % n, "data": b""} for n in range(51)), count=3)
    assert "says that it has 3" in refusal(wrapped)
    assert "import_limit: it has more than the 50" in refusal(tarred({str(n): b"" for n in range(201)}))


def test_large_directories_are_not_read() -> None:
    data = zipped_infos([one("a", b"1", extra=b"\x00\x90\x00\x20" + bytes(0x2000)), one("b", b"1")] * 1)
    assert refusal(data, ImportLimits(directory_bytes=1000)).startswith("import_limit: its directory has")


def test_gzip_bomb() -> None:
    """A ratio past the limit stops the reading long before the end, in what is skipped too."""
    bomb = tarred({"zeros": bytes(3 << 20)}, mode="w:gz")
    assert len(bomb) < 10_000
    assert refusal(bomb).startswith("import_limit: an entry is more than 200 times")
    skipped = tarred(infos=[(tar_info("zeros", b"Q"), bytes(3 << 20))], mode="w:gz")
    assert refusal(skipped).startswith("import_limit: an entry is more than 200 times")
    hidden = tarred({"noise": random.Random(1).randbytes(500_000), "zeros": bytes(3 << 20)}, mode="w:gz")
    assert refusal(hidden, ImportLimits()).startswith("import_limit: an entry is more than 200 times")
    loose = ImportLimits(grace_bytes=10_000, member_ratio=2000, output_ratio=100, members=5)
    assert refusal(bomb, loose).startswith("import_limit: it holds more than")


def test_huge_extended_headers() -> None:
    for data in (
        tarred(infos=[(tar_info("a", pax_headers={"comment": "1" * 5000}), b"1")]),
        tarred({"n" * 5000: b"1"}, form=tarfile.GNU_FORMAT),
        tar_header(b"x", b"\x80" + (1 << 62).to_bytes(11, "big"), b"x"),
        tar_header(b"x", b"\x80" + (1 << 62).to_bytes(11, "big"), b"L"),
    ):
        assert refusal(data).startswith("import_limit: an extended header has")


def test_hostile_headers_take_no_time() -> None:
    """Work grows with the header, not with its square: a megabyte of digits, records of no length, endless chains."""
    began = time.monotonic()
    digits = tarred(infos=[(tar_info("a.md", pax_headers={"comment": "1" * 1_000_000}), b"1")])
    assert files(inside(digits, ImportLimits())[1]) == {"a.md": b"1"}
    for body in (b"0 a=b\n", b"99999999 a=b\n", b"6 a=bc\n", b"7 abcd\n", b"-7 a=b\n", b"8" * 400, b"1 \n", b" a=b\n"):
        data = tar_header(b"x", b"%011o\x00" % len(body), b"x") + body.ljust(512, b"\x00") + tarred({"a.md": b"1"})
        assert "extended header is damaged" in refusal(data)
    chain = (tar_header(b"x", b"%011o\x00" % 6, b"x") + b"6 a=b\n".ljust(512, b"\x00")) * 20_000
    assert "more than the 4,000" in refusal(chain, ImportLimits(members=4_000))
    assert "about an entry that isn't there" in refusal(chain[:1024] + bytes(1024))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "size", [b"\xff" * 12, b"-0000000001\x00", b"abcdefghijk\x00", b"99999999999\x00", b"0x10\x00"]
)
def test_sizes_that_are_none(size: bytes) -> None:
    """A negative size once sent readers round for ever."""
    assert "size that is no number" in refusal(tar_header(b"a.md", size) + bytes(1024))
    told = tarred(infos=[(tar_info("a", pax_headers={"size": "-512"}), b"1")])
    assert "size that is no number" in refusal(told)


def test_what_is_no_archive_of_files() -> None:
    """Documents that are zips inside stay documents; a gzip without a tar is told apart."""
    assert inside(zipped({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<x/>"})) == ("document", [])
    assert inside(zipped({"mimetype": b"application/epub+zip", "a.html": b""}, zipfile.ZIP_STORED)) == ("document", [])
    assert inside(gzip.compress(b"just text")) == ("gzip", [])
    assert inside(gzip.compress(b"")) == ("gzip", [])
    assert inside(zipped({"password/a.md": b"1", "word/b.md": b"1"}))[0] == "zip"


def test_empty_archives() -> None:
    assert inside(zipped({})) == ("zip", [])
    assert inside(tarred({}, mode="w:gz"), ImportLimits()) == ("tar.gz", [])


# ---------------------------------------------------------------- any bytes at all
def only_refusals(data: bytes) -> None:
    with suppress(RejectedInput):
        inside(data, SMALL)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08", b"", tar_header(b"a", b"00000000100\x00")]),
    st.binary(),
)
def test_any_bytes(head: bytes, rest: bytes) -> None:
    only_refusals(head + rest)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from([data for _, data in SOUND]), st.data())
def test_mutated_archives(data: bytes, draw: st.DataObject) -> None:
    """Bytes changed, dropped and doubled anywhere: a refusal, or some of the entries."""
    out = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        # Most of an archive is contents; what matters stands at its ends.
        at = draw.draw(st.integers(0, min(len(out) - 1, 700)) | st.integers(max(0, len(out) - 700), len(out) - 1))
        how = draw.draw(st.sampled_from(["set", "cut", "double", "drop"]))
        if how == "set":
            out[at] = draw.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, out[at] ^ 1]))
        elif how == "cut" and at > 10:
            del out[at:]
        elif how == "double":
            out[at:at] = out[at : at + 60]
        else:
            del out[at : at + 3]
    only_refusals(bytes(out))


def test_recognised_by_content() -> None:
    """Signatures, and the checksum of tars that are older than their signature."""
    old = bytearray(tar_header(b"a", b"00000000000\x00"))
    old[257:265] = bytes(8)
    old[148:156] = b" " * 8
    old[148:156] = b"%06o\x00 " % sum(old)
    assert recognise(bytes(old)) == "tar"
    assert recognise(damaged(bytes(old), 0)) == ""
    signed = bytearray(tar_header(b"\xff\xff", b"00000000000\x00"))
    signed[148:156] = b" " * 8
    signed[148:156] = b"%06o\x00 " % (sum(signed) - 512)
    assert recognise(bytes(signed)) == "tar"
    assert [recognise(d) for d in (b"", b"PK", b"# text", b"BZh is a word", b"BZh91AY&SY..", b"Rar!\x1a\x07\x00")] == [
        "", "", "", "", "bzip2", "rar",
    ]  # fmt: skip


# ---------------------------------------------------------------- the sandbox
ROGUE = """
import json, os, resource, signal, struct, sys, time
def main(limits):
    def send(kind, body=b""):
        os.write(1, struct.pack(">cI", kind, len(body)) + body)
    order = os.read(0, 100).decode()
    if order == "silent":
        time.sleep(60)
    send(b"+")
    if order == "unready":
        return
    send(b"K", b"zip")
    entry = json.dumps(["a", "file", "", 1, 0.0]).encode()
    exec(ORDERS[order])
ORDERS = {
    "hang": "time.sleep(60)",
    "deaf": "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64)); time.sleep(60)",
    "drip": "send(b'M', entry)\\nwhile True: send(b'D', b'x'); time.sleep(0.05)",
    "exit": "sys.exit(3)",
    "abort": "os.abort()",
    "kill": "os.kill(os.getpid(), 9)",
    "cpu": "os.kill(os.getpid(), signal.SIGXCPU)",
    "giant": "os.write(1, b'D\\xff\\xff\\xff\\xff')",
    "half": "os.write(1, b'M\\0\\0\\0\\x50half')",
    "unasked": "send(b'D', b'piece'); send(b'Z')",
    "folder": "send(b'M', entry.replace(b'file', b'folder')); send(b'D', b'x'); send(b'Z')",
    "nonsense": "send(b'?')",
    "entry": "send(b'M', b'[1]')",
    "deep": "send(b'M', b'[' * 100000)",
    "kind": "send(b'M', entry.replace(b'file', b'disk'))",
    "infinite": "send(b'M', b'[\\"a\\", \\"file\\", \\"\\", 1e999, 0.0]')",
    "refusal": "send(b'R', b'[1]')",
    "code": "send(b'R', b'[\\"no_file\\", \\"not yours\\"]')",
    "environment": "send(b'R', json.dumps(['archive_corrupt', repr(dict(os.environ))]).encode())",
}
"""


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("hang", "archive_timeout"), ("deaf", "archive_timeout"), ("drip", "archive_timeout"),
        ("cpu", "archive_timeout"), ("kill", "archive_memory"), ("exit", "archive_crashed"),
        ("abort", "archive_crashed"), ("giant", "archive_crashed"), ("half", "archive_crashed"),
        ("unasked", "archive_crashed"), ("folder", "archive_crashed"), ("nonsense", "archive_crashed"),
        ("entry", "archive_crashed"), ("deep", "archive_crashed"), ("kind", "archive_crashed"),
        ("infinite", "archive_crashed"), ("refusal", "archive_crashed"), ("code", "archive_crashed"),
    ],
)  # fmt: skip
def test_misbehaviour_is_one_refusal(order: str, code: str, tmp_path: Path) -> None:
    """Whatever an archive makes of its reader: one refusal, in time, and no process left."""
    with pytest.raises(RejectedInput) as error:
        rogue(order, tmp_path)
    assert error.value.code == code


def rogue(order: str, folder: Path) -> None:
    (folder / "rogue_archive_child.py").write_text(ROGUE)
    (folder / "order").write_text(order)
    reader = SandboxedArchiveReader(module="rogue_archive_child", module_root=folder)
    with (folder / "order").open("rb") as file:
        archive = reader.open(
            file, ImportLimits(wall_seconds=1.0 if order in {"hang", "deaf", "drip", "silent"} else 30)
        )
        try:
            list(archive.events())
        finally:
            archive.close()
            archive.close()


@pytest.mark.parametrize("order", ["silent", "unready"])
def test_a_child_that_does_not_start(order: str, tmp_path: Path) -> None:
    """A reader that can't start is an outage; one that dies afterwards is the archive's fault."""
    with pytest.raises(Unavailable if order == "silent" else RejectedInput):
        rogue(order, tmp_path)
    with (tmp_path / "order").open("rb") as file, pytest.raises(Unavailable):
        SandboxedArchiveReader(module="no_such_module").open(file, ImportLimits())


def test_environment_stays_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_SECRET", "hidden")
    with pytest.raises(RejectedInput) as error:
        rogue("environment", tmp_path)
    assert "LC_ALL" in error.value.message
    assert "hidden" not in error.value.message


CONFINED = """
import json, os, sys
from dataclasses import asdict
from pipeline.adapters import archive_child
from pipeline.archives import ImportLimits
answers = os.dup(1)
archive_child._confine(ImportLimits(memory_bytes=1 << 30))
found = []
for what in (lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.write(answers, b""), lambda: bytearray(2 << 30)):
    try:
        what()
        found.append("done")
    except BaseException as error:
        found.append(type(error).__name__)
os.write(answers, json.dumps(found).encode())
"""


def test_confinement() -> None:
    """Inside, nothing can be opened, and memory has an end."""
    root = str(Path(pipeline.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", CONFINED], capture_output=True, check=True, env={"PYTHONPATH": root})
    assert json.loads(done.stdout) == ["OSError", "done", "MemoryError"]


def test_memory_of_the_reader_has_an_end(tmp_path: Path) -> None:
    """A directory that is all names and comments needs more than it may have, and is refused."""
    data = zipped_infos([one(str(n), b"", extra=b"\x00\x90\xf0\xff" + bytes(0xFFF0)) for n in range(900)])
    with pytest.raises(RejectedInput) as error:
        sandboxed(data, ImportLimits(memory_bytes=120 << 20), tmp_path)
    assert error.value.code in {"archive_memory", "archive_crashed"}


def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed in the middle leaves no child behind."""
    (tmp_path / "a.zip").write_bytes(zipped({"a": random.Random(1).randbytes(3 << 20)}))
    script = textwrap.dedent(
        f"""
        import os, signal
        from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
        from pipeline.archives import ImportLimits
        archive = SandboxedArchiveReader().open(open({str(tmp_path / "a.zip")!r}, "rb"), ImportLimits())
        next(archive.events())
        print(archive._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    root = str(Path(pipeline.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, env={"PYTHONPATH": root}, timeout=60
    )
    child, deadline = int(done.stdout), time.monotonic() + 30
    while Path(f"/proc/{child}/exe").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert -done.returncode == signal.SIGKILL
