"""The contract of port `Ledger` and its protocols, for every adapter."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import postgres_server
import pytest

from pipeline.adapters.ledger_postgres import PostgresLedger
from pipeline.adapters.ledger_sqlite import SqliteLedger
from pipeline.errors import Conflict, Corruption
from pipeline.rows import (
    BLOBS,
    ContextRow,
    FileRow,
    PinRow,
    QuarantineRow,
    RecordRow,
    RunRow,
    SourceRow,
    StatRow,
    VersionRow,
    WorkRow,
)
from pipeline.types import OPEN, ContextSlug, LogicalId, Namespace, RecordId, RunId, SourcePath

A, B = ContextSlug("a"), ContextSlug("b")
SPACE = Namespace("a.g1.chunks")
STAGES = ("late", "early")


def run_row(name="r1", slug=A, state="running", **more):
    return RunRow(RunId(name), slug, "curate", "manual", state, False, "me", 1.0, "{}", **more)


def version_row(number, **more):
    row = VersionRow(
        number, RunId("r1"), 1, "{}", "{}", "claimed", readable=False, claimed_at=1.0, live_at=0.0, records=0
    )
    return replace(row, **more)


def record_row(name, path="p", added=1, removed=OPEN, position=0):
    return RecordRow(
        RecordId(f"{name}#{added}"),
        LogicalId(f"l-{name}"),
        SourcePath(path),
        position,
        f"c-{name}",
        SPACE,
        added,
        removed,
    )


def source_row(path, added=1, removed=OPEN, **more):
    row = SourceRow(SourcePath(path), "h", "h", 3, 4, "ok", "", "", "f", 1, 5.0, added, removed)
    return replace(row, **more)


def file_row(path, blob, added=1, removed=OPEN, source="p"):
    return FileRow(path, SourcePath(source), blob, 7, added, removed)


def paths(*names):
    return [SourcePath(name) for name in names]


class LedgerContract:
    def make(self, folder):
        """The ledger that stands in this folder, opened once more."""
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, tmp_path):
        ledger = self.make(tmp_path)
        with ledger.transaction("setup", A) as session:
            session.contexts.create(ContextRow(A, "folder", "/a", 1.0))
            session.contexts.create(ContextRow(B, "staged", "", 2.0))
        yield ledger
        ledger.close()
        ledger.close()

    @pytest.fixture
    def claimed(self, ledger):
        """A run with a fence and three units."""
        with ledger.transaction("setup", A) as session:
            session.runs.create(run_row())
            fence = session.runs.adopt(RunId("r1"), "one", 10.0, 1.0)
            session.units.create(RunId("r1"), "early", {2: 20, 1: 10})
            session.units.create(RunId("r1"), "late", {1: 5})
        return fence

    def claim(self, ledger, fence, *, owner="one", now=1.0, until=10.0, stages=STAGES):
        with ledger.transaction("unit.claim", A) as session:
            return session.units.claim(RunId("r1"), fence, stages, owner=owner, until=until, now=now)

    # ---------------------------------------------------------------- blocks
    def test_a_write_block_is_all_or_nothing(self, ledger):
        with pytest.raises(KeyError), ledger.transaction("x", A) as session:  # noqa: PT012  # what it is about
            session.contexts.claim_number(A)
            session.sources.add(A, [source_row("p")])
            raise KeyError
        with ledger.read() as session:
            assert session.contexts.get(A).highest_version == 0
            assert session.sources.open_for(A, paths("p")) == ()
        with ledger.transaction("x", A) as session:  # and the next block is not hindered
            assert session.contexts.claim_number(A) == 1

    def test_a_block_sees_its_own_writes(self, ledger):
        with ledger.transaction("x", A) as session:
            session.contexts.move(A, 3, RunId("r"), 9.0)
            assert (session.contexts.get(A).live_version, session.contexts.get(A).epoch) == (3, 1)

    def test_a_read_block_is_one_snapshot(self, ledger):
        """What another thread commits meanwhile shows in the next block, not in this one."""

        def write():
            with ledger.transaction("x", A) as session:
                session.contexts.claim_number(A)

        with ledger.read() as session:
            assert session.contexts.get(A).highest_version == 0
            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
            assert session.contexts.get(A).highest_version == 0
        with ledger.read() as session:
            assert session.contexts.get(A).highest_version == 1

    def test_read_then_write_in_one_block_cannot_be_overtaken(self, ledger):
        numbers, errors = [], []

        def work():
            try:
                for _ in range(25):
                    with ledger.transaction("x", A) as session:
                        numbers.append(session.contexts.claim_number(A))
            except Exception as error:  # noqa: BLE001  # a thread's failure must reach the test
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert sorted(numbers) == list(range(1, 51))

    def test_another_instance_sees_what_is_committed(self, ledger, tmp_path):
        other = self.make(tmp_path)
        with ledger.transaction("x", A) as session:
            session.contexts.count_redispatch(A)
        with other.read() as session:
            assert session.contexts.get(A).redispatch_count == 1
        other.close()

    # ---------------------------------------------------------------- contexts
    def test_contexts(self, ledger):
        with ledger.read() as session:
            assert session.contexts.get(ContextSlug("none")) is None
            assert session.contexts.get(A) == ContextRow(A, "folder", "/a", 1.0)
            assert [c.slug for c in session.contexts.list()] == [A, B]

    def test_every_move_raises_the_epoch_and_is_remembered(self, ledger):
        with ledger.transaction("x", A) as session:
            session.versions.add(A, version_row(1))
            session.versions.add(A, version_row(2))
            for at, number in enumerate((1, 2, 1)):
                session.contexts.move(A, number, RunId(f"r{at}"), float(at))
            assert [(m.epoch, m.version, m.run) for m in session.contexts.moves(A)] == [
                (3, 1, "r2"),
                (2, 2, "r1"),
                (1, 1, "r0"),
            ]
            assert session.contexts.moves(B) == ()
            row = session.versions.get(A, 2)
            assert (row.state, row.readable, row.live_at) == ("live", True, 1.0)

    @pytest.mark.usefixtures("claimed")
    def test_deleting_a_context_erases_all_of_it_and_nothing_else(self, ledger):
        with ledger.transaction("x", A) as session:
            for slug in (A, B):
                session.versions.add(slug, version_row(1))
                session.contexts.move(slug, 1, RunId("r"), 1.0)
                session.sources.add(slug, [source_row("p")])
                session.sources.remember_stats(slug, {SourcePath("p"): StatRow(1, 2, 3, "h", 4.0)})
                session.sources.mark_removed(slug, paths("p"), 1, 1.0)
                session.records.add(slug, [record_row("x"), record_row("y", removed=1)])
                session.records.reclaim(slug, 9, 1.0)
                session.records.add_counts(slug, 1, 1, {7: 1}.items())
                session.files.add(slug, [file_row("f", "blob")])
                session.versions.pin(slug, PinRow("pin", 1, 9.0, 1.0))
            session.work.add(RunId("r1"), [WorkRow(SourcePath("p"), 1, "new", 1, 1)])
            session.contexts.delete(A)
        with ledger.read() as session:
            assert session.contexts.get(A) is None
            assert session.runs.get(RunId("r1")) is None
            assert session.work.count(RunId("r1")) == 0
            assert session.units.summary(RunId("r1")) == ()
            empty, full = self.everything(session, A), self.everything(session, B)
            assert not any(empty)
            assert all(full)

    @staticmethod
    def everything(session, slug):
        return (
            session.contexts.moves(slug), session.sources.page(slug, 1, "", 9), session.sources.stats(slug, "", 9),
            session.records.page_at(slug, 1, "", 9), session.records.tombstones(slug, "", 9), session.versions.list(slug),
            session.records.counts(slug, 1, 1, [7]), session.files.page(slug, 1, "", 9), session.versions.pins(slug),
            session.sources.removed(slug, 1), session.records.namespaces(slug),
        )  # fmt: skip

    # ---------------------------------------------------------------- runs
    def test_one_active_run_a_context(self, ledger):
        with ledger.transaction("x", A) as session:
            session.runs.create(run_row())
            session.runs.create(run_row("other", B))
            session.runs.create(run_row("ended", state="completed"))  # a record of what has ended is no second run
        for state in ("running", "sealed", "flipped"):
            with ledger.transaction("x", A) as session:
                session.runs.set_state(RunId("r1"), state, 2.0)
            with pytest.raises(Conflict) as caught, ledger.transaction("x", A) as session:
                session.runs.create(run_row("r2"))
            assert caught.value.code == "run_active"
        with ledger.transaction("x", A) as session:
            assert session.runs.active(A).id == "r1"
            session.runs.set_state(RunId("r1"), "completed", 3.0)
            assert session.runs.active(A) is None
            session.runs.create(run_row("r2"))
            assert session.runs.active(A).id == "r2"

    def test_a_run_comes_back_as_it_went_in(self, ledger):
        row = run_row(
            manifest="m", recipe="r", base_version=3, base_epoch=4, number=5, generation=6, fence=7, owner="o", lease_until=8.0,
            started_at=9.0, active_at=10.0, ended_at=11.0, cancel_requested=True, output="out", error="e", notes="n",
        )  # fmt: skip
        row = replace(row, force=True)
        with ledger.transaction("x", A) as session:
            session.runs.create(row)
        with ledger.read() as session:
            assert session.runs.get(row.id) == row
            assert session.runs.get(RunId("none")) is None

    def test_adopting_makes_every_earlier_fence_stale(self, ledger, claimed):
        with ledger.transaction("x", A) as session:
            newer = session.runs.adopt(RunId("r1"), "two", 20.0, 5.0)
            assert newer > claimed
            assert session.runs.require(RunId("r1"), newer).owner == "two"
            assert not session.runs.renew(RunId("r1"), claimed, 99.0, 6.0)
            assert session.runs.get(RunId("r1")).lease_until == 20.0
            assert session.runs.renew(RunId("r1"), newer, 30.0, 6.0)
            assert session.runs.get(RunId("r1")).started_at == 1.0
            with pytest.raises(Conflict) as caught:
                session.runs.require(RunId("r1"), claimed)
            assert caught.value.code == "stale_fence"

    def test_an_ended_run_has_no_fence(self, ledger, claimed):
        claim = self.claim(ledger, claimed)
        with ledger.transaction("x", A) as session:
            session.runs.set_state(RunId("r1"), "abandoned", 4.0, error="why")
            run = session.runs.get(RunId("r1"))
            assert (run.state, run.ended_at, run.error) == ("abandoned", 4.0, "why")
            assert not session.runs.renew(RunId("r1"), claimed, 9.0, 5.0)
            assert not session.units.renew(claim, 9.0)
        for act in (lambda s: s.runs.require(RunId("r1"), claimed), lambda s: s.units.finish(claim, 5.0)):
            with pytest.raises(Conflict) as caught, ledger.transaction("x", A) as session:
                act(session)
            assert caught.value.code == "stale_fence"

    def test_runs_are_listed_newest_first(self, ledger):
        with ledger.transaction("x", A) as session:
            for at, slug in enumerate((A, B, A)):
                session.runs.create(replace(run_row(f"r{at}", slug, "completed"), created_at=float(at)))
            assert [r.id for r in session.runs.list(A, 9)] == ["r2", "r0"]
            assert [r.id for r in session.runs.list(None, 2)] == ["r2", "r1"]

    def test_forgetting_keeps_run_rows_and_what_is_active(self, ledger):
        with ledger.transaction("x", A) as session:
            for at in range(4):
                state = "running" if at == 0 else "completed"
                session.runs.create(replace(run_row(f"r{at}", A, state), created_at=float(at)))
                session.work.add(RunId(f"r{at}"), [WorkRow(SourcePath("p"), 1, "new", 1, 1)])
                session.units.create(RunId(f"r{at}"), "early", {1: 1})
            session.runs.forget(A, 1)
            assert [session.work.count(RunId(f"r{at}")) for at in range(4)] == [1, 0, 0, 1]
            assert len(session.runs.list(A, 9)) == 4

    # ---------------------------------------------------------------- units
    def test_claims_come_by_stage_order_then_batch(self, ledger, claimed):
        claims = [self.claim(ledger, claimed) for _ in range(3)]
        assert [(c.stage, c.batch, c.size) for c in claims] == [("late", 1, 5), ("early", 1, 10), ("early", 2, 20)]
        assert all((c.run_fence, c.attempts) == (claimed, 1) for c in claims)
        assert self.claim(ledger, claimed) is None
        assert self.claim(ledger, claimed, stages=("none",)) is None

    def test_a_unit_can_be_claimed_again_once_its_lease_ran_out(self, ledger, claimed):
        first = self.claim(ledger, claimed, until=10.0, stages=("late",))
        assert self.claim(ledger, claimed, now=10.0, stages=("late",)) is None
        second = self.claim(ledger, claimed, now=10.1, until=20.0, stages=("late",))
        assert (second.stage, second.batch, second.attempts) == ("late", 1, 2)
        assert second.fence > first.fence
        with ledger.transaction("x", A) as session:
            assert not session.units.renew(first, 99.0)
            session.units.release(first)  # passed over
            assert session.units.renew(second, 30.0)
        with pytest.raises(Conflict) as caught, ledger.transaction("x", A) as session:
            session.units.finish(first, 11.0)
        assert caught.value.code == "stale_fence"
        with ledger.transaction("x", A) as session:
            session.units.finish(second, 11.0, embed_tokens=3)
            assert session.units.unfinished(RunId("r1"), ["late"]) == 0
        with pytest.raises(Conflict), ledger.transaction("x", A) as session:
            session.units.finish(second, 12.0)  # done is done

    def test_units_are_recalled_whose_times_lie_too_far_ahead(self, ledger, claimed):
        run = RunId("r1")
        near, far, rests = (self.claim(ledger, claimed, until=until) for until in (60.0, 9000.0, 60.0))
        with ledger.transaction("x", A) as session:
            session.units.release(rests, not_before=9000.0)
            session.units.recall(run, 600.0, 8000.0)
            assert not session.units.renew(far, 70.0)
            assert session.units.renew(near, 70.0)
        again = self.claim(ledger, claimed)
        assert (again.stage, again.batch) == (far.stage, far.batch)
        assert self.claim(ledger, claimed) is None, "what rests past the second moment goes on resting"
        with ledger.transaction("x", A) as session:
            session.units.recall(run, 600.0, 10_000.0)
        last = self.claim(ledger, claimed)
        assert (last.stage, last.batch) == (rests.stage, rests.batch)

    def test_a_released_unit_waits_again(self, ledger, claimed):
        first = self.claim(ledger, claimed)
        with ledger.transaction("x", A) as session:
            session.units.release(first)
        again = self.claim(ledger, claimed)
        assert (again.stage, again.batch, again.attempts) == (first.stage, first.batch, 2)

    def test_an_older_owner_of_the_run_claims_renews_and_finishes_nothing(self, ledger, claimed):
        """Its unit's own fence may be the newest still: the new owner of the run has not come to that unit yet."""
        claim = self.claim(ledger, claimed)
        with ledger.transaction("x", A) as session:
            session.runs.adopt(RunId("r1"), "two", 20.0, 5.0)
            assert not session.units.renew(claim, 99.0)
        for act in (
            lambda s: s.units.finish(claim, 6.0),
            lambda s: s.units.claim(RunId("r1"), claimed, STAGES, owner="one", until=9.0, now=1.0),
        ):
            with pytest.raises(Conflict) as caught, ledger.transaction("x", A) as session:
                act(session)
            assert caught.value.code == "stale_fence"
        with ledger.read() as session:
            assert session.units.unfinished(RunId("r1"), ["late"]) == 1

    def test_units_that_exist_are_kept(self, ledger, claimed):
        claim = self.claim(ledger, claimed, stages=("late",))
        with ledger.transaction("x", A) as session:
            session.units.create(RunId("r1"), "late", {1: 99, 2: 6})
            session.units.finish(claim, 2.0)
            assert session.units.unfinished(RunId("r1"), ["late"]) == 1
            assert session.units.unfinished(RunId("r1"), ["late", "early"]) == 3

    def test_the_summary_counts_units_and_work(self, ledger, claimed):
        claim = self.claim(ledger, claimed, now=3.0, stages=("early",))
        with ledger.transaction("x", A) as session:
            session.units.finish(claim, 8.0, embed_tokens=11)
            by_name = {s.stage: s for s in session.units.summary(RunId("r1"))}
        early = by_name["early"]
        assert (early.units, early.units_done, early.size, early.size_done) == (2, 1, 30, 10)
        assert (early.first_at, early.last_at, early.embed_tokens) == (3.0, 8.0, 11)
        assert (by_name["late"].first_at, by_name["late"].last_at) == (0.0, 0.0)

    # ---------------------------------------------------------------- work
    def test_work(self, ledger):
        run = RunId("r1")
        rows = [WorkRow(SourcePath(f"p{i:04}"), 1 + i % 2, "new", i, i) for i in range(2_300)]
        with ledger.transaction("x", A) as session:
            session.work.add(run, rows)
            session.work.add(RunId("other"), rows[:1])
            done = replace(rows[3], status="ok", hash="h", chunks=4, screened="{}", chunks_created=4)
            session.work.update(run, [done])
        with ledger.read() as session:
            assert list(session.work.each(run)) == [*rows[:3], done, *rows[4:]]
            assert session.work.batch(run, 1) == tuple(rows[::2])
            assert session.work.count(run) == 2_300
            assert session.work.holds(run, [r.path for r in rows[:1_200]] + paths("none")) == {
                r.path for r in rows[:1_200]
            }
            assert session.work.holds(run, []) == frozenset()
        with ledger.transaction("x", A) as session:
            session.work.clear(run)
            assert (session.work.count(run), session.work.count(RunId("other"))) == (0, 1)

    # ---------------------------------------------------------------- sources
    def test_sources_by_version(self, ledger):
        with ledger.transaction("x", A) as session:
            session.sources.add(A, [source_row("p", 1, 3), source_row("p", 3, hash="new"), source_row("q", 2)])
            session.sources.add(A, [source_row("q", 2, hash="second")])  # kept as it is
            session.sources.add(B, [source_row("z")])
        with ledger.read() as session:
            seen = {v: [(s.path, s.hash) for s in session.sources.page(A, v, "", 9)] for v in range(4)}
            assert seen == {0: [], 1: [("p", "h")], 2: [("p", "h"), ("q", "h")], 3: [("p", "new"), ("q", "h")]}
            assert [s.path for s in session.sources.page(A, 2, "p", 9)] == ["q"]
            assert [s.path for s in session.sources.page(A, 2, "", 1)] == ["p"]
            assert session.sources.open_for(A, paths("p", "z")) == (source_row("p", 3, hash="new"),)
            assert session.sources.at_for(A, 2, paths("p")) == (source_row("p", 1, 3),)
            assert session.sources.at_for(A, 2, []) == ()

    def test_order_is_by_code_point(self, ledger):
        """Whatever the database's collation: streams are merged with a tree's walk."""
        names = sorted(["b", "B", "a/b", "a-b", "a", "é", "Z", "~", "\U0001f600", "\uffff", "a b", "%25"])
        with ledger.transaction("x", A) as session:
            session.sources.add(A, [source_row(name) for name in reversed(names)])
            session.sources.remember_stats(A, {SourcePath(n): StatRow(1, 2, 3, "h", 4.0) for n in names})
            assert [s.path for s in session.sources.page(A, 1, "", 99)] == names
            assert [path for path, _ in session.sources.stats(A, "", 99)] == names
            assert [path for path, _ in session.sources.stats(A, names[4], 3)] == names[5:8]

    def test_cheap_state(self, ledger):
        old, new = StatRow(1, 2, 3, "h", 4.0), StatRow(5, 6, 7, "i", 8.0)
        with ledger.transaction("x", A) as session:
            session.sources.remember_stats(A, {SourcePath("p"): old, SourcePath("q"): old})
            session.sources.remember_stats(A, {SourcePath("p"): new})
            assert session.sources.stats(A, "", 9) == (("p", new), ("q", old))
            session.sources.forget_stats(A, paths("q", "none"))
            session.sources.forget_stats(B, paths("p"))
            assert session.sources.stats(A, "", 9) == (("p", new),)

    def test_removed_files_are_told_while_the_live_version_shows_them(self, ledger):
        with ledger.transaction("x", A) as session:
            session.sources.add(A, [source_row("p", 1, 2), source_row("q", 1)])
            session.sources.mark_removed(A, paths("p", "q", "never"), 1, 5.0)
            session.sources.mark_removed(A, paths("q"), 2, 6.0)
            assert session.sources.removed(A, 1) == (("p", 1, 5.0), ("q", 2, 6.0))
            assert session.sources.removed(A, 2) == (("q", 2, 6.0),)

    # ---------------------------------------------------------------- records
    def test_records_by_version(self, ledger):
        rows = [
            record_row("x", "p", 1, 3),
            record_row("y", "p", 1, position=1),
            record_row("x", "p", 3),
            record_row("z", "q", 2),
        ]
        with ledger.transaction("x", A) as session:
            session.records.add(A, rows)
            session.records.add(A, [replace(rows[1], content="other")])  # kept as it is
            session.records.add(B, [record_row("x", "p", 1)])
        with ledger.read() as session:
            at = {v: sorted(r.id for r in session.records.page_at(A, v, "", 9)) for v in range(4)}
            assert at == {0: [], 1: ["x#1", "y#1"], 2: ["x#1", "y#1", "z#2"], 3: ["x#3", "y#1", "z#2"]}
            assert [sum(session.records.visible(A, v).values()) for v in range(4)] == [0, 2, 3, 3]
            assert session.records.open_for(A, paths("p")) == (rows[2], rows[1])
            assert session.records.at_for(A, 1, paths("p", "q")) == (rows[0], rows[1])
            assert session.records.added_for(A, 3, paths("p", "q")) == (rows[2],)
            assert session.records.listed(A, 2, [r.id for r in rows]) == {"x#1": "l-x", "y#1": "l-y", "z#2": "l-z"}
            assert set(session.records.get(A, [r.id for r in rows] + [RecordId("none")])) == set(rows)
            assert session.records.page_added(A, 1, "", 9) == (rows[0], rows[1])
            assert session.records.page_added(A, 1, "x#1", 9) == (rows[1],)
            assert session.records.page_removed(A, 3, "", 9) == (rows[0],)
            assert session.records.namespaces(A) == (SPACE,)

    def test_more_ids_than_one_statement_takes(self, ledger):
        rows = [record_row(f"{i:05}", f"p{i % 7}") for i in range(3_000)]
        with ledger.transaction("x", A) as session:
            session.records.add(A, rows)
        with ledger.read() as session:
            assert len(session.records.listed(A, 1, [r.id for r in rows])) == 3_000
            assert len(session.records.get(A, [r.id for r in rows])) == 3_000
            assert len(session.records.open_for(A, paths(*(f"p{i}" for i in range(1_500))))) == 3_000

    @pytest.mark.usefixtures("claimed")
    def test_planned_removals_are_stamped_all_or_none(self, ledger):
        run = RunId("r1")
        with ledger.transaction("x", A) as session:
            session.records.add(A, [record_row("x"), record_row("y")])
            session.sources.add(A, [source_row("p")])
            session.files.add(A, [file_row("f", "blob")])
            assert not session.records.plans_anything(A, run, 2)
            session.records.plan_removals(run, "record", ["x#1"])
            session.records.plan_removals(run, "record", ["x#1"])
            session.records.plan_removals(run, "source", ["p"])
            session.records.plan_removals(run, "file", ["f"])
            session.records.add(A, [record_row("z", added=2)])
            session.files.add(A, [file_row("f", "other", 2)])
            session.sources.add(A, [source_row("p", 2)])
            assert session.records.plans_anything(A, run, 2)
            assert [r.id for r in session.records.page_planned(run, "", 9)] == ["x#1"]
            assert session.records.page_planned(run, "x#1", 9) == ()
            session.records.stamp_planned(A, run, 2)
            assert {r.id: r.removed for r in session.records.get(A, ["x#1", "y#1", "z#2"])} == {
                "x#1": 2,
                "y#1": OPEN,
                "z#2": OPEN,
            }
            assert [s.added for s in session.sources.at_for(A, 2, paths("p"))] == [2]
            assert [(f.blob, f.added) for f in session.files.page(A, 2, "", 9)] == [("other", 2)]
        with pytest.raises(Corruption), ledger.transaction("x", A) as session:
            session.records.stamp_planned(A, run, 3)  # what is planned isn't open any more
        with ledger.read() as session:
            assert [r.id for r in session.records.page_removed(A, 2, "", 9)] == ["x#1"]
            assert session.records.page_removed(A, 3, "", 9) == ()

    @pytest.mark.usefixtures("claimed")
    def test_dropping_an_earlier_attempts_plan(self, ledger):
        """Of the paths named, of this run and this number, and nothing else."""
        run = RunId("r1")
        with ledger.transaction("x", A) as session:
            for path in ("p", "q"):
                session.records.add(A, [record_row(path, path), record_row(f"{path}new", path, 2)])
                session.sources.add(A, [source_row(path), source_row(path, 2)])
                session.files.add(A, [file_row(path, "b", source=path), file_row(path, "c", 2, source=path)])
                session.records.plan_removals(run, "record", [f"{path}#1"])
                session.records.plan_removals(run, "source", [path])
                session.records.plan_removals(run, "file", [path])
            session.records.unplan(A, run, 2, paths("p"))
            assert [r.id for r in session.records.page_planned(run, "", 9)] == ["q#1"]
            assert [r.id for r in session.records.page_added(A, 2, "", 9)] == ["qnew#2"]
            session.records.stamp_planned(A, run, 2)
            assert {(s.path, s.added) for s in session.sources.page(A, 2, "", 9)} == {("p", 1), ("q", 2)}
            assert {(f.path, f.added) for f in session.files.page(A, 2, "", 9)} == {("p", 1), ("q", 2)}

    def test_delisted_additions_become_tombstones(self, ledger):
        with ledger.transaction("x", A) as session:
            session.records.add(A, [record_row("x"), record_row("x", added=2), record_row("y", added=2)])
            session.sources.add(A, [source_row("p", 2)])
            session.files.add(A, [file_row("f", "kept", 1, 2), file_row("f", "lost", 2), file_row("g", "kept", 2)])
            session.records.delist_additions(A, 2, 50.0)
            assert session.records.page_added(A, 2, "", 9) == ()
            assert session.sources.page(A, 2, "", 9) == ()
            # A blob that another row names isn't for erasing.
            assert session.records.tombstones(A, "", 9) == ((BLOBS, "lost"), (SPACE, "x#2"), (SPACE, "y#2"))
            assert session.records.tombstones(A, "lost", 1) == ((SPACE, "x#2"),)
            assert session.records.tombstones(B, "", 9) == ()
            session.records.add(A, [record_row("y", added=2)])  # listed again
            assert session.records.tombstones(A, "x#2", 9) == ()
            session.records.drop_tombstones(A, 50.0)
            assert session.records.tombstones(A, "", 9) == ((BLOBS, "lost"), (SPACE, "x#2"))
            session.records.drop_tombstones(A, 50.1)
            assert session.records.tombstones(A, "", 9) == ()

    def test_reclaim_takes_closed_rows_that_no_readable_version_sees(self, ledger):
        with ledger.transaction("x", A) as session:
            for number in (1, 2, 3, 4):
                session.versions.add(A, version_row(number, readable=number in (2, 4)))
            rows = [
                record_row("gone", added=1, removed=2), record_row("kept", added=1, removed=3),
                record_row("between", added=3, removed=4), record_row("open", added=1), record_row("future", added=9),
            ]  # fmt: skip
            session.records.add(A, rows)
            session.sources.add(A, [source_row("p", 1, 2), source_row("p", 2)])
            session.files.add(A, [file_row("f", "gone", 1, 2), file_row("f", "same", 3, 4), file_row("f", "same", 4)])
            assert session.records.reclaim(A, 1, 7.0) == 2
            assert [s.added for s in session.sources.at_for(A, 1, paths("p"))] == [1], "what version 1 was made of"
            assert session.sources.named(A, ["h", "x"]) == {"h"}
            assert session.records.reclaim(A, 2, 7.0) == 0
            assert {r.id for r in session.records.get(A, [r.id for r in rows])} == {"kept#1", "open#1", "future#9"}
            assert [s.added for v in (1, 2) for s in session.sources.at_for(A, v, paths("p"))] == [2]
            assert session.records.tombstones(A, "", 9) == ((SPACE, "between#3"), (BLOBS, "gone"), (SPACE, "gone#1"))
            assert session.records.reclaim(A, 9, 8.0) == 0

    def test_a_purge_dooms_what_was_there_when_it_was_asked_for(self, ledger):
        with ledger.transaction("t", A) as session:
            for number in (1, 2, 3):
                session.versions.add(A, version_row(number, readable=number < 3))
            session.sources.add(
                A, [source_row("p", 1, 2), source_row("p", 2, 3), source_row("q", 1), source_row("r", 3)]
            )
            assert session.sources.ever(A, "", 9) == ("p", "q", "r")
            assert session.sources.ever(A, "p", 1) == ("q",)
            session.purges.ask(A, paths("p", "r"), 5.0)
            session.purges.ask(A, paths("p"), 6.0)
            assert session.purges.wanted(A, "", 9) == ("p", "r")
            assert session.purges.wanted(A, "p", 9) == ("r",)
            assert session.purges.holding(A) == {1, 2}, "r is still in the newest version"
            session.versions.add(A, version_row(4))
            session.sources.add(A, [source_row("p", 4, 5), source_row("p", 5)])
            assert session.purges.holding(A) == {1, 2}, "what came later is another matter"
            assert session.purges.done(A) == 0
            session.versions.mark_unreadable(A, frozenset())
            session.records.reclaim(A, 0, 7.0)
            assert [r.added for v in (1, 2, 4) for r in session.sources.at_for(A, v, paths("p"))] == [4]
            assert (session.purges.done(A), session.purges.holding(A)) == (1, frozenset())
            session.purges.finish(A)
            assert session.purges.wanted(A, "", 9) == ("r",)
            session.purges.mark(A, frozenset({2, 3}))
            assert session.purges.holding(A) == {2, 3}
            assert session.purges.holding(B) == frozenset()

    def test_a_purge_leaves_no_words_of_runs(self, ledger):
        work = WorkRow(
            SourcePath("p"), 1, "changed", 3, 4, status="failed", code="c", reason="secret", warnings='["s"]'
        )
        with ledger.transaction("t", A) as session:
            session.runs.create(run_row())
            session.runs.create(run_row("r2", slug=B))
            for run in (RunId("r1"), RunId("r2")):
                session.work.add(run, [work, replace(work, path=SourcePath("q"))])
                session.records.plan_removals(run, "file", ["secret.md"])
            entry = QuarantineRow("i", SourcePath("p"), "h", "f", "e", "c", "secret", 1.0, 0)
            session.quarantine.put(A, [entry, replace(entry, id="j", path=SourcePath("q"))])
            session.purges.clean(A, paths("p"))
            session.runs.set_state(RunId("r1"), "flipped", 2.0)
            session.purges.clean(A, paths("p"))
            mine, others = session.work.batch(RunId("r1"), 1), session.work.batch(RunId("r2"), 1)
            assert [(row.path, row.reason, row.warnings, row.code) for row in mine] == [
                ("p", "", "", "c"), ("q", "secret", '["s"]', "c"),
            ]  # fmt: skip
            assert [row.reason for row in others] == ["secret", "secret"]
            assert [row.id for row in session.quarantine.page(A, "", 9)] == ["j"]
            session.purges.reword(RunId("r1"), "{}", '{"n":1}')
            told = session.runs.get(RunId("r1"))
            assert (told.output, told.notes) == ("{}", '{"n":1}')

    @pytest.mark.parametrize("kind", ["record", "source", "file"])
    def test_diverged(self, ledger, kind):
        """Open rows that the live version doesn't show, and rows it shows that aren't open any more."""

        def add(session, path, added, removed):
            if kind == "record":
                session.records.add(A, [record_row(path, path, added, removed)])
            elif kind == "source":
                session.sources.add(A, [source_row(path, added, removed)])
            else:
                session.files.add(A, [file_row(path, "b", added, removed, source=path)])

        with ledger.transaction("x", A) as session:
            add(session, "same", 1, OPEN)
            add(session, "came", 3, OPEN)
            add(session, "went", 1, 3)
            add(session, "past", 1, 2)
            add(session, "brief", 3, 4)
            assert session.records.diverged(A, 2) == ("came", "went")
            assert session.records.diverged(A, 4) == ()
            assert session.records.diverged(B, 2) == ()

    def test_counts_add_up_by_version(self, ledger):
        with ledger.transaction("x", A) as session:
            session.records.add_counts(A, 1, 1, {-1: 4, 2**32 - 1: 3, 7: 0}.items())
            session.records.add_counts(A, 1, 2, {-1: -1, 7: 2}.items())
            session.records.add_counts(A, 2, 2, {-1: 100}.items())
            session.records.add_counts(B, 1, 1, {-1: 100}.items())
        with ledger.read() as session:
            terms = [-1, 7, 2**32 - 1, 5]
            counts = [session.records.counts(A, 1, v, terms) for v in range(4)]
            assert counts[:3] == [{}, {-1: 4, 2**32 - 1: 3}, {-1: 3, 2**32 - 1: 3, 7: 2}]
            assert counts[3] == counts[2]
            assert session.records.counts(A, 1, 2, []) == {}
            assert session.records.counts(A, 2, 2, range(-1, 2_000)) == {-1: 100}

    # ---------------------------------------------------------------- files
    def test_files_that_differ_between_two_versions(self, ledger):
        rows = [
            file_row("a", "1", 1, 2),
            file_row("a", "2", 2),
            file_row("b", "1", 1),
            file_row("c", "1", 1, 3),
            file_row("d", "1", 3),
        ]
        with ledger.transaction("x", A) as session:
            session.files.add(A, rows)
        with ledger.read() as session:
            between = session.files.changed_between
            assert [(f.path, f.blob) for f in between(A, 1, 2, "", 9)] in (
                [("a", "1"), ("a", "2")],
                [("a", "2"), ("a", "1")],
            )
            assert set(between(A, 2, 1, "", 9)) == set(between(A, 1, 2, "", 9))
            assert between(A, 2, 2, "", 9) == ()
            assert [f.path for f in between(A, 1, 3, "", 9)] == ["a", "a", "c", "d"]
            assert [f.path for f in between(A, 1, 3, "a", 1)] == ["c"]
            assert [f.path for f in between(A, 0, 1, "", 9)] == ["a", "b", "c"]
            assert [f.blob for f in session.files.open_for(A, paths("p"))] == ["2", "1", "1"]
            assert [f.blob for f in session.files.at_for(A, 1, paths("p"))] == ["1", "1", "1"]
            assert [f.path for f in session.files.page(A, 3, "a", 9)] == ["b", "d"]

    # ---------------------------------------------------------------- versions and pins
    def test_versions(self, ledger):
        with ledger.transaction("x", A) as session:
            for number in (1, 2, 3):
                session.versions.add(A, version_row(number, readable=True))
            session.versions.set_state(A, 2, "retired")
            session.versions.set_records(A, 2, 17)
            session.versions.mark_unreadable(A, frozenset({1, 3}))
            assert [(v.number, v.state, v.readable, v.records) for v in session.versions.list(A)] == [
                (3, "claimed", True, 0), (2, "retired", False, 17), (1, "claimed", True, 0),
            ]  # fmt: skip
            assert session.versions.get(A, 9) is None
            session.versions.mark_unreadable(A, frozenset())
            assert not any(v.readable for v in session.versions.list(A))

    def test_pins(self, ledger):
        pins = [PinRow("x", 1, 9.0, 1.0), PinRow("y", 2, 8.0, 2.0)]
        with ledger.transaction("x", A) as session:
            for pin in reversed(pins):
                session.versions.pin(A, pin)
            assert session.versions.pins(A) == tuple(pins)
            assert not session.versions.unpin(B, "x")
            assert session.versions.unpin(A, "x")
            assert not session.versions.unpin(A, "x")
            assert session.versions.pins(A) == (pins[1],)


class TestSqliteLedger(LedgerContract):
    def make(self, folder):
        return SqliteLedger(folder / "ledger.sqlite")

    def test_refuses_what_is_no_ledger(self, tmp_path):
        (tmp_path / "ledger.sqlite").write_bytes(b"not a database at all, not even nearly" * 99)
        with pytest.raises(Corruption):
            self.make(tmp_path)


class TestPostgresLedger(LedgerContract):
    urls: ClassVar[dict[Path, str]] = {}

    def make(self, folder):
        if folder not in self.urls:
            self.urls[folder] = postgres_server.fresh_url()
        return PostgresLedger(self.urls[folder])
