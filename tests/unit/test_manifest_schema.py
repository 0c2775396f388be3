"""The committed JSON Schema: current, valid, and of one mind with the loader about every single key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import manifests
from manifests.paths import key_paths
from manifests.schema import json_schema

COMMITTED = Path(manifests.__file__).with_name("manifest.schema.json")
VALIDATOR = Draft202012Validator(json_schema())


def test_the_committed_schema_is_current() -> None:
    """To renew it, write `manifests.schema_json()` to manifests/manifest.schema.json."""
    assert COMMITTED.read_text(encoding="utf-8") == manifests.schema_json()


def test_the_schema_is_valid_and_knows_no_null() -> None:
    Draft202012Validator.check_schema(json_schema())
    assert "null" not in manifests.schema_json()


def chunking(**keys: Any) -> dict[str, Any]:
    return {"curate": {"chunks": {"chunking": keys}}}


def types(*items: Any, **keys: Any) -> dict[str, Any]:
    return {"curate": {"artifacts": {"artifact_types": list(items), **keys}}}


EXAMPLES: list[Any] = [
    {}, None, [], 1, "x", {"curate": {}}, {"curate": None}, {"curate": []}, {"zzz": 1}, {"curate": {"chunks": {"zzz": 1}}},
    {"curate": {"chunks": {"enabled": True}}}, {"curate": {"chunks": {"enabled": "true"}}}, {"curate": {"chunks": {"enabled": 1}}},
    {"curate": {"chunks": {"embedding_model": "m"}}}, {"curate": {"chunks": {"embedding_model": None}}},
    {"curate": {"chunks": {"embedding_model": ""}}}, {"curate": {"chunks": {"embedding_model": "m" * 129}}},
    {"curate": {"chunks": {"keyword": {"enabled": False}}}}, {"curate": {"chunks": {"keyword": False}}},
    *[chunking(target_size=v) for v in (63, 64, 4096, 4097, "512", True, None, 1.5)],
    *[chunking(overlap=v, target_size=2000) for v in (-1, 0, 1024, 1025)],
    *[chunking(strategy=v) for v in ("csv", "CSV", "", None, 1)],
    *[types({"name": v}) for v in ("A", "", " ", "x" * 64, "x" * 65, "é" * 64, 1, None)],
    types({}), types(None), types("A"), types(*[{"name": f"T{i}"} for i in range(33)]),
    *[types({"name": "A", key: v}) for key in ("kind", "scope", "format") for v in ("topic", "corpus", "sqlite", "zzz")],
    *[types({"name": "A", "min_doc_count": v}) for v in (0, 1, 64, 65, None)],
    *[types({"name": "A", "coverage": v}) for v in ([], ["x"], [""], ["x" * 129], ["x"] * 33, "x", None, [1])],
    *[types({"name": "A", "format": "sqlite", "columns": v}) for v in ([], [{"name": "c"}], [{}], [{"name": "c", "type": "INT"}],
                                                                      [{"name": "c", "type": "REAL", "description": "d"}])],
    *[types({"name": "A"}, edge_types=[v]) for v in ({"name": "e", "from": "A", "to": "A"}, {"name": "e", "from": "A"}, {},
                                                     {"name": "e", "from": "A", "to": "A", "attributes": ["count"]},
                                                     {"name": "e", "from_type": "A", "to_type": "A"})],
    *[types(artifact_model=v) for v in ("lite", "standard", "large")],
    *[{"optimize": {"eval_pass_rate_threshold": v}} for v in (0, 0.5, 1, 1.01, -0.1, "1", True, None)],
    *[{"optimize": {"max_iterations": v}} for v in (0, 1, 100, 101)],
    {"optimize": {"schedule": "0 " * 65}}, {"search": {"instructions": "x"}}, {"search": {"instructions": 1}},
]  # fmt: skip


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda d: json.dumps(d)[:60])
def test_schema_and_loader_agree(document: Any) -> None:
    assert VALIDATOR.is_valid(document) == (manifests.validate_text(json.dumps(document), "m.json") == ())


@pytest.mark.parametrize("template", manifests.templates.catalog()["templates"], ids=lambda t: t["id"])
def test_templates_fit_the_schema(template: dict[str, Any]) -> None:
    assert list(VALIDATOR.iter_errors(template["manifest"])) == []
    assert list(VALIDATOR.iter_errors(manifests.resolved(manifests.manifest_from(template["manifest"])))) == []


def test_every_key_is_described_in_the_schema() -> None:
    described = sum(
        "description" in field
        for section in [json_schema(), *json_schema()["$defs"].values()]
        for field in section["properties"].values()
    )
    assert described == len(key_paths())
