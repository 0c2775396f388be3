"""The embedded language model: extractive, deterministic, of this machine alone. It is named as what it is everywhere."""

from __future__ import annotations

from pipeline.artifacts import extractive
from pipeline.models import CatalogModel, ModelReply, ModelRequest, Tier, TokenUsage

NAME = f"lamina-extractive-{extractive.VERSION}"


class ExtractiveModel:
    """`ports.LanguageModel` without a language model: see `artifacts.extractive`."""

    @property
    def deterministic(self) -> bool:
        """Always."""
        return True

    def model(self, tier: Tier) -> str:  # noqa: ARG002 - one for all tiers
        """The same for every tier."""
        return NAME

    def catalog(self) -> tuple[CatalogModel, ...]:
        """Itself."""
        return (CatalogModel(NAME, "Extractive (no language model: sentences of the sources themselves)", "lamina"),)

    def answer(self, request: ModelRequest) -> ModelReply:
        """Never fails, bills nothing."""
        return ModelReply(extractive.answer(request.task), "stop", TokenUsage(), NAME)
