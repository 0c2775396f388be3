"""watch: curate whenever the sources change, once they have come to rest, one run at a time.

By polling, which sees changes on any disk, network share or bucket: what is compared is a hash of names, sizes and times,
so that memory stays bounded. A large tree is looked at less often, so that looking takes a small share of the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipeline import publish
from pipeline.errors import Conflict, PipelineError, RejectedInput, Unavailable
from pipeline.ports import Ports
from pipeline.retry import rest_s
from pipeline.rows import RunRow
from pipeline.types import ContextSlug

SETTLE_MAX_S = 60.0
"""Sources that never come to rest are curated after so long all the same."""
SHARE = 20.0
"""A look may take one in so many parts of the time."""
GONE = "gone"
"""Stands for the signature of sources that can't be looked at."""


@dataclass(frozen=True, slots=True)
class Event:
    """What came of one change."""

    run: RunRow | None
    error: PipelineError | None = None
    wait_s: float = 0.0
    """Until it is tried again; 0: at the next change."""


@dataclass(slots=True)
class Watcher:
    """Looks at one context's sources."""

    ports: Ports
    slug: ContextSlug
    every_s: float
    settle_s: float
    look_s: float = 0.0
    """What the last look took."""

    def signature(self) -> str:
        """A hash of the sources' names, sizes and times; `GONE` where there is no folder.

        Raises:
            RejectedInput: code `no_context`.
        """
        began = self.ports.clock.now()
        with self.ports.ledger.read() as session:
            context = publish.require_context(session, self.slug)
        tree = self.ports.sources(context)
        if not tree.exists():
            return GONE
        digest = hashlib.sha256()
        for stat in tree.walk():
            digest.update(f"{stat.path}\0{stat.size}\0{stat.mtime_ns}\0{stat.change_ns}\n".encode())
        self.look_s = self.ports.clock.now() - began
        return digest.hexdigest()

    def events(self, curate: Callable[[], RunRow], stop: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        """Curate now, and again after every change; what came of each. Ends only when told to.

        A run that fails for a while, or that another process's run is in the way of, is tried again, later each time. One
        that is refused waits for the next change.

        Args:
            curate: does one run.
            stop: asked before each look.

        Raises:
            RejectedInput: code `no_context`.
        """
        known, failures = "", 0
        while not stop():
            found = self.signature()
            if found != known:
                found = self._at_rest(found) if known else found
                event = self._one(curate, failures)
                failures = failures + 1 if event.wait_s else 0
                known = "again" if event.wait_s else found
                yield event
                if event.wait_s:
                    self.ports.clock.sleep(event.wait_s)
                    continue
            self.ports.clock.sleep(max(self.every_s, SHARE * self.look_s))

    def _one(self, curate: Callable[[], RunRow], failures: int) -> Event:
        try:
            return Event(curate())
        except RejectedInput as error:
            return Event(None, error)
        except (Unavailable, Conflict) as error:
            return Event(None, error, max(self.every_s, rest_s(error, failures + 1)))

    def _at_rest(self, found: str) -> str:
        """The signature once nothing has changed for a while, or after the longest wait."""
        waited = 0.0
        while waited < SETTLE_MAX_S:
            self.ports.clock.sleep(self.settle_s)
            waited += max(self.settle_s, 0.1)
            now = self.signature()
            if now == found:
                break
            found = now
        return found
