"""Word documents: what a reader sees once all changes are accepted, each piece once and apart from its neighbours."""

import io

import docx as python_docx
import pytest
from office_files import NAMES, XML, checked, chunked, package, relations, with_part, zipped

from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

STYLES = (
    '<w:style w:type="paragraph" w:default="1" w:styleId="Standard"><w:name w:val="Normal"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift1"><w:name w:val="heading 1"/><w:basedOn w:val="Standard"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="berschrift2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Titel"><w:name w:val="Title"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="berschrift2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Outline"><w:name w:val="Part"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Below"><w:name w:val="Below"/><w:basedOn w:val="Outline"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Round"><w:name w:val="Round"/><w:basedOn w:val="Round"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Listed"><w:name w:val="Listed"/><w:pPr><w:numPr><w:numId w:val="2"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Listed2"><w:name w:val="List Bullet 2"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    '<w:style w:type="character" w:styleId="Secret"><w:name w:val="Secret"/><w:rPr><w:vanish/></w:rPr></w:style>'
    '<w:style w:type="character" w:styleId="Open"><w:name w:val="Open"/><w:rPr><w:vanish w:val="0"/></w:rPr></w:style>'
    '<w:style w:type="paragraph" w:styleId="Quiet"><w:name w:val="Quiet"/><w:rPr><w:vanish/></w:rPr></w:style>'
)
LEVELS = "".join(
    f'<w:lvl w:ilvl="{level}"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/></w:lvl>'
    for level, (form, start) in enumerate([("decimal", 3), ("lowerLetter", 1), ("bullet", 1)])
)
NUMBERING = (
    '<w:abstractNum w:abstractNumId="7"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>'
    f'<w:abstractNum w:abstractNumId="8">{LEVELS}</w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num>'
    '<w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="8"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>'
)


def run(text, properties=""):
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def para(content, properties=""):
    return f"<w:p><w:pPr>{properties}</w:pPr>{content}</w:p>"


def styled(text, style):
    return para(run(text), f'<w:pStyle w:val="{style}"/>')


def item(text, key=1, level=0):
    return para(run(text), f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{key}"/></w:numPr>')


def gone(text):
    return f'<w:del w:id="1" w:author="x"><w:r><w:delText xml:space="preserve">{text}</w:delText></w:r></w:del>'


def ins(text):
    return f'<w:ins w:id="2" w:author="x">{run(text)}</w:ins>'


def cell(content, properties=""):
    return f"<w:tc><w:tcPr>{properties}</w:tcPr>{content}</w:tc>"


def row(*cells, properties=""):
    return f"<w:tr><w:trPr>{properties}</w:trPr>{''.join(cells)}</w:tr>"


def plain(*texts):
    return row(*(cell(para(run(text))) for text in texts))


def table(*rows):
    return f"<w:tbl><w:tblPr/>{''.join(rows)}</w:tbl>"


def document(body, relations_of_body=(), **parts):
    """A document with the styles and lists above; further parts by kind, such as `footnotes`."""
    stories = {kind: content for kind, content in parts.items() if kind in {"footnotes", "endnotes", "comments"}}
    files = {f"word/{kind}.xml": f"{XML}<w:{kind} {NAMES}>{content}</w:{kind}>" for kind, content in stories.items()}
    return package(
        "word/document.xml",
        {
            "word/document.xml": f"{XML}<w:document {NAMES}><w:body>{body}<w:sectPr/></w:body></w:document>",
            "word/styles.xml": f"{XML}<w:styles {NAMES}>{STYLES}</w:styles>",
            "word/numbering.xml": f"{XML}<w:numbering {NAMES}>{NUMBERING}</w:numbering>",
            "word/_rels/document.xml.rels": relations(
                *((kind, kind, f"{kind}.xml") for kind in ("styles", "numbering", *stories)), *relations_of_body
            ),
            **files,
            **{name: content for name, content in parts.items() if name not in stories},
        },
    )


def parse(body, *relations_of_body, **parts):
    return checked(document(body, relations_of_body, **parts), "a.docx")


def lines(body, *relations_of_body, **parts):
    """Lines that aren't blank."""
    return [line for line in parse(body, *relations_of_body, **parts).text.split("\n") if line]


def test_tracked_changes():
    """O-20: insertions stand, deletions don't, in no text and no prefix."""
    word = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    types = (
        '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
    )

    def bare(text):
        return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'

    body = (
        f"<w:p>{bare('The limit is ')}{gone('40')}<w:ins w:id='2' w:author='x'>{bare('55')}</w:ins>{bare(' bar.')}</w:p>"
        f"<w:p><w:ins w:id='2' w:author='x'>{bare('Added clause.')}</w:ins></w:p><w:p>{gone('Old clause.')}</w:p>"
    )
    data = zipped(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml")),
            "word/document.xml": f'<?xml version="1.0" encoding="UTF-8"?><w:document {word}><w:body>{body}</w:body></w:document>',
        },
        method=0,
    )
    found = checked(data, "terms.docx")
    assert [line for line in found.text.split("\n") if line.strip()] == ["The limit is 55 bar.", "Added clause."]
    everything = found.text + "".join(chunk.prefix + chunk.text for chunk in chunked(found))
    assert "40" not in everything
    assert "Old clause" not in everything


def test_deleted_paragraph_marks_join_paragraphs():
    """What stood before and after a deleted end of paragraph is one paragraph, of the kind of the second."""
    mark = '<w:rPr><w:del w:id="3" w:author="x"/></w:rPr>'
    moved = '<w:rPr><w:moveFrom w:id="3" w:author="x"/></w:rPr>'
    assert lines(para(run("one "), mark) + para(run("two"), moved) + styled(" three", "berschrift1")) == [
        "# one two three"
    ]
    assert lines(para(run("left"), mark) + table(plain("a", "b"))) == ["left", "| a | b |"]
    assert lines(para(run("last"), mark)) == ["last"]
    assert lines(para(gone("all gone"), mark) + para(run("stays"))) == ["stays"]


def test_moved_text_stands_at_its_new_place():
    moved_from = f'<w:moveFrom w:id="1" w:author="x">{run("the clause")}</w:moveFrom>'
    moved_to = f'<w:moveTo w:id="2" w:author="x">{run("the clause")}</w:moveTo>'
    assert lines(para(moved_from) + para(run("between")) + para(moved_to)) == ["between", "the clause"]


def test_deleted_rows_and_cells_are_gone():
    deleted = row(cell(para(run("x"))), cell(para(run("y"))), properties='<w:del w:id="1" w:author="x"/>')
    inserted = row(cell(para(run("4"))), cell(para(run("5"))), properties='<w:ins w:id="1" w:author="x"/>')
    cut = row(cell(para(run("6"))), cell(para(run("no")), '<w:cellDel w:id="1" w:author="x"/>'), cell(para(run("7"))))
    assert lines(table(plain("A", "B"), deleted, inserted, cut)) == [
        "| A | B |",
        "| --- | --- |",
        "| 4 | 5 |",
        "| 6 | 7 |",
    ]
    assert lines(para(run("p")) + table(deleted)) == ["p"]


def test_headings_by_style_in_any_language():
    """Names that Word gives its styles decide, whatever their ids; own styles rest on others; outline levels count."""
    found = parse(
        styled("The plan", "Titel") + styled("Eins", "berschrift1") + styled("Zwei", "Own") + styled("Drei", "Below")
        + para(run("direct"), '<w:outlineLvl w:val="4"/>')
        + para(run("no heading"), '<w:pStyle w:val="berschrift1"/><w:outlineLvl w:val="9"/>')
        + styled("turns", "Round") + styled("unknown", "Nowhere")
    )  # fmt: skip
    headings = [(block.level, block.title) for block in found.blocks if block.kind == "heading"]
    assert headings == [(1, "The plan"), (1, "Eins"), (2, "Zwei"), (3, "Drei"), (5, "direct")]
    assert found.title == "The plan"
    assert [b.kind for b in found.blocks][-3:] == ["paragraph"] * 3
    assert next(c for c in chunked(found) if "no heading" in c.text).heading_path == ("Eins", "Zwei", "Drei", "direct")


def test_a_title_that_a_heading_repeats_stands_once_as_a_heading():
    found = parse(styled("Annual report", "Titel") + styled("Annual  report", "berschrift1") + para(run("x")))
    assert [block.title for block in found.blocks if block.kind == "heading"] == ["Annual report"]
    assert found.blocks[0].kind == "paragraph"
    assert found.title == "Annual report"


def test_title_falls_back_to_properties_then_headings():
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
        'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">'
        "<dc:title> From  the file </dc:title><dc:creator>Ada; Grace</dc:creator><cp:keywords>a; b,c</cp:keywords>"
        "<dc:language>de-DE</dc:language><dcterms:created>2024-03-05T07:30:00Z</dcterms:created></cp:coreProperties>"
    )
    body = styled("Eins", "berschrift1") + para(run("x"))
    assert parse(body).title == "Eins"
    found = parse(body, **{"docProps/core.xml": core})
    assert found.title == "From the file"
    assert dict(found.metadata) == {
        "title": "From the file", "author": ("Ada", "Grace"), "keywords": ("a", "b", "c"), "language": "de-DE",
        "created": "2024-03-05T07:30:00Z", "created_epoch": 1709623800,
    }  # fmt: skip


def test_lists_nest_and_count():
    """Numbers go on after a paragraph and begin anew where the list says so; one list is one block."""
    found = parse(
        item("a") + item("b", level=1) + item("c", 2) + item("d", 2, 1) + item("e", 2, 1) + item("f", 2, 2)
        + para("") + item("g", 2) + para(run("between")) + item("h", 2) + item("i", 2, 1) + item("j", 3)
        + styled("k", "Listed") + styled("l", "Listed2")
    )  # fmt: skip
    first, second = (block for block in found.blocks if block.kind == "list")
    text = found.text
    assert text[first.start : first.end] == "- a\n  - b\n3. c\n  1. d\n  2. e\n    - f\n4. g\n"
    assert text[second.start : second.end] == "5. h\n  1. i\n1. j\n2. k\n  - l\n"
    assert [text[cut:].split("\n")[0].strip() for cut in first.cuts] == ["- b", "3. c", "1. d", "2. e", "- f", "4. g"]
    assert first.depths == (1, 0, 1, 1, 2, 0)


def test_a_list_that_is_cut_is_cut_at_its_outer_items():
    body = "".join(item(f"item {n} " + "word " * 12) + item(f"inner {n} " + "word " * 12, level=1) for n in range(6))
    for chunk in chunked(parse(body), 80):
        assert chunk.text.startswith("- item")


def test_no_list_where_numbering_is_taken_away():
    body = para(run("x"), '<w:pStyle w:val="Listed"/><w:numPr><w:ilvl w:val="0"/><w:numId w:val="0"/></w:numPr>')
    assert lines(body) == ["x"]


def test_tables():
    """Cells stay apart, spans leave blanks, pipes are escaped, breaks are blanks, a table inside is read once."""
    inner = table(plain("in 1", "in 2"), plain("in 3", "in 4"))
    body = table(
        plain("Part", "Cost", "Qty"),
        row(cell(para(run("wide")), '<w:gridSpan w:val="2"/>'), cell(para(run("a|b")))),
        row(cell(para(run("tall")), '<w:vMerge w:val="restart"/>'), cell(para(run("up") + "<w:r><w:br/></w:r>" + run("down"))), cell(inner)),
        row(cell(para(""), "<w:vMerge/>"), cell(para(run("p1")) + para(run("p2"))), cell(item("li", 2))),
    )  # fmt: skip
    found = parse(body)
    assert found.text.split("\n")[:6] == [
        "| Part | Cost | Qty |",
        "| --- | --- | --- |",
        "| wide |  | a\\|b |",
        "| tall | up down | in 1, in 2; in 3, in 4 |",
        "|  | p1 p2 | li |",
        "",
    ]
    (block,) = found.blocks
    assert found.text[block.header_end :].startswith("| wide")
    assert [found.text[cut:][:6] for cut in block.cuts] == ["| tall", "|  | p"]


def test_a_long_table_repeats_its_header():
    body = table(plain("Part", "Cost"), *(plain(f"bolt number {n}", f"{n} euro") for n in range(60)))
    found = chunked(parse(body), 80)
    assert len(found) > 5
    assert all(chunk.prefix == "| Part | Cost |\n| --- | --- |\n" for chunk in found[1:])
    assert all(chunk.text.startswith("| bolt") for chunk in found[1:])


def test_marked_header_rows_all_repeat():
    mark = "<w:tblHeader/>"
    body = table(
        row(cell(para(run("2023"))), cell(para(run("2024"))), properties=mark),
        row(cell(para(run("plan"))), cell(para(run("real"))), properties=mark),
        *(plain(f"{n} thousand", f"{n} million") for n in range(60)),
    )
    found = chunked(parse(body), 80)
    assert {chunk.prefix for chunk in found[1:]} == {"| 2023 | 2024 |\n| --- | --- |\n| plan | real |\n"}


def test_tables_that_arrange_the_page_are_read_as_the_page():
    """One column, or sections in cells: paragraphs, headings and lists as they are."""
    assert lines(table(row(cell(para(run("boxed")) + item("x"))))) == ["boxed", "- x"]
    sections = table(
        row(cell(styled("Left", "berschrift1") + para(run("l"))), cell(styled("Right", "berschrift1") + para(run("r"))))
    )
    assert lines(sections) == ["# Left", "l", "# Right", "r"]
    labels = table(row(cell(styled("Name", "berschrift2")), cell(styled("Age", "berschrift2"))), plain("Ann", "41"))
    assert lines(labels) == ["| Name | Age |", "| --- | --- |", "| Ann | 41 |"]


def test_text_boxes_are_read_once_after_their_paragraph():
    box = f"<w:txbxContent>{para(run('in the box'))}{item('point')}</w:txbxContent>"
    body = para(
        run("before ")
        + f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wps:txbx>{box}</wps:txbx></w:drawing></mc:Choice>'
        f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        + run("after")
    )
    assert lines(body + para(run("next"))) == ["before after", "in the box", "- point", "next"]
    old = para(f"<w:r><w:pict><v:shape><v:textbox>{box}</v:textbox></v:shape></w:pict></w:r>")
    assert lines(old) == ["in the box", "- point"]
    assert lines(item("x") + old + item("y")) == ["- x", "in the box", "- point", "- y"]


def test_what_stands_around_text_is_looked_through():
    body = para(
        f'<w:hyperlink r:id="r9">{run("link ")}</w:hyperlink><w:smartTag w:uri="u" w:element="e">{run("tag ")}</w:smartTag>'
        f"<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>{run('control ')}</w:sdtContent></w:sdt>"
        f'<w:customXml w:element="e">{run("custom ")}</w:customXml><w:bdo w:val="rtl">{run("turned ")}</w:bdo>'
        f'<x:later xmlns:x="urn:later">{run("unknown")}</x:later>'
    )
    block = f"<w:sdt><w:sdtPr/><w:sdtContent>{para(run('block control'))}</w:sdtContent></w:sdt>"
    rows = table(
        f"<w:sdt><w:sdtContent>{plain('a', 'b')}</w:sdtContent></w:sdt>",
        f"<w:customXml>{plain('1', '2')}</w:customXml>",
    )
    assert lines(body + block + rows) == [
        "link tag control custom turned unknown", "block control", "| a | b |", "| --- | --- |", "| 1 | 2 |",
    ]  # fmt: skip


def field(kind):
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def test_fields_give_their_results():
    """Instructions are no text, nor are results of fields inside them; a field may reach over paragraphs."""
    instruction = "<w:r><w:instrText>IF x = 1</w:instrText></w:r>"
    nested = field("begin") + instruction + field("separate") + run("inner") + field("end")
    whole = field("begin") + instruction + nested + field("separate") + run("shown") + field("end")
    simple = f'<w:fldSimple w:instr="PAGE">{run(" simple")}</w:fldSimple>'
    assert lines(para(run("a ") + whole + run(" b") + simple)) == ["a shown b simple"]
    contents = para(field("begin") + instruction + field("separate") + run("Eins 1")) + para(
        run("Zwei 2") + field("end") + run("!")
    )
    assert lines(contents) == ["Eins 1", "Zwei 2!"]


def test_a_field_without_an_end_swallows_nothing():
    assert lines(para(field("begin") + run("kept")) + para(run("too"))) == ["kept", "too"]
    assert lines(para(field("end") + field("separate") + run("kept"))) == ["kept"]


def test_notes_follow_what_refers_to_them():
    """Numbers count through both kinds as the text refers to them; each note is told once, deleted ones never."""
    foot, end = '<w:r><w:footnoteReference w:id="{}"/></w:r>', '<w:r><w:endnoteReference w:id="{}"/></w:r>'
    footnotes = (
        f'<w:footnote w:id="0" w:type="separator">{para(run("-----"))}</w:footnote>'
        f'<w:footnote w:id="2">{para("<w:r><w:footnoteRef/></w:r>" + run(" at 20 C"))}{para(run("and 1 bar"))}</w:footnote>'
        f'<w:footnote w:id="3">{para(run("of the list"))}</w:footnote><w:footnote w:id="4">{para(run("never"))}</w:footnote>'
    )
    endnotes = f'<w:endnote w:id="2">{para(run("the end") + foot.format(2))}</w:endnote>'
    body = (
        styled("Head", "berschrift1").replace("</w:p>", end.format(2) + "</w:p>")
        + para(run("55 bar.") + foot.format(2) + f"<w:del>{foot.format(4)}</w:del>" + foot.format(99))
        + item("x").replace("</w:p>", foot.format(3) + "</w:p>") + item("y") + para(run("z"))
    )  # fmt: skip
    found = parse(body, footnotes=footnotes, endnotes=endnotes)
    assert [line for line in found.text.split("\n") if line] == [
        "# Head", "[1] the end[2]", "[2] at 20 C and 1 bar", "55 bar.[2]", "- x[3]", "- y", "[3] of the list", "z",
    ]  # fmt: skip
    assert found.blocks[0].title == "Head"


def test_comments_hidden_text_and_prompts_are_told():
    """What is left out and may hold text is counted in warnings."""
    prompt = f"<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr><w:sdtContent>{run('Click here')}</w:sdtContent></w:sdt>"
    found = parse(
        para(run("seen") + run("hush", "<w:vanish/>") + run("psst", '<w:rStyle w:val="Secret"/>') + prompt)
        + styled("quiet", "Quiet")
        + para(run(" loud", '<w:vanish w:val="0"/>'), '<w:pStyle w:val="Quiet"/>')
        + para(run(" open", '<w:rStyle w:val="Open"/>'), '<w:pStyle w:val="Quiet"/>')
        + '<w:altChunk r:id="alt"/>',
        ("alt", "aFChunk", "chunk.html"),
        comments=f'<w:comment w:id="1">{para(run("why?"))}</w:comment><w:comment w:id="2">{para(run("so"))}</w:comment>',
    )
    assert found.text.split() == ["seen", "loud", "open"]
    assert found.warnings == (
        "2 comments were left out",
        "13 characters of hidden text were left out",
        "1 prompt of an empty field was left out",
        "1 embedded file was left out",
    )


def test_characters_that_are_elements():
    body = para(
        run("a") + "<w:r><w:tab/></w:r>" + run("b") + "<w:r><w:br/></w:r>" + run("c") + "<w:r><w:noBreakHyphen/></w:r>"
        + run("d") + "<w:r><w:softHyphen/></w:r>" + run("e") + '<w:r><w:br w:type="page"/></w:r>' + run("f ")
        + '<w:r><w:sym w:font="Symbol" w:char="F06D"/><w:sym w:font="Wingdings" w:char="F0FC"/>'
        '<w:sym w:font="Odd" w:char="F041"/><w:sym w:font="Arial" w:char="2264"/><w:sym w:font="Symbol" w:char="zz"/></w:r>'
        + "<w:r><w:ruby><w:rubyPr/><w:rt>" + run("kana") + "</w:rt><w:rubyBase>" + run("kanji") + "</w:rubyBase></w:ruby></w:r>"
    )  # fmt: skip
    assert lines(body) == ["a b", "c-de", "f μ✓≤kanji(kana)"]


def test_equations():
    def t(text):
        return f"<m:r><w:rPr/><m:t>{text}</m:t></m:r>"

    def e(tag, content):
        return f"<m:{tag}>{content}</m:{tag}>"

    power = e("sSup", e("e", t("c")) + e("sup", t("2")))
    half = e("f", "<m:fPr/>" + e("num", t("a+b")) + e("den", t("2")))
    root = e("rad", "<m:radPr/><m:deg/>" + e("e", t("x")))
    total = e(
        "nary", '<m:naryPr><m:chr m:val="∑"/></m:naryPr>' + e("sub", t("i=1")) + e("sup", t("n")) + e("e", t("i"))
    )
    brackets = e("d", '<m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr>' + e("e", t("u")) + e("e", t("v")))
    grid = e("m", e("mr", e("e", t("1")) + e("e", t("0"))) + e("mr", e("e", t("0")) + e("e", t("1"))))
    body = para(run("with ") + e("oMath", t("E=m") + power) + run(" so")) + para(
        e("oMathPara", e("oMath", half + t("=") + root))
    )
    assert lines(body) == ["with E=mc^2 so", "(a+b)/2=√(x)"]
    assert lines(para(e("oMath", total)) + e("oMath", brackets) + para(e("oMath", grid))) == [
        "∑_(i=1)^ni",
        "[u|v]",
        "1, 0; 0, 1",
    ]


def test_pictures_say_what_they_show():
    """Alternative text stands in place, once; a file's name is none."""

    def drawn(words, inner="", name="Picture 1"):
        return (
            f'<w:r><w:drawing><wp:inline><wp:docPr id="1" name="{name}" descr="{words}"/><a:graphic><a:graphicData>'
            f'<pic:pic><pic:nvPicPr><pic:cNvPr id="1" name="x" descr="{inner}"/></pic:nvPicPr></pic:pic>'
            "</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
        )

    body = para(
        run("see")
        + drawn("sales curve", "sales curve")
        + run("here")
        + drawn("C:\\img\\Foto 1.PNG")
        + drawn("", "in a group")
    )
    assert lines(body) == ["see sales curve here in a group"]
    old = para('<w:r><w:pict><v:shape alt="old words"><v:textpath string="DRAFT"/></v:shape></w:pict></w:r>')
    assert lines(old) == ["old words DRAFT"]


CHART = (
    f"{XML}<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    "<c:plotArea><c:barChart>"
    "<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>North</c:v></c:pt></c:strCache></c:strRef></c:tx>"
    "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>Q1</c:v></c:pt><c:pt idx='1'><c:v>Q2</c:v></c:pt></c:strCache></c:strRef></c:cat>"
    "<c:val><c:numRef><c:numCache><c:formatCode>General</c:formatCode><c:pt idx='0'><c:v>1.50</c:v></c:pt>"
    "<c:pt idx='1'><c:v>2.0</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser>"
    "</c:barChart></c:plotArea></c:chart></c:chartSpace>"
)


def test_charts_and_smartart_are_read_from_their_parts():
    diagram = (
        f"{XML}<dgm:dataModel {NAMES}><dgm:ptLst><dgm:pt modelId='0' type='doc'/>"
        + "".join(
            f"<dgm:pt modelId='{n}'><dgm:t><a:p><a:r><a:t>{text}</a:t></a:r></a:p></dgm:t></dgm:pt>"
            for n, text in ((3, "child"), (1, "first"), (2, "second"))
        )
        + "<dgm:pt modelId='9' type='pres'><dgm:t><a:p><a:r><a:t>again</a:t></a:r></a:p></dgm:t></dgm:pt></dgm:ptLst>"
        "<dgm:cxnLst><dgm:cxn srcId='0' destId='2' srcOrd='1'/><dgm:cxn srcId='0' destId='1' srcOrd='0'/>"
        "<dgm:cxn srcId='1' destId='3' srcOrd='0'/><dgm:cxn srcId='3' destId='1' srcOrd='0'/></dgm:cxnLst></dgm:dataModel>"
    )
    graphic = "<w:r><w:drawing><wp:inline><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></wp:inline></w:drawing></w:r>"
    body = para(run("see") + graphic.format('<c:chart r:id="c"/>') + graphic.format('<dgm:relIds r:dm="d"/>'))
    found = lines(
        body + para(run("end")), ("c", "chart", "charts/chart1.xml"), ("d", "diagramData", "diagrams/data1.xml"),
        **{"word/charts/chart1.xml": CHART, "word/diagrams/data1.xml": diagram},
    )  # fmt: skip
    assert found == [
        "see", "Sales", "|  | North |", "| --- | --- |", "| Q1 | 1.5 |", "| Q2 | 2 |",
        "- first", "  - child", "- second", "end",
    ]  # fmt: skip


def test_payloads_lose_their_bytes():
    assert lines(para(run("data:image/png;base64," + "A" * 400))) == ["data:image/png"]


def test_strict_files_are_read_the_same():
    """The other edition of the standard names everything differently."""
    body = "<w:p><w:pPr><w:outlineLvl w:val='0'/></w:pPr><w:r><w:t>Strict</w:t></w:r></w:p>"
    rels = relations(("m", "officeDocument", "word/document.xml")).replace(
        "http://schemas.openxmlformats.org/officeDocument/2006/relationships/",
        "http://purl.oclc.org/ooxml/officeDocument/relationships/",
    )
    strict = 'xmlns:w="http://purl.oclc.org/ooxml/wordprocessingml/main"'
    data = with_part(
        document(""),
        **{
            "_rels__.rels": rels,
            "word__document.xml": f"{XML}<w:document {strict}><w:body>{body}</w:body></w:document>",
        },
    )
    assert checked(data, "a.docx").text == "# Strict\n\n"


def test_files_by_a_library():
    """What python-docx writes, with the styles of Word's own template."""
    made = python_docx.Document()
    made.add_heading("The report", 0)
    made.add_heading("Intro", 1)
    made.add_paragraph("Hello world.")
    made.add_paragraph("one", style="List Bullet")
    made.add_paragraph("two", style="List Bullet 2")
    made.add_paragraph("x", style="List Number")
    grid = made.add_table(2, 2)
    for at, text in enumerate(("Part", "Cost", "Bolt", "9")):
        grid.cell(at // 2, at % 2).text = text
    made.sections[0].header.paragraphs[0].text = "on every page"
    out = io.BytesIO()
    made.save(out)
    found = checked(out.getvalue(), "report.dotx")
    assert [line for line in found.text.split("\n") if line] == [
        "# The report", "# Intro", "Hello world.", "- one", "  - two", "1. x", "| Part | Cost |", "| --- | --- |", "| Bolt | 9 |",
    ]  # fmt: skip
    assert found.kind == "docx"
    assert found.page_starts == ()


def test_a_damaged_part_that_can_be_spared_is_told():
    data = with_part(document(para(run("body stays"))), **{"word__styles.xml": "<w:styles"})
    found = checked(data, "a.docx")
    assert found.text == "body stays\n\n"
    assert found.warnings == ("word/styles.xml is damaged and was left out",)


@pytest.mark.parametrize("body", ["", para(""), para(gone("all")), para(run("x", "<w:vanish/>"))])
def test_a_document_without_text_is_empty(body):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(document(body), "a.docx")
    assert error.value.code == "empty_file"


def test_a_damaged_document_is_refused():
    data = document(para(run("x")))
    for damaged in (
        data[: len(data) // 2],
        with_part(data, **{"word__document.xml": "<w:document"}),
        with_part(data, **{"_rels__.rels": "<"}),
    ):
        with pytest.raises(RejectedInput) as error:
            parse_bytes(damaged, "a.docx")
        assert error.value.code == "docx_broken"
        assert "a.docx" in error.value.message
        assert error.value.remedy


@pytest.mark.parametrize(
    ("before", "raised", "text"),
    [
        ("10", "6", "10^6"),
        ("10", "-3", "10^-3"),
        ("m", "2", "m2"),
        ("1", "st", "1st"),
        ("", "1", "1"),
    ],
)
def test_powers_are_no_further_digits(before, raised, text):
    raised_run = run(raised, '<w:vertAlign w:val="superscript"/>')
    assert lines(para(run(before) + raised_run)) == [text]
    assert lines(para(run(before) + run(raised))) == [before + raised]
