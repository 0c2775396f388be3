"""What a machine does to a run: no room on its disk, a clock that jumps."""

from __future__ import annotations

import pytest
from faults.cases import Template, check

LEFT_OUT_ON_POSTGRES = ("test_a_full_disk",)
ONLY_ON_POSTGRES = ("test_a_full_disk_that_is_not_the_ledgers",)

FULL = ("ledger.inventory.rows", "index.upsert", "ledger.seal", "ledger.reclaim")
"""A few: a unit that can't be handed back is waited for until its lease has run out, half a minute."""


@pytest.mark.parametrize("name", FULL)
def test_a_full_disk(template: Template, name: str) -> None:
    """From one effect on, no file of the home takes another byte; then there is room again."""
    with template.case() as case, case.readers(template.old, template.new):
        outcome = case.run(name=name, when="before", action="full").outcome()
        assert outcome["outcome"] == "disk_error", outcome
        assert case.reader_ask() in (template.old, template.new)
        assert case.resume() in ("completed", "noop")
        check(case, template)


UNAVAILABLE = {
    "index.upsert": "index_unavailable",
    "objects.put_many": "object_store_unavailable",
    "view.write": "knowledge_folder",
}


@pytest.mark.parametrize("name", UNAVAILABLE)
def test_a_full_disk_that_is_not_the_ledgers(template: Template, name: str) -> None:
    """Vectors, memo and files can't be written, while the ledger stands on a server elsewhere."""
    with template.case() as case, case.readers(template.old, template.new):
        assert case.run(name=name, when="before", action="full").outcome()["outcome"] == UNAVAILABLE[name]
        assert case.reader_ask() in (template.old, template.new)
        assert case.resume() in ("completed", "noop")
        check(case, template)


JUMPS = (
    "ledger.claim", "ledger.inventory.rows", "ledger.parse", "ledger.embed_dense", "index.upsert", "ledger.reduce",
    "ledger.seal", "index.stamp", "ledger.flip", "ledger.reclaim", "view.end",
)  # fmt: skip


@pytest.mark.parametrize("by_s", [-6 * 3600.0, 6 * 3600.0])
@pytest.mark.parametrize("name", JUMPS)
def test_a_clock_that_jumps(template: Template, name: str, by_s: float) -> None:
    """Amid the run: it goes on to its end, and nothing is left to do."""
    with template.case() as case, case.readers(template.old, template.new):
        outcome = case.run(name=name, when="after", action="jump", by_s=by_s).outcome()
        assert outcome["outcome"] == "completed", outcome
        check(case, template)


@pytest.mark.parametrize("name", ["ledger.parse", "index.upsert", "ledger.flip"])
def test_a_clock_set_back_after_a_kill(template: Template, name: str) -> None:
    """The lease of whoever died lies hours ahead, and holds nobody off."""
    with template.case() as case, case.readers(template.old, template.new):
        case.ports.clock.advance(6 * 3600.0)
        assert case.run(name=name, when="after", action="kill").ended() == "signal 9"
        case.ports.clock.advance(-6 * 3600.0)
        assert case.resume() in ("completed", "noop")
        check(case, template)
