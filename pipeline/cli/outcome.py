"""How a curate ended, for people: what it did, what is not whole, what to ask now."""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pipeline.console import Console, counted, duration
from pipeline.errors import Conflict, Unavailable
from pipeline.ports import Ports
from pipeline.rows import RunRow
from pipeline.types import ContextSlug, SourcePath

PARTIAL = 1
SAMPLES_SHOWN = 3
QUESTION_CHARS = 120
"""A sample question is cut here, between words: it stands for what can be asked, and still fits a line or two."""
NAMED_MAX = 20
"""Sources of one kind that the summary names; `lamina show` names all."""


def tell_end(console: Console, ports: Ports, run: RunRow, more: Mapping[str, object] = MappingProxyType({})) -> int:
    """Print how a run ended, and with --json what more there is to say; its exit status."""
    if run.state == "failed":
        raise Unavailable("run_failed", run.error or f"run {run.id} failed", remedy=f"see: lamina show {run.id}")
    if run.state not in ("completed", "noop"):
        raise Conflict("run_ended", f"run {run.id} was {run.state}: {run.error}", remedy="run the same command again")
    output = json.loads(run.output)
    if console.as_json:
        console.document({**output, **more})
    else:
        _summary(console, ports, run, output)
    return PARTIAL if output["status"] == "partial" else 0


def _summary(console: Console, ports: Ports, run: RunRow, output: dict[str, Any]) -> None:
    from pipeline import contract  # noqa: PLC0415  # brings much of the engine

    with ports.ledger.read() as session:
        row = session.contexts.get(run.context)
        spent = sum(stage.embed_tokens for stage in session.units.summary(run.id))
    live = row.live_version if row else 0
    took = duration(max(0.0, run.ended_at - run.started_at))
    if run.state == "noop":
        console.line(f"{run.context}: nothing has changed; version {live} stays live ({took})")
        _standing(console, ports, run.context, live)
    else:
        delta = output["delta"]
        console.line(f"{run.context}: version {run.number} is live ({took})")
        console.line(
            f"sources: {delta['new']} new, {delta['changed']} changed, {delta['deleted']} deleted, {delta['failed']} failed",
            indent=2,
        )
        screened = f", {delta['screened']} screened out" if delta["screened"] else ""
        console.line(
            f"chunks: {delta['chunks_created']} created, {delta['chunks_updated']} updated{screened}", indent=2
        )
        console.line(f"embedded: {spent:,} tokens", indent=2)
        _artifacts(console, output)
        _conflicts(console, run)
        with ports.ledger.read() as session:
            # What this run skipped, and everything that isn't whole at the new version, from earlier runs too.
            troubled = [(r.status, r.path, r.reason) for r in session.work.each(run.id) if r.status == "skipped"]
            troubled += [
                (row["status"], row["path"], row["reason"])
                for row in contract.failed_listing(session, run.context, run.number)
                if row["status"] != "skipped"
            ]
            warned = sum(bool(row.warnings) for row in session.work.each(run.id))
        _troubled(console, run, troubled)
        if warned:
            console.line(f"{counted(warned, 'source')} read with warnings; see: lamina show {run.id}", indent=2)
    _stale(console, run)
    for at, question in enumerate(output.get("sample_queries", [])[:SAMPLES_SHOWN]):
        if not at:
            console.line("to try:", indent=2)
        short = textwrap.shorten(question, QUESTION_CHARS, placeholder="")
        console.line(f"lamina query {run.context} {shlex.quote(short)}", indent=4)


def _artifacts(console: Console, output: dict[str, Any]) -> None:
    """What the artifact leg did and was billed; nothing where it didn't run."""
    delta, usage = output["delta"], output["usage"]
    made = {key: delta[key] for key in ("artifacts_created", "artifacts_updated", "corpus_artifacts", "corpus_edges")}
    if any(made.values()):
        console.line(
            f"artifacts: {made['artifacts_created']} of documents created, {made['artifacts_updated']} updated; "
            f"{made['corpus_artifacts']} of the corpus, {made['corpus_edges']} edges",
            indent=2,
        )
    if delta["artifacts_errored"]:
        console.line(f"extraction failed: {counted(delta['artifacts_errored'], 'call')}", indent=2)
    if delta["sources_content_truncated"]:
        cut = counted(delta["sources_content_truncated"], "source")
        console.line(f"read only in part: {cut} (see max_doc_chars, extraction_window_chars)", indent=2)
    for model, used in usage["by_model"].items():
        console.line(f"{model}: {used['prompt_tokens']:,} tokens in, {used['completion_tokens']:,} out", indent=2)


def _conflicts(console: Console, run: RunRow) -> None:
    """Rows of a table that came with different values under one natural key: the later one holds."""
    notes = json.loads(run.notes or "{}")
    told = notes.get("conflicts", [])
    for text in told[:NAMED_MAX]:
        console.line(f"two values, the later holds: {text}", indent=2)
    if notes.get("row_conflicts", 0) > len(told[:NAMED_MAX]):
        console.line(f"and {notes['row_conflicts'] - len(told[:NAMED_MAX])} more", indent=2)


def _standing(console: Console, ports: Ports, slug: ContextSlug, live: int) -> None:
    """Sources that failed at an earlier run and are unchanged."""
    from pipeline import contract  # noqa: PLC0415  # brings much of the engine

    with ports.ledger.read() as session:
        listed = [row for row in contract.failed_listing(session, slug, live) if row["status"] != "skipped"]
    for row in listed[:NAMED_MAX]:
        console.line(f"still {row['status']}: {row['path']}: {row['reason']}", indent=2)
    if len(listed) > NAMED_MAX:
        console.line(f"and {len(listed) - NAMED_MAX} more", indent=2)


def _troubled(console: Console, run: RunRow, rows: list[tuple[str, SourcePath, str]]) -> None:
    words = {"failed": "failed (what was live of it stays)", "empty": "without text", "skipped": "skipped"}
    for status, label in words.items():
        mine = [(path, reason) for kind, path, reason in rows if kind == status]
        for path, reason in mine[:NAMED_MAX]:
            console.line(f"{label}: {path}: {reason}", indent=2)
        if len(mine) > NAMED_MAX:
            console.line(f"and {len(mine) - NAMED_MAX} more {status}; all of them: lamina show {run.id}", indent=2)


def _stale(console: Console, run: RunRow) -> None:
    stale = json.loads(run.notes or "{}").get("stale", 0)
    if stale:
        console.line(
            f"{stale} unchanged sources are still built by the manifest or recipe before; rebuild them with --force",
            indent=2,
        )
