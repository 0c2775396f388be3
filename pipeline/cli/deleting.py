"""delete-sources: out of the index and every later version, without reading the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline import publish, staging
from pipeline.cli.curating import carry_out
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import Console, counted, moment
from pipeline.errors import RejectedInput
from pipeline.fingerprint import decode_path
from pipeline.types import ContextSlug, SourcePath

if TYPE_CHECKING:
    from pipeline.purging import Standing

NAMED_MAX = 10


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
    purge: Annotated[
        bool,
        typer.Option(
            "--purge", help="Erase them from kept versions, memo and recordings, too; also what was deleted before."
        ),
    ] = False,
    by_fleet: Annotated[bool, typer.Option("--submit", help="Let the fleet do the run.")] = False,
    as_json: AsJson = False,
) -> int:
    """Delete sources from a context and everything derived from them, in a small run that reads no other source.

    A file that stays in the folder stays out of the context until its bytes change. Staged files are removed.
    """
    from pipeline import deleting, fleet, hosted  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    if restore and purge:
        raise RejectedInput("bad_options", "what is purged can't be restored", remedy="give --restore or --purge")
    slug = slug_of(name)
    given = [text_of(path) for path in paths]
    if restore:
        back = deleting.unearth(call.ports, slug, given)
        if as_json:
            call.console.document({"context": slug, "restored": list(back)})
        else:
            call.console.line(f"{counted(len(back), 'source')} of {slug} may come in again: lamina curate {slug}")
        return 0
    buried = deleting.bury(call.ports, slug, given, purge=purge)
    _unstage(call, slug, buried)
    if not by_fleet or not deleting.any_live(call.ports, slug, buried):
        return _here(call, slug, buried, purge=purge)
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


def _here(call: Invocation, slug: ContextSlug, doomed: tuple[SourcePath, ...], *, purge: bool) -> int:
    from pipeline import deleting, purging  # noqa: PLC0415  # as above
    from pipeline.contract import timestamp  # noqa: PLC0415  # as above

    told: dict[str, object] = {}

    def then() -> dict[str, object]:
        if purge:
            deleting.purge_rest(call.ports, slug)
            standing = purging.standing(call.ports, slug)
            pinned = [{"version": number, "until": timestamp(until)} for number, until in standing.pinned]
            told["purge"] = {
                "sources": list(doomed), "unavailable": list(standing.unavailable), "pinned": pinned,
                "pending": standing.pending,
            }  # fmt: skip
        return told

    status = carry_out(call, deleting.request(slug), then)
    if purge and not call.console.as_json:
        _tell_purge(call.console, slug, doomed, purging.standing(call.ports, slug))
    return status


def _tell_purge(out: Console, slug: ContextSlug, doomed: tuple[SourcePath, ...], standing: Standing) -> None:
    named = ", ".join(doomed[:NAMED_MAX]) + (" ..." if len(doomed) > NAMED_MAX else "")
    out.line(f"purged {counted(len(doomed), 'source')}: {named}")
    gone = ", ".join(map(str, standing.unavailable)) or "none"
    out.line(f"versions that can't be read any more, as they held purged sources: {gone}", indent=2)
    for number, until in standing.pinned:
        out.line(
            f"version {number} is pinned until {moment(until)} and holds them until then: lamina unpin {slug} PIN, "
            f"then lamina gc {slug}",
            indent=2,
        )


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
