"""`add`, `remove` and `delete`: files in and out of a context's own tree."""

from __future__ import annotations

from typing import Any

import pytest


def staged(lamina: Any, name: str = "notes") -> dict[str, bytes]:
    tree = lamina.folder / "home" / "contexts" / name / "sources"
    return {str(p.relative_to(tree)): p.read_bytes() for p in sorted(tree.rglob("*")) if p.is_file()}


def test_life_of_staged_files(lamina: Any) -> None:
    """Added, found; removed, still found; gone at the next curate; deleted with the context."""
    told = lamina.ok("add", "notes", lamina.zoo(), lamina.write("lone.txt", "A lone file about lemurs.\n"))
    assert told.splitlines() == [
        "added: zoo/animals/beavers.md",
        "added: zoo/guide.md",
        "added: lone.txt",
        "3 files staged in notes, 0 failed; index them with: lamina curate notes",
    ]
    lamina.ok("curate", "notes")
    assert "lemurs" in lamina.ok("query", "notes", "lemurs", "-k", "1")
    assert lamina.json("remove", "notes", "zoo", "lone.txt")["removed"] == [
        "lone.txt",
        "zoo/animals/beavers.md",
        "zoo/guide.md",
    ]
    assert staged(lamina) == {}
    state = lamina.json("ledger", "notes")
    lamina.holds("CurationState", state)
    assert set(state["source_removed"]) == {"lone.txt", "zoo/animals/beavers.md", "zoo/guide.md"}
    assert "lemurs" in lamina.ok("query", "notes", "lemurs", "-k", "1")
    lamina.ok("add", "notes", lamina.write("new.md", "# New\n\nA page about newts.\n"))
    assert "1 new, 0 changed, 3 deleted" in lamina.ok("curate", "notes")
    assert lamina.json("ledger", "notes")["source_removed"] == {}
    assert "is deleted" in lamina.ok("delete", "notes", "--yes")
    assert lamina.json("contexts") == {"contexts": []}
    assert list((lamina.folder / "home" / "contexts").iterdir()) == []


def test_adding_twice_changes_nothing(lamina: Any) -> None:
    zoo = lamina.zoo()
    lamina.ok("add", "notes", zoo)
    before = staged(lamina)
    again = lamina.json("add", "notes", zoo)
    assert {item["outcome"] for item in again["sources"]} == {"same"}
    assert staged(lamina) == before


def test_a_taken_name_is_refused_and_nothing_is_added(lamina: Any) -> None:
    """All or nothing; --replace and --into are the ways out."""
    lamina.ok("add", "notes", lamina.write("one/a.md", "first\n"))
    lamina.write("two/a.md", "second\n")
    ended = lamina("add", "notes", lamina.write("b.md", "other\n"), lamina.folder / "two" / "a.md")
    assert ended.status == 2
    assert "staged already with other contents: a.md" in ended.err
    assert staged(lamina) == {"a.md": b"first\n"}
    lamina.ok("add", "notes", lamina.folder / "two" / "a.md", "--into", "two")
    assert staged(lamina) == {"a.md": b"first\n", "two/a.md": b"second\n"}
    assert "replaced: a.md" in lamina.ok("add", "notes", lamina.folder / "two" / "a.md", "--replace")
    assert staged(lamina)["a.md"] == b"second\n"
    both = lamina("add", "notes", lamina.folder / "one" / "a.md", lamina.folder / "two" / "a.md", "--into", "three")
    assert both.status == 2
    assert "two of the files given would both be three/a.md" in both.err


def test_a_file_and_a_folder_of_one_name(lamina: Any) -> None:
    lamina.ok("add", "notes", lamina.write("x/a", "a file\n"))
    lamina.write("y/a/b.md", "below a folder\n")
    for arguments in ((lamina.folder / "y" / "a",), (lamina.folder / "y" / "a", "--replace")):
        ended = lamina("add", "notes", *arguments)
        assert ended.status == 2
        assert "a file and a folder can't share a name" in ended.err


def test_links_out_of_a_folder_are_not_followed(lamina: Any) -> None:
    """A link inside stays, one that leads out is left; a path given by name may itself be a link."""
    secret = lamina.write("secret.md", "not yours\n")
    zoo = lamina.zoo()
    (zoo / "out.md").symlink_to(secret)
    (zoo / "loop").symlink_to(zoo)
    (zoo / "inner.md").symlink_to(zoo / "guide.md")
    lamina.write("zoo/.laminaignore", "animals/\n")
    lamina.ok("add", "notes", zoo)
    assert set(staged(lamina)) == {"zoo/guide.md", "zoo/inner.md"}
    assert not any(p.is_symlink() for p in (lamina.folder / "home" / "contexts" / "notes").rglob("*"))
    lamina.ok("add", "notes", zoo / "out.md")
    assert staged(lamina)["out.md"] == b"not yours\n"


def test_a_trailing_dot_means_the_contents(lamina: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lamina.zoo())
    lamina.ok("add", "notes", ".")
    assert set(staged(lamina)) == {"guide.md", "animals/beavers.md"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "notes", "nothing.md"), "there is no nothing.md"),
        (("add", "notes", "/dev/null"), "neither a file nor a folder"),
        (("add", "Bad Name", "zoo"), "can't name a context"),
        (("add", "notes", "zoo", "--into", "../up"), "leads out"),
        (("add", "notes", "zoo", "--into", "/up"), "leads out"),
        (("add", "notes", "hollow"), "there is no file"),
        (("add", "zoo", "zoo"), "reads its files in place"),
        (("remove", "zoo", "guide.md"), "reads its files in place"),
        (("remove", "held", "nothing.md"), "there is no staged source nothing.md"),
        (("remove", "held", "../../../ledger.sqlite"), "leads out"),
        (("remove", "none", "a.md"), "there is no context 'none'"),
        (("delete", "none", "--yes"), "there is no context 'none'"),
        (("delete", "../home", "--yes"), "can't name a context"),
        (("delete", "held"), "nobody to ask"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_refusals(curated: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str) -> None:
    """Refused before anything is touched."""
    (curated.folder / "hollow").mkdir(exist_ok=True)
    monkeypatch.chdir(curated.folder)
    ended = curated(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err
    assert staged(curated, "held") == {"a.md": b"held\n"}
    assert {row["context"] for row in curated.json("contexts")["contexts"]} == {"zoo", "held"}


def test_deleting_leaves_a_folder_read_in_place_alone(lamina: Any) -> None:
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    assert lamina.json("delete", "zoo", "--yes") == {"context": "zoo", "deleted": True}
    assert (zoo / "guide.md").exists()
    assert "version 1 is live" in lamina.ok("curate", zoo)


def test_deleting_clears_what_a_deletion_cut_short_left(lamina: Any) -> None:
    lamina.ok("contexts")
    left = lamina.write("home/contexts/ghost/sources/a.md", "left behind\n")
    lamina.ok("delete", "ghost", "--yes")
    assert not left.parents[1].exists()
