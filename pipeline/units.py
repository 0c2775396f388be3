"""Units of work and the lanes of a fleet: leased slices of a run, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.types import ContextSlug, RunId


@dataclass(frozen=True, slots=True)
class UnitClaim:
    """A leased slice of a run: one stage over one batch. The fence makes late reports of a lost lease harmless."""

    context: ContextSlug
    run: RunId
    run_fence: int
    stage: str
    batch: int
    fence: int
    attempts: int
    size: int
    """Work in the stage's own unit (bytes, tokens, records)."""
    failures: int = 0
    """Earlier claims that were handed back; the others among `attempts` just never ended."""


@dataclass(frozen=True, slots=True)
class UnitRow:
    """A unit that has not ended, for people who ask why."""

    stage: str
    batch: int
    state: str
    """waiting or leased."""
    owner: str
    """Who holds it, or held it last."""
    claimed_at: float
    lease_until: float
    not_before: float
    """Until when it rests after a failure."""
    attempts: int
    failures: int
    size: int


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One of the few places in which a fleet works on a run at a time: a token that passes from unit to unit.

    A lane is `sent` (a message with its number is under way), `held` (a worker is at its unit) or `idle`. Each step
    raises `seq`, so that a message that comes late, or twice, finds another number and does nothing.
    """

    lane: int
    stage: str
    """Where it works or is sent; empty while idle."""
    seq: int
    state: str
    owner: str
    since: float
    """When its message was first sent, or its worker began."""
    until: float
    """When the worker's lease, or the patience with the message, runs out."""
    silent: int
    """How often in a row it was sent again without an answer."""


@dataclass(frozen=True, slots=True)
class StageSummary:
    """How far one stage of a run has got."""

    stage: str
    units: int
    units_done: int
    size: int
    size_done: int
    first_at: float
    """When its first unit was claimed; 0 before that."""
    last_at: float
    """When its latest unit ended; 0 before that."""
    embed_tokens: int
    """Tokens that its units ran through an embedding model."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a message to workers holds: ids only."""

    stage: str
    run: RunId
    lane: int
    seq: int
    reserved: bool = False
    """Whether the run is small, so that it goes by the lane kept free for such."""
