"""`pipeline.inventory`: what is unchanged, and whether the cheap state may say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.file_ports import SourceStat
from pipeline.inventory import NANOSECONDS, RACY_S, RETRIED, Decision, decide, merge_by_path, trusted
from pipeline.ledger import SourceRow, StatRow
from pipeline.types import SourcePath

LIVE = SourceRow(SourcePath("p"), "h", "h", 1, 2, "ok", "", "", "f", 3, 4.0, 1)
STAT = SourceStat(SourcePath("p"), 10, 100 * NANOSECONDS, 100 * NANOSECONDS)
KNOWN = StatRow(10, 100 * NANOSECONDS, 100 * NANOSECONDS, "h", 200.0)


def test_the_cheap_state_is_believed_of_a_file_at_rest() -> None:
    assert trusted(STAT, KNOWN)


@pytest.mark.parametrize(
    "known",
    [
        None,
        replace(KNOWN, size=11),
        replace(KNOWN, mtime_ns=KNOWN.mtime_ns + 1),
        replace(KNOWN, change_ns=KNOWN.change_ns + 1),
    ],
)
def test_any_difference_of_the_cheap_state_asks_for_the_bytes(known: StatRow | None) -> None:
    assert not trusted(STAT, known)


@pytest.mark.parametrize("field", ["mtime_ns", "change_ns"])
def test_a_file_hashed_right_after_an_edit_is_hashed_again(field: str) -> None:
    """A second edit in the same tick of the clock would leave the same times."""
    at = int((KNOWN.checked_at - RACY_S) * NANOSECONDS)
    for moment, believed in (
        (at - NANOSECONDS, True),
        (at, False),
        (at + NANOSECONDS, False),
        (at + 99 * NANOSECONDS, False),
    ):
        times = {"mtime_ns": 0, "change_ns": 0, field: moment}
        assert trusted(replace(STAT, **times), replace(KNOWN, **times)) is believed


def test_decisions() -> None:
    assert decide(None, "", "f", force=False) == Decision("new")
    assert decide(None, "", "f", force=True) == Decision("new")
    assert decide(LIVE, "other", "f", force=False) == Decision("changed")
    assert decide(LIVE, "other", "other", force=True) == Decision("changed")
    assert decide(LIVE, "h", "f", force=False) == Decision("unchanged")
    assert decide(LIVE, "h", "f", force=True) == Decision("stale")
    assert decide(LIVE, "h", "other", force=False) == Decision("unchanged", stale=True)


def test_unchanged_is_judged_by_the_newest_bytes_not_by_the_last_good_ones() -> None:
    """While the newest revision fails, going back to the last good one is a change, too."""
    failing = replace(LIVE, hash="good", seen_hash="bad", status="failed", code="parse_failed")
    assert decide(failing, "bad", "f", force=False).change == "unchanged"
    assert decide(failing, "good", "f", force=False).change == "changed"


def test_a_failure_is_tried_again_where_that_may_help() -> None:
    failing = replace(LIVE, status="failed", code="parse_failed")
    assert decide(failing, "h", "f", force=False).change == "unchanged"
    assert decide(failing, "h", "newer parsers", force=False).change == "retry"
    for code in RETRIED:
        assert decide(replace(failing, code=code), "h", "f", force=False).change == "retry"
    for status in ("empty", "skipped"):
        assert decide(replace(failing, status=status), "h", "f", force=False).change == "unchanged"


@given(
    left=st.dictionaries(st.text(max_size=3), st.integers()), right=st.dictionaries(st.text(max_size=3), st.integers())
)
def test_merging_gives_each_path_once_in_order_with_both_sides(left: dict[str, int], right: dict[str, int]) -> None:
    merged = list(merge_by_path(iter(sorted(left.items())), iter(sorted(right.items()))))
    assert merged == [(path, left.get(path), right.get(path)) for path in sorted({*left, *right})]
