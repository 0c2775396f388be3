"""Statements of edges to edges between artifacts: a row for each source's support. A part of the reduce stage.

An edge ends at two artifacts or isn't there: what a source says of a subject without one is kept as a statement only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pipeline.artifacts import names
from pipeline.artifacts.leg import data
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.rows import EdgeRow, StatementRow
from pipeline.stages.job import Job
from pipeline.types import LogicalId, SourcePath

PAGE_ROWS = 500
PATHS_AT_ONCE = 50
"""Sources whose statements are in memory together."""
PATHS = "/edges"
"""Under which sources are noted whose edges have to be looked at."""


def plan(job: Job) -> None:
    """Plan the edges of every source of which an edge, a subject or a subject's artifact moved."""
    _note_moved(job)
    after = ""
    while True:
        job.keep_going()
        with job.ports.ledger.read() as session:
            paths = [SourcePath(p) for p in session.knowledge.page_visited(job.run.id, PATHS, after, PATHS_AT_ONCE)]
        if paths:
            _plan_page(job, paths)
        if len(paths) < PATHS_AT_ONCE:
            return
        after = paths[-1]


def _note_moved(job: Job) -> None:
    for paths in filter(None, _moved(job)):
        with job.ports.ledger.transaction("reduce.paths", job.slug) as session:
            job.hold(session)
            session.knowledge.visit(job.run.id, PATHS, list(dict.fromkeys(paths)))


def _moved(job: Job) -> Iterator[Sequence[SourcePath]]:
    slug, run, number = job.slug, job.run.id, job.run.number
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.knowledge.moved(slug, run, number, after, PAGE_ROWS)
        yield [s.path for s in page]
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].id
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            paths = session.knowledge.member_paths_moved(slug, run, number, after, PAGE_ROWS)
        yield paths
        if len(paths) < PAGE_ROWS:
            return
        after = paths[-1]


def _plan_page(job: Job, paths: Sequence[SourcePath]) -> None:
    slug, run, number = job.slug, job.run.id, job.run.number
    with job.ports.ledger.read() as session:
        claims = session.knowledge.wanted_in(slug, run, paths, "edge")
        artifact_of = _ends(job, session, paths) if claims else {}
        opened = {e.id: e for e in session.knowledge.edges_in(slug, paths) if e.added < number}
    wanted = {e.id: e for claim in claims if (e := _edge(job, claim, artifact_of)) is not None}
    add = [e for e in wanted.values() if e.id not in opened or _says(e) != _says(opened[e.id])]
    fresh = {e.id for e in add}
    remove = [id_ for id_ in opened if id_ not in wanted or id_ in fresh]
    with job.ports.ledger.transaction("reduce.edges", job.slug) as session:
        job.hold(session)
        session.knowledge.add(slug, add)
        session.records.plan_removals(run, "edge", remove)


def _ends(job: Job, session: Session, paths: Sequence[SourcePath]) -> dict[tuple[SourcePath, str, str], LogicalId]:
    """(source, type, name) to the artifact that it means; ends that mean several things or none are left out."""
    slug, run = job.slug, job.run.id
    statements = [
        s
        for kind in ("mention", "document", "row", "glossary")
        for s in session.knowledge.wanted_in(slug, run, paths, kind)
    ]
    subject_of = {m.id: m.subject for m in session.knowledge.members_wanted(slug, run, [s.id for s in statements])}
    there = {a.id for a in session.knowledge.artifacts_wanted(slug, run, sorted(set(subject_of.values())))}
    found: dict[tuple[SourcePath, str, str], set[LogicalId]] = defaultdict(set)
    for s in statements:
        subject = subject_of.get(s.id)
        if subject in there:
            found[s.path, s.type, _plain(s.kind, s.name)].add(subject)
    return {key: next(iter(ids)) for key, ids in found.items() if len(ids) == 1}


def _plain(kind: str, name: str) -> str:
    return name if kind in ("row", "document") else names.normal(name)


def _edge(job: Job, claim: StatementRow, artifact_of: dict[tuple[SourcePath, str, str], LogicalId]) -> EdgeRow | None:
    held = data(claim)
    ends = []
    for type_, name in (held["from"], held["to"]):
        end = artifact_of.get((claim.path, type_, name)) or artifact_of.get((claim.path, type_, names.normal(name)))
        if end is None:
            return None
        ends.append(end)
    if ends[0] == ends[1]:
        return None
    value = {"attributes": held["attributes"], "text": held["text"], "spans": held["spans"]}
    return EdgeRow(claim.id, claim.type, ends[0], ends[1], claim.path, canonical_json(value), job.run.number)


def _says(edge: EdgeRow) -> tuple[object, ...]:
    return (edge.type, edge.source, edge.target, edge.data)
