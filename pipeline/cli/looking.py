"""contexts, runs, show and ledger: what the ledger says. None of them loads a model or a parser."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer

from pipeline import contract, contract_state, publish
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import Rows, amount, bytes_text, counted, duration, moment
from pipeline.errors import RejectedInput
from pipeline.rows import RunRow, SourceRow
from pipeline.types import RunId
from pipeline.units import StageSummary

SOURCES_PAGE = 1000
"""Sources read from the ledger at a time."""

JOBS_SHOWN = 1000
"""Hosted jobs that a run's steps list."""


def contexts(context: typer.Context, *, as_json: AsJson = False) -> int:
    """List the contexts: what each reads, its live version, and the run at work on it."""
    call = invocation(context, as_json=as_json)
    rows: Rows = []
    with call.ports.ledger.read() as session:
        for held in session.contexts.list():
            live = session.versions.get(held.slug, held.live_version)
            run = session.runs.active(held.slug)
            rows.append(
                {
                    "context": held.slug,
                    "kind": held.kind,
                    "root": held.root or None,
                    "live_version": held.live_version,
                    "records": live.records if live else 0,
                    "live_since": contract.timestamp(live.live_at) if live else None,
                    "active_run": run.id if run else None,
                }
            )
    if as_json:
        call.console.document({"contexts": rows})
    elif rows:
        call.console.table(
            ("context", "live", "records", "sources", "run at work"),
            [
                (
                    r["context"],
                    r["live_version"] or "-",
                    r["records"],
                    r["root"] or "(staged files)",
                    r["active_run"] or "-",
                )
                for r in rows
            ],
        )
    else:
        call.console.line("no context yet; make one: lamina curate FOLDER")
    return 0


def runs(
    context: typer.Context,
    name: ContextName,
    *,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=10_000, help="The newest so many.")
    ] = 20,
    as_json: AsJson = False,
) -> int:
    """List the runs of a context, newest first."""
    call = invocation(context, as_json=as_json)
    with call.ports.ledger.read() as session:
        publish.require_context(session, slug_of(name))
        held = session.runs.list(slug_of(name), limit)
    if as_json:
        call.console.document({"context": name, "runs": [_run(row) for row in held]})
    else:
        call.console.table(
            ("run", "kind", "state", "version", "begun", "took", "note"),
            [
                (
                    row.id,
                    row.kind,
                    row.state,
                    row.number or "-",
                    moment(row.created_at),
                    _took(row),
                    row.error or _status(row) or "",
                )
                for row in held
            ],
        )
    return 0


def _status(row: RunRow) -> str | None:
    return str(json.loads(row.output)["status"]) if row.output else None


def _took(row: RunRow) -> str:
    return duration(row.ended_at - row.started_at) if row.ended_at and row.started_at else "-"


def _run(row: RunRow) -> dict[str, object]:
    return {
        "run": row.id,
        "kind": row.kind,
        "trigger": row.trigger,
        "state": row.state,
        "status": _status(row),
        "version": row.number or None,
        "force": row.force,
        "created_by": row.created_by,
        "created_at": contract.timestamp(row.created_at),
        "ended_at": contract.timestamp(row.ended_at) if row.ended_at else None,
        "error": row.error or None,
    }


def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run; `lamina runs CONTEXT` lists them.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Show one run: its stages, what came of it, and every source that failed, had no text or was skipped."""
    from pipeline.curate import STAGES, stages_of  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    with call.ports.ledger.read() as session:
        row = session.runs.get(RunId(text_of(run)))
        if row is None:
            raise RejectedInput("no_run", f"there is no run {run}", remedy="see: lamina runs CONTEXT")
        summary = session.units.summary(row.id)
        billed = session.knowledge.spent(row.id)
        jobs = session.work.jobs(row.id, JOBS_SHOWN)
    names = [stage.name for stage in (stages_of(row) if row.manifest else STAGES)]
    task = contract.task_response(
        row, summary, names, project_id=call.ports.project_id, now=call.ports.clock.now(), billed=billed, jobs=jobs
    )
    if as_json:
        call.console.document(task)
        return 0
    _show_run(call, row, task)
    order = {stage.name: (at, stage.measure) for at, stage in enumerate(STAGES)}
    _show_stages(
        call, sorted(summary, key=lambda s: order[s.stage][0]), {name: measure for name, (_, measure) in order.items()}
    )
    _show_troubled(call, row)
    return 0


def _show_run(call: Invocation, row: RunRow, task: contract.Json) -> None:
    out = call.console
    version = f", version {row.number}" if row.number else ""
    out.line(f"run {row.id}: {row.kind} of {row.context}, {row.state}{version}")
    out.line(
        f"begun {moment(row.created_at)} by {row.created_by} ({row.trigger}{', forced' if row.force else ''})", indent=2
    )
    if row.ended_at:
        out.line(f"ended {moment(row.ended_at)}, after {_took(row)}", indent=2)
    elif "progress" in task:
        progress = task["progress"]
        left = progress["eta_seconds"]
        out.line(
            f"at {progress['label']}, {progress['pct']} %{f', about {duration(left)} left' if left else ''}", indent=2
        )
    if row.error:
        out.line(f"error: {row.error}", indent=2)
    delta = (task["output"] or {}).get("delta")
    if isinstance(delta, dict):
        keys = ("new", "changed", "deleted", "failed", "chunks_created", "chunks_updated", "screened")
        out.line(", ".join(f"{delta[key]} {key.replace('_', ' ')}" for key in keys), indent=2)
    if notes := json.loads(row.notes or "{}"):
        cleared = (("erased", "ids erased that no version shows"), ("restamped", "stamps set again after a late write"))
        told = [f"{notes[key]} {what}" for key, what in cleared if notes.get(key)]
        if told:
            out.line(", ".join(told), indent=2)


def _show_stages(call: Invocation, summary: list[StageSummary], measures: dict[str, str]) -> None:
    rows = []
    for stage in summary:
        took = duration(max(0.0, stage.last_at - stage.first_at)) if stage.first_at and stage.last_at else "-"
        # A corpus stage's size is a placeholder: its work is counted while it is done, not before.
        work = amount(stage.size_done, measures[stage.stage]) if stage.units > 1 or stage.size > 1 else "-"
        rows.append((stage.stage, f"{stage.units_done} of {stage.units}", work, took))
    if rows:
        call.console.line()
        call.console.table(("stage", "units done", "work", "took"), rows)


def _show_troubled(call: Invocation, row: RunRow) -> None:
    """What went wrong with single sources, and what people should know about those that went well."""
    rows: list[tuple[str, str, str]] = []
    with call.ports.ledger.read() as session:
        for work in session.work.each(row.id):
            if work.status in ("failed", "empty", "skipped"):
                rows.append((work.path, work.status, work.reason))
            rows += [(work.path, "warning", text) for text in warnings_of(work.warnings)]
    if rows:
        call.console.line()
        call.console.table(("source", "status", "reason"), rows)


def warnings_of(held: str) -> list[str]:
    """Warnings as the ledger keeps them."""
    return [str(text) for text in json.loads(held)] if held else []


def sources(context: typer.Context, name: ContextName, *, as_json: AsJson = False) -> int:
    """List the live version's sources: how each was read, its chunks, and what to know about it."""
    call = invocation(context, as_json=as_json)
    rows: Rows = []
    after = ""
    while True:
        with call.ports.ledger.read() as session:
            held = publish.require_context(session, slug_of(name))
            page = session.sources.page(held.slug, held.live_version, after, SOURCES_PAGE)
        rows += [_source(row) for row in page]
        if len(page) < SOURCES_PAGE:
            break
        after = page[-1].path
    if as_json:
        call.console.document({"context": name, "live_version": held.live_version, "sources": rows})
        return 0
    call.console.line(f"{name}: version {held.live_version} is live, with {counted(len(rows), 'source')}")
    if rows:
        call.console.table(
            ("source", "status", "chunks", "size"),
            [(r["path"], r["status"], r["chunks"], bytes_text(int(str(r["size"])))) for r in rows],
        )
    for row in rows:
        told = [str(row["reason"])] if row["reason"] else []
        for text in [*told, *cast("list[str]", row["warnings"])]:
            call.console.line(f"{row['path']}: {text}")
    return 0


def _source(row: SourceRow) -> dict[str, object]:
    return {
        "path": row.path,
        "status": row.status,
        "code": row.code or None,
        "reason": row.reason or None,
        "chunks": row.chunks,
        "size": row.size,
        "curated_at": contract.timestamp(row.curated_at),
        "warnings": warnings_of(row.warnings),
    }


def ledger(context: typer.Context, name: ContextName, *, as_json: AsJson = False) -> int:
    """Show what is live in a context, source by source."""
    call = invocation(context, as_json=as_json)
    with call.ports.ledger.read() as session:
        held = publish.require_context(session, slug_of(name))
        state = contract_state.curation_state(session, held)
        troubled = contract.failed_listing(session, held.slug, held.live_version)
    if as_json:
        call.console.document(state)
        return 0
    call.console.line(
        f"{name}: version {held.live_version} is live" if held.live_version else f"{name} has not been curated yet"
    )
    sources = state["manifest"]
    if sources:
        call.console.table(
            ("source", "size", "curated", "hash"),
            [
                (path, bytes_text(entry["size"]), entry["curated_at"], entry["hash"][:12])
                for path, entry in sources.items()
            ],
        )
    for row in troubled:
        call.console.line(f"{row['status']}: {row['path']}: {row['reason']}")
    for path in state["source_removed"]:
        call.console.line(f"removed, goes at the next curate: {path}")
    return 0
