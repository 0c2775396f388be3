"""Subjects to artifacts: which subjects have one, and what it says. A part of the reduce stage.

An artifact is made anew only where its subject's membership moved (or, where the run is forced, what it is made with);
one that the live version shows for the same membership is taken from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.artifacts import leg, render
from pipeline.artifacts.leg import data
from pipeline.artifacts.making import basis, make
from pipeline.artifacts.subjects import Subject
from pipeline.errors import RejectedInput
from pipeline.ledger import Session
from pipeline.rows import ArtifactRow
from pipeline.stages import reduced_edges, reduced_files
from pipeline.stages.extract import asker, language
from pipeline.stages.job import Job
from pipeline.types import OPEN, LogicalId, SourcePath

PAGE_ROWS = 500
"""Subjects handled at a time."""
TOUCHED = "/subjects"
"""Under which subjects are noted that have to be looked at though their membership didn't move."""


@dataclass(slots=True)
class Counts:
    """What became of the subjects."""

    screened: int = 0
    """Subjects of which nothing could be said."""
    errors: list[str] = field(default_factory=list)
    reduced: int = 0
    """Subjects whose artifact was made anew."""
    conflicts: list[str] = field(default_factory=list)
    """Rows that came with different values under one natural key."""


Chosen = Mapping[str, frozenset[LogicalId]]
"""Type to the subjects that may have an artifact, for types that have more of them than the cap allows."""


def plan(job: Job) -> Counts:
    """Plan the artifact of every subject that may need another one, and hold types to their cap."""
    counts, chosen = Counts(), _chosen(job)
    for ids in filter(None, _touched(job)):
        job.keep_going()
        _artifacts(job, ids, counts, chosen)
    for (
        type_,
        within,
    ) in chosen.items():  # subjects that nobody touched may have come under the cap, or lost their place
        with job.ports.ledger.read() as session:
            has = _having(job, session, type_)
        moved = [*(i for i in has if i not in within), *sorted(i for i in within if i not in has)]
        for at in range(0, len(moved), PAGE_ROWS):
            job.keep_going()
            _artifacts(job, moved[at : at + PAGE_ROWS], counts, chosen)
    return counts


def _touched(job: Job) -> Iterator[list[LogicalId]]:
    """Subjects to look at, page by page: those that moved, those noted; all where the run is forced."""
    slug, run = job.slug, job.run.id
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = (
                session.knowledge.subject_ids_wanted(slug, run, after, PAGE_ROWS)
                if job.run.force
                else session.knowledge.subjects_moved(slug, run, job.run.number, after, PAGE_ROWS)
            )
        yield list(dict.fromkeys(s.id for s in page))
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].id
    with job.ports.ledger.read() as session:
        retried = [row.path for row in session.work.each(run) if row.change == "retry"]
    for at in range(0, len(retried), PAGE_ROWS):
        with job.ports.ledger.read() as session:
            statements = session.knowledge.statements_open(slug, retried[at : at + PAGE_ROWS])
            members = session.knowledge.members_wanted(slug, run, [s.id for s in statements])
        yield sorted({m.subject for m in members})
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            noted = session.knowledge.page_visited(run, TOUCHED, after, PAGE_ROWS)
        yield [LogicalId(id_) for id_ in noted]
        if len(noted) < PAGE_ROWS:
            break
        after = noted[-1]
    if job.run.force:
        after = ""
        while True:
            with job.ports.ledger.read() as session:
                gone = session.knowledge.subjects_moved(slug, run, job.run.number, after, PAGE_ROWS)
            yield list(dict.fromkeys(s.id for s in gone))
            if len(gone) < PAGE_ROWS:
                return
            after = gone[-1].id


def _artifacts(job: Job, ids: Sequence[LogicalId], counts: Counts, chosen: Chosen) -> None:
    """Plan the artifacts of some subjects.

    Args:
        job: the unit.
        ids: subjects, wanted or not any more.
        counts: told what happened.
        chosen: who is within the cap.
    """
    slug, run, number = job.slug, job.run.id, job.run.number
    with job.ports.ledger.read() as session:
        know = session.knowledge
        wanted = {s.id: s for s in know.subjects_wanted(slug, run, ids)}
        of = know.statements_of(slug, run, ids)
        planned = {a.id: a for a in know.artifacts_wanted(slug, run, ids)}
        opened = {a.id: a for a in know.artifacts_open(slug, ids) if a.added < number}
        live = {a.id: a for a in know.artifacts_at(slug, job.run.base_version, ids)}
    add: list[ArtifactRow] = []
    remove: list[str] = []
    appeared: dict[SourcePath, None] = {}
    for id_ in ids:
        row = wanted.get(id_)
        within = row is None or row.type not in chosen or id_ in chosen[row.type]
        made = (
            _one(job, Subject(row, tuple(of.get(id_, ()))), live.get(id_), opened.get(id_), counts)
            if row and within
            else None
        )
        held = opened.get(id_)
        if made is not None and held is not None and render.content(made) == render.content(held):
            continue  # stays as it is
        if id_ in planned and planned[id_].added == number:
            continue  # planned by an earlier page
        if held is not None:
            remove.append(id_)
        if made is not None:
            add.append(made)
        if (made is None) != (held is None):
            appeared.update(dict.fromkeys(s.path for s in of.get(id_, ())))
        job.report(1)
    with job.ports.ledger.transaction("reduce.artifacts", job.slug) as session:
        job.hold(session)
        session.knowledge.add(slug, add)
        session.records.plan_removals(run, "artifact", remove)
        session.knowledge.visit(run, reduced_edges.PATHS, list(appeared))
        session.knowledge.visit(run, reduced_files.ARTIFACTS, list(dict.fromkeys(ids)))


def _one(
    job: Job, subject: Subject, live: ArtifactRow | None, opened: ArtifactRow | None, counts: Counts
) -> ArtifactRow | None:
    """The artifact that a subject should have; None for none."""
    config = job.manifest.curate.artifacts
    type_ = next((t for t in config.artifact_types if t.name == subject.row.type), None)
    if (
        type_ is None
        or not config.enabled
        or not subject.statements
        or subject.row.documents < _least(job, subject.row.type)
    ):
        return None
    based = basis(subject, type_, config, language(job))
    for old in () if leg.options_of(job.run.input).get("artifacts_reset") else (live, opened):
        if old is not None and old.membership == subject.row.membership and (old.basis == based or not job.run.force):
            return replace(old, added=job.run.number, removed=OPEN)
    try:
        made = make(subject, type_, config, asker(job, (s.path for s in subject.statements)), based)
    except RejectedInput as error:
        reason = f"artifacts: {type_.name} {subject.row.name!r} could not be made: {error.message}"
        counts.errors.append(reason)
        path = subject.statements[0].path
        with job.ports.ledger.transaction("reduce.errored", job.slug) as session:
            job.hold(session)
            session.sources.note_artifacts(job.slug, job.run.id, job.run.number, path, reason)
        # What was said before stays, unless a source that it rests on is gone.
        there = {s.path for s in subject.statements}
        old = next((o for o in (live, opened) if o and {s["path"] for s in data(o)["sources"]} <= there), None)
        return replace(old, added=job.run.number, removed=OPEN) if old is not None else None
    counts.reduced += 1
    counts.screened += made is None
    for column, before, path in data(made).get("conflicts", ()) if made is not None else ():
        counts.conflicts.append(
            f"{type_.name} {subject.row.name}: {column} was {before!r} before {path} said otherwise"
        )
    return replace(made, added=job.run.number) if made is not None else None


def _least(job: Job, type_: str) -> int:
    """Sources that must speak of a subject of the type."""
    config = job.manifest.curate.artifacts
    found = next((t for t in config.artifact_types if t.name == type_), None)
    if found is None or found.scope == "document":
        return 1
    own = found.min_doc_count if "min_doc_count" in found.model_fields_set else None
    return config.min_doc_count if own is None else own


def _chosen(job: Job) -> dict[str, frozenset[LogicalId]]:
    """Who is within the cap, of the types that have more subjects: most sources first, then most mentions.

    Known before anything is made, so that no model is paid for what is then left out.
    """
    config, out = job.manifest.curate.artifacts, {}
    for type_ in config.artifact_types:
        least = _least(job, type_.name)
        with job.ports.ledger.read() as session:
            count = session.knowledge.count_subjects(job.slug, job.run.id, type_.name, least)
        if count > config.max_artifacts_per_type:
            out[type_.name] = frozenset(_best(job, type_.name, least, config.max_artifacts_per_type))
    return out


def _best(job: Job, type_: str, least: int, cap: int) -> dict[LogicalId, None]:
    found: dict[LogicalId, None] = {}
    after = None
    while len(found) < cap:
        with job.ports.ledger.read() as session:
            limit = min(PAGE_ROWS, cap - len(found))
            page = session.knowledge.best_subjects(job.slug, job.run.id, type_, least, after, limit)
        found.update(dict.fromkeys(s.id for s in page))
        if len(page) < limit:
            break
        after = (page[-1].documents, page[-1].mentions, page[-1].id)
    return found


def _having(job: Job, session: Session, type_: str) -> dict[LogicalId, None]:
    found: dict[LogicalId, None] = {}
    after = (type_, "", "")
    while True:
        page = session.knowledge.page_wanted_artifacts(job.slug, job.run.id, after, PAGE_ROWS)
        found.update(dict.fromkeys(a.id for a in page if a.type == type_))
        if len(page) < PAGE_ROWS or page[-1].type != type_:
            return found
        after = (page[-1].type, page[-1].name, page[-1].id)
