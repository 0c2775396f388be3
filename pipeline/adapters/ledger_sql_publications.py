"""Copies for third-party readers over SQL."""

from __future__ import annotations

from pipeline.adapters.ledger_database import Database
from pipeline.rows import PublicationRow
from pipeline.types import ContextSlug

_COLUMNS = "target, version, aim, cursor_at, fields, changed_at, holder, fence, rest_until, error"


class SqlPublications:
    """`ledger.Publications`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, slug: ContextSlug, target: str) -> PublicationRow | None:
        row = self._db.one(f"SELECT {_COLUMNS} FROM publication WHERE context = ? AND target = ?", (slug, target))
        return PublicationRow(*row) if row else None

    def list(self, target: str) -> tuple[tuple[ContextSlug, PublicationRow], ...]:
        rows = self._db.all(f"SELECT context, {_COLUMNS} FROM publication WHERE target = ? ORDER BY context", (target,))
        return tuple((ContextSlug(row[0]), PublicationRow(*row[1:])) for row in rows)

    def save(self, slug: ContextSlug, row: PublicationRow) -> None:
        self.delete(slug, row.target)
        self._db.run(
            f"INSERT INTO publication (context, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                slug, row.target, row.version, row.aim, row.cursor, row.fields, row.changed_at, row.holder,
                row.fence, row.rest_until, row.error,
            ),
        )  # fmt: skip

    def delete(self, slug: ContextSlug, target: str) -> None:
        self._db.run("DELETE FROM publication WHERE context = ? AND target = ?", (slug, target))

    def versions(self, slug: ContextSlug) -> frozenset[int]:
        rows = self._db.all("SELECT version, aim FROM publication WHERE context = ?", (slug,))
        return frozenset(number for row in rows for number in row if number)
