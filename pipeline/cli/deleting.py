"""delete-sources: out of the index and every later version, without reading the rest."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from pipeline import publish, staging
from pipeline.cli.curating import carry_out
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import counted
from pipeline.fingerprint import decode_path
from pipeline.types import ContextSlug, SourcePath


def delete_sources(
    context: typer.Context,
    name: ContextName,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Sources as `lamina sources` shows them, or folders of such.")
    ],
    *,
    restore: Annotated[
        bool, typer.Option("--restore", help="Take deletions back; the files come in with the next curate.")
    ] = False,
    by_fleet: Annotated[bool, typer.Option("--submit", help="Let the fleet do the run.")] = False,
    as_json: AsJson = False,
) -> int:
    """Delete sources from a context and everything derived from them, in a small run that reads no other source.

    A file that stays in the folder stays out of the context until its bytes change. Staged files are removed.
    """
    from pipeline import deleting, fleet, hosted  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    given = [text_of(path) for path in paths]
    if restore:
        back = deleting.unearth(call.ports, slug, given)
        if as_json:
            call.console.document({"context": slug, "restored": list(back)})
        else:
            call.console.line(f"{counted(len(back), 'source')} of {slug} may come in again: lamina curate {slug}")
        return 0
    buried = deleting.bury(call.ports, slug, given)
    _unstage(call, slug, buried)
    if not by_fleet:
        return carry_out(call, deleting.request(slug))
    dispatch = hosted.dispatch(call.settings)
    try:
        done = fleet.submit(call.ports, deleting.request(slug), dispatch)
    finally:
        dispatch.close()
    if as_json:
        call.console.document({"run": done.run, "context": done.context, "joined": done.joined})
    else:
        call.console.line(
            f"{counted(len(buried), 'source')} of {slug} are being deleted by the fleet: lamina explain {done.run}"
        )
    return 0


def _unstage(call: Invocation, slug: ContextSlug, paths: tuple[SourcePath, ...]) -> None:
    """Remove staged files; a folder that is read in place is its owner's."""
    with call.ports.ledger.read() as session:
        held = publish.require_context(session, slug)
    if held.kind != "staged":
        return
    places = staging.Places(call.staged_folder(slug), call.context_folder(slug) / "incoming")
    there = [path for path in paths if os.path.lexists(os.path.join(os.fsencode(places.tree), decode_path(path)))]  # noqa: PTH118
    if there:
        staging.remove(call.ports, slug, places, there)
