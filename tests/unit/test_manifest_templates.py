"""The built-in templates: complete, consistent, and never changed without a new catalogue version."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from manifests import manifest_from, templates
from manifests.templates import CATALOG_VERSION, DEFAULT_ID, TEMPLATE_IDS, catalog, default_manifest

TEMPLATES = catalog()["templates"]
DIGESTS = {1: "cecaab9fb73e39570fa430be163626adda161c4f812bda102e94ebe1284528c8"}
"""Catalogue version to the digest of its templates. A change adds a line; a line never changes after a release."""


def test_a_changed_template_raises_the_version() -> None:
    text = json.dumps(TEMPLATES, sort_keys=True, ensure_ascii=False)
    assert DIGESTS[CATALOG_VERSION] == hashlib.sha256(text.encode()).hexdigest()


def test_the_catalogue_lists_every_file_once() -> None:
    folder = Path(templates.__file__).parent
    assert sorted(TEMPLATE_IDS) == sorted(path.stem for path in folder.glob("*.json"))
    assert [template["id"] for template in TEMPLATES] == list(TEMPLATE_IDS)
    assert [template["id"] for template in TEMPLATES if "default" in template] == [DEFAULT_ID]
    assert TEMPLATES[0]["default"] is True


def test_each_call_gives_a_catalogue_of_its_own() -> None:
    catalog()["templates"].clear()
    assert len(catalog()["templates"]) == len(TEMPLATE_IDS)


def test_the_default_manifest_is_that_of_the_default_template() -> None:
    assert default_manifest() == manifest_from(TEMPLATES[0]["manifest"])
    assert not default_manifest().curate.artifacts.enabled


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t["id"])
def test_a_template_is_well_made(template: dict[str, Any]) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", template["id"])
    assert template["description"].endswith(".")
    assert template["when_to_use"].endswith(".")
    assert 4 <= len(template["sample_questions"]) <= 6
    assert all(question.endswith("?") for question in template["sample_questions"])
    artifacts = manifest_from(template["manifest"], template["id"]).curate.artifacts
    assert artifacts.enabled is False
    assert template["manifest"]["curate"]["artifacts"]["enabled"] is False  # said, not left to the default
    assert len(artifacts.artifact_types) >= 3
    assert len(artifacts.edge_types) >= 3
    for item in artifacts.artifact_types:
        assert item.description.endswith(".")
        assert item.icon
        assert bool(item.sections) == (item.kind == "glossary")
        assert bool(item.columns) == bool(item.natural_key) == (item.format == "sqlite")
        assert all(column.description for column in item.columns)
        assert item.coverage or item.columns or item.sections
    assert all(edge.description.endswith(".") for edge in artifacts.edge_types)


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda t: t["id"])
def test_every_type_takes_part_in_an_edge_unless_it_is_a_glossary(template: dict[str, Any]) -> None:
    artifacts = manifest_from(template["manifest"]).curate.artifacts
    ends = {end for edge in artifacts.edge_types for end in (edge.from_type, edge.to_type)}
    assert {item.name for item in artifacts.artifact_types if item.kind != "glossary"} <= ends


@pytest.mark.parametrize(
    ("template_id", "strategy"),
    [
        ("source-code", "code"),
        ("tabular-data", "csv"),
        ("support-tickets", "sliding_window"),
        ("contracts", "markdown_heading"),
    ],
)
def test_chunking_fits_the_shape(template_id: str, strategy: str) -> None:
    template = next(t for t in TEMPLATES if t["id"] == template_id)
    assert template["manifest"]["curate"]["chunks"]["chunking"]["strategy"] == strategy
