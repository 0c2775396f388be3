"""Versions, pins, runs and what `show` and `ledger` print."""

from __future__ import annotations

import re
from typing import Any

import pytest


def edited(lamina: Any, word: str) -> None:
    lamina.write("zoo/guide.md", f"# Guide\n\nOtters like {word} more than anything else.\n")
    lamina.ok("curate", lamina.folder / "zoo")


def top(lamina: Any, *arguments: str) -> str:
    text: str = lamina.json("query", "zoo", "what do otters like", "-k", "1", *arguments)["hits"][0]["text"]
    return text


def test_rollback_and_back(lamina: Any) -> None:
    """The pointer moves at once and both ways; a curate after it follows the files again."""
    lamina.zoo()
    edited(lamina, "crabs")
    edited(lamina, "eels")
    assert "eels" in top(lamina)
    assert "version 1 is live, before it was 2" in lamina.ok("rollback", "zoo")
    assert "crabs" in top(lamina)
    moved = lamina.json("rollback", "zoo", "--to", "2")
    assert (moved["live_version"], moved["previous_version"]) == (2, 1)
    assert "eels" in top(lamina)
    assert [run["kind"] for run in lamina.json("runs", "zoo")["runs"]] == ["rollback", "rollback", "curate", "curate"]
    assert len(lamina.json("runs", "zoo", "-n", "1")["runs"]) == 1
    for arguments, message in ((("--to", "2"), "is live already"), (("--to", "7"), "can't be read")):
        ended = lamina("rollback", "zoo", *arguments)
        assert ended.status == 2
        assert message in ended.err


def test_a_first_version_has_nothing_before_it(curated: Any) -> None:
    ended = curated("rollback", "zoo")
    assert ended.status == 2
    assert "no earlier version" in ended.err


def test_a_pin_keeps_a_version_readable(lamina: Any) -> None:
    """Two versions stay readable by themselves; a pinned one stays as well, until it is let go."""
    lamina.zoo()
    edited(lamina, "crabs")
    pin = lamina.json("pin", "zoo", "--version", "1", "--for", "2h")
    for word in ("eels", "frogs"):
        edited(lamina, word)
    assert "crabs" in top(lamina, "--version", "1")
    listed = {row["version"]: row for row in lamina.json("versions", "zoo")["versions"]}
    assert listed[1]["pins"] == [pin["pin"]]
    assert [number for number, row in listed.items() if row["live"]] == [3]
    assert re.search(rf"\n +1  live +yes +{pin['pin']} ", lamina.ok("versions", "zoo"))
    assert "is gone" in lamina.ok("unpin", "zoo", pin["pin"])
    edited(lamina, "snails")
    ended = lamina("query", "zoo", "otters", "--version", "1")
    assert ended.status == 3
    assert "version 1 of zoo can't be read" in ended.err


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "1w", "31d", "0s", "1e3s"])
def test_durations_that_are_none(curated: Any, text: str) -> None:
    ended = curated("pin", "zoo", f"--for={text}")
    assert ended.status == 2
    assert ended.err.count("\n") == 2


@pytest.mark.parametrize("text", ["90s", "15m", "2h", "7d", "1.5h"])
def test_durations(curated: Any, text: str) -> None:
    assert "is pinned until" in curated.ok("pin", "zoo", "--for", text)
    for pin in curated.json("versions", "zoo")["versions"][0]["pins"]:
        curated.ok("unpin", "zoo", pin)


def test_unknown_pins_runs_and_contexts(curated: Any) -> None:
    for arguments in (
        ("unpin", "zoo", "abc"),
        ("show", "abc"),
        ("cancel", "abc"),
        ("versions", "no"),
        ("ledger", "no"),
        ("runs", "no"),
    ):
        ended = curated(*arguments)
        assert ended.status == 2, arguments
        assert ended.err.startswith("error: ")


def test_show_is_a_task(lamina: Any) -> None:
    """The document is the contract's TaskResponse, whatever the run was."""
    lamina.ok("curate", lamina.zoo())
    edited(lamina, "crabs")
    lamina.ok("rollback", "zoo")
    lamina.ok("curate", lamina.folder / "zoo")
    runs = lamina.json("runs", "zoo")["runs"]
    assert [run["state"] for run in runs] == ["completed"] * 4
    for run in (runs[0], runs[1]):
        lamina.holds("TaskResponse", lamina.json("show", run["run"]))
    told = lamina.ok("show", runs[0]["run"])
    assert f"run {runs[0]['run']}: curate of zoo, completed, version 3" in told
    assert [line.split()[0] for line in told.splitlines() if " of " in line][1:] == [
        "inventory", "parse", "chunk", "screen", "embed_dense", "embed_sparse", "upsert", "verify", "seal", "flip", "reclaim",
    ]  # fmt: skip


def test_contexts(lamina: Any) -> None:
    assert "no context yet" in lamina.ok("contexts")
    assert lamina.json("contexts") == {"contexts": []}
    lamina.ok("curate", lamina.zoo())
    told = lamina.ok("contexts").splitlines()
    assert told[0].split() == ["context", "live", "records", "sources", "run", "at", "work"]
    assert told[1].split() == ["zoo", "1", "4", str(lamina.folder / "zoo"), "-"]
