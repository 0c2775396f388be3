"""Catalogue and manifests against the public contract, and against this folder's own schema of the catalogue.

The contract's validator lies beside the repository in the workspace it is developed in. In a bare checkout those tests
are skipped and the own schema holds the catalogue's shape.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from manifests import canonical_json, load_manifest, manifest_from, resolved, templates
from manifests.schema import json_schema

CONTRACT = Path(__file__).parents[3] / "shared" / "spec" / "contract.py"
needs_contract = pytest.mark.skipif(not CONTRACT.is_file(), reason="../shared/spec/contract.py is not there")

EXAMPLES: list[dict[str, Any]] = [
    {},
    {"curate": {"chunks": {"chunking": {"target_size": 64}}}},
    {"curate": {"chunks": {"embedding_model": "m", "chunking": {"strategy": "csv", "overlap": 0}}}},
    {"optimize": {"schedule": "*/5 * * * *", "eval_pass_rate_threshold": 0.25}, "search": {"instructions": "x"}},
    {"curate": {"artifacts": {"enabled": True, "min_doc_count": 2, "artifact_types": [{"name": "A"}],
                              "edge_types": [{"name": "is", "from": "A", "to": "A", "attributes": ["count"]}]}}},
    {"curate": {"artifacts": {"artifact_types": [
        {"name": "T", "format": "sqlite", "columns": [{"name": "id"}], "natural_key": ["id"]}]}}},
]  # fmt: skip

OWN_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "version": {"type": "integer", "minimum": 1},
        "default_id": {"type": "string"},
        "templates": {
            "type": "array",
            "minItems": 6,
            "items": {
                "type": "object",
                "properties": {
                    **{
                        key: {"type": "string", "minLength": 1} for key in ("id", "label", "description", "when_to_use")
                    },
                    "default": {"const": True},
                    "sample_questions": {"type": "array", "items": {"type": "string"}},
                    "manifest": {"type": "object"},
                },
                "required": ["id", "label", "description", "when_to_use", "sample_questions", "manifest"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["version", "default_id", "templates"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def contract() -> Any:
    spec = importlib.util.spec_from_file_location("manifest_contract_validator", CONTRACT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_spec = functools.cache(module.load_spec)  # it reads 270 kB of YAML for every document otherwise
    return module


def test_the_catalogue_has_its_shape() -> None:
    assert list(Draft202012Validator(OWN_SCHEMA).iter_errors(templates.catalog())) == []
    ids = [template["id"] for template in templates.catalog()["templates"]]
    assert len(set(ids)) == len(ids)
    assert templates.catalog()["default_id"] in ids


def test_what_we_write_we_read_again() -> None:
    for document in [*EXAMPLES, *(t["manifest"] for t in templates.catalog()["templates"])]:
        manifest = manifest_from(document)
        assert load_manifest(canonical_json(manifest), "m.json") == manifest


@needs_contract
def test_the_catalogue_meets_the_contract(contract: Any) -> None:
    assert contract.validate("ManifestTemplateCatalog", templates.catalog()) == []


@needs_contract
@pytest.mark.parametrize("document", EXAMPLES, ids=json.dumps)
def test_manifests_meet_the_contract_sparse_and_resolved(contract: Any, document: dict[str, Any]) -> None:
    manifest = manifest_from(document)
    assert contract.validate("Manifest", json.loads(canonical_json(manifest))) == []
    assert contract.validate("Manifest", resolved(manifest)) == []


def flattened(spec: dict[str, Any], node: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """Every key path of an object schema with its limits, default and choices; `x-enum` counts as `enum`."""
    if "$ref" in node:
        return flattened(spec, spec[node["$ref"].rpartition("/")[2]], prefix)
    found = {}
    for key, inner in node.get("properties", {}).items():
        facts = spec[inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
        found[f"{prefix}{key}"] = {
            **{
                word: facts[word]
                for word in ("type", "minimum", "maximum", "maxLength", "maxItems", "default")
                if word in facts
            },
            "enum": sorted(facts.get("enum") or facts.get("x-enum") or ()),
            "required": key in node.get("required", ()),
        }
        found |= flattened(spec, facts, f"{prefix}{key}.")
        if "items" in facts:
            found |= flattened(spec, facts["items"], f"{prefix}{key}[].")
            items = facts["items"]
            if "maxLength" in items:
                found[f"{prefix}{key}[]"] = {"maxLength": items["maxLength"]}
    return found


@needs_contract
def test_keys_limits_and_defaults_are_those_of_the_contract(contract: Any) -> None:
    """Three defaults differ in form: the model is the deployment's, overlap and min_doc_count follow from other keys."""
    theirs = flattened(contract.load_spec()["components"]["schemas"], {"$ref": "#/components/schemas/Manifest"}, "")
    ours = flattened(json_schema()["$defs"], json_schema(), "")
    elsewhere = {
        "curate.chunks.embedding_model": "multilingual-e5-large",
        "curate.chunks.chunking.overlap": 64,
        "curate.artifacts.artifact_types[].min_doc_count": 1,
    }
    for path, default in elsewhere.items():
        assert theirs[path].pop("default") == default
        assert "default" not in ours[path]
    for path, facts in ours.items():
        if facts.get("default") in ("", []) and "default" not in theirs[path]:
            del facts["default"]  # empty is how a model says that there is none
    assert ours == theirs
