"""A night with a fleet, as its operator would follow it: why nothing moves, then that it does, then taking it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import postgres_server
import pytest
from fleet_processes import Fleet, make_sources, wait_for


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path / "home", LAMINA_LEDGER_URL=postgres_server.fresh_url()) as made:
        yield made


def first_hit(fleet: Fleet, question: str) -> tuple[int, str]:
    found = fleet.lamina("query", "notes", question, "-k", "1")
    return found["version"], found["hits"][0]["text"]


def test_a_night_with_a_fleet(fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 12)
    ticket = sources / "ticket.md"
    ticket.write_text("# Tickets\n\nA ticket costs twelve crowns.\n")
    # Submitted while nobody works: the run is in the ledger, and explain says what it waits for and what to do.
    submitted = fleet.lamina("submit", str(sources))
    run = submitted["run"]
    wait_for(lambda: "no worker" in fleet.lamina("explain", run)["verdict"], 30, "the verdict", every=1)
    told = fleet.lamina("explain", run)
    assert told["state"] == "running"
    assert "lamina worker" in told["remedy"], told
    # The same request joins the run instead of making a second one.
    assert fleet.lamina("submit", str(sources))["run"] == run
    # A worker comes: it ends.
    fleet.work()
    assert fleet.until_ended(run) == "completed"
    assert first_hit(fleet, "what does a ticket cost?") == (1, "# Tickets\n\nA ticket costs twelve crowns.")
    # A new price, waited for.
    ticket.write_text("# Tickets\n\nA ticket costs thirteen crowns.\n")
    second = fleet.lamina("submit", "notes", "--wait")
    assert second["flipped"]
    assert "thirteen" in first_hit(fleet, "what does a ticket cost?")[1]
    # It was a mistake: back at once, whatever the workers do.
    assert fleet.lamina("rollback", "notes")["live_version"] == 1
    assert "twelve" in first_hit(fleet, "what does a ticket cost?")[1]
    # A source that must go is a small run, and rolls over what was rolled back.
    fleet.lamina("delete-sources", "notes", "ticket.md")
    found = fleet.lamina("query", "notes", "what does a ticket cost?")["hits"]
    assert "ticket.md" not in {hit["metadata"]["source_path"] for hit in found}
    assert fleet.lamina("fsck", "notes")["sound"]
    # Who was here, and what they did, is on record.
    kinds = [row["kind"] for row in fleet.lamina("runs", "notes")["runs"]]
    assert kinds[:2] == ["fsck", "curate"]
    assert "rollback" in kinds
    # The worker ends as it is told to, with nothing in hand.
    worker = fleet.workers[0]
    assert worker.stop() == 0
    wait_for(lambda: worker.process.poll() is not None, 10, "the worker")
