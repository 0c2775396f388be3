"""Pumps, in code."""

import functools
import os

LIMIT = 16  # bar


# Checks one pump.
@functools.cache
def check(pump):
    """True while the pressure holds."""
    pressure = pump.read()

    return pressure < LIMIT


class Station:
    """Several pumps."""

    def __init__(self, pumps):
        self.pumps = pumps

    @property
    def broken(self):
        return [pump for pump in self.pumps if not check(pump)]


STATION = Station(os.environ)
