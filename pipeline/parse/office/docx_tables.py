"""Word's tables: which cells a row has once changes are accepted, and whether a table holds data or arranges the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from pipeline.parse.office.docx_inline import GONE
from pipeline.parse.office.docx_styles import Styles
from pipeline.parse.office.ooxml import child, chosen, is_on, number

COLUMNS_MAX = 63
"""Word's own limit: cells that claim to reach over more don't."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table."""

    cells: list[Element | None]
    """None for a place that another cell reaches into."""
    is_header: bool


def rows(table: Element) -> Iterator[Row]:
    """Rows that weren't deleted, in order; controls and tags around them are looked through."""
    for one in _inside(table):
        if one.tag != "w:tr":
            yield from rows(one)
            continue
        properties = child(one, "w:trPr")
        if properties is None or child(properties, "w:del") is None:
            before = _reach(properties, "w:gridBefore", 0)
            cells = [*([None] * before), *_cells(one)]
            yield Row(cells, properties is not None and is_on(child(properties, "w:tblHeader")))


def headers(found: Sequence[Row]) -> int:
    """Rows at the top that are marked to be repeated on every page."""
    return next((at for at, row in enumerate(found) if not row.is_header), len(found))


def is_layout(found: Sequence[Row], styles: Styles) -> bool:
    """A table that arranges the page: of one column, or with sections in its cells."""
    cells = [[cell for cell in row.cells if cell is not None] for row in found]
    if all(len(row) < 2 for row in cells):  # noqa: PLR2004 - one column
        return True
    return any(_holds_section(cell, styles) for row in cells for cell in row)


def _holds_section(cell: Element, styles: Styles) -> bool:
    """A heading with something beside it; alone in its cell it's a label in large letters."""
    paragraphs = [one for one in cell.iter("w:p") if any(text.text for text in one.iter("w:t"))]
    return len(paragraphs) > 1 and any(styles.level(one) for one in paragraphs)


def _cells(row: Element) -> Iterator[Element | None]:
    for one in _inside(row):
        if one.tag != "w:tc":
            yield from _cells(one)
            continue
        properties = child(one, "w:tcPr")
        if properties is not None and child(properties, "w:cellDel") is not None:
            continue
        yield one
        for _ in range(1, _reach(properties, "w:gridSpan", 1)):
            yield None


def _inside(element: Element) -> Iterator[Element]:
    inner = chosen(element) if element.tag == "mc:AlternateContent" else iter(element)
    return (one for one in inner if one.tag not in GONE)


def _reach(properties: Element | None, tag: str, default: int) -> int:
    found = None if properties is None else child(properties, tag)
    return default if found is None else min(max(default, number(found.get("val"), default)), COLUMNS_MAX)
