"""Office packages from hostile hands: bounded, never trusted, and refused by name; and how they are recognised."""

import io
import time
import zipfile
from random import Random

import docx as python_docx
import openpyxl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from office_files import NAMES, TYPES, XML, checked, package, relations, with_part, zipped
from pptx import Presentation

from pipeline.errors import RejectedInput
from pipeline.parse import detect, parse_bytes
from pipeline.parse.office import ooxml

CODES = {"docx_broken", "pptx_broken", "xlsx_broken", "too_large_inside", "encrypted", "empty_file", "unsupported"}
SECONDS = 20
"""Far more than any refusal needs, far less than what it refuses would take."""


def body(content, namespaces=NAMES):
    return f"{XML}<w:document {namespaces}><w:body>{content}</w:body></w:document>"


def word(content="<w:p><w:r><w:t>words</w:t></w:r></w:p>", **parts):
    named = {name.replace("__", "/"): value for name, value in parts.items()}
    return package("word/document.xml", {"word/document.xml": body(content), **named})


def sheet(rows):
    parts = {
        "xl/workbook.xml": f'{XML}<s:workbook {NAMES}><s:sheets><s:sheet name="S" sheetId="1" r:id="s"/></s:sheets></s:workbook>',
        "xl/_rels/workbook.xml.rels": relations(("s", "worksheet", "sheet.xml")),
        "xl/sheet.xml": f"{XML}<s:worksheet {NAMES}><s:sheetData>{rows}</s:sheetData></s:worksheet>",
    }
    return package("xl/workbook.xml", parts)


def deck(shapes):
    parts = {
        "ppt/presentation.xml": f'{XML}<p:presentation {NAMES}><p:sldIdLst><p:sldId id="1" r:id="s"/></p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(("s", "slide", "slide.xml")),
        "ppt/slide.xml": f"{XML}<p:sld {NAMES}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>",
    }
    return package("ppt/presentation.xml", parts)


def refused(data, name="a.docx"):
    """The refusal, which must come in time."""
    began = time.process_time()
    with pytest.raises(RejectedInput) as error:
        parse_bytes(data, name)
    assert time.process_time() - began < SECONDS
    assert name in error.value.message
    assert error.value.code in CODES
    return error.value


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE w [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>',
        '<!DOCTYPE w [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE w SYSTEM "http://x.test/a.dtd">',
        "<!DOCTYPE w>",
    ],
)
@pytest.mark.parametrize("part", ["word/document.xml", "[Content_Types].xml/../_rels/.rels", "_rels/.rels"])
def test_declared_entities_are_refused(declared, part):
    """No document type, so no entity, inside or outside: nothing grows and nothing is fetched."""
    parts = {
        "[Content_Types].xml": TYPES,
        "_rels/.rels": relations(("m", "officeDocument", "word/document.xml")),
        "word/document.xml": body(""),
    }
    place = part.rpartition("../")[2]
    hostile = parts[place].replace(XML, XML + declared)
    assert refused(zipped({**parts, place: hostile})).code == "docx_broken"


def test_a_part_of_one_repeated_byte_is_refused():
    """Forty MB in forty KB, in the part that is read; the same in a picture that isn't read costs nothing."""
    blank = b" " * (40 << 20)
    error = refused(word(**{"word__document.xml": XML.encode() + blank}))
    assert error.code == "too_large_inside"
    assert "word/document.xml" in error.message
    assert checked(word(word__media__image1_png=blank), "a.docx").text == "words\n\n"


def test_sizes_are_counted_as_they_come(monkeypatch):
    """What the directory says of a part's size is no measure: bytes are counted while they are read."""
    monkeypatch.setattr(ooxml, "PART_BYTES_MAX", 200_000)
    content = "".join(f"<w:p><w:r><w:t>{n * 7919}</w:t></w:r></w:p>" for n in range(9000))
    assert "word/document.xml has more than" in refused(word(content)).message
    monkeypatch.setattr(ooxml, "PART_BYTES_MAX", 1 << 30)
    monkeypatch.setattr(ooxml, "TOTAL_BYTES_MAX", 200_000)
    assert "its parts have more than" in refused(word(content)).message


def test_a_directory_that_lies_is_refused():
    data = bytearray(word("<w:p><w:r><w:t>words</w:t></w:r></w:p>" * 50))
    at = data.index(b"PK\x01\x02")
    while data[at + 46 : at + 63] != b"word/document.xml":
        at = data.index(b"PK\x01\x02", at + 4)
    for offset, value in ((24, 10), (16, 0), (10, 12), (10, 99), (8, 1), (42, 7)):
        lying = bytearray(data)
        lying[at + offset] = value
        refused(bytes(lying))


def test_too_many_entries_are_refused(monkeypatch):
    monkeypatch.setattr(ooxml, "ENTRIES_MAX", 50)
    error = refused(word(**{f"word__media__{n}": "" for n in range(60)}))
    assert error.code == "too_large_inside"
    monkeypatch.setattr(ooxml, "_SIGNATURES_MAX", 50)
    assert refused(word(**{f"word__media__{n}": "" for n in range(60)})).code == "too_large_inside"


@pytest.mark.parametrize(
    ("make", "opened", "name"),
    [
        (word, "<w:tbl><w:tr><w:tc>", "a.docx"), (word, "<w:p>", "a.docx"), (word, "<w:sdt><w:sdtContent>", "a.docx"),
        (word, "<w:p><m:oMath><m:f><m:num>", "a.docx"), (word, "<w:r><w:pict>", "a.docx"), (word, "<unknown>", "a.docx"),
        (deck, "<p:grpSp>", "a.pptx"), (deck, "<p:sp><p:txBody><a:p><a:r>", "a.pptx"), (sheet, "<s:row>", "a.xlsx"), (sheet, "<s:c>", "a.xlsx"),
    ],
)  # fmt: skip
def test_deep_nesting_is_refused(make, opened, name):
    """Ten thousand levels are refused; what is just allowed is read without running out of stack."""
    closed = "".join(f"</{tag}" for tag in reversed(opened.replace("<", " ").split()))
    words = "<w:p><w:r><w:t>deep</w:t></w:r></w:p>"
    error = refused(make(opened * 10_000 + closed * 10_000), name)
    assert error.code == "too_large_inside"
    assert "inside each other" in error.message
    levels = (ooxml.DEPTH_MAX - 8) // opened.count("<")
    allowed = attempt(make(opened * levels + words + closed * levels), name)
    assert allowed is None or allowed.code == "empty_file"


def test_unclosed_elements_by_the_million_are_refused():
    refused(package("word/document.xml", {"word/document.xml": f"{XML}<w:document {NAMES}>" + "<a>" * 1_000_000}))


def test_elements_are_counted(monkeypatch):
    """Small elements cost far more than their bytes: what is held is bounded, and what is read."""
    monkeypatch.setattr(ooxml, "ELEMENTS_MAX", 1000)
    assert "elements of XML at once" in refused(word("<w:p/>" * 2000)).message
    cells = '<s:row><s:c r="A1"><s:v>1</s:v></s:c></s:row>'
    assert checked(sheet(cells * 2000), "a.xlsx")
    assert "at once" in refused(sheet(f"<s:row>{'<s:c/>' * 2000}</s:row>"), "a.xlsx").message
    monkeypatch.setattr(ooxml, "STREAMED_MAX", 3000)
    assert "elements of XML" in refused(sheet(cells * 2000), "a.xlsx").message


def test_a_row_of_a_million_columns_is_refused():
    error = refused(sheet(f"<s:row>{'<s:c><s:v>1</s:v></s:c>' * 1_000_000}</s:row>"), "a.xlsx")
    assert error.code in {"xlsx_broken", "too_large_inside"}


def test_relations_in_circles_end():
    """Slides that name each other, notes that refer to themselves, styles and lists that rest on themselves."""
    parts = {
        "ppt/presentation.xml": f'{XML}<p:presentation {NAMES}><p:sldIdLst><p:sldId id="1" r:id="s"/><p:sldId id="2" r:id="s"/></p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(
            ("s", "slide", "slide.xml"), ("p", "presentation", "presentation.xml")
        ),
        "ppt/slide.xml": f"{XML}<p:sld {NAMES}><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>round</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>",
        "ppt/_rels/slide.xml.rels": relations(
            ("n", "notesSlide", "slide.xml"), ("l", "slideLayout", "slide.xml"), ("c", "comments", "slide.xml")
        ),
        "ppt/_rels/layout.xml.rels": relations(("m", "slideMaster", "slide.xml")),
    }
    found = checked(package("ppt/presentation.xml", parts), "a.pptx")
    assert found.text.count("round") == 2
    styles = f'<w:styles {NAMES}><w:style w:type="paragraph" w:styleId="A"><w:basedOn w:val="B"/></w:style><w:style w:type="paragraph" w:styleId="B"><w:basedOn w:val="A"/></w:style></w:styles>'
    numbering = f'<w:numbering {NAMES}><w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="A"/></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num></w:numbering>'
    note = f'<w:footnotes {NAMES}><w:footnote w:id="1"><w:p><w:r><w:t>self</w:t><w:footnoteReference w:id="1"/></w:r></w:p></w:footnote></w:footnotes>'
    data = word(
        '<w:p><w:pPr><w:pStyle w:val="A"/><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>x</w:t><w:footnoteReference w:id="1"/></w:r></w:p>',
        word__styles_xml=styles,
    )
    data = with_part(data, **{
        "word__styles.xml": styles, "word__numbering.xml": numbering, "word__footnotes.xml": note,
        "word___rels__document.xml.rels": relations(("s", "styles", "styles.xml"), ("n", "numbering", "numbering.xml"), ("f", "footnotes", "footnotes.xml")),
    })  # fmt: skip
    assert checked(data, "a.docx").text == "- x[1]\n\n[1] self[1]\n\n"


def test_a_slide_that_is_shown_a_million_times_is_bounded(monkeypatch):
    """A few bytes that name the same part again and again: what is read is counted each time."""
    ids = '<p:sldId id="1" r:id="s"/>' * 20_000
    parts = {
        "ppt/presentation.xml": f"{XML}<p:presentation {NAMES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(("s", "slide", "slide.xml")),
        "ppt/slide.xml": f"{XML}<p:sld {NAMES}><p:cSld><p:spTree>{'<p:sp/>' * 100}</p:spTree></p:cSld></p:sld>",
    }
    data = package("ppt/presentation.xml", parts)
    for limit, value in (("STREAMED_MAX", 50_000), ("READS_MAX", 500), ("TOTAL_BYTES_MAX", 1 << 20)):
        with monkeypatch.context() as patched:
            patched.setattr(ooxml, limit, value)
            assert refused(data, "a.pptx").code == "too_large_inside"


def test_names_of_parts():
    """Case and slashes of names, places above and outside, parts without a list: read as the programs do."""
    content = body("<w:p><w:r><w:t>found</w:t></w:r></w:p>")
    for main, place in (
        ("word/document.xml", "Word\\Document.XML"),
        ("/word/document.xml", "word/document.xml"),
        ("../../word/./document%2Exml#x", "word/document.xml"),
        ("doc/main.xml", "doc/main.xml"),
    ):
        parts = {"_rels/.rels": relations(("m", "officeDocument", main)), place: content}
        parts["[Content_Types].xml"] = TYPES.replace(
            "/>", ">application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml</Types>"
        )
        assert checked(zipped(parts), "x").text == "found\n\n"
    without = zipped({"[Content_Types].xml": TYPES, "word/document.xml": content})
    assert checked(without, "x").text == "found\n\n"
    outside = package("http://x.test/document.xml", {"word/other.xml": content})
    assert "no part is named as the main one" in refused(outside).message


def test_encodings_of_parts():
    content = body("<w:p><w:r><w:t>größer</w:t></w:r></w:p>").removeprefix(XML)
    for encoding in ("utf-16", "utf-8-sig", "iso-8859-1", "windows-1252"):
        declared = f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?>{content}'.encode(encoding)
        assert checked(word(**{"word__document.xml": declared}), "a.docx").text == "größer\n\n"
    for wrong in ("x-unknown", "shift_jis", "utf-8"):
        declared = f'<?xml version="1.0" encoding="{wrong}"?>{content}'.encode("iso-8859-1")
        assert refused(word(**{"word__document.xml": declared})).code == "docx_broken"


OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def test_packages_under_a_password_are_told():
    data = OLE + b"\0" * 2000 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 200
    for name in ("a.docx", "a.xlsx", "notes.txt"):
        error = refused(data, name)
        assert error.code == "encrypted"
        assert error.remedy
    locked = bytearray(word())
    for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        at = -1
        while (at := locked.find(mark, at + 1)) >= 0:
            locked[at + offset] |= 1
    assert refused(bytes(locked)).code == "encrypted"


def odf(kind):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("content.xml", "<x/>")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "what", "remedy"),
    [
        (odf("application/vnd.oasis.opendocument.text"), "an OpenDocument text", ".docx"),
        (odf("application/vnd.oasis.opendocument.spreadsheet"), "an OpenDocument spreadsheet", ".xlsx"),
        (odf("application/vnd.oasis.opendocument.presentation"), "an OpenDocument presentation", ".pptx"),
        (odf("application/vnd.oasis.opendocument.graphics"), "an OpenDocument file", "PDF"),
        (odf("application/epub+zip"), "an EPUB book", "HTML"),
        (zipped({"META-INF/container.xml": "x"}), "an EPUB book", "HTML"),
        (zipped({"[Content_Types].xml": TYPES, "xl/workbook.bin": "x", "xl/worksheets/sheet1.bin": "x"}), "(.xlsb)", ".xlsx"),
        (zipped({"Index/Document.iwa": "x"}), "Apple Pages", ".docx"),
        (zipped({"[Content_Types].xml": TYPES, "visio/document.xml": "x"}), "Visio", "PDF"),
        (zipped({"a.txt": "x"}), "a zip archive", "Unpack"),
        (b"{\\rtf1\\ansi words}", "an RTF document", ".docx"),
        (b"%!PS-Adobe-3.0\n", "a PostScript document", "PDF"),
        (b"AT&TFORM\0\0\0\1DJVM", "a DjVu document", "PDF"),
        (OLE + b"\0" * 600, "an old Microsoft Office file", ".docx"),
    ],
)  # fmt: skip
def test_relatives_that_are_not_read_are_named(data, what, remedy):
    """What a file is and what to do about it, whatever its name says."""
    error = refused(data, "notes.docx")
    assert error.code == "unsupported"
    assert what in error.message
    assert remedy in error.remedy


def made():
    """A file of each kind by a library."""
    files = {}
    for kind, book in (("docx", python_docx.Document()), ("pptx", Presentation()), ("xlsx", openpyxl.Workbook())):
        if kind == "docx":
            book.add_heading("Head", 1)
            book.add_paragraph("some words", style="List Bullet")
            book.add_table(2, 2).cell(0, 0).text = "cell"
        elif kind == "pptx":
            book.slides.add_slide(book.slide_layouts[1]).shapes.title.text = "Head"
            book.slides[0].notes_slide.notes_text_frame.text = "say"
        else:
            book.active.append(["a", "b"])
            book.active.append([1, "=A2"])
        out = io.BytesIO()
        book.save(out)
        files[kind] = out.getvalue()
    return files


MADE = made()
PARTS = {
    kind: {name: zipfile.ZipFile(io.BytesIO(data)).read(name) for name in zipfile.ZipFile(io.BytesIO(data)).namelist()}
    for kind, data in MADE.items()
}


@pytest.mark.parametrize("kind", sorted(MADE))
def test_names_do_not_decide(kind):
    for name in ("a.docm", "a.zip", "notes.md", "noext"):
        assert detect(MADE[kind], name) == kind
    assert parse_bytes(MADE[kind], "x").kind == kind


def attempt(data, name):
    """The refusal, or None for a valid document; nothing else may come of any bytes."""
    try:
        if detect(data, name) in MADE:
            checked(data, name)
        else:
            parse_bytes(data, name)  # too little is left to tell what it was
    except RejectedInput as error:
        return error
    return None


def survives(data, name):
    error = attempt(data, name)
    assert error is None or (error.code in CODES | {"undecodable"} and error.message.strip())


FUZZ = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@FUZZ
@given(kind=st.sampled_from(sorted(MADE)), data=st.data())
def test_flipped_and_cut_packages(kind, data):
    """Bytes of the zip itself: flipped, cut off, doubled."""
    raw = bytearray(MADE[kind])
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    survives(bytes(raw[: data.draw(st.sampled_from((len(raw), cut)))]), f"a.{kind}")


@FUZZ
@given(kind=st.sampled_from(sorted(MADE)), data=st.data())
def test_broken_parts(kind, data):
    """Bytes of one part: flipped, cut off, replaced, a piece repeated, the part gone."""
    parts = dict(PARTS[kind])
    name = data.draw(st.sampled_from(sorted(one for one in parts if one.endswith((".xml", ".rels")))))
    content = parts[name]
    first, second = sorted((data.draw(st.integers(0, len(content))), data.draw(st.integers(0, len(content)))))
    way = data.draw(st.sampled_from(("gone", "cut", "out", "twice", "flip", "other")))
    if way == "gone":
        del parts[name]
    else:
        other = parts[data.draw(st.sampled_from(sorted(parts)))]
        parts[name] = {
            "cut": content[:first],
            "out": content[:first] + content[second:],
            "twice": content[:second] + content[first:],
            "flip": content[:first] + bytes([data.draw(st.integers(0, 255))]) + content[first + 1 :],
            "other": other,
        }[way]
    survives(zipped(parts), f"a.{kind}")


TAGS = {
    "docx": [
        "w:p",
        "w:r",
        "w:t",
        "w:tab",
        "w:br",
        "w:tbl",
        "w:tr",
        "w:tc",
        "w:pPr",
        "w:rPr",
        "w:numPr",
        "w:ilvl",
        "w:numId",
        "w:pStyle",
        "w:outlineLvl",
        "w:ins",
        "w:del",
        "w:moveFrom",
        "w:moveTo",
        "w:sdt",
        "w:sdtContent",
        "w:sdtPr",
        "w:showingPlcHdr",
        "w:fldChar",
        "w:instrText",
        "w:fldSimple",
        "w:hyperlink",
        "w:footnoteReference",
        "w:drawing",
        "w:pict",
        "w:txbxContent",
        "w:vanish",
        "w:trPr",
        "w:tcPr",
        "w:gridSpan",
        "w:vMerge",
        "w:tblHeader",
        "w:gridBefore",
        "w:sym",
        "w:ruby",
        "w:rt",
        "w:rubyBase",
        "mc:AlternateContent",
        "mc:Choice",
        "mc:Fallback",
        "m:oMath",
        "m:r",
        "m:t",
        "m:f",
        "m:num",
        "m:den",
        "m:d",
        "m:e",
        "m:m",
        "m:mr",
        "m:nary",
        "c:chart",
        "dgm:relIds",
        "wp:docPr",
        "v:textpath",
        "w:altChunk",
        "w:body",
    ],
    "pptx": [
        "p:sp",
        "p:txBody",
        "p:grpSp",
        "p:pic",
        "p:graphicFrame",
        "p:nvSpPr",
        "p:cNvPr",
        "p:nvPr",
        "p:ph",
        "a:p",
        "a:pPr",
        "a:r",
        "a:t",
        "a:br",
        "a:fld",
        "a:buChar",
        "a:buAutoNum",
        "a:buNone",
        "a:lstStyle",
        "a:lvl1pPr",
        "a:tbl",
        "a:tblPr",
        "a:tr",
        "a:tc",
        "a:graphic",
        "a:graphicData",
        "c:chart",
        "dgm:relIds",
        "mc:AlternateContent",
        "mc:Choice",
        "mc:Fallback",
        "m:oMath",
        "m:t",
    ],
    "xlsx": ["s:row", "s:c", "s:v", "s:f", "s:is", "s:t", "s:r", "s:rPh", "s:sheetData", "s:mergeCell"],
}
KEYS = (
    "val",
    "type",
    "fldCharType",
    "id",
    "r",
    "t",
    "s",
    "si",
    "lvl",
    "idx",
    "hidden",
    "show",
    "descr",
    "char",
    "font",
    "firstRow",
    "startAt",
    "ref",
)
VALUES = ("0", "1", "2", "-1", "999999999", "1e9", "", "true", "begin", "separate", "end", "continue", "title", "body", "shared", "inlineStr", "str",
          "b", "e", "d", "n", "A1", "XFD1048576", "ZZZ1", "x.png", "Heading1", "F06D", "é", "arabicPeriod")  # fmt: skip
WORDS = (
    "7",
    "45356.5",
    "a|b",
    "[1]",
    "x\u2028y",
    "\u00a0",
    "=A1",
    "data:image/png;base64," + "A" * 40,
    " ",
    "words and\nmore",
    "\U0001f600",
    "&#13;",
)


def tree(chance, kind, depth=5):
    """Elements that mean something, anywhere, with attributes that mean something somewhere."""
    tag = chance.choice(TAGS[kind])
    named = "w:" if tag.startswith("w:") else ""
    keys = chance.sample(KEYS, chance.randrange(4))
    attributes = "".join(f' {named}{key}="{chance.choice(VALUES)}"' for key in keys)
    inner = "".join(tree(chance, kind, depth - 1) for _ in range(chance.randrange(5) if depth else 0))
    return f"<{tag}{attributes}>{inner}{chance.choice(WORDS) if chance.random() < 0.5 else ''}</{tag}>"


def forest(chance, kind):
    return "".join(tree(chance, kind) for _ in range(chance.randrange(1, 6)))


SEEDS = st.integers(0, 2**32 - 1)
"""Trees grow from a seed: drawn one by one, their making would take longer than their reading."""


@FUZZ
@given(SEEDS)
def test_random_documents(seed):
    chance = Random(seed)
    kinds = ("styles", "numbering", "footnotes", "comments")
    files = {
        "word/document.xml": body(forest(chance, "docx")),
        **{f"word/{kind}.xml": f"{XML}<w:{kind} {NAMES}>{forest(chance, 'docx')}</w:{kind}>" for kind in kinds},
        "word/_rels/document.xml.rels": relations(*((kind, kind, f"{kind}.xml") for kind in kinds)),
    }
    survives(package("word/document.xml", files), "a.docx")


@FUZZ
@given(SEEDS)
def test_random_decks(seed):
    survives(deck(forest(Random(seed), "pptx")), "a.pptx")


@FUZZ
@given(SEEDS)
def test_random_sheets(seed):
    survives(sheet(forest(Random(seed), "xlsx")), "a.xlsx")


CELLS = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12), st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.datetimes().map(lambda one: one.replace(microsecond=0)),
)  # fmt: skip


@FUZZ
@given(st.lists(st.lists(CELLS, max_size=6), min_size=1, max_size=8))
def test_every_text_of_a_workbook_is_read(rows):
    """What a library stores, in any arrangement, is in the text."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append([None if isinstance(value, str) and value.startswith("=") else value for value in row])
    out = io.BytesIO()
    book.save(out)
    texts = [
        value for row in rows for value in row if isinstance(value, str) and value.strip() and not value.startswith("=")
    ]
    if not any(
        value is not None and str(value).strip() for row in rows for value in row if not str(value).startswith("=")
    ):
        assert attempt(out.getvalue(), "a.xlsx").code == "empty_file"
        return
    text = checked(out.getvalue(), "a.xlsx").text
    seen = " ".join(text.replace('""', '"').split())
    for value in texts:
        if "_x" not in value:
            assert " ".join(value.replace('""', '"').split()) in seen
