"""Canonical text, resolved values and fingerprints, by example."""

from __future__ import annotations

from typing import Any

import pytest

from manifests import Leg, canonical_json, leg_fingerprint, leg_values, manifest_from, resolved

TABLE = {"name": "T", "format": "sqlite", "columns": [{"name": "id"}], "natural_key": ["id"]}


def chunks(**keys: Any) -> dict[str, Any]:
    return {"curate": {"chunks": keys}}


def artifacts(*types: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"curate": {"artifacts": {"enabled": True, "artifact_types": list(types), **keys}}}


def test_canonical_text_is_sparse_and_sorted() -> None:
    document = {"search": {}, "curate": {"chunks": {"keyword": {"enabled": True}, "enabled": True}}}
    text = '{"curate":{"chunks":{"enabled":true,"keyword":{"enabled":true}}},"search":{}}'
    assert canonical_json(manifest_from(document)) == text
    assert canonical_json(manifest_from({})) == "{}"
    assert canonical_json(manifest_from({"optimize": {"eval_pass_rate_threshold": 1.0}})).endswith(":1}}")
    assert canonical_json(manifest_from({"search": {"instructions": "é"}})).endswith('"é"}}')


def test_edges_keep_the_names_of_their_ends() -> None:
    document = artifacts({"name": "A"}, edge_types=[{"name": "is", "from": "A", "to": "A"}])
    assert '"edge_types":[{"from":"A","name":"is","to":"A"}]' in canonical_json(manifest_from(document))


def test_a_type_without_min_doc_count_resolves_to_the_one_for_all() -> None:
    document = artifacts({"name": "A"}, {"name": "B", "min_doc_count": 1}, min_doc_count=3)
    types = resolved(manifest_from(document))["curate"]["artifacts"]["artifact_types"]
    assert [item["min_doc_count"] for item in types] == [3, 1]


def test_resolved_holds_no_null() -> None:
    assert "null" not in repr(resolved(manifest_from({}))).replace("None", "null")


def test_fingerprints_are_stable_across_releases() -> None:
    """A moved fingerprint makes every index of every user stale, so it moves on purpose only."""
    assert leg_fingerprint(manifest_from({}), "chunks") == (
        "e1c03777b1d5d6a126ddc8ea1d0940aa8c36059b22ee192c9d16cce8e25344f4"
    )
    assert leg_fingerprint(manifest_from(artifacts(TABLE)), "artifacts") == (
        "a930c346b7aab4cbabc49d68b56dc69fe64bb66b695aeafcc953d62e41afd895"
    )


SAME: list[tuple[Leg, dict[str, Any], dict[str, Any]]] = [
    ("chunks", {}, chunks(enabled=True, chunking={"target_size": 512, "overlap": 64}, keyword={})),
    ("chunks", chunks(chunking={"target_size": 128}), chunks(chunking={"target_size": 128, "overlap": 16})),
    ("chunks", chunks(enabled=False), chunks(enabled=False, embedding_model="m", chunking={"strategy": "csv"})),
    ("chunks", {}, artifacts({"name": "A"})),
    ("artifacts", {}, {"curate": {"artifacts": {"enabled": True}}}),
    ("artifacts", {}, {"curate": {"artifacts": {"artifact_types": [{"name": "A"}]}}}),
    ("artifacts", artifacts({"name": "A"}), artifacts({"name": "A"}) | {"search": {"instructions": "x"}}),
    ("artifacts", artifacts({"name": "A"}), artifacts({"name": "A", "icon": "x", "kind": "topic"})),
    ("artifacts", artifacts({"name": "A"}), artifacts({"name": "A", "sections": ["ignored"]})),
    ("artifacts", artifacts({"name": "A"}, min_doc_count=2), artifacts({"name": "A", "min_doc_count": 2})),
    (
        "artifacts",
        artifacts({"name": "A", "scope": "document"}),
        artifacts({"name": "A", "scope": "document", "min_doc_count": 2}, min_doc_count=5),
    ),
    ("artifacts", artifacts({"name": "A"}, {"name": "B"}), artifacts({"name": "B"}, {"name": "A"})),
    ("artifacts", artifacts(TABLE), artifacts(TABLE | {"columns": [{"name": "id"}, {"name": "ID", "type": "REAL"}]})),
]


@pytest.mark.parametrize(("leg", "one", "other"), SAME)
def test_what_builds_the_same_has_one_fingerprint(leg: Leg, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert leg_fingerprint(manifest_from(one), leg) == leg_fingerprint(manifest_from(other), leg)


MOVED: list[tuple[Leg, dict[str, Any], dict[str, Any]]] = [
    ("chunks", {}, chunks(enabled=False)),
    ("chunks", {}, chunks(embedding_model="m")),
    ("chunks", {}, chunks(chunking={"strategy": "code"})),
    ("chunks", {}, chunks(chunking={"target_size": 511})),
    ("chunks", {}, chunks(chunking={"overlap": 63})),
    ("chunks", {}, chunks(chunking={"respect_sections": False})),
    ("chunks", {}, chunks(keyword={"enabled": False})),
    *[
        ("artifacts", artifacts({"name": "A"}), artifacts({"name": "A"} | change))
        for change in (
            {"name": "B"}, {"kind": "entity"}, {"scope": "document"}, {"description": "x"}, {"coverage": ["x"]},
            {"min_doc_count": 2}, {"format": "sqlite"},
        )
    ],
    *[
        ("artifacts", artifacts({"name": "A"}), artifacts({"name": "A"}, **change))
        for change in (
            {"artifact_model": "standard"}, {"max_tokens": 200}, {"max_doc_chars": 2000}, {"mention_max_chars": 200},
            {"extraction_window_chars": 10}, {"max_mentions_per_artifact": 3}, {"mention_context_chars": 2000},
            {"max_artifacts_per_type": 4}, {"min_doc_count": 2}, {"edge_types": [{"name": "e", "from": "A", "to": "A"}]},
        )
    ],
    ("artifacts", artifacts({"name": "A", "kind": "glossary"}), artifacts({"name": "A", "kind": "glossary", "sections": ["x"]})),
    ("artifacts", artifacts(TABLE), artifacts(TABLE | {"columns": [{"name": "id", "type": "REAL"}]})),
    ("artifacts", artifacts(TABLE), artifacts(TABLE | {"natural_key": []})),
]  # fmt: skip


@pytest.mark.parametrize(("leg", "one", "other"), MOVED)
def test_what_builds_something_else_has_another(leg: Leg, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert leg_fingerprint(manifest_from(one), leg) != leg_fingerprint(manifest_from(other), leg)


def test_legs_never_share_a_fingerprint() -> None:
    off = manifest_from(chunks(enabled=False))
    assert leg_values(off, "chunks") == leg_values(off, "artifacts") == {"enabled": False}
    assert leg_fingerprint(off, "chunks") != leg_fingerprint(off, "artifacts")
