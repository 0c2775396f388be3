"""A file of the home that is cut short, as by a disk that dies: what says so, and what puts it right."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from faults.cases import Case, Template, check, same
from faults.deployment import SLUG, open_ports

from pipeline import bootstrap, search
from pipeline.errors import Corruption
from pipeline.fsck import fsck

LEFT_OUT_ON_POSTGRES = (
    "test_a_torn_index",
    "test_a_torn_file",
    "test_a_torn_folder",
    "test_a_torn_ledger",
    "test_a_torn_memo",
)
INDEX = "contexts/notes/index.sqlite"
MEMO = "memo.sqlite"
KNOWLEDGE = "contexts/notes/knowledge"


def tear(path: Path) -> None:
    """Keep its first half; what SQLite had beside it is gone."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    lose(Path(f"{path}-wal"), Path(f"{path}-shm"))


def lose(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def finished(case: Case) -> None:
    """Version 2 is live and every process has let go of the files."""
    assert case.run().outcome()["outcome"] == "completed"
    bootstrap.close(case.ports)


def test_a_torn_index(template: Template) -> None:
    """It is refused by name with its remedy; once it is deleted, `lamina fsck --repair` writes every record anew."""
    with template.case() as case:
        finished(case)
        tear(case.home / INDEX)
        case.ports = open_ports(case.home)
        with pytest.raises(Corruption) as refused:
            fsck(case.ports, SLUG, repair=False)
        assert (refused.value.code, INDEX in str(refused.value)) == ("index_corrupt", True)
        assert "lamina fsck" in refused.value.remedy
        bootstrap.close(case.ports)
        lose(*(case.home / f"{INDEX}{tail}" for tail in ("", "-wal", "-shm")))
        case.ports = open_ports(case.home)
        with pytest.raises(Corruption) as lost:
            search.search(case.ports, SLUG, search.Question("body"))
        assert (lost.value.code, "--repair" in lost.value.remedy) == ("index_lost", True)
        assert set(fsck(case.ports, SLUG, repair=True).healed) == {"missing"}
        assert fsck(case.ports, SLUG, repair=False).found == {}
        same(case.facts(), template.facts)
        assert case.following() == ("noop", Counter())


@pytest.mark.parametrize("folder", ["kept", "lost"])
def test_a_torn_file(template: Template, folder: str) -> None:
    """Every file in the object store: repair makes them again from the folder's copies, or from records and rows."""
    with template.case() as case:
        finished(case)
        blobs = [p for p in sorted((case.home / "contexts/notes/objects/blobs").rglob("*")) if p.is_file()]
        for path in blobs:
            tear(path)
        if folder == "lost":
            shutil.rmtree(case.home / KNOWLEDGE)
        case.ports = open_ports(case.home)
        report = fsck(case.ports, SLUG, repair=True)
        assert report.sound
        assert report.healed["file"] == len(blobs)
        assert fsck(case.ports, SLUG, repair=False).found == {}
        same(case.facts(), template.facts)
        assert case.following() == ("noop", Counter())


def test_a_torn_folder(template: Template) -> None:
    """The knowledge folder: every file is shown again as the ledger says, and what isn't of the version goes."""
    with template.case() as case:
        finished(case)
        files = [p for p in sorted((case.home / KNOWLEDGE).rglob("*")) if p.is_file() and p.name[0] != "."]
        for path in files:
            tear(path)
        (case.home / KNOWLEDGE / "chunks" / "stray.jsonl").write_text("left behind")
        case.ports = open_ports(case.home)
        assert fsck(case.ports, SLUG, repair=False).found == {"view": len(files) + 1}
        assert fsck(case.ports, SLUG, repair=True).healed == {"view": len(files) + 1}
        assert fsck(case.ports, SLUG, repair=False).found == {}
        same(case.facts(), template.facts)
        assert case.following() == ("noop", Counter())


def test_a_torn_ledger(template: Template) -> None:
    """It is refused by name; with the copy that was made of the home, everything is there again."""
    with template.case() as case:
        finished(case)
        shutil.copy(case.home / "ledger.sqlite", case.home / "kept")
        tear(case.home / "ledger.sqlite")
        with pytest.raises(Corruption) as refused:
            fsck(open_ports(case.home), SLUG, repair=False)
        assert refused.value.code == "ledger_damaged"
        assert "backup" in refused.value.remedy
        lose(*(case.home / f"ledger.sqlite{tail}" for tail in ("-wal", "-shm")))
        shutil.copy(case.home / "kept", case.home / "ledger.sqlite")
        case.ports = open_ports(case.home)
        same(case.facts(), template.facts)
        assert case.following() == ("noop", Counter())


def test_a_torn_memo(template: Template) -> None:
    """A run is refused by name, and readers go on; without it the same run comes to the same, at the cost of work."""
    with template.case() as case:
        bootstrap.close(case.ports)
        tear(case.home / MEMO)
        case.ports = open_ports(case.home)
        outcome = case.run().outcome()
        assert outcome["outcome"] == "memo_corrupt", outcome
        assert MEMO in outcome["error"]
        assert case.reader_ask() == template.old
        bootstrap.close(case.ports)
        lose(*(case.home / f"{MEMO}{tail}" for tail in ("", "-wal", "-shm")))
        case.ports = open_ports(case.home)
        assert case.resume() in ("completed", "noop")
        check(case, template)
