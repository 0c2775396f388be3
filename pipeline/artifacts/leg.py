"""The artifact leg of a run: whether it runs, with which model, what it costs, what its results are a function of. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from manifests import Manifest, leg_values
from pipeline.artifacts import tasks
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint, text_hash
from pipeline.models import Price, Tier
from pipeline.ports import Ports
from pipeline.rows import ArtifactRow, EdgeRow, SpendRow, StatementRow, SubjectRow
from pipeline.types import SourcePath

STATEMENTS_VERSION = 1
"""Raised when the same answers come to other statements."""
REDUCE_VERSION = 1
"""Raised when the same statements come to other subjects or artifacts."""

TIERS: tuple[Tier, ...] = ("lite", "standard", "pro")
MILLION = 1_000_000


def wanted(manifest: Manifest) -> bool:
    """Whether the manifest asks for artifacts at all."""
    return manifest.curate.artifacts.enabled and bool(manifest.curate.artifacts.artifact_types)


def options_of(run_input: str) -> dict[str, Any]:
    """A run's `CurateInput`."""
    held: dict[str, Any] = json.loads(run_input)
    return held


def runs(manifest: Manifest, run_input: str) -> bool:
    """Whether this run extracts: the manifest asks for it and the run wasn't limited to other legs."""
    legs = options_of(run_input).get("legs")
    return wanted(manifest) and (legs is None or "artifacts" in legs)


def reduces(run_input: str) -> bool:
    """Whether subjects of the whole corpus are reduced; what documents alone say always is."""
    return not options_of(run_input).get("skip_corpus_aggregation", False)


def tier_of(manifest: Manifest, run_input: str) -> Tier:
    """The manifest's tier, or the first tier that the run names instead."""
    for name in options_of(run_input).get("models", ()):
        if name in TIERS:
            return TIERS[TIERS.index(name)]
    return manifest.curate.artifacts.artifact_model


def model_of(ports: Ports, manifest: Manifest, run_input: str) -> str:
    """The model behind that tier; empty where none is served."""
    return ports.language.model(tier_of(manifest, run_input)) if ports.language is not None else ""


def leg_fingerprint(manifest: Manifest, model: str) -> str:
    """What every source's statements are a function of, content aside."""
    values = leg_values(manifest, "artifacts")
    return fingerprint("artifacts", canonical_json(values), model, tasks.prompts_fingerprint(), STATEMENTS_VERSION)


def source_key(content: str, leg: str) -> str:
    """What one source's statements are a function of: begins with the content, so that either half can be compared."""
    return f"{content}:{leg}"


def data(row: StatementRow | SubjectRow | ArtifactRow | EdgeRow) -> dict[str, Any]:
    """The row's own values."""
    held: dict[str, Any] = json.loads(row.data)
    return held


def cost(spent: Iterable[SpendRow], prices: Mapping[str, Price]) -> float:
    """Money, by the deployment's prices for tiers."""
    return sum(prices.get(row.tier, Price()).cost(row.prompt, row.completion) for row in spent)


def tiers_of(models: Iterable[str], ports: Ports) -> tuple[Tier, ...]:
    """The tiers that names of tiers or models stand for.

    Raises:
        RejectedInput: code `no_model`: neither a tier nor a model that a tier resolves to.
    """
    served: dict[str, Tier] = {ports.language.model(tier): tier for tier in reversed(TIERS)} if ports.language else {}
    found = []
    for name in models:
        tier = next((t for t in TIERS if t == name), None) or served.get(name)
        if tier is None:
            known = ", ".join([*TIERS, *sorted(served)])
            raise RejectedInput(
                "no_model", f"{name!r} is no model that this deployment serves", remedy=f"one of: {known}"
            )
        found.append(tier)
    return tuple(found)


DATABASE_SOURCE = SourcePath("/database")
"""The pseudo source under which the database is listed."""
INDEX = "/index/"
"""Under which index pages are listed, by type."""


def artifact_path(artifact: str) -> str:
    """The pseudo source under which an artifact's records and files are listed; no source's path begins with '/'."""
    return f"/artifacts/{artifact}"


_TAKEN = re.compile(r"index|con|prn|aux|nul|(?:com|lpt)\d", re.IGNORECASE)
"""The index page's own name, and those that Windows keeps for devices."""


def slug_of(key: str, unique: str) -> str:
    """A file name for a key: the same for the same key, and never one for two keys."""
    plain = "-".join(key.split())
    simple = len(plain) <= 80 and plain.isascii() and plain.replace("-", "").isalnum()  # noqa: PLR2004
    if simple and not _TAKEN.fullmatch(plain):
        return plain
    kept = "".join(c if c.isalnum() and c.isascii() else "-" for c in plain.casefold())[:60].strip("-")
    return f"{kept or 'x'}-{text_hash(unique)[:10]}"
