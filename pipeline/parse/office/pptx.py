"""PPTX and its kin: each slide that is shown as a section under its title, with its tables, charts and speaker notes.

Slides are pages: a chunk's page is its slide's number, and a hidden slide is an empty page. What layouts and masters
show, and footers, dates and slide numbers, repeat on every slide and are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

from pipeline.parse.office import charts
from pipeline.parse.office.drawingml import body_text, described, is_headed, is_hidden, table_rows
from pipeline.parse.office.ooxml import Package, Relation, child, chosen
from pipeline.parse.office.pptx_bullets import Bullets, Text, placeholder
from pipeline.parse.office.writer import NAMED_MAX, Item, Writer, flat, left_out
from pipeline.types import ParsedDocument

_REPEATED = frozenset(("dt", "ftr", "sldNum", "hdr"))
_TITLES = frozenset(("title", "ctrTitle"))
_EMBEDDED = frozenset(("package", "oleObject"))
NOTES_LINE = "Notes:"
_GENERIC = frozenset(("powerpoint presentation", "powerpoint-präsentation", "présentation powerpoint", "slide 1"))
"""Titles that programs give by themselves, in lower case."""


def parse(data: bytes, name: str) -> ParsedDocument:
    """A presentation; its title is that of a title slide at its start, else the file's own, else the first slide's.

    Raises:
        RejectedInput: `pptx_broken`, `too_large_inside`, `encrypted`.
    """
    package = Package(data, name, "pptx")
    reader = _Reader(package, Writer(name))
    reader.deck()
    metadata = package.properties()
    own = next((str(value) for key, value in metadata if key == "title"), "")
    return ParsedDocument(
        kind="pptx",
        text=reader.writer.text(),
        title=reader.title or ("" if own.lower() in _GENERIC else own) or reader.first_title,
        blocks=tuple(reader.writer.blocks),
        page_starts=tuple(reader.starts),
        metadata=metadata,
        warnings=(*reader.warnings(), *package.warnings),
    )


class _Reader:
    """One presentation on its way to text, and what was left out."""

    def __init__(self, package: Package, writer: Writer) -> None:
        self.package = package
        self.writer = writer
        self.title = ""
        self.first_title = ""
        self.starts: list[int] = []
        self.hidden: list[str] = []
        self.silent: list[str] = []
        """Numbers of slides without text."""
        self.hidden_shapes = 0
        self.newer = 0
        """Charts of kinds that aren't read."""
        self.embedded = 0
        self.comments = 0
        self.bullets: dict[str, Bullets] = {}
        """By the layout's part."""

    def deck(self) -> None:
        part = self.package.main()
        relations = self.package.relations(part)
        slides = child(self.package.tree(part), "p:sldIdLst")
        for number, slide in enumerate(() if slides is None else slides, start=1):
            relation = relations.get(slide.get("r:id", ""))
            if relation is None or relation.type != "slide":
                raise self.package.broken(f"slide {number} has no part")
            self.starts.append(self.writer.length)
            self.slide(relation.target, number)

    def slide(self, part: str, number: int) -> None:
        root = self.package.tree(part)
        shapes = child(root, "p:cSld", "p:spTree")
        titled = None if shapes is None else _title_shape(shapes)
        title = "" if titled is None else flat(body_text(child(titled, "p:txBody")))
        if root.get("show", "1") in {"0", "false"}:
            self.hidden.append(f"{number} ({title})" if title else str(number))
            return
        relations = self.package.relations(part)
        self.first_title = self.first_title or title
        if number == 1 and titled is not None and (place := placeholder(titled)) and place.kind == "ctrTitle":
            self.title = title
        before = len(self.writer.blocks)
        if title:
            self.writer.heading(1, title)
        else:
            self.writer.section(f"Slide {number}")
        bullets = self.resting_on(relations)
        for shape in () if shapes is None else shapes:
            if shape is not titled:
                self.shape(shape, relations, bullets)
        self.around(relations)
        self.writer.section("")
        if len(self.writer.blocks) == before:
            self.silent.append(str(number))

    def resting_on(self, relations: dict[str, Relation]) -> Bullets:
        """The layout and master of a slide, read once for all slides that share them."""
        layout = next((one.target for one in relations.values() if one.type == "slideLayout"), "")
        if layout not in self.bullets:
            self.bullets[layout] = Bullets()
            if layout in self.package:
                masters = self.package.related(layout, "slideMaster")
                master = self.package.optional(masters[0]) if masters else None
                self.bullets[layout] = Bullets(self.package.optional(layout), master)
        return self.bullets[layout]

    def shape(self, shape: Element, relations: dict[str, Relation], bullets: Bullets) -> None:
        """One shape, whatever it is; a group's shapes in its place."""
        tag = shape.tag
        properties = next((found for part in shape if (found := child(part, "p:cNvPr")) is not None), None)
        place = placeholder(shape)
        if is_hidden(properties):
            self.hidden_shapes += 1
        elif place is not None and place.kind in _REPEATED:
            return
        elif tag == "p:pic":
            self.writer.paragraph(described(properties))
        elif tag == "p:graphicFrame":
            self.graphic(shape, relations)
        elif tag == "mc:AlternateContent":
            for one in chosen(shape):
                self.shape(one, relations, bullets)
        else:
            body = child(shape, "p:txBody")
            for run in () if body is None else Text(bullets, shape).runs(body):
                self.write(run)
            for one in shape if body is None else ():
                self.shape(one, relations, bullets)

    def graphic(self, frame: Element, relations: dict[str, Relation]) -> None:
        """A table, a chart, SmartArt, or what stands for an embedded file."""
        for data in frame.iter("a:graphicData"):
            self.newer += "chartex" in data.get("uri", "")
            for one in data:
                if one.tag == "a:tbl":
                    self.writer.table(table_rows(one), 1 if is_headed(one) else None)
                elif one.tag == "c:chart":
                    self.drawn(relations.get(one.get("r:id", "")), charts.write_chart)
                elif one.tag == "dgm:relIds":
                    self.drawn(relations.get(one.get("r:dm", "")), charts.write_diagram)

    def drawn(self, relation: Relation | None, write: Callable[[Element, Writer], None]) -> None:
        if relation is not None and relation.target in self.package:
            root = self.package.optional(relation.target)
            if root is not None:
                write(root, self.writer)

    def around(self, relations: dict[str, Relation]) -> None:
        """What belongs to a slide but isn't on it: speaker notes, comments, embedded files."""
        for relation in relations.values():
            self.embedded += relation.type in _EMBEDDED
            if relation.type not in {"notesSlide", "comments"} or relation.target not in self.package:
                continue
            root = self.package.optional(relation.target)
            if root is None:
                continue
            if relation.type == "comments":
                self.comments += len(root)
            else:
                self.notes(root)

    def notes(self, root: Element) -> None:
        """Speaker notes, under a line of their own: what the presenter says isn't on the slide."""
        bullets, titled = Bullets(), False
        for shape in root.iter("p:sp"):
            place, body = placeholder(shape), child(shape, "p:txBody")
            if place is None or place.kind != "body" or body is None:
                continue
            for run in Text(bullets, shape).runs(body):
                if not titled:
                    self.writer.paragraph(NOTES_LINE)
                    titled = True
                self.write(run)

    def write(self, run: str | list[Item]) -> None:
        if isinstance(run, str):
            self.writer.paragraph(run)
        else:
            self.writer.items(run)

    def warnings(self) -> tuple[str, ...]:
        """What was left out, for people."""
        silent = ", ".join(self.silent[:NAMED_MAX]) + (", …" if len(self.silent) > NAMED_MAX else "")
        one = len(self.silent) == 1
        return (
            *((f"{'slide' if one else 'slides'} without text: {silent} (of {len(self.starts)})",) if silent else ()),
            *left_out(len(self.hidden), "hidden slide", "hidden slides", self.hidden),
            *left_out(self.hidden_shapes, "hidden shape", "hidden shapes"),
            *left_out(self.newer, "chart of a newer kind", "charts of newer kinds"),
            *left_out(self.comments, "comment", "comments"),
            *left_out(self.embedded, "embedded file", "embedded files"),
        )


def _title_shape(shapes: Element) -> Element | None:
    """The shape that holds the slide's title."""
    places = ((placeholder(one), one) for one in shapes)
    return next((one for place, one in places if place is not None and place.kind in _TITLES), None)
