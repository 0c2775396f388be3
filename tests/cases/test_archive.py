"""O-24: archives. Entry names that leave the folder, in zip and in tar."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from trouble import Deployment, Report, deployment
from world import SLUG

from pipeline import importing
from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
from pipeline.adapters.source_tree_local import NEVER, LocalSourceTree
from pipeline.errors import RejectedInput
from pipeline.landing import Places

NAMES = ("../evil.md", "/abs.md", "..\\win.md", "C:\\drive.md", "ok/../../up.md", "good/note.md", "good/./two.md")
GOOD = ("good/note.md", "good/two.md")
REFUSED = NAMES[:5]


@dataclass
class Desk:
    """A folder with something to import, a deployment beside it, and its staged context."""

    folder: Path
    made: Deployment
    places: Places

    def put(self, name: str, data: bytes) -> Path:
        place = self.folder / "in" / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        return place

    def take(self, *given: Path, **more: object) -> importing.Imported:
        world = self.made.world
        world.ports = replace(world.ports, archives=SandboxedArchiveReader(), unread_names=NEVER)
        return importing.import_files(world.ports, SLUG, self.places, [str(path) for path in given], **more)  # type: ignore[arg-type]

    def outside(self) -> dict[str, tuple[int, int]]:
        """Every file and folder outside the import's own: mode and size."""
        own = self.places.tree.parent
        listing = {}
        for path in sorted([*self.folder.rglob("*"), Path("/abs.md"), Path("/etc/cron.d/abs.md")]):
            if path != own and own not in path.parents and path.is_symlink() | path.exists():
                state = path.lstat()
                listing[str(path)] = (state.st_mode, state.st_size if stat.S_ISREG(state.st_mode) else 0)
        return listing

    def staged(self) -> dict[str, str]:
        """What the tree holds."""
        tree = self.places.tree
        return {
            str(path.relative_to(tree)): path.read_text("utf-8")
            for path in sorted(tree.rglob("*"))
            if path.is_symlink() or not path.is_dir()
        }

    def curate(self) -> Report:
        """A run over the staged tree."""
        self.made.world.tree = LocalSourceTree(self.places.tree)  # type: ignore[assignment]  # another tree of the same port
        return self.made.run()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with deployment() as made:
        home = tmp_path / "home" / "contexts" / SLUG
        home.mkdir(parents=True)
        (tmp_path / "evil.md").write_text("mine\n")
        yield Desk(tmp_path, made, Places(home / "sources", home / "incoming"))


def text_of(name: str) -> str:
    return f"# T\n\nfrom {name}\n"


def zipped(names: Iterable[str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), text_of(name))
    return out.getvalue()


def tarred(names: Iterable[str], mode: str = "w", links: Iterable[tuple[str, bytes, str]] = ()) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, kind, target in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        for name in names:
            data = text_of(name).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def told(done: importing.Imported) -> dict[str, str]:
    """Entry to reason, of everything that was left out."""
    return {record.src.partition("!/")[2]: record.reason for record in done.report.skips}


def test_o24_nothing_is_written_outside(desk: Desk) -> None:
    """O-24.1."""
    pack = desk.put("pack.zip", zipped(NAMES))
    before = desk.outside()
    assert len(before) > 2
    desk.take(pack)
    assert desk.outside() == before


def test_o24_the_good_entries_are_the_documents(desk: Desk) -> None:
    """O-24.2."""
    desk.take(desk.put("pack.zip", zipped(NAMES)))
    assert desk.staged() == {"good/note.md": text_of("good/note.md"), "good/two.md": text_of("good/./two.md")}
    assert list(desk.curate().done) == list(GOOD)
    assert desk.made.live.find("from good") == list(GOOD)


def test_o24_the_refused_entries_are_named(desk: Desk) -> None:
    """O-24.3."""
    done = desk.take(desk.put("pack.zip", zipped(NAMES)))
    reasons = told(done)
    assert sorted(reasons) == sorted(REFUSED)
    assert all(reason.strip() for reason in reasons.values())
    output = done.report.document(done.manifest_file)
    assert output["status"] == "completed"
    assert (output["failed"], output["skipped"], output["output_files"]) == (0, 5, 2)
    assert {item["src"].partition("!/")[2] for item in output["skipped_items"]} == set(REFUSED)


@pytest.mark.parametrize(("mode", "name"), [("w", "pack.tar"), ("w:gz", "pack.tar.gz"), ("w:gz", "pack.tgz")])
def test_o24_kind_tar(desk: Desk, mode: str, name: str) -> None:
    """O-24.1 to O-24.3, of the kind: the same names in a tar, with links that lead outside before them."""
    links = [
        ("good/link", tarfile.SYMTYPE, "../../../../"),
        ("good/hard.md", tarfile.LNKTYPE, "/etc/passwd"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("device", tarfile.CHRTYPE, ""),
    ]
    pack = desk.put(name, tarred([*NAMES, "good/link/evil.md"], mode, links))
    before = desk.outside()
    done = desk.take(pack)
    assert desk.outside() == before
    staged = desk.staged()
    assert not any(path.is_symlink() for path in desk.places.tree.rglob("*"))
    # Under the refused link's name a folder of our own may stand; what matters is that it is no link.
    assert set(staged) - {"good/link/evil.md"} == set(GOOD)
    reasons = told(done)
    assert set(REFUSED) | {name for name, _, _ in links} <= set(reasons)
    assert all(reason.strip() for reason in reasons.values())
    assert done.report.document(done.manifest_file)["status"] == "completed"


WORSE = (
    "good/../../up.md", "..", "good/..", "./../up.md", "//server/share.md", "\\\\server\\share.md", "c:drive.md",
    "good/nul", "good/con.md", "good/a:stream.md", "good/tail. ", "good/dot.", "good/\u202egnp.md", "good/new\nline.md",
    "/", "", "good/..\\win.md",
)  # fmt: skip


@pytest.mark.parametrize("name", WORSE, ids=[name.encode("unicode_escape").decode() or "empty" for name in WORSE])
def test_o24_kind_other_names(desk: Desk, name: str) -> None:
    """O-24.1 to O-24.3, of the kind: shares, devices, streams, turned text; the good entries come all the same."""
    before = desk.outside()
    pack = desk.put("pack.zip", zipped([name, *GOOD]))
    expected = {**before, **{key: value for key, value in desk.outside().items() if "/in" in key}}
    done = desk.take(pack)
    assert desk.outside() == expected
    assert sorted(desk.staged()) == list(GOOD)
    if not name.endswith("/"):
        assert len(done.report.skips) == 1
        assert done.report.skips[0].reason.strip()
    assert done.report.document(done.manifest_file)["status"] == "completed"


@pytest.mark.parametrize("into", ["../out", "/out", "a/../../out", "C:\\out", "..\\out"])
def test_o24_kind_the_folder_to_import_into(desk: Desk, into: str) -> None:
    """O-24.1, of the kind: the folder that a person names can't lead outside either."""
    pack = desk.put("pack.zip", zipped(GOOD))
    before = desk.outside()
    with pytest.raises(RejectedInput) as error:
        desk.take(pack, into=into)
    assert error.value.message.strip()
    assert desk.outside() == before
    assert desk.staged() == {}


def test_o24_kind_a_link_in_the_staged_tree(desk: Desk) -> None:
    """O-24.1, of the kind: a link that stands in the tree already isn't followed out of it."""
    out = desk.folder / "out"
    out.mkdir()
    desk.places.tree.mkdir()
    (desk.places.tree / "good").symlink_to(out)
    pack = desk.put("pack.zip", zipped(GOOD))
    before = desk.outside()
    with pytest.raises(RejectedInput):
        desk.take(pack)
    assert desk.outside() == before
    assert list(out.iterdir()) == []
