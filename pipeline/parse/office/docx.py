"""DOCX and its kin: the document as it reads with all changes accepted, as headings, paragraphs, lists and tables.

Notes follow the paragraph, list or table that refers to them, each under its number in square brackets. Page headers
and footers repeat on every page and are left out. Pages are the business of the program that shows them: there are none.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element

from pipeline.parse.office import charts, docx_tables
from pipeline.parse.office.docx_inline import GONE, Inline, InlineReader, Note
from pipeline.parse.office.docx_styles import Numbering, Styles
from pipeline.parse.office.ooxml import Package, child, chosen
from pipeline.parse.office.writer import Item, Writer, flat, left_out
from pipeline.types import ParsedDocument

_EMBEDDED = frozenset(("package", "oleObject", "aFChunk", "subDocument"))
_INLINE = frozenset(("w:r", "m:oMath", "m:oMathPara", "w:hyperlink", "w:fldSimple"))
"""What belongs inside paragraphs; some writers put it beside them."""


def parse(data: bytes, name: str) -> ParsedDocument:
    """A document; its title is the paragraph styled so, else the file's own, else the first heading.

    Raises:
        RejectedInput: `docx_broken`, `too_large_inside`, `encrypted`.
    """
    package = Package(data, name, "docx")
    reader = _Reader(package, Writer(name))
    reader.story(reader.body)
    metadata = package.properties()
    own = next((str(value) for key, value in metadata if key == "title"), "")
    return ParsedDocument(
        kind="docx",
        text=reader.writer.text(),
        title=reader.title or own or reader.writer.first_title(),
        blocks=tuple(reader.writer.blocks),
        metadata=metadata,
        warnings=(*reader.warnings(), *package.warnings),
    )


class _Reader:
    """One document on its way to text."""

    def __init__(self, package: Package, writer: Writer) -> None:
        self.package = package
        self.writer = writer
        self.title = ""
        self.part = package.main()
        self.relations = package.relations(self.part)
        self.styles = Styles(self.related("styles"))
        self.numbering = Numbering(self.related("numbering"), self.styles)
        self.inline = InlineReader(self.styles, self.number_of)
        self.body = package.tree(self.part)
        self.notes: dict[Note, Element] = {}
        for kind in ("footnotes", "endnotes"):
            root = self.related(kind)
            self.notes |= {(kind, one.get("id", "")): one for one in (() if root is None else root)}
            if root is not None:
                self.inline.prepare(root)
        self.inline.prepare(self.body)
        self.numbers: dict[Note, int] = {}
        self.told: set[Note] = set()
        self.items: list[Item] = []
        """The list that is open."""
        self.carried = Inline()
        """Paragraphs whose end was deleted: they go on in the next."""
        self.hanging = Inline()
        """Boxes and notes that follow the open block."""
        self.headings: frozenset[str] | None = None

    def related(self, kind: str) -> Element | None:
        """The part of that kind that goes with the document."""
        found = next((one.target for one in self.relations.values() if one.type == kind), "")
        return self.package.optional(found) if found in self.package else None

    def story(self, container: Element) -> None:
        """A run of blocks that nothing outside goes on with: the body, a box, a cell."""
        self.blocks(container)
        self.end_paragraph()
        self.end_list()

    def blocks(self, container: Element) -> None:
        for one in chosen(container) if container.tag == "mc:AlternateContent" else container:
            self.block(one)

    def block(self, element: Element) -> None:
        tag = element.tag
        if tag == "w:p":
            self.paragraph(element)
        elif tag == "w:tbl":
            self.table(element)
        elif tag == "w:sdt" and self.inline.is_prompt(element):
            self.inline.left_out["prompts"] += 1
        elif tag in _INLINE:
            holder = Element("w:p")
            holder.append(element)
            self.paragraph(holder)
        elif tag not in GONE:
            self.blocks(element)

    def paragraph(self, paragraph: Element) -> None:
        self.inline.read(paragraph, self.carried)
        if goes_on(paragraph):
            return
        read, self.carried = self.carried, Inline()
        level = self.styles.level(paragraph)
        place = None if level else self.styles.list_of(paragraph)
        item = None if place is None else self.numbering.item(place)
        if not flat(read.text()):
            # An empty paragraph parts nothing, but a box may hang on it.
            if read.boxes:
                self.end_list()
                self.hang(read)
                self.write_hanging()
        elif item is not None:
            self.items.append(Item(*item, read.text()))
            self.hang(read)
        else:
            self.end_list()
            if level:
                self.heading(paragraph, level, read.unmarked())
            else:
                self.writer.paragraph(read.text())
            self.hang(read)
            self.write_hanging()

    def heading(self, paragraph: Element, level: int, text: str) -> None:
        if not self.styles.is_title(paragraph):
            self.writer.heading(level, text)
            return
        self.title = self.title or flat(text)
        # A title that a heading of its level repeats would stand above itself.
        if flat(text) in self.first_level():
            self.writer.paragraph(text)
        else:
            self.writer.heading(level, text)

    def first_level(self) -> frozenset[str]:
        """Texts of the headings of level 1 that aren't titles."""
        if self.headings is None:
            quiet = InlineReader(self.styles, lambda _: "")
            quiet.prepare(self.body)
            found = set()
            for one in self.body.iter("w:p"):
                if self.styles.level(one) == 1 and not self.styles.is_title(one):
                    inline = Inline()
                    quiet.read(one, inline)
                    found.add(flat(inline.unmarked()))
            self.headings = frozenset(found)
        return self.headings

    def end_paragraph(self) -> None:
        """Write what waits for a paragraph to go on with, where none follows."""
        if self.carried.pieces or self.carried.boxes:
            read, self.carried = self.carried, Inline()
            self.end_list()
            self.writer.paragraph(read.text())
            self.hang(read)
            self.write_hanging()

    def end_list(self) -> None:
        if self.items:
            items, self.items = self.items, []
            self.writer.items(items)
            self.write_hanging()

    def hang(self, read: Inline) -> None:
        """What was read with a block that isn't written yet."""
        self.hanging.boxes += read.boxes
        self.hanging.notes += read.notes

    def write_hanging(self) -> None:
        """Write the boxes and notes of the block before; they may have notes themselves."""
        while self.hanging.boxes or self.hanging.notes:
            read, self.hanging = self.hanging, Inline()
            for box in read.boxes:
                self.box(box)
            for note in read.notes:
                if note in self.notes and note not in self.told:
                    self.told.add(note)
                    inline = Inline()
                    self.flatten(self.notes[note], inline)
                    if text := flat(inline.text()):
                        self.writer.paragraph(f"{self.number_of(note)} {text}")
                    self.hang(inline)

    def box(self, box: Element) -> None:
        if box.tag == "w:txbxContent":
            self.story(box)
            return
        key, write = ("r:id", charts.write_chart) if box.tag == "c:chart" else ("r:dm", charts.write_diagram)
        relation = self.relations.get(box.get(key, ""))
        root = self.package.optional(relation.target) if relation and relation.target in self.package else None
        if root is not None:
            write(root, self.writer)

    def number_of(self, note: Note) -> str:
        """A note's mark: its number, counted as the text refers to it, through footnotes and endnotes."""
        return f"[{self.numbers.setdefault(note, len(self.numbers) + 1)}]" if note in self.notes else ""

    def table(self, table: Element) -> None:
        self.end_paragraph()
        self.end_list()
        found = list(docx_tables.rows(table))
        if docx_tables.is_layout(found, self.styles):
            for cell in (cell for row in found for cell in row.cells if cell is not None):
                self.story(cell)
            return
        read = Inline()
        texts = [[self.cell(cell, read) for cell in row.cells] for row in found]
        headers = docx_tables.headers(found)
        self.writer.table(texts, headers or None)
        self.hang(read)
        self.write_hanging()

    def cell(self, cell: Element | None, read: Inline) -> str:
        """Text of a cell; what hangs on it is kept for later."""
        if cell is None:
            return ""
        inline = Inline()
        self.flatten(cell, inline)
        read.boxes += inline.boxes
        read.notes += inline.notes
        return inline.text()

    def flatten(self, container: Element, into: Inline) -> None:
        """Blocks as text of one cell or note; a table inside gives its rows, parted by semicolons."""
        for one in chosen(container) if container.tag == "mc:AlternateContent" else container:
            if one.tag == "w:p":
                self.inline.read(one, into)
                place = self.styles.list_of(one)
                if place is not None:
                    self.numbering.item(place)
                if not goes_on(one):
                    into.pieces.append("\n")
            elif one.tag == "w:tbl":
                rows = ([flat(self.cell(cell, into)) for cell in row.cells] for row in docx_tables.rows(one))
                into.pieces.append("; ".join(", ".join(filter(None, row)) for row in rows if any(row)) + "\n")
            elif one.tag == "w:sdt" and self.inline.is_prompt(one):
                self.inline.left_out["prompts"] += 1
            elif one.tag not in GONE:
                self.flatten(one, into)

    def warnings(self) -> tuple[str, ...]:
        """What was left out, for people."""
        comments = self.related("comments")
        embedded = sum(1 for one in self.relations.values() if one.type in _EMBEDDED)
        out = self.inline.left_out
        return (
            *left_out(0 if comments is None else len(comments), "comment", "comments"),
            *left_out(out["hidden"], "character of hidden text", "characters of hidden text"),
            *left_out(out["prompts"], "prompt of an empty field", "prompts of empty fields"),
            *left_out(out["graphics"], "chart of a newer kind", "charts of newer kinds"),
            *left_out(embedded, "embedded file", "embedded files"),
        )


def goes_on(paragraph: Element) -> bool:
    """Whether a paragraph's end was deleted or moved away, so that the next one is part of it."""
    properties = child(paragraph, "w:pPr", "w:rPr")
    return properties is not None and any(one.tag in {"w:del", "w:moveFrom"} for one in properties)
