"""Documents cross the process border unchanged, and nothing malformed comes back."""

import json

import pytest

from pipeline.parse import parse_bytes, wire
from pipeline.types import Block, ParsedDocument, Part, Symbol

DOCUMENTS = [
    parse_bytes("---\ntags: [ä, b]\nn: 1.5\nok: true\n---\n# Tïtle\n\n- a\n- b\n\n|x|\n|-|\n|1|\n".encode(), "a.md"),
    parse_bytes(b"id,name\n1,x\n2\n", "a.csv"),
    parse_bytes(b"def f():\n    pass\n", "a.py"),
    ParsedDocument("pdf", "one\n\ntwo\n", blocks=(Block("paragraph", 0, 4),), page_starts=(0, 5, 5)),
    ParsedDocument(
        "eml",
        "ünd",
        parts=(
            Part("a.csv", ParsedDocument("csv", "ä\n", header="h\n", warnings=("w",))),
            Part("b.py", ParsedDocument("code", "x\ny\n", symbols=(Symbol(0, 4, "x"), Symbol(2, 4, "y")))),
        ),
    ),
]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_round_trip(document):
    assert wire.decode(wire.encode(document)) == document


def altered(**fields):
    data = wire.encode(DOCUMENTS[0])
    size = int.from_bytes(data[:4], "big")
    first, *rest = json.loads(data[4 : 4 + size])
    head = json.dumps([{**first, **fields}, *rest]).encode()
    return len(head).to_bytes(4, "big") + head + data[4 + size :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\1",
        b"\xff\xff\xff\xff{}",
        altered(blocks=[["paragraph", 0, 10**9, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 5, 2, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [], 0, []], ["paragraph", 3, 6, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [9], 0, []]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [], 9, []]]),
        altered(blocks=[["spell", 0, 5, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 0, 5.5, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 0, True, 0, "", [], 0, []]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [3], 0, [0, 1]]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [3], 0, [-1]]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [3], 0, [99]]]),
        altered(blocks=[["paragraph", 0, 5, 0, "", [3], 0, 7]]),
        altered(blocks="x"),
        altered(symbols=[[0, 10**9, "x"]]),
        altered(symbols=[[2, 2, "x"]]),
        altered(symbols=[[0, 3, "x"], [2, 5, "y"]]),
        altered(symbols=[[0, 3, 4]]),
        altered(size=10**9),
        altered(size=-1),
        altered(size=1.0),
        altered(size=0),
        altered(page_starts=[3, 1]),
        altered(metadata=[["k", {"deep": 1}]]),
        altered(metadata=[["k", None]]),
        altered(title=3),
        altered(title="\ud800"),
        altered(warnings=None),
        wire.encode(DOCUMENTS[0]) + b"\xff",
    ],
)
def test_malformed_answers_are_refused(data):
    """What a child sends is checked for type, range and order before anything is built on it."""
    with pytest.raises(ValueError):  # noqa: PT011 - the contract names no message
        wire.decode(data)
