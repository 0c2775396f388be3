"""A provider's budget that a whole fleet shares, in Redis; while that is away, a share of it in each process.

The state is one small JSON value under a key of the provider's name and a fingerprint of its key. Changes are
compare-and-set transactions (WATCH), repeated a few times; losing the value (a flush) gives a full budget once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import redis

from pipeline import rates
from pipeline.adapters.governor_local import LocalGovernor
from pipeline.ports import Clock

TRIES_MAX = 10
TIMEOUT_S = 2.0
FORGET_S = 3600
"""An unused budget is forgotten: by then it would be full again."""
AWAY_S = 5.0
"""After Redis did not answer, it isn't asked for so long."""

Result = TypeVar("Result")


class RedisGovernor:
    """Port `Governor`. Any number of processes of any number of machines may share it."""

    def __init__(self, url: str, name: str, budget: rates.Budget, clock: Clock, *, processes: int) -> None:
        """Connect with the first call.

        Args:
            url: of the broker's server.
            name: of the provider and its key, the latter as a fingerprint.
            budget: of all processes together.
            clock: should agree between machines within a second or so.
            processes: how many there may be; while Redis is away each takes so small a share.
        """
        self._client: Any = redis.Redis.from_url(
            _plain(url), socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=None
        )
        self._key, self._budget, self._clock = f"lamina:rates:{name}", budget, clock
        self._alone = LocalGovernor(budget.shared_by(processes), clock)
        self._away_until = 0.0
        self._lock = threading.Lock()

    def admit(self, costs: Mapping[str, float]) -> float:
        """See the port."""
        return self._changed(
            lambda state, now: rates.admit(self._budget, state, costs, now), lambda: self._alone.admit(costs)
        )

    def settle(self, difference: Mapping[str, float]) -> None:
        """See the port."""
        self._changed(
            lambda state, now: (rates.settle(self._budget, state, difference, now), None),
            lambda: self._alone.settle(difference),
        )

    def too_many(self, wait_s: float) -> None:
        """See the port."""
        self._alone.too_many(wait_s)  # whatever becomes of Redis, this process has heard it
        self._changed(lambda state, now: (rates.too_many(self._budget, state, wait_s, now), None), lambda: None)

    def close(self) -> None:
        """Release the connections. May be repeated."""
        self._client.close()

    def _changed(
        self, change: Callable[[rates.State, float], tuple[rates.State, Result]], alone: Callable[[], Result]
    ) -> Result:
        now = self._clock.now()
        with self._lock:
            if now < self._away_until:
                return alone()
            try:
                for _ in range(TRIES_MAX):
                    with self._client.pipeline() as pipe:
                        pipe.watch(self._key)
                        state, result = change(self._read(pipe.get(self._key), now), now)
                        pipe.multi()
                        pipe.set(self._key, json.dumps(asdict(state)), ex=FORGET_S)
                        try:
                            pipe.execute()
                        except redis.WatchError:
                            continue
                        return result
            except (redis.RedisError, OSError):
                self._away_until = now + AWAY_S
            return alone()  # away, or too many at once: the stricter answer

    def _read(self, stored: bytes | None, now: float) -> rates.State:
        try:
            return rates.State(**json.loads(stored)) if stored else rates.fresh(self._budget, now)
        except (ValueError, TypeError):
            return rates.fresh(self._budget, now)


def _plain(url: str) -> str:
    """Kombu's name for a socket as redis-py's."""
    return "unix://" + url.removeprefix("redis+socket://") if url.startswith("redis+socket://") else url
