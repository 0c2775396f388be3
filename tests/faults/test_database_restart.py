"""The server that holds the ledger ends at once, by its own crash or its operator, and comes back."""

from __future__ import annotations

import postgres_server
import pytest
from faults.cases import Template, check

ONLY_ON_POSTGRES = ("test_a_restart_amid_a_run", "test_a_server_that_stays_away", "test_readers_go_on_after_a_restart")

POINTS = [
    ("ledger.claim", "inside"), ("ledger.inventory.rows", "inside"), ("ledger.parse", "inside"),
    ("ledger.embed_dense", "before"), ("index.upsert", "before"), ("index.upsert", "after"), ("ledger.reduce", "inside"),
    ("ledger.verify", "inside"), ("ledger.seal", "inside"), ("ledger.seal", "after"), ("index.stamp", "after"),
    ("ledger.flip", "inside"), ("ledger.flip", "after"), ("ledger.reclaim", "inside"), ("view.end", "before"),
]  # fmt: skip
"""With a block written and not committed, and between blocks."""


@pytest.mark.parametrize(("name", "when"), POINTS)
def test_a_restart_amid_a_run(template: Template, name: str, when: str) -> None:
    """It goes on by itself, or stops by name with everything kept; then the same command ends it."""
    with template.case() as case:
        child = case.run(name=name, when=when, action="stop")
        assert child.ended(stopped=True) == "stopped"
        postgres_server.crash()
        postgres_server.start_again()
        child.wake()
        outcome = child.outcome()
        assert outcome["outcome"] in ("completed", "ledger_away"), outcome
        assert case.reader_ask() in (template.old, template.new)
        if outcome["outcome"] != "completed":
            assert case.resume() in ("completed", "noop")
        assert case.reader_ask() == template.new
        check(case, template)


@pytest.mark.parametrize(
    ("name", "when"), [("ledger.parse", "inside"), ("ledger.flip", "inside"), ("index.upsert", "after")]
)
def test_a_server_that_stays_away(template: Template, name: str, when: str) -> None:
    """The run stops by name within its bounds and says that the server doesn't answer; nothing is paid for twice."""
    with template.case() as case:
        child = case.run(name=name, when=when, action="stop")
        assert child.ended(stopped=True) == "stopped"
        postgres_server.crash()
        try:
            child.wake()
            outcome = child.outcome()
        finally:
            postgres_server.start_again()
        assert (outcome["outcome"], "does not answer" in outcome["error"]) == ("ledger_away", True), outcome
        assert case.resume() in ("completed", "noop")
        check(case, template)


def test_readers_go_on_after_a_restart(template: Template) -> None:
    """A connection at rest that the server dropped is no error of the next question."""
    with template.case() as case:
        assert case.reader_ask() == template.old
        postgres_server.crash()
        postgres_server.start_again()
        assert case.reader_ask() == template.old
        assert case.run().outcome()["outcome"] == "completed"
        check(case, template)
