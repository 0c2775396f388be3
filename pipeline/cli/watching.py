"""watch: curate on change."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import contract
from pipeline.cli import curating
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson
from pipeline.cli.outcome import tell_end
from pipeline.cli.publishing import follow
from pipeline.console import Rows, duration
from pipeline.errors import RejectedInput
from pipeline.rows import RunRow

FAILED = 3


def watch(
    context: typer.Context,
    what: curating.What = "",
    *,
    name: curating.Name = "",
    manifest: curating.ManifestFile = "",
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Between two looks.")] = 2.0,
    settle: Annotated[
        float, typer.Option("--settle", metavar="SECONDS", min=0.0, help="How long nothing must have changed.")
    ] = 2.0,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=0, help="End after so many runs; 0: never.")] = 0,
    workers: curating.Workers = 0,
    as_json: AsJson = False,
) -> int:
    """Curate a folder now and whenever its files change, once they have come to rest; one run at a time. Ctrl-C ends it.

    A large folder is looked at less often, so that looking takes a small share of the time.
    """
    from pipeline.loop import curate_and_follow  # noqa: PLC0415  # brings the stages and their libraries
    from pipeline.watching import Watcher  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    call.workers = workers
    request = curating.request_from(
        call, what, name, manifest=manifest, settings=None, force=False, rehash=False, allow_empty=False,
        batch_size=0, legs="", models=None, artifacts_reset=False, skip_corpus_aggregation=False, max_spend=None,
        trigger="watch",
    )  # fmt: skip
    watcher = Watcher(call.ports, request.context, every, settle)
    told: Rows = []
    try:
        for event in watcher.events(lambda: curate_and_follow(call.ports, request, call.settings.workers)):
            if event.error is not None:
                again = (
                    f"tried again in {duration(event.wait_s)}" if event.wait_s else "tried again after the next change"
                )
                call.console.note(f"{event.error.message}; {again}")
                if isinstance(event.error, RejectedInput) and not told and not event.wait_s:
                    raise event.error  # the first one: what was typed can't be used
                continue
            assert event.run is not None
            told.append(_row(event.run))
            _tell(call, event.run, as_json=as_json)
            if runs and len(told) >= runs:
                break
    except KeyboardInterrupt:
        call.console.note(f"no longer watching {request.context}")
    if as_json:
        call.console.document({"context": request.context, "runs": told})
    return 0


def _tell(call: Invocation, run: RunRow, *, as_json: bool) -> None:
    if as_json:
        call.console.note(f"run {run.id}: {run.state}")
    elif run.state != "noop":
        tell_end(call.console, call.ports, run)
    else:
        call.console.note(f"{run.context}: nothing has changed")
    follow(call, run.context)


def _row(run: RunRow) -> dict[str, object]:
    return {
        "run": run.id, "state": run.state, "version": run.number or None, "ended_at": contract.timestamp(run.ended_at),
    }  # fmt: skip
