"""The system's clock; the only place that asks it."""

from __future__ import annotations

import time


class SystemClock:
    """Port `Clock`."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait at least `seconds`; nothing for 0 and below."""
        time.sleep(max(0.0, seconds))
