"""What people decide about merges: which names are one subject, which are not, which mean different things in places.

A decision is recorded here and taken up by the next curate; it holds until it is taken back, whatever versions come.
Pins are transitive: where they connect two names that somebody keeps apart, the later decision is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline import knowledge, publish
from pipeline.artifacts import names
from pipeline.artifacts.leg import data
from pipeline.errors import Conflict, RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.rows import DecisionRow, SubjectRow
from pipeline.stored_manifest import types_of
from pipeline.types import ContextSlug, SourcePath

PAGE_ROWS = 500
SOURCES_NAMED = 5


@dataclass(frozen=True, slots=True)
class Merged:
    """A subject with more than one spelling."""

    id: str
    type: str
    name: str
    aliases: tuple[str, ...]
    sources: int
    merges: tuple[tuple[str, str, str, str], ...]
    """Of each merge: left, right, the rule, its evidence."""


def merged(ports: Ports, slug: ContextSlug, version: int, type_: str = "") -> Iterator[Merged]:
    """Subjects of the version with more than one spelling, by type and name."""
    for row in _subjects(ports, slug, version, type_):
        held = data(row)
        if held["aliases"] or held["merges"]:
            merges = tuple((str(a), str(b), str(rule), str(why)) for a, b, rule, why in held["merges"])
            yield Merged(row.id, row.type, row.name, tuple(held["aliases"]), row.documents, merges)


def _subjects(ports: Ports, slug: ContextSlug, version: int, type_: str) -> Iterator[SubjectRow]:
    after = (type_, "", "")
    while True:
        with ports.ledger.read() as session:
            publish.require_readable(session, slug, version)
            page = session.knowledge.page_named_subjects(slug, version, after, PAGE_ROWS)
        yield from (row for row in page if not type_ or row.type == type_)
        if len(page) < PAGE_ROWS or (type_ and page[-1].type != type_):
            return
        after = (page[-1].type, page[-1].name, page[-1].id)


def decisions(ports: Ports, slug: ContextSlug, type_: str = "") -> tuple[DecisionRow, ...]:
    """What people decided, oldest first."""
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        return tuple(d for d in session.knowledge.decisions(slug) if type_ in ("", d.type))


def state_of(decision: DecisionRow) -> str:
    """pending: the next curate takes it up; held: it holds; withdrawn: the next curate undoes it."""
    if decision.withdrawn:
        return "withdrawn"
    return "held" if decision.applied else "pending"


# ---- deciding


def pair(ports: Ports, slug: ContextSlug, kind: str, type_: str, spelled: tuple[str, str]) -> DecisionRow:
    """Record that two names are one subject (`pin`), or that they are not (`forbid`). May be repeated.

    Raises:
        RejectedInput: unknown context, type or name; both names are one; a decision that holds says the opposite.
        Conflict: code `run_active`: a run is at work that may be undoing the same decision.
    """
    with knowledge.reading(ports, slug, None) as version:
        known = _live_type(ports, slug, version, type_)
        found = [_spelled(ports, slug, version, known, text)[0] for text in spelled]
    left, right = sorted(found, key=lambda name: (names.normal(name), name))
    if names.normal(left) == names.normal(right):
        remedy = f"where it means different things in places: lamina merges split {slug} {known} {left!r} --source PATH"
        raise RejectedInput("same_name", f"{left!r} and {right!r} are one name", remedy=remedy)
    row = _row(ports, kind, known, (names.normal(left), names.normal(right)), (left, right))
    with ports.ledger.transaction("merges.decide", slug) as session:
        publish.require_context(session, slug)
        held = [d for d in session.knowledge.decisions(slug) if d.type == known and not d.withdrawn and d.id != row.id]
        _require_consistent([*held, row], row, slug)
        return _record(session, slug, row)


def split(
    ports: Ports, slug: ContextSlug, type_: str, spelled: str, sources: Sequence[Sequence[SourcePath]]
) -> DecisionRow:
    """Record that a name means something of its own in some sources. May be repeated.

    Args:
        ports: the deployment.
        slug: the context.
        type_: artifact type, in whatever letter case.
        spelled: the name.
        sources: of each source the names that it may have in the ledger.

    Raises:
        RejectedInput: unknown context, type, name or source, or a source that doesn't speak of it.
        Conflict: code `run_active`, as `pair`.
    """
    if not sources:
        raise RejectedInput("no_source", "no source is named", remedy="name each with --source PATH")
    with knowledge.reading(ports, slug, None) as version:
        known = _live_type(ports, slug, version, type_)
        name, subjects = _spelled(ports, slug, version, known, spelled)
        paths = sorted({_speaking(ports, slug, version, known, name, subjects, each) for each in sources})
    listed = canonical_json(paths)
    row = _row(ports, "split", known, (names.normal(name), listed), (name, listed))
    with ports.ledger.transaction("merges.decide", slug) as session:
        publish.require_context(session, slug)
        return _record(session, slug, row)


def withdraw(ports: Ports, slug: ContextSlug, decision: str) -> DecisionRow:
    """Take a decision back: at once where no run has taken it up, otherwise with the next curate. May be repeated.

    Raises:
        RejectedInput: there is no such decision.
        Conflict: code `run_active`: a run is at work that may be taking it up.
    """
    with ports.ledger.transaction("merges.withdraw", slug) as session:
        publish.require_context(session, slug)
        held = {d.id: d for d in session.knowledge.decisions(slug)}
        if decision not in held:
            there = ", ".join(held) or "none"
            raise RejectedInput("no_decision", f"{slug} has no decision {decision!r}", remedy=f"decisions: {there}")
        _require_idle(session, slug)
        if held[decision].applied:
            session.knowledge.set_withdrawn(slug, decision, withdrawn=True)
        else:
            session.knowledge.drop_decision(slug, decision)
        return held[decision]


def _record(session: Session, slug: ContextSlug, row: DecisionRow) -> DecisionRow:
    """Write it, unless it is there; one that was taken back and not yet undone goes on as if nothing had happened."""
    there = next((d for d in session.knowledge.decisions(slug) if d.id == row.id), None)
    if there is None:
        session.knowledge.decide(slug, row)
        return row
    if there.withdrawn:
        _require_idle(session, slug)
        session.knowledge.set_withdrawn(slug, row.id, withdrawn=False)
    return next(d for d in session.knowledge.decisions(slug) if d.id == row.id)


def _require_idle(session: Session, slug: ContextSlug) -> None:
    """A run reads the decisions once: what changes under it would be taken for what the run has done."""
    run = session.runs.active(slug)
    if run is not None:
        raise Conflict(
            "run_active",
            f"run {run.id} of {slug} is under way and may be carrying the decision out",
            remedy=f"try again when it has ended, or stop it: lamina cancel {run.id}",
        )


def _row(ports: Ports, kind: str, type_: str, key: tuple[str, str], spelled: tuple[str, str]) -> DecisionRow:
    id_ = fingerprint(kind, type_, *key)[:12]
    return DecisionRow(id_, kind, type_, *spelled, at=ports.clock.now(), by=ports.user)


def _require_consistent(rows: Iterable[DecisionRow], new: DecisionRow, slug: ContextSlug) -> None:
    """Names that pins connect, directly or through others, are not kept apart."""
    group: dict[str, str] = {}

    def root(name: str) -> str:
        while (above := group.get(name, name)) != name:
            name = above
        return name

    held = list(rows)
    for row in held:
        if row.kind == "pin":
            group[root(names.normal(row.left))] = root(names.normal(row.right))
    for row in held:
        if row.kind == "forbid" and root(names.normal(row.left)) == root(names.normal(row.right)):
            end = root(names.normal(new.left))
            others = [d for d in held if d.kind == "pin" and root(names.normal(d.left)) == end]
            others = others if new.kind == "forbid" else [row]
            named = ", ".join(f"{d.id} ({d.kind} {d.left} / {d.right})" for d in others[:SOURCES_NAMED])
            raise RejectedInput(
                "contradiction",
                f"to {new.kind} {new.left!r} and {new.right!r} contradicts what is decided: {named}",
                remedy=f"take that back first: lamina merges withdraw {slug} {others[0].id}",
            )


# ---- what the names mean


def _live_type(ports: Ports, slug: ContextSlug, version: int, typed: str) -> str:
    with ports.ledger.read() as session:
        known = [str(t["name"]) for t in types_of(session, slug, version)]
    found = next((name for name in known if name.casefold() == typed.casefold()), None)
    if found is None:
        raise knowledge.no_type(slug, typed, known)
    return found


def _spelled(
    ports: Ports, slug: ContextSlug, version: int, type_: str, typed: str
) -> tuple[str, tuple[SubjectRow, ...]]:
    """The name as the sources spell it, and the live subjects that have it."""
    plain = names.normal(typed)
    spelled, subjects = "", []
    kinds = set()
    for row in _subjects(ports, slug, version, type_):
        held = data(row)
        kinds.add(held["kind"])
        same = [s for s in (row.name, *held["aliases"]) if plain and names.normal(s) == plain]
        if same and held["kind"] == "mention":
            spelled = spelled or (typed if typed in same else same[0])
            subjects.append(row)
    if subjects:
        return spelled, tuple(subjects)
    if kinds and "mention" not in kinds:
        raise RejectedInput(
            "not_merged",
            f"subjects of type {type_} are not merged by their names: there is nothing to decide",
            remedy="merging is for types of scope corpus whose kind is not glossary",
        )
    close = knowledge.near(
        (s for row in _subjects(ports, slug, version, type_) for s in (row.name, *data(row)["aliases"])), typed
    )
    raise RejectedInput(
        "no_subject",
        f"no subject of type {type_} is called {typed!r} in version {version} of {slug}",
        remedy=f"did you mean: {', '.join(close)}" if close else f"see: lamina artifacts {slug} --type {type_!r}",
    )


def _speaking(
    ports: Ports,
    slug: ContextSlug,
    version: int,
    type_: str,
    name: str,
    subjects: Sequence[SubjectRow],
    candidates: Sequence[SourcePath],
) -> SourcePath:
    """The source that is meant; it must speak of the name."""
    with ports.ledger.read() as session:
        known = session.sources.at_for(slug, version, candidates)
        statements = session.knowledge.statements_at(slug, version, [row.path for row in known[:1]])
        members = session.knowledge.members_at(slug, version, [s.id for s in subjects])
    if not known:
        raise RejectedInput(
            "no_source",
            f"version {version} of {slug} has no source {candidates[0]}",
            remedy=f"sources: lamina sources {slug}",
        )
    plain = names.normal(name)
    for s in statements:
        if s.kind == "mention" and s.type == type_ and plain in map(names.normal, (s.name, *data(s)["aliases"])):
            return known[0].path
    there = sorted({m.path for m in members})
    more = " …" if len(there) > SOURCES_NAMED else ""
    raise RejectedInput(
        "not_mentioned",
        f"{known[0].path} doesn't speak of {name!r} as a {type_}",
        remedy=f"sources that speak of it: {', '.join(there[:SOURCES_NAMED])}{more}",
    )
