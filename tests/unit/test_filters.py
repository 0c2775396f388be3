"""The filter language: what is refused, and which metadata satisfies which filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.index_local_facets import Rule, columns, decode, encode
from pipeline.errors import RejectedInput
from pipeline.filters import (
    COMPARISONS_MAX,
    DEPTH_MAX,
    INTEGER_MAX,
    OPERANDS_MAX,
    TEXT_MAX,
    Combination,
    Comparison,
    fields_of,
    in_scope,
    matches,
    parse_filter,
)

RECORD = {"n": 3, "f": 2.5, "s": "b", "yes": True, "tags": ("x", "y"), "zero": 0, "date": "2026-11-30", "none": ()}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"n": 3},
        {"n": 3.0},
        {"n": {"$eq": 3}},
        {"n": {"$gt": 2, "$lte": 3}},
        {"f": {"$gte": 2.5}},
        {"s": {"$lt": "c"}},
        {"date": {"$gte": "2026-01-01"}},
        {"yes": True},
        {"yes": {"$ne": False}},
        {"tags": "x"},
        {"tags": {"$in": ["q", "y"]}},
        {"tags": {"$nin": ["q"]}},
        {"tags": {"$ne": "q"}},
        {"n": {"$in": [1, 3]}},
        {"n": {"$nin": []}},
        {"n": {"$ne": "3"}},
        {"n": {"$nin": ["3", True]}},
        {"gone": {"$exists": False}},
        {"none": {"$exists": True}},
        {"gone": {"$ne": 1}},
        {"gone": {"$nin": [1]}},
        {"$or": [{"n": 9}, {"s": "b"}]},
        {"$and": [{"n": 3}, {"s": "b"}], "yes": True},
        {"$or": [{"$and": [{"n": 9}, {"s": "b"}]}, {"tags": "y"}]},
    ],
)
def test_holds(document):
    assert matches(parse_filter(document), RECORD)


@pytest.mark.parametrize(
    "document",
    [
        {"n": "3"},
        {"n": True},
        {"yes": 1},
        {"zero": False},
        {"n": {"$gt": "2"}},
        {"s": {"$gt": 1}},
        {"yes": {"$gte": 0}},
        {"tags": {"$gt": "a"}},
        {"tags": {"$ne": "x"}},
        {"tags": {"$nin": ["q", "y"]}},
        {"none": "x"},
        {"gone": 1},
        {"gone": {"$in": [1]}},
        {"gone": {"$lt": 1}},
        {"gone": {"$exists": True}},
        {"n": {"$exists": False}},
        {"n": {"$in": []}},
        {"n": 3, "s": "q"},
        {"n": {"$gt": 3}},
        {"$and": [{"n": 3}, {"s": "q"}]},
        {"$or": [{"n": 9}, {"s": "q"}]},
    ],
)
def test_does_not_hold(document):
    assert not matches(parse_filter(document), RECORD)


def nested(depth):
    document = {"n": 1}
    for _ in range(depth):
        document = {"$and": [document]}
    return document


@pytest.mark.parametrize(
    ("document", "named"),
    [
        (None, "filter"),
        ([], "filter"),
        ("n = 3", "filter"),
        ({3: 1}, "field"),
        ({"": 1}, "field"),
        ({"x" * (TEXT_MAX + 1): 1}, "field"),
        ({"n": None}, "field 'n', operator $eq"),
        ({"n": [1]}, "use $in"),
        ({"n": {}}, "field 'n'"),
        ({"n": {"$eq": {"a": 1}}}, "field 'n', operator $eq"),
        ({"n": {"$like": "x"}}, "$like"),
        ({"n": {3: "x"}}, "field 'n'"),
        ({"n": {"$in": 3}}, "field 'n', operator $in"),
        ({"n": {"$in": "abc"}}, "field 'n', operator $in"),
        ({"n": {"$nin": [None]}}, "field 'n', operator $nin"),
        ({"n": {"$exists": 1}}, "field 'n', operator $exists"),
        ({"n": {"$gt": True}}, "field 'n', operator $gt"),
        ({"n": float("nan")}, "finite"),
        ({"n": {"$lt": float("inf")}}, "finite"),
        ({"n": INTEGER_MAX + 1}, "2^53"),
        ({"n": "x" * (TEXT_MAX + 1)}, "field 'n'"),
        ({"$and": []}, "$and"),
        ({"$or": {"n": 1}}, "$or"),
        ({"$or": [1]}, "$or"),
        ({"$not": [{"n": 1}]}, "$not"),
        (nested(DEPTH_MAX + 1), "nested"),
        (nested(100_000), "nested"),
        ({f"f{i}": 1 for i in range(COMPARISONS_MAX + 1)}, "comparisons"),
        ({"$or": [{}] * (COMPARISONS_MAX + 1)}, "comparisons"),
        ({"n": {"$in": [0] * (OPERANDS_MAX + 1)}}, "values"),
    ],
)
def test_refuses_naming_the_place(document, named):
    with pytest.raises(RejectedInput) as caught:
        parse_filter(document)
    assert caught.value.code == "bad_filter"
    assert named in caught.value.message
    assert caught.value.remedy


def test_limits_are_inclusive():
    assert parse_filter(nested(DEPTH_MAX))
    assert parse_filter({f"f{i}": 1 for i in range(COMPARISONS_MAX)})
    assert parse_filter({"n": {"$in": [0] * OPERANDS_MAX}})
    assert parse_filter({"n": INTEGER_MAX}) == Comparison("n", "$eq", (INTEGER_MAX,))


def test_is_a_value():
    one, two = ({"a": 1, "$or": [{"b": {"$in": ["x"]}}, {"c": 2}]} for _ in range(2))
    assert parse_filter(one) == parse_filter(two)
    assert hash(parse_filter(one)) == hash(parse_filter(two))
    assert parse_filter({}) == Combination("$and", ())
    assert fields_of(parse_filter(one)) == {"a", "b", "c"}


SCALARS = st.one_of(
    st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -2.0]), st.sampled_from(["", "a", "1"])
)


@given(value=SCALARS, operand=SCALARS)
def test_negations_are_complements(value, operand):
    """`$ne` is exactly "not `$eq`", `$nin` exactly "not `$in`", for present and missing fields."""
    for metadata in ({"f": value}, {}):
        equal = matches(parse_filter({"f": {"$eq": operand}}), metadata)
        assert matches(parse_filter({"f": {"$ne": operand}}), metadata) != equal
        assert matches(parse_filter({"f": {"$in": [operand]}}), metadata) == equal
        assert matches(parse_filter({"f": {"$nin": [operand]}}), metadata) != equal


JSON = st.recursive(
    st.one_of(st.none(), SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["$and", "$or", "$eq", "$in", "$gt", "$exists", "a", "b", "$x", ""]), inner),
    ),
    max_leaves=12,
)


@given(document=JSON)
def test_any_document_parses_or_is_refused(document):
    try:
        parsed = parse_filter(document)
    except RejectedInput:
        return
    assert matches(parsed, {"a": 1, "b": ("a",)}) in (True, False)


@pytest.mark.parametrize(
    ("path", "prefixes", "inside"),
    [
        ("docs/a.md", (), True),
        ("docs/a.md", ("docs",), True),
        ("docs/a.md", ("docs/",), True),
        ("docs/a.md", ("docs/a.md",), True),
        ("docs/a.md", ("docs/a",), False),
        ("docs2/a.md", ("docs",), False),
        ("a.md", ("docs", "a.md"), True),
        ("docs/a.md", ("",), True),
        ("", ("docs",), False),
        ("Docs/a.md", ("docs",), False),
    ],
)
def test_scope_is_on_whole_path_parts(path, prefixes, inside):
    assert in_scope(path, prefixes) is inside


_METADATA = st.fixed_dictionaries(
    {},
    optional={
        "n": st.sampled_from([0, 1, -3, 2**53, 0.5, 1.0]),
        "mixed": st.sampled_from([0, True, False, "a", 1.5, ("a", "b"), ("x",), ""]),
        "s": st.sampled_from(["a", "b", "[x]", ""]),
    },
)
_CONDITIONS = st.recursive(
    st.builds(
        lambda field, operator, value: {field: {operator: value}},
        st.sampled_from(["n", "mixed", "s", "absent"]),
        st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]),
        st.sampled_from([0, 1, 0.5, "a", -3]),
    )
    | st.builds(
        lambda field, operator, values: {field: {operator: values}},
        st.sampled_from(["n", "mixed", "s", "absent"]),
        st.sampled_from(["$in", "$nin"]),
        st.lists(st.sampled_from([0, True, "a", 1.5, "[x]"]), max_size=3),
    )
    | st.builds(
        lambda field, there: {field: {"$exists": there}}, st.sampled_from(["n", "mixed", "s", "absent"]), st.booleans()
    ),
    lambda inner: st.builds(
        lambda operator, parts: {operator: parts},
        st.sampled_from(["$and", "$or"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@given(st.lists(_METADATA, min_size=1, max_size=12), _CONDITIONS)
def test_columns_decide_as_the_rules_do(rows, document):
    """The local index's columns, stored and read back, let through exactly the records that the rules do."""
    condition = parse_filter(document)
    stored = {name: encode(column) for name, column in columns(rows)}
    rule = Rule(condition, ())
    mask = rule.allowed(lambda name: decode(*stored[name]) if name in stored else None, len(rows))
    assert mask.tolist() == [matches(condition, row) for row in rows]
