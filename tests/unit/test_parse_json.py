"""JSON: records become sections and no value is lost; everything else stays as it's written."""

import base64
import hashlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import detect, parse_bytes, wire


def parse(data, name="a.json"):
    if not isinstance(data, str | bytes):
        data = json.dumps(data, ensure_ascii=False)
    return parse_bytes(data if isinstance(data, bytes) else data.encode(), name)


def titles(document):
    return [block.title for block in document.blocks if block.kind == "heading"]


def sections(document):
    """Title to what stands below it."""
    below = []
    found = {"": below}
    for block in document.blocks:
        if block.kind == "heading":
            below = found.setdefault(block.title, [])
        else:
            below.append((block.kind, document.text[block.start : block.end].strip()))
    return found


def check(document):
    assert wire.decode(wire.encode(document)) == document
    at = 0
    for block in document.blocks:
        assert block.start == 0 or document.text[block.start - 1] == "\n"
        assert not document.text[at : block.start].strip()
        at = block.end
    assert not document.text[at:].strip()


RECORDS = [
    {
        "id": 7,
        "title": "Pump  care",
        "body": "first\nline\n\n# no heading\nlast",
        "tags": ["a", None, "b"],
        "geo": {"lat": 1.5, "lon": None, "deep": {"x": True}},
        "none": {},
        "empty": "",
        "parts": [{"sku": "A1", "qty": 2}, {"sku": "B2"}],
        "resolution": "word " * 60,
    },
    {"name": "Tank", "uuid": "u-1", "note": "short"},
]


def test_a_record_is_a_section():
    """Title, id, texts, then every other field in order; what is empty is gone; texts make no headings."""
    document = parse(RECORDS)
    check(document)
    assert document.kind == "json"
    assert sections(document) == {
        "": [],
        "Pump care": [
            ("list", "id: 7"),
            ("paragraph", "first\nline"),
            ("paragraph", "# no heading\nlast"),
            ("paragraph", ("resolution: " + "word " * 60).strip()),
            (
                "list",
                "tags: a, b\ngeo.lat: 1.5\ngeo.deep.x: true\nparts.sku: A1\nparts.qty: 2\nparts.sku: B2",
            ),
        ],
        "Tank": [("list", "uuid: u-1"), ("paragraph", "short")],
    }


def test_records_are_chunked_by_section():
    document = parse(RECORDS)
    chunks = chunk_document(document, "markdown_heading", ChunkOptions(40))
    assert {c.heading_path for c in chunks} == {("Pump care",), ("Tank",)}
    assert all(document.text[c.start : c.end] == c.text for c in chunks)
    assert [c.text for c in chunks if c.heading_path == ("Tank",)] == ["# Tank\n\nuuid: u-1\n\nshort"]


@pytest.mark.parametrize(
    ("record", "title"),
    [
        ({"label": "L", "Title": "T", "id": 1}, "T"),
        ({"title": "", "headline": "H"}, "H"),
        ({"title": "two\nlines", "id": "x"}, "x"),
        ({"title": "t " * 150, "slug": "s"}, "s"),
        ({"title": {"de": "x"}, "id": 3}, "3"),
        ({"question": "Why?", "answer": "So."}, "Why?"),
        ({"time": "07:00", "level": "info"}, "time: 07:00"),
        ({"body": "words"}, "record 1"),
        ({"properties": {"name": "Oslo"}, "id": 9}, "Oslo"),
        ({"data": {"name": "not its own"}, "n": 1}, "data.name: not its own"),
    ],
)
def test_titles(record, title):
    """The record's title field if it's one short line, else its id, else its first short field."""
    document = parse([record])
    assert titles(document) == [title]
    for value in ("two\nlines", "t t t t", "So.", "info", "words"):
        assert (value in document.text) == (value in str(record).replace("\\n", "\n"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', "a.jsonl"),
        ('{"a": 1}\r\n{"a": 2}', "a.ndjson"),
        ('{"a": 1}\n{"a": 2}', "a.json"),
        ('{"a": 1}\n{"a": 2}', "events.log"),
        ('{"a": 1}{"a": 2}', "a.json"),
        ('{\n "a": 1\n}\n{\n "a":\n 2\n}', "a.json"),
        ('\x1e{"a": 1}\n\x1e{"a": 2}\n', "a.json"),
        ('[{"a": 1}, {"a": 2}]', "a.json"),
        ('[{"a": 1}, {"a": 2}]', "a.jsonl"),
        ('[{"a": 1}, {"a": 2}]', "export"),
        ('{"data": [{"a": 1}, {"a": 2}]}', "a.json"),
        ('{"log": {"v": 1, "entries": [{"a": 1}, {"a": 2}]}}', "a.har"),
        ('\ufeff[{"a": 1}, {"a": 2}]', "a.json"),
    ],
)
def test_where_records_stand(text, name):
    """Arrays, lines, values behind each other, the list that an object is about; by content where the name is mute."""
    for data in (text.encode(), text.encode("utf-16")) if name.endswith("n") and "." in name else (text.encode(),):
        document = parse(data, name)
        check(document)
        assert document.kind == "json"
        assert titles(document) == ["a: 1", "a: 2"]


def test_what_stands_beside_the_list():
    """Fields around the records come first and name the document."""
    document = parse({"title": "Stock", "data": [{"name": "Bolt"}, {"name": "Nut"}], "page": {"next": 2}})
    assert document.title == "Stock"
    assert document.text.startswith("title: Stock\npage.next: 2\n\n# Bolt\n")
    check(document)


def test_features():
    """GeoJSON: a feature is a record, its properties are its own fields."""
    feature = {
        "type": "Feature",
        "id": 4,
        "properties": {"name": "Oslo", "description": "On a fjord."},
        "geometry": {"type": "Point", "coordinates": [10.75, 59.91]},
    }
    document = parse({"type": "FeatureCollection", "features": [feature]}, "a.geojson")
    assert sections(document) == {
        "": [("list", "type: FeatureCollection")],
        "Oslo": [
            ("list", "id: 4"),
            ("paragraph", "On a fjord."),
            ("list", "type: Feature\ngeometry.type: Point\ngeometry.coordinates: 10.75, 59.91"),
        ],
    }


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"private": true,\n  "scripts": {"build": "x"}, "files": ["a"]}', "package.json"),
        ("[1, 2, 3]", "a.json"),
        ('["a", {"b": 1}, "c"]', "a.json"),
        ('"words"', "a.json"),
        ("1\n2\n", "a.jsonl"),
        ('{"a": 1}', "a.jsonc"),
        ('{"a": {"b": 1}}', "settings"),
    ],
)
def test_other_json_is_code_as_written(text, name):
    document = parse(text, name)
    check(document)
    assert (document.kind, document.language, document.text, document.warnings) == ("code", "json", text, ())


@pytest.mark.parametrize("text", ['{"a": 1,}', "{a: 1}", '// c\n{"a": 1}', '[{"a": 1}', '[{"a": 1} {"a": 2}]'])
def test_what_is_not_json_is_kept_and_told(text):
    """Settings with comments, trailing commas, files cut short: the text stays; only a JSON file's owner is told."""
    document = parse(text)
    assert (document.kind, document.language, document.text) == ("code", "json", text)
    assert "line" in document.warnings[0]
    assert "isn't valid JSON" in document.warnings[0]
    plain = parse(text, "note.txt")
    assert (plain.kind, plain.text, plain.warnings) == ("text", text, ())


def test_a_notebook_is_one_whatever_its_name():
    book = {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["# Title\n"]}], "metadata": {}}
    assert parse(book, "book.json").kind == parse(book, "book").kind == "notebook"


def test_bad_lines_are_named_and_the_others_kept():
    lines = [f'{{"n": {i}}}' for i in range(1, 8)]
    lines[2], lines[5] = '{"n": ', '{"n": "never closed}'
    lines.insert(4, "[" * 100_000)
    document = parse("\n".join(lines), "a.jsonl")
    check(document)
    assert titles(document) == ["n: 1", "n: 2", "n: 4", "n: 5", "n: 7"]
    assert [w.partition(" is")[0] for w in document.warnings] == ["line 3", "line 5", "line 7"]
    assert "deep" in document.warnings[1]


def test_many_bad_lines_are_counted():
    text = '{"a": 1}\n' * 40 + "bad\n" * 30
    warnings = parse(text, "a.jsonl").warnings
    assert len(warnings) == 21
    assert warnings[-1] == "10 more lines are left out"


def test_mostly_bad_lines_are_refused():
    with pytest.raises(RejectedInput) as refused:
        parse('{"a": 1}\nbad\nworse\n', "a.jsonl")
    assert refused.value.code == "json_broken"
    assert "2 of 3 lines" in refused.value.message
    assert "line 2" in refused.value.message


@pytest.mark.parametrize("text", ['{"a":' * 100_000 + "1" + "}" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_nesting_is_refused(text):
    with pytest.raises(RejectedInput) as refused:
        parse(text)
    assert refused.value.code == "json_broken"


def test_brackets_that_nobody_closes_are_no_json():
    document = parse("[" * 100_000)
    assert (document.kind, document.text) == ("code", "[" * 100_000)
    assert "deep" in document.warnings[0]


def test_nesting_that_can_be_read_is():
    """Deep records are walked without recursion, and their dotted keys are cut so that they don't multiply."""
    value = {f"k{i}": i for i in range(200)}
    for _ in range(150):
        value = {"level": value}
    document = parse([{"id": 1, **value}])
    check(document)
    assert "k199: 199\n" in document.text
    assert len(document.text) < 200 * 120


def test_numbers_keep_their_spelling():
    """No digit is lost to floats, no number is too long, and what isn't a number has a name."""
    huge = "9" * 6000
    document = parse(f'[{{"id": 1, "a": {huge}, "b": 1.10, "c": 1E400, "d": -0, "e": NaN, "f": -Infinity}}]')
    assert f"a: {huge}\nb: 1.10\nc: 1E400\nd: -0\ne: NaN\nf: -Infinity" in document.text


def test_repeated_keys_are_kept():
    assert "b: 2\nb: 3\n" in parse('[{"id": 1, "b": 2, "b": 3}]').text


def test_broken_strings():
    """Lone surrogates, NULs, carriage returns and line breaks that nobody escaped leave valid text."""
    document = parse('[{"id": 1, "text": "a\\ud800b\\u0000c\\r\\nd\ne", "k\\n\\ud800": "v"}]')
    check(document)
    assert "a\ufffdb c\nd\ne" in document.text
    assert "k \ufffd: v" in document.text


def test_payloads_are_left_out_and_told():
    """Encoded data goes with a warning; hashes, addresses, paths and long words stay."""
    blob = base64.b64encode(hashlib.shake_256(b"x").digest(600)).decode()
    kept = {
        "hash": hashlib.sha256(b"x").hexdigest(),
        "url": "https://x.test/" + "Ab9" * 40,
        "path": "/srv/" + "Folder9/" * 20,
        "slug": "-".join(["Part9"] * 20),
        "word": "text with Donaudampfschifffahrtsgesellschaftskapitaenswitwenrentenauszahlungsstelle in it",
        "digits": "1" * 80,
    }
    record = {
        "id": 1,
        "image": blob,
        "wrapped": "\n".join(blob[i : i + 76] for i in range(0, len(blob), 76)),
        "inside": f"before {blob} after",
        "uri": f"see data:image/png;base64,{blob} here",
        "vector": [0.25] * 300,
        "series": [0.25] * 200,
        **kept,
    }
    document = parse([record, record])
    check(document)
    assert blob[:40] not in document.text
    assert "inside: before  after" in document.text
    assert "uri: see data:image/png here" in document.text
    assert "vector" not in document.text
    assert document.text.count("0.25, 0.25") > 100
    for key, value in kept.items():
        assert f"{key}: {value}" in document.text
    assert sorted(w.rpartition(" of ")[2] for w in document.warnings) == [
        "image: 2", "inside: 2", "uri: 2", "vector: 2", "wrapped: 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b'{"a": 1}', "a.txt", "json"),
        (b'\xef\xbb\xbf [\n {"a"', "dump", "json"),
        (b"[1] A list of references", "refs.txt", "text"),
        (b"[link]: https://x.test", "note.txt", "text"),
        (b"{braces} in prose", "note", "text"),
        (b'{"a": 1}', "a.md", "markdown"),
        (b'{"a": 1}', "a.yaml", "code"),
        (b"", "a.webmanifest", "json"),
    ],
)
def test_detection(data, name, kind):
    assert detect(data, name) == kind


HUGE = {
    "lines": b'{"id": 1, "name": "pump", "n": {"x": 1}}\n' * 100_000,
    "broken lines": b'{"id": 1, "name": "pump"}\n{"id": [1, \n{"id": 2}\n' * 20_000,
    "open arrays": b'{"a": 1}\n' + b"[" + b"1,[" * 700_000,
    "one array": b"[" + b'{"id": 1, "note": "words"},' * 40_000 + b"{}]",
    "wide record": b'[{"id": 1' + b"".join(b',"k%d": {"v": "words"}' % i for i in range(80_000)) + b"}]",
    "long string": b'[{"text": "' + b"word " * 400_000 + b'"}]',
    "blank lines": b'[{"text": "a' + b"\\n \\n" * 400_000 + b'b"}]',
    "no blanks": b'[{"text": "' + b"Ab3" * 700_000 + b'"}]',
    "nearly encoded": b'[{"text": "' + (b"Ab3" * 21 + b".") * 30_000 + b'"}]',
    "nested lists": b"[{}," + b"[" * 400 + b'{"a": 1},' * 100_000 + b"1" + b"]" * 400 + b",{}]",
}


@pytest.mark.parametrize("data", HUGE.values(), ids=HUGE.keys())
def test_what_is_slow_for_a_careless_reader_ends(data):
    """Megabytes each: in quadratic time none of them would come to an end while anybody waits."""
    try:
        parse(data, "a.jsonl")
    except RejectedInput as refused:
        assert refused.code in {"json_broken", "empty_file"}  # noqa: PT017 - both ends are right, and both must come soon


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"{", b'[{"a":', b'{"a":1}\n']), st.sampled_from(["json", "jsonl"])
)
def test_any_bytes(data, head, ending):
    try:
        check(parse(head + data, f"a.{ending}"))
    except RejectedInput:
        return


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
nested = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
records = st.lists(
    st.dictionaries(st.text(max_size=6) | st.sampled_from(["title", "id", "text"]), nested, max_size=5),
    min_size=1,
    max_size=4,
)


def leaves(value):
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


def shown(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    return json.dumps(value)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(records, st.booleans())
def test_no_value_is_lost(found, by_line):
    """Every scalar of every record is in the text, whichever way the records are written."""
    text = "\n".join(json.dumps(record) for record in found) if by_line else json.dumps(found)
    wanted = [shown(leaf) for record in found for leaf in leaves(record)]
    try:
        document = parse(text, "a.jsonl")
    except RejectedInput:
        assert not "".join(wanted).strip()
        return
    check(document)
    if document.kind == "json":
        told = " ".join(document.text.split())
        for value in wanted:
            assert " ".join(value.split()) in told


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nested)
def test_any_json(value):
    """JSON of any shape is a valid document, under a name that says nothing too."""
    for name in ("a.json", "a.jsonl", "a"):
        try:
            check(parse(json.dumps(value), name))
        except RejectedInput as refused:
            assert refused.code == "empty_file"  # noqa: PT017 - the only refusal there may be
            assert not "".join(map(shown, leaves(value))).strip()


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_white_space_that_is_no_ascii_is_empty(name):
    with pytest.raises(RejectedInput) as error:
        parse_bytes("\u00a0\u2003".encode(), name)
    assert error.value.code == "empty_file"
