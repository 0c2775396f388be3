"""add, remove and delete: files in and out of staged contexts, and the end of a context."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import contexts, publish, staging
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import counted
from pipeline.errors import RejectedInput
from pipeline.types import ContextSlug

PARTIAL = 1
LISTED_MAX = 50
"""Files that a report names on a terminal; --json names all."""


def _places(call: Invocation, slug: ContextSlug) -> staging.Places:
    return staging.Places(call.staged_folder(slug), call.context_folder(slug) / "incoming")


def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CONTEXT", help="Name of the context; made when it is new.")],
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and folders to copy in.")],
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="FOLDER", help="Put them into this folder of the staged files.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace staged files of the same names.")] = False,
    as_json: AsJson = False,
) -> int:
    """Copy files into a context that keeps its own sources. They are indexed at the next curate.

    A folder goes in under its own name with all that is below it, save what .laminaignore leaves out; links that lead
    out of it are not followed.
    """
    call = invocation(context, as_json=as_json)
    slug = contexts.checked_slug(text_of(name))
    done = staging.add(call.ports, slug, _places(call, slug), paths, into=into, replace=replace)
    failed = [item for item in done if item.outcome == "failed"]
    if as_json:
        call.console.document(
            {
                "context": name,
                "sources": [
                    {"path": i.path, "outcome": i.outcome, **({"reason": i.reason} if i.reason else {})} for i in done
                ],
            }
        )
        return PARTIAL if failed else 0
    for item in done[:LISTED_MAX]:
        label = "there already" if item.outcome == "same" else item.outcome
        call.console.line(f"{label}: {item.path}{f': {item.reason}' if item.reason else ''}")
    if len(done) > LISTED_MAX:
        call.console.line(f"and {len(done) - LISTED_MAX} more")
    changed = sum(item.outcome in ("added", "replaced") for item in done)
    call.console.line(
        f"{counted(changed, 'file')} staged in {name}, {len(failed)} failed; index them with: lamina curate {name}"
    )
    return PARTIAL if failed else 0


def remove(
    context: typer.Context,
    name: ContextName,
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Staged sources, or folders of them.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Take files out of a staged context. Queries go on finding them until the next curate."""
    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    removed = staging.remove(call.ports, slug, _places(call, slug), paths)
    if as_json:
        call.console.document({"context": name, "removed": list(removed)})
        return 0
    for path in removed[:LISTED_MAX]:
        call.console.line(f"removed: {path}")
    if len(removed) > LISTED_MAX:
        call.console.line(f"and {len(removed) - LISTED_MAX} more")
    call.console.line(f"this takes effect at the next curate: lamina curate {name}")
    return 0


def delete(
    context: typer.Context,
    name: ContextName,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    as_json: AsJson = False,
) -> int:
    """Erase a context: its index, its versions and its staged files. A folder that is read in place is left alone."""
    call = invocation(context, as_json=as_json)
    slug = contexts.checked_slug(text_of(name))
    folder = call.context_folder(slug)
    with call.ports.ledger.read() as session:
        held = session.contexts.get(slug)
        if held is None and not folder.is_dir():
            publish.require_context(session, slug)
    loss = "its staged files, " if held is None or held.kind == "staged" else ""
    if not yes:
        agreed = call.console.confirm(f"Delete {name} for good: {loss}its index and all versions?")
        if agreed is None:
            raise RejectedInput(
                "not_confirmed", f"deleting {name} needs a yes, and there is nobody to ask", remedy="add --yes"
            )
        if not agreed:
            raise RejectedInput("not_confirmed", f"{name} was not deleted", remedy="")
    if held is not None:
        contexts.forget(call.ports, slug)
    call.ports.close_indexes()
    staging.erase_folder(folder)
    if as_json:
        call.console.document({"context": name, "deleted": True})
    else:
        call.console.line(f"{name} is deleted")
    return 0
