"""CSV: records stay whole and no value is lost."""

import csv
import io

import pytest

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.parse import parse_bytes
from pipeline.parse.csv import columns
from pipeline.parse.tables import tables


def parse(data, name="table.csv"):
    return parse_bytes(data if isinstance(data, bytes) else data.encode(), name)


def records(document):
    rows = [next(csv.reader(io.StringIO(document.text[b.start : b.end], newline=""))) for b in document.blocks]
    return [dict(zip(columns(document), row, strict=False)) for row in rows]


def chunks(document, target=200, overlap=0):
    return chunk_document(document, "csv", ChunkOptions(target, overlap))


def test_mark_before_a_quoted_header():
    """O-13: the byte order mark doesn't hide the quote."""
    plain = b'"site, block",level\r\n"North, B2",7\r\n'
    one, two = parse(plain), parse(b"\xef\xbb\xbf" + plain)
    assert columns(one) == columns(two) == ["site, block", "level"]
    assert records(one) == records(two) == [{"site, block": "North, B2", "level": "7"}]
    assert [(c.prefix, c.text) for c in chunks(one)] == [(c.prefix, c.text) for c in chunks(two)]


def test_ragged_rows():
    """O-14: short, long and blank rows cost nothing but a warning with the line."""
    document = parse("id,name,city\n1,Ana,Oslo\n2,Bo\n3,Cy,Rome,extra1,extra2\n\n4,Di,Lima\n")
    assert [r["id"] for r in records(document)] == ["1", "2", "3", "4"]
    assert "3,Cy,Rome,extra1,extra2" in document.text
    assert "None" not in document.text
    assert document.warnings == (
        "line 3: 2 values where 3 were wanted",
        "line 4: 5 values where 3 were wanted",
    )


def test_line_break_pipe_and_quote_in_cells():
    """O-15: a record is one, whatever its cells hold."""
    document = parse('sku,note\nA1,"first line\nsecond | part"\nB2,"he said ""stop"""\n')
    assert records(document) == [
        {"sku": "A1", "note": "first line\nsecond | part"},
        {"sku": "B2", "note": 'he said "stop"'},
    ]
    assert any(all(s in c.text for s in ("A1", "first line", "second")) for c in chunks(document, 16))


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_delimiters(mark):
    """The delimiter that gives even records wins, even with commas in the values."""
    document = parse(mark.join(["a", "b", "c"]) + "\n" + mark.join(["1", '"2,5 and, more"', "3"]) + "\n")
    assert columns(document) == ["a", "b", "c"]
    assert records(document) == [{"a": "1", "b": "2,5 and, more", "c": "3"}]


def test_numbers_are_no_header():
    document = parse("1,2\n3,4\n")
    assert document.header == ""
    assert len(document.blocks) == 2


def test_header_alone_is_a_record():
    """A file with nothing but names still has its text indexed."""
    document = parse("name,place\n")
    assert document.text == "name,place\n"


def test_quote_that_is_never_closed():
    document = parse('id,size\n1,3" pipe\n2,"half\n3,x\n')
    assert len(document.blocks) == 3
    document = parse('id,size\n1,"half\n2,y\n3,x\n')
    assert len(document.blocks) == 3
    assert document.warnings


def test_header_is_repeated_and_counted():
    """Every chunk has the header in front, within the budget; records are whole; none is lost."""
    document = parse("id,place\n" + "".join(f"{i},place number {i}\n" for i in range(200)))
    found = chunks(document, 64)
    assert len(found) > 3
    for c in found:
        assert c.prefix == "id,place\n"
        assert c.tokens <= 64
        assert all(line.count(",") == 1 for line in c.text.split("\n"))
    assert sum(len(c.text.split("\n")) for c in found) == 200


def test_large_header_is_dropped():
    """A header that leaves less than half of the budget isn't repeated."""
    names = ",".join(f"column number {i}" for i in range(30))
    document = parse(names + "\n" + "\n".join(",".join("v" * 30) for _ in range(5)) + "\n")
    assert all(c.prefix == "" for c in chunks(document, 100))


def test_a_line_that_names_the_delimiter_is_no_record():
    """Spreadsheets write and read it."""
    document = parse("sep=;\r\nname;price\r\nNut;1,5\r\nBolt\r\n")
    assert records(document) == [{"name": "Nut", "price": "1,5"}, {"name": "Bolt", "price": ""}]
    assert document.warnings == ("line 4: 1 values where 2 were wanted",)


@pytest.mark.parametrize(
    "above",
    [
        "Report of sales\nas of 2024-01-01\n\n",
        "Report of sales,,,\nas of 2024-01-01,,,\n,,,\n",
        "# Report of sales\n# as of 2024-01-01\n",
    ],
)
def test_what_stands_above_the_header(above):
    """Titles and dates of an export are neither names nor records."""
    document = parse(above + "name,qty,price,place\nNut,1,2,Oslo\nBolt,3,4,Rome\n")
    assert columns(document) == ["name", "qty", "price", "place"]
    assert [r["name"] for table in tables(document) for r in table.records()] == ["Nut", "Bolt"]
    assert document.warnings == ()
    assert "Report of sales\n" in document.text
    assert "2024-01-01\n" in document.text


def test_sparse_first_records_of_a_table_without_names():
    document = parse("Nut,,,\n1,2,3,4\n5,6,7,8\n")
    assert document.header == ""
    assert [block.kind for block in document.blocks] == ["row"] * 3


@pytest.mark.parametrize(
    ("first", "second", "is_header"),
    [
        ("place,2019,2020,2021", "Oslo,1,2,3", True),
        ("place,2021,2020", "Oslo,1,2", True),
        ("place,2019", "Oslo,1", False),
        ("Ann,1990,1988", "Bo,1991,1975", False),
        ("Nut,1900,2000", "Bolt,12,15", False),
        ("2019,2020", "1,2", False),
        ("place,2019,12", "Oslo,1,2", False),
    ],
)
def test_years_may_be_names(first, second, is_header):
    """Two at least, in even steps, over something else."""
    assert bool(parse(f"{first}\n{second}\n").header) == is_header
