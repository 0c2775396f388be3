"""quarantine: sources that the pipeline can't take, and when they are tried again."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import contract
from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import counted, moment
from pipeline.errors import RejectedInput
from pipeline.rows import QuarantineRow


def list_(
    context: typer.Context,
    name: ContextName,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also bytes that their source no longer has; they may come back.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List what is in quarantine, the same trouble together. Such sources are not tried again while nothing changes."""
    from pipeline import quarantine  # noqa: PLC0415  # brings the parsers

    call = invocation(context, as_json=as_json)
    held = quarantine.listed(call.ports, slug_of(name))
    past = quarantine.past(call.ports, slug_of(name), held)
    rows = [row for row in held if everything or row.id not in past]
    if as_json:
        shown = [{**_document(row), "past": row.id in past} for row in rows]
        call.console.document({"context": name, "quarantine": shown})
        return 0
    if rows:
        call.console.table(
            ("source", "error", "code", "since", "spared", "reason"),
            [(row.path, row.error, row.code, moment(row.since), row.spared, row.reason) for row in rows],
        )
    else:
        call.console.line(f"nothing of {name} is in quarantine")
    if len(rows) < len(held):
        more = counted(len(held) - len(rows), "entry", "entries")
        call.console.line(f"and {more} of bytes that their sources no longer have: --all")
    return 0


def why(
    context: typer.Context,
    name: ContextName,
    what: Annotated[str, typer.Argument(metavar="SOURCE|ERROR", help="A source, or an error as `list` shows it.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Say why a source is in quarantine, and what lets it out."""
    from pipeline import quarantine  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    rows = quarantine.of_path(call.ports, slug_of(name), text_of(what))
    if as_json:
        call.console.document({"context": name, "quarantine": [_document(row) for row in rows]})
        return 0
    for row in rows:
        call.console.line(f"{row.path}: {row.reason}")
        call.console.line(f"{row.code}, since {moment(row.since)}; {counted(row.spared, 'attempt')} spared", indent=2)
        call.console.line(f"bytes {row.hash[:16]}, error {row.error}", indent=2)
        call.console.line(
            f"tried again once its bytes or the pipeline change; at once with: lamina quarantine release {name} {row.path}",
            indent=2,
        )
    return 0


def release(
    context: typer.Context,
    name: ContextName,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE|ERROR...", help="Sources, folders, or errors as `list` shows them."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Release all of them.")] = False,
    as_json: AsJson = False,
) -> int:
    """Let sources be tried again at the next curate."""
    from pipeline import quarantine  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    given = [text_of(one) for one in what or ()]
    if bool(given) == everything:
        raise RejectedInput(
            "bad_options", "name what to release, or say --all", remedy=f"see: lamina quarantine list {name}"
        )
    rows = quarantine.release(call.ports, slug_of(name), given)
    if as_json:
        call.console.document({"context": name, "released": [row.path for row in rows]})
    else:
        call.console.line(f"{counted(len(rows), 'source')} released; they are tried with: lamina curate {name}")
    return 0


def _document(row: QuarantineRow) -> dict[str, object]:
    return {
        "source": row.path, "id": row.id, "hash": row.hash, "pipeline": row.pipeline, "error": row.error,
        "code": row.code, "reason": row.reason, "since": contract.timestamp(row.since), "spared": row.spared,
    }  # fmt: skip
