"""Crash matrix: a process dies just before or just after each of its durable effects, another one resumes once.

Real processes over the embedded deployment's own files. Each effect is hit at its first and its second time by SIGKILL,
by an exception, and by SIGSTOP past the lease with SIGCONT after somebody else has finished; SIGKILL hits the later times
too. Time is one clock that all processes of a case share, so that a lease runs out without anybody waiting for it.
Throughout, a reader polls: it sees version 1 or version 2, whole, and no error. At the end everything is as after a run
that nobody disturbed, and one more curate does nothing.

The parsers run inside the processes, which have no time to start a sandbox each; one case has the sandbox.
"""

from __future__ import annotations

import ast
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from faults.cases import Case, Template, check, same
from faults.deployment import PURGED, SLUG

import pipeline
from pipeline import bootstrap, purging
from pipeline.fsck import fsck

ONCE = (
    "ledger.claim", "ledger.inventory.begin", "ledger.inventory.rows", "ledger.inventory", "ledger.verify", "ledger.flip",
    "ledger.sweep", "objects.delete_many", "view.begin", "view.end", "ledger.run.release", "ledger.reduce.begin",
    "ledger.reduce.subjects", "ledger.reduce.artifacts", "ledger.reduce.edges", "ledger.reduce.links",
    "ledger.reduce.files", "ledger.reduce", "ledger.reduce.orphans",
)  # fmt: skip
TWICE = (
    "ledger.unit.claim", "ledger.parse", "ledger.chunk", "ledger.screen", "ledger.embed_dense", "ledger.embed_sparse",
    "ledger.upsert", "ledger.seal", "ledger.reclaim", "memo.put_many", "index.upsert", "objects.put_many",
    "view.write", "view.remove", "index.stamp", "index.delete", "ledger.extract", "ledger.reduce.paths",
    "ledger.reduce.file",
)  # fmt: skip
"""Effects that a run has more than once: `seal` and `reclaim` each commit twice, the others go by batch."""
TROUBLE = ("ledger.heartbeat", "ledger.unit.release")
"""Effects of a run that takes long, and of one whose model refuses once."""
SELDOM = frozenset(
    {
        "ledger.reduce.diverged",
        "ledger.reduce.strays",
        "ledger.reduce.errored",
        "ledger.spend",
    }
)
"""Effects of runs that follow a rollback, meet a refusing model or a bill. A unit that is done again undoes
the first three as it undoes the others, by `reduce.begin`; tests of their own come upon each."""
FLEET = frozenset(
    {
        "lane.create", "lane.take", "lane.beat", "lane.pass", "lane.reconcile", "lane.allow", "lane.requeue",
        "unit.isolate", "unit.put_down", "unit.give_up",
    }
)  # fmt: skip
"""Write blocks of workers, each of which may be killed at any of them in `tests/workers`."""
OTHER_FLOWS = frozenset(
    {
        "merges.decide",
        "merges.withdraw",
        "cancel",
        "rollback",
        "context.open",
        "context.delete",
        "pin",
        "unpin",
        "sources.add",
        "sources.remove",
        "fsck",
        "restore",
        "plan.anew",
        "plan.take_back",
        "plan.end",
        "replay.decisions",
        "purge.clean",
        "purge.reword",
        "purge.finish",
        "quarantine.release",
        "sources.bury",
        "sources.unearth",
        "publication.take",
        "publication.keep",
        "publication.rest",
        "publication.withdraw",
    }
)
"""Write blocks of flows that are one block each, or that are no runs."""

HITS = [(name, 1) for name in (*ONCE, *TWICE)] + [(name, 2) for name in TWICE]
WHEN = ("before", "after")
SHARDS = 8
CLEAN = {"completed", "noop", "stale_fence"}
"""How a process may end that others overtook."""


LEFT_OUT_ON_POSTGRES = (
    "test_an_exception",
    "test_killed_at_any_later_hit",
    "test_killed_again_while_resuming",
    "test_with_parsers_in_their_sandbox",
    "test_killed_while_purging",
)
"""To a database an exception is a rollback, as a kill is; and later hits of one effect are like the first two."""


def killed(template: Template, name: str, when: str, nth: int, **given: object) -> None:
    with template.case() as case, case.readers(template.old, template.new):
        assert case.run(name=name, when=when, nth=nth, action="kill", **given).ended() == "signal 9"
        assert case.reader_ask() in (template.old, template.new)
        assert case.resume() in ("completed", "noop")
        check(case, template)


def raised(template: Template, name: str, when: str, nth: int, **given: object) -> None:
    with template.case() as case, case.readers(template.old, template.new):
        outcome = case.run(name=name, when=when, nth=nth, action="raise", **given).outcome()["outcome"]
        assert outcome == "injected"
        assert case.resume() in ("completed", "noop")
        check(case, template)


def stopped(template: Template, name: str, when: str, nth: int, **given: object) -> None:
    with template.case() as case, case.readers(template.old, template.new):
        sleeper = case.run(name=name, when=when, nth=nth, action="stop", **given)
        assert sleeper.ended(stopped=True) == "stopped"
        assert case.reader_ask() in (template.old, template.new)
        assert case.resume() in ("completed", "noop")
        sleeper.wake()
        assert sleeper.outcome()["outcome"] in CLEAN
        check(case, template)


def test_the_matrix_knows_every_effect_of_a_run(template: Template) -> None:
    """A new durable effect fails here until it stands in the lists above, and so in the matrix."""
    found = Counter(template.trace)
    assert found.keys() == {*ONCE, *TWICE}
    assert {name for name in found if found[name] > 1} == set(TWICE)
    with template.case() as case:
        troubled = Counter(case.run(troubled=True, lease_s=0.3).outcome()["trace"])
    assert troubled.keys() == {*ONCE, *TWICE, *TROUBLE}


def test_every_write_block_of_the_product_is_known() -> None:
    """Labels at the call sites; a unit's own block has its stage's name."""
    labels: set[str] = set()
    for path in Path(pipeline.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "transaction":
                labels |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    assert {f"ledger.{label}" for label in labels - OTHER_FLOWS - FLEET} <= {*ONCE, *TWICE, *TROUBLE, *SELDOM}


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("name", "nth"), HITS)
def test_killed(template: Template, name: str, nth: int, when: str) -> None:
    killed(template, name, when, nth)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("name", "nth"), HITS)
def test_an_exception(template: Template, name: str, nth: int, when: str) -> None:
    raised(template, name, when, nth)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("name", "nth"), HITS)
def test_asleep_past_the_lease(template: Template, name: str, nth: int, when: str) -> None:
    """Whoever wakes up finds the work done by another and harms nothing."""
    stopped(template, name, when, nth)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_killed_at_any_later_hit(template: Template, shard: int) -> None:
    seen: Counter[str] = Counter()
    later = []
    for name in template.trace:
        seen[name] += 1
        if seen[name] > 2:  # the first two have tests of their own
            later += [(name, when, seen[name]) for when in WHEN]
    for name, when, nth in later[shard::SHARDS]:
        killed(template, name, when, nth)


@pytest.mark.parametrize("hit", [killed, raised, stopped])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", TROUBLE)
def test_in_trouble(template: Template, name: str, when: str, hit: object) -> None:
    """A heartbeat beside the work, and a unit handed back because its model did not answer."""
    hit(template, name, when, 1, troubled=True, lease_s=0.3)  # type: ignore[operator]


AGAIN = (
    "ledger.claim",
    "ledger.unit.claim",
    "index.upsert",
    "ledger.seal",
    "index.stamp",
    "ledger.flip",
    "view.clear",
    "view.end",
)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("first", ["index.upsert", "view.write"])
def test_killed_again_while_resuming(template: Template, first: str, again: str, when: str) -> None:
    """Where the second process has no such effect left to do, it just finishes."""
    with template.case() as case, case.readers(template.old, template.new):
        assert case.run(name=first, when="after", action="kill").ended() == "signal 9"
        case.let_leases_run_out()
        case.run(name=again, when=when, action="kill").ended()
        assert case.resume() in ("completed", "noop")
        check(case, template)


DIRECT = ("memo.put_many", "index.upsert", "index.stamp", "index.delete", "objects.put_many", "objects.delete_many",
          "view.begin", "view.write", "view.remove", "view.end")  # fmt: skip


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(
    "name", [*DIRECT, "ledger.claim", "ledger.screen", "ledger.seal", "ledger.flip", "ledger.reclaim"]
)
def test_asleep_past_another_version(template: Template, name: str, when: str) -> None:
    """While one sleeps, a second finishes its run and a third rebuilds everything; the sleeper's late write harms nothing."""
    with template.case() as case:
        sleeper = case.run(name=name, when=when, action="stop")
        assert sleeper.ended(stopped=True) == "stopped"
        assert case.resume() in ("completed", "noop")
        assert case.resume(flow="force") == "completed"
        with case.readers(template.third.shown, template.third.shown):
            sleeper.wake()
            assert sleeper.outcome()["outcome"] in CLEAN
        assert case.following() == ("noop", Counter())  # whoever starts next repairs the knowledge folder
        same(case.facts(), template.third)


@pytest.mark.parametrize("action", ["kill", "raise", "stop"])
def test_with_parsers_in_their_sandbox(template: Template, action: str) -> None:
    hit = {"kill": killed, "raise": raised, "stop": stopped}[action]
    hit(template, "ledger.parse", "before", 1, sandbox=True)


def test_asleep_inside_a_write_block(template: Template) -> None:
    """SQLite's lock can't be taken from a process that sleeps with it: others say so, in time, and lose nothing.

    PostgreSQL takes the block from whoever is silent in it, so the others go on, and the sleeper finds that it lost.
    """
    if template.postgres:
        stopped(template, "ledger.screen", "inside", 1, idle_s=1)
        return
    with template.case() as case, case.readers(template.old, template.new):
        sleeper = case.run(name="ledger.screen", when="inside", action="stop")
        assert sleeper.ended(stopped=True) == "stopped"
        assert case.resume(busy_s=0.2) == "ledger_busy"
        sleeper.wake()
        assert sleeper.outcome()["outcome"] == "completed"
        check(case, template)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", ["ledger.rollback", "view.begin", "view.remove", "view.write", "view.end"])
def test_killed_while_moving_the_pointer(template: Template, name: str, when: str) -> None:
    """The pointer has moved or it has not; the knowledge folder follows it at the next start, a no-op included."""
    with template.case() as case:
        assert case.run(keep=2).outcome()["outcome"] == "completed"
        assert case.run(flow="rollback", keep=2).outcome()["outcome"] == "completed"
        old = case.knowledge()
        with case.readers(template.old, template.new):
            assert case.run(flow="rollback", keep=2, name=name, when=when, action="kill").ended() == "signal 9"
            moved = (name, when) != ("ledger.rollback", "before")
            assert case.reader_ask() == (template.new if moved else template.old)
            assert case.resume(keep=2) == ("noop" if moved else "completed")
        assert case.knowledge() == template.facts.knowledge != old


PURGE = (
    "ledger.sources.bury", "ledger.claim", "ledger.flip", "ledger.reclaim", "index.delete", "objects.delete_many",
    "memo.forget", "ledger.purge.clean", "ledger.purge.reword", "index.shrink", "ledger.purge.finish", "ledger.sweep",
)  # fmt: skip


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", PURGE)
def test_killed_while_purging(template: Template, name: str, when: str) -> None:
    """The same command again leaves nothing of the source in any file, and all of the others."""
    with template.case() as case:
        kept = {shown for shown in case.reader_ask() if shown[0] != PURGED and "artifacts" not in shown[0]}
        assert holding(case, "wren")
        assert case.run(flow="purge", name=name, when=when, action="kill").ended() == "signal 9"
        assert case.resume(flow="purge") in ("completed", "noop")
        assert purging.standing(case.ports, SLUG).pending == 0
        assert kept <= case.reader_ask()
        assert fsck(case.ports, SLUG, repair=False).found == {}
        assert holding(case, "wren") == []


def holding(case: Case, word: str) -> list[str]:
    """Files of the home that hold the word, once every process has let go of them; and origins in the memo."""
    bootstrap.close(case.ports)
    files = [path for path in case.home.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]
    with closing(sqlite3.connect(case.home / "memo.sqlite")) as memo:
        origins = memo.execute("SELECT name FROM origin WHERE name = ?", (f"{SLUG}/{PURGED}",)).fetchall()
    return sorted([*(path.name for path in files), *(name for (name,) in origins)])
