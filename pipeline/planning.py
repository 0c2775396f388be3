"""plan and apply: what a run would do and cost, before anything is spent; and that very run, if the world stands still.

A plan is the beginning of a real run, up to where money or models come in: inventory, parse, chunk and screen are done
(their results stay in the memo, so that nothing is done twice), the records are planned in the ledger, and all of it is
told and taken back. Applying makes the same beginning, compares, and goes on with the run, or refuses.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from manifests import leg_values, manifest_from
from pipeline import contract, curate, loop, profile, publish, starting
from pipeline.artifacts import leg
from pipeline.errors import Conflict, RejectedInput
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.recipe import recipe_from_json
from pipeline.request import CurateRequest, request_of
from pipeline.rows import RUN_ACTIVE, RunRow, SourceRow, WorkRow
from pipeline.stages.embed_dense import memo_key
from pipeline.stages.job import Job, pipeline_fingerprint
from pipeline.stages.parse import READ
from pipeline.stages.planned import planned
from pipeline.types import ContextSlug, RunId
from pipeline.units import StageSummary, UnitClaim

FREE = ("screen", "chunk", "parse", "inventory")
"""Stages that a plan does, later ones first: no model is asked, nothing is stored where readers look."""
NAMED_MAX = 5
"""Sources that a refusal names."""
LISTED_MAX = 10_000
"""Sources that a plan lists; all of them are counted."""
PAGE_ROWS = 500
HISTORY = 20
"""Latest runs of a context that are asked how fast its stages are."""
SLACK = 2.0
"""Time is told as lo..hi: from so many times faster to so many times slower than it went last."""
WHY = {
    "new": "not in the live version",
    "deleted": "gone from the sources, or deleted",
    "changed": "its bytes changed",
    "carry": "restated over what a rolled-back version left",
}
COUNTED = ("added", "removed", "kept", "copied", "tokens", "cached_tokens")

Json = dict[str, Any]


def make(ports: Ports, request: CurateRequest, workers: int, meter: loop.Meter | None = None) -> Json:
    """What a run under this request would do. Nothing but the memo keeps anything of it; the plan itself is recorded.

    Raises:
        RejectedInput: see `starting.start`.
        Conflict: code `run_active`: a run holds the context.
    """
    started, run = _begin(ports, replace(request, kind="plan"), workers, meter)
    try:
        document = _describe(ports, request, run)
    finally:
        _take_back(ports, started, run)
    data = canonical_json(document).encode()
    ports.objects(run.context).put_many({_blob(run.id): data})
    return document


def stored(ports: Ports, plan: RunId) -> tuple[RunRow, Json]:
    """A plan that was made here before, and the run that it was.

    Raises:
        RejectedInput: there is none of that id.
    """
    with ports.ledger.read() as session:
        run = session.runs.get(plan)
    if run is None or run.kind != "plan":
        raise RejectedInput("no_plan", f"there is no plan {plan}", remedy="make one with: lamina plan CONTEXT")
    document: Json = json.loads(ports.objects(run.context).get(_blob(plan)))
    return run, document


def apply(ports: Ports, plan: RunId, workers: int, meter: loop.Meter | None = None) -> RunRow:
    """Do what a plan says. The run.

    Raises:
        RejectedInput: there is no such plan.
        Conflict: code `world_moved`: what it was made of is no longer so; nothing was changed.
    """
    planned_run, document = stored(ports, plan)
    request = replace(
        request_of(planned_run),
        manifest=manifest_from(json.loads(planned_run.manifest)),
        settings=document["settings"],
    )
    started, run = _begin(ports, request, workers, meter)
    world, moved = _world(ports, run), []
    if world != document["world"]:
        moved = _moved(ports, run, document)
        _take_back(ports, started, run)
        raise Conflict(
            "world_moved",
            f"plan {plan} of {run.context} no longer holds: {'; '.join(moved)}",
            remedy=f"look at what there is to do now: lamina plan {run.context}",
        )
    if run.state not in RUN_ACTIVE:
        return run
    return loop.drive(ports, started, max(1, workers or ports.processors), meter)


def _begin(
    ports: Ports, request: CurateRequest, workers: int, meter: loop.Meter | None
) -> tuple[starting.Started, RunRow]:
    started = starting.start(ports, request)
    if started.resumed:
        # Half of it is another day's: a plan begins with what the sources are now.
        with ports.ledger.transaction("plan.anew", started.context) as session:
            run = session.runs.require(started.run, started.fence)
            if run.state != "running":
                raise Conflict(
                    "run_active",
                    f"run {run.id} of {run.context} is past its seal",
                    remedy=f"finish it first: lamina curate {run.context}",
                )
            publish.abandon(session, run, ports.clock.now(), state="abandoned", error="a plan was made")
        started = starting.start(ports, request)
    run = loop.drive(ports, started, max(1, workers or ports.processors), meter, FREE)
    return started, run


def _take_back(ports: Ports, started: starting.Started, run: RunRow) -> None:
    """End the run as if it had planned nothing: no id of it was ever written anywhere."""
    if run.state not in RUN_ACTIVE:
        return
    after = ""
    while True:
        with ports.ledger.read() as session:
            page = session.records.page_added(run.context, run.number, after, PAGE_ROWS)
            paths = sorted({row.path for row in page})
        if paths:
            with ports.ledger.transaction("plan.take_back", run.context) as session:
                session.runs.require(started.run, started.fence)
                session.records.unplan(run.context, run.id, run.number, paths)
        if len(page) < PAGE_ROWS:
            break
        after = ""  # what was looked at is gone
    with ports.ledger.transaction("plan.end", run.context) as session:
        held = session.runs.require(started.run, started.fence)
        publish.abandon(session, held, ports.clock.now(), state="abandoned", error="a plan: nothing was built")


def _blob(plan: RunId) -> str:
    return f"plans/{plan}.json"


def _world(ports: Ports, run: RunRow) -> str:
    """A hash of all that decides about what the run does."""
    digest = hashlib.sha256(canonical_json([run.base_version, run.base_epoch, run.manifest, run.recipe]).encode())
    with ports.ledger.read() as session:
        for row in session.work.each(run.id):
            digest.update(f"\n{row.path}|{row.change}|{row.hash}|{row.status}".encode())
    return digest.hexdigest()[:32]


def _moved(ports: Ports, run: RunRow, document: Json) -> list[str]:
    """What is no longer as it was when the plan was made."""
    out = []
    if document["base_version"] != run.base_version:
        out.append(f"version {run.base_version} is live, the plan was made over {document['base_version']}")
    with ports.ledger.read() as session:
        work = list(session.work.each(run.id))
    now: dict[str, str] = {row.path: row.change for row in work}
    then = {row["source"]: row["change"] for row in document["sources"]}
    paths = sorted(path for path in {*now, *then} if now.get(path) != then.get(path))
    if paths:
        out.append(f"other things are to be done about {_few(paths)}")
    hashes = {row["source"]: row.get("hash", "") for row in document["sources"]}
    edited = sorted(row.path for row in work if row.path not in paths and hashes.get(row.path, row.hash) != row.hash)
    if edited:
        out.append(f"other bytes are in {_few(edited)}")
    return out or ["sources hold other bytes"]


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - NAMED_MAX} more" if len(paths) > NAMED_MAX else ""
    return ", ".join(paths[:NAMED_MAX]) + more


# ---- what it says


def _describe(ports: Ports, request: CurateRequest, run: RunRow) -> Json:
    totals: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    sources: list[Json] = []
    texts = Counter[str]()
    for row, counts in _sources(ports, run, texts):
        changes[row.change] += 1
        totals.update(counts)
        if len(sources) < LISTED_MAX:
            sources.append(row_document(row, counts, _why(ports, run, row)))
    notes = json.loads(run.notes or "{}")
    artifacts = _artifacts(ports, run)
    return {
        "plan": run.id,
        "context": run.context,
        "made_at": contract.timestamp(ports.clock.now()),
        "base_version": run.base_version,
        "force": run.force,
        "settings": dict(request.settings),
        "nothing_to_do": run.state not in RUN_ACTIVE,
        "sources": sources,
        "sources_left_out": max(0, sum(changes.values()) - len(sources)),
        "changes": dict(sorted(changes.items())),
        "unchanged": max(0, notes.get("found", 0) - sum(n for change, n in changes.items() if change != "deleted")),
        "stale": notes.get("stale", 0),
        "records": {name: totals[name] for name in COUNTED},
        "stages": _stages(ports, run, totals, texts),
        "artifacts": artifacts,
        "layers": None,
        "world": _world(ports, run),
    }


def row_document(row: WorkRow, counts: Counter[str], why: str) -> Json:
    """One source of a plan."""
    return {
        "source": row.path,
        "change": row.change,
        "why": why,
        "status": row.status or "ok",
        **({"hash": row.hash} if row.hash else {}),
        **({"reason": row.reason} if row.reason else {}),
        **{name: counts[name] for name in COUNTED},
    }


def _sources(ports: Ports, run: RunRow, texts: Counter[str]) -> Iterator[tuple[WorkRow, Counter[str]]]:
    """Every source that the run touches, with what becomes of its records."""
    if run.state not in RUN_ACTIVE:
        return
    with ports.ledger.read() as session:
        batches = range(1, session.work.highest_batch(run.id) + 1)
        going = Counter(row.path for row in _going(session, run))
    for batch in batches:
        claim = UnitClaim(run.context, run.id, run.fence, "embed_dense", batch, 0, 1, 1, 0)
        job = curate.job_of(ports, claim)
        with ports.ledger.read() as session:
            rows = session.work.batch(run.id, batch)
            opened = Counter(r.path for r in session.records.open_for(run.context, [row.path for row in rows]))
        found = {source.row.path: source for source in planned(job)}
        for row in rows:
            source = found.get(row.path)
            added = len(source.written) if source else 0
            copied = len(source.copied) if source else 0
            counts = Counter(
                added=added,
                copied=copied,
                removed=going[row.path],
                kept=max(0, opened[row.path] - going[row.path] - added - copied),
            )
            if source is not None:
                counts.update(_tokens(job, source.written, texts))
            yield row, counts


def _going(session: Session, run: RunRow) -> Iterator[Any]:
    after = ""
    while True:
        page = session.records.page_planned(run.id, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def _tokens(job: Job, items: Any, texts: Counter[str]) -> Counter[str]:
    """Tokens that would be embedded, and those whose vectors are known."""
    keys = {memo_key(job, item): item.record_tokens for item in items}
    held = job.ports.memo.get_many(sorted(keys))
    texts["embed"] += len(keys) - len(held)
    return Counter(
        tokens=sum(count for key, count in keys.items() if key not in held),
        cached_tokens=sum(count for key, count in keys.items() if key in held),
    )


def _why(ports: Ports, run: RunRow, row: WorkRow) -> str:
    """In words."""
    with ports.ledger.read() as session:
        found = session.sources.at_for(run.context, run.base_version, [row.path]) if run.base_version else ()
        base = session.versions.get(run.context, run.base_version)
    live: SourceRow | None = found[0] if found else None
    if row.change in WHY:
        return WHY[row.change]
    if row.change == "retry":
        return f"failed before: {live.code}" if live is not None and live.code else "its artifacts are to be read again"
    manifest, recipe = manifest_from(json.loads(run.manifest)), recipe_from_json(run.recipe)
    if live is None or base is None or live.fingerprint == pipeline_fingerprint(manifest, recipe):
        return "forced: nothing that decides about it has changed"
    before = manifest_from(json.loads(base.manifest))
    if leg_values(before, "chunks") != leg_values(manifest, "chunks"):
        return "forced: the manifest's chunk leg changed"
    if recipe_from_json(base.recipe).fingerprint() != recipe.fingerprint():
        return "forced: the recipe changed"
    return "forced: a stage has a new version"


def _stages(ports: Ports, run: RunRow, totals: Counter[str], texts: Counter[str]) -> list[Json]:
    """Work and time by stage."""
    speeds = _speeds(ports, run.context)
    with ports.ledger.read() as session:
        done = {stage.stage: stage for stage in session.units.summary(run.id)}
    amounts = {
        "embed_dense": totals["tokens"],
        "embed_sparse": totals["added"],
        "upsert": totals["added"] + totals["copied"],
        "seal": totals["removed"],
    }
    out = []
    for stage in curate.STAGES:
        if stage.name in FREE:
            held = done.get(stage.name)
            spent = max(0.0, held.last_at - held.first_at) if held and held.last_at else 0.0
            out.append({"stage": stage.name, "measure": stage.measure, "work": held.size_done if held else 0, "done": True,
                        "seconds": round(spent, 3)})  # fmt: skip
        elif stage.name in amounts:
            work, speed = amounts[stage.name], speeds.get(stage.name)
            told = {"lo": round(work / speed / SLACK, 3), "hi": round(work / speed * SLACK, 3)} if speed else None
            row = {"stage": stage.name, "measure": stage.measure, "work": work, "done": False, "seconds": told}
            if stage.name == "embed_dense":
                row |= {"texts": texts["embed"], "cached": totals["cached_tokens"]}
            out.append(row)
    return out


def _speeds(ports: Ports, slug: ContextSlug) -> dict[str, float]:
    """Work a second of each stage, as it last went in this context."""
    out: dict[str, float] = {}
    with ports.ledger.read() as session:
        runs = [r for r in session.runs.list(slug, HISTORY) if r.state == "completed" and r.kind == "curate"]
        for run in runs:
            for stage in session.units.summary(run.id):
                speed = _speed(stage)
                if speed and stage.stage not in out:
                    out[stage.stage] = speed
    return out


def _speed(stage: StageSummary) -> float:
    spent = stage.last_at - stage.first_at
    work = stage.embed_tokens if stage.stage == "embed_dense" else stage.size_done
    return work / spent if spent > 0 and stage.units_done == stage.units else 0.0


def _artifacts(ports: Ports, run: RunRow) -> Json | None:
    """What the language model would be asked, estimated from a sample; None where it isn't."""
    manifest = manifest_from(json.loads(run.manifest))
    if run.state not in RUN_ACTIVE or not leg.runs(manifest, run.input):
        return None
    with ports.ledger.read() as session:
        context = publish.require_context(session, run.context)
    found = profile.profile(
        ports, profile.standing(context, manifest, profile.SAMPLE_DEFAULT, 0), profile.Seen(), profile.Spent()
    )
    with ports.ledger.read() as session:
        touched = [row.path for row in session.work.each(run.id) if row.change in READ or row.change == "deleted"]
    return {"sources": len(touched), **_cost(ports, found)}


def _cost(ports: Ports, estimate: Json) -> Json:
    """Tokens, time and money of the default tier, as lo..hi."""
    if estimate["state"] == "empty":
        return {"tier": None, "reason": estimate["reason"]}
    tier = estimate["cost"]["default_tier"]
    told = estimate["cost"]["by_tier"][tier]
    tokens, price = told["tokens"], ports.prices.get(tier)
    money = None
    if price is not None:
        point = (tokens["input"] * price.prompt + tokens["output"] * price.completion) / 1e6
        share = {name: tokens[name] / tokens["point"] if tokens["point"] else 0.0 for name in ("lo", "hi")}
        money = {name: round(point * factor, 6) for name, factor in share.items()}
    return {"tier": tier, "tokens": {"lo": tokens["lo"], "hi": tokens["hi"]}, "seconds": told["time_s"], "money": money}
