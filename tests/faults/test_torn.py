"""A file of the home that is cut short, as by a disk that dies: what says so, and what puts it right."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from faults.cases import Case, Template, same
from faults.deployment import SLUG, open_ports

from pipeline import bootstrap
from pipeline.errors import Corruption
from pipeline.fsck import fsck

LEFT_OUT_ON_POSTGRES = ("test_a_torn_index", "test_a_torn_file", "test_a_torn_ledger")
INDEX = "contexts/notes/index.sqlite"


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
        assert set(fsck(case.ports, SLUG, repair=True).healed) == {"missing"}
        assert fsck(case.ports, SLUG, repair=False).found == {}
        same(case.facts(), template.facts)
        assert case.following() == ("noop", Counter())


def test_a_torn_file(template: Template) -> None:
    """A listing in the object store: repair makes it again from the records."""
    with template.case() as case:
        finished(case)
        blobs = (p for p in sorted((case.home / "contexts/notes/objects/blobs").rglob("*")) if p.is_file())
        tear(next(path for path in blobs if b"chunk_index" in path.read_bytes()))
        case.ports = open_ports(case.home)
        assert fsck(case.ports, SLUG, repair=True).healed == {"file": 1}
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
