"""A version's manifest as the ledger keeps it, read without the manifest's models, which take long to load."""

from __future__ import annotations

import json
from typing import Any

from pipeline.ledger import Session
from pipeline.types import ContextSlug


def types_of(session: Session, slug: ContextSlug, version: int) -> tuple[dict[str, Any], ...]:
    """The artifact types that a version was built with, as its manifest writes them; none where the leg is off."""
    row = session.versions.get(slug, version)
    held = json.loads(row.manifest or "{}") if row is not None else {}
    config = held.get("curate", {}).get("artifacts", {})
    return tuple(config.get("artifact_types", ())) if config.get("enabled") else ()
