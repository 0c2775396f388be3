"""Source states, the cheap-state cache, files, versions and pins over SQL."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.adapters.ledger_database import Database, blocks, marks
from pipeline.rows import FileRow, PinRow, SourceRow, StatRow, VersionRow
from pipeline.types import OPEN, ContextSlug, RunId, SourcePath

_SOURCE = (
    "path, hash, seen_hash, size, mtime_ns, status, code, reason, fingerprint, chunks, curated_at, added, removed, "
    "warnings, artifact_status, artifact_reason, artifact_key"
)
_FILE = "path, source, blob, size, added, removed"
_VERSION = "number, run, generation, manifest, recipe, state, readable, claimed_at, live_at, records"
_SEEN = "added <= ? AND removed > ?"


class SqlSources:
    """`ledger.Sources`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, slug: ContextSlug, rows: Sequence[SourceRow]) -> None:
        self._db.many(
            f"INSERT INTO source (context, {_SOURCE}) VALUES ({marks(18)}) ON CONFLICT DO NOTHING",
            [
                (
                    slug, r.path, r.hash, r.seen_hash, r.size, r.mtime_ns, r.status, r.code, r.reason, r.fingerprint,
                    r.chunks, r.curated_at, r.added, r.removed, r.warnings, r.artifact_status, r.artifact_reason,
                    r.artifact_key,
                )
                for r in rows
            ],
        )  # fmt: skip

    def _for_paths(self, where: str, values: Sequence[object], paths: Sequence[SourcePath]) -> tuple[SourceRow, ...]:
        out: builtins.list[SourceRow] = []
        for part in blocks(paths):
            sql = f"SELECT {_SOURCE} FROM source WHERE context = ? AND {where} AND path IN ({marks(len(part))}) ORDER BY path"
            out += [SourceRow(*row) for row in self._db.all(sql, (*values, *part))]
        return tuple(out)

    def open_for(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> tuple[SourceRow, ...]:
        return self._for_paths("removed = ?", (slug, OPEN), paths)

    def at_for(self, slug: ContextSlug, version: int, paths: Sequence[SourcePath]) -> tuple[SourceRow, ...]:
        return self._for_paths(_SEEN, (slug, version, version), paths)

    def page(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SourceRow, ...]:
        return self._page("1 = 1", slug, version, after, limit)

    def troubled(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SourceRow, ...]:
        return self._page("(status <> 'ok' OR artifact_status = 'errored')", slug, version, after, limit)

    def _page(self, which: str, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[SourceRow, ...]:
        rows = self._db.all(
            f"SELECT {_SOURCE} FROM source WHERE context = ? AND {_SEEN} AND path > ? AND {which} ORDER BY path LIMIT ?",
            (slug, version, version, after, limit),
        )
        return tuple(SourceRow(*row) for row in rows)

    def named(self, slug: ContextSlug, hashes: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(hashes):
            rows = self._db.all(
                f"SELECT DISTINCT hash FROM source WHERE context = ? AND hash IN ({marks(len(part))})", (slug, *part)
            )
            found.update(row[0] for row in rows)
        return frozenset(found)

    def ever(self, slug: ContextSlug, after: str, limit: int) -> tuple[SourcePath, ...]:
        rows = self._db.all(
            "SELECT DISTINCT path FROM source WHERE context = ? AND path > ? ORDER BY path LIMIT ?",
            (slug, after, limit),
        )
        return tuple(SourcePath(row[0]) for row in rows)

    def stats(self, slug: ContextSlug, after: str, limit: int) -> tuple[tuple[SourcePath, StatRow], ...]:
        rows = self._db.all(
            "SELECT path, size, mtime_ns, change_ns, hash, checked_at FROM stat WHERE context = ? AND path > ? "
            "ORDER BY path LIMIT ?",
            (slug, after, limit),
        )
        return tuple((row[0], StatRow(*row[1:])) for row in rows)

    def remember_stats(self, slug: ContextSlug, rows: Mapping[SourcePath, StatRow]) -> None:
        self._db.many(
            "INSERT INTO stat (context, path, size, mtime_ns, change_ns, hash, checked_at) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (context, path) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, "
            "change_ns = excluded.change_ns, hash = excluded.hash, checked_at = excluded.checked_at",
            [(slug, path, r.size, r.mtime_ns, r.change_ns, r.hash, r.checked_at) for path, r in sorted(rows.items())],
        )

    def forget_stats(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> None:
        for part in blocks(paths):
            self._db.run(f"DELETE FROM stat WHERE context = ? AND path IN ({marks(len(part))})", (slug, *part))

    def note_artifacts(self, slug: ContextSlug, run: RunId, number: int, path: SourcePath, reason: str) -> None:
        for row in self.open_for(slug, [path]):
            if row.added < number:
                self.add(slug, [replace(row, added=number)])
                self._db.run(
                    "INSERT INTO removal (run, kind, id) VALUES (?, 'source', ?) ON CONFLICT DO NOTHING", (run, path)
                )
        self._db.run(
            "UPDATE source SET artifact_status = 'errored', artifact_reason = ? WHERE context = ? AND path = ? AND added = ?",
            (reason, slug, path, number),
        )

    def mark_removed(self, slug: ContextSlug, paths: Sequence[SourcePath], version: int, at: float) -> None:
        self._db.many(
            "INSERT INTO source_removed (context, path, version, at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (context, path) DO UPDATE SET version = excluded.version, at = excluded.at",
            [(slug, path, version, at) for path in paths],
        )

    def unmark_removed(self, slug: ContextSlug, paths: Sequence[SourcePath]) -> None:
        for part in blocks(paths):
            self._db.run(
                f"DELETE FROM source_removed WHERE context = ? AND path IN ({marks(len(part))})", (slug, *part)
            )
            self._db.run(
                f"DELETE FROM source_tombstone WHERE context = ? AND path IN ({marks(len(part))})", (slug, *part)
            )

    def bury(self, slug: ContextSlug, hashes: Mapping[SourcePath, str], at: float) -> None:
        self._db.many(
            "INSERT INTO source_tombstone (context, path, hash, at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (context, path) DO UPDATE SET hash = excluded.hash, at = excluded.at",
            [(slug, path, digest, at) for path, digest in hashes.items()],
        )

    def buried(self, slug: ContextSlug, after: str, limit: int) -> tuple[tuple[SourcePath, str], ...]:
        rows = self._db.all(
            "SELECT path, hash FROM source_tombstone WHERE context = ? AND path > ? ORDER BY path LIMIT ?",
            (slug, after, limit),
        )
        return tuple((SourcePath(row[0]), str(row[1])) for row in rows)

    def removed(self, slug: ContextSlug, live: int) -> tuple[tuple[SourcePath, int, float], ...]:
        rows = self._db.all(
            "SELECT path, version, at FROM source_removed r WHERE context = ? AND EXISTS (SELECT 1 FROM source s "
            f"WHERE s.context = r.context AND s.path = r.path AND {_SEEN}) ORDER BY path",
            (slug, live, live),
        )
        return tuple((row[0], int(row[1]), float(row[2])) for row in rows)


class SqlFiles:
    """`ledger.Files`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, slug: ContextSlug, rows: Sequence[FileRow]) -> None:
        self._db.many(
            f"INSERT INTO file (context, {_FILE}) VALUES ({marks(7)}) ON CONFLICT DO NOTHING",
            [(slug, r.path, r.source, r.blob, r.size, r.added, r.removed) for r in rows],
        )

    def _for_sources(self, where: str, values: Sequence[object], sources: Sequence[SourcePath]) -> tuple[FileRow, ...]:
        out: list[FileRow] = []
        for part in blocks(sources):
            sql = f"SELECT {_FILE} FROM file WHERE context = ? AND {where} AND source IN ({marks(len(part))}) ORDER BY path"
            out += [FileRow(*row) for row in self._db.all(sql, (*values, *part))]
        return tuple(out)

    def changed_between(self, slug: ContextSlug, old: int, new: int, after: str, limit: int) -> tuple[FileRow, ...]:
        rows = self._db.all(
            f"SELECT {_FILE} FROM file WHERE context = ? AND ({_SEEN}) <> ({_SEEN}) AND path > ? ORDER BY path LIMIT ?",
            (slug, old, old, new, new, after, limit),
        )
        return tuple(FileRow(*row) for row in rows)

    def open_for(self, slug: ContextSlug, sources: Sequence[SourcePath]) -> tuple[FileRow, ...]:
        return self._for_sources("removed = ?", (slug, OPEN), sources)

    def at_for(self, slug: ContextSlug, version: int, sources: Sequence[SourcePath]) -> tuple[FileRow, ...]:
        return self._for_sources(_SEEN, (slug, version, version), sources)

    def page(self, slug: ContextSlug, version: int, after: str, limit: int) -> tuple[FileRow, ...]:
        rows = self._db.all(
            f"SELECT {_FILE} FROM file WHERE context = ? AND {_SEEN} AND path > ? ORDER BY path LIMIT ?",
            (slug, version, version, after, limit),
        )
        return tuple(FileRow(*row) for row in rows)

    def among(self, slug: ContextSlug, version: int, paths: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(paths):
            sql = f"SELECT path FROM file WHERE context = ? AND {_SEEN} AND path IN ({marks(len(part))})"
            found.update(str(row[0]) for row in self._db.all(sql, (slug, version, version, *part)))
        return frozenset(found)

    def named(self, slug: ContextSlug, blobs: Sequence[str]) -> frozenset[str]:
        found: set[str] = set()
        for part in blocks(blobs):
            rows = self._db.all(
                f"SELECT DISTINCT blob FROM file WHERE context = ? AND blob IN ({marks(len(part))})", (slug, *part)
            )
            found.update(row[0] for row in rows)
        return frozenset(found)


def _version(row: Sequence[object]) -> VersionRow:
    values = list(row)
    values[6] = bool(values[6])
    return VersionRow(*values)  # type: ignore[arg-type]  # columns stand in field order


class SqlVersions:
    """`ledger.Versions`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, slug: ContextSlug, row: VersionRow) -> None:
        self._db.run(
            f"INSERT INTO version (context, {_VERSION}) VALUES ({marks(11)})",
            (
                slug, row.number, row.run, row.generation, row.manifest, row.recipe, row.state, int(row.readable),
                row.claimed_at, row.live_at, row.records,
            ),
        )  # fmt: skip

    def get(self, slug: ContextSlug, number: int) -> VersionRow | None:
        row = self._db.one(f"SELECT {_VERSION} FROM version WHERE context = ? AND number = ?", (slug, number))
        return _version(row) if row else None

    def list(self, slug: ContextSlug) -> tuple[VersionRow, ...]:
        rows = self._db.all(f"SELECT {_VERSION} FROM version WHERE context = ? ORDER BY number DESC", (slug,))
        return tuple(_version(row) for row in rows)

    def set_state(self, slug: ContextSlug, number: int, state: str) -> None:
        self._db.run("UPDATE version SET state = ? WHERE context = ? AND number = ?", (state, slug, number))

    def set_records(self, slug: ContextSlug, number: int, records: int) -> None:
        self._db.run("UPDATE version SET records = ? WHERE context = ? AND number = ?", (records, slug, number))

    def mark_unreadable(self, slug: ContextSlug, keep: frozenset[int]) -> None:
        self._db.run(
            f"UPDATE version SET readable = 0 WHERE context = ? AND readable = 1 AND number NOT IN ({marks(len(keep))})"
            if keep
            else "UPDATE version SET readable = 0 WHERE context = ? AND readable = 1",
            (slug, *sorted(keep)),
        )

    def pin(self, slug: ContextSlug, row: PinRow) -> None:
        self._db.run(
            "INSERT INTO pin (context, id, version, until, created_at) VALUES (?, ?, ?, ?, ?)",
            (slug, row.id, row.version, row.until, row.created_at),
        )

    def unpin(self, slug: ContextSlug, pin: str) -> bool:
        return self._db.run("DELETE FROM pin WHERE context = ? AND id = ?", (slug, pin)) == 1

    def pins(self, slug: ContextSlug) -> tuple[PinRow, ...]:
        rows = self._db.all(
            "SELECT id, version, until, created_at FROM pin WHERE context = ? ORDER BY created_at, id", (slug,)
        )
        return tuple(PinRow(*row) for row in rows)
