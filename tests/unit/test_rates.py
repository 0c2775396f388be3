"""Budgets: never more than the limit allows, all of it when it is asked for, and slower when the provider says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rates import BURST_S, MINUTE_S, PACE_MIN, PAUSE_MAX_S, Budget, admit, fresh, settle, too_many

BUDGET = Budget({"requests": 60.0, "tokens": 6000.0})
calls = st.lists(st.tuples(st.floats(0, 30), st.integers(1, 900)), min_size=1, max_size=60)


@given(calls=calls)
def test_what_is_admitted_stays_within_the_limit(calls: list[tuple[float, int]]) -> None:
    """Over any stretch of time: its share of the minute, and one bucket."""
    state, now = fresh(BUDGET, 0.0), 0.0
    admitted: list[tuple[float, int]] = []
    for pause, tokens in calls:
        now += pause
        state, wait = admit(BUDGET, state, {"requests": 1, "tokens": tokens}, now)
        if not wait:
            admitted.append((now, tokens))
    for i, (start, _) in enumerate(admitted):
        for end, _ in admitted[i:]:
            inside = [tokens for at, tokens in admitted if start <= at <= end]
            allowed = (end - start + BURST_S) / MINUTE_S
            assert len(inside) <= 60 * allowed + 1e-6
            assert sum(inside) <= 6000 * allowed + 1e-6


@given(tokens=st.integers(1, 5000))
def test_waiting_as_told_is_enough(tokens: int) -> None:
    """Also for a call that costs more than a bucket holds: it goes through once the bucket is full."""
    state, now = fresh(BUDGET, 0.0), 0.0
    for _ in range(20):
        state, wait = admit(BUDGET, state, {"requests": 1, "tokens": tokens}, now)
        if wait:
            now += wait
            state, again = admit(BUDGET, state, {"requests": 1, "tokens": tokens}, now)
            assert again == 0
    assert now <= 20 * tokens / 100 + 20


def test_a_refusal_halves_the_pace_and_quiet_time_gives_it_back() -> None:
    state = too_many(BUDGET, fresh(BUDGET, 0.0), 7.0, 0.0)
    assert admit(BUDGET, state, {"requests": 1}, 3.0)[1] == 4.0
    assert state.pace == 0.5
    for _ in range(20):
        state = too_many(BUDGET, state, 0.0, 0.0)
    assert state.pace == PACE_MIN
    assert admit(BUDGET, state, {}, 1000.0)[0].pace == 1.0
    assert too_many(BUDGET, state, 1e9, 0.0).paused_until == PAUSE_MAX_S, "nobody waits for ever"


def test_what_a_call_did_not_need_is_given_back() -> None:
    state, _ = admit(BUDGET, fresh(BUDGET, 0.0), {"tokens": 1000}, 0.0)
    assert admit(BUDGET, state, {"tokens": 500}, 0.0)[1] > 0
    state = settle(BUDGET, state, {"tokens": -600}, 0.0)
    assert admit(BUDGET, state, {"tokens": 500}, 0.0)[1] == 0
    state = settle(BUDGET, state, {"tokens": 2000}, 0.0)
    assert admit(BUDGET, state, {"tokens": 1}, 0.0)[1] == pytest.approx((2000 - 600 + 1) / 100)


def test_clocks_that_differ_do_not_run_time_back() -> None:
    state, _ = admit(BUDGET, fresh(BUDGET, 100.0), {"requests": 10}, 100.0)
    earlier, wait = admit(BUDGET, state, {"requests": 1}, 95.0)
    assert wait > 0
    assert earlier.at == 100.0
