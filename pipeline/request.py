"""What a curate is asked for, and the manifest and recipe that it follows. Everything that can be refused is refused here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from manifests import Manifest, manifest_from
from manifests.templates import default_manifest
from pipeline.artifacts import leg
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json
from pipeline.ports import Ports
from pipeline.recipe import (
    SETTABLE,
    Recipe,
    apply_settings,
    current,
    default_recipe,
    named_embedder,
    recipe_from_json,
    serving,
)
from pipeline.rows import RunRow, VersionRow
from pipeline.types import ContextSlug


@dataclass(frozen=True, slots=True)
class CurateRequest:
    """What somebody asks for."""

    context: ContextSlug
    manifest: Manifest | None = None
    """None: the live version's, or the default template's at the first run."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What `--set` sets: the recipe."""
    force: bool = False
    rehash: bool = False
    allow_empty: bool = False
    batch_size: int | None = None
    models: tuple[str, ...] = ()
    """Tiers or model ids that the artifact leg uses instead of the manifest's tier."""
    legs: tuple[str, ...] | None = None
    """Legs to run; None: every leg of the manifest."""
    artifacts_reset: bool = False
    """Ask the model anew for everything that its answers were kept of."""
    skip_corpus_aggregation: bool = False
    max_spend: float | None = None
    """Money past which no further call to a language model is made."""
    buried_only: bool = False
    """Remove what was deleted from the context, and look at no other source."""
    answers_of: str = ""
    """Of a replayed `artifacts_reset`: the run whose answers are meant."""
    kind: str = "curate"
    """`plan`: a run that will not go on past what costs nothing."""
    trigger: str = "manual"
    resumed: bool = False
    """Whether the run was taken over, so that its inventory may be older than the request."""
    follows: int = 0
    """Runs before this one that the same request began."""


def resolve(ports: Ports, request: CurateRequest, live: VersionRow | None) -> tuple[Manifest, Recipe]:
    """Manifest and recipe that a run under this request follows.

    Raises:
        RejectedInput: see `start`.
    """
    manifest = request.manifest or (manifest_from(json.loads(live.manifest)) if live else default_manifest())
    _require_buildable(manifest)
    _require_legs(ports, request, manifest)
    now = recipe_from_json(live.recipe) if live else default_recipe(ports.embedders, ports.parser.identity)
    wanted = current(now, ports.embedders, ports.parser.identity)
    settings = dict(request.settings)
    model = manifest.curate.chunks.embedding_model
    if model is not None:
        named = named_embedder(model, ports.embedders)
        if settings.get("embedder", named) != named:
            raise RejectedInput(
                "two_models",
                f"the manifest names {model!r} and --set embedder names {settings['embedder']!r}",
                remedy="drop one of the two",
            )
        settings["embedder"] = named
    wanted = apply_settings(wanted, settings, ports.embedders)
    if serving(ports.embedders, wanted.model) is None:
        raise RejectedInput(
            "model_not_served",
            f"{request.context} is built with {wanted.model.name} {wanted.model.version}, which this deployment doesn't serve",
            remedy="install that version, or rebuild with: --force --set embedder=NAME",
        )
    if live is not None and not request.force:
        _require_same_vectors(ports, recipe_from_json(live.recipe), wanted, request)
        _require_same_legs(manifest, live)
    return manifest, wanted


def _require_buildable(manifest: Manifest) -> None:
    if not manifest.curate.chunks.enabled:
        raise RejectedInput(
            "nothing_to_build", "curate.chunks.enabled is false, so there is nothing to build", remedy="set it to true"
        )


def _require_legs(ports: Ports, request: CurateRequest, manifest: Manifest) -> None:
    unknown = sorted(set(request.legs or ()) - {"chunks", "artifacts"})
    if unknown or request.legs == ():
        raise RejectedInput(
            "bad_leg", f"there is no leg {', '.join(unknown) or '(none given)'}", remedy="use chunks, artifacts"
        )
    if request.legs is not None and "chunks" not in request.legs:
        raise RejectedInput(
            "bad_leg",
            "the chunk leg can't be left out: artifacts are found through what it parses",
            remedy="add chunks",
        )
    if leg.wanted(manifest) and ports.language is None:
        raise RejectedInput(
            "language_not_served",
            "curate.artifacts.enabled is true, and this deployment serves no language model",
            remedy="set language to extractive or openai in lamina.toml (LAMINA_LANGUAGE), or switch the leg off",
        )
    if request.artifacts_reset and not request.force:
        raise RejectedInput(
            "reset_needs_force",
            "--artifacts-reset asks for everything anew, and only --force plans everything",
            remedy="add --force",
        )
    prices = ports.prices.get(leg.tier_of(manifest, canonical_input(request)))
    if request.max_spend is not None and prices is None:
        raise RejectedInput(
            "no_prices",
            "--max-spend counts money, and no prices are set for this tier",
            remedy="set price_lite_in and price_lite_out (or the tier's own) in lamina.toml: money for a million tokens",
        )


def canonical_input(request: CurateRequest) -> str:
    """As much of the run's input as the choice of a model looks at."""
    return canonical_json({"models": list(request.models)})


def _require_same_vectors(ports: Ports, live: Recipe, wanted: Recipe, request: CurateRequest) -> None:
    if not wanted.same_vectors(live):
        raise RejectedInput(
            "model_change",
            f"{request.context} is built with {live.model.name} and {live.sparse}; "
            f"this run would use {wanted.model.name} and {wanted.sparse}",
            remedy="add --force to rebuild everything with the new one, or leave it as it is",
        )
    kept = current(live, ports.embedders, ports.parser.identity)
    if request.settings and wanted.fingerprint() != kept.fingerprint():
        raise RejectedInput(
            "recipe_change",
            f"--set would change the recipe of {request.context} for new sources only",
            remedy=f"add --force to rebuild everything, or drop --set (keys: {', '.join(SETTABLE)})",
        )


def _require_same_legs(manifest: Manifest, live: VersionRow) -> None:
    kept = manifest_from(json.loads(live.manifest))
    if manifest.curate.chunks.keyword.enabled != kept.curate.chunks.keyword.enabled:
        raise RejectedInput(
            "keyword_change",
            "curate.chunks.keyword.enabled differs from what the live version is built with",
            remedy="add --force to rebuild everything, or put it back",
        )


def input_of(request: CurateRequest) -> str:
    """`CurateInput` as canonical JSON, with the options that the contract doesn't name beside it."""
    given: dict[str, object] = {"trigger": request.trigger, "force": request.force, "scope": "full"}
    if request.batch_size:
        given["batch_size"] = request.batch_size
    if request.models:
        given["models"] = list(request.models)
    if request.legs is not None:
        given["legs"] = list(request.legs)
    if request.artifacts_reset:
        given["artifacts_reset"] = True
    if request.skip_corpus_aggregation:
        given["skip_corpus_aggregation"] = True
    named = {
        "buried_only": request.buried_only, "answers_of": request.answers_of, "resumed": request.resumed,
        "follows": request.follows,
    }  # fmt: skip
    options: dict[str, object] = {"rehash": request.rehash, "allow_empty": request.allow_empty}
    options |= {name: value for name, value in named.items() if value}
    if request.max_spend is not None:
        options["max_spend"] = request.max_spend
    return canonical_json({**given, "_options": options})


def same_input(held: str, wanted: str) -> bool:
    """Whether both ask for the same results; what may be spent on them, and what went before, is no part of that."""
    left, right = json.loads(held), json.loads(wanted)
    for given in (left, right):
        for name in ("max_spend", "resumed", "follows"):
            given["_options"].pop(name, None)
    return bool(left == right)


def request_of(run: RunRow) -> CurateRequest:
    """What the run was asked for. Its manifest and recipe stand in its row, resolved."""
    given = json.loads(run.input)
    options = given["_options"]
    legs = given.get("legs")
    return CurateRequest(
        run.context,
        force=bool(given["force"]),
        rehash=bool(options["rehash"]),
        allow_empty=bool(options["allow_empty"]),
        batch_size=given.get("batch_size"),
        models=tuple(given.get("models", ())),
        legs=tuple(legs) if legs is not None else None,
        artifacts_reset=bool(given.get("artifacts_reset")),
        skip_corpus_aggregation=bool(given.get("skip_corpus_aggregation")),
        max_spend=options.get("max_spend"),
        buried_only=bool(options.get("buried_only")),
        answers_of=str(options.get("answers_of", "")),
        trigger=str(given["trigger"]),
        resumed=bool(options.get("resumed")),
        follows=int(options.get("follows", 0)),
    )
