"""What a stage body gets and what it gives back.

A body works outside any transaction, guarded by its claim, and returns an `Outcome`; `curate.run_claim` commits the
outcome, the unit's end and the next unit in one transaction that a stale fence can't pass (DESIGN §4, invariant 4).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from manifests import Manifest, leg_values
from pipeline import chunk, recording, screen
from pipeline.errors import Conflict
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.ledger import Session
from pipeline.namespaces import namespace_of
from pipeline.ports import Ports
from pipeline.recipe import Recipe
from pipeline.rows import ContextRow, RunRow
from pipeline.types import ContextSlug, Namespace
from pipeline.units import UnitClaim

DRAFT_CACHE_CHARS = 4_000_000
"""Characters of drafts kept between the stages of a batch; a miss only costs decoding the memo entry again."""


def nothing(_session: Session) -> None:
    """An outcome that writes nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a unit's last transaction writes."""

    write: Callable[[Session], None] = nothing
    size: int = 0
    """Work that the next stage's unit holds, in that stage's own measure."""
    embed_tokens: int = 0
    pages: Mapping[int, int] = field(default_factory=dict)
    """Batches, below 0, that the last batch stage has to do before the run goes on, with their sizes."""


class DraftCache:
    """The values that flow between the stages of a batch, bounded by characters. Thread-safe; pure results only."""

    def __init__(self, chars_max: int = DRAFT_CACHE_CHARS) -> None:
        self._held: OrderedDict[str, tuple[object, int]] = OrderedDict()
        self._chars_max = chars_max
        self._chars = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> object | None:
        """The value, now the most recently used; None when it isn't held."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def take(self, key: str) -> object | None:
        """The value, no longer held: for what has one reader only."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is None:
                return None
            self._chars -= found[1]
            return found[0]

    def put(self, key: str, value: object, chars: int) -> None:
        """Keep a value of about `chars` characters and let the least recently used go."""
        with self._lock:
            if key in self._held or chars > self._chars_max:
                return
            self._held[key] = (value, chars)
            self._chars += chars
            while self._chars > self._chars_max:
                _, (_, gone) = self._held.popitem(last=False)
                self._chars -= gone


@dataclass(frozen=True, slots=True)
class Job:
    """One unit of work with everything it may use."""

    ports: Ports
    run: RunRow
    context: ContextRow
    manifest: Manifest
    recipe: Recipe
    claim: UnitClaim
    cache: DraftCache
    report: Callable[[int], None]
    """Tells the driver that so much of the unit's size is done."""
    lost: Callable[[], bool] = field(default=lambda: False)
    """Whether the claim is known to be lost; bodies stop between items when it is."""

    @property
    def slug(self) -> ContextSlug:
        """The context's slug."""
        return self.context.slug

    @property
    def namespace(self) -> Namespace:
        """Where this run's chunk records stand."""
        return namespace_of(self.slug, self.run.generation, "chunks")

    @property
    def artifact_namespace(self) -> Namespace:
        """Where this run's artifact records stand."""
        return namespace_of(self.slug, self.run.generation, "artifacts")

    def origins(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Sources, as the memo knows what its values come from."""
        return tuple(recording.origin(self.slug, path) for path in sorted(set(paths)))

    @property
    def keyword(self) -> bool:
        """Whether sparse vectors are built."""
        return self.manifest.curate.chunks.keyword.enabled

    def hold(self, session: Session) -> None:
        """Renew the claim in this transaction, or stop: nothing of a lost lease is written."""
        if not session.units.renew(self.claim, self.ports.clock.now() + self.ports.limits.lease_s):
            raise Conflict(
                "stale_fence", f"unit {self.claim.stage}/{self.claim.batch} belongs to another worker by now"
            )

    def keep_going(self) -> None:
        """Stop early when the claim is lost."""
        if self.lost():
            raise Conflict(
                "stale_fence", f"unit {self.claim.stage}/{self.claim.batch} belongs to another worker by now"
            )


def pipeline_fingerprint(manifest: Manifest, recipe: Recipe) -> str:
    """What every source's chunks are a function of, content aside: manifest leg, recipe, stage versions."""
    # The recipe holds the resolved model: that somebody writes the default's name out changes nothing.
    values = {key: value for key, value in leg_values(manifest, "chunks").items() if key != "embedding_model"}
    return fingerprint(
        "pipeline", canonical_json(values), recipe.fingerprint(), canonical_json(chunk.VERSIONS), screen.VERSION
    )
