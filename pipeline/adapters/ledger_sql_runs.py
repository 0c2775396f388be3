"""Contexts, runs, units and work over SQL: the half of the ledger that says who does what."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence

from pipeline.adapters.ledger_database import Database, blocks, marks
from pipeline.adapters.ledger_schema import CONTEXT_TABLES, RUN_TABLES
from pipeline.errors import Conflict, Corruption
from pipeline.rows import RUN_ACTIVE, ContextRow, MoveRow, RunRow, WorkRow
from pipeline.types import ContextSlug, RunId, SourcePath

_CONTEXT = "slug, kind, root, created_at, live_version, epoch, highest_version, redispatch_count"
_RUN = (
    "id, context, kind, cause, state, force, created_by, created_at, input, manifest, recipe, base_version, "
    "base_epoch, number, generation, fence, owner, lease_until, started_at, active_at, ended_at, cancel_requested, "
    "output, error, notes"
)
_WORK = (
    "path, batch, change, size, mtime_ns, hash, status, code, reason, fingerprint, parse_key, chunk_key, chunks, "
    "screened, chunks_created, chunks_updated, warnings, artifact_status, artifact_reason, artifact_key, artifact_notes, job"
)
ACTIVE = "state IN ('running', 'sealed', 'flipped')"
PAGE_ROWS = 1000
"""Rows read at a time by the streaming methods."""


def stale_fence(what: str) -> Conflict:
    """The error of every report that comes from a lost lease."""
    return Conflict(
        "stale_fence", f"{what} belongs to another worker by now", remedy="nothing to do: the other one goes on"
    )


class SqlContexts:
    """`ledger.Contexts`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, row: ContextRow) -> None:
        self._db.run(
            f"INSERT INTO context ({_CONTEXT}) VALUES ({marks(8)})",
            (
                row.slug,
                row.kind,
                row.root,
                row.created_at,
                row.live_version,
                row.epoch,
                row.highest_version,
                row.redispatch_count,
            ),
        )

    def get(self, slug: ContextSlug) -> ContextRow | None:
        row = self._db.one(f"SELECT {_CONTEXT} FROM context WHERE slug = ?", (slug,))
        return ContextRow(*row) if row else None

    def list(self) -> tuple[ContextRow, ...]:
        return tuple(ContextRow(*row) for row in self._db.all(f"SELECT {_CONTEXT} FROM context ORDER BY slug"))

    def delete(self, slug: ContextSlug) -> None:
        for table in RUN_TABLES:
            self._db.run(f"DELETE FROM {table} WHERE run IN (SELECT id FROM run WHERE context = ?)", (slug,))
        for table in (*CONTEXT_TABLES, "run"):
            self._db.run(f"DELETE FROM {table} WHERE context = ?", (slug,))
        self._db.run("DELETE FROM context WHERE slug = ?", (slug,))

    def claim_number(self, slug: ContextSlug) -> int:
        self._db.run("UPDATE context SET highest_version = highest_version + 1 WHERE slug = ?", (slug,))
        row = self._db.one("SELECT highest_version FROM context WHERE slug = ?", (slug,))
        if row is None:
            raise Corruption("no_context", f"context {slug} vanished while a run held it")
        return int(row[0])

    def move(self, slug: ContextSlug, version: int, run: RunId, at: float) -> None:
        self._db.run("UPDATE context SET live_version = ?, epoch = epoch + 1 WHERE slug = ?", (version, slug))
        self._db.run(
            "INSERT INTO move (context, epoch, version, run, at) SELECT slug, epoch, ?, ?, ? FROM context WHERE slug = ?",
            (version, run, at, slug),
        )
        self._db.run(
            "UPDATE version SET readable = 1, state = 'live', live_at = ? WHERE context = ? AND number = ?",
            (at, slug, version),
        )

    def count_redispatch(self, slug: ContextSlug) -> None:
        self._db.run("UPDATE context SET redispatch_count = redispatch_count + 1 WHERE slug = ?", (slug,))

    def moves(self, slug: ContextSlug) -> tuple[MoveRow, ...]:
        rows = self._db.all("SELECT epoch, version, run, at FROM move WHERE context = ? ORDER BY epoch DESC", (slug,))
        return tuple(MoveRow(*row) for row in rows)


def _run_row(row: Sequence[object]) -> RunRow:
    values = list(row)
    values[5], values[21] = bool(values[5]), bool(values[21])
    return RunRow(*values)  # type: ignore[arg-type]  # columns stand in field order


class SqlRuns:
    """`ledger.Runs`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def create(self, row: RunRow) -> None:
        held = self.active(row.context)
        if held is not None and row.state in RUN_ACTIVE:
            raise Conflict(
                "run_active",
                f"run {held.id} of context {row.context} has not ended",
                remedy=f"wait for it, or stop it with: lamina cancel {held.id}",
            )
        self._db.run(
            f"INSERT INTO run ({_RUN}) VALUES ({marks(25)})",
            (
                row.id, row.context, row.kind, row.trigger, row.state, int(row.force), row.created_by, row.created_at,
                row.input, row.manifest, row.recipe, row.base_version, row.base_epoch, row.number, row.generation,
                row.fence, row.owner, row.lease_until, row.started_at, row.active_at, row.ended_at,
                int(row.cancel_requested), row.output, row.error, row.notes,
            ),
        )  # fmt: skip

    def get(self, run: RunId) -> RunRow | None:
        row = self._db.one(f"SELECT {_RUN} FROM run WHERE id = ?", (run,))
        return _run_row(row) if row else None

    def active(self, slug: ContextSlug) -> RunRow | None:
        row = self._db.one(f"SELECT {_RUN} FROM run WHERE context = ? AND {ACTIVE}", (slug,))
        return _run_row(row) if row else None

    def list(self, slug: ContextSlug | None, limit: int) -> tuple[RunRow, ...]:
        where, values = ("WHERE context = ?", (slug,)) if slug is not None else ("", ())
        rows = self._db.all(
            f"SELECT {_RUN} FROM run {where} ORDER BY created_at DESC, id DESC LIMIT ?", (*values, limit)
        )
        return tuple(_run_row(row) for row in rows)

    def at_work(self, owner: str) -> tuple[RunRow, ...]:
        rows = self._db.all(f"SELECT {_RUN} FROM run WHERE owner = ? AND {ACTIVE} ORDER BY created_at, id", (owner,))
        return tuple(_run_row(row) for row in rows)

    def adopt(self, run: RunId, owner: str, until: float, now: float) -> int:
        self._db.run(
            "UPDATE run SET fence = fence + 1, owner = ?, lease_until = ?, active_at = ?, "
            "started_at = CASE WHEN started_at = 0 THEN ? ELSE started_at END WHERE id = ?",
            (owner, until, now, now, run),
        )
        row = self._db.one("SELECT fence FROM run WHERE id = ?", (run,))
        if row is None:
            raise Corruption("no_run", f"run {run} vanished")
        return int(row[0])

    def renew(self, run: RunId, fence: int, until: float, now: float) -> bool:
        done = self._db.run(
            f"UPDATE run SET lease_until = ?, active_at = ? WHERE id = ? AND fence = ? AND {ACTIVE}",
            (until, now, run, fence),
        )
        return done == 1

    def require(self, run: RunId, fence: int) -> RunRow:
        row = self.get(run)
        if row is None or row.fence != fence or row.state not in RUN_ACTIVE:
            raise stale_fence(f"run {run}")
        return row

    def plan(self, run: RunId, number: int, generation: int) -> None:
        self._db.run("UPDATE run SET number = ?, generation = ? WHERE id = ?", (number, generation, run))

    def set_state(self, run: RunId, state: str, now: float, *, output: str = "", error: str = "") -> None:
        ended = 0.0 if state in RUN_ACTIVE else now
        self._db.run(
            "UPDATE run SET state = ?, active_at = ?, ended_at = ?, output = ?, error = ? WHERE id = ?",
            (state, now, ended, output, error, run),
        )

    def set_error(self, run: RunId, error: str, now: float) -> None:
        self._db.run("UPDATE run SET error = ?, active_at = ? WHERE id = ?", (error, now, run))

    def set_input(self, run: RunId, text: str) -> None:
        self._db.run("UPDATE run SET input = ? WHERE id = ?", (text, run))

    def set_notes(self, run: RunId, notes: str) -> None:
        self._db.run("UPDATE run SET notes = ? WHERE id = ?", (notes, run))

    def request_cancel(self, run: RunId) -> None:
        self._db.run("UPDATE run SET cancel_requested = 1 WHERE id = ?", (run,))

    def forget(self, slug: ContextSlug, keep: int) -> None:
        old = (
            f"SELECT id FROM run WHERE context = ? AND NOT {ACTIVE} AND id NOT IN "
            "(SELECT id FROM run WHERE context = ? ORDER BY created_at DESC, id DESC LIMIT ?)"
        )
        for table in RUN_TABLES:
            self._db.run(f"DELETE FROM {table} WHERE run IN ({old})", (slug, slug, keep))


class SqlWork:
    """`ledger.Work`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def clear(self, run: RunId) -> None:
        self._db.run("DELETE FROM work WHERE run = ?", (run,))

    def add(self, run: RunId, rows: Sequence[WorkRow]) -> None:
        self._db.many(
            f"INSERT INTO work (run, {_WORK}) VALUES ({marks(23)})",
            [
                (
                    run, r.path, r.batch, r.change, r.size, r.mtime_ns, r.hash, r.status, r.code, r.reason, r.fingerprint,
                    r.parse_key, r.chunk_key, r.chunks, r.screened, r.chunks_created, r.chunks_updated, r.warnings,
                    r.artifact_status, r.artifact_reason, r.artifact_key, r.artifact_notes, r.job,
                )
                for r in rows
            ],
        )  # fmt: skip

    def batch(self, run: RunId, batch: int) -> tuple[WorkRow, ...]:
        rows = self._db.all(f"SELECT {_WORK} FROM work WHERE run = ? AND batch = ? ORDER BY path", (run, batch))
        return tuple(WorkRow(*row) for row in rows)

    def update(self, run: RunId, rows: Sequence[WorkRow]) -> None:
        self._db.many(
            "UPDATE work SET size = ?, mtime_ns = ?, hash = ?, status = ?, code = ?, reason = ?, fingerprint = ?, "
            "parse_key = ?, chunk_key = ?, chunks = ?, screened = ?, chunks_created = ?, chunks_updated = ?, "
            "warnings = ?, artifact_status = ?, artifact_reason = ?, artifact_key = ?, artifact_notes = ?, job = ? "
            "WHERE run = ? AND path = ?",
            [
                (
                    r.size, r.mtime_ns, r.hash, r.status, r.code, r.reason, r.fingerprint, r.parse_key, r.chunk_key,
                    r.chunks, r.screened, r.chunks_created, r.chunks_updated, r.warnings, r.artifact_status,
                    r.artifact_reason, r.artifact_key, r.artifact_notes, r.job, run, r.path,
                )
                for r in rows
            ],
        )  # fmt: skip

    def holds(self, run: RunId, paths: Sequence[SourcePath]) -> frozenset[SourcePath]:
        found: set[SourcePath] = set()
        for part in blocks(paths):
            found.update(
                row[0]
                for row in self._db.all(
                    f"SELECT path FROM work WHERE run = ? AND path IN ({marks(len(part))})", (run, *part)
                )
            )
        return frozenset(found)

    def count(self, run: RunId) -> int:
        row = self._db.one("SELECT COUNT(*) FROM work WHERE run = ?", (run,))
        return int(row[0]) if row else 0

    def each(self, run: RunId) -> Iterator[WorkRow]:
        after = ""
        while True:
            rows = self._db.all(
                f"SELECT {_WORK} FROM work WHERE run = ? AND path > ? ORDER BY path LIMIT ?", (run, after, PAGE_ROWS)
            )
            page: builtins.list[WorkRow] = [WorkRow(*row) for row in rows]
            yield from page
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].path

    def jobs(self, run: RunId, limit: int) -> tuple[tuple[SourcePath, str], ...]:
        rows = self._db.all(
            "SELECT path, job FROM work WHERE run = ? AND job <> '' ORDER BY path LIMIT ?", (run, limit)
        )
        return tuple((row[0], row[1]) for row in rows)

    def highest_batch(self, run: RunId) -> int:
        row = self._db.one("SELECT MAX(batch) FROM work WHERE run = ?", (run,))
        return int(row[0] or 0) if row else 0

    def move(self, run: RunId, paths: Sequence[SourcePath], batch: int) -> None:
        for part in blocks(paths):
            self._db.run(
                f"UPDATE work SET batch = ? WHERE run = ? AND path IN ({marks(len(part))})", (batch, run, *part)
            )
