"""The files that tell of artifacts: their pages, the index page of a type, and the database.

Made from what a run wants to be, or from what a version is. The same rows always come to the same bytes, so that a lost
file can be made again.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from manifests import Manifest
from manifests.model import ArtifactType
from pipeline.artifacts import render, tables
from pipeline.artifacts.leg import data
from pipeline.fingerprint import canonical_json
from pipeline.ports import Ports
from pipeline.rows import ArtifactRow, EdgeRow
from pipeline.types import ContextSlug, LogicalId, RunId

PAGE_ROWS = 500
"""Rows in memory together."""

Place = tuple[str, str, str]
"""(type, name, id) of an artifact, by which they are ordered."""


class Known(Protocol):
    """Artifacts and edges at one moment."""

    def page(self, after: Place, format_: str = "") -> tuple[ArtifactRow, ...]:
        """Up to `PAGE_ROWS` artifacts past `after`, in order; of one format where it is named."""
        ...

    def artifacts(self, ids: Sequence[LogicalId]) -> Mapping[LogicalId, ArtifactRow]:
        """Those of these that are there."""
        ...

    def edges(self, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        """Edges that start at one of these."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run makes of the corpus."""

    ports: Ports
    slug: ContextSlug
    run: RunId

    def page(self, after: Place, format_: str = "") -> tuple[ArtifactRow, ...]:
        """See `Known`."""
        with self.ports.ledger.read() as session:
            return session.knowledge.page_wanted_artifacts(self.slug, self.run, after, PAGE_ROWS, format_=format_)

    def artifacts(self, ids: Sequence[LogicalId]) -> Mapping[LogicalId, ArtifactRow]:
        """See `Known`."""
        with self.ports.ledger.read() as session:
            return {a.id: a for a in session.knowledge.artifacts_wanted(self.slug, self.run, ids)}

    def edges(self, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        """See `Known`."""
        with self.ports.ledger.read() as session:
            return session.knowledge.edges_wanted_of(self.slug, self.run, sources)


@dataclass(frozen=True, slots=True)
class At:
    """What a version holds."""

    ports: Ports
    slug: ContextSlug
    version: int

    def page(self, after: Place, format_: str = "") -> tuple[ArtifactRow, ...]:
        """See `Known`."""
        with self.ports.ledger.read() as session:
            return session.knowledge.page_artifacts(self.slug, self.version, after, PAGE_ROWS, format_=format_)

    def artifacts(self, ids: Sequence[LogicalId]) -> Mapping[LogicalId, ArtifactRow]:
        """See `Known`."""
        with self.ports.ledger.read() as session:
            return {a.id: a for a in session.knowledge.artifacts_at(self.slug, self.version, ids)}

    def edges(self, sources: Sequence[LogicalId]) -> tuple[EdgeRow, ...]:
        """See `Known`."""
        starts = frozenset(sources)
        with self.ports.ledger.read() as session:
            found = session.knowledge.edges_at(self.slug, self.version, sources)
        return tuple(edge for edge in found if edge.source in starts)


def pages(known: Known, artifacts: Mapping[LogicalId, ArtifactRow]) -> dict[LogicalId, bytes]:
    """The markdown files of those of these artifacts that have one."""
    edges: dict[LogicalId, list[EdgeRow]] = defaultdict(list)
    for edge in known.edges(list(artifacts)):
        edges[edge.source].append(edge)
    linked = known.artifacts(sorted({e.target for some in edges.values() for e in some}))
    return {
        id_: render.page(artifact, ((edge, _target(edge, linked)) for edge in edges[id_]))
        for id_, artifact in artifacts.items()
        if artifact.file
    }


def _target(edge: EdgeRow, linked: Mapping[LogicalId, ArtifactRow]) -> str:
    target = linked.get(edge.target)
    return (target.file or target.name) if target is not None else edge.target


def index(known: Known, type_: str) -> bytes:
    """The index page of a type; empty where nothing of it has a file."""
    entries = [(a.name, a.file) for a in _of_type(known, type_) if a.file]
    return render.index(type_, entries) if entries else b""


def kept_as_rows(manifest: Manifest) -> list[ArtifactType]:
    """The types that the database holds; none where artifacts are off, and then there is no database."""
    artifacts = manifest.curate.artifacts
    return [t for t in artifacts.artifact_types if t.format == "sqlite"] if artifacts.enabled else []


def database(known: Known, types: Sequence[ArtifactType]) -> bytes:
    """One SQLite file of all rows of these types, and of all edges."""
    shapes = [tables.Table(t.name, tuple((c.name, c.type) for c in t.columns), tuple(t.natural_key)) for t in types]
    with tempfile.TemporaryDirectory(prefix="lamina-") as folder:
        file = Path(folder) / "knowledge.sqlite"
        tables.write(file, shapes, {t.name: _rows(known, t.name) for t in types}, _edge_rows(known))
        return file.read_bytes()


def _of_type(known: Known, type_: str, format_: str = "") -> Iterator[ArtifactRow]:
    after: Place = (type_, "", "")
    while True:
        page = known.page(after, format_)
        yield from (artifact for artifact in page if artifact.type == type_)
        if len(page) < PAGE_ROWS or page[-1].type != type_:
            return
        after = (page[-1].type, page[-1].name, page[-1].id)


def _rows(known: Known, type_: str) -> Iterator[tables.TableRow]:
    for artifact in _of_type(known, type_, "sqlite"):
        held = data(artifact)
        sources = tuple(dict.fromkeys(s["path"] for s in held["sources"]))
        yield tables.TableRow(artifact.id, artifact.name, sources, held["row"])


def _edge_rows(known: Known) -> Iterable[Sequence[object]]:
    """Each edge with all of its sources, in a fixed order. Read artifact by artifact, so memory holds one page."""
    after: Place = ("", "", "")
    while True:
        page = known.page(after)
        edges = known.edges([a.id for a in page])
        titles = {id_: a.name for id_, a in known.artifacts(sorted({e.target for e in edges})).items()}
        together: dict[tuple[LogicalId, str, LogicalId], list[EdgeRow]] = defaultdict(list)
        for edge in edges:
            together[edge.source, edge.type, edge.target].append(edge)
        by_source: dict[LogicalId, list[tuple[str, LogicalId]]] = defaultdict(list)
        for source, type_, target in together:
            by_source[source].append((type_, target))
        for artifact in page:
            for type_, target in sorted(by_source[artifact.id]):
                rows = together[artifact.id, type_, target]
                attributes = {k: v for row in rows for k, v in data(row)["attributes"].items()}
                sources = sorted({row.path for row in rows})
                yield (
                    type_, artifact.id, artifact.name, target, titles.get(target, ""), canonical_json(attributes),
                    canonical_json(sources),
                )  # fmt: skip
        if len(page) < PAGE_ROWS:
            return
        after = (page[-1].type, page[-1].name, page[-1].id)
