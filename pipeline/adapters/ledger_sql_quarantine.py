"""Quarantine over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.adapters.ledger_database import Database, blocks, marks
from pipeline.rows import QuarantineRow
from pipeline.types import ContextSlug

_COLUMNS = "id, path, hash, pipeline, error, code, reason, since, spared"


class SqlQuarantine:
    """`ledger.Quarantine`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, slug: ContextSlug, rows: Sequence[QuarantineRow]) -> None:
        self._db.many(
            f"INSERT INTO quarantine (context, {_COLUMNS}) VALUES ({marks(10)}) ON CONFLICT DO NOTHING",
            [(slug, r.id, r.path, r.hash, r.pipeline, r.error, r.code, r.reason, r.since, r.spared) for r in rows],
        )

    def held(self, slug: ContextSlug, ids: Sequence[str]) -> tuple[QuarantineRow, ...]:
        out: list[QuarantineRow] = []
        for part in blocks(ids):
            rows = self._db.all(
                f"SELECT {_COLUMNS} FROM quarantine WHERE context = ? AND id IN ({marks(len(part))}) ORDER BY id",
                (slug, *part),
            )
            out += [QuarantineRow(*row) for row in rows]
        return tuple(out)

    def spare(self, slug: ContextSlug, ids: Sequence[str]) -> None:
        for part in blocks(ids):
            self._db.run(
                f"UPDATE quarantine SET spared = spared + 1 WHERE context = ? AND id IN ({marks(len(part))})",
                (slug, *part),
            )

    def page(self, slug: ContextSlug, after: str, limit: int) -> tuple[QuarantineRow, ...]:
        rows = self._db.all(
            f"SELECT {_COLUMNS} FROM quarantine WHERE context = ? AND id > ? ORDER BY id LIMIT ?", (slug, after, limit)
        )
        return tuple(QuarantineRow(*row) for row in rows)

    def release(self, slug: ContextSlug, ids: Sequence[str]) -> None:
        for part in blocks(ids):
            self._db.run(f"DELETE FROM quarantine WHERE context = ? AND id IN ({marks(len(part))})", (slug, *part))
