"""Text to a manifest, or to everything that is wrong with it."""

from __future__ import annotations

import time

import pytest

from manifests import ManifestError, Problem, load_manifest, validate_text
from manifests.problems import VALUE_CHARACTERS_MAX, listed, nearest, shown


def told(text: str, name: str = "m.yaml") -> dict[str, str]:
    return {p.path: f"{p.value} | {p.message} | {p.remedy}" for p in validate_text(text, name)}


def test_json_and_yaml_say_the_same() -> None:
    as_json = load_manifest('{"curate": {"chunks": {"chunking": {"target_size": 256}, "enabled": true}}}', "m.json")
    as_yaml = load_manifest("curate:\n  chunks:\n    chunking: {target_size: 256}\n    enabled: true\n", "m.yml")
    assert as_json == as_yaml


@pytest.mark.parametrize(
    ("text", "name"),
    [("{}", "m.json"), ("{}", "m.yaml"), ("{}", "stdin"), ("search:\n  instructions: x", "stdin"), ("\ufeff{}", "m.json"),
     ("# nothing\n{}", "m"), ('{"search": {}}', "M.JSON")],
)  # fmt: skip
def test_the_name_or_the_first_character_tells_the_format(text: str, name: str) -> None:
    assert validate_text(text, name) == ()


def test_all_problems_are_told_together() -> None:
    """Faults of syntax, of single keys and between keys, in one go."""
    problems = told(
        """
curate:
  chunks:
    enabled: yes
    chunking: {target_size: "512", overlap: 600, overlaps: 1}
  artifacts:
    artifact_types:
      - {name: A, kind: topics}
      - {name: a, icon: 5}
    edge_types: [{name: e, from: A, to: Z}]
optimize: {schedule: hourly, max_iterations: 1000}
search:
"""
    )
    assert set(problems) == {
        "curate.chunks.enabled",
        "curate.chunks.chunking.target_size",
        "curate.chunks.chunking.overlaps",
        "curate.artifacts.artifact_types[0].kind",
        "curate.artifacts.artifact_types[1].name",
        "curate.artifacts.artifact_types[1].icon",
        "curate.artifacts.edge_types[0].to",
        "optimize.schedule",
        "optimize.max_iterations",
        "search",
    }


@pytest.mark.parametrize(("text", "path", "words"), [
    ("curate: {chunks: {chunking: {overlapp: 1}}}", "curate.chunks.chunking.overlapp", "Did you mean overlap?"),
    ("target_size: 5", "target_size", "Its place is curate.chunks.chunking.target_size"),
    ("zzz: 5", "zzz", "the keys here are curate, optimize or search"),
    ("curate: {chunks: {chunking: {strategy: markdown}}}", "curate.chunks.chunking.strategy", "mean markdown_heading?"),
    ("curate: {chunks: {chunking: {strategy: zzz}}}", "curate.chunks.chunking.strategy", "sliding_window, html, csv or code"),
    ("curate: {chunks: {chunking: {target_size: '512'}}}", "curate.chunks.chunking.target_size", "Write 512 without quotes"),
    ("curate: {chunks: {chunking: {target_size: 512.0}}}", "curate.chunks.chunking.target_size", "Write 512"),
    ("curate: {chunks: {chunking: {target_size: 1.5}}}", "curate.chunks.chunking.target_size", "from 64 to 4096"),
    ("curate: {chunks: {chunking: {target_size: 9}}}", "curate.chunks.chunking.target_size", "must be at least 64"),
    ("optimize: {eval_pass_rate_threshold: 1e-1}", "optimize.eval_pass_rate_threshold", "number from 0 to 1, without quotes"),
    ("curate: {artifacts: {min_doc_count: ~}}", "curate.artifacts.min_doc_count", "Leave the key out"),
    ("curate: {chunks: {embedding_model: null}}", "curate.chunks.embedding_model", "Leave the key out"),
    ("curate: []", "curate", "must be a mapping of keys, not a list"),
    ("curate: {artifacts: {artifact_types: {name: A}}}", "curate.artifacts.artifact_types", "not a mapping of keys"),
    ("search: {instructions: [a]}", "search.instructions", "must be a text, not a list"),
])  # fmt: skip
def test_a_remedy_says_what_to_write(text: str, path: str, words: str) -> None:
    assert list(told(text)) == [path]
    assert words in told(text)[path]


@pytest.mark.parametrize("text", ["null", "3", '"text"', "[]", "true"])
@pytest.mark.parametrize("name", ["m.json", "m.yaml"])
def test_a_manifest_is_a_mapping(text: str, name: str) -> None:
    assert "must be a mapping of keys" in told(text, name)[""]


@pytest.mark.parametrize(("scalar", "words"), [
    ("yes", "Write true, or"), ("off", "Write false, or"), ("010", "plain decimal"), ("0x10", "plain decimal"),
    ("0b1", "plain decimal"), ("1_000", "plain decimal"), ("1:30", "plain decimal"), (".inf", "plain decimal"),
    ("2024-05-01", "reads this as a date"), ("2024-05-01T10:00:00Z", "reads this as a date"),
    ("!!binary aGk=", "tag"), ("!!python/name:os.system x", "tag"), ("!mine x", "tag"), ("!!set {a}", "tag"),
    ("!!omap [a: 1]", "tag"),
])  # fmt: skip
def test_what_yaml_would_change_silently_is_told(scalar: str, words: str) -> None:
    problems = told(f"search:\n  instructions: {scalar}\n")
    assert list(problems) == ["search.instructions"]
    assert words in problems["search.instructions"]


def test_quoted_words_are_texts() -> None:
    for word in ("yes", "010", "2024-05-01", "null", "1:30"):
        assert load_manifest(f"search: {{instructions: '{word}'}}", "m.yaml").search.instructions == word


def test_keys_are_words_even_where_yaml_sees_something_else() -> None:
    assert list(told("on: 1\n1: 2\n2024-05-01: 3\n~: 4\n")) == ["on", "1", "2024-05-01", "~"]
    assert "a key must be a word" in told("? [a]\n: 1\n")[""]


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"search": {"instructions": "a", "instructions": "b"}}', "m.json"),
     ("search:\n  instructions: a\n  instructions: b\n", "m.yaml")],
)  # fmt: skip
def test_a_key_written_twice_is_told_with_its_path(text: str, name: str) -> None:
    assert "written twice" in told(text, name)["search.instructions"]


def test_merging_is_not_supported() -> None:
    assert "Write the keys out" in told("search: &s {instructions: a}\noptimize: {<<: *s}")["optimize.<<"]


def test_aliases_are_taken() -> None:
    text = "curate:\n  artifacts:\n    artifact_types: [{name: A, coverage: &c [x, y]}, {name: B, coverage: *c}]"
    types = load_manifest(text, "m.yaml").curate.artifacts.artifact_types
    assert types[0].coverage == types[1].coverage == ("x", "y")


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ('{"curate": {},\n "search": }', "m.json", "line 2, column 12"),
        ('{"a": 1,}', "m.json", "line 1, column 9"),
        ("{'a': 1}", "m.json", "line 1, column 2"),
        ("curate:\n\tchunks: {}\n", "m.yaml", "line 2, column 1"),
        ("a: [\n  b: }", "m.yaml", "line 2, column 6"),
        ("a: 1\n b: 2\n", "m.yaml", "line 2, column 3"),
        ("a: *gone", "m.yaml", "line 1, column 4"),
        ("a: 1\nb: \x01", "m.yaml", "line 2, column 4"),
        ("{}\n---\n{}", "m.yaml", "line 2, column 1"),
    ],
)
def test_faults_of_syntax_name_line_and_column(text: str, name: str, place: str) -> None:
    (problem,) = validate_text(text, name)
    assert problem.path == ""
    assert problem.message.startswith(f"{place}: not valid") or "doesn't allow" in problem.message
    assert place in problem.message
    assert problem.remedy


@pytest.mark.parametrize("text", ["", " \n", "\ufeff", "# only a comment\n"])
def test_an_empty_document_is_no_manifest(text: str) -> None:
    assert "{}" in told(text)[""]


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (BOMB, "m.yaml", "50000 values"),
        ("a: &a [*a]", "m.yaml", "32 levels"),
        ("[" * 200_000, "m.yaml", "32 levels"),
        ("[" * 200_000, "m.json", "32 levels"),
        ("[" * 40 + "]" * 40, "m.json", "32 levels"),
        ('{"a":' * 40 + "1" + "}" * 40, "m.yaml", "32 levels"),
        ("9" * 5000, "m.json", "endless number"),
        ("[" + "1," * 60_000 + "1]", "m.json", "50000 values"),
        (" " * (1024 * 1024 + 1), "m.json", "larger than"),
        ("é" * (600 * 1024), "m.json", "larger than"),
    ],
)
def test_what_a_document_costs_is_bounded(text: str, name: str, words: str) -> None:
    (problem,) = validate_text(text, name)
    assert words in problem.message


def test_a_file_of_nothing_but_faults_is_cut_short() -> None:
    text = "{" + ",".join(f'"k{i}": 1' for i in range(1000)) + "}"
    problems = validate_text(text, "m.json")
    assert len(problems) == 201
    assert problems[-1].message == "800 more problems"


def test_the_largest_yaml_is_read_in_bounded_time() -> None:
    """A guard against quadratic work, wide enough for a slow machine."""
    start = time.monotonic()
    assert validate_text("search:\n  instructions: |\n" + "    some words of advice\n" * 40_000, "m.yaml") == ()
    assert time.monotonic() - start < 30


def test_values_are_shown_on_one_short_line() -> None:
    assert shown("a\nb") == '"a\\nb"'
    assert shown("\u2028") == '"\\u2028"'
    assert len(shown("x" * 10_000_000)) == VALUE_CHARACTERS_MAX
    assert shown({"a": [1, None, True]}) == '{"a": [1, null, true]}'
    assert shown({1, 2}).startswith("{")
    assert "\ud800" not in shown("\ud800")


def test_near_misses() -> None:
    assert nearest("Overlap", ["overlap", "strategy"]) == "overlap"
    assert nearest("zzz", ["overlap"]) is None
    assert nearest("overlap" * 1000, ["overlap"]) is None
    assert nearest("a", []) is None
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b or c"


def test_the_error_reads_as_a_report() -> None:
    with pytest.raises(ManifestError) as caught:
        load_manifest('{"curate": 5, "serch": {}}', "m.json")
    assert caught.value.name == "m.json"
    assert str(caught.value).splitlines() == [
        "m.json: 2 problems",
        "  curate = 5: must be a mapping of keys, not a whole number. Write keys with values, or leave the section out.",
        "  serch = {}: the manifest has no such key. Did you mean search?",
    ]
    assert (
        str(ManifestError("m", (Problem("", "", "it is empty", "Write {}"),)))
        == "m: 1 problem\n  it is empty. Write {}."
    )
