"""What goes wrong on purpose: by rule, or by chance with a seed."""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass

BEFORE = ("status", "reset_before", "hang")
AFTER = ("reset_after", "slow_body", "slow_head", "half_body", "garbage", "empty", "miscount")
KINDS = (*BEFORE, *AFTER)


@dataclass
class Fault:
    """One kind of failure.

    Before the request is carried out: `status` (an error reply), `reset_before` (the connection breaks), `hang` (no
    reply). After it: `reset_after`, `slow_body` and `slow_head` (a byte now and then), `half_body` (less than was
    promised, then the connection breaks), `garbage` (200 with text that isn't JSON), `empty` (200 with `{}`), `miscount`
    (an upsert tells one record less than it took).
    """

    kind: str
    status: int = 503
    retry_after: str | None = None
    message: str = "injected"
    path: str = ""
    """A regular expression that the path must hold; empty: every path."""
    times: int = 1
    """How often; a negative number is for ever."""
    skip: int = 0
    """Requests that fit and pass first."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a fault is one of {', '.join(KINDS)}")


class Faults:
    """Rules first, in order; then chance."""

    def __init__(self, seed: int = 0) -> None:
        self._lock = threading.Lock()
        self._rules: list[Fault] = []
        self._random = random.Random(seed)
        self._share = 0.0
        self._kinds: tuple[Fault, ...] = ()
        self.injected = 0
        """How many so far."""

    def add(self, *rules: Fault) -> None:
        with self._lock:
            self._rules.extend(rules)

    def by_chance(self, share: float, *kinds: Fault, seed: int = 0) -> None:
        """Let this share of requests that fit one of the kinds fail."""
        with self._lock:
            self._share, self._kinds, self._random = share, kinds, random.Random(seed)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()
            self._share, self._kinds, self.injected = 0.0, (), 0

    def next(self, path: str) -> Fault | None:
        """What is to go wrong with this request."""
        with self._lock:
            for rule in self._rules:
                if not rule.times or not re.search(rule.path, path):
                    continue
                if rule.skip:
                    rule.skip -= 1
                    continue
                rule.times -= 1
                self.injected += 1
                return rule
            fitting = [kind for kind in self._kinds if re.search(kind.path, path)]
            if fitting and self._random.random() < self._share:
                self.injected += 1
                return self._random.choice(fitting)
        return None
