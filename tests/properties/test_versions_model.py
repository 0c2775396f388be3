"""DESIGN §3 to §5 as a state machine over the real ledger, index and flows; oracle: invariant 2."""

from __future__ import annotations

from pathlib import Path

import postgres_server
from versions_machine import EXAMPLES, KnowledgeRules, run_machine

from pipeline.adapters.ledger_postgres import PostgresLedger
from pipeline.ledger import Ledger


def postgres_ledger(_home: Path) -> Ledger:
    return PostgresLedger(postgres_server.fresh_url())


class PostgresRules(KnowledgeRules):
    """The same rules over the ledger of a fleet."""

    open_ledger = staticmethod(postgres_ledger)


def test_the_version_rules_hold() -> None:
    """Any order of edits, crashes, abandons, rollbacks, late writes, pins and reclaims keeps the invariants."""
    run_machine(EXAMPLES)


def test_they_hold_for_artifacts_too() -> None:
    """Subjects, artifacts, edges, files and database rows after any such order are those of a curate from scratch."""
    run_machine(EXAMPLES, rules=KnowledgeRules)


def test_they_hold_on_postgresql() -> None:
    run_machine(max(1, EXAMPLES // 4), rules=PostgresRules)
