"""The page on the manifest names every key with its limits and default, and its examples are manifests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from manifests import templates, validate_text
from manifests.paths import key_paths
from manifests.schema import json_schema

PAGE = (Path(__file__).parents[2] / "docs" / "manifest.md").read_text(encoding="utf-8")
ROWS = {row.split("`")[1]: row for row in PAGE.splitlines() if row.startswith("| `")}
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def schema_of(path: str) -> dict[str, Any]:
    schema = json_schema()
    node: dict[str, Any] = schema
    for part in path.split("."):
        node = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        node = node["properties"][part.removesuffix("[]")]
        node = node["items"] if part.endswith("[]") else node
    return node


def test_every_key_has_a_row_and_every_row_a_key() -> None:
    assert set(ROWS) == set(key_paths())


@pytest.mark.parametrize("path", key_paths())
def test_a_row_tells_limits_and_default(path: str) -> None:
    node = schema_of(path)
    _, _, limits, default, meaning, _ = ROWS[path].split("|")
    for limit in ("minimum", "maximum", "maxLength", "maxItems"):
        assert limit not in node or str(node[limit]) in limits
    for word in node.get("enum", ()):
        assert f"`{word}`" in limits
    if "default" in node and node["default"] not in ("", []):
        shown = int(node["default"]) if node["type"] == "number" else node["default"]
        assert default.strip() == f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"
    assert len(meaning.strip()) > 10


@pytest.mark.parametrize("text", EXAMPLES, ids=lambda t: t[:30])
def test_examples_are_valid(text: str) -> None:
    assert validate_text(text, "example.yaml") == ()


def test_there_is_an_example_for_every_section() -> None:
    joined = "\n".join(EXAMPLES)
    for word in ("chunks:", "artifacts:", "artifact_types:", "edge_types:", "optimize:", "search:"):
        assert word in joined


def test_the_templates_are_named() -> None:
    assert all(f"`{name}`" in PAGE for name in templates.TEMPLATE_IDS)
