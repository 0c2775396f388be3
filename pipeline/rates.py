"""How much of a provider a fleet may use a minute: the arithmetic of budgets. Pure.

Token buckets (as in generic cell rate algorithms): each measure of a provider (requests, tokens, money) refills at its
limit and holds a few seconds' worth, so that a minute's allowance isn't spent in its first second. A provider that says
"too many" halves the pace; quiet time brings it back step by step (additive increase, multiplicative decrease).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

BURST_S = 10.0
"""Seconds of refill that a bucket holds."""
MINUTE_S = 60.0
PACE_MIN = 0.05
PACE_CUT = 0.5
PACE_STEP = 0.05
PACE_STEP_S = 10.0
"""After a "too many" the pace is halved; every ten seconds without another give five hundredths of it back."""
WAIT_MIN_S = 0.001
"""Shorter waits may not move a clock at all."""
PAUSE_MAX_S = 300.0
"""What a provider may ask everybody to wait for."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one provider, a minute; measures without one aren't limited."""

    limits: Mapping[str, float]

    def shared_by(self, processes: int) -> Budget:
        """What one process may take alone while it doesn't know of the others."""
        return Budget({name: limit / max(1, processes) for name, limit in self.limits.items()})


@dataclass(frozen=True, slots=True)
class State:
    """What is left of a budget."""

    at: float
    """When it was so."""
    left: Mapping[str, float]
    pace: float = 1.0
    """Share of the limits in use at the moment."""
    pace_at: float = 0.0
    paused_until: float = 0.0


def fresh(budget: Budget, now: float) -> State:
    """A budget that nobody has used yet."""
    return State(now, {name: limit / MINUTE_S * BURST_S for name, limit in budget.limits.items()}, pace_at=now)


def admit(budget: Budget, state: State, costs: Mapping[str, float], now: float) -> tuple[State, float]:
    """Take `costs` out if everything is there; else say how long to wait, and take nothing.

    A cost above what a bucket holds is admitted once the bucket is full, and leaves it in debt.
    """
    state = _refilled(budget, state, now)
    if now < state.paused_until:
        return state, state.paused_until - now
    waits = [0.0]
    for name, limit in budget.limits.items():
        rate = limit / MINUTE_S * state.pace
        wanted = min(costs.get(name, 0.0), limit / MINUTE_S * BURST_S)
        short = wanted - state.left[name]
        # What the refill of floating-point numbers leaves open is no reason to wait.
        if short > 1e-9 * max(1.0, wanted):
            waits.append(short / rate if rate > 0 else PAUSE_MAX_S)
    if max(waits) > 0:
        return state, max(WAIT_MIN_S, *waits)
    left = {name: have - costs.get(name, 0.0) for name, have in state.left.items()}
    return replace(state, left=left), 0.0


def settle(budget: Budget, state: State, difference: Mapping[str, float], now: float) -> State:
    """Take what a call cost beyond what was taken for it, or give back what it didn't need."""
    state = _refilled(budget, state, now)
    left = {
        name: min(budget.limits[name] / MINUTE_S * BURST_S, have - difference.get(name, 0.0))
        for name, have in state.left.items()
    }
    return replace(state, left=left)


def too_many(budget: Budget, state: State, wait_s: float, now: float) -> State:
    """The provider refused for the pace: halve it, and let everybody wait as it asks."""
    state = _refilled(budget, state, now)
    until = max(state.paused_until, now + min(wait_s, PAUSE_MAX_S))
    return replace(state, pace=max(PACE_MIN, state.pace * PACE_CUT), pace_at=now, paused_until=until)


def _refilled(budget: Budget, state: State, now: float) -> State:
    passed = max(0.0, now - state.at)  # clocks of two machines may differ; time doesn't run back here
    left = {
        name: min(
            limit / MINUTE_S * BURST_S,
            state.left.get(name, limit / MINUTE_S * BURST_S) + passed * limit / MINUTE_S * state.pace,
        )
        for name, limit in budget.limits.items()
    }
    steps = int(max(0.0, now - state.pace_at) / PACE_STEP_S)
    pace = min(1.0, state.pace + steps * PACE_STEP)
    return replace(state, at=max(state.at, now), left=left, pace=pace, pace_at=state.pace_at + steps * PACE_STEP_S)
