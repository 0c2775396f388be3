"""`pipeline.upsert`: wanted and open stays, wanted and not open is added, open and not wanted is removed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ledger import RecordRow
from pipeline.types import LogicalId, Namespace, RecordId, SourcePath
from pipeline.upsert import plan_records

contents = st.lists(st.sampled_from("abcdef"), max_size=8)


def opened(of: list[str]) -> list[RecordRow]:
    return [
        RecordRow(RecordId(f"{i}#1"), LogicalId("l"), SourcePath("p"), i, content, Namespace("n"), 1)
        for i, content in enumerate(of)
    ]


@given(wanted=contents, held=contents)
def test_afterwards_just_what_is_wanted_is_open(wanted: list[str], held: list[str]) -> None:
    rows = opened(held)
    plan = plan_records({content: content for content in wanted}, rows)
    assert sorted([*plan.add, *(row.content for row in plan.keep)]) == sorted(set(wanted))
    assert sorted([*plan.keep, *plan.remove], key=lambda r: r.id) == sorted(rows, key=lambda r: r.id)
    assert plan.add == tuple(content for content in dict.fromkeys(wanted) if content not in held)


@given(wanted=contents, held=contents)
def test_applying_a_plan_twice_changes_nothing(wanted: list[str], held: list[str]) -> None:
    want = {content: content for content in wanted}
    once = plan_records(want, opened(held))
    again = plan_records(want, opened([*once.add, *(row.content for row in once.keep)]))
    assert (again.add, again.remove) == ((), ())


def test_the_same_content_twice_is_kept_once() -> None:
    plan = plan_records({"a": 1}, opened(["a", "a"]))
    assert [row.id for row in plan.keep] == ["0#1"]
    assert [row.id for row in plan.remove] == ["1#1"]
