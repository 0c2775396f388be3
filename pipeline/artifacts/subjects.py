"""Statements of one kind to the subjects that they are about, as rows. Pure.

How statements find together depends on their kind: mentions by `grouping`, terms of a glossary and rows of a table by
their name or natural key, what a document says for itself by its place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.artifacts import names
from pipeline.artifacts.clusters import Mention
from pipeline.artifacts.grouping import Judge, group, nobody
from pipeline.artifacts.groups import Decisions
from pipeline.artifacts.leg import data
from pipeline.fingerprint import artifact_logical_id, canonical_json, fingerprint
from pipeline.rows import StatementRow, SubjectRow
from pipeline.types import ContextSlug

ALIASES_MAX = 200
NAME_CHARS_MAX = 200
MERGES_MAX = 200


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject and its statements."""

    row: SubjectRow
    statements: tuple[StatementRow, ...]
    """By path and ordinal."""


def subjects(
    context: ContextSlug,
    type_: str,
    statements: Sequence[StatementRow],
    decisions: Decisions,
    added: int,
    judge: Judge = nobody,
) -> tuple[Subject, ...]:
    """The subjects of some statements of one type.

    Args:
        context: the slug; part of each id.
        type_: the artifact type.
        statements: every wanted statement under each of some linked names.
        decisions: what people decided about the type's names.
        added: the version that the rows would be added in.
        judge: see `grouping.group`.
    """
    by_kind: dict[str, list[StatementRow]] = defaultdict(list)
    for statement in sorted(statements, key=lambda s: (s.path, s.seq, s.id)):
        by_kind[statement.kind].append(statement)
    found: list[Subject] = []
    if by_kind["mention"]:
        found += _mentioned(context, type_, by_kind["mention"], decisions, added, judge)
    for kind in ("document", "row", "glossary"):
        together: dict[str, list[StatementRow]] = defaultdict(list)
        for statement in by_kind[kind]:
            together[_key(statement)].append(statement)
        for key, held in together.items():
            name, aliases = _named(held)
            found.append(_subject(context, type_, key, name, aliases, [], held, "", added))
    return tuple(found)


def _key(statement: StatementRow) -> str:
    if statement.kind == "glossary":
        return " ".join(names.folded(statement.name)) or names.normal(statement.name) or statement.name
    if statement.kind == "row" and not statement.name.startswith("#"):
        return f"key {statement.name}"
    return f"in {statement.path}#{statement.id}" if statement.kind == "row" else f"of {statement.path}"


def _named(held: Sequence[StatementRow]) -> tuple[str, list[str]]:
    first = held[0]
    if first.kind == "row":
        row = data(held[-1])["row"]
        known = json.loads(first.name) if first.name.startswith("[") else row.values()
        return ", ".join(str(cell) for cell in known if cell is not None)[:NAME_CHARS_MAX] or first.path, []
    spelled = sorted({s.name for s in held}, key=lambda n: (-sum(s.name == n for s in held), n))
    return spelled[0], spelled[1:]


def _mentioned(
    context: ContextSlug,
    type_: str,
    statements: Sequence[StatementRow],
    decisions: Decisions,
    added: int,
    judge: Judge,
) -> Iterable[Subject]:
    by_id = {s.id: s for s in statements}
    for found in group(map(mention, statements), decisions, judge):
        held = [by_id[m.id] for m in found.mentions]
        merges = [[m.left, m.right, m.rule, m.evidence] for m in found.merges][:MERGES_MAX]
        spelled = {names.normal(s) for m in found.mentions for s in (m.name, *m.aliases)}
        human = _touching(decisions, spelled)
        yield _subject(context, type_, found.key, found.name, list(found.aliases), merges, held, human, added)


def mention(statement: StatementRow) -> Mention:
    """What grouping looks at of a statement."""
    held = data(statement)
    return Mention(
        statement.id,
        statement.path,
        statement.seq,
        statement.name,
        tuple(held["aliases"]),
        frozenset(held["company"]),
        held["text"],
    )


def _touching(decisions: Decisions, spelled: set[str]) -> str:
    """The decisions that speak of a subject's names: part of its membership."""
    touching = [
        *(["pin", *pair] for pair in decisions.pinned if spelled & set(pair)),
        *(["forbid", *pair] for pair in decisions.forbidden if spelled & set(pair)),
        *(["split", name, *sorted(paths)] for name, paths in decisions.split if name in spelled),
    ]
    return canonical_json(sorted(touching)) if touching else ""


def _subject(  # noqa: PLR0917 - the parts of one row
    context: ContextSlug,
    type_: str,
    key: str,
    name: str,
    aliases: list[str],
    merges: list[list[str]],
    held: Sequence[StatementRow],
    human: str,
    added: int,
) -> Subject:
    membership = fingerprint("membership", key, name, human, *sorted(s.id for s in held))
    row = SubjectRow(
        id=artifact_logical_id(context, type_, key),
        type=type_,
        key=key,
        name=name,
        documents=len({s.path for s in held}),
        mentions=len(held),
        membership=membership,
        data=canonical_json({"aliases": aliases[:ALIASES_MAX], "merges": merges, "kind": held[0].kind}),
        added=added,
    )
    return Subject(row, tuple(held))
