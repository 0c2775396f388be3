"""Workbooks: sheets as sections, tables as records, values as people read them."""

import csv
import datetime as dt
import io
import time
import zipfile

import openpyxl
import pytest
from office_files import NAMES, XML, checked, chunked, package, relations, rewritten
from openpyxl.comments import Comment
from openpyxl.worksheet.formula import ArrayFormula

from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes
from pipeline.parse.office import xlsx_regions, xlsx_sheet
from pipeline.parse.office.xlsx_values import format_kind, moved, number_text, shown, unescaped


def saved(book):
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def book_of(*rows, title="Sheet"):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return book


def sheets_of(*sheets, strings="", styles="", workbook="", relations_of=None, **parts):
    """A workbook by hand: each sheet's name, attributes and rows."""
    listed = "".join(
        f'<s:sheet name="{name}" sheetId="{n}" r:id="s{n}" {more}/>'
        for n, (name, more, _) in enumerate(sheets, start=1)
    )
    files = {
        f"xl/worksheets/sheet{n}.xml": f"{XML}<s:worksheet {NAMES}><s:sheetData>{rows}</s:sheetData></s:worksheet>"
        for n, (_, _, rows) in enumerate(sheets, start=1)
    }
    return package(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": f"{XML}<s:workbook {NAMES}>{workbook}<s:sheets>{listed}</s:sheets></s:workbook>",
            "xl/_rels/workbook.xml.rels": relations(
                *((f"s{n}", "worksheet", f"worksheets/sheet{n}.xml") for n in range(1, len(sheets) + 1)),
                ("t", "sharedStrings", "sharedStrings.xml"), ("y", "styles", "styles.xml"),
            ),
            "xl/sharedStrings.xml": f"{XML}<s:sst {NAMES}>{strings}</s:sst>",
            "xl/styles.xml": f"{XML}<s:styleSheet {NAMES}>{styles}</s:styleSheet>",
            **files,
            **{f"xl/worksheets/_rels/sheet{n}.xml.rels": relations(*rows) for n, rows in (relations_of or {}).items()},
            **parts,
        },
    )  # fmt: skip


def one_sheet(rows, **more):
    return checked(sheets_of(("S", "", rows), **more), "a.xlsx")


def records(document):
    """Tables as lists of rows."""
    return [
        list(csv.reader(io.StringIO(document.text[block.start : block.end], newline="")))
        for block in document.blocks
        if block.kind == "records"
    ]


def test_formulas_dates_and_hidden_sheets():
    """O-21: values where they are stored, else the formula; dates as ISO; hidden sheets named and left out."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Plan"
    sheet.append(["item", "due", "total"])
    sheet.append(["Pump", dt.date(2024, 3, 5), "=2+3"])
    hidden = book.create_sheet("Notes")
    hidden["A1"] = "hush"
    hidden.sheet_state = "hidden"
    deep = book.create_sheet("Deep")
    deep["A1"] = "deep hush"
    deep.sheet_state = "veryHidden"
    without = saved(book)
    part = "xl/worksheets/sheet1.xml"
    old = next(form for form in ("<f>2+3</f><v></v>", "<f>2+3</f><v/>", "<f>2+3</f><v />")
               if form.encode() in zipfile.ZipFile(io.BytesIO(without)).read(part))  # fmt: skip
    with_value = rewritten(without, part, old, "<f>2+3</f><v>5</v>")
    for data, total in ((without, "=2+3"), (with_value, "5")):
        found = checked(data, "plan.xlsx")
        everything = found.text + "".join(chunk.prefix + chunk.text for chunk in chunked(found))
        assert "2024-03-05" in everything
        for wrong in ("45356", "00:00:00", "None", "nan", "hush"):
            assert wrong not in everything
        assert records(found) == [[["item", "due", "total"], ["Pump", "2024-03-05", total]]]
        assert found.warnings == ("2 hidden sheets were left out: Notes, Deep",)
    assert "=2+3" not in checked(with_value, "plan.xlsx").text


def test_each_sheet_is_a_section_even_a_single_one():
    """The name stands above its tables however many sheets there are; empty sheets leave no trace."""
    book = book_of(["a", "b"], [1, 2], title="Prices 2024")
    assert checked(saved(book), "a.xlsx").text == "# Prices 2024\n\na,b\n1,2\n\n"
    book.create_sheet("Nothing")
    book.create_sheet("Stock")["B3"] = "few"
    found = checked(saved(book), "a.xlsx")
    assert [(block.kind, block.title) for block in found.blocks if block.kind == "heading"] == [
        ("heading", "Prices 2024"),
        ("heading", "Stock"),
    ]
    assert [chunk.heading_path for chunk in chunked(found)] == [("Prices 2024",), ("Stock",)]
    assert found.page_starts == ()


def test_a_long_table_repeats_its_header():
    found = checked(saved(book_of(["part", "cost"], *([f"bolt {n}", n] for n in range(200)))), "a.xlsx")
    (block,) = (block for block in found.blocks if block.kind == "records")
    assert found.text[block.start : block.header_end] == "part,cost\n"
    assert len(block.cuts) == 199
    cut = chunked(found, 60)
    assert all(chunk.prefix == "part,cost\n" for chunk in cut[1:])
    assert all(chunk.text.startswith("bolt") for chunk in cut[1:])


def test_no_header_without_names():
    found = checked(saved(book_of([1, 2], [3, 4])), "a.xlsx")
    assert [block.header_end for block in found.blocks if block.kind == "records"] == [0]
    dated = checked(saved(book_of(["Pump", dt.date(2024, 3, 5)], ["Valve", dt.date(2024, 3, 6)])), "a.xlsx")
    assert [block.header_end for block in dated.blocks if block.kind == "records"] == [0]


def test_values():
    """Dates, times, durations, booleans, numbers, errors and texts, each in one form."""
    book = book_of(
        ["v"], [dt.datetime.fromisoformat("2024-03-05T07:30:00")], [dt.datetime.fromisoformat("2024-03-05")], [dt.time(7, 30)], [dt.timedelta(hours=26, minutes=30)], [True],
        [False], [7.0], [0.1 + 0.2], [1e20], [123456789012], ["#REF!"], ["00012"], ["a,b"], ['say "x"'], ["two\nlines"], ["'x"], ["  pad "],
    )  # fmt: skip
    book.active["A8"].number_format = "0%"
    table = records(checked(saved(book), "a.xlsx"))[0]
    assert [value for (value,) in table[1:]] == [
        "2024-03-05T07:30:00", "2024-03-05", "07:30:00", "26:30:00", "TRUE", "FALSE", "7", "0.3", "1e+20", "123456789012",
        "#REF!", "00012", "a,b", 'say "x"', "two\nlines", "'x", "  pad ",
    ]  # fmt: skip


def test_dates_from_1904():
    book = book_of(["when"], [dt.date(2024, 3, 5)])
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    data = saved(book)
    assert b"date1904" in zipfile.ZipFile(io.BytesIO(data)).read("xl/workbook.xml")
    assert "2024-03-05" in checked(data, "a.xlsx").text


@pytest.mark.parametrize(
    ("raw", "kind", "text"),
    [
        ("1", "date", "1900-01-01"), ("59", "date", "1900-02-28"), ("60", "date", "1900-02-29"), ("61", "date", "1900-03-01"),
        ("45356.99999999999", "date", "2024-03-06"), ("45356.3125", "date", "2024-03-05T07:30:00"), ("0.5", "date", "12:00:00"),
        ("45356.00001", "date", "2024-03-05T00:00:00.864"), ("0", "date", "0"), ("-3", "date", "-3"), ("2958466", "date", "2958466"),
        ("1e300", "date", "1e+300"), ("inf", "date", "inf"), ("x", "date", "x"), ("-0.5", "duration", "-12:00:00"), ("nan", "duration", "nan"),
        ("1.25", "duration", "30:00:00"), ("5.00", "", "5"), ("-0", "", "0"), ("-0.0", "", "0"), ("007", "", "7"), ("1e15", "", "1000000000000000"),
        ("1e16", "", "1e+16"), ("4.2999999999999998", "", "4.3"), ("0.30000000000000004", "", "0.3"), ("1.7976931348623157e308", "", "1.7976931348623157e+308"), ("9" * 30, "", "9" * 30), ("1" * 500, "", "1" * 500), (" 7 ", "", "7"),
    ],
)  # fmt: skip
def test_stored_numbers(raw, kind, text):
    assert shown(raw, kind) == text


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("General", ""), ("0.00", ""), ("yyyy-mm-dd", "date"), ("[$-409]mmm d, yyyy;@", "date"), ("[h]:mm", "duration"), ("[SS]", "duration"),
        ('0.0 "days"', ""), ("0\\d", ""), ("#,##0.00 [$€-407]", ""), ("[Red]0;[Blue]-0", ""), ("_-* #,##0_-", ""), ("@", ""), ("0.00E+00", ""),
        ("h:mm AM/PM", "date"), ("[<1]0;yyyy", ""), ("", ""), ('"unclosed d', "date"),
    ],
)  # fmt: skip
def test_number_formats(code, kind):
    assert format_kind(164, code) == kind


def test_formats_that_every_workbook_has():
    assert [format_kind(number, None) for number in (0, 2, 9, 14, 22, 45, 46, 47, 49)] == [
        "", "", "", "date", "date", "duration", "duration", "duration", "",
    ]  # fmt: skip


def test_formulas_of_all_kinds():
    """Stored values win; arrays and tables of data too; a shared formula moves with its cell; marks of newer functions go."""
    book = book_of(["a", "b"], [1, 2])
    book.active["C2"] = ArrayFormula("C2:C3", "=A2:A3*2")
    assert records(checked(saved(book), "a.xlsx"))[0][1] == ["1", "2", "=A2:A3*2"]
    rows = (
        '<s:row r="1"><s:c r="A1" t="inlineStr"><s:is><s:t>x</s:t></s:is></s:c><s:c r="B1" t="inlineStr"><s:is><s:t>y</s:t></s:is></s:c></s:row>'
        '<s:row r="2"><s:c r="A2"><s:f t="shared" ref="A2:A4" si="0">$B$1+B2&amp;"B2"</s:f></s:c><s:c r="B2" t="str"><s:f>IF(A1,"","")</s:f><s:v></s:v></s:c></s:row>'
        '<s:row r="3"><s:c r="A3"><s:f t="shared" si="0"/></s:c><s:c r="B3" t="e"><s:f>1/0</s:f><s:v>#DIV/0!</s:v></s:c></s:row>'
        '<s:row r="4"><s:c r="A4"><s:f t="shared" si="0"/><s:v>9</s:v></s:c><s:c r="B4"><s:f>_xlfn.XLOOKUP(1,A:A,B:B)</s:f></s:c></s:row>'
        '<s:row r="5"><s:c r="A5"><s:f t="dataTable" ref="A5:A6" r1="B1" r2="B2"/></s:c><s:c r="B5" t="b"><s:f>TRUE()</s:f><s:v>1</s:v></s:c></s:row>'
        '<s:row r="6"><s:c r="A6"><s:f t="shared" si="7"/></s:c><s:c r="B6" t="str"><s:f>"a"</s:f><s:v>a</s:v></s:c></s:row>'
    )
    assert records(one_sheet(rows))[0] == [
        ["x", "y"], ['=$B$1+B2&"B2"', ""], ['=$B$1+B3&"B2"', "#DIV/0!"], ["9", "=XLOOKUP(1,A:A,B:B)"], ["=TABLE(B1,B2)", "TRUE"], ["", "a"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("A1", "C4"), ("$A1+A$1+$A$1", "$A4+C$1+$A$1"), ("SUM(A1:B2)", "SUM(C4:D5)"), ("'A1 b'!A1", "'A1 b'!C4"), ("S1!A1", "S1!C4"),
        ('"A1"&A1', '"A1"&C4'), ("LOG10(A1)", "LOG10(C4)"), ("A:A", "C:C"), ("1:$2", "4:$2"), ("Q1_total+A1", "Q1_total+C4"),
        ("XFD1", "#REF!"), ("A1048576", "#REF!"), ('"open A1', '"open C4'), ("T[A1]", "T[A1]"),
    ],
)  # fmt: skip
def test_formulas_move_with_their_cell(formula, text):
    assert moved(formula, 3, 2) == text


def test_shared_strings():
    """Runs are one text, how it's pronounced isn't part of it, escapes are characters."""
    strings = (
        "<s:si><s:t>plain</s:t></s:si><s:si><s:r><s:t>rich </s:t></s:r><s:r><s:rPr/><s:t>text</s:t></s:r></s:si>"
        "<s:si><s:t>名</s:t><s:rPh sb='0' eb='1'><s:t>な</s:t></s:rPh></s:si><s:si><s:t>a_x000D__x000A_b_x005F_x0041__x0000_</s:t></s:si>"
    )
    cells = (
        "".join(f'<s:c r="{"ABCDE"[n]}1" t="s"><s:v>{n}</s:v></s:c>' for n in (0, 1, 2, 3))
        + '<s:c r="E1" t="s"><s:v>99</s:v></s:c>'
    )
    assert records(one_sheet(f'<s:row r="1">{cells}</s:row>', strings=strings)) == [
        [["plain", "rich text", "名", "a\nb_x0041_ "]]
    ]
    assert unescaped("_xD83D__xDE00__xd800_") == "\U0001f600\ufffd"


def test_cells_without_addresses_and_stored_iso_dates():
    rows = (
        '<s:row><s:c t="inlineStr"><s:is><s:t>when</s:t></s:is></s:c><s:c/><s:c t="d"><s:v>2024-03-05T00:00:00</s:v></s:c></s:row>'
        '<s:row><s:c t="d"><s:v>2024-03-05T07:30:00Z</s:v></s:c></s:row>'
    )
    assert records(one_sheet(rows)) == [[["when", "2024-03-05"], ["2024-03-05T07:30:00Z", ""]]]


def test_merged_cells_give_their_value_once():
    book = book_of(["name", "", "sum"], ["Ann", "x", 1], ["", "y", 2])
    book.active.merge_cells("A1:B1")
    book.active.merge_cells("A2:A3")
    assert records(checked(saved(book), "a.xlsx")) == [[["name", "", "sum"], ["Ann", "x", "1"], ["", "y", "2"]]]


def test_hidden_rows_and_columns_stay():
    """A filter hides them, and the next one shows them again."""
    book = book_of(["a", "b"], [1, 2], [3, 4])
    book.active.row_dimensions[2].hidden = True
    book.active.column_dimensions["B"].hidden = True
    assert records(checked(saved(book), "a.xlsx")) == [[["a", "b"], ["1", "2"], ["3", "4"]]]


def placed(**cells):
    book = openpyxl.Workbook()
    for name, value in cells.items():
        book.active[name] = value
    return checked(saved(book), "a.xlsx")


def test_blank_rows_and_columns_are_dropped():
    found = placed(B2="a", E2="b", B3=1, E3=2, B6=3, E6=4)
    assert records(found) == [[["a", "b"], ["1", "2"], ["3", "4"]]]


def test_tables_that_differ_are_apart():
    """A header of its own, where the table above has numbers or other columns, begins another table."""
    assert records(placed(A1="a", B1="b", A2=1, B2=2, A4="c", B4="d", A5=3, B5=4)) == [
        [["a", "b"], ["1", "2"]],
        [["c", "d"], ["3", "4"]],
    ]
    assert records(placed(A1="a", B1="b", A2="x", B2="y", C5="c", D5="d", C6="u", D6="v")) == [
        [["a", "b"], ["x", "y"]],
        [["c", "d"], ["u", "v"]],
    ]
    assert records(placed(A1="a", B1="b", A2="x", B2="y", A4="a", B4="b", A5="u", B5="v")) == [
        [["a", "b"], ["x", "y"]],
        [["a", "b"], ["u", "v"]],
    ]
    assert records(placed(A1="a", B1="b", A2="x", B2="y", A4="u", B4="v")) == [[["a", "b"], ["x", "y"], ["u", "v"]]]


def test_titles_part_tables_too():
    """A title above the second of two tables hides neither its header nor that it's another one."""
    found = placed(
        A1="Sales 2023", A2="item", B2="qty", C2="cost", A3="Nut", B3=1, C3=2,
        A5="Sales 2024", A6="item", B6="qty", C6="cost", A7="Bolt", B7=3, C7=4,
    )  # fmt: skip
    assert [(block.kind, found.text[block.start : block.end]) for block in found.blocks[1:]] == [
        ("paragraph", "Sales 2023\n"), ("records", "item,qty,cost\nNut,1,2\n"),
        ("paragraph", "Sales 2024\n"), ("records", "item,qty,cost\nBolt,3,4\n"),
    ]  # fmt: skip


def test_years_may_be_names():
    found = placed(A1="place", B1=2023, C1=2024, A2="Oslo", B2=1, C2=2)
    assert found.blocks[1].header_end
    found = placed(A1="place", B1=23, C1=24, A2="Oslo", B2=1, C2=2)
    assert not found.blocks[1].header_end


def test_titles_and_notes_are_paragraphs():
    found = placed(
        A1="Plan 2024", A2="in euro", A3="item", B3="cost", C3="due", A4="Pump", B4=4, C4=5, A7="checked by Ann"
    )
    assert [(block.kind, found.text[block.start : block.end]) for block in found.blocks] == [
        ("heading", "# Sheet\n"), ("paragraph", "Plan 2024\n"), ("paragraph", "in euro\n"),
        ("records", "item,cost,due\nPump,4,5\n"), ("paragraph", "checked by Ann\n"),
    ]  # fmt: skip
    bare = placed(A1="Readings", A3=1, B3=2)
    assert [block.kind for block in bare.blocks] == ["heading", "paragraph", "records"]
    within = placed(A1="item", B1="cost", A2="Pump", B2=4, A4="Europe", A6="Valve", B6=7)
    assert records(within) == [[["item", "cost"], ["Pump", "4"], ["Europe", ""], ["Valve", "7"]]]


def test_what_lies_on_a_sheet():
    """Text boxes, descriptions of pictures and titles of charts are read; comments and embedded files are told."""
    drawing = (
        f"{XML}<xdr:wsDr {NAMES}><xdr:twoCellAnchor><xdr:sp><xdr:nvSpPr><xdr:cNvPr id='2' name='t'/></xdr:nvSpPr><xdr:txBody>"
        "<a:p><a:r><a:t>boxed words</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:twoCellAnchor><xdr:twoCellAnchor><xdr:grpSp><xdr:pic>"
        "<xdr:nvPicPr><xdr:cNvPr id='3' name='p' descr='a red pump'/></xdr:nvPicPr></xdr:pic><xdr:sp><xdr:nvSpPr><xdr:cNvPr id='2' name='t' hidden='1'/>"
        "</xdr:nvSpPr><xdr:txBody><a:p><a:r><a:t>hush</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:grpSp></xdr:twoCellAnchor></xdr:wsDr>"
    )
    chart = (
        f"{XML}<c:chartSpace {NAMES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Costs</a:t></a:r></a:p></c:rich></c:tx></c:title><c:plotArea>"
        "<c:barChart><c:ser><c:val><c:numLit><c:pt idx='0'><c:v>77</c:v></c:pt></c:numLit></c:val></c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"
    )
    found = checked(
        sheets_of(
            ("S", "", ""), relations_of={1: [("d", "drawing", "../drawings/drawing1.xml"), ("e", "oleObject", "../embeddings/x.bin")]},
            **{
                "xl/drawings/drawing1.xml": drawing, "xl/charts/chart1.xml": chart,
                "xl/drawings/_rels/drawing1.xml.rels": relations(("c", "chart", "../charts/chart1.xml")),
            },
        ),
        "a.xlsx",
    )  # fmt: skip
    assert found.text == "# S\n\nboxed words\n\na red pump\n\nCosts\n\n"
    assert found.warnings == ("1 embedded file was left out", "1 hidden shape was left out")
    book = book_of(["a"], ["b"])
    book.active["A1"].comment = Comment("why", "me")
    book.active["A2"].comment = Comment("so", "me")
    commented = checked(saved(book), "a.xlsx")
    assert "why" not in commented.text
    assert commented.warnings == ("2 comments were left out",)


def test_sheets_of_other_kinds():
    book = book_of(["a", "b"], [1, 2])
    chart = openpyxl.chart.BarChart()
    chart.title = "Drawn alone"
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=1, min_row=2, max_row=2))
    book.create_chartsheet("Chart").add_chart(chart)
    found = checked(saved(book), "a.xlsx")
    assert found.text.endswith("# Chart\n\nDrawn alone\n\n")
    data = rewritten(sheets_of(("S", "", "<s:row><s:c><s:v>1</s:v></s:c></s:row>"), ("Macro", "", "")),
                     "xl/_rels/workbook.xml.rels", 'relationships/worksheet" Target="worksheets/sheet2', 'relationships/xlMacrosheet" Target="worksheets/sheet2')  # fmt: skip
    assert checked(data, "a.xlsm").warnings == ("1 sheet of an unknown kind was left out: Macro",)


def test_many_names_are_cut_short():
    sheets = [(f"H{n}", 'state="hidden"', "") for n in range(60)]
    (warning,) = checked(sheets_of(("S", "", "<s:row><s:c><s:v>1</s:v></s:c></s:row>"), *sheets), "a.xlsx").warnings
    assert warning.startswith("60 hidden sheets were left out: H0, H1,")
    assert warning.endswith("H49, …")


def test_a_sheet_that_claims_everything_costs_nothing():
    """A used range of 17 billion cells, formats without values, a last cell at the far corner: only values count."""
    blank = "".join(
        f'<s:row r="{n}" s="1" customFormat="1"><s:c r="A{n}" s="1"/><s:c r="XFD{n}" s="1"/></s:row>'
        for n in range(2, 2000)
    )
    rows = f'<s:row r="1"><s:c r="A1"><s:v>1</s:v></s:c></s:row>{blank}<s:row r="1048576"><s:c r="XFD1048576"><s:v>2</s:v></s:c></s:row>'
    data = rewritten(
        sheets_of(("S", "", rows)),
        "xl/worksheets/sheet1.xml",
        "<s:sheetData>",
        '<s:dimension ref="A1:XFD1048576"/><s:cols><s:col min="1" max="16384" style="1"/></s:cols><s:sheetData>',
    )
    began = time.process_time()
    found = checked(data, "a.xlsx")
    assert time.process_time() - began < 5
    assert found.text == "# S\n\n1,\n,2\n\n"


def test_values_that_are_too_sparse_are_not_kept_in_line(monkeypatch):
    """Blanks between values far apart would be millions: the values stand, their columns don't, and it is told."""
    monkeypatch.setattr(xlsx_regions, "ALIGNED_MAX", 100)
    rows = "".join(
        f'<s:row r="{n}"><s:c r="{letter}{n}"><s:v>{n}</s:v></s:c><s:c r="AZ{n}"><s:v>0</s:v></s:c></s:row>'
        for n, letter in enumerate("ABCDEFGHIJKLM", start=1)
    )
    found = one_sheet(rows)
    assert found.text.startswith("# S\n\n1,0\n2,0\n")
    assert found.warnings == ("S is too sparse for its columns to be kept in line",)


def test_limits_of_cells_and_characters(monkeypatch):
    """A string of the table may fill a million cells: what they come to is bounded, not what is stored."""
    rows = "".join(f'<s:row r="{n}"><s:c r="A{n}" t="s"><s:v>0</s:v></s:c></s:row>' for n in range(1, 200))
    data = sheets_of(("S", "", rows), strings=f"<s:si><s:t>{'x' * 1000}</s:t></s:si>")
    for limit, value, words in (("CELLS_MAX", 100, "100 filled cells"), ("CHARS_MAX", 50_000, "50,000 characters")):
        with monkeypatch.context() as patched:
            patched.setattr(xlsx_sheet, limit, value)
            with pytest.raises(RejectedInput) as error:
                parse_bytes(data, "a.xlsx")
        assert error.value.code == "too_large_inside"
        assert words in error.value.message


@pytest.mark.parametrize(
    "rows",
    ["", '<s:row r="1"><s:c r="A1" s="1"/></s:row>', '<s:row r="1"><s:c r="A1" t="str"><s:v> </s:v></s:c></s:row>'],
)
def test_a_workbook_without_values_is_empty(rows):
    with pytest.raises(RejectedInput) as error:
        parse_bytes(
            sheets_of(("S", "", rows), ("H", 'state="hidden"', "<s:row><s:c><s:v>1</s:v></s:c></s:row>")), "a.xlsx"
        )
    assert error.value.code == "empty_file"


def test_a_damaged_workbook_is_refused():
    data = saved(book_of(["a", "b"], [1, 2]))
    broken_sheet = rewritten(data, "xl/worksheets/sheet1.xml", "</sheetData>", "")
    too_wide = sheets_of(("S", "", f"<s:row>{'<s:c><s:v>1</s:v></s:c>' * 16385}</s:row>"))
    for damaged in (data[: len(data) // 2], broken_sheet, too_wide):
        with pytest.raises(RejectedInput) as error:
            parse_bytes(damaged, "a.xlsx")
        assert error.value.code == "xlsx_broken"


def test_number_text_keeps_what_is_no_number():
    assert [number_text(raw) for raw in ("", "abc", "inf", "1,5")] == ["", "abc", "inf", "1,5"]
