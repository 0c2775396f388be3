"""XLSX and its kin: each sheet that is shown as a section, its tables as lines of CSV, values rather than formulas.

Hidden sheets are left out and named; hidden rows and columns stay, since a filter hides them and the next one shows
them again. The package is read here and not by a library: those that there are build a row of 16,384 cells for one
that is filled at its far end, know either formulas or values, and refuse workbooks for their styles.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from pipeline.parse.office import charts
from pipeline.parse.office.drawingml import body_text, described, is_hidden
from pipeline.parse.office.ooxml import Package, child, chosen
from pipeline.parse.office.writer import Writer, flat, left_out
from pipeline.parse.office.xlsx_regions import aligned, is_headed, regions, titles
from pipeline.parse.office.xlsx_sheet import Book, read_kinds, read_strings, reads_1904
from pipeline.types import ParsedDocument

_SHEETS = frozenset(("worksheet", "chartsheet"))
_EMBEDDED = frozenset(("package", "oleObject"))


def parse(data: bytes, name: str) -> ParsedDocument:
    """A workbook: a heading with its name for every sheet, however many there are.

    Raises:
        RejectedInput: `xlsx_broken`, `too_large_inside`, `encrypted`.
    """
    package = Package(data, name, "xlsx")
    reader = _Reader(package, Writer(name))
    reader.workbook()
    metadata = package.properties()
    return ParsedDocument(
        kind="xlsx",
        text=reader.writer.text(),
        title=next((str(value) for key, value in metadata if key == "title"), ""),
        blocks=tuple(reader.writer.blocks),
        metadata=metadata,
        warnings=(*reader.warnings(), *package.warnings),
    )


class _Reader:
    """One workbook on its way to text, and what was left out."""

    def __init__(self, package: Package, writer: Writer) -> None:
        self.package = package
        self.writer = writer
        self.hidden: list[str] = []
        self.unread: list[str] = []
        self.ragged: list[str] = []
        """Sheets whose tables are too sparse for columns in line."""
        self.comments = 0
        self.embedded = 0
        self.hidden_shapes = 0

    def workbook(self) -> None:
        package, part = self.package, self.package.main()
        root = package.tree(part)
        relations = package.relations(part)
        book = Book(
            package,
            read_strings(package, package.related(part, "sharedStrings")),
            read_kinds(package, package.related(part, "styles")),
            epoch_1904=reads_1904(root),
        )
        sheets = child(root, "s:sheets")
        for sheet in () if sheets is None else sheets:
            title = flat(sheet.get("name", ""))
            relation = relations.get(sheet.get("r:id", ""))
            if sheet.get("state", "visible") != "visible":
                self.hidden.append(title)
            elif relation is None or relation.type not in _SHEETS:
                self.unread.append(title)
            else:
                self.writer.section(title)
                if relation.type == "worksheet":
                    self.cells(book, relation.target, title)
                self.around(relation.target)

    def cells(self, book: Book, part: str, title: str) -> None:
        """The tables of one sheet."""
        for region in regions(book.rows(part)):
            top = titles(region)
            for row in region[:top]:
                self.writer.paragraph(row.values[0])
            table = region[top:]
            if table:
                columns, lines = aligned(table)
                self.writer.records(lines, header=bool(columns) and is_headed(table))
                if not columns and title not in self.ragged:
                    self.ragged.append(title)

    def around(self, part: str) -> None:
        """What lies on a sheet: text boxes, pictures' descriptions, diagrams, titles of charts."""
        for relation in self.package.relations(part).values():
            self.embedded += relation.type in _EMBEDDED
            if relation.type not in {"drawing", "comments"} or relation.target not in self.package:
                continue
            root = self.package.optional(relation.target)
            if root is None:
                continue
            if relation.type == "comments":
                self.comments += sum(1 for _ in root.iter("s:comment"))
                continue
            self.shapes(root)
            for kind, write in _DRAWN.items():
                for target in self.package.related(relation.target, kind):
                    if (drawn := self.package.optional(target)) is not None:
                        write(drawn, self.writer)

    def shapes(self, element: Element) -> None:
        for one in chosen(element) if element.tag == "mc:AlternateContent" else element:
            properties = next((inner for part in one for inner in part if inner.tag == "xdr:cNvPr"), None)
            if is_hidden(properties):
                self.hidden_shapes += 1
            elif one.tag == "xdr:pic":
                self.writer.paragraph(described(properties))
            elif one.tag == "xdr:sp":
                self.writer.paragraph(body_text(child(one, "xdr:txBody")))
            else:
                self.shapes(one)

    def warnings(self) -> tuple[str, ...]:
        """What was left out, for people."""
        return (
            *left_out(len(self.hidden), "hidden sheet", "hidden sheets", self.hidden),
            *left_out(len(self.unread), "sheet of an unknown kind", "sheets of unknown kinds", self.unread),
            *left_out(self.comments, "comment", "comments"),
            *left_out(self.embedded, "embedded file", "embedded files"),
            *left_out(self.hidden_shapes, "hidden shape", "hidden shapes"),
            *(f"{title} is too sparse for its columns to be kept in line" for title in self.ragged),
        )


def _write_titles(root: Element, into: Writer) -> None:
    charts.write_chart(root, into, data=False)


_DRAWN = {"diagramData": charts.write_diagram, "chart": _write_titles}
"""How parts that a drawing refers to are written; the numbers of charts stand in the sheets already."""
