"""The rules of time that a worker's settings are held against as it starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.adapters.dispatch_celery import VISIBILITY_FACTOR, hard_limit_s
from pipeline.errors import RejectedInput
from pipeline.limits import Limits
from workers.schedule import check_times

LIMITS = Limits()
VISIBLE_S = VISIBILITY_FACTOR * hard_limit_s(LIMITS.unit_limit_s)


def test_the_defaults_can_be_used() -> None:
    check_times(LIMITS, VISIBLE_S)


@pytest.mark.parametrize(
    ("changed", "visible_s", "named"),
    [
        ({"reconcile_s": LIMITS.lease_s + 1}, VISIBLE_S, "reconcile_s"),
        ({"lease_s": LIMITS.unit_limit_s}, VISIBLE_S, "unit_limit_s"),
        ({}, VISIBLE_S - 1, "gives messages to others"),
        ({"stall_s": LIMITS.unit_limit_s}, VISIBLE_S, "stall_s"),
        ({"lanes": 0}, VISIBLE_S, "lanes"),
    ],
)
def test_a_rule_that_does_not_hold_is_named(changed: dict[str, float], visible_s: float, named: str) -> None:
    with pytest.raises(RejectedInput) as refused:
        check_times(replace(LIMITS, **changed), visible_s)  # type: ignore[arg-type]
    assert refused.value.code == "bad_times"
    assert named in refused.value.message
    assert ";" not in refused.value.message, "the other rules hold"
