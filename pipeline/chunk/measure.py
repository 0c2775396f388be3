"""Exact token counts of spans of one text, from one encoding pass.

cl100k's pre-tokenizer never makes a piece that holds a newline followed by a character that isn't white space. So the
start of a line that isn't blank is a piece boundary in every text that holds that line, and counts of spans between
such line starts add up. Only the first and the last line of a span may need encoding of their own
(`tests/properties/test_chunk_properties.py` compares with encoding each span).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from pipeline import tokens

_PLAIN_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


class Measure:
    """Token positions of `text`."""

    def __init__(self, text: str) -> None:
        self.text = text
        # An array of machine integers: a list of as many objects would take an eighth of chunking's time to make.
        self.starts = array("q", tokens.boundaries(text).tobytes())
        """Offset at which each token of the whole text starts."""
        self._small: dict[str, int] = {}
        self._last = (0, 0, 0)
        """The span that was counted last, and its count: what fits is made a chunk next."""

    def count(self, start: int, end: int) -> int:
        """Exactly `tokens.count(text[start:end])`."""
        last = self._last
        if last[0] == start and last[1] == end:
            return last[2]
        found = self._count(start, end) if start < end else 0
        self._last = (start, end, found)
        return found

    def _count(self, start: int, end: int) -> int:
        text = self.text
        if start and text[start - 1] != "\n":
            line = self._next_line(start, end)
            if line < 0:
                return self._encode(text[start:end])
            return self._encode(text[start:line]) + self._count(line, end)
        if not starts_with_text(text, start, end):
            return self._encode(text[start:end])
        return self._aligned_end(start, end) - bisect_left(self.starts, start)

    def reach(self, start: int, budget: int) -> int:
        """About the furthest end with which a span from `start` keeps within `budget` tokens; a place to begin."""
        at = bisect_left(self.starts, start) + budget
        return self.starts[at] if at < len(self.starts) else len(self.text)

    def back(self, end: int, budget: int) -> int:
        """About the earliest start with which a span up to `end` keeps within `budget` tokens."""
        at = bisect_left(self.starts, end) - budget
        return self.starts[at] if at > 0 else 0

    def _aligned_end(self, start: int, end: int) -> int:
        """Index of the first token past `end`, had the text ended there; the span starts at a line that isn't blank."""
        text, starts = self.text, self.starts
        if end == len(text):
            return len(starts)
        last, following = text[end - 1], text[end]
        if following in "\n " and last.isalnum():
            return bisect_left(starts, end)  # letters and digits never join what follows them here
        if following == "\n" and last in _PLAIN_PUNCTUATION:
            # A run of punctuation takes newlines into its piece, so only that piece is counted anew.
            at = end - 1
            while at > start and text[at - 1] in _PLAIN_PUNCTUATION:
                at -= 1
            before = text[at - 1] if at > start else "\n"
            if before == " " and at - 1 > start:
                at -= 1
                before = "a" if text[at - 1] != "\n" else "\n"
            if before.isalnum() or before == "\n":
                return bisect_left(starts, at) + self._encode(text[at:end])
        line = text.rfind("\n", start, end - 1) + 1
        while line > start and not starts_with_text(text, line, end):
            line = text.rfind("\n", start, line - 1) + 1
        line = max(line, start)
        return bisect_left(starts, line) + self._encode(text[line:end])

    def _next_line(self, start: int, end: int) -> int:
        """Start of the first line after `start` that isn't blank before `end`; -1 if there is none."""
        text = self.text
        at = text.find("\n", start, end)
        while at >= 0 and at + 1 < end:
            stop = text.find("\n", at + 1, end)
            if not text[at + 1 : stop if stop >= 0 else end].isspace() and stop != at + 1:
                return at + 1
            at = stop
        return -1

    def _encode(self, piece: str) -> int:
        if len(piece) > 16:  # noqa: PLR2004 - short pieces are mostly closing punctuation and come again
            return tokens.count(piece)
        known = self._small.get(piece)
        if known is None:
            known = self._small[piece] = tokens.count(piece)
        return known


def starts_with_text(text: str, start: int, end: int) -> bool:
    """Whether the line at `start`, as far as `end`, holds more than white space: whether counts add up there."""
    stop = text.find("\n", start, end)
    line = text[start : stop if stop >= 0 else end]
    return bool(line) and not line.isspace()
