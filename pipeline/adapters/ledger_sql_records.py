"""Records, their intervals and their term counts over SQL. Sources, files and versions stand in the next module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipeline.adapters.ledger_database import Database, blocks, marks
from pipeline.errors import Corruption
from pipeline.rows import BLOBS, RecordRow
from pipeline.types import OPEN, ContextSlug, LogicalId, Namespace, RecordId, RunId, SourcePath

_RECORD = "id, logical_id, path, position, content, namespace, added, removed, copy_of"
_SEEN = "added <= ? AND removed > ?"
_KEYED = {
    "record": "id", "source": "path", "file": "path",
    "statement": "id", "subject": "id", "member": "id", "artifact": "id", "edge": "id",
}  # fmt: skip
"""The tables with version intervals, and the column by which a removal names an open row."""
_BY_SOURCE = {"record": "path", "source": "path", "file": "source", "statement": "path"}
"""Those that one source alone decides about, and the column that names it."""


class SqlRecords:
    """`ledger.Records`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def _select(self, where: str, values: Sequence[object], order: str = "path, position") -> tuple[RecordRow, ...]:
        return tuple(
            RecordRow(*row)
            for row in self._db.all(f"SELECT {_RECORD} FROM record WHERE {where} ORDER BY {order}", values)
        )

    def _for_paths(self, where: str, values: Sequence[object], paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]:
        out: list[RecordRow] = []
        for part in blocks(paths):
            out += self._select(f"{where} AND path IN ({marks(len(part))})", (*values, *part))
        return tuple(out)

    def add(self, slug: ContextSlug, rows: Sequence[RecordRow]) -> None:
        self._db.many(
            f"INSERT INTO record (context, {_RECORD}) VALUES ({marks(10)}) ON CONFLICT DO NOTHING",
            [
                (slug, r.id, r.logical_id, r.path, r.position, r.content, r.namespace, r.added, r.removed, r.copy_of)
                for r in rows
            ],
        )

    def open_for(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]:
        return self._for_paths("context = ? AND removed = ?", (slug, OPEN), paths)

    def at_for(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]:
        return self._for_paths(f"context = ? AND {_SEEN}", (slug, version, version), paths)

    def added_for(self, slug: ContextSlug, number: int, paths: Sequence[SourcePath]) -> tuple[RecordRow, ...]:
        return self._for_paths("context = ? AND added = ?", (slug, number), paths)

    def diverged(self, slug: ContextSlug, live: int) -> tuple[SourcePath, ...]:
        found: set[SourcePath] = set()
        for table, column in _BY_SOURCE.items():
            rows = self._db.all(
                f"SELECT DISTINCT {column} FROM {table} WHERE context = ? AND added > ? AND removed = ? UNION "
                f"SELECT DISTINCT {column} FROM {table} WHERE context = ? AND added <= ? AND removed > ? AND removed < {OPEN}",
                (slug, live, OPEN, slug, live, live),
            )
            found.update(row[0] for row in rows)
        return tuple(sorted(found))

    def listed(self, slug: ContextSlug, version: int, ids: Sequence[RecordId]) -> dict[RecordId, LogicalId]:
        found: dict[RecordId, LogicalId] = {}
        for part in blocks(ids):
            found.update(
                self._db.all(
                    f"SELECT id, logical_id FROM record WHERE context = ? AND {_SEEN} AND id IN ({marks(len(part))})",
                    (slug, version, version, *part),
                )
            )
        return found

    def get(self, slug: ContextSlug, ids: Sequence[RecordId]) -> tuple[RecordRow, ...]:
        out: list[RecordRow] = []
        for part in blocks(ids):
            out += self._select(f"context = ? AND id IN ({marks(len(part))})", (slug, *part))
        return tuple(out)

    def page_added(self, slug: ContextSlug, number: int, after: str, limit: int) -> tuple[RecordRow, ...]:
        return self._select("context = ? AND added = ? AND id > ?", (slug, number, after), f"id LIMIT {int(limit)}")

    def page_removed(self, slug: ContextSlug, number: int, after: str, limit: int) -> tuple[RecordRow, ...]:
        where = f"context = ? AND removed = ? AND removed < {OPEN} AND id > ?"
        return self._select(where, (slug, number, after), f"id LIMIT {int(limit)}")

    def plans_anything(self, slug: ContextSlug, run: RunId, number: int) -> bool:
        found = [self._db.one("SELECT 1 FROM removal WHERE run = ? LIMIT 1", (run,))]
        found += [
            self._db.one(f"SELECT 1 FROM {table} WHERE context = ? AND added = ? LIMIT 1", (slug, number))
            for table in _KEYED
        ]
        return any(row is not None for row in found)

    def page_planned(self, run: RunId, after: str, limit: int) -> tuple[RecordRow, ...]:
        where = (
            "context = (SELECT context FROM run WHERE id = ?) AND id IN "
            f"(SELECT id FROM removal WHERE run = ? AND kind = 'record' AND id > ? ORDER BY id LIMIT {int(limit)})"
        )
        return self._select(where, (run, run, after), "id")

    def planned(self, run: RunId, ids: Sequence[RecordId]) -> frozenset[RecordId]:
        found: set[RecordId] = set()
        for part in blocks(ids):
            rows = self._db.all(
                f"SELECT id FROM removal WHERE run = ? AND kind = 'record' AND id IN ({marks(len(part))})", (run, *part)
            )
            found.update(RecordId(row[0]) for row in rows)
        return frozenset(found)

    def count_wanted(self, slug: ContextSlug, run: RunId) -> int:
        row = self._db.one(
            "SELECT (SELECT COUNT(*) FROM record WHERE context = ? AND removed = ?) "
            "- (SELECT COUNT(*) FROM removal WHERE run = ? AND kind = 'record')",
            (slug, OPEN, run),
        )
        return int(row[0]) if row else 0

    def page_at(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[RecordRow, ...]:
        return self._select(
            f"context = ? AND {_SEEN} AND id > ?", (slug, version, version, after), f"id LIMIT {int(limit)}"
        )

    def page_between(self, slug: ContextSlug, seen: int, unseen: int, after: str, limit: int) -> tuple[RecordRow, ...]:
        return self._select(
            f"context = ? AND {_SEEN} AND NOT ({_SEEN}) AND id > ?",
            (slug, seen, seen, unseen, unseen, after),
            f"id LIMIT {int(limit)}",
        )

    def count_between(self, slug: ContextSlug, seen: int, unseen: int) -> int:
        row = self._db.one(
            f"SELECT COUNT(*) FROM record WHERE context = ? AND {_SEEN} AND NOT ({_SEEN})",
            (slug, seen, seen, unseen, unseen),
        )
        return int(row[0]) if row else 0

    def page_added_under(
        self, slug: ContextSlug, number: int, prefix: str, skip: int, limit: int
    ) -> tuple[RecordRow, ...]:
        where = "context = ? AND added = ? AND path LIKE ?"
        order = f"id LIMIT {int(limit)} OFFSET {int(skip)}"
        return self._select(where, (slug, number, prefix + "%"), order)

    def count_added(self, slug: ContextSlug, number: int) -> int:
        row = self._db.one("SELECT COUNT(*) FROM record WHERE context = ? AND added = ?", (slug, number))
        return int(row[0]) if row else 0

    def openings(self, slug: ContextSlug, version: int, limit: int) -> tuple[RecordRow, ...]:
        where = f"context = ? AND {_SEEN} AND position <= 1"
        return self._select(where, (slug, version, version), f"id LIMIT {int(limit)}")

    def unplan(self, slug: ContextSlug, run: RunId, number: int, paths: Sequence[SourcePath]) -> None:
        for part in blocks(paths):
            for kind, column in _BY_SOURCE.items():
                if kind != "statement":  # extraction plans those, in a unit of its own
                    self._unplan(slug, run, number, kind, f"{column} IN ({marks(len(part))})", part)

    def unplan_statements(self, slug: ContextSlug, run: RunId, number: int, paths: Sequence[SourcePath]) -> None:
        for part in blocks(paths):
            self._unplan(slug, run, number, "statement", f"path IN ({marks(len(part))})", part)

    def unplan_sources(self, slug: ContextSlug, run: RunId, number: int, paths: Sequence[SourcePath]) -> None:
        for part in blocks(paths):
            self._unplan(slug, run, number, "source", f"path IN ({marks(len(part))})", part)

    def unplan_reduced(self, slug: ContextSlug, run: RunId, number: int) -> None:
        for kind in ("subject", "member", "artifact", "edge"):
            self._unplan(slug, run, number, kind, "1 = 1", ())
        for kind in ("record", "file"):
            self._unplan(slug, run, number, kind, f"{_BY_SOURCE[kind]} LIKE '/%'", ())
        self._db.run("DELETE FROM visited WHERE run = ?", (run,))

    def _unplan(
        self, slug: ContextSlug, run: RunId, number: int, kind: str, which: str, values: Sequence[object]
    ) -> None:
        self._db.run(f"DELETE FROM {kind} WHERE context = ? AND added = ? AND {which}", (slug, number, *values))
        self._db.run(
            f"DELETE FROM removal WHERE run = ? AND kind = ? AND id IN (SELECT {_KEYED[kind]} FROM {kind} "
            f"WHERE context = ? AND removed = ? AND {which})",
            (run, kind, slug, OPEN, *values),
        )

    def plan_removals(self, run: RunId, kind: str, ids: Iterable[str]) -> None:
        assert kind in _KEYED
        self._db.many(
            "INSERT INTO removal (run, kind, id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", [(run, kind, i) for i in ids]
        )

    def stamp_planned(self, slug: ContextSlug, run: RunId, number: int) -> None:
        for kind, column in _KEYED.items():
            stamped = self._db.run(
                f"UPDATE {kind} SET removed = ? WHERE context = ? AND removed = ? AND added < ? AND {column} IN "
                "(SELECT id FROM removal WHERE run = ? AND kind = ?)",
                (number, slug, OPEN, number, run, kind),
            )
            planned = self._db.one("SELECT COUNT(*) FROM removal WHERE run = ? AND kind = ?", (run, kind))
            if planned is None or stamped != planned[0]:
                raise Corruption(
                    "removed_twice", f"run {run} plans to remove {kind} rows of {slug} that are not open any more"
                )

    def delist_additions(self, slug: ContextSlug, number: int, now: float) -> None:
        self._delist(slug, "added = ?", (number,), now)

    def reclaim(self, slug: ContextSlug, recorded: int, now: float) -> int:
        unseen = (
            f"removed < {OPEN} AND NOT EXISTS (SELECT 1 FROM version v WHERE v.context = {{0}}.context "
            "AND v.readable = 1 AND v.number >= {0}.added AND v.number < {0}.removed)"
        )
        # What a version was made of outlives it, as a recording: an inventory row tells no reader anything.
        purged = (
            "EXISTS (SELECT 1 FROM purge p WHERE p.context = {0}.context AND p.path = {0}.path AND {0}.added <= p.upto)"
        )
        which = f"{unseen} AND (removed <= {int(recorded)} OR {purged})"
        return self._delist(slug, unseen, (), now, sources=which)

    def _delist(self, slug: ContextSlug, which: str, values: Sequence[object], now: float, *, sources: str = "") -> int:
        """Turn rows into tombstones and forget them. `{0}` in `which` stands for the table's name.

        Args:
            slug: the context.
            which: the condition, of all tables.
            values: of its marks.
            now: when.
            sources: the condition of source rows, where that is another one.
        """
        self._db.run(
            "INSERT INTO tombstone (context, id, namespace, since) SELECT context, id, namespace, ? FROM record "
            f"WHERE context = ? AND {which.format('record')} ON CONFLICT DO NOTHING",
            (now, slug, *values),
        )
        self._db.run(
            f"INSERT INTO tombstone (context, id, namespace, since) SELECT DISTINCT context, blob, '{BLOBS}', CAST(? AS "
            f"DOUBLE PRECISION) FROM file WHERE context = ? AND {which.format('file')} ON CONFLICT DO NOTHING",
            (now, slug, *values),
        )
        records = 0
        for table in _KEYED:
            these = sources or which if table == "source" else which
            gone = self._db.run(f"DELETE FROM {table} WHERE context = ? AND {these.format(table)}", (slug, *values))
            records = gone if table == "record" else records
        return records

    def tombstones(self, slug: ContextSlug, after: str, limit: int) -> tuple[tuple[Namespace, RecordId], ...]:
        rows = self._db.all(
            "SELECT namespace, id FROM tombstone t WHERE context = ? AND id > ? "
            "AND NOT EXISTS (SELECT 1 FROM record r WHERE r.context = t.context AND r.id = t.id) "
            "AND NOT EXISTS (SELECT 1 FROM file f WHERE f.context = t.context AND f.blob = t.id) ORDER BY id LIMIT ?",
            (slug, after, limit),
        )
        return tuple((row[0], row[1]) for row in rows)

    def drop_tombstones(self, slug: ContextSlug, before: float) -> None:
        self._db.run("DELETE FROM tombstone WHERE context = ? AND since < ?", (slug, before))

    def namespaces(self, slug: ContextSlug) -> tuple[Namespace, ...]:
        rows = self._db.all(
            "SELECT DISTINCT namespace FROM record WHERE context = ? UNION "
            f"SELECT DISTINCT namespace FROM tombstone WHERE context = ? AND namespace <> '{BLOBS}'",
            (slug, slug),
        )
        return tuple(sorted(row[0] for row in rows))

    def add_counts(self, slug: ContextSlug, generation: int, number: int, deltas: Iterable[tuple[int, int]]) -> None:
        self._db.many(
            "INSERT INTO term_count (context, generation, term, version, delta) VALUES (?, ?, ?, ?, ?)",
            ((slug, generation, term, number, delta) for term, delta in deltas if delta),
        )

    def counts(self, slug: ContextSlug, generation: int, version: int, terms: Sequence[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        for part in blocks(terms):
            rows = self._db.all(
                "SELECT term, SUM(delta) FROM term_count WHERE context = ? AND generation = ? AND version <= ? "
                f"AND term IN ({marks(len(part))}) GROUP BY term",
                (slug, generation, version, *part),
            )
            found.update((int(term), int(total)) for term, total in rows)
        return found

    def visible(self, slug: ContextSlug, version: int) -> dict[Namespace, int]:
        rows = self._db.all(
            f"SELECT namespace, COUNT(*) FROM record WHERE context = ? AND {_SEEN} GROUP BY namespace",
            (slug, version, version),
        )
        return {row[0]: int(row[1]) for row in rows}
