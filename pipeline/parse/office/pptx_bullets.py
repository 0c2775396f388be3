"""Which paragraphs of a slide carry a bullet or number: the paragraph, its shape, the layout or the master says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from pipeline.parse.office.drawingml import paragraph_text
from pipeline.parse.office.ooxml import child, number
from pipeline.parse.office.writer import Item

LEVEL_MAX = 8
"""Levels of a list, from 0."""
_TITLES = frozenset(("title", "ctrTitle"))
_BODIES = frozenset(("body", "obj", "subTitle", "tbl", "chart", "dgm", "media", "clipArt", "pic"))
_LEVEL = re.compile(r"a:lvl([1-9])pPr")
_MARKS = {"a:buNone": "", "a:buChar": "-", "a:buBlip": "-", "a:buAutoNum": "1"}


Levels = dict[int, str]
"""What is said of bullets, by level: `-` for one, `1` for a number, empty for none; other levels aren't spoken of."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The place in the layout that a shape fills."""

    kind: str
    """`title`, `body`, `ftr` …; `obj` where the file doesn't say."""
    index: str


def placeholder(shape: Element) -> Placeholder | None:
    """What a shape fills; None for one that stands for itself."""
    for properties in shape:
        found = child(properties, "p:nvPr", "p:ph")
        if found is not None:
            return Placeholder(found.get("type", "obj"), found.get("idx", "0"))
    return None


class Bullets:
    """What the layout and master that a slide rests on say of bullets."""

    def __init__(self, layout: Element | None = None, master: Element | None = None) -> None:
        self._layout = _shapes(layout)
        self._master = _shapes(master)
        self._styles = {
            kind: _levels(None if master is None else child(master, "p:txStyles", f"p:{kind}Style"))
            for kind in ("title", "body", "other")
        }

    def resting(self, fills: Placeholder | None) -> list[Levels]:
        """What is said for a place on the slide, nearest first."""
        if fills is None:
            return []
        kind = "title" if fills.kind in _TITLES else "body" if fills.kind in _BODIES else "other"
        # A layout's shape is known by its number, a master's by its kind; number 0 is what isn't numbered.
        numbered = self._layout.get(fills.index) if fills.index != "0" else None
        layout = numbered if numbered is not None else self._layout.get(fills.kind, self._layout.get(kind, {}))
        return [layout, self._master.get(fills.kind, self._master.get(kind, {})), self._styles[kind]]


class Text:
    """The paragraphs of one shape, as paragraphs and lists in turn."""

    def __init__(self, bullets: Bullets, shape: Element) -> None:
        own = _levels(child(shape, "p:txBody", "a:lstStyle"))
        self._resting = [own, *bullets.resting(placeholder(shape))]
        self._counts: dict[int, int] = {}

    def runs(self, body: Element) -> Iterator[str | list[Item]]:
        """Plain paragraphs as texts, paragraphs with bullets as lists, in order."""
        items: list[Item] = []
        for paragraph in body:
            text = paragraph_text(paragraph) if paragraph.tag == "a:p" else ""
            if not text.strip():
                continue
            properties = child(paragraph, "a:pPr")
            level = 0 if properties is None else min(max(0, number(properties.get("lvl"))), LEVEL_MAX)
            mark = self._mark(properties, level)
            if mark:
                items.append(Item(level, self._counted(mark, level, properties), text))
                continue
            if items:
                yield items
                items = []
            self._counts.clear()
            yield text
        if items:
            yield items

    def _mark(self, properties: Element | None, level: int) -> str:
        """`-` for a bullet, `1` for a number, empty for plain text."""
        own = None if properties is None else _bullet(properties)
        return own if own is not None else next((said[level] for said in self._resting if level in said), "")

    def _counted(self, mark: str, level: int, properties: Element | None) -> str:
        for deeper in [one for one in self._counts if one > level]:
            del self._counts[deeper]
        if mark == "-":
            self._counts.pop(level, None)
            return mark
        own = None if properties is None else child(properties, "a:buAutoNum")
        first = 1 if own is None else number(own.get("startAt"), 1)
        self._counts[level] = self._counts.get(level, first - 1) + 1
        return f"{self._counts[level]}."


def _bullet(properties: Element) -> str | None:
    """What paragraph properties say of a bullet; None if nothing."""
    return next((_MARKS[one.tag] for one in properties if one.tag in _MARKS), None)


def _levels(styles: Element | None) -> Levels:
    """What a list of paragraph properties says, level by level."""
    found: Levels = {}
    for one in () if styles is None else styles:
        named = _LEVEL.fullmatch(one.tag)
        mark = _bullet(one) if named else None
        if named and mark is not None:
            found.setdefault(int(named.group(1)) - 1, mark)
    return found


def _shapes(root: Element | None) -> dict[str, Levels]:
    """Placeholders of a layout or master by number and by kind, the first of each."""
    found: dict[str, Levels] = {}
    for one in () if root is None else root.iter("p:sp"):
        place = placeholder(one)
        if place is not None:
            levels = _levels(child(one, "p:txBody", "a:lstStyle"))
            found.setdefault(place.index, levels)
            found.setdefault(place.kind, levels)
    return found
