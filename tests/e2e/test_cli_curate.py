"""`lamina curate`: what it says, what it costs, and how it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline import bootstrap, settings, starting
from pipeline.request import CurateRequest
from pipeline.types import ContextSlug


def test_life_of_a_folder(lamina: Any) -> None:
    """Curate, no-op, edit, delete: each says what it did, and each document is what the contract says."""
    zoo = lamina.zoo()
    first = lamina("curate", zoo, "--json")
    assert first.status == 0
    lamina.holds("CurateRunOutput", first.document)
    assert first.document["delta"]["new"] == 2
    assert first.document["delta"]["chunks_created"] == 4

    lamina.holds("CurationState", lamina.json("ledger", "zoo"))
    assert set(lamina.json("ledger", "zoo")["manifest"]) == {"guide.md", "animals/beavers.md"}

    again = lamina("curate", zoo, "--json")
    lamina.holds("CurateNoopOutput", again.document)
    assert again.document["delta"] == "empty"
    assert "nothing has changed; version 1 stays live" in lamina.ok("curate", "zoo")

    lamina.write("zoo/guide.md", "# Otter guide\n\nOtters eat crabs now, which is news to everyone.\n")
    (zoo / "animals" / "beavers.md").unlink()
    told = lamina.ok("curate", zoo)
    assert "version 2 is live" in told
    assert "0 new, 1 changed, 1 deleted, 0 failed" in told
    assert set(lamina.json("ledger", "zoo")["manifest"]) == {"guide.md"}


def test_summary_gives_queries_that_work_when_pasted(lamina: Any) -> None:
    told = lamina.ok("curate", lamina.zoo())
    commands = [line.strip() for line in told.splitlines() if line.strip().startswith("lamina query")]
    assert commands
    for command in commands:
        assert "1. " in lamina.ok(*shlex.split(command)[1:])


def test_progress_names_each_stage_once_and_stays_off_standard_output(lamina: Any) -> None:
    ended = lamina("curate", lamina.zoo(), "--json")
    finished = [line.partition(":")[0] for line in ended.err.splitlines() if ": done" in line]
    assert finished[0] == "inventory"
    assert finished[-1] == "reclaim"
    assert len(finished) == len(set(finished)) == 11
    assert isinstance(ended.document, dict)


def test_a_bad_source_makes_the_run_partial_and_is_named(lamina: Any) -> None:
    """Failed sources: listed with their reason, exit status 1, also when the next run finds them unchanged."""
    zoo = lamina.zoo()
    lamina.write("zoo/broken.pdf", b"%PDF-1.4\nnothing of a document\n%%EOF")
    lamina.write("zoo/empty.md", b"")
    ended = lamina("curate", zoo)
    assert ended.status == 1
    assert "failed (what was live of it stays): broken.pdf: " in ended.out
    assert "skipped: empty.md: empty.md has 0 bytes" in ended.out
    again = lamina("curate", zoo)
    assert again.status == 1
    assert "still failed: broken.pdf: " in again.out
    run = lamina.json("runs", "zoo")["runs"][-1]["run"]
    shown = lamina.ok("show", run)
    assert "broken.pdf  failed " in shown
    assert "empty.md    skipped" in shown


def test_skipped_files_are_no_failure(lamina: Any) -> None:
    zoo = lamina.zoo()
    lamina.write("zoo/empty.md", b"")
    assert lamina("curate", zoo).status == 0


def test_a_manifest_change_says_what_stays_behind(lamina: Any) -> None:
    """Unforced, unchanged sources are left as they are and counted; forced, they are built anew."""
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    file = lamina.write("small.json", json.dumps({"curate": {"chunks": {"chunking": {"target_size": 64}}}}))
    lamina.write("zoo/new.md", "# New\n\nA new page about pelicans and their bills.\n")
    told = lamina.ok("curate", zoo, "--manifest", file)
    assert "2 unchanged sources" in told
    assert "--force" in told
    assert "--force" not in lamina.ok("curate", zoo, "--force")


def test_two_folders_of_one_name(lamina: Any) -> None:
    """The second is refused, and the way out is named; a link to the first is the first."""
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    other = lamina.write("elsewhere/Zoo/a.md", "# Else\n\nAnother zoo altogether.\n").parent
    ended = lamina("curate", other)
    assert ended.status == 2
    assert "belongs to" in ended.err
    assert "--context NAME" in ended.err
    assert "version 1 is live" in lamina.ok("curate", other, "--context", "zoo-two")
    link = lamina.folder / "links" / "zoo"
    link.parent.mkdir()
    link.symlink_to(zoo)
    assert "nothing has changed" in lamina.ok("curate", link)


def test_an_existing_folder_wins_over_a_name(lamina: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    monkeypatch.chdir(lamina.folder)
    assert "nothing has changed" in lamina.ok("curate", "zoo")
    monkeypatch.chdir(zoo)
    assert "nothing has changed" in lamina.ok("curate", "zoo")
    lamina.write("zoo/zoo/inner.md", "# Inner\n\nA folder of the same name.\n")
    assert lamina("curate", "zoo").status == 2
    assert "version 2 is live" in lamina.ok("curate", "--context", "zoo")


REFUSED = {
    "nothing": ((), "nothing to curate was named"),
    "unknown": (("nowhere",), "there is no folder and no context 'nowhere'"),
    "file": (("zoo/guide.md",), "zoo/guide.md is a file"),
    "slug": (("zoo", "--context", "No Good"), "can't name a context"),
    "set": (("zoo", "--set", "embedder"), "is not KEY=VALUE"),
    "set-key": (("zoo", "--set", "colour=red"), "colour: unknown key"),
    "set-model": (("zoo", "--set", "embedder=huge"), "this deployment serves"),
    "set-twice": (("zoo", "--set", "stemming=none", "--set", "stemming=english"), "gives stemming twice"),
    "manifest-gone": (("zoo", "--manifest", "none.yaml"), "can't read none.yaml"),
    "manifest-bad": (("zoo", "--manifest", "bad.yaml"), "curate.chunks.chunkin"),
    "number": (("zoo", "--batch-size", "many"), "--batch-size"),
    "option": (("zoo", "--fast"), "--fast"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(lamina: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Exit status 2, a message, a remedy on its own line, no traceback; under --json one JSON line and no output."""
    lamina.zoo()
    lamina.write("bad.yaml", "curate:\n  chunks:\n    chunkin:\n      target_size: 5\n")
    monkeypatch.chdir(lamina.folder)
    arguments, message = REFUSED[case]
    ended = lamina("curate", *arguments)
    assert ended.status == 2
    assert ended.out == ""
    assert message in ended.err
    assert ended.err.startswith("error: ")
    assert ended.err.splitlines()[-1].startswith("  ")
    assert "Traceback" not in ended.err
    refusal = lamina("curate", *arguments, "--json").refusal
    assert message in refusal["message"]
    assert refusal["remedy"]


def test_a_folder_around_the_home_is_refused(lamina: Any) -> None:
    lamina.ok("contexts")
    ended = lamina("curate", lamina.folder)
    assert ended.status == 2
    assert "stands inside" in ended.err


def test_an_emptied_folder_is_not_taken_at_its_word(lamina: Any) -> None:
    """What was live stays; --allow-empty makes the empty version live."""
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    (zoo / "guide.md").unlink()
    (zoo / "animals" / "beavers.md").unlink()
    ended = lamina("curate", zoo)
    assert ended.status == 2
    assert "no source was found" in ended.err
    assert "--allow-empty" in ended.err
    assert "1. " in lamina.ok("query", "zoo", "otters")
    lamina.ok("curate", zoo, "--allow-empty")
    assert "nothing found" in lamina.ok("query", "zoo", "otters")


def test_a_folder_that_went_away(lamina: Any) -> None:
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    zoo.rename(lamina.folder / "moved")
    ended = lamina("curate", "zoo")
    assert ended.status == 2
    assert "is gone" in ended.err


def test_another_living_run_holds_the_context(lamina: Any) -> None:
    """Exit status 3 and the id to cancel; after that the run can be made."""
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)
    ports = replace(bootstrap.build(settings.load(lamina.environ, lamina.folder)), owner="somebody else")
    started = starting.start(ports, CurateRequest(ContextSlug("zoo")))
    bootstrap.close(ports)
    ended = lamina("curate", zoo)
    assert ended.status == 3
    assert f"lamina cancel {started.run}" in ended.err
    assert lamina.json("contexts")["contexts"][0]["active_run"] == started.run
    assert "is cancelled" in lamina.ok("cancel", started.run)
    assert lamina("cancel", started.run).status == 2
    lamina.ok("curate", zoo)


def test_file_names_that_are_not_utf8(lamina: Any, tmp_path: Path) -> None:
    """They are curated, shown encoded, and taken both raw and encoded."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(folder).mkdir()
    raw = os.fsdecode(b"men\xfc.md")
    Path(folder, raw).write_text("# Menu\n\nCoffee is served until late at night.\n")
    lamina.ok("curate", folder)
    assert "men%FC.md" in lamina.ok("ledger", "caf")
    assert "late at night" in lamina.ok("chunks", "caf", "--source", "men%FC.md")
    command = [sys.executable, "-m", "pipeline", "chunks", "caf", "--source", raw]
    called = subprocess.run(command, capture_output=True, env={**os.environ, **lamina.environ}, check=False)
    assert b"late at night" in called.stdout
    for arguments in (("curate", raw), ("query", "caf", raw), ("show", raw), ("ledger", raw), ("delete", raw, "--yes")):
        assert "unexpected" not in lamina(*arguments).err


def test_ctrl_c_and_the_same_command_again(lamina: Any, tmp_path: Path) -> None:
    """130 with a line that says how to go on; the same command then finishes without waiting for a lease."""
    for number in range(150):
        lamina.write(f"many/{number:03}.md", f"# Page {number}\n\n" + f"Sentence {number} about otters. " * 80)
    environ = {**os.environ, **lamina.environ, "LAMINA_LEASE_S": "2"}
    command = [sys.executable, "-m", "pipeline", "curate", str(tmp_path / "many"), "--batch-size", "4"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("inventory: done")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert "The same command goes on with this run" in err
    assert "Traceback" not in err
    held = lamina.json("runs", "many")["runs"][0]
    assert held["state"] == "running"
    assert "is live" in lamina.ok("curate", tmp_path / "many", "--batch-size", "4")
    first = lamina.json("runs", "many")["runs"][-1]
    assert (first["run"], first["state"]) == (held["run"], "completed")
