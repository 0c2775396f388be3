"""`pipeline.retry`: only what may end otherwise is tried again, later and later, and not for ever."""

from __future__ import annotations

import pytest

from pipeline.errors import Conflict, Corruption, RejectedInput, Unavailable
from pipeline.retry import ATTEMPTS_MAX, DELAY_MAX_S, FIRST_DELAY_S, next_attempt


@pytest.mark.parametrize("error", [RejectedInput("a", "b"), Conflict("a", "b"), Corruption("a", "b")])
def test_the_other_three_are_not_repeated(error: Exception) -> None:
    assert next_attempt(error, 1) is None  # type: ignore[arg-type]


def test_delays_double_until_the_attempts_are_spent() -> None:
    tries = [next_attempt(Unavailable("a", "b"), n) for n in range(1, ATTEMPTS_MAX + 2)]
    assert [t.delay_s for t in tries[:-2] if t] == [FIRST_DELAY_S * 2**n for n in range(ATTEMPTS_MAX - 1)]
    assert tries[-2:] == [None, None]


@pytest.mark.parametrize(
    ("asked_ms", "delay_s"), [(0, 0.5), (100, 0.5), (2_500, 2.5), (60_000, 60.0), (3_600_000, DELAY_MAX_S)]
)
def test_what_a_provider_asks_for_goes_before(asked_ms: int, delay_s: float) -> None:
    found = next_attempt(Unavailable("a", "b", retry_after_ms=asked_ms), 1)
    assert found is not None
    assert found.delay_s == delay_s
