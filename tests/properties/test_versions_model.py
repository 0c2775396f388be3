"""DESIGN §3 to §5 as a state machine over the real ledger, index and flows; oracle: invariant 2."""

from __future__ import annotations

from versions_machine import EXAMPLES, KnowledgeRules, run_machine


def test_the_version_rules_hold() -> None:
    """Any order of edits, crashes, abandons, rollbacks, late writes, pins and reclaims keeps the invariants."""
    run_machine(EXAMPLES)


def test_they_hold_for_artifacts_too() -> None:
    """Subjects, artifacts, edges, files and database rows after any such order are those of a curate from scratch."""
    run_machine(EXAMPLES, rules=KnowledgeRules)
