"""Keys, limits, types and defaults of the manifest, one at a time."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from manifests import Manifest, ManifestError, manifest_from, resolved
from manifests.model import ArtifactsConfig, ChunkingConfig, EdgeType
from manifests.paths import field_at, key_paths, path_text, section_at


def at(path: str, value: object) -> dict[str, Any]:
    """The smallest document with a value at a path; list items of types and edges are completed."""
    document: Any = value
    for part in reversed(path.split(".")):
        if part.endswith("[]"):
            names = {"name": "A"} | ({"from": "A", "to": "A"} if part == "edge_types[]" else {})
            if part != "edge_types[]" and ("columns" in document or "natural_key" in document):
                names["format"] = "sqlite"
            document = [{**names, **document}]
        document = {part.removesuffix("[]"): document}
    if "edge_types" in str(document):
        document["curate"]["artifacts"].setdefault("artifact_types", [{"name": "A"}])
    return document


def problems(document: object) -> list[tuple[str, str]]:
    try:
        manifest_from(document)
    except ManifestError as error:
        return [(p.path, p.message) for p in error.problems]
    return []


NUMBERS = {
    "curate.chunks.chunking.target_size": (64, 4096, 512),
    "curate.artifacts.min_doc_count": (1, 64, 1),
    "curate.artifacts.max_tokens": (128, 8192, 1500),
    "curate.artifacts.max_doc_chars": (1000, 2_000_000, 60_000),
    "curate.artifacts.extraction_window_chars": (0, 1_000_000, 0),
    "curate.artifacts.mention_max_chars": (100, 4000, 400),
    "curate.artifacts.max_mentions_per_artifact": (1, 500, 40),
    "curate.artifacts.mention_context_chars": (1000, 100_000, 8000),
    "curate.artifacts.max_artifacts_per_type": (1, 10_000, 10_000),
    "optimize.latency_threshold_ms": (0, 600_000, 60_000),
    "optimize.min_group_size": (1, 100, 2),
    "optimize.eval_pass_rate_threshold": (0, 1, 1),
    "optimize.max_iterations": (1, 100, 20),
}
TEXTS = {
    "curate.chunks.embedding_model": 128,
    "curate.artifacts.artifact_types[].icon": 64,
    "curate.artifacts.artifact_types[].name": 64,
    "curate.artifacts.artifact_types[].description": 512,
    "curate.artifacts.artifact_types[].columns[].name": 64,
    "curate.artifacts.artifact_types[].columns[].description": 256,
    "curate.artifacts.edge_types[].name": 64,
    "curate.artifacts.edge_types[].description": 512,
}
LISTS = {
    "curate.artifacts.artifact_types[].coverage": (32, 128),
    "curate.artifacts.artifact_types[].sections": (64, 128),
    "curate.artifacts.edge_types[].attributes": (16, 64),
}
CHOICES = {
    "curate.chunks.chunking.strategy": ("markdown_heading", "sliding_window", "html", "csv", "code"),
    "curate.artifacts.artifact_model": ("lite", "standard"),
    "curate.artifacts.artifact_types[].kind": ("topic", "summary", "entity", "event", "doc", "page", "glossary"),
    "curate.artifacts.artifact_types[].scope": ("corpus", "document"),
    "curate.artifacts.artifact_types[].format": ("markdown", "sqlite"),
    "curate.artifacts.artifact_types[].columns[].type": ("TEXT", "INTEGER", "REAL", "NUMERIC"),
}


def value_at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[part.removesuffix("[]")]
        if part.endswith("[]"):
            document = document[0]
    return document


@pytest.mark.parametrize("path", NUMBERS)
def test_a_number_is_taken_within_its_limits_and_nowhere_else(path: str) -> None:
    low, high, default = NUMBERS[path]
    assert value_at(resolved(manifest_from({})), path) == default
    for value in (low, high):
        assert value_at(resolved(manifest_from(at(path, value))), path) == value
    for value in (low - 1, high + 1):
        assert [p for p, _ in problems(at(path, value))] == [path]


@pytest.mark.parametrize("path", NUMBERS)
@pytest.mark.parametrize("value", ["1", True, None, [], {}, float("nan"), float("inf")])
def test_only_numbers_are_numbers(path: str, value: object) -> None:
    assert [p for p, _ in problems(at(path, value))] == [path]


@pytest.mark.parametrize("path", [p for p in NUMBERS if not p.endswith("threshold")])
def test_a_whole_number_has_no_fraction_part(path: str) -> None:
    assert [p for p, _ in problems(at(path, float(NUMBERS[path][2])))] == [path]


@pytest.mark.parametrize("path", TEXTS)
def test_a_text_is_counted_in_characters(path: str) -> None:
    assert problems(at(path, "é" * TEXTS[path])) == []
    told = problems(at(path, "é" * (TEXTS[path] + 1)))
    assert [p.replace("[0]", "[]") for p, _ in told] == [path]
    for value in (1, None, "a\0", "\ud800"):
        assert [p.replace("[0]", "[]") for p, _ in problems(at(path, value))] == [path]


@pytest.mark.parametrize("path", [p for p in TEXTS if p.endswith(("name", "model"))])
@pytest.mark.parametrize("value", ["", "  ", "\t\n"])
def test_a_name_is_not_blank(path: str, value: str) -> None:
    assert [m for _, m in problems(at(path, value))] == ["must not be blank"]


@pytest.mark.parametrize("path", LISTS)
def test_a_list_has_its_longest_length_and_longest_item(path: str) -> None:
    count, length = LISTS[path]
    assert problems(at(path, ["x" * length] * count)) == []
    assert problems(at(path, ["x"] * (count + 1)))[0][1] == f"has {count + 1} items, at most {count} are allowed"
    assert problems(at(path, ["x" * (length + 1)]))[0][0].replace("types[0]", "types[]") == f"{path}[0]"
    assert problems(at(path, "x"))[0][1] == "must be a list, not a text"


@pytest.mark.parametrize(
    ("key", "count", "item"),
    [("artifact_types", 32, {"name": "T"}), ("edge_types", 32, {"name": "E", "from": "T0", "to": "T0"})],
)
def test_types_and_edges_are_at_most_32(key: str, count: int, item: dict[str, str]) -> None:
    artifacts: dict[str, Any] = {"artifact_types": [{"name": "T0"}]}
    artifacts[key] = [{**item, "name": f"{item['name']}{i}"} for i in range(count)]
    assert problems({"curate": {"artifacts": artifacts}}) == []
    artifacts[key] = [*artifacts[key], {**item, "name": "more"}]
    assert [m for _, m in problems({"curate": {"artifacts": artifacts}})] == [
        f"has {count + 1} items, at most {count} are allowed"
    ]


def test_columns_are_at_most_64_and_natural_keys_at_most_16() -> None:
    columns = [{"name": f"c{i}"} for i in range(64)]
    document = {"name": "T", "format": "sqlite", "columns": columns, "natural_key": [f"c{i}" for i in range(16)]}
    assert problems({"curate": {"artifacts": {"artifact_types": [document]}}}) == []
    document |= {"columns": [*columns, {"name": "more"}], "natural_key": [f"c{i}" for i in range(17)]}
    told = problems({"curate": {"artifacts": {"artifact_types": [document]}}})
    assert [path.rpartition(".")[2] for path, _ in told] == ["columns", "natural_key"]


@pytest.mark.parametrize("path", CHOICES)
def test_a_choice_takes_its_words_and_the_first_is_the_default(path: str) -> None:
    for value in CHOICES[path]:
        assert problems(at(path, value)) == []
    assert problems(at(path, CHOICES[path][0].swapcase())) != []
    parent, _, key = path.rpartition(".")
    document = at(parent.removesuffix("[]"), [{"name": "A"}]) if parent.endswith("[]") else {}
    if "columns" in path:
        document = at("curate.artifacts.artifact_types[].columns", [{"name": "c"}])
    assert value_at(resolved(manifest_from(document)), parent + "." + key) == CHOICES[path][0]


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("curate.chunks.enabled", True),
        ("curate.chunks.chunking.respect_sections", True),
        ("curate.chunks.keyword.enabled", True),
        ("curate.artifacts.enabled", False),
    ],
)
def test_a_switch_takes_truth_values_only(path: str, default: bool) -> None:
    assert value_at(resolved(manifest_from({})), path) is default
    assert value_at(resolved(manifest_from(at(path, not default))), path) is not default
    for value in (0, 1, "true", None):
        assert [p for p, _ in problems(at(path, value))] == [path]


def test_the_embedding_model_has_no_fixed_default() -> None:
    """Absent means the deployment's default, so no name may appear from nowhere."""
    assert manifest_from({}).curate.chunks.embedding_model is None
    assert "embedding_model" not in resolved(manifest_from({}))["curate"]["chunks"]


@pytest.mark.parametrize(("size", "overlap"), [(64, 8), (65, 8), (200, 25), (511, 63), (512, 64), (4096, 64)])
def test_an_absent_overlap_is_an_eighth_at_most(size: int, overlap: int) -> None:
    assert manifest_from(at("curate.chunks.chunking.target_size", size)).curate.chunks.chunking.overlap == overlap


@pytest.mark.parametrize(("chunking", "fine"), [
    ({"target_size": 100, "overlap": 99}, True),
    ({"target_size": 100, "overlap": 100}, False),
    ({"overlap": 511}, True),
    ({"overlap": 512}, False),
    ({"target_size": 1025, "overlap": 1024}, True),
    ({"target_size": 2000, "overlap": 1025}, False),
    ({"target_size": 64, "overlap": 0}, True),
])  # fmt: skip
def test_an_explicit_overlap_stays_below_the_target_size(chunking: dict[str, int], fine: bool) -> None:
    told = problems(at("curate.chunks.chunking", chunking))
    assert [p for p, _ in told] == ([] if fine else ["curate.chunks.chunking.overlap"])


def test_models_are_frozen_and_closed() -> None:
    manifest = manifest_from({})
    with pytest.raises(ValidationError):
        manifest.curate = manifest.curate
    with pytest.raises(ValidationError):
        ChunkingConfig.model_validate({"size": 1})
    assert isinstance(hash(manifest), int)


def test_rules_between_keys_hold_however_a_manifest_is_built() -> None:
    edge = EdgeType.model_validate({"name": "e", "from": "A", "to": "B"})
    with pytest.raises(ValidationError, match="no artifact type has this name"):
        Manifest.model_validate({"curate": {"artifacts": {"edge_types": [{"name": "e", "from": "A", "to": "B"}]}}})
    assert ArtifactsConfig(edge_types=(edge,)).edge_types[0].to_type == "B"


def test_every_section_refuses_unknown_keys() -> None:
    for path in key_paths():
        section = section_at(tuple(part.removesuffix("[]") for part in path.split(".")))
        if section is not None:
            assert section.model_config["extra"] == "forbid", path
            assert section.model_config["frozen"], path
            assert section.model_config["strict"], path


def test_every_key_says_what_it_means() -> None:
    for path in key_paths():
        field = field_at(tuple(part.removesuffix("[]") for part in path.split(".")))
        assert field is not None
        assert field.description, path


def test_paths_are_written_as_people_write_them() -> None:
    assert path_text(("a", "b", 2, "c")) == "a.b[2].c"
    assert path_text(("k" * 70,)) == "k" * 64 + "..."
    assert path_text(("a\nb",)) == "a\\u000ab"
    assert field_at(("curate", "nothing", "more")) is None
    assert section_at(("curate", "chunks", "enabled")) is None


def test_names_are_required() -> None:
    told = problems({"curate": {"artifacts": {"artifact_types": [{}], "edge_types": [{}]}}})
    assert [p.removeprefix("curate.artifacts.") for p, m in told if m == "this key is required"] == [
        "artifact_types[0].name",
        "edge_types[0].name",
        "edge_types[0].from",
        "edge_types[0].to",
    ]
