"""Which parts of a long text are read, call by call. Pure."""

from __future__ import annotations

from dataclasses import dataclass

LOOK_BACK = 8
"""A window ends at the last break in its last eighth."""
SPLIT_CHARS_MIN = 400
"""A text shorter than this isn't divided further when a reply is cut off."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What of a text is read."""

    windows: tuple[tuple[int, int], ...]
    """Half-open code-point ranges, in order, without gaps."""
    truncated: bool
    """Whether the end of the text is left out."""


def windows(text: str, *, window_chars: int, call_chars: int) -> Reading:
    """Windows over a text.

    Args:
        text: the whole text.
        window_chars: characters of a window; 0: the beginning alone is read, in one call.
        call_chars: most characters of one call.
    """
    if not text.strip():
        return Reading((), truncated=False)
    if window_chars == 0:
        end = _cut(text, 0, call_chars)
        return Reading(((0, end),), truncated=bool(text[end:].strip()))
    size = min(window_chars, call_chars)
    found, start = [], 0
    while start < len(text):
        end = _cut(text, start, size)
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


def _cut(text: str, start: int, size: int) -> int:
    """Where a window from `start` ends: at a paragraph, a line, a sentence or a blank, as far as one is near its end."""
    end = start + size
    if end >= len(text):
        return len(text)
    least = end - max(size // LOOK_BACK, 1)
    for mark in ("\n\n", "\n", ". ", " "):
        at = text.rfind(mark, least, end)
        if at > start:
            return at + len(mark)
    return end
