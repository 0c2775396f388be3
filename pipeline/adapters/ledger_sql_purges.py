"""Purges over SQL."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.adapters.ledger_database import Database, blocks, marks
from pipeline.types import OPEN, ContextSlug, RunId, SourcePath

# A revision is doomed when it was there as its source's purge was asked for.
_DOOMED = "p.context = s.context AND p.path = s.path AND s.added <= p.upto"


class SqlPurges:
    """`ledger.Purges`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def ask(self, slug: ContextSlug, paths: Sequence[SourcePath], at: float) -> None:
        self._db.many(
            "INSERT INTO purge (context, path, upto, at) SELECT ?, ?, COALESCE(MAX(number), 0), ? FROM version "
            "WHERE context = ? ON CONFLICT (context, path) DO UPDATE SET upto = excluded.upto, at = excluded.at",
            [(slug, path, at, slug) for path in paths],
        )

    def wanted(self, slug: ContextSlug, after: str, limit: int) -> tuple[SourcePath, ...]:
        rows = self._db.all(
            "SELECT path FROM purge WHERE context = ? AND path > ? ORDER BY path LIMIT ?", (slug, after, limit)
        )
        return tuple(SourcePath(row[0]) for row in rows)

    def holding(self, slug: ContextSlug) -> frozenset[int]:
        rows = self._db.all(
            "SELECT number FROM version v WHERE context = ? AND (purged = 1 OR EXISTS (SELECT 1 FROM purge p JOIN source s "
            f"ON {_DOOMED} WHERE p.context = v.context AND s.removed < {OPEN} AND s.added <= v.number "
            "AND s.removed > v.number))",
            (slug,),
        )
        return frozenset(int(row[0]) for row in rows)

    def mark(self, slug: ContextSlug, numbers: frozenset[int]) -> None:
        for part in blocks(sorted(numbers)):
            self._db.run(
                f"UPDATE version SET purged = 1 WHERE context = ? AND number IN ({marks(len(part))})", (slug, *part)
            )

    def clean(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> None:
        # What runs had planned tells names of artifacts, which may be said in the sources alone. Past the flip none is needed.
        past = "run IN (SELECT id FROM run WHERE context = ? AND state NOT IN ('running', 'sealed'))"
        for table in ("removal", "visited"):
            self._db.run(f"DELETE FROM {table} WHERE {past}", (slug,))
        texts = "reason = '', warnings = '', artifact_reason = '', artifact_notes = ''"
        for part in blocks(paths):
            named = f"path IN ({marks(len(part))})"
            self._db.run(f"DELETE FROM quarantine WHERE context = ? AND {named}", (slug, *part))
            self._db.run(
                f"UPDATE work SET {texts} WHERE run IN (SELECT id FROM run WHERE context = ?) AND {named}",
                (slug, *part),
            )

    def reword(self, run: RunId, output: str, notes: str) -> None:
        self._db.run("UPDATE run SET output = ?, notes = ? WHERE id = ?", (output, notes, run))

    def done(self, slug: ContextSlug) -> int:
        row = self._db.one(f"SELECT COUNT(*) FROM purge p WHERE context = ? AND {self._gone()}", (slug,))
        return int(row[0]) if row else 0

    def finish(self, slug: ContextSlug) -> None:
        self._db.run(f"DELETE FROM purge AS p WHERE context = ? AND {self._gone()}", (slug,))

    @staticmethod
    def _gone() -> str:
        return f"NOT EXISTS (SELECT 1 FROM source s WHERE {_DOOMED})"
