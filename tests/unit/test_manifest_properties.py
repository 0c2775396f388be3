"""What holds for every manifest: canonical text, resolved values, fingerprints and diffs agree with each other."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manifests import (
    LEGS,
    canonical_json,
    diff,
    leg_fingerprint,
    leg_values,
    load_manifest,
    manifest_from,
    resolved,
    validate_text,
)

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no counterexample."""

NAMES = ("Person", "Paper", "Line item", "C++", "Größe")
WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
NUMBERED = st.sampled_from([128, 200, 256, 512, 1024])


def sparse(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


CHUNKS = sparse(
    enabled=st.booleans(),
    embedding_model=st.sampled_from(["m1", "m2"]),
    chunking=sparse(
        strategy=st.sampled_from(["markdown_heading", "csv", "code"]),
        target_size=NUMBERED,
        overlap=st.integers(0, 127),
        respect_sections=st.booleans(),
    ),
    keyword=sparse(enabled=st.booleans()),
)
TYPE_OPTIONS = sparse(
    kind=st.sampled_from(["topic", "entity", "glossary"]),
    scope=st.sampled_from(["document", "corpus"]),
    icon=WORDS,
    description=WORDS,
    coverage=st.lists(st.sampled_from(["a", "b"]), max_size=2),
    sections=st.lists(st.sampled_from(["Glossary", "Terms"]), max_size=2),
    min_doc_count=st.integers(1, 3),
)
COLUMNS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["id", "ID", "x y", "n"])}, optional={"description": WORDS}),
    max_size=4,
)


@st.composite
def types(draw: st.DrawFn) -> list[dict[str, Any]]:
    items = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3)):
        item = {"name": name, **draw(TYPE_OPTIONS)}
        if draw(st.booleans()):
            columns = draw(COLUMNS)
            item |= {"format": "sqlite", "columns": columns, "natural_key": [c["name"] for c in columns[:1]]}
        items.append(item)
    return items


@st.composite
def artifacts(draw: st.DrawFn) -> dict[str, Any]:
    section = draw(sparse(enabled=st.booleans(), min_doc_count=st.integers(1, 3), max_tokens=NUMBERED,
                          max_mentions_per_artifact=st.integers(1, 3)))  # fmt: skip
    section["artifact_types"] = draw(types())
    names = [item["name"] for item in section["artifact_types"]]
    if names:
        ends = st.sampled_from(names)
        section["edge_types"] = [
            {"name": name, "from": draw(ends), "to": draw(ends)}
            for name in draw(st.lists(st.sampled_from(["cites", "is"]), unique=True))
        ]
    return section


DOCUMENTS = sparse(
    curate=sparse(chunks=CHUNKS, artifacts=artifacts()),
    optimize=sparse(max_iterations=st.integers(1, 9), eval_pass_rate_threshold=st.sampled_from([0, 0.5, 1, 1.0])),
    search=sparse(instructions=WORDS),
)


@UNTIMED
@given(DOCUMENTS)
def test_canonical_text_is_what_the_author_wrote(document: dict[str, Any]) -> None:
    manifest = manifest_from(document)
    text = canonical_json(manifest)
    assert json.loads(text) == document
    again = load_manifest(text, "m.json")
    assert again == manifest
    assert canonical_json(again) == text


@UNTIMED
@given(DOCUMENTS)
def test_json_and_yaml_text_give_the_same_manifest(document: dict[str, Any]) -> None:
    text = yaml.safe_dump(document, allow_unicode=True)
    assert canonical_json(load_manifest(text, "m.yaml")) == canonical_json(manifest_from(document))


@UNTIMED
@given(DOCUMENTS)
def test_writing_every_default_out_changes_nothing(document: dict[str, Any]) -> None:
    manifest = manifest_from(document)
    written = manifest_from(resolved(manifest))
    assert resolved(written) == resolved(manifest)
    assert [leg_fingerprint(written, leg) for leg in LEGS] == [leg_fingerprint(manifest, leg) for leg in LEGS]
    assert diff(manifest, written).changes == ()


def turned(value: Any) -> Any:
    """The same mappings with their keys the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@UNTIMED
@given(DOCUMENTS)
def test_order_of_keys_types_and_edges_changes_nothing(document: dict[str, Any]) -> None:
    manifest, other = manifest_from(document), turned(copy.deepcopy(document))
    assert canonical_json(manifest_from(other)) == canonical_json(manifest)
    section = other.get("curate", {}).get("artifacts", {})
    for key in ("artifact_types", "edge_types"):
        section.get(key, []).reverse()
    assert [leg_fingerprint(manifest_from(other), leg) for leg in LEGS] == [
        leg_fingerprint(manifest, leg) for leg in LEGS
    ]
    assert diff(manifest, manifest_from(other)).changes == ()


@UNTIMED
@given(DOCUMENTS, WORDS)
def test_icons_search_and_optimize_never_make_a_leg_stale(document: dict[str, Any], word: str) -> None:
    other = copy.deepcopy(document)
    other |= {"search": {"instructions": word}, "optimize": {"schedule": "1 2 3 4 5"}}
    for item in other.get("curate", {}).get("artifacts", {}).get("artifact_types", []):
        item["icon"] = word
    assert not any(leg.stale for leg in diff(manifest_from(document), manifest_from(other)).legs)


@UNTIMED
@given(DOCUMENTS, DOCUMENTS)
def test_a_diff_agrees_with_the_fingerprints_and_gives_reasons(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = manifest_from(old), manifest_from(new)
    found = diff(before, after)
    for leg in found.legs:
        assert leg.stale == (leg_fingerprint(before, leg.leg) != leg_fingerprint(after, leg.leg))
        assert leg.stale == (leg_values(before, leg.leg) != leg_values(after, leg.leg))
        assert leg.stale == bool(leg.reasons)
        assert all(reason.startswith(f"{leg.leg}: ") for reason in leg.reasons)
        assert leg.stale or not leg.refused_unforced
    if any(leg.stale for leg in found.legs):
        assert found.changes
    assert json.loads(json.dumps(found.to_json())) == found.to_json()
    assert all("\n" not in line for line in found.to_lines())
    back = diff(after, before)
    assert {c.path: (c.new, c.old) for c in found.changes} == {c.path: (c.old, c.new) for c in back.changes}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["curate", "chunks", "chunking", "overlap", "target_size", "artifacts", "artifact_types", "edge_types", "name",
         "from", "to", "columns", "natural_key", "format", "optimize", "schedule", "search", "zzz"]), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@UNTIMED
@given(JSON)
def test_any_document_gives_a_manifest_or_problems(document: object) -> None:
    """No shape of input may raise anything else, and every problem says something."""
    for problem in validate_text(json.dumps(document), "m.json"):
        assert problem.message
        assert problem.remedy
        assert "\n" not in str(problem)


@UNTIMED
@given(st.text(max_size=60), st.sampled_from(["m.json", "m.yaml", "stdin"]))
def test_any_text_gives_a_manifest_or_problems(text: str, name: str) -> None:
    assert isinstance(validate_text(text, name), tuple)
