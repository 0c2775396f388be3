"""merges list, pin, forbid, split and withdraw: which names are one subject, and what people decide about it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline import contract
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.knowing import AtVersion
from pipeline.cli.options import AsJson, ContextName, slug_of, source_names, text_of
from pipeline.console import counted, moment

if TYPE_CHECKING:
    from pipeline.merges import Merged
    from pipeline.rows import DecisionRow

TypeName = Annotated[str, typer.Argument(metavar="TYPE", help="Artifact type that the names are of.")]
FirstName = Annotated[str, typer.Argument(metavar="NAME", help="A name, as a source spells it.")]
SecondName = Annotated[str, typer.Argument(metavar="NAME", help="The other name.")]


def list_(
    context: typer.Context,
    name: ContextName,
    *,
    type_: Annotated[str, typer.Option("--type", metavar="T", help="Only subjects of this type.")] = "",
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """List the subjects with more than one spelling, why each was merged, and what people decided."""
    from pipeline import knowledge, merges  # noqa: PLC0415  # brings the artifact leg and the manifest's models

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    with knowledge.reading(call.ports, slug, version) as number:
        known = knowledge.type_named(call.ports, slug, number, text_of(type_))
        decided = merges.decisions(call.ports, slug, known)
        found = merges.merged(call.ports, slug, number, known)
        if as_json:
            head = {"context": name, "version": number, "decisions": [_told(row) for row in decided]}
            call.console.stream(head, "subjects", map(_subject, found))
            return 0
        total = 0
        for total, each in enumerate(found, 1):  # noqa: B007 - the last one is the number of all
            _show(call, each)
        call.console.line(f"version {number}: {counted(total, 'subject')} with more than one spelling")
    if decided:
        call.console.line()
        call.console.table(
            ("decision", "state", "what", "type", "names", "when", "by"),
            [(d.id, _state(d), d.kind, d.type, _names(d), moment(d.at), d.by) for d in decided],
        )
    return 0


def _subject(found: Merged) -> dict[str, Any]:
    merges = [dict(zip(("left", "right", "rule", "evidence"), merge, strict=True)) for merge in found.merges]
    return {**asdict(found), "merges": merges}


def _show(call: Invocation, found: Merged) -> None:
    call.console.line(f"{found.name} ({found.type}): {', '.join(found.aliases)}  ({counted(found.sources, 'source')})")
    for left, right, rule, evidence in found.merges:
        call.console.line(f"{left} = {right}: {rule}{f', {evidence}' if evidence else ''}", indent=2)


def pin(
    context: typer.Context,
    name: ContextName,
    type_: TypeName,
    left: FirstName,
    right: SecondName,
    *,
    as_json: AsJson = False,
) -> int:
    """Decide that two names are one subject, whatever the rules say."""
    return _pair(context, name, "pin", type_, (left, right), as_json=as_json)


def forbid(
    context: typer.Context,
    name: ContextName,
    type_: TypeName,
    left: FirstName,
    right: SecondName,
    *,
    as_json: AsJson = False,
) -> int:
    """Decide that two names are never one subject, whatever the rules say."""
    return _pair(context, name, "forbid", type_, (left, right), as_json=as_json)


def _pair(context: typer.Context, name: str, kind: str, type_: str, spelled: tuple[str, str], *, as_json: bool) -> int:
    from pipeline import merges  # noqa: PLC0415  # as in list_

    call = invocation(context, as_json=as_json)
    both = (text_of(spelled[0]), text_of(spelled[1]))
    row = merges.pair(call.ports, slug_of(name), kind, text_of(type_), both)
    return _say(call, name, row)


def split(
    context: typer.Context,
    name: ContextName,
    type_: TypeName,
    spelled: FirstName,
    *,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="PATH", help="A source in which the name means something else. Repeat it."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Decide that a name means something of its own in some sources."""
    from pipeline import merges  # noqa: PLC0415  # as in list_

    call = invocation(context, as_json=as_json)
    paths = [source_names(path) for path in source or () if path]
    row = merges.split(call.ports, slug_of(name), text_of(type_), text_of(spelled), paths)
    return _say(call, name, row)


def withdraw(
    context: typer.Context,
    name: ContextName,
    decision: Annotated[str, typer.Argument(metavar="ID", help="Id of the decision; `lamina merges list` has it.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Take a decision back."""
    from pipeline import merges  # noqa: PLC0415  # as in list_

    call = invocation(context, as_json=as_json)
    row = merges.withdraw(call.ports, slug_of(name), text_of(decision))
    if as_json:
        call.console.document({"context": name, "withdrawn": row.id, "undone_by_next_curate": bool(row.applied)})
    else:
        call.console.line(f"decision {row.id} is taken back: {row.kind} {_names(row)}")
        if row.applied:
            call.console.line(f"the next curate undoes it: lamina curate {name}", indent=2)
        else:
            call.console.line("no run had taken it up, so there is nothing to undo", indent=2)
    return 0


def _say(call: Invocation, name: str, row: DecisionRow) -> int:
    if call.console.as_json:
        call.console.document({"context": name, "decision": _told(row)})
        return 0
    call.console.line(f"decision {row.id}: {row.kind} {_names(row)} ({row.type})")
    if row.applied:
        call.console.line(f"it holds already, since version {row.applied}", indent=2)
    else:
        call.console.line(f"the next curate takes it up: lamina curate {name}", indent=2)
    call.console.line(f"take it back with: lamina merges withdraw {name} {row.id}", indent=2)
    return 0


def _names(row: DecisionRow) -> str:
    if row.kind == "split":
        return f"{row.left} in {', '.join(json.loads(row.right))}"
    return f"{row.left} / {row.right}"


def _state(row: DecisionRow) -> str:
    from pipeline import merges  # noqa: PLC0415  # as in list_

    state = merges.state_of(row)
    return f"held since version {row.applied}" if state == "held" else state


def _told(row: DecisionRow) -> dict[str, Any]:
    from pipeline import merges  # noqa: PLC0415  # as in list_

    split_ = row.kind == "split"
    return {
        "id": row.id,
        "kind": row.kind,
        "type": row.type,
        "names": [row.left] if split_ else [row.left, row.right],
        "sources": json.loads(row.right) if split_ else [],
        "state": merges.state_of(row),
        "since_version": row.applied or None,
        "at": contract.timestamp(row.at),
        "by": row.by,
    }
