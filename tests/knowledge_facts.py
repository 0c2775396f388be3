"""What a context knows at a version, as values that two contexts which saw the same sources must share."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from world import SLUG, World

from pipeline.namespaces import DOCUMENTS, counts_key, namespace_of

MANY = 100_000

ARTIFACTS: dict[str, Any] = {
    "enabled": True,
    "artifact_types": [
        {"name": "thing", "kind": "topic"},
        {"name": "summary", "kind": "summary", "scope": "document"},
        {
            "name": "page", "kind": "entity", "scope": "document", "format": "sqlite", "natural_key": ["title"],
            "columns": [{"name": "title"}, {"name": "body"}],
        },
    ],
    "edge_types": [
        {"name": "tells of", "from": "summary", "to": "thing"},
        {"name": "related to", "from": "thing", "to": "thing"},
    ],
}  # fmt: skip
"""What documents say for themselves, subjects of the corpus, rows of a database, edges."""


def knowledge(world: World, version: int) -> dict[str, Any]:
    """Statements, subjects with their members, artifacts, edges, files, rows of the database, records, term counts."""
    with world.ledger.read() as session:
        know, row = session.knowledge, session.versions.get(SLUG, version)
        assert row is not None
        kinds = ("mention", "edge", "document", "row", "glossary")
        statements = [s for kind in kinds for s in know.page_statements(SLUG, version, kind, "", MANY)]
        subjects = know.page_subjects(SLUG, version, "", MANY)
        members = know.members_at(SLUG, version, [s.id for s in subjects])
        artifacts = know.page_artifacts(SLUG, version, ("", "", ""), MANY)
        edges = know.page_edges(SLUG, version, "", MANY)
        files = [f for f in session.files.page(SLUG, version, "", MANY) if f.path.startswith("artifacts/")]
        space = namespace_of(SLUG, row.generation, "artifacts")
        records = [r for r in session.records.page_at(SLUG, version, "", MANY) if r.namespace == space]
        stored = world.raw_index.fetch(space, [r.id for r in records], vectors=True, metadata=True)
        terms = sorted({DOCUMENTS, *map(int, stored.sparse.indices)})
        counts = session.records.counts(SLUG, counts_key(row.generation, "artifacts"), version, terms)
    ends = {a.id for a in artifacts}
    assert all({e.source, e.target} <= ends for e in edges), "an edge dangles"
    assert counts.get(DOCUMENTS, 0) == len(records) == len(artifacts), "an artifact without a record"
    assert {m.id for m in members} == {s.id for s in statements if s.kind != "edge"}, "a statement of no subject"
    blobs = {f.path: world.objects.get(f.blob) for f in files}
    return {
        "statements": sorted((s.id, s.path, s.kind, s.type, s.name, s.data) for s in statements),
        "subjects": sorted((s.id, s.key, s.name, s.documents, s.mentions, s.membership, s.data) for s in subjects),
        "members": sorted((m.id, m.subject, m.path) for m in members),
        "artifacts": sorted((a.id, a.type, a.name, a.membership, a.file, a.data) for a in artifacts),
        "edges": sorted((e.id, e.type, e.source, e.target, e.path, e.data) for e in edges),
        "files": {path: data for path, data in blobs.items() if not path.endswith(".sqlite")},
        "database": [rows for path, data in blobs.items() if path.endswith(".sqlite") for rows in database(data)],
        "records": sorted(
            (r.logical_id, json.dumps(m, default=list)) for r, m in zip(records, stored.metadata, strict=True)
        ),
        "vectors": sorted(
            (r.logical_id, tuple(round(float(x), 5) for x in v)) for r, v in zip(records, stored.dense, strict=True)
        ),
        "counts": counts,
    }


def database(data: bytes) -> list[tuple[Any, ...]]:
    """Every row of every table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "db"
        file.write_bytes(data)
        db = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
        try:
            names = [n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
            return [(name, *row) for name in names for row in sorted(db.execute(f'SELECT * FROM "{name}"'), key=repr)]
        finally:
            db.close()


def nothing_of(path: str, world: World, version: int) -> bool:
    """Whether nothing that a version knows names a source or comes from it."""
    held = knowledge(world, version)
    return path not in json.dumps({k: v for k, v in held.items() if k != "files"}, default=repr) and all(
        path.encode() not in data for data in held["files"].values()
    )
