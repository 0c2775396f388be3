"""Equations of Office files as one line of text: E=mc^2, (a+b)/2, √(x), a_i."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree.ElementTree import Element

from pipeline.parse.office.ooxml import child

_GONE = frozenset(("w:del", "w:moveFrom", "w:rPr"))
_SCRIPTS = {"m:sup": "^", "m:sub": "_", "m:lim": "_", "m:deg": "^"}
_DIVIDED = {"m:m": "; ", "m:eqArr": "; ", "m:mr": ", "}
"""What stands between the parts of matrices, stacked equations and rows."""


def equation(element: Element) -> str:
    """The text of an equation, its parts kept apart by what a reader would say between them."""
    tag = element.tag
    if tag == "m:t":
        return element.text or ""
    if tag in _READERS:
        return _READERS[tag](element)
    if tag in _SCRIPTS:
        text = _plain(element)
        return f"{_SCRIPTS[tag]}{_grouped(text)}" if text.strip() else ""
    if tag in _DIVIDED:
        return _DIVIDED[tag].join(text for one in element if not _is_gone(one) and (text := equation(one)))
    return _plain(element)


def _fraction(element: Element) -> str:
    return f"{_grouped(_part(element, 'm:num'))}/{_grouped(_part(element, 'm:den'))}"


def _root(element: Element) -> str:
    return f"{_part(element, 'm:deg')}√({_part(element, 'm:e')})"


def _sum(element: Element) -> str:
    return _property(element, "m:naryPr", "m:chr", "∫") + _plain(element)


def _part(element: Element, tag: str) -> str:
    """The text of the first child of that name, its own sign left out."""
    part = child(element, tag)
    return "" if part is None else _plain(part)


def _plain(element: Element) -> str:
    return "".join(equation(one) for one in element if not _is_gone(one))


def _is_gone(element: Element) -> bool:
    return element.tag in _GONE or (element.tag.startswith("m:") and element.tag.endswith("Pr"))


def _grouped(text: str) -> str:
    """Brackets around what would fall apart without them."""
    return text if len(text) == 1 or text.isalnum() else f"({text})"


def _bracketed(element: Element) -> str:
    left = _property(element, "m:dPr", "m:begChr", "(")
    between = _property(element, "m:dPr", "m:sepChr", "|")
    right = _property(element, "m:dPr", "m:endChr", ")")
    return f"{left}{between.join(_plain(one) for one in element if one.tag == 'm:e')}{right}"


def _property(element: Element, properties: str, name: str, default: str) -> str:
    found = child(element, properties, name)
    return default if found is None else found.get("val", default)


_READERS: dict[str, Callable[[Element], str]] = {"m:f": _fraction, "m:rad": _root, "m:d": _bracketed, "m:nary": _sum}
