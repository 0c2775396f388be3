"""manifest validate, schema, templates and diff. They need no deployment.

The package `manifests` is imported where it is used: its models take a good part of a second to build, which every other
verb would pay.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, read_manifest, read_text
from pipeline.console import counted
from pipeline.errors import RejectedInput

INVALID = 2


def validate(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The manifest, JSON or YAML.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Check a manifest and tell everything that is wrong with it. Exit status 2 if anything is."""
    import manifests  # noqa: PLC0415  # see above

    call = invocation(context, as_json=as_json)
    problems = manifests.validate_text(read_text(file), file)
    if as_json:
        listed = [{"path": p.path, "value": p.value, "message": p.message, "remedy": p.remedy} for p in problems]
        call.console.document({"valid": not problems, "problems": listed})
    elif problems:
        call.console.line(f"{file}: {counted(len(problems), 'problem')}")
        for problem in problems:
            call.console.line(problem, indent=2)
    else:
        call.console.line(f"{file}: a good manifest")
    return INVALID if problems else 0


def schema(context: typer.Context, *, as_json: AsJson = False) -> int:
    """Print the JSON Schema of manifests, for editors."""
    import manifests  # noqa: PLC0415  # see above

    call = invocation(context, as_json=as_json)
    call.console.document(json.loads(manifests.schema_json()))
    return 0


def templates(
    context: typer.Context,
    template: Annotated[
        str, typer.Argument(metavar="[ID]", help="Print this template's manifest, to start from.")
    ] = "",
    *,
    as_json: AsJson = False,
) -> int:
    """List the manifests that come with Lamina, or print one of them."""
    import manifests  # noqa: PLC0415  # see above

    call = invocation(context, as_json=as_json)
    catalog = manifests.templates.catalog()
    if not template:
        if as_json:
            call.console.document(catalog)
        else:
            call.console.table(
                ("id", "name", "description"), [(t["id"], t["label"], t["description"]) for t in catalog["templates"]]
            )
            call.console.line()
            call.console.line("print one with: lamina manifest templates ID")
        return 0
    for entry in catalog["templates"]:
        if entry["id"] == template:
            call.console.document(entry if as_json else entry["manifest"])
            return 0
    known = ", ".join(entry["id"] for entry in catalog["templates"])
    raise RejectedInput("no_template", f"there is no template {template!r}", remedy=f"templates: {known}")


def diff(
    context: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The manifest before.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The manifest now.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Tell what differs between two manifests, and what that means for what is indexed."""
    import manifests  # noqa: PLC0415  # see above

    call = invocation(context, as_json=as_json)
    found = manifests.diff(read_manifest(old), read_manifest(new))
    if as_json:
        call.console.document(found.to_json())
    else:
        for line in found.to_lines():
            call.console.line(line)
    return 0
