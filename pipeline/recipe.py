"""The recipe: choices that change results but that the manifest doesn't name (DESIGN §2).

A default that the deployment supplies enters the recipe as its resolved identity at the first run. A run follows the
live version's recipe unless it is forced, so a rollback brings the old one back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache

from pipeline import screen, tokens
from pipeline.embed.sparse import SparseEncoder
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.ports import DenseEmbedder
from pipeline.types import ModelIdentity

CONTEXT_TOKENS = 64
"""Default and largest budget for title and heading path in front of what is embedded."""

SETTABLE = {
    "embedder": "short name of a dense model; `lamina doctor` lists them",
    "stemming": "english or none",
    "stop_words": "on or off",
    "screen": f"default, none, all, or rules by name with + between them: {', '.join(screen.RULES)}",
    "context_tokens": f"0 to {CONTEXT_TOKENS}: tokens of title and heading path in front of what is embedded",
}
"""Keys of `--set`, and what each takes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything a result depends on besides content and manifest."""

    embedder: str
    """Short name under which this deployment serves the model."""
    model: ModelIdentity
    sparse: str
    """Identity of the sparse encoder."""
    stemming: bool
    stop_words: bool
    parser: str
    tokenizer: str
    context_tokens: int
    screen: tuple[str, ...]
    """Screening rules in use, by name."""
    screen_version: int

    def to_json(self) -> str:
        """Canonical JSON, as the ledger keeps it."""
        return canonical_json(asdict(self))

    def fingerprint(self) -> str:
        """Equal exactly when no result can differ; the short name is not part of it."""
        return _fingerprint(self)

    def model_fingerprint(self) -> str:
        """What memo keys of dense vectors begin with."""
        return _model_fingerprint(self.model)

    def encoder(self) -> SparseEncoder:
        """The sparse encoder that this recipe names; one instance for each choice, as it remembers words."""
        return _encoder(self.stop_words, self.stemming)

    def same_vectors(self, other: Recipe) -> bool:
        """Whether vectors of both may stand in one generation."""
        return self.model == other.model and self.sparse == other.sparse


@cache
def _fingerprint(recipe: Recipe) -> str:
    return fingerprint("recipe", canonical_json({k: v for k, v in asdict(recipe).items() if k != "embedder"}))


@cache
def _model_fingerprint(model: ModelIdentity) -> str:
    return fingerprint("model", model.name, model.version, model.sha256, model.dim)


@cache
def _encoder(stop_words: bool, stem: bool) -> SparseEncoder:  # noqa: FBT001  # positional for the cache's key
    return SparseEncoder(stop_words=stop_words, stem=stem)


def recipe_from_json(text: str) -> Recipe:
    """The recipe that `to_json` wrote."""
    values = json.loads(text)
    return Recipe(**{**values, "model": ModelIdentity(**values["model"]), "screen": tuple(values["screen"])})


def default_recipe(embedders: Mapping[str, DenseEmbedder], parser: str) -> Recipe:
    """What a first run resolves to: the deployment's first embedder and this build's parsers and rules."""
    name, embedder = next(iter(embedders.items()))
    encoder = SparseEncoder()
    return Recipe(
        embedder=name,
        model=embedder.identity,
        sparse=encoder.identity,
        stemming=True,
        stop_words=True,
        parser=parser,
        tokenizer=tokens.IDENTITY,
        context_tokens=CONTEXT_TOKENS,
        screen=screen.DEFAULT,
        screen_version=screen.VERSION,
    )


def current(recipe: Recipe, embedders: Mapping[str, DenseEmbedder], parser: str) -> Recipe:
    """The same choices with the identities that this build and deployment give them."""
    model = embedders[recipe.embedder].identity if recipe.embedder in embedders else recipe.model
    renewed = replace(recipe, model=model, parser=parser, tokenizer=tokens.IDENTITY, screen_version=screen.VERSION)
    return replace(renewed, sparse=renewed.encoder().identity)


def apply_settings(recipe: Recipe, settings: Mapping[str, str], embedders: Mapping[str, DenseEmbedder]) -> Recipe:
    """The recipe with `--set` applied.

    Raises:
        RejectedInput: an unknown key, or a value that the key doesn't take; every fault is listed.
    """
    faults: list[str] = []
    for key, value in settings.items():
        if key == "embedder":
            if value in embedders:
                recipe = replace(recipe, embedder=value, model=embedders[value].identity)
            else:
                faults.append(f"embedder={value}: this deployment serves {', '.join(embedders)}")
        elif key == "stemming" and value in ("english", "none"):
            recipe = replace(recipe, stemming=value == "english")
        elif key == "stop_words" and value in ("on", "off"):
            recipe = replace(recipe, stop_words=value == "on")
        elif key == "context_tokens" and value.isascii() and value.isdigit() and int(value) <= CONTEXT_TOKENS:
            recipe = replace(recipe, context_tokens=int(value))
        elif key == "screen" and (rules := screen.rules_of(value)) is not None:
            recipe = replace(recipe, screen=rules)
        elif key in SETTABLE:
            faults.append(f"{key}={value}: takes {SETTABLE[key]}")
        else:
            faults.append(f"{key}: unknown key; there are {', '.join(SETTABLE)}")
    if faults:
        raise RejectedInput("bad_setting", "--set can't be used: " + "; ".join(faults), remedy="correct or drop it")
    return replace(recipe, sparse=recipe.encoder().identity)


def named_embedder(model: str, embedders: Mapping[str, DenseEmbedder]) -> str:
    """The short name of the model that a manifest names.

    Raises:
        RejectedInput: this deployment can't serve it; the message lists what it can.
    """
    for name, embedder in embedders.items():
        if model in (name, embedder.identity.name):
            return name
    served = ", ".join(f"{name} ({e.identity.name})" for name, e in embedders.items())
    raise RejectedInput(
        "model_not_served",
        f"curate.chunks.embedding_model names {model!r}, which this deployment can't serve",
        remedy=f"name one of {served}, or leave the key out for the default",
    )


def serving(embedders: Mapping[str, DenseEmbedder], model: ModelIdentity) -> DenseEmbedder | None:
    """The embedder of this deployment whose vectors may stand beside those of `model`."""
    return next((candidate for candidate in embedders.values() if candidate.identity == model), None)
