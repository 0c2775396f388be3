"""What was said and of what, over SQL: statements, names, subjects and their members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.adapters.ledger_database import blocks, marks
from pipeline.adapters.ledger_sql_intervals import COLUMNS, SEEN, UNPLANNED, Intervals
from pipeline.rows import ArtifactRow, EdgeRow, MemberRow, StatementRow, SubjectRow
from pipeline.types import OPEN, ContextSlug, LogicalId, RunId, SourcePath


class Statements(Intervals):
    """The first half of `ledger.Knowledge`."""

    # ---- statements

    def statements_open(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[StatementRow, ...]:
        where = "context = ? AND removed = ?"
        return self.each(StatementRow, where, (slug, OPEN), "path", paths, "path, seq, id")

    def statements_at(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[StatementRow, ...]:
        where = f"context = ? AND {SEEN}"
        return self.each(StatementRow, where, (slug, version, version), "path", paths, "path, seq, id")

    def wanted_of(
        self, slug: ContextSlug, run: RunId, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND {UNPLANNED} AND kind IN ({marks(len(kinds))})"
        values = (slug, type_, OPEN, run, "statement", *kinds)
        return self.each(StatementRow, where.format("statement"), values, "name", names, "path, seq, id")

    def opened_of(
        self, slug: ContextSlug, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND kind IN ({marks(len(kinds))})"
        return self.each(StatementRow, where, (slug, type_, OPEN, *kinds), "name", names, "path, seq, id")

    def page_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[StatementRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED} AND id > ?".format("statement")
        return tuple(self.select(StatementRow, where, (slug, OPEN, run, "statement", after), f"id LIMIT {int(limit)}"))

    def holds_any(self, slug: ContextSlug) -> bool:
        return self.db.one("SELECT 1 FROM statement WHERE context = ? LIMIT 1", (slug,)) is not None

    def page_visited(self, run: RunId, type_: str, after: str, limit: int) -> tuple[str, ...]:
        rows = self.db.all(
            "SELECT name FROM visited WHERE run = ? AND type = ? AND name > ? ORDER BY name LIMIT ?",
            (run, type_, after, limit),
        )
        return tuple(row[0] for row in rows)

    def artifacts_diverged(self, slug: ContextSlug, live: int, after: str, limit: int) -> tuple[ArtifactRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added > ? AND removed = ?) OR (added <= ? AND removed > ? AND removed < ?))"
        )
        values = (slug, after, live, OPEN, live, live, OPEN)
        return tuple(self.select(ArtifactRow, where, values, f"id LIMIT {int(limit)}"))

    def count_subjects(self, slug: ContextSlug, run: RunId, type_: str, least: int) -> int:
        where = f"context = ? AND type = ? AND removed = ? AND {UNPLANNED} AND documents >= ?".format("subject")
        row = self.db.one(f"SELECT COUNT(*) FROM subject WHERE {where}", (slug, type_, OPEN, run, "subject", least))
        return int(row[0]) if row else 0

    def subjects_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SubjectRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added = ? AND removed = ?) OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'subject')))"
        )
        values = (slug, after, number, OPEN, OPEN, run)
        return tuple(self.select(SubjectRow, where, values, f"id LIMIT {int(limit)}"))

    def artifacts_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED}".format("artifact")
        return self.each(ArtifactRow, where, (slug, OPEN, run, "artifact"), "id", ids)

    def page_added_artifacts(self, slug: ContextSlug, number: int, skip: int, limit: int) -> tuple[ArtifactRow, ...]:
        where = "context = ? AND added = ?"
        order = f"id LIMIT {int(limit)} OFFSET {int(skip)}"
        return tuple(self.select(ArtifactRow, where, (slug, number), order))

    def edges_wanted_of(self, slug: ContextSlug, run: RunId, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED}".format("edge")
        order = "source, type, target, path, id"
        return self.each(EdgeRow, where, (slug, OPEN, run, "edge"), "source", sources, order)

    def page_wanted_edges(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED} AND id > ?".format("edge")
        return tuple(self.select(EdgeRow, where, (slug, OPEN, run, "edge", after), f"id LIMIT {int(limit)}"))

    def edge_sources_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[LogicalId, ...]:
        rows = self.db.all(
            "SELECT DISTINCT source FROM edge WHERE context = ? AND source > ? AND ((added = ? AND removed = ?) OR "
            "(removed = ? AND id IN (SELECT id FROM removal WHERE run = ? AND kind = 'edge'))) ORDER BY source LIMIT ?",
            (slug, after, number, OPEN, OPEN, run, limit),
        )
        return tuple(row[0] for row in rows)

    def wanted_in(
        self, slug: ContextSlug, run: RunId, paths: Sequence[SourcePath], kind: str
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED} AND kind = ?".format("statement")
        return self.each(StatementRow, where, (slug, OPEN, run, "statement", kind), "path", paths, "path, seq, id")

    def moved(self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int) -> tuple[StatementRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added = ? AND removed = ?) OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'statement')))"
        )
        values = (slug, after, number, OPEN, OPEN, run)
        return tuple(self.select(StatementRow, where, values, f"id LIMIT {int(limit)}"))

    def page_statements(
        self, slug: ContextSlug, version: int, kind: str, after: str, limit: int
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND kind = ? AND {SEEN} AND id > ?"
        return tuple(self.select(StatementRow, where, (slug, kind, version, version, after), f"id LIMIT {int(limit)}"))

    # ---- names and their blocking keys

    def key_names(self, slug: ContextSlug, type_: str, rows: Iterable[tuple[str, str]]) -> None:
        self.db.many(
            "INSERT INTO name_key (context, type, key, name) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(slug, type_, key, name) for key, name in rows],
        )

    def keys_of(self, slug: ContextSlug, type_: str, names: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(names):
            where = f"context = ? AND type = ? AND name IN ({marks(len(part))})"
            rows = self.db.all(f"SELECT key FROM name_key WHERE {where}", (slug, type_, *part))
            found.update(row[0] for row in rows)
        return frozenset(found)

    def names_with(self, slug: ContextSlug, type_: str, keys: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(keys):
            where = f"context = ? AND type = ? AND key IN ({marks(len(part))})"
            rows = self.db.all(f"SELECT name FROM name_key WHERE {where}", (slug, type_, *part))
            found.update(row[0] for row in rows)
        return frozenset(found)

    def forget_names(self, slug: ContextSlug) -> None:
        self.db.run(
            "DELETE FROM name_key WHERE context = ? AND NOT EXISTS (SELECT 1 FROM statement s WHERE "
            "s.context = name_key.context AND s.type = name_key.type AND s.name = name_key.name)",
            (slug,),
        )

    def visit(self, run: RunId, type_: str, names: Sequence[str]) -> None:
        self.db.many(
            "INSERT INTO visited (run, type, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(run, type_, name) for name in names],
        )

    def unvisited(self, run: RunId, type_: str, names: Sequence[str]) -> tuple[str, ...]:
        seen: set[str] = set()
        for part in blocks(names):
            rows = self.db.all(
                f"SELECT name FROM visited WHERE run = ? AND type = ? AND name IN ({marks(len(part))})",
                (run, type_, *part),
            )
            seen.update(row[0] for row in rows)
        return tuple(name for name in names if name not in seen)

    # ---- subjects and members

    def subjects_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]:
        return self.each(SubjectRow, "context = ? AND removed = ?", (slug, OPEN), "id", ids)

    def subjects_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED}".format("subject")
        return self.each(SubjectRow, where, (slug, OPEN, run, "subject"), "id", ids)

    def members_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[MemberRow, ...]:
        return self.each(MemberRow, "context = ? AND removed = ?", (slug, OPEN), "id", statements)

    def members_of(self, slug: ContextSlug, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]:
        return self.each(MemberRow, "context = ? AND removed = ?", (slug, OPEN), "subject", subjects)

    def statements_of(
        self, slug: ContextSlug, run: RunId, subjects: Sequence[LogicalId]
    ) -> dict[LogicalId, list[StatementRow]]:
        columns = ", ".join(f"s.{c}" for c in COLUMNS[StatementRow][1].split(", "))
        found: dict[LogicalId, list[StatementRow]] = {}
        for part in blocks(subjects):
            rows = self.db.all(
                f"SELECT m.subject, {columns} FROM member m JOIN statement s ON s.context = m.context AND s.id = m.id AND "
                f"s.removed = {OPEN} AND {UNPLANNED.format('s')} WHERE m.context = ? AND m.removed = ? AND "
                f"{UNPLANNED.format('m')} AND m.subject IN ({marks(len(part))}) ORDER BY m.subject, s.path, s.seq, s.id",
                (run, "statement", slug, OPEN, run, "member", *part),
            )
            for row in rows:
                found.setdefault(row[0], []).append(StatementRow(*row[1:]))
        return found

    def unreduced(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[StatementRow, ...]:
        where = (
            f"context = ? AND removed = ? AND {UNPLANNED} AND id > ? AND kind <> 'edge' AND NOT EXISTS (SELECT 1 FROM "
            f"member m WHERE m.context = statement.context AND m.id = statement.id AND m.removed = {OPEN})"
        ).format("statement")
        values = (slug, OPEN, run, "statement", after)
        return tuple(self.select(StatementRow, where, values, f"id LIMIT {int(limit)}"))

    def orphans(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[MemberRow, ...]:
        where = (
            f"context = ? AND removed = ? AND id > ? AND NOT EXISTS (SELECT 1 FROM statement s WHERE "
            f"s.context = member.context AND s.id = member.id AND s.removed = {OPEN} AND {UNPLANNED.format('s')})"
        )
        return tuple(self.select(MemberRow, where, (slug, OPEN, after, run, "statement"), f"id LIMIT {int(limit)}"))

    def subject_ids_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED} AND id > ?".format("subject")
        return tuple(self.select(SubjectRow, where, (slug, OPEN, run, "subject", after), f"id LIMIT {int(limit)}"))

    def members_wanted(self, slug: ContextSlug, run: RunId, statements: Sequence[str]) -> tuple[MemberRow, ...]:
        where = f"context = ? AND removed = ? AND {UNPLANNED}".format("member")
        return self.each(MemberRow, where, (slug, OPEN, run, "member"), "id", statements)

    def member_paths_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SourcePath, ...]:
        rows = self.db.all(
            "SELECT DISTINCT path FROM member WHERE context = ? AND path > ? AND ((added = ? AND removed = ?) OR "
            "(removed = ? AND id IN (SELECT id FROM removal WHERE run = ? AND kind = 'member'))) "
            "ORDER BY path LIMIT ?",
            (slug, after, number, OPEN, OPEN, run, limit),
        )
        return tuple(row[0] for row in rows)

    def best_subjects(
        self, slug: ContextSlug, run: RunId, type_: str, least: int, after: tuple[int, int, str] | None, limit: int
    ) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND {UNPLANNED} AND documents >= ?".format("subject")
        values: tuple[object, ...] = (slug, type_, OPEN, run, "subject", least)
        if after is not None:
            where += " AND (documents < ? OR (documents = ? AND (mentions < ? OR (mentions = ? AND id > ?))))"
            values = (*values, after[0], after[0], after[1], after[1], after[2])
        return tuple(self.select(SubjectRow, where, values, f"documents DESC, mentions DESC, id LIMIT {int(limit)}"))

    def page_subjects(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND {SEEN} AND id > ?"
        return tuple(self.select(SubjectRow, where, (slug, version, version, after), f"id LIMIT {int(limit)}"))

    def members_at(self, slug: ContextSlug, version: int, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]:
        return self.each(MemberRow, f"context = ? AND {SEEN}", (slug, version, version), "subject", subjects)
