"""publish: copies of live versions for third-party readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of
from pipeline.console import counted
from pipeline.errors import PipelineError, RejectedInput
from pipeline.progress import Progress, single
from pipeline.types import ContextSlug

if TYPE_CHECKING:
    from pipeline.publication_carrier import Published


def publish(
    context: typer.Context,
    name: ContextName,
    *,
    check: Annotated[
        bool,
        typer.Option("--check", help="Hold every id of both indexes against the ledger, and put right what differs."),
    ] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take the context's records out of the pair instead.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Bring the copy for third-party readers up to the live version, in the pair of indexes that the settings name.

    Curating does so by itself where `published_index` is set. The copy lags behind and may be seen half-way.
    """
    from pipeline import publication  # noqa: PLC0415  # brings what writes

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    if withdraw:
        if check:
            raise RejectedInput("bad_options", "--check and --withdraw exclude each other", remedy="give one of them")
        gone = publication.withdraw(call.ports, slug)
        if as_json:
            call.console.document({"context": slug, "withdrawn": gone})
        else:
            call.console.line(f"{slug} is no longer published" if gone else f"{slug} wasn't published")
        return 0
    done = _carry(call, slug, check=check)
    if as_json:
        call.console.document(_document(done))
        return 0
    places = ", ".join(f"{count} in {space}" for space, count in done.records.items() if count) or "nothing"
    call.console.line(f"{slug}: {done.index} shows version {done.version}: {places}")
    call.console.line(f"{done.written} records written, {done.deleted} erased", indent=2)
    if done.missing or done.strays:
        call.console.line(f"put right: {done.missing} were missing, {done.strays} didn't belong there", indent=2)
    for count, what in (
        (done.left_out, "metadata values left out: their field is of another type"),
        (done.cut, "texts cut to what a record holds"),
    ):
        if count:
            call.console.line(f"{count} {what}", indent=2)
    if done.undeclared:
        call.console.line(f"no room in the schema record for: {', '.join(done.undeclared)}", indent=2)
    return 0


def follow(call: Invocation, slug: ContextSlug) -> None:
    """Publish what has just gone live. That it went live is told by now: nothing depends on this."""
    if call.ports.pair is None:
        return
    from pipeline import publication  # noqa: PLC0415  # as above

    if slug not in publication.behind(call.ports):
        return
    try:
        done = _carry(call, slug, check=False)
    except PipelineError as error:
        call.console.note(f"the published copy is behind: {error.message}; go on with: lamina publish {slug}")
        return
    except KeyboardInterrupt:
        call.console.note(f"interrupted: the published copy is behind; go on with: lamina publish {slug}")
        return
    call.console.note(f"published in {done.index}: {counted(done.written, 'record')} written, {done.deleted} erased")


def _carry(call: Invocation, slug: ContextSlug, *, check: bool) -> Published:
    from pipeline import publication  # noqa: PLC0415  # as above

    began, seen = call.ports.clock.now(), [0, 0]

    def report(done: int, total: int) -> None:
        seen[:] = [done, total]

    def look() -> Progress | None:
        return single("publish", "records", seen[0], seen[1], call.ports.clock.now() - began)

    with call.console.watch(look):
        return publication.bring_up(call.ports, slug, check=check, report=report)


def _document(done: Published) -> dict[str, object]:
    return {
        "context": done.context,
        "index": done.index,
        "version": done.version,
        "written": done.written,
        "deleted": done.deleted,
        "missing": done.missing,
        "strays": done.strays,
        "left_out": done.left_out,
        "cut": done.cut,
        "undeclared": list(done.undeclared),
        "records": done.records,
    }
