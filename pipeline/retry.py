"""Whether a failed unit is tried again, and when. The only place that decides it; adapters only translate errors."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import PipelineError, Unavailable

ATTEMPTS_MAX = 4
"""Claims of one unit by one run before the driver gives up and says so; the run stays resumable."""

FIRST_DELAY_S = 0.5
DELAY_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after a while."""

    delay_s: float


def next_attempt(error: PipelineError, attempts: int) -> Retry | None:
    """The next attempt after `attempts` failed ones; None when there is none.

    Only `Unavailable` is worth repeating: the other three would end the same way. Delays double from half a second;
    what a provider asked for goes before, up to a minute.
    """
    if not isinstance(error, Unavailable) or attempts >= ATTEMPTS_MAX or error.code in PARKED:
        return None
    return Retry(rest_s(error, attempts))


PARKED = frozenset({"spent"})
"""Codes after which only a person's word makes sense of another attempt."""
PARKED_S = 10 * 365 * 86_400.0


def rest_s(error: PipelineError, attempts: int) -> float:
    """Seconds until the next attempt, if there is one."""
    if error.code in PARKED:
        return PARKED_S
    asked_s = (error.retry_after_ms or 0) / 1000 if isinstance(error, Unavailable) else 0.0
    return min(DELAY_MAX_S, max(asked_s, FIRST_DELAY_S * float(2 ** min(attempts - 1, 16))))
