"""PDF: pages are known, and pages without text are named."""

import pytest

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def pdf(objects):
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    return out, offsets


def table(offsets, extra=b""):
    entries = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(offsets) + 1
    return (
        b"xref\n0 %d\n0000000000 65535 f \n" % size + entries + b"trailer\n<</Size %d/Root 1 0 R%s>>\n" % (size, extra)
    )


def stream(content):
    return b"<</Length %d>>stream\n" % len(content) + content + b"\nendstream"


def two_pages(one, two):
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 7 0 R>>>>/Contents %d 0 R>>"
    out, offsets = pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R 4 0 R]/Count 2>>",
            page % 5,
            page % 6,
            one,
            two,
            FONT,
        ]
    )
    return bytes(out + table(offsets) + b"startxref\n%d\n%%%%EOF\n" % len(out))


BOX = stream(b"0.2 g 50 50 200 300 re f")


def words(text):
    return stream(b"BT /F1 18 Tf 50 100 Td (" + text + b") Tj ET")


def test_scan_without_text_is_refused():
    """O-18.1: the reason says that no text was found, and how many pages there are."""
    with pytest.raises(RejectedInput) as error:
        parse_bytes(two_pages(BOX, BOX), "scan.pdf")
    assert error.value.code == "no_text"
    assert "no text was found" in error.value.message
    assert "2 pages" in error.value.message


def test_half_scan_names_its_page():
    """O-18.2: the page with text is indexed as page 2, the other is named."""
    document = parse_bytes(two_pages(BOX, words(b"second page words")), "half.pdf")
    (only,) = chunk_document(document, "markdown_heading", ChunkOptions(100))
    assert only.pages == (2, 2)
    assert document.warnings == ("page without text: 1 (of 2)",)


def test_chunks_know_their_pages():
    document = parse_bytes(two_pages(words(b"first page words"), words(b"second page words")), "full.pdf")
    (only,) = chunk_document(document, "markdown_heading", ChunkOptions(100))
    assert only.pages == (1, 2)
    assert [c.pages for c in chunk_document(document, "markdown_heading", ChunkOptions(4))] == [(1, 1), (2, 2)]
    assert document.warnings == ()


def test_tables_of_references_that_point_at_each_other():
    """O-19: the chain ends, with the text or with a reason."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 400]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>"
    out, offsets = pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            page,
            words(b"loop page words"),
            FONT,
        ]
    )
    first = len(out)
    second = first + len(table(offsets, b"/Prev %010d" % 0))
    data = out + table(offsets, b"/Prev %010d" % second) + table(offsets, b"/Prev %010d" % first)
    document = parse_bytes(bytes(data + b"startxref\n%d\n%%%%EOF\n" % second), "loop.pdf")
    assert "loop page words" in document.text


def test_broken_pdf_is_refused():
    with pytest.raises(RejectedInput) as error:
        parse_bytes(b"%PDF-1.4 and nothing else", "bad.pdf")
    assert error.value.code == "pdf_broken"
