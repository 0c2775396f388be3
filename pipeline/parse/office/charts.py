"""Charts and SmartArt of all three Office formats, from their own parts: a table of what is drawn, a list of what is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from xml.etree.ElementTree import Element

from pipeline.parse.office.drawingml import body_text
from pipeline.parse.office.ooxml import child, number
from pipeline.parse.office.writer import Item, Writer, flat
from pipeline.parse.office.xlsx_values import format_kind, shown

CELLS_MAX = 1_000_000
"""Cells of one chart's table; more and each series gets its own."""
_AXES = ("c:catAx", "c:dateAx", "c:valAx", "c:serAx")
_NAMED_FORMAT = 164
"""Number formats from here on are given by their text, as those in charts are."""
_SILENT = frozenset(("pres", "parTrans", "sibTrans"))
"""Points of a diagram that lay out, join or repeat others."""

Points = dict[int, str]


@dataclass(frozen=True, slots=True)
class _Series:
    """One row of numbers of a chart, by their place."""

    name: str
    categories: Points
    columns: tuple[Points, ...]
    """Values, and the sizes of bubbles."""


def write_chart(root: Element, into: Writer, *, data: bool = True) -> None:
    """A chart's titles as a paragraph and its numbers as tables, one for all series with the same categories.

    Args:
        root: the chart's part.
        into: where to write.
        data: whether the numbers are written; a workbook's charts only repeat those of its sheets.
    """
    chart = child(root, "c:chart")
    plot = child(root, "c:chart", "c:plotArea")
    if chart is None or plot is None:
        return
    axes = [(axis.tag, _title(axis)) for axis in plot if axis.tag in _AXES]
    into.paragraph("\n".join([_title(chart), *(title for tag, title in axes if tag != "c:catAx" or not data)]))
    if not data:
        return
    named = next((title for tag, title in axes if tag == "c:catAx"), "")
    series = [_series(one) for kind in plot for one in kind if one.tag == "c:ser"]
    for _, alike in groupby(series, key=lambda one: one.categories):
        together = list(alike)
        places = {at for one in together for points in (one.categories, *one.columns) for at in points}
        # Series that share no place would make a table of blanks, as many as their number squared.
        apart = len(places) * len(together) > CELLS_MAX
        for group in [[one] for one in together] if apart else [together]:
            _write_series(group, named, into)


def _write_series(group: list[_Series], named: str, into: Writer) -> None:
    """A table of series with the same categories, one column each."""
    categories = group[0].categories
    columns = [(one.name, points) for one in group for points in one.columns]
    places = sorted({at for points in (categories, *(points for _, points in columns)) for at in points})
    rows = [[categories.get(at, ""), *(points.get(at, "") for _, points in columns)] for at in places]
    if rows:
        into.table([[named, *(name for name, _ in columns)], *rows], headers=1)


def write_diagram(root: Element, into: Writer) -> None:
    """The texts of a SmartArt drawing as a list, in its own order and nesting."""
    points = child(root, "dgm:ptLst")
    links = child(root, "dgm:cxnLst")
    texts: dict[str, str] = {}
    for point in () if points is None else points:
        if point.get("type", "node") not in _SILENT:
            texts[point.get("modelId", "")] = flat(body_text(child(point, "dgm:t")))
    below: dict[str, list[tuple[int, str]]] = {}
    lower = set()
    for link in () if links is None else links:
        if link.get("type", "parOf") == "parOf" and link.get("destId") in texts:
            below.setdefault(link.get("srcId", ""), []).append((number(link.get("srcOrd")), link.get("destId", "")))
            lower.add(link.get("destId"))
    ahead = [(0, one) for one in texts if one not in lower][::-1]
    # Points that only hang on each other in a circle come last rather than never.
    ahead[:0] = [(0, one) for one in texts if one in lower][::-1]
    items, seen = [], set()
    while ahead:
        depth, one = ahead.pop()
        if one not in seen:
            seen.add(one)
            if texts[one]:
                items.append(Item(depth, "-", texts[one]))
            inner = depth + bool(texts[one])
            ahead += [(inner, other) for _, other in sorted(below.get(one, ()), reverse=True)]
    into.items(items)


def _title(element: Element) -> str:
    """The title of a chart or an axis, written or taken from a cell."""
    text = child(element, "c:title", "c:tx")
    if text is None:
        return ""
    return flat(body_text(child(text, "c:rich"))) or " ".join(_points(text).values())


def _series(element: Element) -> _Series:
    name = child(element, "c:tx")
    categories = child(element, "c:cat")
    if categories is None:
        categories = child(element, "c:xVal")
    columns = (child(element, tag) for tag in ("c:val", "c:yVal", "c:bubbleSize"))
    return _Series(
        "" if name is None else " ".join(_points(name).values()) or (child_text(name, "c:v")),
        {} if categories is None else _points(categories),
        tuple(points for one in columns if one is not None and (points := _points(one))),
    )


def child_text(element: Element, tag: str) -> str:
    """The text of the first child of that name."""
    found = child(element, tag)
    return "" if found is None else found.text or ""


def _points(element: Element) -> Points:
    """The values that the chart has stored, by their place; levels of categories are joined, outermost first."""
    levels: list[Points] = []
    for cache in _caches(element):
        inner = [one for one in cache if one.tag == "c:lvl"] or [cache]
        levels += [_level(one, child_text(one, "c:formatCode")) for one in inner]
    if len(levels) < 2:  # noqa: PLR2004 - nothing to join
        return levels[0] if levels else {}
    # An outer category is written at its first place and holds until the next.
    joined = {}
    current = [""] * len(levels)
    for place in sorted({at for level in levels for at in level}):
        current = [level.get(place, before) for level, before in zip(levels, current, strict=True)]
        joined[place] = " / ".join(text for text in reversed(current) if text)
    return joined


def _caches(element: Element) -> Iterator[Element]:
    for reference in element:
        if reference.tag in {"c:strLit", "c:numLit"}:
            yield reference
        for one in reference:
            if one.tag in {"c:strCache", "c:numCache", "c:multiLvlStrCache"}:
                yield one


def _level(cache: Element, code: str) -> Points:
    numeric = cache.tag in {"c:numCache", "c:numLit"}
    points = {}
    for point in cache:
        if point.tag == "c:pt":
            text = child_text(point, "c:v")
            points[number(point.get("idx"))] = shown(text, format_kind(_NAMED_FORMAT, code)) if numeric else flat(text)
    return points
