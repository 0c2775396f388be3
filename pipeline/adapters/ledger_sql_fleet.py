"""Units and lanes over SQL: who works on what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.adapters.ledger_database import Database, marks
from pipeline.adapters.ledger_sql_runs import ACTIVE, stale_fence
from pipeline.errors import Corruption
from pipeline.types import RunId
from pipeline.units import LaneRow, StageSummary, UnitClaim, UnitRow

_FREE = "state <> 'done' AND ((state = 'waiting' AND not_before <= ?) OR (state = 'leased' AND lease_until < ?))"
"""Whether a unit can be claimed at a moment; state <> 'done' follows, for which there is an index."""


class SqlUnits:
    """`ledger.Units`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, run: RunId, stage: str, sizes: Mapping[int, int]) -> None:
        self._db.many(
            "INSERT INTO unit (run, stage, batch, state, fence, owner, lease_until, attempts, size, claimed_at, ended_at, "
            "embed_tokens) VALUES (?, ?, ?, 'waiting', 0, '', 0, 0, ?, 0, 0, 0) ON CONFLICT DO NOTHING",
            [(run, stage, batch, size) for batch, size in sorted(sizes.items())],
        )

    def claim(
        self, run: RunId, run_fence: int, stages: Sequence[str], *, owner: str, until: float, now: float
    ) -> UnitClaim | None:
        held = self._db.one(f"SELECT fence, context FROM run WHERE id = ? AND {ACTIVE}", (run,))
        if held is None or held[0] != run_fence:
            raise stale_fence(f"run {run}")
        order = " ".join(f"WHEN ? THEN {i}" for i in range(len(stages)))
        row = self._db.one(
            f"SELECT stage, batch, fence, attempts, size, failures FROM unit WHERE run = ? AND stage IN ({marks(len(stages))}) "
            f"AND {_FREE} "
            f"ORDER BY CASE stage {order} END, batch LIMIT 1",
            (run, *stages, now, now, *stages),
        )
        if row is None:
            return None
        stage, batch, fence, attempts, size, failures = row
        self._db.run(
            "UPDATE unit SET state = 'leased', fence = fence + 1, owner = ?, lease_until = ?, attempts = attempts + 1, "
            "claimed_at = ? WHERE run = ? AND stage = ? AND batch = ?",
            (owner, until, now, run, stage, batch),
        )
        return UnitClaim(held[1], run, run_fence, stage, batch, fence + 1, attempts + 1, size, failures)

    def renew(self, claim: UnitClaim, until: float) -> bool:
        done = self._db.run(
            "UPDATE unit SET lease_until = ? WHERE run = ? AND stage = ? AND batch = ? AND fence = ? AND state = 'leased' "
            f"AND EXISTS (SELECT 1 FROM run WHERE run.id = unit.run AND run.fence = ? AND run.{ACTIVE})",
            (until, claim.run, claim.stage, claim.batch, claim.fence, claim.run_fence),
        )
        return done == 1

    def finish(self, claim: UnitClaim, now: float, *, embed_tokens: int = 0) -> None:
        held = self._db.one(f"SELECT fence FROM run WHERE id = ? AND {ACTIVE}", (claim.run,))
        done = self._db.run(
            "UPDATE unit SET state = 'done', ended_at = ?, embed_tokens = ? WHERE run = ? AND stage = ? AND batch = ? AND fence = ? "
            "AND state = 'leased'",
            (now, embed_tokens, claim.run, claim.stage, claim.batch, claim.fence),
        )
        if held is None or held[0] != claim.run_fence or done != 1:
            raise stale_fence(f"unit {claim.stage}/{claim.batch} of run {claim.run}")

    def release(self, claim: UnitClaim, *, not_before: float = 0.0) -> None:
        self._db.run(
            "UPDATE unit SET state = 'waiting', failures = failures + 1, not_before = ? "
            "WHERE run = ? AND stage = ? AND batch = ? AND fence = ? AND state = 'leased'",
            (not_before, claim.run, claim.stage, claim.batch, claim.fence),
        )

    def batches(self, run: RunId, stage: str) -> tuple[int, ...]:
        rows = self._db.all("SELECT batch FROM unit WHERE run = ? AND stage = ? ORDER BY batch", (run, stage))
        return tuple(int(row[0]) for row in rows)

    def release_all(self, run: RunId, owner: str | None) -> None:
        self._db.run(
            "UPDATE unit SET state = 'waiting', failures = failures + 1 "
            "WHERE run = ? AND state = 'leased' AND (? = '' OR owner = ?)",
            (run, owner or "", owner or ""),
        )

    def unfinished(self, run: RunId, stages: Sequence[str]) -> int:
        row = self._db.one(
            f"SELECT COUNT(*) FROM unit WHERE run = ? AND state <> 'done' AND stage IN ({marks(len(stages))})",
            (run, *stages),
        )
        return int(row[0]) if row else 0

    def summary(self, run: RunId) -> tuple[StageSummary, ...]:
        rows = self._db.all(
            "SELECT stage, COUNT(*), SUM(CASE WHEN state = 'done' THEN 1 ELSE 0 END), SUM(size), "
            "SUM(CASE WHEN state = 'done' THEN size ELSE 0 END), "
            "COALESCE(MIN(CASE WHEN claimed_at > 0 THEN claimed_at END), 0), MAX(ended_at), SUM(embed_tokens) "
            "FROM unit WHERE run = ? GROUP BY stage",
            (run,),
        )
        return tuple(
            StageSummary(r[0], int(r[1]), int(r[2]), int(r[3]), int(r[4]), float(r[5]), float(r[6]), int(r[7]))
            for r in rows
        )

    def waiting(self, run: RunId, stages: Sequence[str], now: float, most: int) -> dict[str, int]:
        found = {}
        for stage in stages:
            row = self._db.one(
                f"SELECT COUNT(*) FROM (SELECT 1 FROM unit WHERE run = ? AND stage = ? AND {_FREE} LIMIT {int(most)}) w",
                (run, stage, now, now),
            )
            if row and row[0]:
                found[stage] = int(row[0])
        return found

    def open(self, run: RunId, limit: int) -> tuple[UnitRow, ...]:
        rows = self._db.all(
            "SELECT stage, batch, state, owner, claimed_at, lease_until, not_before, attempts, failures, size FROM unit "
            "WHERE run = ? AND state <> 'done' ORDER BY state, stage, batch LIMIT ?",
            (run, limit),
        )
        return tuple(UnitRow(*row) for row in rows)

    def replace(self, claim: UnitClaim, sizes: Mapping[int, int]) -> None:
        self._db.run(
            "DELETE FROM unit WHERE run = ? AND stage = ? AND batch = ? AND fence = ?",
            (claim.run, claim.stage, claim.batch, claim.fence),
        )
        self.create(claim.run, claim.stage, sizes)

    def recall(self, run: RunId, after: float, before: float) -> None:
        self._db.run(
            "UPDATE unit SET state = 'waiting', not_before = 0 WHERE run = ? AND state <> 'done' "
            "AND ((state = 'leased' AND lease_until > ?) OR (state = 'waiting' AND not_before > ? AND not_before < ?))",
            (run, after, after, before),
        )

    def wake(self, run: RunId, now: float) -> None:
        self._db.run(
            "UPDATE unit SET attempts = 0, failures = 0, not_before = ? WHERE run = ? AND state = 'waiting'", (now, run)
        )

    def spans(self, run: RunId, limit: int) -> tuple[tuple[str, float, float], ...]:
        rows = self._db.all(
            "SELECT stage, claimed_at, ended_at FROM unit WHERE run = ? AND state = 'done' AND claimed_at > 0 "
            "ORDER BY claimed_at DESC LIMIT ?",
            (run, limit),
        )
        return tuple((row[0], float(row[1]), float(row[2])) for row in reversed(rows))

    def moved_at(self, run: RunId, now: float) -> float:
        row = self._db.one(
            "SELECT MAX(CASE WHEN state = 'done' THEN ended_at WHEN state = 'leased' AND lease_until > ? THEN ? "
            "WHEN attempts = 0 THEN not_before ELSE 0 END) FROM unit WHERE run = ?",
            (now, now, run),
        )
        return float(row[0] or 0) if row else 0.0


class SqlLanes:
    """`ledger.Lanes`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, run: RunId, lanes: int) -> None:
        self._db.many(
            "INSERT INTO lane (run, lane, stage, seq, state, owner, since, until, silent) "
            "VALUES (?, ?, '', 0, 'idle', '', 0, 0, 0) "
            "ON CONFLICT DO NOTHING",
            [(run, lane) for lane in range(lanes)],
        )

    def list(self, run: RunId) -> tuple[LaneRow, ...]:
        rows = self._db.all(
            "SELECT lane, stage, seq, state, owner, since, until, silent FROM lane WHERE run = ? ORDER BY lane", (run,)
        )
        return tuple(LaneRow(*row) for row in rows)

    def send(self, run: RunId, lane: int, stage: str, *, now: float, until: float) -> int:
        self._db.run(
            "UPDATE lane SET stage = ?, seq = seq + 1, state = 'sent', owner = '', since = ?, until = ?, silent = 0 "
            "WHERE run = ? AND lane = ?",
            (stage, now, until, run, lane),
        )
        row = self._db.one("SELECT seq FROM lane WHERE run = ? AND lane = ?", (run, lane))
        if row is None:
            raise Corruption("no_lane", f"lane {lane} of run {run} vanished")
        return int(row[0])

    def resend(self, run: RunId, lane: int, *, until: float) -> None:
        self._db.run(
            "UPDATE lane SET until = ?, silent = silent + 1 WHERE run = ? AND lane = ? AND state = 'sent'",
            (until, run, lane),
        )

    def take(self, run: RunId, lane: int, seq: int, *, owner: str, now: float, until: float) -> bool:
        done = self._db.run(
            "UPDATE lane SET state = 'held', owner = ?, since = ?, until = ?, silent = 0 "
            "WHERE run = ? AND lane = ? AND seq = ? AND state = 'sent'",
            (owner, now, until, run, lane, seq),
        )
        return done == 1

    def renew(self, run: RunId, lane: int, seq: int, until: float) -> bool:
        done = self._db.run(
            "UPDATE lane SET until = ? WHERE run = ? AND lane = ? AND seq = ? AND state = 'held'",
            (until, run, lane, seq),
        )
        return done == 1

    def rest(self, run: RunId, lane: int) -> None:
        self._db.run(
            "UPDATE lane SET stage = '', state = 'idle', owner = '', since = 0, until = 0, silent = 0 "
            "WHERE run = ? AND lane = ?",
            (run, lane),
        )
