"""Where an unfinished run is: each unit, who holds it, since when, why it waits, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline import publish
from pipeline.curate import BY_NAME, stages_of
from pipeline.fleet import FLEET
from pipeline.ports import Ports
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.types import RunId
from pipeline.units import LaneRow, StageSummary, UnitRow

UNITS_SHOWN = 200
DAY_S = 86_400
SILENT_NOTED = 2
"""Unanswered messages after which the queue's workers are doubted."""


@dataclass(frozen=True, slots=True)
class UnitStory:
    """One unit that has not ended."""

    unit: UnitRow
    why: str
    remedy: str
    """What a person can do; empty where time does it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A run as it stands."""

    run: RunRow
    stages: tuple[StageSummary, ...]
    """In the order in which the run passes them; those that haven't begun are missing."""
    units: tuple[UnitStory, ...]
    """At most `UNITS_SHOWN`."""
    lanes: Mapping[str, int]
    """State of a fleet's lanes to how many are in it."""
    verdict: str
    remedy: str


def explain(ports: Ports, run_id: RunId) -> Explanation:
    """Say where a run is.

    Raises:
        RejectedInput: there is no such run.
    """
    with ports.ledger.read() as session:
        run = publish.require_run(session, run_id)
        summary = {stage.stage: stage for stage in session.units.summary(run_id)}
        units = session.units.open(run_id, UNITS_SHOWN) if run.state in RUN_ACTIVE else ()
        lanes = session.lanes.list(run_id) if run.state in RUN_ACTIVE else ()
    now = ports.clock.now()
    order = [stage.name for stage in stages_of(run)] if run.manifest else list(summary)
    verdict, remedy = _verdict(run, units, lanes, now)
    counts: dict[str, int] = {}
    for lane in lanes:
        counts[lane.state] = counts.get(lane.state, 0) + 1
    return Explanation(
        run,
        tuple(summary[name] for name in order if name in summary),
        tuple(UnitStory(unit, *_why(run, unit, lanes, now)) for unit in units),
        counts,
        verdict,
        remedy,
    )


def _verdict(run: RunRow, units: Sequence[UnitRow], lanes: Sequence[LaneRow], now: float) -> tuple[str, str]:
    if run.state not in RUN_ACTIVE:
        return f"the run has ended: {run.state}", ""
    working = [u for u in units if u.state == "leased" and u.lease_until > now]
    if working:
        return f"at work: {len(working)} of its units are held by living workers", ""
    if run.owner != FLEET:
        if run.lease_until > now:
            return f"held by {run.owner}, which is between two units", ""
        return "nobody works on it: its process has ended", f"go on with it: lamina curate {run.context}"
    return _fleets_verdict(run, units, lanes, now)


def _fleets_verdict(run: RunRow, units: Sequence[UnitRow], lanes: Sequence[LaneRow], now: float) -> tuple[str, str]:
    if run.lease_until <= now:
        return (
            "no worker of the fleet has been heard of since its lease ran out",
            f"start workers (lamina worker), or finish it here: lamina curate {run.context}",
        )
    if any(u.not_before > now for u in units):
        return "its units rest after a failure", f"try at once: lamina requeue {run.id}"
    if any(lane.silent >= SILENT_NOTED for lane in lanes):
        return "its messages aren't answered", "is a worker serving these queues? see the units below"
    return "its messages are under way", ""


def _why(run: RunRow, unit: UnitRow, lanes: Sequence[LaneRow], now: float) -> tuple[str, str]:
    if unit.state == "leased":
        if unit.lease_until > now:
            return f"{unit.owner} has worked at it for {now - unit.claimed_at:.0f} s", ""
        return f"{unit.owner} fell silent {now - unit.lease_until:.0f} s ago; the next worker takes it", ""
    return _why_it_waits(run, unit, lanes, now)


def _why_it_waits(run: RunRow, unit: UnitRow, lanes: Sequence[LaneRow], now: float) -> tuple[str, str]:
    died = unit.attempts - unit.failures
    told = f" ({died} of its claims just never ended)" if died > 0 else ""
    if unit.not_before > now:
        rest = unit.not_before - now
        until = f"rests for another {rest:.0f} s" if rest < DAY_S else "is parked until a person allows more"
        reason = f" after {unit.failures} failures{told}: {run.error or 'see the log'}"
        return until + reason, f"lamina requeue {run.id}"
    sent = [lane for lane in lanes if lane.state == "sent" and lane.stage == unit.stage]
    queue = BY_NAME[unit.stage].waits if unit.stage in BY_NAME else "?"
    if sent:
        silent = max(lane.silent for lane in sent)
        if silent >= SILENT_NOTED:
            return (
                f"its message was sent {silent + 1} times and not answered{told}",
                f"does a worker serve the queue {queue}? lamina worker --queues {queue}",
            )
        return f"a message is under way to the queue {queue}{told}", ""
    if run.owner == FLEET:
        return f"waits for a free lane; {len(lanes)} are at other units{told}", ""
    return f"waits for its turn{told}", ""
