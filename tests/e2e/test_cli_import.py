"""`import`: files and archives into a context's own tree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from crafted import tarred, zipped

PAGE = b"# Newts\n\nNewts live in ponds and under stones.\n"


def staged(lamina: Any, name: str = "notes") -> dict[str, bytes]:
    tree = lamina.folder / "home" / "contexts" / name / "sources"
    return {str(p.relative_to(tree)): p.read_bytes() for p in sorted(tree.rglob("*")) if p.is_file()}


def test_imported_files_are_found(lamina: Any) -> None:
    """An archive and a file: staged, told, curated, found."""
    pack = lamina.write("pack.zip", zipped({"ponds/newts.md": PAGE, "../evil.md": b"x", "__MACOSX/._newts.md": b"x"}))
    told = lamina.ok("import", "notes", pack, lamina.write("lone.txt", "A lone file about lemurs.\n"))
    assert told.splitlines() == [
        f"extracted: {pack}: 1 file",
        f"copied: {lamina.folder / 'lone.txt'} to lone.txt",
        f"skipped: {pack}!/../evil.md: leaves the folder",
        f"skipped: {pack}!/__MACOSX/._newts.md: holds what macOS keeps about another file",
        "2 files staged in notes, 2 skipped, 0 failed; index them with: lamina curate notes",
    ]
    assert staged(lamina) == {"lone.txt": b"A lone file about lemurs.\n", "ponds/newts.md": PAGE}
    lamina.ok("curate", "notes")
    assert "ponds/newts.md" in lamina.ok("query", "notes", "newts", "-k", "1")
    assert "(2 there already)" in lamina.ok("import", "notes", pack, lamina.folder / "lone.txt")
    lamina.ok("remove", "notes", "ponds")
    assert list(lamina.json("ledger", "notes")["source_removed"]) == ["ponds/newts.md"]
    lamina.ok("import", "notes", pack)
    assert lamina.json("ledger", "notes")["source_removed"] == {}
    assert "1 skipped" not in lamina.ok("curate", "notes")
    lamina.ok("delete", "notes", "--yes")
    assert list((lamina.folder / "home" / "contexts").iterdir()) == []


def test_the_report_is_the_contract(lamina: Any) -> None:
    """`ImportOutput` on standard output, an `ImportManifestEntry` a line in the file that it names."""
    pack = lamina.write("p.tgz", tarred({"a.md": PAGE, "con.md": b"x", "pic.png": b"\x89PNG\r\n\x1a\n"}, mode="w:gz"))
    rar = lamina.write("p.rar", b"Rar!\x1a\x07\x01\x00")
    ended = lamina("import", "notes", pack, rar, "--into", "in", "--json")
    output = ended.document
    lamina.holds("ImportOutput", output)
    assert ended.status == 1
    assert "p.rar" in ended.err
    counts = ("status", "imported_items", "output_files", "failed", "skipped", "manifest_truncated")
    assert [output[key] for key in counts] == ["partial", 1, 1, 1, 2, False]
    assert output["manifest_sample"] == [
        {"src": str(pack), "action": "extracted", "out": ["in/a.md"], "fmt": "tar.gz", "reason": "", "bytes": len(PAGE)}
    ]
    manifest = lamina.folder / "home" / "contexts" / "notes" / output["manifest_file"]
    records = [json.loads(line) for line in manifest.read_text().splitlines()]
    for record in records:
        lamina.holds("ImportManifestEntry", record)
    assert sorted(r["action"] for r in records) == ["extracted", "failed", "skipped", "skipped"]
    assert staged(lamina) == {"in/a.md": PAGE}


def test_taken_names(lamina: Any) -> None:
    """All or nothing; --replace and --into are the ways out."""
    lamina.ok("add", "notes", lamina.write("a.md", "first\n"))
    pack = lamina.write("pack.zip", zipped({"a.md": b"second\n", "b.md": b"b\n"}))
    ended = lamina("import", "notes", pack)
    assert ended.status == 2
    assert "staged already with other contents: a.md. Nothing was imported" in ended.err
    assert staged(lamina) == {"a.md": b"first\n"}
    lamina.ok("import", "notes", pack, "--into", "two")
    lamina.ok("import", "notes", pack, "--replace")
    assert staged(lamina) == {"a.md": b"second\n", "b.md": b"b\n", "two/a.md": b"second\n", "two/b.md": b"b\n"}


def test_a_damaged_archive_publishes_nothing(lamina: Any) -> None:
    pack = lamina.write("pack.zip", zipped({"a.md": PAGE})[:-10])
    ended = lamina("import", "notes", lamina.write("b.md", "b\n"), pack, "--json")
    assert (ended.status, ended.refusal["code"]) == (2, "archive_corrupt")
    assert "pack.zip" in ended.refusal["message"]
    assert not (lamina.folder / "home" / "contexts").exists() or not staged(lamina)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "notes", "nothing.zip"), "there is no nothing.zip"),
        (("import", "notes", "zoo"), "lamina add"),
        (("import", "notes", "/dev/null"), "not a regular file"),
        (("import", "Bad Name", "zoo/guide.md"), "can't name a context"),
        (("import", "notes", "zoo/guide.md", "--into", "../up"), "leaves the folder"),
        (("import", "zoo", "zoo/guide.md"), "reads its files in place"),
    ],
)
def test_refusals(curated: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    """Refused before anything is touched."""
    monkeypatch.chdir(curated.folder)
    ended = curated(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert {p.name for p in (curated.folder / "home" / "contexts").iterdir()} == {"zoo", "held"}


def test_names_cannot_steer_the_terminal(lamina: Any) -> None:
    """An entry's name is shown without its control characters."""
    told = lamina.ok("import", "notes", lamina.write("p.zip", zipped({"\x1b[2Jevil.md": b"x", "a.md": b"1"})))
    assert "\x1b" not in told
    assert "control character" in told
