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


def typed(pages, info=b"<<>>"):
    """A PDF whose pages are lists of (x, y, text) in points, in ten-point type."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Lang(de-DE)/Pages 2 0 R>>", b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]  # fmt: skip
    for i, page in enumerate(pages):
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
            % (5 + 2 * i)
        )
        objects.append(stream("\n".join(f"BT /F1 10 Tf {x} {y} Td ({t}) Tj ET" for x, y, t in page).encode("latin-1")))
    objects.append(info)
    out, offsets = pdf(objects)
    return bytes(out + table(offsets, b"/Info %d 0 R" % len(objects)) + b"startxref\n%d\n%%%%EOF\n" % len(out))


LEFT = [
    "The first column speaks about water and how it",
    "flows through a system of pipes that were in-",
    "stalled a long time ago by people of the town.",
]
RIGHT = [
    "The second column is about electricity and its",
    "uses in a house where the lamps burn all night",
    "and nobody ever counts what the meters show.",
]


def test_columns_are_read_one_after_the_other_and_hyphens_undone():
    page = [(60, 740 - 14 * i, t) for i, t in enumerate(LEFT)] + [(320, 740 - 14 * i, t) for i, t in enumerate(RIGHT)]
    text = " ".join(parse_bytes(typed([page]), "c.pdf").text.split())
    assert "pipes that were installed a long time ago by people of the town. The second column" in text
    assert text.endswith("counts what the meters show.")


def test_what_a_pdf_says_about_itself():
    info = (
        b"<</Title(Pump sheet)/Author(Ana)/Subject(On pumps)/Keywords(pump; seal)/CreationDate(D:20240305070000Z)"
        b"/ModDate(D:20240306080000+01'00')>>"
    )
    document = parse_bytes(typed([[(60, 700, "plain words")]], info), "c.pdf")
    assert document.title == "Pump sheet"
    assert dict(document.metadata) == {
        "title": "Pump sheet", "author": "Ana", "description": "On pumps", "keywords": ("pump", "seal"),
        "created": "2024-03-05T07:00:00+00:00", "created_epoch": 1709622000,
        "modified": "2024-03-06T08:00:00+01:00", "modified_epoch": 1709708400, "language": "de-DE",
    }  # fmt: skip


@pytest.mark.parametrize("info", [b"<</Title(Microsoft Word - a.doc)/CreationDate(D:2024139900)>>", b"<</Title()>>"])
def test_titles_that_no_person_gave(info):
    document = parse_bytes(typed([[(60, 700, "plain words")]], info), "c.pdf")
    assert document.title == ""
    assert dict(document.metadata) == {"language": "de-DE"}
