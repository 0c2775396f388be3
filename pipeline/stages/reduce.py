"""reduce: statements of all sources to subjects, subjects to artifacts, their edges and files; planned, nothing visible.

Every step is a diff of what is wanted against what is open, page by page, for what the run's statements touch alone:
names that share a spelling with one that moved, subjects whose membership changed, sources whose subjects changed. The
model's answers are in the memo, so a unit that is done again buys nothing twice.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.artifacts import grouping, leg, names
from pipeline.artifacts.groups import Decisions, decisions_of
from pipeline.artifacts.statements import type_spec
from pipeline.artifacts.subjects import subjects
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.models import SameTask
from pipeline.rows import DecisionRow, MemberRow, StatementRow, SubjectRow
from pipeline.stages import reduced_artifacts, reduced_edges, reduced_files
from pipeline.stages.extract import asker
from pipeline.stages.job import Job, Outcome

PAGE_ROWS = 500
"""Rows handled at a time."""
NAMED = ("mention", "glossary")
"""Kinds of statements that find together by spelling."""
ERRORS_NAMED = 20


def reduce(job: Job) -> Outcome:
    """Plan subjects, artifacts, edges and files."""
    with job.ports.ledger.transaction("reduce.begin", job.slug) as session:
        job.hold(session)
        session.records.unplan_reduced(job.slug, job.run.id, job.run.number)
        decisions = session.knowledge.decisions(job.slug)
    pending = [d.id for d in decisions if d.withdrawn or not d.applied]
    held = _by_type(decisions)
    planned = _Planned(job)
    for type_, kind, some in _dirty(job, decisions):
        job.keep_going()
        _regroup(planned, type_, kind, some, held.get(type_, Decisions()))
    planned.flush()
    counts = reduced_artifacts.plan(job)
    reduced_edges.plan(job)
    pages = reduced_files.plan(job)

    def write(session: Session) -> None:
        notes = json.loads(job.run.notes or "{}")
        notes |= {
            "corpus_screened": counts.screened,
            "reduced": counts.reduced,
            "artifact_errors": counts.errors[:ERRORS_NAMED],
            "artifacts_failed": len(counts.errors),
            "conflicts": counts.conflicts[:ERRORS_NAMED],
            "row_conflicts": len(counts.conflicts),
            "decided": pending,
        }
        session.runs.set_notes(job.run.id, canonical_json(notes))

    return Outcome(write, size=max(counts.reduced, 1), pages=pages)


def _by_type(rows: Sequence[DecisionRow]) -> dict[str, Decisions]:
    """Decisions that hold, by type."""
    sorted_: dict[str, dict[str, list[tuple[str, str, frozenset[str]]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if not row.withdrawn:
            paths = frozenset(json.loads(row.right)) if row.kind == "split" else frozenset[str]()
            sorted_[row.type][row.kind].append((row.left, row.right, paths))
    return {type_: decisions_of(kinds) for type_, kinds in sorted_.items()}


# ---- which names


def _dirty(job: Job, decisions: Sequence[DecisionRow]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(type, kind, names) of the statements that moved, of those that somebody decided about, of what is to be retried."""
    for page in _moved_pages(job):
        together: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for statement in page:
            if statement.kind != "edge":
                together[statement.type, statement.kind][statement.name] = None
        for (type_, kind), some in together.items():
            if kind == "document" or leg.reduces(job.run.input) or _scope(job, type_) == "document":
                yield type_, kind, tuple(some)
    for row in decisions:
        with job.ports.ledger.read() as session:
            spelled = (row.left,) if row.kind == "split" else (row.left, row.right)
            keys = sorted({names.whole_key(name) for name in spelled})
            some_names = tuple(sorted(session.knowledge.names_with(job.slug, row.type, keys)))
        if some_names and (row.withdrawn or not row.applied or job.run.force):
            yield row.type, "mention", some_names


def _scope(job: Job, type_: str) -> str:
    return next((t.scope for t in job.manifest.curate.artifacts.artifact_types if t.name == type_), "corpus")


def _moved_pages(job: Job) -> Iterator[Sequence[StatementRow]]:
    slug, run, number = job.slug, job.run.id, job.run.number
    after = ""
    while True:  # all of them where the run is forced
        with job.ports.ledger.read() as session:
            moved = session.knowledge.moved(slug, run, number, after, PAGE_ROWS)
            page = session.knowledge.page_wanted(slug, run, after, PAGE_ROWS) if job.run.force else moved
        yield page
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].id
    if job.run.force:  # and those that go
        yield from _gone_pages(job)
    yield from _retried_pages(job)
    yield from _diverged_pages(job)
    if leg.reduces(job.run.input):
        yield from _left_pages(job)


def _gone_pages(job: Job) -> Iterator[Sequence[StatementRow]]:
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.knowledge.moved(job.slug, job.run.id, job.run.number, after, PAGE_ROWS)
        yield page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def _retried_pages(job: Job) -> Iterator[Sequence[StatementRow]]:
    """Statements of sources of which an earlier run could not make everything."""
    with job.ports.ledger.read() as session:
        paths = [row.path for row in session.work.each(job.run.id) if row.change == "retry"]
    for at in range(0, len(paths), PAGE_ROWS):
        with job.ports.ledger.read() as session:
            some = session.knowledge.statements_open(job.slug, paths[at : at + PAGE_ROWS])
        yield [s for s in some if s.kind != "edge"]


def _left_pages(job: Job) -> Iterator[Sequence[StatementRow]]:
    """What a run without the corpus pass has left: statements of no subject, and members whose statement is gone."""
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            left = session.knowledge.unreduced(job.slug, job.run.id, after, PAGE_ROWS)
        yield left
        if len(left) < PAGE_ROWS:
            break
        after = left[-1].id
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.knowledge.orphans(job.slug, job.run.id, after, PAGE_ROWS)
            held = session.knowledge.subjects_open(job.slug, sorted({m.subject for m in page}))
            of = session.knowledge.statements_of(job.slug, job.run.id, [s.id for s in held])
        yield [s for some in of.values() for s in some]
        if page:
            with job.ports.ledger.transaction("reduce.orphans", job.slug) as session:
                job.hold(session)
                session.records.plan_removals(job.run.id, "member", [m.id for m in page])
                session.records.plan_removals(job.run.id, "subject", [s.id for s in held if s.id not in of])
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def _diverged_pages(job: Job) -> Iterator[Sequence[StatementRow]]:
    """Statements of artifacts that rolled-back versions left different from what is live."""
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.knowledge.artifacts_diverged(job.slug, job.run.base_version, after, PAGE_ROWS)
            of = session.knowledge.statements_of(job.slug, job.run.id, sorted({a.id for a in page}))
        yield [s for some in of.values() for s in some]
        if page:
            with job.ports.ledger.transaction("reduce.diverged", job.slug) as session:
                job.hold(session)
                session.knowledge.visit(job.run.id, reduced_artifacts.TOUCHED, sorted({a.id for a in page}))
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


# ---- subjects


@dataclass(slots=True)
class _Planned:
    """Subjects on their way to the ledger: parts of a plan that touch each other's rows nowhere, written together."""

    job: Job
    rows: list[SubjectRow | MemberRow] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    """Subjects."""
    left: list[str] = field(default_factory=list)
    """Members."""
    visited: dict[str, dict[str, None]] = field(default_factory=dict)

    def unvisited(self, where: str, some: Sequence[str]) -> tuple[str, ...]:
        """Those of some names that this unit hasn't looked at."""
        held = self.visited.get(where, {})
        with self.job.ports.ledger.read() as session:
            todo = session.knowledge.unvisited(self.job.run.id, where, some)
        return tuple(name for name in todo if name not in held)

    def visit(self, where: str, some: Sequence[str]) -> None:
        """Note names as looked at, and write what has come together."""
        self.visited.setdefault(where, {}).update(dict.fromkeys(some))
        if len(self.rows) + len(self.gone) + len(self.left) >= PAGE_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is queued."""
        job = self.job
        with job.ports.ledger.transaction("reduce.subjects", job.slug) as session:
            job.hold(session)
            session.knowledge.add(job.slug, self.rows)
            session.records.plan_removals(job.run.id, "subject", self.gone)
            session.records.plan_removals(job.run.id, "member", self.left)
            for where, some in self.visited.items():
                session.knowledge.visit(job.run.id, where, list(some))
        self.rows, self.gone, self.left, self.visited = [], [], [], {}


def _regroup(planned: _Planned, type_: str, kind: str, some: Sequence[str], decisions: Decisions) -> None:
    """Plan the subjects of some names and of all that are linked with them."""
    where = f"{kind} {type_}"
    todo = planned.unvisited(where, some)
    if kind not in NAMED:
        if todo:
            _plan_subjects(planned, type_, kind, todo, decisions)
            planned.visit(where, todo)
        return
    left = dict.fromkeys(todo)
    while left:
        linked = _linked(planned.job, type_, next(iter(left)), decisions)
        _plan_subjects(planned, type_, kind, linked, decisions)
        planned.visit(where, linked)
        for name in linked:
            left.pop(name, None)


def _linked(job: Job, type_: str, name: str, decisions: Decisions) -> tuple[str, ...]:
    """The names that share spellings with one, directly or through others, and those that people pinned to them."""
    found = {name}
    frontier = {name}
    with job.ports.ledger.read() as session:
        while frontier:
            spelled = {names.normal(n) for n in frontier}
            others = {b if a in spelled else a for a, b in decisions.pinned if {a, b} & spelled}
            held = {*session.knowledge.keys_of(job.slug, type_, sorted(frontier)), *map(names.whole_key, others)}
            keys = sorted({meeting for key in held for meeting in names.meets(key)})
            reached = session.knowledge.names_with(job.slug, type_, keys)
            frontier = set(reached) - found
            found |= frontier
    return tuple(sorted(found))


def _plan_subjects(planned: _Planned, type_: str, kind: str, some: Sequence[str], decisions: Decisions) -> None:
    job = planned.job
    slug, run, number = job.slug, job.run.id, job.run.number
    with job.ports.ledger.read() as session:
        know = session.knowledge
        opened = know.opened_of(slug, type_, some, (kind,))
        wanted = know.wanted_of(slug, run, type_, some, (kind,))
        old = {m.id: m for m in know.members_open(slug, [s.id for s in opened])}
        before = sorted({m.subject for m in old.values()})
        old.update({m.id: m for m in know.members_of(slug, before)})
    made = subjects(slug, type_, wanted, decisions, number, _judge(job, type_))
    with job.ports.ledger.read() as session:
        held = {s.id: s for s in session.knowledge.subjects_open(slug, sorted({*before, *(s.row.id for s in made)}))}
    fresh = [s.row for s in made if s.row.id not in held or _says(held[s.row.id]) != _says(s.row)]
    gone = [
        id_ for id_ in held if id_ in {s.id for s in fresh} or (id_ in before and id_ not in {s.row.id for s in made})
    ]
    belongs = {statement.id: (s.row.id, statement.path) for s in made for statement in s.statements}
    moved = [m.id for m in old.values() if belongs.get(m.id, ("",))[0] != m.subject and m.added < number]
    kept = {m.id for m in old.values() if m.id in belongs and belongs[m.id][0] == m.subject}
    members = [MemberRow(id_, subject, path, number) for id_, (subject, path) in belongs.items() if id_ not in kept]
    planned.rows += [*fresh, *members]
    planned.gone += [id_ for id_ in gone if held[id_].added < number]
    planned.left += moved


def _judge(job: Job, name: str) -> grouping.Judge:
    """The language model as the judge of doubtful pairs; nobody where the model only looks at words, as grouping does."""
    type_ = next((t for t in job.manifest.curate.artifacts.artifact_types if t.name == name), None)
    if type_ is None or job.ports.language is None or job.ports.language.deterministic:
        return grouping.nobody
    spec = type_spec(type_)

    def judge(left: grouping.Read, right: grouping.Read) -> str | None:
        model = asker(job, left.sources | right.sources)
        try:
            value = model.ask(SameTask(spec, left.name, left.notes, right.name, right.notes)).value
        except RejectedInput:
            return None  # who can't tell leaves them apart
        return (value["reason"] or "the notes fit one thing")[:REASON_CHARS_MAX] if value["same"] else None

    return judge


REASON_CHARS_MAX = 200


def _says(row: SubjectRow) -> tuple[object, ...]:
    return (row.membership, row.name, row.data, row.documents)
