"""Bounds that say where and how work runs."""

from __future__ import annotations

from dataclasses import dataclass

FAR_S = 600.0
"""A message that nobody answers is sent again after so long at the latest, so nothing has to lie further ahead."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that say where and how work runs. None of them changes a result."""

    batch_sources: int = 64
    """Sources in one unit."""
    batch_bytes: int = 2_000_000
    """Source bytes in one unit; a larger source is a unit by itself."""
    source_bytes: int = 64_000_000
    """A larger source is refused before it is read."""
    lease_s: float = 30.0
    """How long a claim holds without being renewed."""
    unit_limit_s: float = 3600.0
    """A unit that takes longer is no longer renewed, so that a hung body can't hold it for ever."""
    unit_attempts: int = 5
    """Claims of one unit after which the run stops and says so."""
    lanes: int = 16
    """Units of one run that a fleet has in hand or in its queues at a time; more than its workers have places."""
    reconcile_s: float = 15.0
    """How often a fleet looks for lost messages and silent workers; a message may take twice as long."""
    stall_s: float = 7200.0
    """A run of the fleet of which no unit has ended for so long is given up, with its reason."""
    keep_versions: int = 2
    """Versions most recently live that stay readable."""
    keep_runs: int = 10
    """Ended runs whose plan by source is kept, and versions whose inventory is, so that they can be replayed."""
    retain_sources: int = 0
    """1: the bytes of sources are kept for as long, so that a replay can parse them again."""
    failed_share: float = 1.0
    """Share of the run's sources that may fail before the version is not made live."""
    max_shrink: float = 1.0
    """Share of the live records by which a run's version may be smaller without being refused."""
    fsck_every_s: float = 86_400.0
    """How often a fleet holds each context against the ledger; 0: never."""
    fsck_sample: int = 32
    """Live records that are held against ledger and files before each flip."""
    late_write_s: float = 120.0
    """Longest time a dead worker's last call may still land; tombstones are kept for three times this and the lease."""
    upsert_records: int = 512
    """Records in one call to the index."""
    model_repeats: int = 3
    """Times that a call to a language model that failed for a while is made again at once."""
    embed_texts: int = 512
    """Texts in one call to an embedder at most; each call's vectors are stored before the next."""

    @property
    def far_s(self) -> float:
        """Seconds ahead within which every lease, rest and deadline lies that workers note.

        One that lies further ahead was noted by a clock that has been set back since, and holds nobody off.
        """
        return max(FAR_S, 4 * self.reconcile_s, 2 * self.lease_s)
