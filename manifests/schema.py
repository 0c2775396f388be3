"""The JSON Schema of a manifest, generated from the models and committed beside this file for editors to use.

It holds every rule about one key. Rules between keys are beyond it (see `rules`), and JSON Schema can't tell 512 from
512.0, which the loader refuses.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core import core_schema

from manifests.model import Manifest

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_json() -> str:
    """The schema as the text of `manifest.schema.json`; deterministic."""
    return json.dumps(json_schema(), ensure_ascii=False, indent=2) + "\n"


def json_schema() -> dict[str, Any]:
    """The schema as plain values: JSON Schema 2020-12, closed sections, no nulls, defaults where they are fixed."""
    return {"$schema": _DIALECT, **Manifest.model_json_schema(by_alias=True, schema_generator=_Generator)}


class _Generator(GenerateJsonSchema):
    """Absent, not null: an optional key has the schema of its value."""

    def generate(self, schema: core_schema.CoreSchema, mode: JsonSchemaMode = "validation") -> JsonSchemaValue:
        generated: JsonSchemaValue = _written(super().generate(schema, mode))
        return generated

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = super().default_schema(schema)
        if inner.get("default", ...) is None:
            del inner["default"]
        return inner


def _written(node: Any) -> Any:
    """Descriptions on one line, and no generated titles of keys, which only repeat the key."""
    if isinstance(node, list):
        return [_written(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for key, value in node.items():
        if key == "title" and isinstance(value, str) and node.get("type") != "object":
            continue
        out[key] = " ".join(value.split()) if key == "description" and isinstance(value, str) else _written(value)
    return out
