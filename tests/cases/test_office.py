"""O-20 to O-22: Word, Excel, PowerPoint. Tracked changes, formulas and hidden sheets, groups and notes."""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile

import openpyxl
import pytest
from pptx import Presentation
from pptx.util import Inches
from trouble import (
    Parsed,
    check_clean,
    check_cover,
    check_order,
    check_pipe_tables,
    check_slice,
    chunk,
    deployment,
    parse,
    sized,
    tables,
)

# O-20

SPACE = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
TYPES = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)
RELATIONS = (
    '<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="word/document.xml"/></Relationships>'
)


def run_of(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def inserted(inner: str) -> str:
    return f'<w:ins w:id="2" w:author="x">{inner}</w:ins>'


def deleted(text: str) -> str:
    return f'<w:del w:id="1" w:author="x"><w:r><w:delText xml:space="preserve">{text}</w:delText></w:r></w:del>'


def para(inner: str) -> str:
    return f"<w:p>{inner}</w:p>"


def docx(body: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as package:
        package.writestr("[Content_Types].xml", TYPES)
        package.writestr("_rels/.rels", RELATIONS)
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        package.writestr("word/document.xml", f"{head}<w:document {SPACE}><w:body>{body}</w:body></w:document>")
    return out.getvalue()


TERMS = docx(
    para(run_of("The limit is ") + deleted("40") + inserted(run_of("55")) + run_of(" bar."))
    + para(inserted(run_of("Added clause.")))
    + para(deleted("Old clause."))
)  # fmt: skip


def lines(doc: Parsed) -> list[str]:
    return [line for line in doc.text.splitlines() if line.strip()]


def check_unseen(data: bytes, name: str, *words: str) -> None:
    """None of the words in any text, prefix or metadata of the document and its records, nor in what is embedded."""
    doc = parse(data, name)
    strings = [doc.text, *(s for c in chunk(doc, "markdown_heading", 200, 0) for s in (c.text, c.prefix, *c.path))]
    with deployment({name: data}) as made:
        assert list(made.run().done) == [name]
        strings += [*made.embedded, *(str(m["text"]) for m in made.live.metadata())]
        strings += [str(m.get(key, "")) for m in made.live.metadata() for key in ("prefix", "title", "section_path")]
    assert not [s for s in strings if any(word in s for word in words)]


def test_o20_tracked_changes_are_accepted() -> None:
    """O-20.1."""
    assert lines(parse(TERMS, "terms.docx")) == ["The limit is 55 bar.", "Added clause."]


def test_o20_what_was_deleted_is_nowhere() -> None:
    """O-20.2; there are no artifact prompts in this build."""
    check_unseen(TERMS, "terms.docx", "40", "Old clause")


MARK_GONE = '<w:pPr><w:rPr><w:del w:id="3" w:author="x"/></w:rPr></w:pPr>'
MOVED = docx(
    para('<w:moveFrom w:id="4" w:author="x">' + run_of("The limit is old.") + "</w:moveFrom>")
    + para('<w:moveTo w:id="5" w:author="x">' + run_of("The limit is 55 bar.") + "</w:moveTo>")
    + para(inserted('<w:hyperlink w:anchor="a">' + run_of("Added ") + "</w:hyperlink>") + inserted(run_of("clause.")))
    + para('<w:del w:id="1" w:author="x"><w:r><w:delInstrText>OLD 40</w:delInstrText></w:r></w:del>' + deleted("Old clause."))
)  # fmt: skip
CELLS = docx(
    "<w:tbl><w:tr><w:tc>" + para(run_of("Part")) + "</w:tc><w:tc>" + para(run_of("Limit")) + "</w:tc></w:tr>"
    "<w:tr><w:tc>" + para(run_of("Bolt")) + "</w:tc><w:tc>" + para(deleted("40") + inserted(run_of("55"))) + "</w:tc></w:tr>"
    '<w:tr><w:trPr><w:del w:id="9" w:author="x"/></w:trPr><w:tc>' + para(deleted("Old clause")) + "</w:tc><w:tc>"
    + para(deleted("40")) + "</w:tc></w:tr></w:tbl>" + para(inserted(run_of("Added clause.")))
)  # fmt: skip
NESTED = docx(
    para(run_of("The limit is ") + inserted(deleted("40") + run_of("55")) + run_of(" bar."))
    + para(MARK_GONE + deleted("Old clause."))
    + para(inserted('<w:smartTag w:element="a">' + run_of("Added ") + "</w:smartTag>")
           + "<w:sdt><w:sdtContent>" + inserted(run_of("clause.")) + deleted("40") + "</w:sdtContent></w:sdt>")
)  # fmt: skip


@pytest.mark.parametrize("data", [MOVED, NESTED], ids=["moved", "nested"])
def test_o20_kind_other_marks_of_change(data: bytes) -> None:
    """O-20.1, O-20.2, of the kind: moved text, links, deletions inside insertions, content controls."""
    doc = parse(data, "terms.docx")
    assert lines(doc) == ["The limit is 55 bar.", "Added clause."]
    check_unseen(data, "terms.docx", "40", "Old clause", "limit is old")


def test_o20_kind_changes_in_a_table() -> None:
    """O-20.1, O-20.2, of the kind: cells that changed and a row that was deleted."""
    doc = parse(CELLS, "terms.docx")
    assert re.search(r"\bBolt\W+55\b", doc.text)
    assert "Added clause." in lines(doc)
    check_unseen(CELLS, "terms.docx", "40", "Old clause")
    found = chunk(doc, "markdown_heading", 200, 0)
    check_slice(doc, found)
    check_cover(doc, found)
    for c in found:
        check_pipe_tables(c.prefix + c.text)


# O-21


def _no_value() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Plan"
    sheet.append(["item", "due", "total"])
    sheet.append(["Pump", dt.date(2024, 3, 5), "=2+3"])
    for title, text, state in (("Notes", "hush", "hidden"), ("Deep", "deep hush", "veryHidden")):
        other = book.create_sheet(title)
        other["A1"] = text
        other.sheet_state = state
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def _with_value(data: bytes) -> bytes:
    """The same workbook with the value that a spreadsheet program would have stored beside the formula."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            part = source.read(info)
            if info.filename == "xl/worksheets/sheet1.xml":
                assert b"<f>2+3</f>" in part
                part = part.replace(b"<f>2+3</f><v></v>", b"<f>2+3</f><v>5</v>")
                part = part.replace(b"<f>2+3</f><v/>", b"<f>2+3</f><v>5</v>").replace(
                    b"<f>2+3</f><v />", b"<f>2+3</f><v>5</v>"
                )
                assert b"<v>5</v>" in part
            target.writestr(info, part)
    return out.getvalue()


NO_VALUE = _no_value()
WITH_VALUE = _with_value(NO_VALUE)
BOTH = pytest.mark.parametrize("data", [NO_VALUE, WITH_VALUE], ids=["no-value", "with-value"])


def pump(data: bytes) -> dict[str, str]:
    (record,) = [r for one in tables(parse(data, "plan.xlsx")) for r in one.records() if r.get("item") == "Pump"]
    return record


@BOTH
def test_o21_dates_are_dates(data: bytes) -> None:
    """O-21.1."""
    text = parse(data, "plan.xlsx").text
    assert "2024-03-05" in text
    assert "45356" not in text
    assert "00:00:00" not in text


def test_o21_stored_values_stand_for_formulas() -> None:
    """O-21.2."""
    assert pump(WITH_VALUE)["total"] == "5"
    assert "=2+3" not in parse(WITH_VALUE, "plan.xlsx").text


def test_o21_a_formula_without_a_value_stands_for_itself() -> None:
    """O-21.3."""
    assert pump(NO_VALUE)["total"] == "=2+3"


@BOTH
def test_o21_hidden_sheets_are_named_and_not_read(data: bytes) -> None:
    """O-21.4."""
    doc = parse(data, "plan.xlsx")
    assert "None" not in doc.text
    assert "nan" not in doc.text
    check_unseen(data, "plan.xlsx", "hush")
    assert [w for w in doc.warnings if "2" in w and "hidden" in w and "Notes" in w and "Deep" in w], doc.warnings


def _kinds() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Kinds"
    sheet.append(["what", "value"])
    rows = [
        ("moment", dt.datetime(2024, 3, 5, 7, 30)),  # noqa: DTZ001  # cells have no zone
        ("midnight", dt.datetime(2024, 3, 5)),  # noqa: DTZ001
        ("time", dt.time(7, 30)),
        ("span", dt.timedelta(hours=30)),
        ("share", 0.125),
        ("whole", 3.0),
        ("flag", True),
        ("big", 12345678901234),
        ("sum", "=SUM(B6:B7)"),
        ("code", "00123"),
        ("lines", 'first line\nsecond | "part"'),
        ("gap", None),
    ]
    for row in rows:
        sheet.append(row)
    sheet["B6"].number_format = "0.0%"
    sheet["A12"].alignment = openpyxl.styles.Alignment(wrap_text=True)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_o21_kind_values_of_other_types() -> None:
    """O-21.1, O-21.3, O-21.4, of the kind: moments, times, shares, flags, long numbers, blanks."""
    doc = parse(_kinds(), "kinds.xlsx")
    found = {r["what"]: r["value"] for one in tables(doc) for r in one.records()}
    assert found["moment"].startswith("2024-03-05")
    assert "07:30" in found["moment"]
    assert found["midnight"] == "2024-03-05"
    assert found["time"].startswith("07:30")
    assert found["span"].startswith("30:00")
    assert found["share"] in {"12.5%", "0.125"}
    assert found["whole"] == "3"
    assert found["flag"].upper() == "TRUE"
    assert found["big"] == "12345678901234"
    assert found["sum"] == "=SUM(B6:B7)"
    assert found["code"] == "00123"
    assert found["lines"].split() == ["first", "line", "second", "|", '"part"']
    assert found.get("gap", "") == ""
    assert "None" not in doc.text
    check_clean(doc, chunk(doc, "csv", 200, 0))


def test_o21_kind_dates_from_1904() -> None:
    """O-21.1, of the kind: a workbook whose days are counted from 1904."""
    book = openpyxl.load_workbook(io.BytesIO(NO_VALUE))
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    out = io.BytesIO()
    book.save(out)
    assert pump(out.getvalue())["due"] == "2024-03-05"


def test_o21_kind_a_whole_run() -> None:
    """O-21.1 to O-21.4, of the kind: what a reader of the live version gets."""
    with deployment({"plan.xlsx": WITH_VALUE}) as made:
        report = made.run()
        assert made.live.find("Pump,2024-03-05,5") == ["plan.xlsx"]
        assert [w for w in report.warnings["plan.xlsx"] if "Notes" in w and "Deep" in w]
        (meta,) = made.live.metadata()
        assert meta["headings"] == ("Plan",)


# O-22


def box(shapes: object, text: str, x: float) -> None:
    shape = shapes.add_textbox(Inches(x), Inches(1), Inches(2), Inches(1))  # type: ignore[attr-defined]
    shape.text_frame.text = text


def _wings() -> bytes:
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    box(slide.shapes, "North wing", 0)
    box(slide.shapes, "South wing", 3)
    group = slide.shapes.add_group_shape()
    box(group.shapes, "Outer label", 1)
    box(group.shapes.add_group_shape().shapes, "Inner label", 2)
    grid = slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
    for row, column, words in ((0, 0, "Part"), (0, 1, "Cost"), (1, 0, "Bolt"), (1, 1, "9")):
        grid.cell(row, column).text = words
    slide.notes_slide.notes_text_frame.text = "Say the budget is 12."
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


WINGS = _wings()


def test_o22_everything_is_said_once() -> None:
    """O-22.1."""
    text = parse(WINGS, "wings.pptx").text
    for words in ("North wing", "South wing", "Outer label", "Inner label", "Say the budget is 12."):
        assert text.count(words) == 1, words


def test_o22_boxes_and_cells_are_apart() -> None:
    """O-22.2."""
    text = parse(WINGS, "wings.pptx").text
    for words in ("wingSouth", "PartCost", "Bolt9"):
        assert words not in text
    assert re.search(r"\bBolt\W+9\b", text)


def test_o22_slide_and_notes_are_told() -> None:
    """O-22.3."""
    doc = parse(WINGS, "wings.pptx")
    found = chunk(doc, "markdown_heading", 200, 0)
    assert {c.pages for c in found} == {(1, 1)}
    check_slice(doc, found)
    check_cover(doc, found)
    before = doc.text[: doc.text.index("Say the budget is 12.")].splitlines()
    assert [line for line in before if re.search(r"\bnotes\b", line, re.IGNORECASE)]
    with deployment({"wings.pptx": WINGS}) as made:
        made.run()
        assert made.live.ids
        for meta in made.live.metadata():
            assert (meta["page_first"], meta["page_last"]) == (1, 1)


def _deck() -> bytes:
    """Three slides: titles, groups three deep, line breaks in boxes and cells, notes on the last two."""
    deck = Presentation()
    for number in (1, 2, 3):
        slide = deck.slides.add_slide(deck.slide_layouts[5])
        slide.shapes.title.text = f"Slide title {number}"
        inner = slide.shapes.add_group_shape().shapes.add_group_shape().shapes.add_group_shape()
        box(inner.shapes, f"Deep label {number}\nsecond line {number}", 1)
        box(slide.shapes, f"left {number}", 0)
        box(slide.shapes, f"right {number}", 4)
        grid = slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
        for row, column, words in ((0, 0, "Part"), (0, 1, "Cost"), (1, 0, f"Bolt {number}\nM8 | x"), (1, 1, "9")):
            grid.cell(row, column).text = words
        if number > 1:
            slide.notes_slide.notes_text_frame.text = f"Remark {number}.\nMore {number}."
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


@pytest.mark.parametrize("target", [24, 200])
def test_o22_kind_several_slides(target: int) -> None:
    """O-22.1 to O-22.3, of the kind: each slide's words on its own page, notes beside them, tables whole."""
    doc = parse(_deck(), "deck.pptx")
    found = chunk(doc, "markdown_heading", target, 0)
    check_slice(doc, found)
    check_cover(doc, found)
    for number in (1, 2, 3):
        words = [
            f"Slide title {number}",
            f"Deep label {number}",
            f"second line {number}",
            f"left {number}",
            f"right {number}",
        ]
        words += [f"Bolt {number}", *([f"Remark {number}.", f"More {number}."] if number > 1 else [])]
        for one in words:
            assert doc.text.count(one) == 1, one
            assert {c.pages for c in found if one in c.text} == {(number, number)}, one
        assert not re.search(rf"left {number}right|label {number}second|Bolt {number}M8", doc.text)
    for c in found:
        check_pipe_tables(c.prefix + c.text)
    check_order(doc.text, "Slide title 1", "Slide title 2", "Remark 2.", "Slide title 3", "Remark 3.")
    with deployment({"deck.pptx": _deck()}) as made:
        made.run(sized(64))
        assert made.live.find("Remark 3.") == ["deck.pptx"]
