"""The names that the contract fixes: ledger rows as `CurateRunOutput`, `CurateNoopOutput`, `CurationState`, `TaskResponse`.

Mapped here and nowhere else; values that the contract leaves open are those of DESIGN §9.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.fingerprint import canonical_json, content_hash
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.rows import RUN_ACTIVE, RunRow, SourceRow, SpendRow
from pipeline.types import ContextSlug, SourcePath
from pipeline.units import StageSummary

FAILED_SOURCES_MAX = 100
"""Failed sources listed in an output; the whole list then stands in a run file."""

SAMPLE_QUERIES_MAX = 5
SUBJECT_CHARS_MAX = 80
SAMPLE_RECORDS = 20
"""Records looked at to make sample queries."""

PAGE_ROWS = 1000

Json = dict[str, Any]


def timestamp(seconds: float) -> str:
    """RFC 3339, UTC, milliseconds."""
    moment = dt.datetime.fromtimestamp(seconds, tz=dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class Tally:
    """A run's work rows, added up."""

    changes: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    empty: int = 0
    skipped: int = 0
    processed: int = 0
    screened: int = 0
    chunks_created: int = 0
    chunks_updated: int = 0
    errored_sources: int = 0
    """Sources of which an extraction call failed for good."""
    errored: int = 0
    """Such calls."""
    truncated: int = 0
    artifacts_screened: int = 0


def tally(ports: Ports, run: RunRow) -> Tally:
    """Add up what the run did about each source. Bounded memory."""
    out = Tally()
    with ports.ledger.read() as session:
        for row in session.work.each(run.id):
            if row.change == "carry":
                continue
            out.changes[row.change] += 1
            out.processed += row.status != ""
            out.failed += row.status == "failed"
            out.empty += row.status == "empty"
            out.skipped += row.status == "skipped"
            out.screened += sum(json.loads(row.screened or "{}").values())
            out.chunks_created += row.chunks_created
            out.chunks_updated += row.chunks_updated
            noted = json.loads(row.artifact_notes or "{}")
            out.errored_sources += row.artifact_status == "errored"
            out.errored += noted.get("errors", 0)
            out.truncated += noted.get("truncated", 0)
            out.artifacts_screened += noted.get("screened", 0)
    return out


def _mode(run: RunRow) -> str:
    return "incremental" if run.base_version and not run.force else "full"


def _scope(run: RunRow) -> str:
    return str(json.loads(run.input)["scope"])


def noop_output(run: RunRow, *, standing: int) -> str:
    """`CurateNoopOutput`; `partial` while sources stand that failed before and are unchanged."""
    status = "partial" if standing else "completed"
    return canonical_json(
        {
            "status": status,
            "flipped": False,
            "versioned": True,
            "mode": _mode(run),
            "scope": _scope(run),
            "delta": "empty",
        }
    )


def pointer_output(run: RunRow) -> str:
    """What a rollback reports: nothing was built, another version is live."""
    return canonical_json(
        {
            "status": "completed",
            "flipped": True,
            "versioned": True,
            "mode": "incremental",
            "scope": _scope(run),
            "delta": "empty",
        }
    )


def run_output(ports: Ports, run: RunRow) -> str:
    """`CurateRunOutput` of a sealed run. Writes the run file of failed sources when the list is too long."""
    added = tally(ports, run)
    with ports.ledger.read() as session:
        summary = session.units.summary(run.id)
        billed = session.knowledge.spent(run.id)
    notes = json.loads(run.notes or "{}")
    standing = notes.get("standing", 0)
    whole = not (added.failed or added.empty or added.errored_sources or notes.get("artifacts_failed") or standing)
    return canonical_json(
        {
            "status": "completed" if whole else "partial",
            "flipped": True,
            "versioned": True,
            "mode": _mode(run),
            "scope": _scope(run),
            "images_skipped_no_vision": 0,
            "sources_skipped_unreadable": added.skipped,
            "usage": usage(run, summary, billed),
            "sample_queries": _sample_queries(ports, run),
            "delta": _delta(ports, run, added),
        }
    )


def usage(run: RunRow, summary: Sequence[StageSummary], billed: Sequence[SpendRow]) -> Json:
    """`CurateUsage`: what the language models were billed, and what went through the embedding model."""
    spent = sum(stage.embed_tokens for stage in summary)
    model = json.loads(run.recipe)["model"]["name"] if run.recipe else ""
    embed = {model: {"kind": "embed", "tier": "local", "embed_tokens": spent, "rerank_units": 0}} if spent else {}
    by_model = {
        row.model: {
            "tier": row.tier,
            "prompt_tokens": row.prompt,
            "completion_tokens": row.completion,
            "cache_read_tokens": row.cache_read,
            "cache_write_tokens": row.cache_write,
            "total_tokens": row.prompt + row.completion,
        }
        for row in billed
    }
    prompt, completion = sum(row.prompt for row in billed), sum(row.completion for row in billed)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "by_model": by_model,
        "embed_by_model": embed,
    }


def _delta(ports: Ports, run: RunRow, added: Tally) -> Json:
    failed = _failed(ports, run)
    notes = json.loads(run.notes or "{}")
    corpus_screened = notes.get("corpus_screened", 0)
    with ports.ledger.read() as session:
        made = session.knowledge.count_artifacts(run.context, run.number, run.base_version)
        edges = session.knowledge.count_edges(run.context, run.number)
    paths = [path for path, _ in failed]
    truncated = len(paths) > FAILED_SOURCES_MAX
    spill = ""
    if truncated:
        data = "".join(canonical_json({"path": p, "reason": r}) + "\n" for p, r in failed).encode()
        spill = f"runs/{run.id}/failed-sources-{content_hash(data)[:16]}.jsonl"
        ports.objects(run.context).put_many({spill: data})
    return {
        "new": added.changes["new"],
        "changed": added.changes["changed"],
        "deleted": added.changes["deleted"],
        "processed": added.processed,
        "failed": len(failed),
        "failed_sources": paths[:FAILED_SOURCES_MAX],
        "failed_sources_truncated": truncated,
        "failed_sources_file": spill,
        "corpus_artifacts": made.get(("corpus", False), 0) + made.get(("corpus", True), 0),
        "corpus_edges": edges,
        "corpus_artifacts_screened": corpus_screened,
        "screened": added.screened + added.artifacts_screened + corpus_screened,
        "chunks_created": added.chunks_created,
        "chunks_updated": added.chunks_updated,
        "artifacts_created": made.get(("document", False), 0),
        "artifacts_updated": made.get(("document", True), 0),
        "chunks_screened": added.screened,
        "artifacts_screened": added.artifacts_screened,
        "images_skipped_no_vision": 0,
        "sources_skipped_unreadable": added.skipped,
        "artifacts_errored": added.errored + notes.get("artifacts_failed", 0),
        "sources_content_truncated": added.truncated,
    }


def _failed(ports: Ports, run: RunRow) -> list[tuple[SourcePath, str]]:
    """Path and reason of every source that the new version has as failed, those that failed before and still do too."""
    out: list[tuple[SourcePath, str]] = []
    after = ""
    while True:
        with ports.ledger.read() as session:
            page = session.sources.troubled(run.context, run.number, after, PAGE_ROWS)
        out += [
            (row.path, row.reason or row.artifact_reason)
            for row in page
            if row.status == "failed" or row.artifact_status == "errored"
        ]
        if len(page) < PAGE_ROWS:
            return out
        after = page[-1].path


def _sample_queries(ports: Ports, run: RunRow) -> list[str]:
    """Questions from the corpus's own headings and titles, one a source; the same corpus gives the same ones."""
    with ports.ledger.read() as session:
        records = session.records.openings(run.context, run.number, SAMPLE_RECORDS)
    chosen = {record.path: record for record in sorted(records, key=lambda r: r.position)}
    questions: dict[str, None] = {}
    for record in chosen.values():
        stored = ports.index(run.context).fetch(record.namespace, [record.id], vectors=False, metadata=True)
        questions.update((_question(metadata), None) for metadata in stored.metadata)
        if len(questions) == SAMPLE_QUERIES_MAX:
            break
    return list(questions)


def _question(metadata: Any) -> str:
    title, headings = str(metadata.get("title", "")), metadata.get("headings", ())
    subject = _short(headings[-1]) if headings else ""
    title = _short(title)
    name = title or _short(metadata["filename"])
    if subject and subject != title:
        return f"What does {name} say about {subject}?"
    return f"What is {name} about?"


def _short(text: str) -> str:
    return text if len(text) <= SUBJECT_CHARS_MAX else text[:SUBJECT_CHARS_MAX].rsplit(" ", 1)[0] + " …"


TASK_STATES = {
    "running": "running", "sealed": "running", "flipped": "running", "completed": "completed", "noop": "completed",
    "abandoned": "cancelled", "retired": "failed", "failed": "failed",
}  # fmt: skip
"""Run state to `TaskState`. A retired version did its work and never went live: for whoever asked for it, it failed."""

CURATE_INPUT = (
    "trigger",
    "force",
    "scope",
    "batch_size",
    "models",
    "legs",
    "artifacts_reset",
    "skip_corpus_aggregation",
)


def task_response(
    run: RunRow,
    summary: Sequence[StageSummary],
    stages: Sequence[str],
    *,
    project_id: str,
    now: float,
    billed: Sequence[SpendRow] = (),
    jobs: Sequence[tuple[SourcePath, str]] = (),
) -> Json:
    """`TaskResponse` of one run, with a step for each stage that has begun.

    Args:
        run: the run.
        summary: how far its stages have got.
        stages: every stage name, in order.
        project_id: the deployment's project.
        now: the time, for the running time of an active run.
        billed: what language models were paid for so far.
        jobs: path and id of the sources that hosted jobs parsed.
    """
    given = json.loads(run.input)
    curate_input = {key: given[key] for key in CURATE_INPUT if key in given}
    if run.number:
        curate_input["claimed_version"] = run.number
    by_name = {stage.stage: stage for stage in summary}
    steps = [_step(by_name[name]) for name in stages if name in by_name]
    steps += [_job(path, job) for path, job in jobs]
    end = run.ended_at or now
    out: Json = {
        "id": run.id,
        "project_id": project_id,
        "context_id": run.context,
        "agent_id": None,
        "session_id": None,
        "created_by": run.created_by,
        "workflow": "curate",
        "state": TASK_STATES[run.state],
        "error": run.error or None,
        "input": curate_input,
        "output": json.loads(run.output) if run.output else None,
        "steps": steps,
        "steps_total": len(steps),
        "tokens_prompt": sum(row.prompt for row in billed),
        "tokens_completion": sum(row.completion for row in billed),
        "runtime_seconds": max(0, int(end - run.started_at)) if run.started_at else 0,
        "running_from": timestamp(run.started_at) if run.started_at else None,
        "timeout_seconds": None,
        "timeout_at": None,
        "archived_at": None,
        "created_at": timestamp(run.created_at),
        "last_activity_at": timestamp(run.active_at) if run.active_at else None,
        "schedule": None,
        "scheduled_at": None,
        "parent_task_id": None,
    }
    if summary:
        out["progress"] = progress(run, by_name, stages, now)
    return out


def _step(stage: StageSummary) -> Json:
    done = stage.units == stage.units_done
    return {
        "step_id": stage.stage,
        "status": "completed" if done else "running",
        "type": "stage",
        "commentary": f"{stage.units_done} of {stage.units} units done",
    }


def _job(path: SourcePath, job: str) -> Json:
    return {"step_id": f"job-{job}", "status": "completed", "type": "parse", "job_id": job, "path": path}


def progress(run: RunRow, by_name: dict[str, StageSummary], stages: Sequence[str], now: float) -> Json:
    """`TaskProgress`: the share of stages done, each counted by the work in its units."""
    total = len(stages)
    begun = [name for name in stages if name in by_name and by_name[name].units_done < by_name[name].units]
    current = stages.index(begun[0]) if begun else total - 1
    share = sum(_share(by_name[name]) for name in stages if name in by_name) / total
    ended = run.state not in RUN_ACTIVE
    pct = 100.0 if ended and run.state in ("completed", "noop") else min(99.9, 100 * share)
    left = int((now - run.started_at) * (1 - share) / share) if share > 0 and not ended else None
    return {
        "phase": current + 1,
        "phases": total,
        "label": run.state if ended else stages[current],
        "pct": round(pct, 1),
        "eta_seconds": 0 if ended else left,
    }


def _share(stage: StageSummary) -> float:
    return stage.size_done / stage.size if stage.size else float(stage.units_done == stage.units)


def _trouble(row: SourceRow) -> Json:
    if row.status == "ok":  # its text is whole, and something that rests on it is not
        return {"path": row.path, "status": "failed", "code": "artifacts_errored", "reason": row.artifact_reason}
    return {"path": row.path, "status": row.status, "code": row.code, "reason": row.reason}


def failed_listing(session: Session, slug: ContextSlug, version: int) -> list[Json]:
    """Every source that the version knows and that isn't whole: path, status, code, reason."""
    out: list[Json] = []
    after = ""
    while True:
        page = session.sources.troubled(slug, version, after, PAGE_ROWS)
        out += [_trouble(row) for row in page]
        if len(page) < PAGE_ROWS:
            return out
        after = page[-1].path
