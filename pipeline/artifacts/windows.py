"""Which parts of a long text are read, call by call. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.types import ParsedDocument

LOOK_BACK = 8
"""A window ends at the last break in its last eighth."""
TABLES = frozenset({"row", "records", "table"})
"""Blocks whose rows stand under a header."""
SPLIT_CHARS_MIN = 400
"""A text shorter than this isn't divided further when a reply is cut off."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a text is read."""

    windows: tuple[tuple[int, int], ...]
    """Half-open code-point ranges, in order, without gaps."""
    truncated: bool
    """Whether the end of the text is left out."""


def rows_of(document: ParsedDocument) -> tuple[int, ...]:
    """Where rows of tables end, in order: a window that ends there tears none."""
    ends: list[int] = []
    for block in document.blocks:
        if block.kind in TABLES:
            ends += [*block.cuts, block.end]
    return tuple(ends)


def header_at(document: ParsedDocument, start: int) -> str:
    """The header of the table in whose rows `start` lies; empty where it lies in none, or at a table's beginning."""
    for block in document.blocks:
        if block.start <= start < block.end and block.kind in TABLES:
            if block.kind == "row":
                return document.header
            return document.text[block.start : block.header_end] if start >= block.header_end > 0 else ""
    return ""


def windows(text: str, *, window_chars: int, call_chars: int, rows: Sequence[int] = ()) -> Reading:
    """Windows over a text.

    Args:
        text: the whole text.
        rows: where rows of its tables end, in order.
        window_chars: characters of a window; 0: the beginning alone is read, in one call.
        call_chars: most characters of one call.
    """
    if not text.strip():
        return Reading((), truncated=False)
    if window_chars == 0:
        end = _cut(text, 0, call_chars, rows)
        return Reading(((0, end),), truncated=bool(text[end:].strip()))
    size = min(window_chars, call_chars)
    found, start = [], 0
    while start < len(text):
        end = _cut(text, start, size, rows)
        if text[start:end].strip():
            found.append((start, end))
        start = end
    return Reading(tuple(found), truncated=False)


def halves(text: str) -> tuple[tuple[int, int], ...]:
    """Two ranges that divide a text at a break near its middle; none where it is too short."""
    if len(text) < SPLIT_CHARS_MIN:
        return ()
    middle = _cut(text, 0, len(text) // 2)
    return ((0, middle), (middle, len(text)))


def _cut(text: str, start: int, size: int, rows: Sequence[int] = ()) -> int:
    """Where a window from `start` ends: at a row, a paragraph, a line, a sentence or a blank, as far as one is near."""
    end = start + size
    if end >= len(text):
        return len(text)
    least = end - max(size // LOOK_BACK, 1)
    at = bisect_right(rows, end)
    if at and rows[at - 1] > max(start, end - size // 2):
        return rows[at - 1]
    for mark in ("\n\n", "\n", ". ", " "):
        at = text.rfind(mark, least, end)
        if at > start:
            return at + len(mark)
    return end
