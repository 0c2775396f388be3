"""A provider's budget within one process."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from pipeline import rates
from pipeline.ports import Clock


class LocalGovernor:
    """Port `Governor`. Threads may share it; processes don't know of each other."""

    def __init__(self, budget: rates.Budget, clock: Clock) -> None:
        """Start with a full budget."""
        self._budget, self._clock = budget, clock
        self._state = rates.fresh(budget, clock.now())
        self._lock = threading.Lock()

    def admit(self, costs: Mapping[str, float]) -> float:
        """See the port."""
        with self._lock:
            self._state, wait = rates.admit(self._budget, self._state, costs, self._clock.now())
            return wait

    def settle(self, difference: Mapping[str, float]) -> None:
        """See the port."""
        with self._lock:
            self._state = rates.settle(self._budget, self._state, difference, self._clock.now())

    def too_many(self, wait_s: float) -> None:
        """See the port."""
        with self._lock:
            self._state = rates.too_many(self._budget, self._state, wait_s, self._clock.now())

    def close(self) -> None:
        """Nothing to release."""
