"""Word's styles and numbering: which paragraphs are headings, list items or hidden, and what number an item has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree.ElementTree import Element

from pipeline.parse.office.ooxml import child, is_on, number

_CHAIN_MAX = 32
"""Styles that one rests on, one on the other; Word itself allows about ten."""
_BODY = 9
"""The outline level that says "not a heading"."""
_LEVEL_MAX = 8
"""Levels of a list, from 0."""
_TITLE = "title"
_HEADING = re.compile(r"heading ([1-9])")
_NESTED_LIST = re.compile(r"list (?:bullet|number|continue) ([2-9])")
_UNNUMBERED = frozenset(("bullet", "none"))


@dataclass(frozen=True, slots=True)
class ListPlace:
    """Where a paragraph stands in a list, as far as the paragraph and its styles tell."""

    key: str
    """The list."""
    level: int
    """From 0; -1 where only the list itself tells it."""
    deeper: int
    """Levels that the style's name puts it deeper, as in `List Bullet 2`, whose list has one level only."""
    style: str
    """The style that names the list; empty if the paragraph does."""


@dataclass(frozen=True, slots=True)
class _Style:
    """What one style, or a paragraph itself, says."""

    key: str = ""
    name: str = ""
    """In lower case; the same in every language of the program."""
    based_on: str = ""
    hidden: bool | None = None
    outline: int | None = None
    """Level of a heading, from 0."""
    list_key: str | None = None
    list_level: int | None = None


@dataclass(frozen=True, slots=True)
class _Level:
    """How one level of a list counts."""

    numbered: bool
    start: int


class Styles:
    """The styles of a document by id; every question follows the chain of styles that one rests on."""

    def __init__(self, root: Element | None) -> None:
        self._styles: dict[str, _Style] = {}
        self._default = ""
        for one in () if root is None else root:
            if one.tag == "w:style":
                key, vanish = one.get("styleId", ""), child(one, "w:rPr", "w:vanish")
                self._styles[key] = _said(
                    child(one, "w:pPr"),
                    _Style(
                        key,
                        _value(one, "w:name").lower(),
                        _value(one, "w:basedOn"),
                        None if vanish is None else is_on(vanish),
                    ),
                )
                if one.get("type") == "paragraph" and one.get("default") in {"1", "true", "on"}:
                    self._default = key

    def level(self, paragraph: Element) -> int:
        """Level of a heading, from 1; 0 for text. A title is of level 1."""
        for style in self._chain(paragraph):
            if style.outline is not None:
                return style.outline + 1 if 0 <= style.outline < _BODY else 0
            if found := _HEADING.fullmatch(style.name):
                return int(found.group(1))
            if style.name == _TITLE:
                return 1
        return 0

    def is_title(self, paragraph: Element) -> bool:
        """Whether the paragraph is the document's title."""
        return any(style.name == _TITLE for style in self._chain(paragraph))

    def hides(self, paragraph: Element, run: Element) -> bool:
        """Whether a run's text isn't shown: as it says itself, else its style, else that of the paragraph."""
        own = child(run, "w:rPr", "w:vanish")
        if own is not None:
            return is_on(own)
        for key in (_value(run, "w:rPr", "w:rStyle"), self._style_of(paragraph)):
            said = next((style.hidden for style in self._below(key) if style.hidden is not None), None)
            if said is not None:
                return said
        return False

    def list_of(self, paragraph: Element) -> ListPlace | None:
        """Where the paragraph stands in a list; None outside of lists."""
        level, deeper = -1, 0
        for style in self._chain(paragraph):
            if found := _NESTED_LIST.fullmatch(style.name):
                deeper = deeper or int(found.group(1)) - 1
            if level < 0 and style.list_level is not None:
                level = min(max(0, style.list_level), _LEVEL_MAX)
            if style.list_key is not None:
                by = style.key or self._style_of(paragraph)
                return ListPlace(style.list_key, level, deeper, by) if style.list_key != "0" else None
        return None

    def list_of_style(self, key: str) -> str:
        """The list that a style names, for lists that refer to a style."""
        return self._styles.get(key, _Style()).list_key or ""

    def _style_of(self, paragraph: Element) -> str:
        key = _value(paragraph, "w:pPr", "w:pStyle")
        return key if key in self._styles else self._default

    def _chain(self, paragraph: Element) -> Iterator[_Style]:
        """What is said of a paragraph, nearest first: by itself, by its style, by those that this rests on."""
        yield _said(child(paragraph, "w:pPr"), _Style())
        yield from self._below(self._style_of(paragraph))

    def _below(self, key: str) -> Iterator[_Style]:
        """A style and those that it rests on."""
        for _ in range(_CHAIN_MAX):
            style = self._styles.get(key)
            if style is None:
                return
            yield style
            key = style.based_on


class Numbering:
    """The lists of a document and how far each has counted."""

    def __init__(self, root: Element | None, styles: Styles) -> None:
        self._kinds: dict[str, dict[int, _Level]] = {}
        """Levels of each kind of list."""
        self._of_style: dict[str, int] = {}
        """The level that a paragraph style stands for."""
        self._lists: dict[str, tuple[str, dict[int, int]]] = {}
        """Each list's kind, and levels that it starts anew."""
        self._counts: dict[str, dict[int, int]] = {}
        """How far the lists of each kind have counted, level by level; they go on with each other's numbers."""
        self._begun: set[str] = set()
        links: dict[str, str] = {}
        for one in () if root is None else root:
            if one.tag == "w:abstractNum":
                self._add_kind(one, links)
            elif one.tag == "w:num":
                self._lists[one.get("numId", "")] = (_value(one, "w:abstractNumId"), _overrides(one))
        for key, style in links.items():
            target = self._lists.get(styles.list_of_style(style), ("", {}))[0]
            self._kinds[key] = self._kinds.get(target) or self._kinds[key]

    def item(self, place: ListPlace) -> tuple[int, str]:
        """Depth and mark of the next item: `-`, or its number. To ask is to count on."""
        level = place.level if place.level >= 0 else self._of_style.get(place.style, 0)
        return level or place.deeper, self._mark(place.key, level)

    def _mark(self, key: str, level: int) -> str:
        kind, starts = self._lists.get(key, ("", {}))
        own = self._kinds.get(kind, {}).get(level, _Level(numbered=False, start=1))
        counts = self._counts.setdefault(kind, {})
        if key not in self._begun:
            self._begun.add(key)
            for anew in starts:
                counts.pop(anew, None)
        counts[level] = counts.get(level, starts.get(level, own.start) - 1) + 1
        for deeper in [one for one in counts if one > level]:
            del counts[deeper]
        return f"{counts[level]}." if own.numbered else "-"

    def _add_kind(self, element: Element, links: dict[str, str]) -> None:
        key = element.get("abstractNumId", "")
        self._kinds[key] = {}
        for one in element:
            if one.tag == "w:numStyleLink":
                links[key] = one.get("val", "")
            elif one.tag == "w:lvl":
                level = number(one.get("ilvl"))
                form, start, style = child(one, "w:numFmt"), child(one, "w:start"), child(one, "w:pStyle")
                numbered = form is not None and form.get("val", "") not in _UNNUMBERED
                self._kinds[key][level] = _Level(numbered, 1 if start is None else number(start.get("val"), 1))
                if style is not None:
                    self._of_style.setdefault(style.get("val", ""), level)


def _said(properties: Element | None, style: _Style) -> _Style:
    """A style with what its paragraph properties say."""
    if properties is None:
        return style
    outline, within = child(properties, "w:outlineLvl"), child(properties, "w:numPr")
    key = None if within is None else child(within, "w:numId")
    level = None if within is None else child(within, "w:ilvl")
    return replace(
        style,
        outline=None if outline is None else number(outline.get("val"), _BODY),
        list_key=None if key is None else key.get("val", "0"),
        list_level=None if level is None else number(level.get("val")),
    )


def _overrides(element: Element) -> dict[int, int]:
    starts = {}
    for one in element:
        start = child(one, "w:startOverride") if one.tag == "w:lvlOverride" else None
        if start is not None:
            starts[number(one.get("ilvl"))] = number(start.get("val"), 1)
    return starts


def _value(element: Element, *path: str) -> str:
    """What an element inside says."""
    found = child(element, *path)
    return "" if found is None else found.get("val", "")
