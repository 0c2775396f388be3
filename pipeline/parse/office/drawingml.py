"""What drawings in all three Office formats share: text of shapes, alternative texts of pictures, tables' cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from pipeline.parse.office.omml import equation
from pipeline.parse.office.ooxml import child, chosen

_GONE = frozenset(("a:pPr", "a:rPr", "a:endParaRPr", "a:fldPr"))
_FILE_NAME = re.compile(
    r"[^\n]{1,250}\.(?:png|jpe?g|jfif|gif|bmp|tiff?|emf|wmf|svg|webp|heic|pict?|eps)", re.IGNORECASE
)


def paragraph_text(paragraph: Element) -> str:
    """Text of `a:p`; a line break is a newline."""
    return "".join(_pieces(paragraph))


def body_text(body: Element | None) -> str:
    """Text of all paragraphs of a shape or cell, a line each."""
    return "\n".join(paragraph_text(one) for one in (() if body is None else body) if one.tag == "a:p")


def described(properties: Element | None) -> str:
    """The text that stands for a picture; empty if there is none or if it's only a file's name."""
    text = "" if properties is None else properties.get("descr", "").strip()
    return "" if _FILE_NAME.fullmatch(text) else text


def is_hidden(properties: Element | None) -> bool:
    """Whether a shape isn't shown."""
    return properties is not None and properties.get("hidden", "0") in {"1", "true"}


def table_rows(table: Element) -> list[list[str]]:
    """Cells of `a:tbl` row by row; those that another cell reaches into are empty."""
    return [
        [
            "" if {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"} else body_text(child(cell, "a:txBody"))
            for cell in row
            if cell.tag == "a:tc"
        ]
        for row in table
        if row.tag == "a:tr"
    ]


def is_headed(table: Element) -> bool:
    """Whether the table's first row is marked as its header."""
    properties = child(table, "a:tblPr")
    return properties is not None and properties.get("firstRow", "0") in {"1", "true"}


def _pieces(element: Element) -> Iterator[str]:
    tag = element.tag
    if tag == "a:t":
        yield element.text or ""
    elif tag == "a:br":
        yield "\n"
    elif tag == "a:tab":
        yield "\t"
    elif tag in {"m:oMath", "m:oMathPara"}:
        yield equation(element)
    elif tag not in _GONE:
        for one in chosen(element) if tag == "mc:AlternateContent" else element:
            yield from _pieces(one)
