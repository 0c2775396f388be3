"""Presentations: slides as sections and pages, every box apart, notes marked as notes."""

import io
import re
from datetime import date

import pytest
from office_files import NAMES, XML, checked, chunked, package, relations, rewritten, with_part
from pptx import Presentation
from pptx.chart.data import BubbleChartData, CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

BLANK, TITLE_ONLY, CONTENT, TITLE_SLIDE = 6, 5, 1, 0
"""Layouts of the library's own template."""


def saved(deck):
    out = io.BytesIO()
    deck.save(out)
    return out.getvalue()


def box(shapes, text, x=1):
    made = shapes.add_textbox(Inches(x), Inches(1), Inches(2), Inches(1))
    made.text_frame.text = text
    return made


def titled(deck, title, layout=TITLE_ONLY):
    slide = deck.slides.add_slide(deck.slide_layouts[layout])
    slide.shapes.title.text = title
    return slide


def lines(document):
    return [line for line in document.text.split("\n") if line]


def text_shape(text, name="box", placeholder="", properties="", extra=""):
    """A shape by hand."""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="{name}" {properties}/><p:cNvSpPr/><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr>'
        f"<p:spPr/><p:txBody><a:bodyPr/>{extra}{text}</p:txBody></p:sp>"
    )


def words(text, properties=""):
    return f"<a:p><a:pPr {properties}/><a:r><a:t>{text}</a:t></a:r></a:p>"


def deck_of(*slides, relations_of=None, **parts):
    """A presentation by hand: the shapes of each slide."""
    files = {
        f"ppt/slides/slide{n}.xml": f"{XML}<p:sld {NAMES}><p:cSld><p:spTree><p:nvGrpSpPr/>{shapes}</p:spTree></p:cSld></p:sld>"
        for n, shapes in enumerate(slides, start=1)
    }
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="s{n}"/>' for n in range(1, len(slides) + 1))
    rels = [(f"s{n}", "slide", f"slides/slide{n}.xml") for n in range(1, len(slides) + 1)]
    return package(
        "ppt/presentation.xml",
        {
            "ppt/presentation.xml": f"{XML}<p:presentation {NAMES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(*rels),
            **files,
            **{f"ppt/slides/_rels/slide{n}.xml.rels": relations(*rows) for n, rows in (relations_of or {}).items()},
            **parts,
        },
    )


def test_groups_tables_and_notes():
    """O-22: grouped text, cells and notes are read, once each, and neighbours stay apart."""
    deck = Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[BLANK])
    box(slide.shapes, "North wing", 0)
    box(slide.shapes, "South wing", 3)
    group = slide.shapes.add_group_shape()
    box(group.shapes, "Outer label", 1)
    box(group.shapes.add_group_shape().shapes, "Inner label", 2)
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(3), Inches(4), Inches(1)).table
    for row, column, text in ((0, 0, "Part"), (0, 1, "Cost"), (1, 0, "Bolt"), (1, 1, "9")):
        table.cell(row, column).text = text
    slide.notes_slide.notes_text_frame.text = "Say the budget is 12."
    found = checked(saved(deck), "wings.pptx")
    text = found.text
    for once in ("North wing", "South wing", "Outer label", "Inner label", "Say the budget is 12."):
        assert text.count(once) == 1
    for joined in ("wingSouth", "PartCost", "Bolt9"):
        assert joined not in text
    assert re.search(r"\bBolt\W+9\b", text)
    assert {chunk.pages for chunk in chunked(found)} == {(1, 1)}
    assert "\n\nNotes:\n\nSay the budget is 12.\n" in text


def test_slides_are_sections_and_pages():
    """A title is the heading, once; without one the number is; a chunk says its slide."""
    deck = Presentation()
    titled(deck, "The \vplan", TITLE_SLIDE).placeholders[1].text = "for spring"
    box(titled(deck, "Second").shapes, "body of two")
    box(deck.slides.add_slide(deck.slide_layouts[BLANK]).shapes, "body of three")
    deck.slides.add_slide(deck.slide_layouts[BLANK])
    titled(deck, "Last")
    found = checked(saved(deck), "a.pptx")
    assert lines(found) == [
        "# The plan",
        "for spring",
        "# Second",
        "body of two",
        "# Slide 3",
        "body of three",
        "# Last",
    ]
    assert [(c.heading_path, c.pages) for c in chunked(found)] == [
        (("The plan",), (1, 1)),
        (("Second",), (2, 2)),
        (("Slide 3",), (3, 3)),
        (("Last",), (5, 5)),
    ]
    assert found.title == "The plan"
    assert len(found.page_starts) == 5
    assert found.warnings == ("slide without text: 4 (of 5)",)


def test_hidden_slides_keep_their_number():
    """A hidden slide is an empty page and is named; those after it are counted with it."""
    deck = Presentation()
    slides = [titled(deck, title) for title in ("First", "Backup", "Third", "Last")]
    for at in (1, 3):
        slides[at]._element.set("show", "0")
        box(slides[at].shapes, "hush")
    found = checked(saved(deck), "a.pptx")
    assert lines(found) == ["# First", "# Third"]
    assert [c.pages for c in chunked(found)] == [(1, 1), (3, 3)]
    assert len(found.page_starts) == 4
    assert found.warnings == ("2 hidden slides were left out: 2 (Backup), 4 (Last)",)


def test_slides_come_in_the_order_of_the_presentation():
    deck = Presentation()
    for title in ("A", "B", "C"):
        titled(deck, title)
    order = deck.slides._sldIdLst
    order.insert(0, order[2])
    assert lines(checked(saved(deck), "a.pptx")) == ["# C", "# A", "# B"]


def test_bullets_come_from_the_shape_the_layout_or_the_master():
    """Body text has the master's bullets, a subtitle's layout takes them away, a text box has its own or none."""
    deck = Presentation()
    slide = titled(deck, "Points", CONTENT)
    frame = slide.placeholders[1].text_frame
    frame.text = "one"
    for text, level in (("two", 1), ("three", 2), ("four", 0)):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    box(slide.shapes, "plain")
    titled(deck, "Cover", TITLE_SLIDE).placeholders[1].text = "no bullet here"
    found = checked(saved(deck), "a.pptx")
    assert lines(found) == [
        "# Points",
        "- one",
        "  - two",
        "    - three",
        "- four",
        "plain",
        "# Cover",
        "no bullet here",
    ]
    (block,) = (b for b in found.blocks if b.kind == "list")
    assert block.depths == (1, 2, 0)


def test_numbered_and_mixed_paragraphs():
    number = '<a:p><a:pPr lvl="{}"><a:buAutoNum type="arabicPeriod"{}/></a:pPr><a:r><a:t>{}</a:t></a:r></a:p>'
    bullet = '<a:p><a:pPr><a:buChar char="•"/></a:pPr><a:r><a:t>{}</a:t></a:r></a:p>'
    body = (
        number.format(0, "", "a") + number.format(1, ' startAt="4"', "b") + number.format(1, ' startAt="4"', "c")
        + number.format(0, "", "d") + words("lead") + number.format(0, "", "f") + bullet.format("e")
    )  # fmt: skip
    styles = '<a:lstStyle><a:lvl1pPr><a:buChar char="•"/></a:lvl1pPr></a:lstStyle>'
    own = text_shape(words("with") + "<a:p><a:pPr><a:buNone/></a:pPr><a:r><a:t>without</a:t></a:r></a:p>", extra=styles)
    found = checked(deck_of(text_shape(body) + own), "a.pptx")
    assert lines(found)[1:] == ["1. a", "  4. b", "  5. c", "2. d", "lead", "1. f", "- e", "- with", "without"]


def test_what_repeats_on_every_slide_is_left_out():
    """Footers, dates and numbers of slides; prompts of layouts; hidden shapes are told."""
    repeated = "".join(
        text_shape(words(kind), placeholder=f'<p:ph type="{kind}"/>') for kind in ("dt", "ftr", "sldNum", "hdr")
    )
    found = checked(
        deck_of(repeated + text_shape(words("hush"), properties='hidden="1"') + text_shape(words("seen"))), "a.pptx"
    )
    assert lines(found) == ["# Slide 1", "seen"]
    assert found.warnings == ("1 hidden shape was left out",)


def test_paragraphs_breaks_fields_and_equations():
    body = (
        '<a:p><a:r><a:t>one</a:t></a:r><a:br/><a:fld type="x" id="{0}"><a:t>two</a:t></a:fld><a:endParaRPr/></a:p>'
        '<a:p><mc:AlternateContent><mc:Choice Requires="a14"><a14:m><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath></a14:m></mc:Choice>'
        "<mc:Fallback><a:r><a:t>picture</a:t></a:r></mc:Fallback></mc:AlternateContent></a:p>"
    )
    wrapped = f"<mc:AlternateContent><mc:Choice Requires='z'>{text_shape(words('choice'))}</mc:Choice><mc:Fallback>{text_shape(words('fallback'))}</mc:Fallback></mc:AlternateContent>"
    assert lines(checked(deck_of(text_shape(body) + wrapped), "a.pptx")) == ["# Slide 1", "one", "two", "x=1", "choice"]


def test_tables_with_merged_cells():
    deck = Presentation()
    slide = titled(deck, "T")
    table = slide.shapes.add_table(3, 3, Inches(1), Inches(3), Inches(4), Inches(1)).table
    for at in range(9):
        table.cell(at // 3, at % 3).text = ("2023", "a|b", "c", "d", "e\nf", "g", "h", "i", "j")[at]
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 2).merge(table.cell(2, 2))
    assert lines(checked(saved(deck), "a.pptx"))[1:] == [
        "| 2023 a\\|b |  | c |", "| --- | --- | --- |", "| d | e f | g j |", "| h | i |  |",
    ]  # fmt: skip


def test_pictures_say_what_they_show():
    picture = (
        '<p:pic><p:nvPicPr><p:cNvPr id="4" name="Picture 3" descr="{}"/><p:cNvPicPr/><p:nvPr/></p:nvPicPr></p:pic>'
    )
    found = checked(deck_of(picture.format("a red pump") + picture.format("image 7.jpeg")), "a.pptx")
    assert lines(found) == ["# Slide 1", "a red pump"]


def test_charts():
    """Titles, categories, series and numbers, from what the chart has stored of its workbook."""
    deck = Presentation()
    slide = titled(deck, "Charts")
    data = CategoryChartData(number_format="0.0")
    data.categories = ["Q1", "Q2", "Q3"]
    data.add_series("North", (1.5, 2, None))
    data.add_series("South", (3, 0.1 + 0.2, 5))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(3), Inches(3), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales"
    chart.value_axis.has_title = True
    chart.value_axis.axis_title.text_frame.text = "EUR"
    chart.category_axis.has_title = True
    chart.category_axis.axis_title.text_frame.text = "Quarter"
    found = checked(saved(deck), "a.pptx")
    assert lines(found)[1:] == [
        "Sales", "EUR", "| Quarter | North | South |", "| --- | --- | --- |",
        "| Q1 | 1.5 | 3 |", "| Q2 | 2 | 0.3 |", "| Q3 |  | 5 |",
    ]  # fmt: skip
    assert found.warnings == ()


def test_charts_of_other_kinds():
    """Points have their own places each, bubbles their sizes; dates and levels of categories are spelled out."""
    deck = Presentation()
    slide = titled(deck, "Charts")
    points = XyChartData()
    for name, places in (("A", ((1, 2), (3, 4))), ("B", ((5, 6),))):
        series = points.add_series(name)
        for x, y in places:
            series.add_data_point(x, y)
    slide.shapes.add_chart(XL_CHART_TYPE.XY_SCATTER, 0, 0, Inches(3), Inches(3), points)
    bubbles = BubbleChartData()
    bubbles.add_series("C").add_data_point(1, 2, 30)
    slide.shapes.add_chart(XL_CHART_TYPE.BUBBLE, 0, 0, Inches(3), Inches(3), bubbles)
    days = CategoryChartData()
    days.categories = [date(2024, 3, 5), date(2024, 3, 6)]
    days.add_series("D", (7, 8))
    slide.shapes.add_chart(XL_CHART_TYPE.LINE, 0, 0, Inches(3), Inches(3), days)
    levels = CategoryChartData()
    for year in ("2023", "2024"):
        outer = levels.add_category(year)
        for quarter in ("Q1", "Q2"):
            outer.add_sub_category(quarter)
    levels.add_series("E", (1, 2, 3, 4))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(3), Inches(3), levels)
    text = checked(saved(deck), "a.pptx").text
    for table in (
        "|  | A |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n",
        "|  | B |\n| --- | --- |\n| 5 | 6 |\n",
        "|  | C | C |\n| --- | --- | --- |\n| 1 | 2 | 30 |\n",
        "|  | D |\n| --- | --- |\n| 2024-03-05 | 7 |\n| 2024-03-06 | 8 |\n",
        "|  | E |\n| --- | --- |\n| 2023 / Q1 | 1 |\n| 2023 / Q2 | 2 |\n| 2024 / Q1 | 3 |\n| 2024 / Q2 | 4 |\n",
    ):
        assert table in text


def frame(inner, uri=""):
    return f'<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="9" name="g"/></p:nvGraphicFramePr><a:graphic><a:graphicData uri="{uri}">{inner}</a:graphicData></a:graphic></p:graphicFrame>'


def test_smartart():
    point = "<dgm:pt modelId='{0}'><dgm:t><a:p><a:r><a:t>step {0}</a:t></a:r></a:p></dgm:t></dgm:pt>"
    data = f"{XML}<dgm:dataModel {NAMES}><dgm:ptLst>{point.format(1)}{point.format(2)}</dgm:ptLst></dgm:dataModel>"
    found = checked(
        deck_of(
            frame('<dgm:relIds r:dm="d"/>'),
            relations_of={1: [("d", "diagramData", "../diagrams/data1.xml")]},
            **{"ppt/diagrams/data1.xml": data},
        ),
        "a.pptx",
    )
    assert lines(found) == ["# Slide 1", "- step 1", "- step 2"]


def test_what_is_not_read_is_told():
    """Charts of newer kinds, embedded files, comments, slides without text."""
    uri = "http://schemas.microsoft.com/office/drawing/2014/chartex"
    comments = f"{XML}<p:cmLst {NAMES}><p:cm><p:text>why</p:text></p:cm><p:cm><p:text>so</p:text></p:cm></p:cmLst>"
    found = checked(
        deck_of(
            text_shape(words("x")) + frame('<x:chart xmlns:x="urn:x"/>', uri), "", "",
            relations_of={1: [("o", "oleObject", "../embeddings/a.bin"), ("k", "comments", "../comments/c1.xml")]},
            **{"ppt/comments/c1.xml": comments},
        ),
        "a.pptm",
    )  # fmt: skip
    assert found.warnings == (
        "slides without text: 2, 3 (of 3)",
        "1 chart of a newer kind was left out",
        "2 comments were left out",
        "1 embedded file was left out",
    )


def test_notes_are_only_the_presenters_words():
    """The picture of the slide, the date and the number on a page of notes are no notes."""
    deck = Presentation()
    slide = titled(deck, "One")
    frame_ = slide.notes_slide.notes_text_frame
    frame_.text = "first\nsecond"
    data = rewritten(
        saved(deck), "ppt/notesSlides/notesSlide1.xml", "<a:t>second</a:t>", "<a:t>second &amp; last</a:t>"
    )
    found = checked(data, "a.pptx")
    assert lines(found) == ["# One", "Notes:", "first", "second & last"]
    empty = titled(deck, "Two")
    empty.notes_slide.notes_text_frame.text = " "
    assert lines(checked(saved(deck), "a.pptx")).count("Notes:") == 1


def test_title_of_the_presentation():
    """A title slide's, else the file's own unless a program made it up, else the first slide's."""
    deck = Presentation()
    titled(deck, "Agenda")
    for own, title in (("PowerPoint Presentation", "Agenda"), ("", "Agenda"), ("Budget", "Budget")):
        deck.core_properties.title = own
        assert checked(saved(deck), "a.pptx").title == title


def test_a_presentation_without_text_is_empty():
    with pytest.raises(RejectedInput) as error:
        parse_bytes(deck_of("", ""), "a.pptx")
    assert error.value.code == "empty_file"


def test_a_damaged_presentation_is_refused():
    data = deck_of(text_shape(words("x")))
    lost = with_part(data, **{"ppt___rels__presentation.xml.rels": relations()})
    for damaged in (data[: len(data) // 2], lost, with_part(data, **{"ppt__slides__slide1.xml": "<p:sld"})):
        with pytest.raises(RejectedInput) as error:
            parse_bytes(damaged, "a.pptx")
        assert error.value.code == "pptx_broken"
