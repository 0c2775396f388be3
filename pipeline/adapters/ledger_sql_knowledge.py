"""What the artifact leg knows, over SQL: statements, subjects, members, artifacts, edges, decisions, spending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any, TypeVar

from pipeline.adapters.ledger_database import BLOCK, Database, blocks, marks
from pipeline.rows import ArtifactRow, DecisionRow, EdgeRow, MemberRow, SpendRow, StatementRow, SubjectRow
from pipeline.types import OPEN, ContextSlug, LogicalId, RunId, SourcePath

_COLUMNS: dict[type[Any], tuple[str, str]] = {
    StatementRow: ("statement", "id, path, kind, type, name, seq, data, added, removed"),
    SubjectRow: ("subject", "id, type, key, name, documents, mentions, membership, data, added, removed"),
    MemberRow: ("member", "id, subject, path, added, removed"),
    ArtifactRow: ("artifact", "id, type, name, scope, format, basis, membership, file, data, added, removed"),
    EdgeRow: ("edge", "id, type, source, target, path, data, added, removed"),
}
_SEEN = "added <= ? AND removed > ?"
_DECISION = "id, kind, type, name_left, name_right, at, made_by, applied, withdrawn"

Row = TypeVar("Row", StatementRow, SubjectRow, MemberRow, ArtifactRow, EdgeRow)


class SqlKnowledge:
    """`ledger.Knowledge`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # ---- intervals, alike for the five tables

    def add(
        self, slug: ContextSlug, rows: Sequence[StatementRow | SubjectRow | MemberRow | ArtifactRow | EdgeRow]
    ) -> None:
        for kind, (table, columns) in _COLUMNS.items():
            self._db.many(
                f"INSERT INTO {table} (context, {columns}) VALUES ({marks(columns.count(',') + 2)}) ON CONFLICT DO NOTHING",
                [(slug, *astuple(row)) for row in rows if isinstance(row, kind)],
            )

    def _select(self, kind: type[Row], where: str, values: Sequence[object], order: str = "id") -> list[Row]:
        table, columns = _COLUMNS[kind]
        rows = self._db.all(f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {order}", values)
        return [kind(*row) for row in rows]

    def _each(
        self,
        kind: type[Row],
        where: str,
        values: Sequence[object],
        column: str,
        items: Sequence[str],
        order: str = "id",
    ) -> tuple[Row, ...]:
        out: list[Row] = []
        for at in range(0, len(items), BLOCK):
            some: Sequence[str] = items[at : at + BLOCK]
            out += self._select(kind, f"{where} AND {column} IN ({marks(len(some))})", (*values, *some), order)
        return tuple(out)

    # ---- statements

    def statements_open(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[StatementRow, ...]:
        where = "context = ? AND removed = ?"
        return self._each(StatementRow, where, (slug, OPEN), "path", paths, "path, seq, id")

    def statements_at(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[StatementRow, ...]:
        where = f"context = ? AND {_SEEN}"
        return self._each(StatementRow, where, (slug, version, version), "path", paths, "path, seq, id")

    def wanted_of(
        self, slug: ContextSlug, run: RunId, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND {_UNPLANNED} AND kind IN ({marks(len(kinds))})"
        values = (slug, type_, OPEN, run, "statement", *kinds)
        return self._each(StatementRow, where.format("statement"), values, "name", names, "path, seq, id")

    def opened_of(
        self, slug: ContextSlug, type_: str, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND kind IN ({marks(len(kinds))})"
        return self._each(StatementRow, where, (slug, type_, OPEN, *kinds), "name", names, "path, seq, id")

    def page_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[StatementRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED} AND id > ?".format("statement")
        return tuple(self._select(StatementRow, where, (slug, OPEN, run, "statement", after), f"id LIMIT {int(limit)}"))

    def holds_any(self, slug: ContextSlug) -> bool:
        return self._db.one("SELECT 1 FROM statement WHERE context = ? LIMIT 1", (slug,)) is not None

    def page_visited(self, run: RunId, type_: str, after: str, limit: int) -> tuple[str, ...]:
        rows = self._db.all(
            "SELECT name FROM visited WHERE run = ? AND type = ? AND name > ? ORDER BY name LIMIT ?",
            (run, type_, after, limit),
        )
        return tuple(row[0] for row in rows)

    def artifacts_diverged(self, slug: ContextSlug, live: int, after: str, limit: int) -> tuple[ArtifactRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added > ? AND removed = ?) OR (added <= ? AND removed > ? AND removed < ?))"
        )
        values = (slug, after, live, OPEN, live, live, OPEN)
        return tuple(self._select(ArtifactRow, where, values, f"id LIMIT {int(limit)}"))

    def count_subjects(self, slug: ContextSlug, run: RunId, type_: str, least: int) -> int:
        where = f"context = ? AND type = ? AND removed = ? AND {_UNPLANNED} AND documents >= ?".format("subject")
        row = self._db.one(f"SELECT COUNT(*) FROM subject WHERE {where}", (slug, type_, OPEN, run, "subject", least))
        return int(row[0]) if row else 0

    def subjects_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SubjectRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added = ? AND removed = ?) OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'subject')))"
        )
        values = (slug, after, number, OPEN, OPEN, run)
        return tuple(self._select(SubjectRow, where, values, f"id LIMIT {int(limit)}"))

    def drop_added(self, slug: ContextSlug, number: int, ids: Sequence[LogicalId]) -> None:
        for part in blocks(ids):
            where = f"context = ? AND added = ? AND id IN ({marks(len(part))})"
            self._db.run(f"DELETE FROM artifact WHERE {where}", (slug, number, *part))

    def artifacts_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED}".format("artifact")
        return self._each(ArtifactRow, where, (slug, OPEN, run, "artifact"), "id", ids)

    def page_added_artifacts(self, slug: ContextSlug, number: int, skip: int, limit: int) -> tuple[ArtifactRow, ...]:
        where = "context = ? AND added = ?"
        order = f"id LIMIT {int(limit)} OFFSET {int(skip)}"
        return tuple(self._select(ArtifactRow, where, (slug, number), order))

    def edges_wanted_of(self, slug: ContextSlug, run: RunId, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED}".format("edge")
        order = "source, type, target, path, id"
        return self._each(EdgeRow, where, (slug, OPEN, run, "edge"), "source", sources, order)

    def page_wanted_edges(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED} AND id > ?".format("edge")
        return tuple(self._select(EdgeRow, where, (slug, OPEN, run, "edge", after), f"id LIMIT {int(limit)}"))

    def edge_sources_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[LogicalId, ...]:
        rows = self._db.all(
            "SELECT DISTINCT source FROM edge WHERE context = ? AND source > ? AND ((added = ? AND removed = ?) OR "
            "(removed = ? AND id IN (SELECT id FROM removal WHERE run = ? AND kind = 'edge'))) ORDER BY source LIMIT ?",
            (slug, after, number, OPEN, OPEN, run, limit),
        )
        return tuple(row[0] for row in rows)

    def wanted_in(
        self, slug: ContextSlug, run: RunId, paths: Sequence[SourcePath], kind: str
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED} AND kind = ?".format("statement")
        return self._each(StatementRow, where, (slug, OPEN, run, "statement", kind), "path", paths, "path, seq, id")

    def moved(self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int) -> tuple[StatementRow, ...]:
        where = (
            "context = ? AND id > ? AND ((added = ? AND removed = ?) OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'statement')))"
        )
        values = (slug, after, number, OPEN, OPEN, run)
        return tuple(self._select(StatementRow, where, values, f"id LIMIT {int(limit)}"))

    def page_statements(
        self, slug: ContextSlug, version: int, kind: str, after: str, limit: int
    ) -> tuple[StatementRow, ...]:
        where = f"context = ? AND kind = ? AND {_SEEN} AND id > ?"
        return tuple(self._select(StatementRow, where, (slug, kind, version, version, after), f"id LIMIT {int(limit)}"))

    # ---- names and their blocking keys

    def key_names(self, slug: ContextSlug, type_: str, rows: Iterable[tuple[str, str]]) -> None:
        self._db.many(
            "INSERT INTO name_key (context, type, key, name) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(slug, type_, key, name) for key, name in rows],
        )

    def linked_names(self, slug: ContextSlug, type_: str, names: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(names):
            rows = self._db.all(
                "SELECT DISTINCT other.name FROM name_key mine JOIN name_key other ON other.context = mine.context AND "
                "other.type = mine.type AND other.key = mine.key WHERE mine.context = ? AND mine.type = ? "
                f"AND mine.name IN ({marks(len(part))})",
                (slug, type_, *part),
            )
            found.update(row[0] for row in rows)
        return frozenset(found)

    def names_with(self, slug: ContextSlug, type_: str, keys: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(keys):
            where = f"context = ? AND type = ? AND key IN ({marks(len(part))})"
            rows = self._db.all(f"SELECT DISTINCT name FROM name_key WHERE {where}", (slug, type_, *part))
            found.update(row[0] for row in rows)
        return frozenset(found)

    def forget_names(self, slug: ContextSlug) -> None:
        self._db.run(
            "DELETE FROM name_key WHERE context = ? AND NOT EXISTS (SELECT 1 FROM statement s WHERE "
            "s.context = name_key.context AND s.type = name_key.type AND s.name = name_key.name)",
            (slug,),
        )

    def visit(self, run: RunId, type_: str, names: Sequence[str]) -> None:
        self._db.many(
            "INSERT INTO visited (run, type, name) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(run, type_, name) for name in names],
        )

    def unvisited(self, run: RunId, type_: str, names: Sequence[str]) -> tuple[str, ...]:
        seen: set[str] = set()
        for part in blocks(names):
            rows = self._db.all(
                f"SELECT name FROM visited WHERE run = ? AND type = ? AND name IN ({marks(len(part))})",
                (run, type_, *part),
            )
            seen.update(row[0] for row in rows)
        return tuple(name for name in names if name not in seen)

    # ---- subjects and members

    def subjects_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]:
        return self._each(SubjectRow, "context = ? AND removed = ?", (slug, OPEN), "id", ids)

    def subjects_wanted(self, slug: ContextSlug, run: RunId, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED}".format("subject")
        return self._each(SubjectRow, where, (slug, OPEN, run, "subject"), "id", ids)

    def members_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[MemberRow, ...]:
        return self._each(MemberRow, "context = ? AND removed = ?", (slug, OPEN), "id", statements)

    def members_of(self, slug: ContextSlug, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]:
        return self._each(MemberRow, "context = ? AND removed = ?", (slug, OPEN), "subject", subjects)

    def statements_of(
        self, slug: ContextSlug, run: RunId, subjects: Sequence[LogicalId]
    ) -> dict[LogicalId, list[StatementRow]]:
        columns = ", ".join(f"s.{c}" for c in _COLUMNS[StatementRow][1].split(", "))
        found: dict[LogicalId, list[StatementRow]] = {}
        for part in blocks(subjects):
            rows = self._db.all(
                f"SELECT m.subject, {columns} FROM member m JOIN statement s ON s.context = m.context AND s.id = m.id AND "
                f"s.removed = {OPEN} AND {_UNPLANNED.format('s')} WHERE m.context = ? AND m.removed = ? AND "
                f"{_UNPLANNED.format('m')} AND m.subject IN ({marks(len(part))}) ORDER BY m.subject, s.path, s.seq, s.id",
                (run, "statement", slug, OPEN, run, "member", *part),
            )
            for row in rows:
                found.setdefault(row[0], []).append(StatementRow(*row[1:]))
        return found

    def orphans(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[MemberRow, ...]:
        where = (
            f"context = ? AND removed = ? AND id > ? AND NOT EXISTS (SELECT 1 FROM statement s WHERE "
            f"s.context = member.context AND s.id = member.id AND s.removed = {OPEN} AND {_UNPLANNED.format('s')})"
        )
        return tuple(self._select(MemberRow, where, (slug, OPEN, after, run, "statement"), f"id LIMIT {int(limit)}"))

    def subject_ids_wanted(self, slug: ContextSlug, run: RunId, after: str, limit: int) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED} AND id > ?".format("subject")
        return tuple(self._select(SubjectRow, where, (slug, OPEN, run, "subject", after), f"id LIMIT {int(limit)}"))

    def members_wanted(self, slug: ContextSlug, run: RunId, statements: Sequence[str]) -> tuple[MemberRow, ...]:
        where = f"context = ? AND removed = ? AND {_UNPLANNED}".format("member")
        return self._each(MemberRow, where, (slug, OPEN, run, "member"), "id", statements)

    def member_paths_moved(
        self, slug: ContextSlug, run: RunId, number: int, after: str, limit: int
    ) -> tuple[SourcePath, ...]:
        rows = self._db.all(
            "SELECT DISTINCT path FROM member WHERE context = ? AND path > ? AND ((added = ? AND removed = ?) OR "
            "(removed = ? AND id IN (SELECT id FROM removal WHERE run = ? AND kind = 'member'))) "
            "ORDER BY path LIMIT ?",
            (slug, after, number, OPEN, OPEN, run, limit),
        )
        return tuple(row[0] for row in rows)

    def best_subjects(
        self, slug: ContextSlug, run: RunId, type_: str, least: int, after: tuple[int, int, str] | None, limit: int
    ) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND type = ? AND removed = ? AND {_UNPLANNED} AND documents >= ?".format("subject")
        values: tuple[object, ...] = (slug, type_, OPEN, run, "subject", least)
        if after is not None:
            where += " AND (documents < ? OR (documents = ? AND (mentions < ? OR (mentions = ? AND id > ?))))"
            values = (*values, after[0], after[0], after[1], after[1], after[2])
        return tuple(self._select(SubjectRow, where, values, f"documents DESC, mentions DESC, id LIMIT {int(limit)}"))

    def page_subjects(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND {_SEEN} AND id > ?"
        return tuple(self._select(SubjectRow, where, (slug, version, version, after), f"id LIMIT {int(limit)}"))

    def members_at(self, slug: ContextSlug, version: int, subjects: Sequence[LogicalId]) -> tuple[MemberRow, ...]:
        return self._each(MemberRow, f"context = ? AND {_SEEN}", (slug, version, version), "subject", subjects)

    # ---- artifacts

    def artifacts_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        return self._each(ArtifactRow, "context = ? AND removed = ?", (slug, OPEN), "id", ids)

    def artifacts_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        return self._each(ArtifactRow, f"context = ? AND {_SEEN}", (slug, version, version), "id", ids)

    def page_wanted_artifacts(
        self, slug: ContextSlug, run: RunId, after: tuple[str, str, str], limit: int, *, format_: str = ""
    ) -> tuple[ArtifactRow, ...]:
        where = (
            f"context = ? AND removed = ? AND {_UNPLANNED} AND (? = '' OR format = ?) "
            "AND (type > ? OR (type = ? AND (name > ? OR (name = ? AND id > ?))))"
        ).format("artifact")
        type_, name, id_ = after
        values = (slug, OPEN, run, "artifact", format_, format_, type_, type_, name, name, id_)
        return tuple(self._select(ArtifactRow, where, values, f"type, name, id LIMIT {int(limit)}"))

    def page_artifacts(
        self, slug: ContextSlug, version: int, after: tuple[str, str, str], limit: int
    ) -> tuple[ArtifactRow, ...]:
        where = f"context = ? AND {_SEEN} AND (type > ? OR (type = ? AND (name > ? OR (name = ? AND id > ?))))"
        type_, name, id_ = after
        values = (slug, version, version, type_, type_, name, name, id_)
        return tuple(self._select(ArtifactRow, where, values, f"type, name, id LIMIT {int(limit)}"))

    def artifacts_named(self, slug: ContextSlug, version: int, names: Sequence[str]) -> tuple[ArtifactRow, ...]:
        return self._each(
            ArtifactRow, f"context = ? AND {_SEEN}", (slug, version, version), "name", names, "type, name, id"
        )

    def formats_moved(self, slug: ContextSlug, run: RunId, number: int, format_: str) -> bool:
        row = self._db.one(
            "SELECT 1 FROM artifact WHERE context = ? AND format = ? AND (added = ? OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'artifact'))) LIMIT 1",
            (slug, format_, number, OPEN, run),
        )
        return row is not None

    def count_artifacts(self, slug: ContextSlug, number: int, base: int) -> dict[tuple[str, bool], int]:
        rows = self._db.all(
            "SELECT scope, CASE WHEN EXISTS (SELECT 1 FROM artifact o WHERE o.context = a.context AND o.id = a.id AND "
            "o.added <= ? AND o.removed > ?) THEN 1 ELSE 0 END AS had, COUNT(*) FROM artifact a "
            "WHERE context = ? AND added = ? GROUP BY scope, had",
            (base, base, slug, number),
        )
        return {(row[0], bool(row[1])): int(row[2]) for row in rows}

    # ---- edges

    def edges_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[EdgeRow, ...]:
        return self._each(EdgeRow, "context = ? AND removed = ?", (slug, OPEN), "id", statements)

    def edges_in(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[EdgeRow, ...]:
        return self._each(EdgeRow, "context = ? AND removed = ?", (slug, OPEN), "path", paths)

    def edges_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND {_SEEN}"
        both = [
            row
            for column in ("source", "target")
            for row in self._each(EdgeRow, where, (slug, version, version), column, ids)
        ]
        return tuple(sorted(set(both), key=lambda row: (row.type, row.source, row.target, row.path, row.id)))

    def page_edges(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND {_SEEN} AND id > ?"
        return tuple(self._select(EdgeRow, where, (slug, version, version, after), f"id LIMIT {int(limit)}"))

    def count_edges(self, slug: ContextSlug, number: int) -> int:
        row = self._db.one(
            "SELECT COUNT(*) FROM (SELECT DISTINCT type, source, target FROM edge WHERE context = ? AND added = ?) e",
            (slug, number),
        )
        return int(row[0]) if row else 0

    def dangling(self, slug: ContextSlug, run: RunId) -> tuple[str, ...]:
        there = f"EXISTS (SELECT 1 FROM artifact a WHERE a.context = edge.context AND a.id = edge.{{0}} AND a.removed = ? AND {_UNPLANNED.format('a')})"
        rows = self._db.all(
            f"SELECT id FROM edge WHERE context = ? AND removed = ? AND {_UNPLANNED.format('edge')} AND NOT "
            f"({there.format('source')} AND {there.format('target')}) ORDER BY id LIMIT 10",
            (slug, OPEN, run, "edge", OPEN, run, "artifact", OPEN, run, "artifact"),
        )
        return tuple(row[0] for row in rows)

    # ---- decisions and spending

    def decide(self, slug: ContextSlug, row: DecisionRow) -> None:
        self._db.run(
            f"INSERT INTO decision (context, {_DECISION}) VALUES ({marks(10)}) ON CONFLICT (context, id) DO UPDATE SET "
            "at = excluded.at, made_by = excluded.made_by, applied = 0, withdrawn = excluded.withdrawn",
            (slug, row.id, row.kind, row.type, row.left, row.right, row.at, row.by, row.applied, int(row.withdrawn)),
        )

    def decisions(self, slug: ContextSlug) -> tuple[DecisionRow, ...]:
        rows = self._db.all(f"SELECT {_DECISION} FROM decision WHERE context = ? ORDER BY at, id", (slug,))
        return tuple(DecisionRow(*(*row[:8], bool(row[8]))) for row in rows)

    def apply_decisions(self, slug: ContextSlug, ids: Sequence[str], number: int) -> None:
        for part in blocks(ids):
            where = f"context = ? AND id IN ({marks(len(part))})"
            self._db.run(f"DELETE FROM decision WHERE withdrawn = 1 AND {where}", (slug, *part))
            self._db.run(f"UPDATE decision SET applied = ? WHERE applied = 0 AND {where}", (number, slug, *part))

    def spend(self, run: RunId, row: SpendRow) -> None:
        self._db.run(
            "INSERT INTO spend (run, model, tier, calls, prompt, completion, cache_read, cache_write) "
            f"VALUES ({marks(8)}) ON CONFLICT (run, model, tier) DO UPDATE SET calls = spend.calls + excluded.calls, "
            "prompt = spend.prompt + excluded.prompt, completion = spend.completion + excluded.completion, "
            "cache_read = spend.cache_read + excluded.cache_read, cache_write = spend.cache_write + excluded.cache_write",
            (run, row.model, row.tier, row.calls, row.prompt, row.completion, row.cache_read, row.cache_write),
        )

    def spent(self, run: RunId) -> tuple[SpendRow, ...]:
        rows = self._db.all(
            "SELECT model, tier, calls, prompt, completion, cache_read, cache_write FROM spend WHERE run = ? "
            "ORDER BY model, tier",
            (run,),
        )
        return tuple(SpendRow(*row) for row in rows)


_UNPLANNED = (
    "NOT EXISTS (SELECT 1 FROM removal WHERE removal.run = ? AND removal.kind = ? AND removal.id = {0}.id "
    "AND {0}.added < (SELECT number FROM run WHERE run.id = removal.run))"
)
"""An open row that the run doesn't remove: rows that it adds itself stay, also under an id that it removes."""
