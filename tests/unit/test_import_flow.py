"""`import_files`: what is staged, what is left out, what refuses the whole; and that memory stays flat."""

from __future__ import annotations

import fcntl
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from crafted import raw_zip, tar_info, tarred, zipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import SLUG, World

from pipeline import importing, landing, staging
from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
from pipeline.adapters.source_tree_local import NEVER
from pipeline.archives import ImportLimits
from pipeline.errors import Conflict, RejectedInput, Unavailable
from pipeline.intake import Body
from pipeline.ports import Ports

SMALL = ImportLimits(grace_bytes=10_000, members=20, output_bytes=300_000, member_bytes=250_000, archive_bytes=200_000)


@dataclass
class Desk:
    """A deployment with an empty staged context, and a folder of files to import."""

    folder: Path
    ports: Ports
    places: landing.Places

    def write(self, name: str, data: bytes) -> str:
        place = self.folder / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return str(place)

    def take(self, *given: str, **more: Any) -> importing.Imported:
        return importing.import_files(self.ports, SLUG, self.places, given, **more)

    def told(self, *given: str, **more: Any) -> dict[str, Any]:
        done = self.take(*given, **more)
        return done.report.document(done.manifest_file)

    def refused(self, *given: str, **more: Any) -> RejectedInput:
        """The refusal; nothing of the import may be left anywhere."""
        before = self.everything()
        with pytest.raises(RejectedInput) as error:
            self.take(*given, **more)
        assert self.everything() == before
        return error.value

    def tree(self) -> dict[str, bytes]:
        root = self.places.tree
        return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}

    def everything(self) -> dict[str, bytes | None]:
        """Every file and folder but the database and the empty folder that is the lock."""
        found = [p for p in sorted(self.folder.rglob("*")) if "sqlite" not in p.name and p != self.places.incoming]
        return {str(p.relative_to(self.folder)): p.read_bytes() if p.is_file() else None for p in found}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with opened(tmp_path) as made:
        yield made


@contextmanager
def opened(folder: Path) -> Iterator[Desk]:
    world = World(home=folder)
    ports = replace(world.ports, archives=SandboxedArchiveReader(), unread_names=NEVER)
    context = folder / "contexts" / "ctx"
    context.parent.mkdir(exist_ok=True)
    try:
        yield Desk(folder, ports, landing.Places(context / "sources", context / "incoming"))
    finally:
        world.close()


def skipped(output: dict[str, Any]) -> dict[str, str]:
    return {item["src"].rpartition("!/")[2]: item["reason"] for item in output["skipped_items"]}


# ---------------------------------------------------------------- what is staged
def test_o24_entry_names_that_leave_the_folder(desk: Desk) -> None:
    """O-24: five entries that lead outside are refused and named, the two others staged, and nothing else is written."""
    buf = io.BytesIO()
    with zipfile.ZipFile(buf, "w") as z:
        for n in (
            "../evil.md",
            "/abs.md",
            "..\\win.md",
            "C:\\drive.md",
            "ok/../../up.md",
            "good/note.md",
            "good/./two.md",
        ):
            z.writestr(zipfile.ZipInfo(n), f"# T\n\nfrom {n}\n")
    pack = desk.write("pack.zip", buf.getvalue())
    before = desk.everything()
    output = desk.told(pack)
    own = ("contexts/ctx/sources", "contexts/ctx/imports")
    outside = {k: v for k, v in desk.everything().items() if not k.startswith(own) and k != "contexts/ctx"}
    assert outside == before
    assert desk.tree() == {
        "good/note.md": b"# T\n\nfrom good/note.md\n",
        "good/two.md": b"# T\n\nfrom good/./two.md\n",
    }
    assert set(skipped(output)) == {"../evil.md", "/abs.md", "..\\win.md", "C:\\drive.md", "ok/../../up.md"}
    assert all(skipped(output).values())
    assert (output["status"], output["skipped"], output["failed"]) == ("completed", 5, 0)


def test_files_and_archives(desk: Desk) -> None:
    """Plain files as they are, archives under their members' names; times are kept, the report counts both."""
    lone = desk.write("lone.md", b"# Lone\n")
    os.utime(lone, ns=(1_600_000_000_123_456_789,) * 2)
    infos = [(tar_info("t/old.md", mtime=1.25e9), b"old"), (tar_info("t/later.md", mtime=4e9), b"later")]
    packs = [
        desk.write("a.zip", zipped({"z/empty.txt": b"", "z/a.md": b"# A\n"})),
        desk.write("named-otherwise.bin", tarred(infos=infos)),
        desk.write("c.tgz", tarred({"g/c.py": b"c = 1\n"}, mode="w:gz")),
    ]
    output = desk.told(lone, *packs)
    tree = desk.places.tree
    assert desk.tree() == {
        "lone.md": b"# Lone\n", "z/empty.txt": b"", "z/a.md": b"# A\n", "t/old.md": b"old", "t/later.md": b"later",
        "g/c.py": b"c = 1\n",
    }  # fmt: skip
    assert (tree / "lone.md").stat().st_mtime_ns == 1_600_000_000_123_456_789
    assert (tree / "t/old.md").stat().st_mtime == 1.25e9
    assert abs((tree / "t/later.md").stat().st_mtime - time.time()) < 60
    assert {p.stat().st_mode & 0o777 for p in tree.rglob("*") if p.is_file()} == {0o644}
    assert output["manifest_sample"] == [
        {"src": lone, "action": "copied", "out": ["lone.md"], "fmt": "markdown", "reason": "", "bytes": 7},
        {"src": packs[0], "action": "extracted", "out": ["z/empty.txt", "z/a.md"], "fmt": "zip", "reason": "", "bytes": 4},
        {"src": packs[1], "action": "extracted", "out": ["t/old.md", "t/later.md"], "fmt": "tar", "reason": "", "bytes": 8},
        {"src": packs[2], "action": "extracted", "out": ["g/c.py"], "fmt": "tar.gz", "reason": "", "bytes": 6},
    ]  # fmt: skip
    assert (output["imported_items"], output["output_files"]) == (4, 6)
    lines = (desk.places.incoming.parent / output["manifest_file"]).read_text().splitlines()
    assert [json.loads(line) for line in lines] == output["manifest_sample"]


def test_twice_is_once(desk: Desk) -> None:
    """The same import again changes no file, not even its times."""
    given = desk.write("a.zip", zipped({"a.md": b"1", "b/c.md": b"2"})), desk.write("d.md", b"3")
    first = desk.told(*given)
    inodes = [(p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(desk.places.tree.rglob("*"))]
    done = desk.take(*given)
    again = done.report.document(done.manifest_file)
    assert [(p.stat().st_ino, p.stat().st_mtime_ns) for p in sorted(desk.places.tree.rglob("*"))] == inodes
    assert {**again, "manifest_file": ""} == {**first, "manifest_file": ""}
    assert again["manifest_file"] != first["manifest_file"]
    assert done.same == 3


def test_into_a_folder(desk: Desk) -> None:
    pack = desk.write("a.zip", zipped({"x/a.md": b"1"}))
    assert desk.told(pack, into="./in//deep/")["manifest_sample"][0]["out"] == ["in/deep/x/a.md"]
    desk.take(pack, into=".")
    assert list(desk.tree()) == ["in/deep/x/a.md", "x/a.md"]
    for into in ("../up", "/up", "a\\b", "con", "a:b", ".git", "x/../y"):
        assert desk.refused(pack, into=into).code == "outside"


def test_names_and_formats_that_are_left_out(desk: Desk) -> None:
    """What macOS adds, what no tree reads, what indexing can't read and what is too large: named, the rest staged."""
    desk.ports = replace(desk.ports, limits=replace(desk.ports.limits, source_bytes=5000))
    members = {
        "__MACOSX/._a.md": b"\x00\x05\x16\x07", "a/.DS_Store": b"x", "a/._b.md": b"x", ".git/config": b"x",
        "node_modules/m.js": b"x", "pic.png": b"\x89PNG\r\n\x1a\n", "old.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "huge.txt": b"1" * 5001, "large.txt": b"1" * 5000, "a.md": b"1",
    }  # fmt: skip
    output = desk.told(
        desk.write("a.zip", zipped(members)), desk.write("big.txt", b"1" * 5001), desk.write("CON.md", b"")
    )
    told = skipped(output)
    assert set(desk.tree()) == {"large.txt", "a.md"}
    assert set(told) == (set(members) | {str(desk.folder / "in" / n) for n in ("big.txt", "CON.md")}) - set(desk.tree())
    assert "PNG" in told["pic.png"]
    assert "5,001 bytes, more than the 5,000" in told["huge.txt"]
    assert "source_bytes" in told[str(desk.folder / "in" / "big.txt")]
    assert output["manifest_sample"][0]["bytes"] == 5001


def test_inner_archives_stay_closed(desk: Desk) -> None:
    """An archive inside an archive is a file like others."""
    inner = {
        "in.zip": zipped({"../x": b"1"}), "in.tar": tarred({"a": b"1"}), "in.tgz": tarred({"a": b"1"}, mode="w:gz"),
        "in.rar": b"Rar!\x1a\x07\x00",
    }  # fmt: skip
    output = desk.told(desk.write("a.zip", zipped(inner)))
    assert desk.tree() == inner
    assert output["skipped"] == 0


def test_documents_that_are_zips_inside(desk: Desk) -> None:
    """They are never expanded: copied whole where their format can be read, else left out, given alone or in an archive."""
    book = zipped([("mimetype", b"application/epub+zip"), ("a.html", b"x" * 99)], zipfile.ZIP_STORED)
    word = zipped({"[Content_Types].xml": b"<x/>", "_rels/.rels": b"<x/>", "word/document.xml": b"<x/>"})
    files = desk.write("book.epub", book), desk.write("word.docx", word), desk.write("renamed.zip", word)
    output = desk.told(*files, desk.write("a.zip", zipped({"in/book.epub": book, "in/word.docx": word})))
    assert {files[0], "in/book.epub"} <= set(skipped(output))
    assert set(desk.tree()) <= {"word.docx", "renamed.zip", "in/word.docx"}
    assert set(desk.tree().values()) <= {word}


def test_archives_that_cannot_be_opened(desk: Desk) -> None:
    """They fail with a remedy, beside what can be staged."""
    packs = [
        desk.write("a.rar", b"Rar!\x1a\x07\x01\x00"), desk.write("a.7z", b"7z\xbc\xaf\x27\x1c"),
        desk.write("a.tar.bz2", tarred({"a": b"1"}, mode="w:bz2")), desk.write("a.tar.xz", tarred({"a": b"1"}, mode="w:xz")),
        desk.write("a.txt.gz", b"\x1f\x8b\x08" + bytes(7) + b"\x03\x00" + bytes(8)),
    ]  # fmt: skip
    done = desk.take(*packs, desk.write("a.md", b"1"))
    failures = {Path(r.src).name: r.reason for r in done.report.failures}
    assert set(failures) == {"a.rar", "a.7z", "a.tar.bz2", "a.tar.xz", "a.txt.gz"}
    assert all("pack it anew as .zip or .tar.gz" in reason for reason in failures.values())
    assert done.report.document("")["status"] == "partial"
    assert list(desk.tree()) == ["a.md"]
    desk.ports = replace(desk.ports, archives=None)
    assert desk.told(desk.write("b.zip", zipped({"b": b"1"})))["failed"] == 1


def test_given_paths(desk: Desk) -> None:
    """Folders, pipes and what isn't there are refused; a file that can't be read fails; a link is followed."""
    desk.write("folder/a.md", b"1")
    os.mkfifo(desk.folder / "in" / "pipe")
    at = desk.folder / "in"
    assert "lamina add" in desk.refused(str(at / "folder")).remedy
    assert desk.refused(str(at / "pipe")).code == "not_a_file"
    assert desk.refused(str(at / "none")).code == "no_file"
    assert desk.refused(str(at / "folder" / "a.md" / "b")).code == "no_file"
    (at / "link.md").symlink_to(at / "folder" / "a.md")
    done = desk.take(str(at / "link.md"), "/proc/self/mem")
    assert desk.tree() == {"link.md": b"1"}
    assert [r.src for r in done.report.failures] == ["/proc/self/mem"]


def test_a_context_that_reads_in_place(desk: Desk, tmp_path: Path) -> None:
    from pipeline import contexts  # noqa: PLC0415

    slug = contexts.checked_slug("other")
    contexts.open_context(desk.ports, slug, kind="folder", root="/x")
    with pytest.raises(RejectedInput, match="in place"):
        importing.import_files(desk.ports, slug, desk.places, [str(tmp_path)])


# ---------------------------------------------------------------- names that are taken
def test_two_of_one_name(desk: Desk) -> None:
    """Within an import names must differ on every file system; both files are named."""
    a = desk.write("a.zip", zipped([("d/A.md", b"1"), ("d/a.md", b"1")]))
    assert "a.zip!/d/A.md and " in (error := desk.refused(a)).message
    assert (error.code, "a.zip!/d/a.md would have the same name" in error.message) == ("same_name", True)
    with pytest.warns(UserWarning, match="Duplicate"):
        double = zipped([("a.md", b"1"), ("a.md", b"1")])
    assert desk.refused(desk.write("b.zip", double)).code == "same_name"
    one = desk.write("c.md", b"1")
    assert desk.refused(one, one).code == "same_name"
    assert desk.refused(one, desk.write("c.zip", zipped({"c.md/d.md": b"1"}))).code == "same_name"
    composed = [("\u00e9.md", b"1"), ("e\u0301.md", b"2")]
    assert desk.refused(desk.write("d.zip", zipped(composed))).code == "same_name"


def test_names_that_are_staged(desk: Desk) -> None:
    """Other contents need --replace; a name that only looks the same, or a folder, has to be removed first."""
    desk.take(desk.write("a.zip", zipped({"d/a.md": b"1", "d/b.md": b"1"})))
    other = desk.write("b.zip", zipped({"d/a.md": b"2", "d/b.md": b"1", "d/c.md": b"3"}))
    assert "d/a.md. Nothing was imported" in (error := desk.refused(other)).message
    assert (error.code, "d/b.md" in error.message) == ("name_taken", False)
    desk.take(other, replace=True)
    assert desk.tree() == {"d/a.md": b"2", "d/b.md": b"1", "d/c.md": b"3"}
    for members in ({"D/A.md": b"2"}, {"d": b"1"}, {"d/a.md/x": b"1"}):
        for more in (False, True):
            assert desk.refused(desk.write("c.zip", zipped(members)), replace=more).code == "name_taken"
    desk.take(desk.write("e.zip", zipped({"D/new.md": b"1"})))
    assert set(desk.tree()) == {"d/a.md", "d/b.md", "d/c.md", "D/new.md"}


def test_links_in_the_tree_lead_nowhere(desk: Desk) -> None:
    """A folder of the tree that somebody has replaced by a link isn't written through."""
    outside = desk.folder / "outside"
    outside.mkdir()
    desk.places.tree.mkdir(parents=True, exist_ok=True)
    (desk.places.tree / "d").symlink_to(outside)
    (desk.places.tree / "f.md").symlink_to(outside / "f.md")
    assert desk.refused(desk.write("a.zip", zipped({"d/a.md": b"1"})), replace=True).code == "name_taken"
    assert desk.refused(desk.write("f.md", b"1")).code == "name_taken"
    desk.take(desk.write("f.md", b"1"), replace=True)
    assert not (desk.places.tree / "f.md").is_symlink()
    assert list(outside.iterdir()) == []


# ---------------------------------------------------------------- what refuses the whole
BOMB = zipped({"fine.md": b"1", "zeros": bytes(240_000)})
NUMBERS = " ".join(map(str, range(50_000))).encode()
NOISE = random.Random(1).randbytes(90_000)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("bomb.zip", BOMB, "zeros is more than 200 times"),
        ("bomb.tgz", tarred({"zeros": bytes(3 << 20)}, mode="w:gz"), "an entry is more than 200 times"),
        ("many.zip", zipped({f"{n}": b"1" for n in range(21)}), "21 entries, more than the 20"),
        ("many.tar", tarred({f"{n}": b"1" for n in range(21)}), "more than the 20 entries"),
        ("large.zip", zipped({"a.txt": b"1" * 250_001}, zipfile.ZIP_STORED), "it has 250,109 bytes, more than"),
        ("size.zip", zipped({str(n): NOISE for n in range(3)}), "more than the 200,000 allowed"),
        ("member.tgz", tarred({"a.txt": NUMBERS}, mode="w:gz"), "a.txt has more than the 250,000 bytes"),
        ("cut.zip", zipped({"a.md": b"1" * 100})[:-30], "its directory is missing"),
        ("cut.tar", tarred({"a.md": b"1", "b.md": b"2"})[:1600], "cut short"),
        ("head.zip", b"no archive at all", "doesn't begin as one"),
        ("head.tar.gz", b"", "doesn't begin as one"),
        ("crc.zip", raw_zip([{"name": b"x.md", "data": b"1"}, {"name": b"a.md", "data": b"2", "crc": 5}]), "Bad CRC"),
        ("shared.zip", raw_zip([{"name": b"a", "data": b"1"}] * 5, shared=True), "share the same bytes"),
        ("split.zip", zipped({"a": b"1"})[:-18] + b"\x01" + zipped({"a": b"1"})[-17:], "was split"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_nothing_is_published(desk: Desk, name: str, data: bytes, told: str) -> None:
    """A passed limit or damage ends the whole import, what was sound included; archive and fault are named."""
    fine = desk.write("first.md", b"# Fine\n")
    error = desk.refused(fine, desk.write(name, data), limits=SMALL)
    assert told in error.message
    assert name in error.message
    assert "Nothing was imported" in error.message
    assert error.remedy


def test_limits_span_the_import(desk: Desk) -> None:
    """Entries and bytes are counted over all that is given."""
    packs = [desk.write(f"{n}.zip", zipped({f"{n}-{k}": b"1" for k in range(11)})) for n in range(2)]
    assert "more than the 20 entries" in desk.refused(*packs, limits=SMALL).message
    large = [desk.write(f"{n}.txt", NOISE) for n in range(4)]
    assert "more than the 300,000 bytes" in desk.refused(*large, limits=SMALL).message
    spread = [desk.write(f"s{n}.zip", zipped({f"{n}": NOISE, f"{n}b": NOISE})) for n in range(2)]
    assert "more than the 300,000 bytes" in desk.refused(*spread, limits=SMALL).message
    dense = desk.write("r.zip", zipped({str(n): b"word " * 1900 for n in range(18)}))
    assert "20 times as large" in desk.refused(dense, limits=replace(SMALL, output_ratio=20)).message


def test_small_files_may_be_dense(desk: Desk) -> None:
    """No ratio is asked of the first MiB."""
    desk.take(desk.write("a.zip", zipped({"a.txt": b" " * 900_000})))
    assert len(desk.tree()["a.txt"]) == 900_000


def test_left_out_entries_count(desk: Desk) -> None:
    """What is thrown away was read all the same: a bomb isn't let off for its name."""
    desk.refused(desk.write("a.zip", zipped({"../zeros": bytes(3 << 20)})))
    desk.ports = replace(desk.ports, limits=replace(desk.ports.limits, source_bytes=10))
    desk.refused(desk.write("b.zip", zipped({"zeros": bytes(3 << 20)})))


def test_a_file_that_is_written_meanwhile(desk: Desk) -> None:
    """Bytes of two states are no file."""
    place = desk.write("a.md", b"1")

    class Rewriting(SandboxedArchiveReader):
        def open(self, file: Any, limits: ImportLimits) -> Any:
            archive = super().open(file, limits)
            Path(place).write_bytes(zipped({"a.md": b"other and longer"}))
            return archive

    Path(place).write_bytes(zipped({"a.md": b"1"}))
    desk.ports = replace(desk.ports, archives=Rewriting())
    with pytest.raises(RejectedInput, match="was written while it was read"):
        desk.take(place)
    assert desk.tree() == {}


FULL = """
import resource, sys
from pathlib import Path
from pipeline import bootstrap, importing
from pipeline.errors import Unavailable
from pipeline.settings import Settings
settings = Settings(home=Path(sys.argv[1]))
ports = bootstrap.build(settings)
with ports.ledger.transaction("warm up", "any"):
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
try:
    importing.import_files(ports, "ctx", bootstrap.staged_places(settings, "ctx"), sys.argv[2:])
except Unavailable as error:
    print(error.code)
"""


def test_a_full_disk(desk: Desk) -> None:
    """An outage: nothing is published, nothing is left behind."""
    pack = desk.write(
        "a.zip", zipped({"a.txt": random.Random(1).randbytes(500_000), "b.txt": b"1"}, zipfile.ZIP_STORED)
    )
    root = str(Path(importing.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(desk.folder / "home"), pack],
        env={"PYTHONPATH": root},
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode().strip() == "not_staged"
    assert not (desk.folder / "home" / "contexts").exists() or list((desk.folder / "home" / "contexts").iterdir()) == []


# ---------------------------------------------------------------- memory and samples
def test_memory_is_flat(desk: Desk) -> None:
    """An entry of 200 MB passes through in pieces."""
    block = random.Random(1).randbytes(1 << 20)
    place = desk.folder / "a.zip"
    with zipfile.ZipFile(place, "w") as archive, archive.open("a.txt", "w") as file:
        for _ in range(200):
            file.write(block)
    desk.ports = replace(desk.ports, limits=replace(desk.ports.limits, source_bytes=1 << 30))
    tracemalloc.start()
    try:
        desk.take(str(place))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (desk.places.tree / "a.txt").stat().st_size == 200 << 20
    assert peak < 8 << 20, f"{peak:,} bytes"


def test_what_is_too_large_takes_no_room(tmp_path: Path) -> None:
    """Past the size that is kept, bytes are counted and thrown away."""
    body = Body(tmp_path / "0", 100)
    for _ in range(1000):
        body.write(b"x" * 90)
    assert body.size == 90_000
    body.finish(0)
    assert (tmp_path / "0").stat().st_size <= 100
    body.drop()
    body.drop()
    assert list(tmp_path.iterdir()) == []


def test_samples_are_bounded(desk: Desk) -> None:
    """The report in memory names a hundred of each; the file names all."""
    members = {f"{n}.md": b"1" for n in range(120)} | {f"{n}.png": b"\x89PNG\r\n\x1a\n" for n in range(110)}
    output = desk.told(desk.write("a.zip", zipped(members)))
    assert output["manifest_truncated"]
    assert (len(output["skipped_items"]), output["skipped"]) == (100, 110)
    assert (len(output["manifest_sample"][0]["out"]), output["output_files"]) == (100, 120)
    manifest = (desk.places.incoming.parent / output["manifest_file"]).read_text()
    lines = [json.loads(line) for line in manifest.splitlines()]
    assert len(lines) == 111
    assert len(lines[-1]["out"]) == 120


# ---------------------------------------------------------------- two at a time, leftovers
def test_another_command_at_work(desk: Desk) -> None:
    """Who holds the tree holds it alone: others wait, and say so when it takes too long."""
    given = desk.write("a.md", b"1")
    desk.places.incoming.mkdir(parents=True)
    handle = os.open(desk.places.incoming, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for attempt in (
            lambda: desk.take(given),
            lambda: staging.add(desk.ports, SLUG, desk.places, [given], into="", replace=False),
            lambda: staging.remove(desk.ports, SLUG, desk.places, ["a.md"]),
        ):
            before = desk.ports.clock.now()
            with pytest.raises(Conflict) as error:
                attempt()
            assert error.value.code == "staging_busy"
            assert 30 < desk.ports.clock.now() - before < 300
    finally:
        os.close(handle)
    assert desk.tree() == {}
    desk.take(given)
    assert desk.tree() == {"a.md": b"1"}


def test_leftovers_go_after_a_day(desk: Desk) -> None:
    """What a killed import had written goes when it is a day old, not while it may still be at work."""
    left = desk.places.imports / "0123456789abcdef"
    (left / "bodies").mkdir(parents=True)
    (left / "bodies" / "0").write_bytes(b"half")
    (left / "plan.jsonl.part").write_text("half")
    desk.ports.clock.advance(time.time() - desk.ports.clock.now())  # type: ignore[attr-defined]
    desk.take(desk.write("a.md", b"1"))
    assert left.exists()
    desk.ports.clock.advance(landing.LEFTOVER_S + 60)  # type: ignore[attr-defined]
    desk.take(desk.write("b.md", b"1"))
    assert not left.exists()
    assert set(desk.tree()) == {"a.md", "b.md"}


def test_a_plan_that_cannot_be_carried_out(desk: Desk) -> None:
    """It stays, says what is in the way, and is carried out once that has gone."""
    left = desk.places.imports / "0123456789abcdef"
    (left / "bodies").mkdir(parents=True)
    (left / "bodies" / "0").write_bytes(b"promised")
    (left / "plan.jsonl").write_text('[0, "d/a.md"]\n')
    desk.places.tree.mkdir(parents=True, exist_ok=True)
    (desk.places.tree / "d").write_bytes(b"in the way")
    for _ in range(2):
        with pytest.raises(Unavailable, match="can't be finished"):
            desk.take(desk.write("b.md", b"1"))
    (desk.places.tree / "d").unlink()
    desk.take(desk.write("b.md", b"1"))
    assert desk.tree() == {"b.md": b"1", "d/a.md": b"promised"}
    assert [p.name for p in desk.places.imports.iterdir() if p.is_dir()] == []


# ---------------------------------------------------------------- any bytes at all
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(
        [zipped({"a.md": b"# A\n", "../b": b"1"}), tarred({"a.md": b"# A\n", "d/b.csv": b"1,2\n"}, mode="w:gz")]
    ),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=3),
    st.integers(0, 3),
)
def test_any_archive(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, changes: list[tuple[int, int]], cut: int
) -> None:
    """A refusal that leaves nothing, or a report whose paths are what is staged."""
    out = bytearray(data)
    for at, value in changes:
        out[at % len(out)] = value
    with opened(tmp_path_factory.mktemp("any")) as desk:
        given = desk.write("a.bin", bytes(out[: len(out) - cut]))
        before = desk.everything()
        try:
            output = desk.told(given, limits=SMALL)
        except RejectedInput:
            assert desk.everything() == before
        else:
            assert {p for item in output["manifest_sample"] for p in item["out"]} == set(desk.tree())


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_only_files_come_out_of_a_tar(desk: Desk, kind: bytes) -> None:
    """Nothing but regular files ever stands in the tree, and links lead nobody through them."""
    infos = [(tar_info("d", kind, str(desk.folder)), b""), (tar_info("a.md"), b"1")]
    output = desk.told(desk.write("a.tar", tarred(infos=infos)))
    assert list(skipped(output)) == ["d"]
    assert [p.name for p in desk.places.tree.rglob("*") if not p.is_symlink()] == ["a.md"]
    through = [(tar_info("d", kind, str(desk.folder)), b""), (tar_info("d/evil.md"), b"1")]
    desk.take(desk.write("b.tar", tarred(infos=through)))
    assert desk.tree() == {"a.md": b"1", "d/evil.md": b"1"}
    assert (desk.places.tree / "d").is_dir()
