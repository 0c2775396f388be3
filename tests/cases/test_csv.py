"""O-13 to O-15: CSV. Marks before quotes, ragged rows, line breaks and pipes in cells."""

from __future__ import annotations

import codecs
import re

import pytest
from trouble import (
    STRATEGIES,
    Deployment,
    Parsed,
    check_alone,
    check_cap,
    check_clean,
    check_cover,
    check_pipe_tables,
    check_slice,
    chunk,
    deployment,
    flat_strings,
    parse,
    table,
)

# O-13

PLAIN = b'"site, block",level\r\n"North, B2",7\r\n'
MARKED = b"\xef\xbb\xbf" + PLAIN
SITES = (["site, block", "level"], [{"site, block": "North, B2", "level": "7"}])


@pytest.mark.parametrize("data", [PLAIN, MARKED], ids=["plain", "marked"])
def test_o13_columns_and_record(data: bytes) -> None:
    """O-13.1, O-13.2."""
    assert table(parse(data, "sites.csv")) == SITES


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_o13_both_give_the_same_chunks(strategy: str) -> None:
    """O-13.3."""
    plain, marked = parse(PLAIN, "sites.csv"), parse(MARKED, "sites.csv")
    found = [chunk(doc, strategy, 200, 0) for doc in (plain, marked)]
    assert [(c.prefix, c.text) for c in found[0]] == [(c.prefix, c.text) for c in found[1]]
    assert found[0]
    check_clean(plain, found[0])
    check_clean(marked, found[1])


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (codecs.BOM_UTF16_LE + PLAIN.decode().encode("utf-16-le"), "sites.csv"),
        (codecs.BOM_UTF16_BE + PLAIN.decode().encode("utf-16-be"), "sites.csv"),
        (b"\xef\xbb\xbf" + PLAIN.replace(b",level", b";level").replace(b",7", b";7"), "sites.csv"),
        (b"\xef\xbb\xbf" + PLAIN.replace(b",level", b"\tlevel").replace(b",7", b"\t7"), "sites.tsv"),
        (codecs.BOM_UTF16_LE + PLAIN.replace(b",level", b"\tlevel").replace(b",7", b"\t7").decode().encode("utf-16-le"), "s.txt.csv"),
        (b"\xef\xbb\xbf" + PLAIN.replace(b"\r\n", b"\r"), "sites.csv"),
    ],
    ids=["utf-16-le", "utf-16-be", "semicolons", "tabs", "utf-16-tabs", "cr"],
)  # fmt: skip
def test_o13_kind_other_marks_and_delimiters(data: bytes, name: str) -> None:
    """O-13.1 to O-13.3, of the kind: UTF-16, semicolons, tabs, carriage returns."""
    doc = parse(data, name)
    assert table(doc) == SITES
    check_clean(doc, chunk(doc, "csv", 200, 0))


# O-14

RAGGED = "id,name,city\n1,Ana,Oslo\n2,Bo\n3,Cy,Rome,extra1,extra2\n\n4,Di,Lima\n"
GOOD = "id,name\n9,Eve\n"
FILES = {"ragged.csv": RAGGED, "good.csv": GOOD}


def records(doc: Parsed) -> list[dict[str, str]]:
    return table(doc)[1]


def check_no_blank_keys(made: Deployment, path: str) -> None:
    for meta in made.live.of(path):
        for key, value in meta.items():
            assert key
            assert key != "None"
            for text in (key, *flat_strings(value)):
                assert not re.search(r"\bNone\b|\bnan\b", text), (key, value)


def check_named(warnings: list[str] | tuple[str, ...], *wanted: tuple[int, int, int]) -> None:
    """A warning a triple of (file line, values found, values wanted), naming all three."""
    told = [sorted(map(int, re.findall(r"\d+", warning))) for warning in warnings]
    for numbers in wanted:
        assert sorted(numbers) in told, warnings
    for line, _, _ in wanted:
        assert [w for w in warnings if re.search(rf"\bline {line}\b", w)], warnings


def test_o14_records_of_ragged_rows() -> None:
    """O-14.1."""
    found = records(parse(RAGGED, "ragged.csv"))
    assert [record["id"] for record in found] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_o14_surplus_values_are_kept(strategy: str) -> None:
    """O-14.2."""
    found = chunk(parse(RAGGED, "ragged.csv"), strategy, 200, 0)
    rows = [line for c in found for line in c.text.splitlines() if line.startswith("3,")]
    assert len(rows) == 1
    assert "extra1" in rows[0]
    assert "extra2" in rows[0]


def test_o14_nothing_stands_for_what_is_missing() -> None:
    """O-14.3."""
    with deployment(FILES) as made:
        made.run()
        check_no_blank_keys(made, "ragged.csv")
        assert not [text for text in made.embedded if re.search(r"None|nan", text)]
        assert not [text for text in made.live.texts if re.search(r"None|nan", text)]


def test_o14_warnings_name_lines_and_counts() -> None:
    """O-14.4."""
    check_named(parse(RAGGED, "ragged.csv").warnings, (3, 2, 3), (4, 5, 3))
    with deployment(FILES) as made:
        check_named(made.run().warnings["ragged.csv"], (3, 2, 3), (4, 5, 3))


def test_o14_the_other_file_is_none_the_worse() -> None:
    """O-14.5."""
    check_alone(FILES, "ragged.csv")
    with deployment(FILES) as made:
        report = made.run()
        assert "good.csv" in report.done
        assert len(made.live.of("good.csv")) == 1
    assert records(parse(GOOD, "good.csv")) == [{"id": "9", "name": "Eve"}]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (RAGGED.replace(",", ";"), "r.csv"),
        (RAGGED.replace(",", "\t"), "r.tsv"),
        (RAGGED.replace(",", "|"), "r.csv"),
        (RAGGED.replace("\n", "\r\n"), "r.csv"),
        (RAGGED.replace("\n\n", "\n , ,\n"), "r.csv"),
    ],
    ids=["semicolons", "tabs", "pipes", "crlf", "blank-values"],
)
def test_o14_kind_other_delimiters(text: str, name: str) -> None:
    """O-14.1 to O-14.4, of the kind."""
    doc = parse(text, name)
    found = records(doc)
    assert [record["id"] for record in found] == ["1", "2", "3", "4"]
    assert {"extra1", "extra2"} <= set(found[2].values())
    assert not [key for record in found for key in record if not key]
    check_named(doc.warnings, (3, 2, 3), (4, 5, 3))


@pytest.mark.parametrize("quote", ['2,"Bo', '2,Bo,"', '2,"Bo"x"'], ids=["open", "open-last", "odd"])
def test_o14_kind_a_quote_that_is_never_closed(quote: str) -> None:
    """O-14.1, O-14.2, O-14.5, of the kind: the rows behind it aren't swallowed, and a warning says so."""
    text = f"id,name,city\n1,Ana,Oslo\n{quote}\n3,Cy,Rome,extra1,extra2\n4,Di,Lima\n"
    doc = parse(text, "q.csv")
    found = records(doc)
    assert [record["id"] for record in found] == ["1", "2", "3", "4"]
    assert doc.warnings
    assert {"extra1", "extra2"} <= set(found[2].values())
    check_alone({"q.csv": text, "good.csv": GOOD}, "q.csv")


def test_o14_kind_a_row_of_ten_thousand_values() -> None:
    """O-14.2, O-14.4, of the kind: far too long, still whole and within the target."""
    doc = parse("id,name\n1,Ana\n2," + ",".join(f"v{i}" for i in range(10_000)) + "\n3,Cy\n", "wide.csv")
    assert [record["id"] for record in records(doc)] == ["1", "2", "3"]
    check_named(doc.warnings, (3, 10_001, 2))
    found = chunk(doc, "csv", 64, 0)
    check_cap(found, 64)
    check_cover(doc, found)
    check_slice(doc, found)


# O-15

BROKEN = 'sku,note\nA1,"first line\nsecond | part"\nB2,"he said ""stop"""\n'
NOTES = [{"sku": "A1", "note": "first line\nsecond | part"}, {"sku": "B2", "note": 'he said "stop"'}]


def test_o15_records_and_values() -> None:
    """O-15.1, O-15.2."""
    assert records(parse(BROKEN, "notes.csv")) == NOTES


@pytest.mark.parametrize("target", [24, 64, 200])
def test_o15_a_record_stays_together(target: int) -> None:
    """O-15.3, O-15.4."""
    found = chunk(parse(BROKEN, "notes.csv"), "csv", target, 0)
    assert [c for c in found if "A1" in c.text and "first line" in c.text and "second" in c.text]
    for c in found:
        check_pipe_tables(c.prefix + c.text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (BROKEN.replace(",", ";"), "n.csv"),
        (BROKEN.replace(",", "\t"), "n.tsv"),
        (BROKEN.replace("\n", "\r\n"), "n.csv"),
        ('sku|note\nA1|"first line\nsecond | part"\nB2|"he said ""stop"""\n', "n.csv"),
    ],
    ids=["semicolons", "tabs", "crlf", "pipes"],
)
def test_o15_kind_other_delimiters(text: str, name: str) -> None:
    """O-15.1 to O-15.3, of the kind."""
    doc = parse(text, name)
    assert records(doc) == NOTES
    assert [c for c in chunk(doc, "csv", 200, 0) if "A1" in c.text and "first line" in c.text and "second" in c.text]


def test_o15_kind_the_same_table_as_html() -> None:
    """O-15.1 to O-15.4, of the kind, where records are lines between pipes."""
    html = (
        "<table><tr><th>sku</th><th>note</th></tr><tr><td>A1</td><td>first line<br>second | part</td></tr>"
        '<tr><td>B2</td><td>he said "stop"</td></tr></table>'
    )
    doc = parse(html, "n.html")
    found = records(doc)
    assert [record["sku"] for record in found] == ["A1", "B2"]
    assert found[0]["note"].split() == ["first", "line", "second", "|", "part"]
    assert found[1] == NOTES[1]
    for c in chunk(doc, "html", 200, 0):
        check_pipe_tables(c.prefix + c.text)


def test_o15_kind_a_whole_run_keeps_the_values() -> None:
    """O-15.2, O-15.3, of the kind: what a reader of the live version gets."""
    with deployment({"notes.csv": BROKEN}) as made:
        made.run()
        (meta,) = made.live.metadata()
        assert "first line\nsecond | part" in str(meta["text"])
        assert made.live.find("first line\nsecond | part") == ["notes.csv"]
