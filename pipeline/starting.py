"""How a run begins: made anew, or taken over from whoever died with it. Everything that can be refused is refused here."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from manifests import Manifest, canonical_json, manifest_from
from pipeline import publish
from pipeline.artifacts import leg
from pipeline.errors import Conflict, RejectedInput
from pipeline.fingerprint import fingerprint
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.recipe import Recipe, recipe_from_json
from pipeline.request import CurateRequest, input_of, request_of, resolve, same_input
from pipeline.retry import PARKED_S
from pipeline.rows import ContextRow, RunRow
from pipeline.types import ContextSlug, RunId


@dataclass(frozen=True, slots=True)
class Started:
    """A run that this caller now owns."""

    context: ContextSlug
    run: RunId
    fence: int
    resumed: bool


def start(ports: Ports, request: CurateRequest) -> Started:
    """Begin a run, or take over the context's unfinished one when that would do the same.

    An unfinished run with other inputs is abandoned first (its finished work is in the memo); a sealed one is always
    taken over, as it can only go forward.

    Raises:
        RejectedInput: the request can't be used: unknown context, manifest, model or setting.
        Conflict: code `run_active`: a living process holds the context.
    """
    context, request, manifest, recipe = _resolved(ports, request)
    with ports.ledger.transaction("claim", context.slug) as session:
        started = _take_over(ports, session, request, manifest, recipe)
        if started is None:
            context = publish.require_context(session, request.context)
            started = _create(ports, session, context, request, manifest, recipe)
    publish.refresh_view(ports, request.context)  # a crash between a pointer move and this leaves the folder behind
    return started


def start_again(ports: Ports, ended: RunRow) -> Started:
    """Begin a run with the inputs, manifest and recipe of one that has ended.

    Raises:
        Conflict: code `run_active`: a run holds the context.
    """
    request = request_of(ended)
    request = replace(request, resumed=False, follows=request.follows + 1)
    return start_with(ports, request, manifest_from(json.loads(ended.manifest)), recipe_from_json(ended.recipe))


def start_with(ports: Ports, request: CurateRequest, manifest: Manifest, recipe: Recipe) -> Started:
    """Begin a run with a manifest and a recipe that were resolved before.

    Raises:
        Conflict: code `run_active`: a run holds the context.
    """
    with ports.ledger.transaction("claim", request.context) as session:
        context = publish.require_context(session, request.context)
        return _create(ports, session, context, request, manifest, recipe)


def does_the_same(ports: Ports, held: RunRow, request: CurateRequest) -> bool:
    """Whether a run that is under way is what the request asks for."""
    _, request, manifest, recipe = _resolved(ports, request)
    return _same(held, request, manifest, recipe)


def _resolved(ports: Ports, request: CurateRequest) -> tuple[ContextRow, CurateRequest, Manifest, Recipe]:
    with ports.ledger.read() as session:
        context = publish.require_context(session, request.context)
        live = session.versions.get(context.slug, context.live_version)
    ports.canaries(context.slug)  # a file that can't be used is told of now, not after the work
    if not request.buried_only:
        _require_root(ports, context)
    request = replace(request, models=leg.tiers_of(request.models, ports))
    return (context, request, *resolve(ports, request, live))


def _same(held: RunRow, request: CurateRequest, manifest: Manifest, recipe: Recipe) -> bool:
    same = (held.manifest, held.recipe) == (canonical_json(manifest), recipe.to_json())
    return same and same_input(held.input, input_of(request))


def recall(ports: Ports, session: Session, run: RunId, now: float) -> None:
    """Free the units of a run whose times were noted by a clock that has been set back since."""
    session.units.recall(run, now + ports.limits.far_s, now + PARKED_S / 2)  # parked ones wait for a person


def _require_root(ports: Ports, context: ContextRow) -> None:
    if not ports.sources(context).exists():
        raise RejectedInput(
            "no_root",
            f"the source folder of {context.slug} is gone: {context.root}",
            remedy=f"put it back; or `lamina delete {context.slug}` and curate the new folder",
        )


def _take_over(
    ports: Ports, session: Session, request: CurateRequest, manifest: Manifest, recipe: Recipe
) -> Started | None:
    held = session.runs.active(request.context)
    if held is None:
        return None
    now = ports.clock.now()
    if held.held(now, ports.limits.far_s) and held.owner != ports.owner and not ports.is_gone(held.owner):
        raise Conflict(
            "run_active",
            f"run {held.id} of {request.context} is at work ({held.owner}, last heard of {now - held.active_at:.0f} s ago)",
            remedy=f"wait for it, or stop it with: lamina cancel {held.id}",
        )
    same = _same(held, request, manifest, recipe)
    if held.state == "running" and (not same or held.kind != request.kind):
        publish.abandon(session, held, now, state="abandoned", error="another run with other inputs was started")
        return None
    fence = session.runs.adopt(held.id, ports.owner, now + ports.limits.lease_s, now)
    if same:
        # Another --max-spend holds from here on; and that the sources may have moved since its inventory is remembered.
        session.runs.set_input(held.id, input_of(replace(request, resumed=True)))
    # The new fence has voided every claim that was made under an older one.
    session.units.release_all(held.id, None)
    recall(ports, session, held.id, now)
    session.contexts.count_redispatch(request.context)
    return Started(held.context, held.id, fence, resumed=True)


def _create(
    ports: Ports, session: Session, context: ContextRow, request: CurateRequest, manifest: Manifest, recipe: Recipe
) -> Started:
    now = ports.clock.now()
    run = RunRow(
        id=RunId(fingerprint("run", context.slug, ports.owner, str(now), context.epoch, context.highest_version)[:16]),
        context=context.slug,
        kind=request.kind,
        trigger=request.trigger,
        state="running",
        force=request.force,
        created_by=ports.user,
        created_at=now,
        input=input_of(request),
        manifest=canonical_json(manifest),
        recipe=recipe.to_json(),
        base_version=context.live_version,
        base_epoch=context.epoch,
    )
    session.runs.create(run)
    session.units.create(run.id, "inventory", {0: 1})
    fence = session.runs.adopt(run.id, ports.owner, now + ports.limits.lease_s, now)
    return Started(run.context, run.id, fence, resumed=False)
