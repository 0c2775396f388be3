"""The fleet's verbs: submit, explain, requeue, worker, up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli import curating
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, text_of
from pipeline.cli.outcome import tell_end
from pipeline.console import counted, moment
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.types import RunId

if TYPE_CHECKING:
    from pipeline.explain import Explanation

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run; `lamina runs CONTEXT` lists them.")]
LOOK_S = 0.5
"""Between two looks at a run that is waited for."""


def submit(
    context: typer.Context,
    what: curating.What = "",
    *,
    name: curating.Name = "",
    manifest: curating.ManifestFile = "",
    settings: curating.Choices = None,
    force: curating.Force = False,
    rehash: curating.Rehash = False,
    allow_empty: curating.AllowEmpty = False,
    batch_size: curating.BatchSize = 0,
    legs: curating.Legs = "",
    models: curating.Models = None,
    artifacts_reset: curating.ArtifactsReset = False,
    skip_corpus_aggregation: curating.SkipCorpus = False,
    max_spend: curating.MaxSpend = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show progress until the run has ended.")] = False,
    as_json: AsJson = False,
) -> int:
    """Curate by the fleet: the run is put down in the ledger and workers are told. Takes what `curate` takes.

    The same submission twice is one run. `lamina explain RUN` says where it is, `lamina cancel RUN` stops it.
    """
    from pipeline import fleet, hosted  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    dispatch = hosted.dispatch(call.settings)
    try:
        request = curating.request_from(
            call,
            what,
            name,
            manifest=manifest,
            settings=settings,
            force=force,
            rehash=rehash,
            allow_empty=allow_empty,
            batch_size=batch_size,
            legs=legs,
            models=models,
            artifacts_reset=artifacts_reset,
            skip_corpus_aggregation=skip_corpus_aggregation,
            max_spend=max_spend,
        )
        done = fleet.submit(call.ports, request, dispatch)
    finally:
        dispatch.close()
    if not done.told:
        call.console.note(
            f"the broker doesn't answer: run {done.run} stands in the ledger, and workers learn of it once the broker is back "
            "(lamina doctor says what is wrong)"
        )
    if wait:
        return _wait(call, done.run)
    if as_json:
        call.console.document({"run": done.run, "context": done.context, "joined": done.joined, "told": done.told})
    else:
        call.console.line(
            f"run {done.run} of {done.context} is "
            f"{'under way already' if done.joined else 'with the fleet' if done.told else 'in the ledger'}; "
            f"where it is: lamina explain {done.run}"
        )
    return 0


def _wait(call: Invocation, run: RunId) -> int:
    """Until the run has ended, and the runs that follow it by themselves."""
    look = curating.looker_at(call.ports, run)
    try:
        with call.console.watch(look):
            while True:
                with call.ports.ledger.read() as session:
                    row = session.runs.get(run)
                    held = session.runs.active(row.context) if row else None
                assert row is not None
                if row.state not in RUN_ACTIVE and held is None:
                    break
                time.sleep(LOOK_S)
    except KeyboardInterrupt:
        call.console.note(f"no longer watched; the fleet goes on with it. Stop it with: lamina cancel {run}")
        return curating.INTERRUPTED
    return tell_end(call.console, call.ports, _last(call, row))


def _last(call: Invocation, row: RunRow) -> RunRow:
    """The last run of the chain that did something: what followed a run that could not be it."""
    with call.ports.ledger.read() as session:
        later = [r for r in session.runs.list(row.context, 10) if r.kind == "curate" and r.created_at >= row.created_at]
    done = [r for r in later if r.state == "completed"]
    return done[0] if done else later[0] if later else row


def explain(context: typer.Context, run: RunName, *, as_json: AsJson = False) -> int:
    """Say where a run is: each unit, who holds it, since when, why it waits, and what to do."""
    from pipeline.explain import explain as flow  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    told = flow(call.ports, RunId(text_of(run)))
    if as_json:
        call.console.document(_document(told))
        return 0
    out = call.console
    out.line(f"run {told.run.id} of {told.run.context}: {told.run.state}, held by {told.run.owner or 'nobody'}")
    out.line(told.verdict, indent=2)
    if told.remedy:
        out.line(told.remedy, indent=2)
    if told.run.error:
        out.line(f"last trouble: {told.run.error}", indent=2)
    if told.lanes:
        out.line("lanes: " + ", ".join(f"{n} {state}" for state, n in sorted(told.lanes.items())), indent=2)
    if told.stages:
        out.line()
        out.table(
            ("stage", "units done", "begun", "last ended"),
            [
                (
                    stage.stage,
                    f"{stage.units_done} of {stage.units}",
                    moment(stage.first_at) if stage.first_at else "-",
                    moment(stage.last_at) if stage.last_at else "-",
                )
                for stage in told.stages
            ],
        )
    if told.units:
        out.line()
        out.table(
            ("unit", "why", "what to do"),
            [(f"{story.unit.stage}/{story.unit.batch}", story.why, story.remedy or "-") for story in told.units],
        )
    return 0


def _document(told: Explanation) -> dict[str, object]:
    return {
        "run": told.run.id,
        "context": told.run.context,
        "state": told.run.state,
        "owner": told.run.owner or None,
        "verdict": told.verdict,
        "remedy": told.remedy or None,
        "error": told.run.error or None,
        "lanes": dict(told.lanes),
        "stages": [{"stage": s.stage, "units": s.units, "done": s.units_done} for s in told.stages],
        "units": [
            {
                "stage": s.unit.stage,
                "batch": s.unit.batch,
                "state": s.unit.state,
                "owner": s.unit.owner or None,
                "attempts": s.unit.attempts,
                "failures": s.unit.failures,
                "why": s.why,
                "remedy": s.remedy or None,
            }
            for s in told.units
        ],
    }


def requeue(context: typer.Context, run: RunName, *, as_json: AsJson = False) -> int:
    """Try everything of a run that waits at once: rests end, messages are sent again."""
    from pipeline import fleet, hosted  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    dispatch = hosted.dispatch(call.settings)
    try:
        sent = fleet.requeue(call.ports, RunId(text_of(run)), dispatch)
    finally:
        dispatch.close()
    if as_json:
        call.console.document({"run": text_of(run), "sent": sent})
    else:
        call.console.line(
            f"run {text_of(run)}: {counted(sent, 'message')} sent; where it is: lamina explain {text_of(run)}"
        )
    return 0


def worker(
    context: typer.Context,
    *,
    queues: Annotated[
        str, typer.Option("--queues", metavar="LIST", help="What to take units from, with commas between; all of them.")
    ] = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=0, max=256, help="Processes; 0: one a processor.")
    ] = 0,
    beat: Annotated[
        bool, typer.Option("--beat", help="Look for lost work on a schedule, too. One worker is enough.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Name in logs; without it, made of the queues.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Do units of submitted runs until told to stop. SIGTERM and Ctrl-C hand back what is in hand."""
    from pipeline.cli.fleeting import run_worker  # noqa: PLC0415  # brings Celery

    call = invocation(context, as_json=as_json)
    return _told(call, run_worker(call, queues=queues, concurrency=concurrency, beat=beat, name=name))


def up(
    context: typer.Context,
    *,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=64, help="Worker processes beside the reserved one.")
    ] = 2,
    as_json: AsJson = False,
) -> int:
    """Run a whole fleet on this machine until Ctrl-C: a broker, workers, and the schedule that keeps them in order."""
    from pipeline.cli.fleeting import run_fleet  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    return _told(call, run_fleet(call, workers=workers))


def _told(call: Invocation, status: int) -> int:
    """How the processes ended, where a document is wanted of a verb whose work leaves none."""
    if call.console.as_json:
        call.console.document({"exit_status": status})
    return status
