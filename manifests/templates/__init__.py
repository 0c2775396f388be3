"""The built-in manifests to start from: one JSON file each, and the catalogue that lists them.

The artifact leg of every template is described but switched off: chunks need no language model, artifacts do.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from manifests.loading import manifest_from
from manifests.model import Manifest

CATALOG_VERSION = 1
"""Raised whenever a template changes in any way; a test holds it against the catalogue's digest."""

DEFAULT_ID = "general-knowledge-base"

TEMPLATE_IDS = (
    DEFAULT_ID,
    "contracts",
    "research-papers",
    "source-code",
    "support-tickets",
    "tabular-data",
    "meeting-notes",
    "product-manuals",
)
"""The templates in display order; each is the file `<id>.json`."""


def catalog() -> dict[str, Any]:
    """All templates in display order, as plain JSON values in the shape `ManifestTemplateCatalog`.

    Every call gives a new object, so that a caller may change what it got.
    """
    return {"version": CATALOG_VERSION, "default_id": DEFAULT_ID, "templates": [_read(name) for name in TEMPLATE_IDS]}


def default_manifest() -> Manifest:
    """The manifest of the default template: what a context starts with whose owner wrote none."""
    return manifest_from(_read(DEFAULT_ID)["manifest"], DEFAULT_ID)


def _read(template_id: str) -> dict[str, Any]:
    text = files(__name__).joinpath(f"{template_id}.json").read_text(encoding="utf-8")
    template: dict[str, Any] = json.loads(text)
    return template
