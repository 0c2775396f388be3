"""Rules that span several keys, and the schedule."""

from __future__ import annotations

from typing import Any

import pytest

from manifests.cron import CronError, check_cron
from manifests.rules import check, table_name


def faults(types: list[Any], edges: list[Any] | None = None) -> list[tuple[str, str]]:
    document = {"curate": {"artifacts": {"artifact_types": types, "edge_types": edges or []}}}
    return [(p.path.removeprefix("curate.artifacts."), p.remedy) for p in check(document)]


SQL = {"format": "sqlite"}


@pytest.mark.parametrize("second", ["Person", "PERSON", " person ", "Person\u00a0"])
def test_type_names_differ_by_more_than_case_and_spacing(second: str) -> None:
    assert [p for p, _ in faults([{"name": "Person"}, {"name": second}])] == ["artifact_types[1].name"]


def test_names_in_other_normal_forms_are_one_name() -> None:
    assert faults([{"name": "Caf\u00e9"}, {"name": "Cafe\u0301"}]) != []
    assert faults([{"name": "Straße"}, {"name": "STRASSE"}]) != []


def test_two_tables_never_share_a_name() -> None:
    assert [p for p, _ in faults([{"name": "Line Item", **SQL}, {"name": "line-item", **SQL}])] == [
        "artifact_types[1].name"
    ]
    assert faults([{"name": "Line Item", **SQL}, {"name": "line-item"}]) == []  # only one of them is a table
    assert len(faults([{"name": "Item", **SQL}, {"name": "ITEM", **SQL}])) == 1  # told once


@pytest.mark.parametrize("name", ["!!", "sqlite_master", "SQLite sequence"])
def test_a_table_needs_a_name_of_its_own(name: str) -> None:
    assert [p for p, _ in faults([{"name": name, **SQL}])] == ["artifact_types[0].name"]
    assert faults([{"name": name}]) == []


@pytest.mark.parametrize(
    ("name", "table"),
    [("Line Item", "line_item"), ("C++", "c"), ("Größe (cm)", "grösse_cm"), ("_x_", "x"), ("\uff46ull", "full")],
)
def test_table_names(name: str, table: str) -> None:
    assert table_name(name) == table


def test_natural_keys_name_columns_letter_for_letter() -> None:
    table = {"name": "T", **SQL, "columns": [{"name": "id"}, {"name": "amount"}]}
    assert faults([{**table, "natural_key": ["id", "amount"]}]) == []
    assert faults([{**table, "natural_key": ["ID", "zzz"]}]) == [
        ("artifact_types[0].natural_key[0]", 'Did you mean "id"?'),
        ("artifact_types[0].natural_key[1]", 'Use "id" or "amount"'),
    ]
    assert faults([{"name": "T", **SQL, "natural_key": ["id"]}]) == [
        ("artifact_types[0].natural_key[0]", "Declare it in columns, or take it out of natural_key")
    ]


def test_markdown_types_have_no_table() -> None:
    assert faults([{"name": "T", "columns": [{"name": "id"}], "natural_key": ["id"]}]) == []
    told = faults([{"name": "T", "columns": [{"name": "id"}], "natural_key": ["no"]}])
    assert [p for p, _ in told] == ["artifact_types[0].natural_key[0]"]
    assert faults([{"name": "T", "columns": [], "natural_key": []}]) == []


def test_edges_join_declared_types() -> None:
    types = [{"name": "Person"}, {"name": "Company"}]
    assert faults(types, [{"name": "knows", "from": "Person", "to": "Person"}]) == []
    assert faults(types, [{"name": "owns", "from": "person", "to": "Paper"}]) == [
        ("edge_types[0].from", 'Did you mean "Person"?'),
        ("edge_types[0].to", 'Use "Person" or "Company"'),
    ]
    assert faults([], [{"name": "owns", "from": "A", "to": "A"}])[0][1] == "Declare the type in artifact_types first"


def test_an_edge_type_is_declared_once() -> None:
    edge = {"from": "A", "to": "A"}
    other = [{"name": "is", "from": "A", "to": "B"}, {"name": "is", **edge}]
    assert faults([{"name": "A"}, {"name": "B"}], other) == []
    assert [p for p, _ in faults([{"name": "A"}], [{"name": "is", **edge}, {"name": "IS", **edge}])] == [
        "edge_types[1].name"
    ]


@pytest.mark.parametrize("document", [
    None, 1, [], {"curate": 1}, {"curate": {"artifacts": []}}, {"curate": {"artifacts": {"artifact_types": 3}}},
    {"curate": {"artifacts": {"artifact_types": [1, {"name": 2, "format": 3, "columns": 4}], "edge_types": [None]}}},
    {"curate": {"chunks": {"chunking": {"overlap": True, "target_size": "1"}}}}, {"optimize": {"schedule": 5}},
    {"curate": {"artifacts": {"artifact_types": [{"format": "sqlite", "name": 5, "natural_key": [1], "columns": [2]}]}}},
    {"optimize": {"schedule": "*" * 129}},
])  # fmt: skip
def test_other_shapes_are_left_to_the_models(document: object) -> None:
    assert list(check(document)) == []


@pytest.mark.parametrize("expression", [
    "0 * * * *", "*/15 0-6,22 * * *", "0 3 * * mon-FRI", "5-59/10 * 1 jan,jul 7", "  0   0  29 2 * ", "0 0 31 4,5 *",
    "0 0 31 2 1", "0 0 * * 0-7",
])  # fmt: skip
def test_a_schedule_of_five_fields_is_taken(expression: str) -> None:
    check_cron(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "this has 0"),
        ("* * * *", "this has 4"),
        ("* * * * * *", "this has 6"),
        ("@daily", "0 0 \\* \\* \\*"),
        ("60 * * * *", "minute: 60 is outside 0 to 59"),
        ("* 24 * * *", "hour: 24"),
        ("* * 0 * *", "day of month: 0"),
        ("* * * 13 *", "month: 13"),
        ("* * * * 8", "day of week: 8"),
        ("x * * * *", "minute: 'x' is not a number"),
        ("* * * foo *", "jan to dec"),
        ("*/0 * * * *", "not a positive number"),
        ("*/x * * * *", "not a positive number"),
        ("5/15 * * * *", "5-59/15"),
        ("9-3 * * * *", "backwards"),
        ("1,,2 * * * *", "minute: ''"),
        ("-1 * * * *", "minute: ''"),
        ("٣ * * * *", "minute"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 feb,apr *", "never comes"),
    ],
)
def test_what_is_no_schedule_is_told_by_field(expression: str, words: str) -> None:
    with pytest.raises(CronError, match=words):
        check_cron(expression)
    assert [p.path for p in check({"optimize": {"schedule": expression}})] == ["optimize.schedule"]
