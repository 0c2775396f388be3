"""plan and apply: what a run would do and cost, and that run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.cli import curating
from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, text_of
from pipeline.cli.outcome import tell_end
from pipeline.cli.publishing import follow
from pipeline.console import Console, counted, duration
from pipeline.types import RunId

LISTED_MAX = 50
"""Sources that a terminal shows; --json has all that the plan lists."""


def plan(
    context: typer.Context,
    what: curating.What = "",
    *,
    name: curating.Name = "",
    manifest: curating.ManifestFile = "",
    settings: curating.Choices = None,
    force: curating.Force = False,
    rehash: curating.Rehash = False,
    allow_empty: curating.AllowEmpty = False,
    workers: curating.Workers = 0,
    as_json: AsJson = False,
) -> int:
    """Say what a curate would add, rewrite, delete and reuse, and why, with tokens, time and money. Changes nothing.

    Sources are parsed and cut for it; that work is kept, so that nothing is done twice. `lamina apply PLAN` does what the
    plan says, or refuses where the world has moved.
    """
    from pipeline import planning  # noqa: PLC0415  # brings the stages and their libraries
    from pipeline.loop import Meter  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    call.workers = workers
    request = curating.request_from(
        call, what, name, manifest=manifest, settings=settings, force=force, rehash=rehash, allow_empty=allow_empty,
        batch_size=0, legs="", models=None, artifacts_reset=False, skip_corpus_aggregation=False, max_spend=None,
    )  # fmt: skip
    meter = Meter()
    with call.console.watch(curating.looker(call.ports, request.context, meter)):
        document = planning.make(call.ports, request, call.settings.workers, meter)
    if as_json:
        call.console.document(document)
    else:
        _show(call.console, document)
    return 0


def apply(
    context: typer.Context,
    what: Annotated[str, typer.Argument(metavar="PLAN", help="Id of a plan, as `lamina plan` shows it.")],
    *,
    workers: curating.Workers = 0,
    as_json: AsJson = False,
) -> int:
    """Do what a plan says. Refused where sources, what is live, or settings have moved since it was made."""
    from pipeline import planning  # noqa: PLC0415  # as above
    from pipeline.loop import Meter  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    call.workers = workers
    plan_id, meter = RunId(text_of(what)), Meter()
    planned, _ = planning.stored(call.ports, plan_id)
    with call.console.watch(curating.looker(call.ports, planned.context, meter)):
        run = planning.apply(call.ports, plan_id, call.settings.workers, meter)
    status = tell_end(call.console, call.ports, run)
    follow(call, run.context)
    return status


def _show(out: Console, plan: dict[str, Any]) -> None:
    base = f"version {plan['base_version']}" if plan["base_version"] else "nothing"
    out.line(f"plan {plan['plan']} of {plan['context']}, over {base}")
    if plan["nothing_to_do"]:
        out.line("there is nothing to do", indent=2)
        _stale(out, plan)
        return
    out.line(
        ", ".join(f"{count} {change}" for change, count in plan["changes"].items())
        + f", {plan['unchanged']} unchanged", indent=2,
    )  # fmt: skip
    records = plan["records"]
    out.line(
        f"records: {records['added']} added, {records['removed']} removed, {records['kept']} kept of the sources touched, "
        f"{records['copied']} with the vectors they have", indent=2,
    )  # fmt: skip
    _stale(out, plan)
    out.line()
    out.table(
        ("source", "change", "added", "removed", "kept", "tokens", "why"),
        [
            (row["source"], row["change"], row["added"], row["removed"], row["kept"], row["tokens"],
             row.get("reason") or row["why"])
            for row in plan["sources"][:LISTED_MAX]
        ],
    )  # fmt: skip
    left = len(plan["sources"]) - LISTED_MAX + plan["sources_left_out"]
    if left > 0:
        out.line(f"and {left} more; see all with --json", indent=2)
    out.line()
    out.table(
        ("stage", "work", "time"),
        [(row["stage"], _work(row), _time(row)) for row in plan["stages"]],
    )
    _model(out, plan["artifacts"])
    out.line()
    out.line(f"do it with: lamina apply {plan['plan']}")


def _stale(out: Console, plan: dict[str, Any]) -> None:
    if plan["stale"]:
        out.line(f"{counted(plan['stale'], 'source')} would come out otherwise with --force", indent=2)


def _work(row: dict[str, Any]) -> str:
    known = f" ({row['cached']:,} known)" if row.get("cached") else ""
    return f"{row['work']:,} {row['measure']}{known}"


def _time(row: dict[str, Any]) -> str:
    if row["done"]:
        return f"done, {duration(row['seconds'])}"
    if row["seconds"] is None:
        return "not known yet" if row["work"] else "-"
    return f"{duration(row['seconds']['lo'])} to {duration(row['seconds']['hi'])}"


def _model(out: Console, artifacts: dict[str, Any] | None) -> None:
    if artifacts is None:
        return
    if artifacts["tier"] is None:
        out.line(f"language model: {artifacts['reason']}")
        return
    tokens, seconds, money = artifacts["tokens"], artifacts["seconds"], artifacts["money"]
    spent = f", {money['lo']:.2f} to {money['hi']:.2f} in money" if money else ""
    out.line(
        f"language model ({artifacts['tier']}), about {counted(artifacts['sources'], 'source')}: "
        f"{tokens['lo']:,} to {tokens['hi']:,} tokens, {duration(seconds['lo'])} to {duration(seconds['hi'])}{spent}"
    )
