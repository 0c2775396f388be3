"""What the artifact leg knows, over SQL: artifacts, edges, decisions, spending; and all of `ledger.Knowledge`."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.adapters.ledger_database import blocks, marks
from pipeline.adapters.ledger_sql_intervals import SEEN, UNPLANNED
from pipeline.adapters.ledger_sql_statements import Statements
from pipeline.rows import ArtifactRow, DecisionRow, EdgeRow, FileRow, SpendRow, SubjectRow
from pipeline.types import OPEN, ContextSlug, LogicalId, RunId, SourcePath

_DECISION = "id, kind, type, name_left, name_right, at, made_by, applied, withdrawn"


class SqlKnowledge(Statements):
    """`ledger.Knowledge`."""

    # ---- artifacts

    def artifacts_open(self, slug: ContextSlug, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        return self.each(ArtifactRow, "context = ? AND removed = ?", (slug, OPEN), "id", ids)

    def artifacts_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[ArtifactRow, ...]:
        return self.each(ArtifactRow, f"context = ? AND {SEEN}", (slug, version, version), "id", ids)

    def page_wanted_artifacts(
        self, slug: ContextSlug, run: RunId, after: tuple[str, str, str], limit: int, *, format_: str = ""
    ) -> tuple[ArtifactRow, ...]:
        where = (
            f"context = ? AND removed = ? AND {UNPLANNED} AND (? = '' OR format = ?) "
            "AND (type > ? OR (type = ? AND (name > ? OR (name = ? AND id > ?))))"
        ).format("artifact")
        type_, name, id_ = after
        values = (slug, OPEN, run, "artifact", format_, format_, type_, type_, name, name, id_)
        return tuple(self.select(ArtifactRow, where, values, f"type, name, id LIMIT {int(limit)}"))

    def page_artifacts(
        self, slug: ContextSlug, version: int, after: tuple[str, str, str], limit: int, *, format_: str = ""
    ) -> tuple[ArtifactRow, ...]:
        where = (
            f"context = ? AND {SEEN} AND (? = '' OR format = ?) "
            "AND (type > ? OR (type = ? AND (name > ? OR (name = ? AND id > ?))))"
        )
        type_, name, id_ = after
        values = (slug, version, version, format_, format_, type_, type_, name, name, id_)
        return tuple(self.select(ArtifactRow, where, values, f"type, name, id LIMIT {int(limit)}"))

    def artifacts_named(self, slug: ContextSlug, version: int, names: Sequence[str]) -> tuple[ArtifactRow, ...]:
        return self.each(
            ArtifactRow, f"context = ? AND {SEEN}", (slug, version, version), "name", names, "type, name, id"
        )

    def subjects_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[SubjectRow, ...]:
        return self.each(SubjectRow, f"context = ? AND {SEEN}", (slug, version, version), "id", ids)

    def page_named_subjects(
        self, slug: ContextSlug, version: int, after: tuple[str, str, str], limit: int
    ) -> tuple[SubjectRow, ...]:
        where = f"context = ? AND {SEEN} AND (type > ? OR (type = ? AND (name > ? OR (name = ? AND id > ?))))"
        type_, name, id_ = after
        values = (slug, version, version, type_, type_, name, name, id_)
        return tuple(self.select(SubjectRow, where, values, f"type, name, id LIMIT {int(limit)}"))

    def file_at(self, slug: ContextSlug, version: int, path: str) -> FileRow | None:
        row = self.db.one(
            f"SELECT path, source, blob, size, added, removed FROM file WHERE context = ? AND {SEEN} AND path = ?",
            (slug, version, version, path),
        )
        return FileRow(*row) if row else None

    def formats_moved(self, slug: ContextSlug, run: RunId, number: int, format_: str) -> bool:
        row = self.db.one(
            "SELECT 1 FROM artifact WHERE context = ? AND format = ? AND (added = ? OR (removed = ? AND id IN "
            "(SELECT id FROM removal WHERE run = ? AND kind = 'artifact'))) LIMIT 1",
            (slug, format_, number, OPEN, run),
        )
        return row is not None

    def count_artifacts(self, slug: ContextSlug, number: int, base: int) -> dict[tuple[str, bool], int]:
        rows = self.db.all(
            "SELECT scope, CASE WHEN EXISTS (SELECT 1 FROM artifact o WHERE o.context = a.context AND o.id = a.id AND "
            "o.added <= ? AND o.removed > ?) THEN 1 ELSE 0 END AS had, COUNT(*) FROM artifact a "
            "WHERE context = ? AND added = ? GROUP BY scope, had",
            (base, base, slug, number),
        )
        return {(row[0], bool(row[1])): int(row[2]) for row in rows}

    # ---- edges

    def edges_open(self, slug: ContextSlug, statements: Sequence[str]) -> tuple[EdgeRow, ...]:
        return self.each(EdgeRow, "context = ? AND removed = ?", (slug, OPEN), "id", statements)

    def edges_in(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[EdgeRow, ...]:
        return self.each(EdgeRow, "context = ? AND removed = ?", (slug, OPEN), "path", paths)

    def edges_at(self, slug: ContextSlug, version: int, ids: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND {SEEN}"
        both = [
            row
            for column in ("source", "target")
            for row in self.each(EdgeRow, where, (slug, version, version), column, ids)
        ]
        return tuple(sorted(set(both), key=lambda row: (row.type, row.source, row.target, row.path, row.id)))

    def page_edges_of(
        self, slug: ContextSlug, version: int, artifact: LogicalId, after: str, limit: int
    ) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND {SEEN} AND (source = ? OR target = ?) AND id > ?"
        values = (slug, version, version, artifact, artifact, after)
        return tuple(self.select(EdgeRow, where, values, f"id LIMIT {int(limit)}"))

    def page_edges(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[EdgeRow, ...]:
        where = f"context = ? AND {SEEN} AND id > ?"
        return tuple(self.select(EdgeRow, where, (slug, version, version, after), f"id LIMIT {int(limit)}"))

    def count_edges(self, slug: ContextSlug, number: int) -> int:
        row = self.db.one(
            "SELECT COUNT(*) FROM (SELECT DISTINCT type, source, target FROM edge WHERE context = ? AND added = ?) e",
            (slug, number),
        )
        return int(row[0]) if row else 0

    def dangling(self, slug: ContextSlug, run: RunId) -> tuple[str, ...]:
        there = f"EXISTS (SELECT 1 FROM artifact a WHERE a.context = edge.context AND a.id = edge.{{0}} AND a.removed = ? AND {UNPLANNED.format('a')})"
        rows = self.db.all(
            f"SELECT id FROM edge WHERE context = ? AND removed = ? AND {UNPLANNED.format('edge')} AND NOT "
            f"({there.format('source')} AND {there.format('target')}) ORDER BY id LIMIT 10",
            (slug, OPEN, run, "edge", OPEN, run, "artifact", OPEN, run, "artifact"),
        )
        return tuple(row[0] for row in rows)

    # ---- decisions and spending

    def decide(self, slug: ContextSlug, row: DecisionRow) -> None:
        self.db.run(
            f"INSERT INTO decision (context, {_DECISION}) VALUES ({marks(10)}) ON CONFLICT (context, id) DO UPDATE SET "
            "at = excluded.at, made_by = excluded.made_by, applied = 0, withdrawn = excluded.withdrawn",
            (slug, row.id, row.kind, row.type, row.left, row.right, row.at, row.by, row.applied, int(row.withdrawn)),
        )

    def decisions(self, slug: ContextSlug) -> tuple[DecisionRow, ...]:
        rows = self.db.all(f"SELECT {_DECISION} FROM decision WHERE context = ? ORDER BY at, id", (slug,))
        return tuple(DecisionRow(*(*row[:8], bool(row[8]))) for row in rows)

    def apply_decisions(self, slug: ContextSlug, ids: Sequence[str], number: int) -> None:
        for part in blocks(ids):
            where = f"context = ? AND id IN ({marks(len(part))})"
            self.db.run(f"DELETE FROM decision WHERE withdrawn = 1 AND {where}", (slug, *part))
            self.db.run(f"UPDATE decision SET applied = ? WHERE applied = 0 AND {where}", (number, slug, *part))

    def set_withdrawn(self, slug: ContextSlug, decision: str, withdrawn: bool) -> None:  # noqa: FBT001 - the column
        self.db.run("UPDATE decision SET withdrawn = ? WHERE context = ? AND id = ?", (int(withdrawn), slug, decision))

    def drop_decision(self, slug: ContextSlug, decision: str) -> None:
        self.db.run("DELETE FROM decision WHERE context = ? AND id = ?", (slug, decision))

    def spend(self, run: RunId, row: SpendRow) -> None:
        self.db.run(
            "INSERT INTO spend (run, model, tier, calls, prompt, completion, cache_read, cache_write) "
            f"VALUES ({marks(8)}) ON CONFLICT (run, model, tier) DO UPDATE SET calls = spend.calls + excluded.calls, "
            "prompt = spend.prompt + excluded.prompt, completion = spend.completion + excluded.completion, "
            "cache_read = spend.cache_read + excluded.cache_read, cache_write = spend.cache_write + excluded.cache_write",
            (run, row.model, row.tier, row.calls, row.prompt, row.completion, row.cache_read, row.cache_write),
        )

    def spent(self, run: RunId) -> tuple[SpendRow, ...]:
        rows = self.db.all(
            "SELECT model, tier, calls, prompt, completion, cache_read, cache_write FROM spend WHERE run = ? "
            "ORDER BY model, tier",
            (run,),
        )
        return tuple(SpendRow(*row) for row in rows)
