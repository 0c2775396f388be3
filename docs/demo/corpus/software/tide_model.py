"""Tide times for the landing, good to a quarter of an hour.

The landing can be used from two hours before low water to two hours after it.
"""

import math

M2_PERIOD_HOURS = 12.4206
"""Period of the principal lunar tide."""


def hours_to_low_water(now_hours: float, last_low_hours: float) -> float:
    """Hours until the next low water, from the time of the last one that was seen."""
    since = now_hours - last_low_hours
    return M2_PERIOD_HOURS - math.fmod(since, M2_PERIOD_HOURS)


def landing_is_open(now_hours: float, last_low_hours: float) -> bool:
    """Whether a boat can land now."""
    ahead = hours_to_low_water(now_hours, last_low_hours)
    return ahead <= 2.0 or ahead >= M2_PERIOD_HOURS - 2.0


class Gauge:
    """The tide gauge at the boathouse, a float in a pipe."""

    def __init__(self, offset_cm: float = 0.0) -> None:
        self.offset_cm = offset_cm

    def level_cm(self, reading_cm: float) -> float:
        """Water level above chart datum; the gauge hangs 38 cm above it."""
        return reading_cm + 38.0 + self.offset_cm
