"""O-18 and O-19: PDF. Pages without text; structures that point at themselves, under a hard limit."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from trouble import Deployment, check_alone, check_noop, check_told, chunk, deployment, parse, sized
from world import CountingParser

from pipeline.adapters.parser_sandbox import SandboxedParser, SandboxLimits
from pipeline.errors import RejectedInput
from pipeline.types import ParsedDocument

LIMIT_S = 10.0


def pdf(bodies: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects, numbered from 1; the first is the catalogue."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, trailer, start)
    return bytes(out)


def stream(body: bytes) -> bytes:
    return b"<</Length %d>>stream\n" % len(body) + body + b"\nendstream"


def pages(*contents: bytes) -> bytes:
    """A PDF of one page a content stream."""
    n = len(contents)
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 %d 0 R>>>>/Contents %d 0 R>>"
    kids = b" ".join(b"%d 0 R" % (3 + i) for i in range(n))
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    leaves = [page % (3 + 2 * n, 3 + n + i) for i in range(n)]
    return pdf(
        [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, n), *leaves, *contents, font]
    )


def words(text: bytes) -> bytes:
    return stream(b"BT /F1 18 Tf 50 100 Td (%s) Tj ET" % text)


# O-18

BOX = stream(b"0.2 g 50 50 200 300 re f")
WORDS = words(b"second page words")
SCANS = {"scan.pdf": pages(BOX, BOX), "half.pdf": pages(BOX, WORDS)}


def test_o18_a_scan_is_told() -> None:
    """O-18.1."""
    with deployment(SCANS) as made:
        report = made.run()
        check_told(report, "scan.pdf")
        reason = {**report.empty, **report.failed}["scan.pdf"]
        assert "no text" in reason.lower()
        assert "2 pages" in reason
        assert made.live.of("scan.pdf") == []
        assert not [row for row in made.live.rows if row.path == "scan.pdf"]
        assert len(made.embedded) == len(made.live.of("half.pdf"))


def test_o18_half_a_scan_keeps_its_page_numbers() -> None:
    """O-18.2."""
    (only,) = chunk(parse(SCANS["half.pdf"], "half.pdf"), "markdown_heading", 200, 0)
    assert only.pages == (2, 2)
    with deployment(SCANS) as made:
        report = made.run()
        assert "half.pdf" in report.done
        (meta,) = made.live.of("half.pdf")
        assert "second page words" in str(meta["text"])
        assert (meta["page_first"], meta["page_last"], meta["pages"]) == (2, 2, ("2",))
        (warning,) = report.warnings["half.pdf"]
        assert "page without text: 1" in warning


def test_o18_no_plain_success() -> None:
    """O-18.3."""
    with deployment(SCANS) as made:
        assert made.run().partial
    with deployment({"half.pdf": SCANS["half.pdf"]}) as made:
        assert not made.run().partial


def test_o18_a_second_run_parses_nothing_and_says_so_again() -> None:
    """O-18.4."""
    with deployment(SCANS) as made:
        made.run()
        again = made.run()
        assert again.calls["parse"] == 0
        assert "scan.pdf" in again.empty
        check_noop(again)
        assert again.partial


@pytest.mark.parametrize(
    ("contents", "silent"),
    [
        ((BOX, BOX, WORDS, BOX), "1, 2, 4"),
        ((WORDS, stream(b"")), "2"),
        ((stream(b"BT /F1 18 Tf 50 100 Td (   ) Tj ET"), WORDS), "1"),
    ],
    ids=["four-pages", "no-content", "blanks"],
)
def test_o18_kind_other_pages_without_text(contents: tuple[bytes, ...], silent: str) -> None:
    """O-18.2, of the kind: pages in other places, pages of nothing, pages of blanks."""
    doc = parse(pages(*contents), "half.pdf")
    assert doc.status == "ok"
    assert [w for w in doc.warnings if "without text" in w and f": {silent} " in w + " "], doc.warnings
    page = contents.index(WORDS) + 1
    assert {c.pages for c in chunk(doc, "sliding_window", 200, 0)} == {(page, page)}


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (pages(BOX), "one.pdf"),
        (pages(stream(b"")), "blank.pdf"),
        (pages(BOX, BOX)[:-40], "cut.pdf"),
        (b"<!doctype html><body><img src=x.png></body>", "pictures.html"),
        (b'{"nbformat":4,"nbformat_minor":5,"metadata":{},"cells":[]}', "none.ipynb"),
        (b"<!-- nothing else -->\n", "comment.md"),
        (b"---\ntitle: alone\n---\n", "front.md"),
    ],
    ids=["one-page", "blank-page", "cut", "pictures", "no-cells", "comment", "front-matter"],
)
def test_o18_kind_other_sources_without_a_chunk(data: bytes, name: str) -> None:
    """O-18.1, of the kind: what ends with no chunk is named with a reason and never done."""
    with deployment({name: data, "ok.md": "# Ok\n\nstill here\n"}) as made:
        report = made.run()
        assert name not in report.done
        assert {**report.empty, **report.failed, **report.skipped}[name].strip()
        assert list(report.done) == ["ok.md"]
        assert made.live.of(name) == []


# O-19


def _loop() -> bytes:
    """Two cross-reference tables, each of which names the other as its predecessor."""
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
        words(b"loop page words"),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"

    def table(previous: int) -> bytes:
        rows = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
        head = b"xref\n0 6\n0000000000 65535 f \n" + rows
        return head + b"trailer\n<</Size 6/Root 1 0 R/Prev %010d>>\n" % previous

    first = len(out)
    second = first + len(table(0))
    return bytes(out + table(second) + table(first) + b"startxref\n%d\n%%%%EOF\n" % second)


LOOP = _loop()
LOOPS = {"loop.pdf": LOOP, "ok.md": b"# Ok\n\nstill here\n"}


class LimitedParser(CountingParser):
    """Counts, and parses in a child with the hard limit of the case."""

    def __init__(self) -> None:
        super().__init__()
        limits = SandboxLimits(wall_seconds=LIMIT_S, cpu_seconds=int(LIMIT_S))
        self.inner = SandboxedParser(limits)  # type: ignore[assignment]  # another parser of the same port


def check_loop(made: Deployment, path: str, text: str) -> None:
    """The run ends in time, and the file is done with its text or failed with a reason."""
    made.parser.parse(b"warm", "warm.txt")  # starting the child isn't the document's doing
    began = time.perf_counter()
    report = made.run()
    assert time.perf_counter() - began < LIMIT_S
    assert path not in report.empty
    if path in report.done:
        assert [meta for meta in made.live.of(path) if text in str(meta["text"])]
    else:
        assert report.failed[path].strip()
    assert "ok.md" in report.done


def test_o19_a_loop_of_tables_ends_by_itself() -> None:
    """O-19.1, O-19.2, for the parser alone, under its hard limit."""
    parser = SandboxedParser(SandboxLimits(wall_seconds=LIMIT_S, cpu_seconds=int(LIMIT_S)))
    try:
        parser.parse(b"warm", "warm.txt")
        began = time.perf_counter()
        found: ParsedDocument | RejectedInput
        try:
            found = parser.parse(LOOP, "loop.pdf")
        except RejectedInput as error:
            found = error
        assert time.perf_counter() - began < LIMIT_S
        if isinstance(found, ParsedDocument):
            assert "loop page words" in found.text
        else:
            assert found.code not in {"no_text", "empty_file", "unsupported"}
            assert found.message.strip()
    finally:
        parser.close()


def test_o19_a_whole_run_ends() -> None:
    """O-19.1, O-19.2, O-19.3."""
    with deployment(LOOPS, parser=LimitedParser()) as made:
        check_loop(made, "loop.pdf", "loop page words")


def test_o19_the_other_file_is_none_the_worse() -> None:
    """O-19.3 (ALONE)."""
    check_alone(LOOPS, "loop.pdf")


HELVETICA = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
TURNS = {
    "own-table": LOOP.replace(b"/Prev %010d" % LOOP.rindex(b"xref\n0 6"), b"/Prev %010d" % LOOP.index(b"xref\n0 6")),
    "page-tree": pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R 2 0 R]/Count 2>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            words(b"loop page words"),
            HELVETICA,
        ]
    ),
    "form-in-itself": pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>/XObject<</X 6 0 R>>>>/Contents 4 0 R>>",
            stream(b"BT /F1 18 Tf 50 100 Td (loop page words) Tj ET /X Do"),
            HELVETICA,
            b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>/Length 5>>stream\n/X Do\nendstream",
        ]
    ),
    "outline": pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R/Outlines 6 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            words(b"loop page words"),
            HELVETICA,
            b"<</Type/Outlines/First 7 0 R/Last 7 0 R/Count 1>>",
            b"<</Title(a)/Parent 6 0 R/Next 7 0 R/First 7 0 R/Last 7 0 R/Dest[3 0 R/Fit]>>",
        ]
    ),
    "length-of-itself": pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            b"<</Length 4 0 R>>stream\nBT /F1 18 Tf 50 100 Td (loop page words) Tj ET\nendstream",
            HELVETICA,
        ]
    ),
}


@pytest.mark.parametrize("turn", TURNS)
def test_o19_kind_other_structures_that_turn_round(turn: str) -> None:
    """O-19.1 to O-19.3, of the kind: page trees, forms, outlines and lengths that name themselves."""
    files = {"loop.pdf": TURNS[turn], "ok.md": b"# Ok\n\nstill here\n"}
    with deployment(files, parser=LimitedParser()) as made:
        check_loop(made, "loop.pdf", "loop page words")


def test_o19_kind_texts_that_punish_careless_reading() -> None:
    """O-19.1, O-19.3, of the kind: texts that punish careless reading, in one run."""
    hostile = {
        "brackets.md": b"[" * 200_000,
        "quotes.md": b">" * 100_000 + b" x\n",
        "stars.md": b"*a " * 100_000,
        "comments.md": b"<!--" * 100_000,
        "tables.html": b"<table><tr><td>" * 3_000,
        "quotes.csv": b'"a,' * 100_000,
        "ok.md": b"# Ok\n\nstill here\n",
    }
    with deployment(hostile, parser=LimitedParser()) as made:
        made.parser.parse(b"warm", "warm.txt")
        began = time.perf_counter()
        report = made.run(sized(512))
        assert time.perf_counter() - began < 3 * LIMIT_S
        assert "ok.md" in report.done
        assert set(hostile) == {*report.done, *report.failed, *report.skipped, *report.empty}
