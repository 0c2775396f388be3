"""lamina delete-sources --purge as a person runs it: afterwards no file of the home holds the words any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MANIFEST = """
curate:
  artifacts:
    enabled: true
    artifact_types:
      - {name: person, kind: entity}
      - {name: summary, kind: summary, scope: document}
      - name: page
        kind: entity
        scope: document
        format: sqlite
        natural_key: [title]
        columns: [{name: title}, {name: body}]
"""
SECRET = "Quillfeather"


def holding(home: Path, word: str) -> list[str]:
    """Files below the home whose bytes or name hold the word."""
    return sorted(
        str(path.relative_to(home))
        for path in home.rglob("*")
        if word in path.name or (path.is_file() and word.encode() in path.read_bytes())
    )


@pytest.fixture
def home(lamina: Any) -> Path:
    """A context of three versions, the last two of which know a person that one file tells of."""
    folder, manifest = Path(lamina.zoo()), lamina.write("m.yaml", MANIFEST)
    letter = folder / "letter.md"
    for text in ("", f"# Letter\n\n{SECRET} feeds the otters.\n", f"# Letter\n\n{SECRET} has left the zoo.\n"):
        if text:
            letter.write_text(text)
        ended = lamina("curate", folder, "--manifest", manifest, LAMINA_RETAIN_SOURCES="1")
        assert ended.status == 0, ended
    made = Path(lamina.environ["LAMINA_HOME"])
    assert len(holding(made, SECRET)) > 4, "index, ledger, files, kept bytes"
    return made


def test_no_file_holds_it_any_more(lamina: Any, home: Path) -> None:
    ended = lamina("delete-sources", "zoo", "letter.md", "--purge")
    assert ended.status == 0, ended
    assert "purged 1 source: letter.md" in ended.out
    assert "versions that can't be read any more, as they held purged sources: 2, 3" in ended.out
    assert holding(home, SECRET) == []
    assert (lamina.folder / "zoo" / "letter.md").exists(), "the folder is its owner's"
    assert lamina("fsck", "zoo").status == 0
    assert lamina("curate", "zoo", "--json").document["delta"] == "empty", "the file stays out"
    assert lamina("query", "zoo", "when are the otters fed?", "--json").document["hits"]
    purged = {row["version"] for row in lamina.json("versions", "zoo")["versions"] if row["purged"]}
    assert purged == {2, 3}
    assert lamina("rollback", "zoo", "--to", "3", "--json").refusal["code"] == "not_readable"


def test_a_pin_is_named(lamina: Any, home: Path) -> None:
    pin = lamina.json("pin", "zoo", "--version", "2", "--for", "1h")
    told = lamina.json("delete-sources", "zoo", "letter.md", "--purge")["purge"]
    assert (told["sources"], told["unavailable"], told["pending"]) == (["letter.md"], [3], 1)
    assert [row["version"] for row in told["pinned"]] == [2]
    assert holding(home, SECRET)
    lamina.ok("unpin", "zoo", pin["pin"])
    lamina.ok("gc", "zoo")
    assert holding(home, SECRET) == []


def test_restore_and_purge_exclude_each_other(lamina: Any, home: Path) -> None:
    refusal = lamina("delete-sources", "zoo", "letter.md", "--purge", "--restore", "--json").refusal
    assert refusal["code"] == "bad_options"
    assert holding(home, SECRET)
