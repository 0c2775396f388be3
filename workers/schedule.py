"""Queues, periods and the rules of time between them, as data."""

from __future__ import annotations

from typing import Any

from pipeline.adapters.dispatch_celery import (
    CONTROL,
    FSCK,
    PREFIX,
    RECONCILE,
    RESERVED,
    VISIBILITY_FACTOR,
    hard_limit_s,
)
from pipeline.curate import STAGES
from pipeline.errors import RejectedInput
from pipeline.limits import Limits

QUEUES = frozenset({*(stage.waits for stage in STAGES), RESERVED, CONTROL})
"""Every queue a worker may serve."""

SPAWNED = frozenset({"embed", RESERVED})
"""Queues whose processes load models with threads of their own: they are started anew, not forked."""


def beat(limits: Limits) -> dict[str, Any]:
    """What is done on a schedule. Two schedules at once do no harm."""
    period = limits.reconcile_s
    entry = {"task": PREFIX + RECONCILE, "schedule": period, "options": {"queue": PREFIX + CONTROL, "expires": period}}
    entries: dict[str, Any] = {RECONCILE: entry}
    if limits.fsck_every_s:
        options = {"queue": PREFIX + "store", "expires": limits.fsck_every_s}
        entries[FSCK] = {"task": PREFIX + FSCK, "schedule": limits.fsck_every_s, "options": options}
    return entries


def check_times(limits: Limits, visibility_s: float) -> None:
    """Refuse settings under which a unit could be lost or done twice for no reason (DESIGN §4, invariant 10).

    Args:
        limits: in effect.
        visibility_s: after which the broker gives an unacknowledged message to another worker.

    Raises:
        RejectedInput: the rule that doesn't hold, with the numbers.
    """
    hard = hard_limit_s(limits.unit_limit_s)
    rules = (
        (
            limits.reconcile_s <= limits.lease_s,
            f"reconcile_s ({limits.reconcile_s:g}) must not be longer than lease_s ({limits.lease_s:g})",
        ),
        (
            limits.unit_limit_s > limits.lease_s,
            f"unit_limit_s ({limits.unit_limit_s:g}) must be longer than lease_s ({limits.lease_s:g})",
        ),
        (
            visibility_s >= VISIBILITY_FACTOR * hard,
            f"the broker gives messages to others after {visibility_s:g} s, and a unit may take {hard:g} s",
        ),
        (
            limits.stall_s > limits.unit_limit_s,
            f"stall_s ({limits.stall_s:g}) must be longer than unit_limit_s ({limits.unit_limit_s:g})",
        ),
        (limits.lanes >= 1, "lanes must be 1 at least"),
    )
    broken = [text for holds, text in rules if not holds]
    if broken:
        raise RejectedInput(
            "bad_times", "settings can't be used by workers: " + "; ".join(broken), remedy="see docs/fleet.md"
        )
