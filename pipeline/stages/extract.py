"""extract: parsed documents to statements, planned by source; the artifact leg's first half.

Answers are in the memo as soon as they are given, so a crash buys none twice. A source of which a call failed for good
keeps the statements of its last good revision, and says so; its chunks are not held up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.artifacts import leg, names
from pipeline.artifacts.asking import Asker
from pipeline.artifacts.statements import Found
from pipeline.artifacts.statements import extract as extract_document
from pipeline.errors import RejectedInput, Unavailable
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.models import ModelReply
from pipeline.rows import SpendRow, StatementRow, WorkRow
from pipeline.stages.inventory import options
from pipeline.stages.job import Job, Outcome
from pipeline.stages.parse import parsed
from pipeline.stages.screen import RESTATED, plan_sources
from pipeline.types import OPEN, ParsedDocument, SourcePath

REASON_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class _Extracted:
    row: WorkRow
    statements: tuple[StatementRow, ...] | None
    """None: what is live stays."""


def extract(job: Job) -> Outcome:
    """Extract from every source of the batch that was read."""
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, job.claim.batch)
    done = []
    for row in rows:
        job.keep_going()
        done.append(_one(job, row))
        job.report(1)
    return Outcome(lambda session: _write(job, session, done), size=job.claim.size)


def _one(job: Job, row: WorkRow) -> _Extracted:
    if row.status in RESTATED or row.change == "carry":
        return _Extracted(row, None)
    if row.status == "ok" and leg.wanted(job.manifest) and not leg.runs(job.manifest, job.run.input):
        return _Extracted(replace(row, artifact_status="behind"), None)
    if row.status != "ok" or not leg.wanted(job.manifest):
        return _Extracted(row, ())
    try:
        found = _found(job, row, parsed(job, row))
    except RejectedInput as error:
        found = Found(errors=[error.message])
    notes = canonical_json(
        {
            "asked": found.asked,
            "screened": found.screened,
            "truncated": int(found.truncated),
            "errors": len(found.errors),
        }
    )
    if found.errors:
        reason = "artifacts: " + "; ".join(found.errors)
        row = replace(row, artifact_status="errored", artifact_reason=reason[:REASON_CHARS_MAX], artifact_notes=notes)
        return _Extracted(row, None)
    key = leg.source_key(row.hash, leg.leg_fingerprint(job.manifest, language(job)))
    row = replace(row, artifact_status="ok", artifact_reason="", artifact_key=key, artifact_notes=notes)
    return _Extracted(row, tuple(replace(s, added=job.run.number) for s in found.statements))


def _found(job: Job, row: WorkRow, document: ParsedDocument) -> Found:
    """What the source's own text and its parts say; equal statements of two parts are two."""
    whole = Found()
    config, model = job.manifest.curate.artifacts, asker(job, [row.path])
    for name, part in (("", document), *((p.name, p.document) for p in document.parts)):
        found = extract_document(part, row.path, config, model, part=name)
        whole.statements += found.statements
        whole.truncated |= found.truncated
        whole.screened += found.screened
        whole.asked += found.asked
        whole.errors += found.errors
    seqs = range(len(whole.statements))
    whole.statements = [replace(s, seq=seq) for seq, s in zip(seqs, whole.statements, strict=True)]
    return whole


def language(job: Job) -> str:
    """The id of the model that the run extracts with."""
    return leg.model_of(job.ports, job.manifest, job.run.input)


def asker(job: Job, of: Iterable[str]) -> Asker:
    """The run's model, under its caps; `of`: the sources that it will be asked about.

    Raises:
        Unavailable: code `language_not_served`: the deployment has no language model.
    """
    model = job.ports.language
    if model is None:
        raise Unavailable(
            "language_not_served", "this deployment serves no language model", remedy="see: lamina models"
        )
    asked_by = options(job).get("answers_of") or job.run.id
    fresh = str(asked_by) if leg.options_of(job.run.input).get("artifacts_reset") else ""
    return Asker(
        model=model,
        memo=job.ports.memo,
        clock=job.ports.clock,
        tier=leg.tier_of(job.manifest, job.run.input),
        max_tokens=job.manifest.curate.artifacts.max_tokens,
        afford=lambda: _afford(job),
        spend=lambda reply: _spend(job, reply),
        fresh=fresh,
        of=job.origins(of),
        repeats=job.ports.limits.model_repeats,
    )


def _afford(job: Job) -> None:
    job.keep_going()
    cap = options(job).get("max_spend")
    if cap is None:
        return
    with job.ports.ledger.read() as session:
        spent = leg.cost(session.knowledge.spent(job.run.id), job.ports.prices)
    if spent >= float(str(cap)):
        raise Unavailable(
            "spent",
            f"run {job.run.id} has spent {spent:.4f}, and --max-spend allows {cap}",
            remedy="curate again with a higher --max-spend: what was answered is kept, and the run goes on from there",
        )


def _spend(job: Job, reply: ModelReply) -> None:
    used = reply.usage
    if used.prompt or used.completion:
        tier = leg.tier_of(job.manifest, job.run.input)
        row = SpendRow(reply.model, tier, 1, used.prompt, used.completion, used.cache_read, used.cache_write)
        with job.ports.ledger.transaction("spend", job.slug) as session:
            session.knowledge.spend(job.run.id, row)


def _write(job: Job, session: Session, done: Sequence[_Extracted]) -> None:
    """Plan each source's statements as a diff against what is open, and its state with them."""
    slug, number = job.slug, job.run.number
    paths = [d.row.path for d in done]
    session.records.unplan_statements(slug, job.run.id, number, paths)
    opened = _by_path(session.knowledge.statements_open(slug, paths))
    live = _by_path(session.knowledge.statements_at(slug, job.run.base_version, paths))
    for one in done:
        path = one.row.path
        wanted = one.statements
        if wanted is None:
            wanted = tuple(replace(s, added=number, removed=OPEN) for s in live.get(path, ()))
        held = {s.id for s in opened.get(path, ())}
        kept = {s.id for s in wanted}
        fresh = [s for s in wanted if s.id not in held]
        session.knowledge.add(slug, fresh)
        session.records.plan_removals(job.run.id, "statement", sorted(held - kept))
        _key_names(session, job, fresh)
    rows = [d.row for d in done]
    session.work.update(job.run.id, rows)
    plan_sources(job, session, rows)


def _key_names(session: Session, job: Job, rows: Iterable[StatementRow]) -> None:
    by_type: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        if row.kind in ("mention", "glossary"):
            spellings = (row.name, *leg.data(row).get("aliases", ()))
            held = by_type.setdefault(row.type, set())
            held.update((key, row.name) for spelling in spellings for key in names.keys(spelling))
    for type_, pairs in sorted(by_type.items()):
        session.knowledge.key_names(job.slug, type_, sorted(pairs))


def _by_path(rows: Iterable[StatementRow]) -> Mapping[SourcePath, list[StatementRow]]:
    out: dict[SourcePath, list[StatementRow]] = {}
    for row in rows:
        out.setdefault(row.path, []).append(row)
    return out
