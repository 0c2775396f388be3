"""One story a verb, as a person would follow it at a prompt: a small zoo, its notes in Markdown, and what may go wrong.

Replay and purge have files of their own: `test_cli_replay.py`, `test_cli_purge.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OTTERS = "# Otters\n\nOtters are fed at nine in the morning.\n\n## Names\n\nThe oldest otter is called Bramble.\n"
BEARS = "# Bears\n\nThe bears sleep from November to March.\n"
TICKETS = "# Tickets\n\nA ticket costs twelve crowns.\n"
DEARER = TICKETS.replace("twelve", "thirteen")
WOLVES = "# Wolves\n\nWolves howl at dusk.\n"
DEADLINE_S = 60.0

CANARIES = "zoo:\n  - question: what does a ticket cost?\n    sources: [tickets.md]\n    k: 1\n"


@pytest.fixture
def zoo(lamina: Any) -> Path:
    """A folder of three notes, curated once."""
    for name, text in (("otters", OTTERS), ("bears", BEARS), ("tickets", TICKETS)):
        lamina.write(f"zoo/{name}.md", text)
    folder = Path(lamina.folder / "zoo")
    lamina.ok("curate", folder)
    return folder


def best(lamina: Any, question: str) -> str:
    """The text of the first hit."""
    return str(lamina.json("query", "zoo", question, "-k", "1")["hits"][0]["text"])


def live(lamina: Any) -> int:
    (context,) = lamina.json("contexts")["contexts"]
    return int(context["live_version"])


def test_plan_then_apply(lamina: Any, zoo: Path) -> None:
    # What would a curate do, now that the prices and the animals have changed?
    (zoo / "tickets.md").write_text(DEARER)
    (zoo / "wolves.md").write_text(WOLVES)
    (zoo / "bears.md").unlink()
    shown = lamina.ok("plan", "zoo")
    assert "1 changed, 1 deleted, 1 new, 1 unchanged" in shown
    plan = lamina.json("plan", "zoo")
    assert {row["source"]: (row["change"], row["added"], row["removed"]) for row in plan["sources"]} == {
        "tickets.md": ("changed", 1, 1), "wolves.md": ("new", 1, 0), "bears.md": ("deleted", 0, 1),
    }  # fmt: skip
    assert all(row["why"] for row in plan["sources"])
    # It was only a plan.
    assert live(lamina) == 1
    assert "twelve" in best(lamina, "what does a ticket cost?")
    # Somebody edits a file meanwhile: what was agreed to is no longer what would happen.
    (zoo / "wolves.md").write_text(WOLVES + "\nAnd at dawn.\n")
    refused = lamina("apply", plan["plan"], "--json").refusal
    assert "wolves.md" in refused["message"]
    assert "lamina plan zoo" in refused["remedy"]
    assert live(lamina) == 1
    # A new plan holds, and does what it says.
    plan = lamina.json("plan", "zoo")
    done = lamina.json("apply", plan["plan"])
    lamina.holds("CurateRunOutput", done)
    assert "thirteen" in best(lamina, "what does a ticket cost?")
    assert sorted(row["path"] for row in lamina.json("sources", "zoo")["sources"]) == [
        "otters.md", "tickets.md", "wolves.md",
    ]  # fmt: skip
    # Applied once is applied.
    assert lamina("apply", plan["plan"], "--json").refusal


def test_rollback_and_back_again(lamina: Any, zoo: Path) -> None:
    (zoo / "tickets.md").write_text(DEARER)
    lamina.ok("curate", "zoo")
    assert "thirteen" in best(lamina, "what does a ticket cost?")
    # The new price was a mistake: the old version is there at once.
    assert "version 1 is live, before it was 2" in lamina.ok("rollback", "zoo")
    assert "twelve" in best(lamina, "what does a ticket cost?")
    listing = (
        Path(lamina.environ["LAMINA_HOME"]) / "contexts/zoo/knowledge/chunks/tickets.md.chunks.jsonl"
    ).read_text()
    assert "twelve" in listing, "the folder goes with it"
    # It is on record like any run.
    newest = lamina.json("runs", "zoo")["runs"][0]
    assert (newest["kind"], newest["version"]) == ("rollback", 1)
    # And forth again.
    lamina.ok("rollback", "zoo", "--to", "2")
    assert "thirteen" in best(lamina, "what does a ticket cost?")
    refused = lamina("rollback", "zoo", "--to", "9", "--json").refusal
    assert "1, 2" in refused["remedy"]


def test_fsck_finds_and_heals(lamina: Any, zoo: Path) -> None:
    context = Path(lamina.environ["LAMINA_HOME"]) / "contexts" / "zoo"
    assert "as the ledger says" in lamina.ok("fsck", "zoo")
    # Somebody has cleaned up too much: the index is gone, a file of the folder is cut short, a note was left there.
    for path in context.glob("index.sqlite*"):
        path.unlink()
    listing = context / "knowledge/chunks/otters.md.chunks.jsonl"
    listing.write_text(listing.read_text()[:20])
    (context / "knowledge" / "todo.txt").write_text("buy fish")
    refused = lamina("query", "zoo", "when are the otters fed?", "--json").refusal
    assert (refused["code"], "lamina fsck zoo --repair" in refused["remedy"]) == ("index_lost", True)
    # fsck says what is wrong, with status 1, and changes nothing.
    found = lamina("fsck", "zoo", "--json")
    assert (found.status, found.document["found"]) == (1, {"missing": 4, "view": 2})
    assert lamina("fsck", "zoo", "--json").document["found"] == found.document["found"]
    # Told to, it writes everything anew: no source is read for it.
    for path in zoo.iterdir():
        path.unlink()
    healed = lamina.json("fsck", "zoo", "--repair")
    assert healed["healed"] == {"missing": 4, "view": 2}
    assert "nine in the morning" in best(lamina, "when are the otters fed?")
    assert "nine in the morning" in listing.read_text()
    assert "as the ledger says" in lamina.ok("fsck", "zoo")


def test_a_source_in_quarantine(lamina: Any, zoo: Path) -> None:
    broken = zoo / "keeper.ipynb"
    broken.write_text('{"cells": [')
    ended = lamina("curate", "zoo")
    assert ended.status == 1, "a failed source is not a success"
    assert "keeper.ipynb" in ended.out
    # It is held back, with its reason; the others are not.
    assert "notebook_broken" in lamina.ok("quarantine", "list", "zoo")
    assert "tried again once its bytes or the pipeline change" in lamina.ok("quarantine", "why", "zoo", "keeper.ipynb")
    (zoo / "wolves.md").write_text(WOLVES)
    lamina("curate", "zoo")
    assert "howl" in best(lamina, "when do wolves howl?")
    # Released by hand, it is tried, and fails as before.
    lamina.ok("quarantine", "release", "zoo", "keeper.ipynb")
    assert lamina.ok("quarantine", "list", "zoo").startswith("nothing of zoo is in quarantine")
    assert lamina("curate", "zoo").status == 1
    assert "keeper.ipynb" in lamina.ok("quarantine", "list", "zoo")
    # Mended, it needs no release.
    cell = {"cell_type": "markdown", "source": ["# Keeper\n", "The keeper is called Ada."], "metadata": {}}
    broken.write_text(json.dumps({"cells": [cell], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    assert lamina("curate", "zoo").status == 0
    assert "Ada" in best(lamina, "what is the keeper called?")
    assert lamina.ok("quarantine", "list", "zoo").startswith("nothing of zoo is in quarantine")


def test_gates_keep_a_bad_version_away(lamina: Any, zoo: Path) -> None:
    # Most files are gone, by mistake: a version that shows so little doesn't go live.
    for name in ("otters.md", "bears.md"):
        (zoo / name).rename(lamina.folder / name)
    ended = lamina("curate", "zoo", LAMINA_MAX_SHRINK="0.3")
    assert ended.status != 0
    assert "gate shrink" in ended.err
    assert "LAMINA_MAX_SHRINK=1" in ended.err, "how to go on if it was meant"
    assert live(lamina) == 1
    assert "nine in the morning" in best(lamina, "when are the otters fed?")
    for name in ("otters.md", "bears.md"):
        (lamina.folder / name).rename(zoo / name)
    # A question that must always find its source: the page still exists, but no longer answers it.
    canaries = str(lamina.write("canaries.yaml", CANARIES))
    (zoo / "tickets.md").write_text("# Gates\n\nClosed in winter.\n")
    (zoo / "prices.md").write_text("# Tickets\n\nWhat a ticket costs: a ticket costs thirteen crowns.\n")
    ended = lamina("curate", "zoo", LAMINA_CANARIES=canaries)
    assert ended.status != 0
    assert "gate canary: 'what does a ticket cost?' doesn't find tickets.md" in ended.err
    assert "twelve" in best(lamina, "what does a ticket cost?")
    assert lamina.json("runs", "zoo")["runs"][0]["state"] == "failed"
    # Too many sources failed.
    (zoo / "tickets.md").write_text(TICKETS)
    (zoo / "prices.md").unlink()
    (zoo / "broken.ipynb").write_text("{")
    ended = lamina("curate", "zoo", LAMINA_FAILED_SHARE="0", LAMINA_CANARIES=canaries)
    assert "gate failed" in ended.err
    assert live(lamina) == 1
    # Put right, everything passes.
    (zoo / "broken.ipynb").unlink()
    (zoo / "tickets.md").write_text(TICKETS + "\nChildren pay nothing.\n")
    assert (
        lamina("curate", "zoo", LAMINA_MAX_SHRINK="0.3", LAMINA_CANARIES=canaries, LAMINA_FAILED_SHARE="0").status == 0
    )
    assert "nothing" in best(lamina, "what do children pay for a ticket?")


def test_delete_a_source_and_let_it_in_again(lamina: Any, zoo: Path) -> None:
    done = lamina.json("delete-sources", "zoo", "bears.md")
    assert done["delta"] != "empty"
    # Nothing of it is found any more, though the file stands in its owner's folder, and no curate brings it back.
    assert (zoo / "bears.md").exists()
    assert lamina.json("curate", "zoo")["delta"] == "empty"
    hits = lamina.json("query", "zoo", "when do the bears sleep?")["hits"]
    assert "bears.md" not in {hit["metadata"]["source_path"] for hit in hits}
    # It was a small run: the rest was not read.
    assert lamina.json("runs", "zoo")["runs"][1]["kind"] == "curate"
    # Taken back, the next curate reads it again.
    lamina.ok("delete-sources", "zoo", "bears.md", "--restore")
    lamina.ok("curate", "zoo")
    assert "November" in best(lamina, "when do the bears sleep?")
    refused = lamina("delete-sources", "zoo", "lions.md", "--json").refusal
    assert "lions.md" in refused["message"]


def test_watch_curates_what_changes(lamina: Any, zoo: Path) -> None:
    command = [
        sys.executable, "-m", "pipeline", "watch", "zoo", "--every", "0.1", "--settle", "0.2", "--runs", "2", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **lamina.environ}
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:  # the first run has looked, and found nothing new
            if line.startswith("run "):
                break
        (zoo / "wolves.md").write_text(WOLVES)
        (zoo / "tickets.md").write_text(DEARER)
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
    assert process.returncode == 0, err
    told = json.loads(out)
    assert [run["state"] for run in told["runs"]] == ["noop", "completed"], "both edits in one run"
    assert "howl" in best(lamina, "when do wolves howl?")
    assert "thirteen" in best(lamina, "what does a ticket cost?")


def test_backup_into_an_empty_home(lamina: Any, zoo: Path) -> None:
    (zoo / "tickets.md").write_text(DEARER)
    lamina.ok("curate", "zoo")
    lamina.ok("rollback", "zoo")
    asked = ("query", "zoo", "what does a ticket cost?", "--json")
    before = lamina(*asked).document
    archive = lamina.folder / "zoo.lamina"
    lamina.ok("backup", "zoo", archive)
    refused = lamina("backup", "zoo", archive, "--json").refusal
    assert str(archive) in refused["message"], "nothing is overwritten"
    # Another machine: the archive alone is there.
    other = {"LAMINA_HOME": str(lamina.folder / "other")}
    assert lamina("restore", archive, **other).status == 0
    assert lamina(*asked, **other).document == before
    assert lamina("fsck", "zoo", **other).status == 0
    # Its versions came along.
    assert lamina("rollback", "zoo", "--to", "2", **other).status == 0
    assert "thirteen" in lamina(*asked, **other).document["hits"][0]["text"]
    # What is there isn't written over.
    assert lamina("restore", archive, "--json").refusal


def test_gc_gives_back_what_nobody_needs(lamina: Any, zoo: Path) -> None:
    pins = []
    for price in ("thirteen", "fourteen", "fifteen"):
        (zoo / "tickets.md").write_text(TICKETS.replace("twelve", price))
        lamina.ok("curate", "zoo")
        pins.append(lamina.json("pin", "zoo", "--for", "1h")["pin"])
    readable = [row["version"] for row in lamina.json("versions", "zoo")["versions"] if row["readable"]]
    assert readable == [4, 3, 2], "pinned ones stay"
    for pin in pins:
        lamina.ok("unpin", "zoo", pin)
    told = lamina.json("gc", "zoo")
    assert told["contexts"][0]["versions"] == [2]
    readable = [row["version"] for row in lamina.json("versions", "zoo")["versions"] if row["readable"]]
    assert readable == [4, 3]
    assert "fifteen" in best(lamina, "what does a ticket cost?")
    assert lamina("fsck", "zoo").status == 0


def test_cancel_a_run_whose_process_is_gone(lamina: Any, zoo: Path) -> None:
    for number in range(150):
        (zoo / f"{number:03}.md").write_text(f"# Page {number}\n\n" + f"Sentence {number} about owls. " * 80)
    command = [sys.executable, "-m", "pipeline", "curate", "zoo", "--batch-size", "4"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **lamina.environ})
    assert process.stderr is not None
    assert process.stderr.readline().startswith("inventory: done")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    # What is live is live, the run is still on record as begun, and one can ask where it is.
    assert "nine in the morning" in best(lamina, "when are the otters fed?")
    held = lamina.json("runs", "zoo")["runs"][0]
    assert held["state"] == "running"
    assert held["run"] in lamina.ok("explain", held["run"])
    # Cancelled, it leaves no trace.
    lamina.ok("cancel", held["run"])
    assert lamina.json("runs", "zoo")["runs"][0]["state"] == "abandoned"
    assert live(lamina) == 1
    assert lamina("fsck", "zoo").status == 0
    refused = lamina("cancel", held["run"], "--json").refusal
    assert held["run"] in refused["message"]
    # The next curate begins afresh.
    assert "version 3 is live" in lamina.ok("curate", "zoo")
