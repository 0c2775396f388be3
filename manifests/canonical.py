"""A manifest as comparable text, with and without its defaults, and the fingerprint of each leg.

The only hashing in this package. What makes a leg stale is decided here by what `leg_values` leaves in: `diff` explains
the same values in words.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from manifests.model import ArtifactsConfig, ArtifactType, ChunksConfig, EdgeType, Leg, Manifest
from manifests.rules import table_name


def canonical_json(manifest: Manifest) -> str:
    """What the author wrote and nothing else, as JSON with sorted keys, no spaces and no nulls.

    Loading the text again gives an equal manifest with the same canonical text.
    """
    return _text(_tidy(manifest.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)))


def resolved(manifest: Manifest) -> dict[str, Any]:
    """The manifest with every default filled in, as plain JSON values in the order of the documentation.

    An artifact type without `min_doc_count` gets the one for all types. An absent `embedding_model` stays absent: its
    default belongs to the deployment.
    """
    values: dict[str, Any] = manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    artifacts = values["curate"]["artifacts"]
    for artifact_type in artifacts["artifact_types"]:
        artifact_type.setdefault("min_doc_count", artifacts["min_doc_count"])
    tidy: dict[str, Any] = _tidy(values)
    return tidy


def leg_values(manifest: Manifest, leg: Leg) -> dict[str, Any]:
    """The resolved values that decide what a leg builds, as plain JSON values.

    Left out is what changes nothing: icons, search and optimize, the order of types and edges, keys that the type's
    kind, scope or format pays no heed to, and everything in a leg that builds nothing.
    """
    if leg == "chunks":
        return _chunks(manifest.curate.chunks)
    return _artifacts(manifest.curate.artifacts)


def leg_fingerprint(manifest: Manifest, leg: Leg) -> str:
    """SHA-256 over `leg_values`, 64 hex digits: equal exactly when the leg would build the same from the same sources.

    The resolved identity of models and the versions of the stages are not part of it; the recipe adds them.
    """
    return hashlib.sha256(_text([leg, leg_values(manifest, leg)]).encode("utf-8")).hexdigest()


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _tidy(value: Any) -> Any:
    """Whole numbers without a fraction part, so that 1 and 1.0 have one text."""
    if isinstance(value, dict):
        return {key: _tidy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_tidy(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _chunks(chunks: ChunksConfig) -> dict[str, Any]:
    if not chunks.enabled:
        return {"enabled": False}
    return chunks.model_dump(mode="json", exclude_none=True)


def _artifacts(artifacts: ArtifactsConfig) -> dict[str, Any]:
    if not artifacts.enabled or not artifacts.artifact_types:
        return {"enabled": False}
    # min_doc_count stands with each type, where it is resolved.
    values = artifacts.model_dump(mode="json", exclude={"artifact_types", "edge_types", "min_doc_count"})
    types = {item.name: _artifact_type(item, artifacts.min_doc_count) for item in artifacts.artifact_types}
    return values | {
        "artifact_types": types,
        "edge_types": {item.name: _edge_type(item) for item in artifacts.edge_types},
    }


def _artifact_type(item: ArtifactType, min_doc_count: int) -> dict[str, Any]:
    values = item.model_dump(mode="json", exclude={"name", "icon"}, exclude_none=True)
    values.setdefault("min_doc_count", min_doc_count)
    if item.scope == "document":
        del values["min_doc_count"]
    if item.kind != "glossary":
        del values["sections"]
    if item.format != "sqlite":
        del values["columns"], values["natural_key"]
    else:
        first: dict[str, dict[str, Any]] = {}
        for column in values["columns"]:
            first.setdefault(table_name(column["name"]), column)
        values["columns"] = list(first.values())
    return values


def _edge_type(item: EdgeType) -> dict[str, Any]:
    return item.model_dump(mode="json", by_alias=True, exclude={"name"})
