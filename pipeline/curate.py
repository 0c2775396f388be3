"""The curate run, top to bottom: READ THIS FIRST.

    claim ─ inventory ─ parse ─ chunk ─ screen ─ embed_dense ─ embed_sparse ─ extract ─ upsert (invisible), batch by batch
          ─ reduce (subjects of the whole corpus) ─ upsert (artifacts)
          ─ verify ─ seal (stamps; forward only) ─ flip (one compare-and-set) ─ reclaim

`starting.start` claims the context for a run, or takes over one that died. `next_claim` claims one unit of work;
`run_claim` does it outside any transaction, and commits its outcome together with the unit's end and the unit that
follows. Both drivers, the embedded loop and the fleet, do nothing but call these until the run has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from manifests import manifest_from
from pipeline import contract, publish
from pipeline.artifacts import leg
from pipeline.errors import Conflict, PipelineError, RejectedInput, Unavailable
from pipeline.fingerprint import canonical_json as canonical
from pipeline.fingerprint import fingerprint
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.recipe import recipe_from_json
from pipeline.retry import DELAY_MAX_S, rest_s
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.stages.chunk import chunk
from pipeline.stages.embed_dense import embed_dense
from pipeline.stages.embed_sparse import embed_sparse
from pipeline.stages.extract import extract
from pipeline.stages.flip import flip, reclaim
from pipeline.stages.inventory import inventory
from pipeline.stages.job import DraftCache, Job, Outcome
from pipeline.stages.parse import parse
from pipeline.stages.poison import isolate
from pipeline.stages.reduce import reduce
from pipeline.stages.screen import screen
from pipeline.stages.seal import seal
from pipeline.stages.upsert import upsert
from pipeline.stages.verify import verify
from pipeline.starting import Started
from pipeline.types import ContextSlug, RunId
from pipeline.units import UnitClaim


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage: its name everywhere (ledger, queue, metric), its scope, and what it does."""

    name: str
    scope: Literal["batch", "corpus"]
    """A unit is a batch of sources, or the whole run."""
    waits: Literal["cpu", "embed", "model", "store"]
    """What its units mostly wait for: this machine's processor, the dense model, a language model, or stores. Workers
    of a fleet take their units by it."""
    measure: str
    """What a unit's size counts."""
    body: Callable[[Job], Outcome] | None
    """None: a leg that this build doesn't run yet; the stage's place is fixed all the same."""


STAGES: tuple[Stage, ...] = (
    Stage("inventory", "corpus", "store", "files", inventory),
    Stage("parse", "batch", "cpu", "bytes", parse),
    Stage("chunk", "batch", "cpu", "bytes", chunk),
    Stage("screen", "batch", "cpu", "bytes", screen),
    Stage("embed_dense", "batch", "embed", "tokens", embed_dense),
    Stage("embed_sparse", "batch", "cpu", "records", embed_sparse),
    Stage("extract", "batch", "model", "records", extract),
    Stage("reduce", "corpus", "model", "subjects", reduce),
    Stage("upsert", "batch", "store", "records", upsert),
    Stage("layers", "corpus", "cpu", "nodes", None),
    Stage("verify", "corpus", "store", "records", verify),
    Stage("seal", "corpus", "store", "records", seal),
    Stage("flip", "corpus", "store", "versions", flip),
    Stage("reclaim", "corpus", "store", "versions", reclaim),
)

ACTIVE_STAGES = tuple(stage for stage in STAGES if stage.body is not None)
BY_NAME = {stage.name: stage for stage in ACTIVE_STAGES}
CLAIM_ORDER = tuple(stage.name for stage in reversed(ACTIVE_STAGES))
"""Later stages first: a batch that was begun is finished before another begins, which bounds what is in flight."""


def next_claim(ports: Ports, started: Started, stages: tuple[str, ...] = CLAIM_ORDER) -> UnitClaim | None:
    """Lease a unit that is waiting or whose lease ran out; None when there is none right now.

    A batch whose workers keep dying is halved instead, until the source that kills them stands alone and is set aside.

    Raises:
        Conflict: code `stale_fence`: the run has ended or belongs to somebody else.
        Unavailable: code `unit_stuck`: a unit that can't be halved was begun too often.
    """
    while True:
        now = ports.clock.now()
        with ports.ledger.transaction("unit.claim", started.context) as session:
            claim = session.units.claim(
                started.run, started.fence, stages, owner=ports.owner, until=now + ports.limits.lease_s, now=now
            )
        if claim is None or not isolated(ports, claim):
            return claim


def isolated(ports: Ports, claim: UnitClaim) -> bool:
    """Whether the claimed unit was put aside, because too many of its claims just never ended.

    Raises:
        Unavailable: code `unit_stuck`: it should be, and can't.
    """
    died = claim.attempts - claim.failures - 1
    if died < ports.limits.unit_attempts:
        return False
    if isolate(_job(ports, claim, DraftCache(), lambda _amount: None, lambda: False)):
        return True
    raise Unavailable(
        "unit_stuck",
        f"{claim.stage} of batch {claim.batch} was begun {died} times and never ended",
        remedy=f"see: lamina show {claim.run}; stop the run with: lamina cancel {claim.run}",
    )


def run_claim(
    ports: Ports,
    claim: UnitClaim,
    cache: DraftCache,
    *,
    report: Callable[[int], None],
    lost: Callable[[], bool],
    rests: bool = False,
) -> None:
    """Do one unit and commit its outcome, its end, and the unit that follows, in one transaction.

    Args:
        ports: the deployment.
        claim: from `next_claim`.
        cache: values between the stages of a batch.
        report: told of work done.
        lost: whether the claim is known to be lost.
        rests: whether a unit that is handed back rests for as long as `retry` says; else the driver waits.

    Raises:
        Conflict: code `stale_fence`: the lease was lost; nothing was reported.
        PipelineError: the unit can't be done now; it is handed back.
    """
    with ports.tracer.unit(claim):
        _run_claim(ports, claim, cache, report, lost, rests=rests)


def _run_claim(
    ports: Ports,
    claim: UnitClaim,
    cache: DraftCache,
    report: Callable[[int], None],
    lost: Callable[[], bool],
    *,
    rests: bool,
) -> None:
    stage = BY_NAME[claim.stage]
    assert stage.body is not None
    try:
        job = _job(ports, claim, cache, report, lost)
        outcome = stage.body(job)
        with ports.ledger.transaction(claim.stage, claim.context) as session:
            session.units.finish(claim, ports.clock.now(), embed_tokens=outcome.embed_tokens)
            outcome.write(session)
            _follow(session, claim, stage, outcome)
    except PipelineError as error:
        if error.code != "stale_fence" and not _hand_back(ports, claim, error, rests=rests):
            # Whoever holds the run by now may have taken away what this unit was looking at: its find means nothing.
            raise Conflict(
                "stale_fence", f"unit {claim.stage}/{claim.batch} belongs to another worker by now"
            ) from error
        raise


def job_of(ports: Ports, claim: UnitClaim) -> Job:
    """What a stage body would be given for that unit, by somebody who only looks."""
    return _job(ports, claim, DraftCache(), lambda _amount: None, lambda: False)


def _job(
    ports: Ports, claim: UnitClaim, cache: DraftCache, report: Callable[[int], None], lost: Callable[[], bool]
) -> Job:
    with ports.ledger.read() as session:
        run = session.runs.require(claim.run, claim.run_fence)
        context = publish.require_context(session, run.context)
    manifest = manifest_from(json.loads(run.manifest))
    return Job(ports, run, context, manifest, recipe_from_json(run.recipe), claim, cache, report, lost)


def stages_of(run: RunRow) -> tuple[Stage, ...]:
    """The stages that a run passes: without an artifact leg, and with nothing left of an earlier one, two fewer."""
    noted = json.loads(run.notes or "{}").get("knowledge")
    if noted if noted is not None else leg.wanted(manifest_from(json.loads(run.manifest))):
        return tuple(ACTIVE_STAGES)
    return tuple(stage for stage in ACTIVE_STAGES if stage.name not in ("extract", "reduce"))


def _follow(session: Session, claim: UnitClaim, stage: Stage, outcome: Outcome) -> None:
    """Create what comes next: the batch's next stage, or, once every batch has ended, the next stage of the whole run."""
    run = session.runs.get(claim.run)
    if run is None or run.state not in RUN_ACTIVE or stage.name == "inventory":
        return  # ended, or the inventory has created the batches itself
    stages = stages_of(run)
    batch_stages = [s for s in stages if s.scope == "batch"]
    corpus_stages = [s for s in stages if s.scope == "corpus" and s.name != "inventory"]
    if outcome.pages:
        session.units.create(claim.run, batch_stages[-1].name, outcome.pages)
    elif stage.scope == "corpus":
        _begin(session, claim, corpus_stages[corpus_stages.index(stage) + 1 :], outcome)
    elif claim.batch > 0 and stage is not batch_stages[-1]:
        following = batch_stages[batch_stages.index(stage) + 1]
        session.units.create(claim.run, following.name, {claim.batch: outcome.size})
    elif not session.units.unfinished(claim.run, [s.name for s in batch_stages]):
        # Pages of artifacts are batches below 0: they come of `reduce`, which has passed by then.
        _begin(session, claim, corpus_stages[claim.batch < 0 :], outcome)


def _begin(session: Session, claim: UnitClaim, stages: Sequence[Stage], outcome: Outcome) -> None:
    if stages:
        session.units.create(claim.run, stages[0].name, {0: outcome.size})


def let_go(ports: Ports, started: Started) -> None:
    """Hand back what this owner holds of a run that isn't over, so that whoever resumes it needn't wait for leases."""
    now = ports.clock.now()
    with ports.ledger.transaction("run.release", started.context) as session:
        if session.runs.renew(started.run, started.fence, now, now):
            session.units.release_all(started.run, ports.owner)


def stumble(ports: Ports, claim: UnitClaim, error: Exception, *, rests: bool = False) -> None:
    """Hand a unit back after an error that nobody foresaw, and let the ledger say what it was. For drivers."""
    _hand_back(ports, claim, Unavailable("unforeseen", f"{type(error).__name__}: {error}"), rests=rests)


def put_down(ports: Ports, claim: UnitClaim) -> None:
    """Hand a unit back because its worker ends, for another to take at once."""
    with ports.ledger.transaction("unit.put_down", claim.context) as session:
        session.units.release(claim)


def give_up(ports: Ports, claim: UnitClaim, error: PipelineError) -> None:
    """End a run of which one unit can't be done; past the seal, where it can only go forward, the unit rests instead."""
    now = ports.clock.now()
    with ports.ledger.transaction("unit.give_up", claim.context) as session:
        run = session.runs.get(claim.run)
        if run is None or run.fence != claim.run_fence or not session.units.renew(claim, now):
            return
        session.units.release(claim, not_before=now + DELAY_MAX_S)
        if run.state == "running":
            publish.abandon(session, run, now, state="failed", error=error.message)
        else:
            session.runs.set_error(claim.run, error.message, now)


def _hand_back(ports: Ports, claim: UnitClaim, error: PipelineError, *, rests: bool = False) -> bool:
    """Release the unit and note why; False when it was not this worker's any more.

    A refused inventory, and any refusal that isn't a source's own, ends the run: its input is wrong, not the world.
    """
    now = ports.clock.now()
    with ports.ledger.transaction("unit.release", claim.context) as session:
        run = session.runs.get(claim.run)
        held = run is not None and run.fence == claim.run_fence and run.state in RUN_ACTIVE
        if run is None or not held or not session.units.renew(claim, now):
            return False
        session.units.release(claim, not_before=now + rest_s(error, claim.failures + 1) if rests else 0.0)
        if isinstance(error, RejectedInput) and run.state == "running":
            publish.abandon(session, run, now, state="failed", error=error.message)
        else:
            session.runs.set_error(claim.run, f"{claim.stage}: {error.message}", now)
    return True


def cancel(ports: Ports, run_id: RunId) -> RunRow:
    """Abandon a run before its seal; past it, it rolls forward and this only says so.

    Raises:
        RejectedInput: there is no such run, or it has ended.
    """
    with ports.ledger.read() as session:
        found = publish.require_run(session, run_id)
    with ports.ledger.transaction("cancel", found.context) as session:
        run = session.runs.get(run_id)
        assert run is not None  # runs outlive everything but their context
        publish.cancel(session, run, ports.clock.now())
    publish.sweep(ports, run.context)
    with ports.ledger.read() as session:
        ended = session.runs.get(run_id)
    assert ended is not None
    return ended


def rollback(ports: Ports, slug: ContextSlug, version: int | None) -> RunRow:
    """Move the live pointer to another readable version, as a recorded run. An instant whatever the corpus.

    Raises:
        RejectedInput: see `publish.move_to`.
    """
    now = ports.clock.now()
    with ports.ledger.transaction("rollback", slug) as session:
        context = publish.require_context(session, slug)
        run = RunRow(
            id=RunId(fingerprint("rollback", slug, ports.owner, str(now), context.epoch)[:16]),
            context=slug,
            kind="rollback",
            trigger="rollback",
            state="completed",
            force=False,
            created_by=ports.user,
            created_at=now,
            input=canonical({"trigger": "rollback", "force": False, "scope": "restore"}),
            base_version=context.live_version,
            base_epoch=context.epoch,
            started_at=now,
            active_at=now,
            ended_at=now,
        )
        target = publish.move_to(session, slug, version, run, now)
        run = replace(run, number=target, output=contract.pointer_output(run))
        session.runs.create(run)
    publish.refresh_view(ports, slug)
    return run
