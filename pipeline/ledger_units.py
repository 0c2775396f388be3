"""Protocols of the ledger about who works on what: units, and a fleet's lanes. See `pipeline.ledger` for their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from pipeline.types import RunId
from pipeline.units import LaneRow, StageSummary, UnitClaim, UnitRow


class Units(Protocol):
    """Leased slices of a run."""

    def create(self, run: RunId, stage: str, sizes: Mapping[int, int]) -> None:
        """Add waiting units, batch to size; those that exist are kept as they are."""
        ...

    def claim(
        self, run: RunId, run_fence: int, stages: Sequence[str], *, owner: str, until: float, now: float
    ) -> UnitClaim | None:
        """Lease a waiting or expired unit of the first stage in `stages` that has one."""
        ...

    def renew(self, claim: UnitClaim, until: float) -> bool: ...
    def finish(self, claim: UnitClaim, now: float, *, embed_tokens: int = 0) -> None:
        """Mark done; `Conflict` `stale_fence` when the lease was lost to somebody else."""
        ...

    def release(self, claim: UnitClaim, *, not_before: float = 0.0) -> None:
        """Hand the unit back, to rest until `not_before`; a stale fence is passed over."""
        ...

    def batches(self, run: RunId, stage: str) -> tuple[int, ...]: ...
    def release_all(self, run: RunId, owner: str | None) -> None:
        """Hand back every unit of the run that `owner` holds, or that anybody does."""
        ...

    def unfinished(self, run: RunId, stages: Sequence[str]) -> int: ...
    def waiting(self, run: RunId, stages: Sequence[str], now: float, most: int) -> dict[str, int]:
        """Stage to how many of its units could be claimed now, counted up to `most`; stages with none are left out."""
        ...

    def open(self, run: RunId, limit: int) -> tuple[UnitRow, ...]:
        """Units that have not ended, those that are held first, then by stage and batch."""
        ...

    def replace(self, claim: UnitClaim, sizes: Mapping[int, int]) -> None:
        """Put waiting units of other batches, batch to size, in the claimed one's place."""
        ...

    def recall(self, run: RunId, after: float, before: float) -> None:
        """Let units be claimed at once whose lease or rest ends after a moment and before another one."""
        ...

    def wake(self, run: RunId, now: float) -> None:
        """Let every waiting unit be claimed at once, as if never begun."""
        ...

    def spans(self, run: RunId, limit: int) -> tuple[tuple[str, float, float], ...]:
        """(stage, begun, ended) of units that have ended, by begin; of the latest `limit`."""
        ...

    def moved_at(self, run: RunId, now: float) -> float:
        """When a unit last ended or was woken; `now` while one is at work; 0 where neither ever was."""
        ...

    def summary(self, run: RunId) -> tuple[StageSummary, ...]: ...


class Lanes(Protocol):
    """Where a fleet works on a run. See `LaneRow`."""

    def create(self, run: RunId, lanes: int) -> None:
        """Idle lanes, numbered from 0; those that exist are kept as they are."""
        ...

    def list(self, run: RunId) -> tuple[LaneRow, ...]: ...
    def send(self, run: RunId, lane: int, stage: str, *, now: float, until: float) -> int:
        """A message is about to go out; the number that it must bear."""
        ...

    def resend(self, run: RunId, lane: int, *, until: float) -> None:
        """The message of the lane's number goes out once more."""
        ...

    def take(self, run: RunId, lane: int, seq: int, *, owner: str, now: float, until: float) -> bool:
        """A worker begins with the message of that number; False where it isn't the last one sent."""
        ...

    def renew(self, run: RunId, lane: int, seq: int, until: float) -> bool:
        """Extend a held lane; False where it was given to another."""
        ...

    def rest(self, run: RunId, lane: int) -> None:
        """Nothing to do for it now."""
        ...
