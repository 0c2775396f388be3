"""Where text may be cut: lines, sentences, words, graphemes. Never inside a grapheme cluster."""

from __future__ import annotations

import re
from bisect import bisect_right

import regex

_SENTENCE = re.compile(r"""(?:[.!?…]+["'”\u2019)\]]*\s+|[。\uff01\uff1f｡]+["”\u2019」』\uff09]*\s*)(?=\S)""")
_GAP = re.compile(r"\s+(?=\S)")
_CLUSTER = regex.compile(r"\X")
_JOINING = regex.compile(
    r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=Prepend}\p{GCB=L}\p{GCB=V}\p{GCB=T}\p{GCB=Regional_Indicator}"
    r"\p{GCB=CR}]"
)
"""Characters that can stand in a cluster with a neighbour; in text without them every character is a cluster."""
MARKS_FROM = 0x300
"""The first character that joins one before it; below it no two characters form a cluster, '\\r\\n' apart."""
PREFIX_SIGNS_FROM = 0x600
"""The first character that joins one after it without being one that is joined."""


def cluster_end(text: str, at: int) -> int:
    """End of the cluster that starts at `at`."""
    match = _CLUSTER.match(text, at)
    return int(match.end()) if match else at + 1


class Graphemes:
    """Cluster boundaries of one text, worked out where they are asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ascii = text.isascii() and "\r" not in text
        self._lines: dict[int, list[int] | None] = {}

    def is_boundary(self, at: int) -> bool:
        """Whether a cut at `at` leaves clusters whole."""
        return self.floor(at) == at

    def floor(self, at: int) -> int:
        """The last boundary at or before `at`."""
        text = self.text
        if self._ascii or at <= 0 or at >= len(text):
            return at
        if ord(text[at]) < MARKS_FROM and ord(text[at - 1]) < MARKS_FROM and text[at] != "\n":
            return at
        start, stops = self._line(at)
        if stops is None:
            return at
        return stops[bisect_right(stops, at) - 1] if stops[0] <= at else start

    def next(self, at: int) -> int:
        """The first boundary after `at`, which is one itself."""
        if self._ascii:
            return at + 1
        return cluster_end(self.text, at)

    def _line(self, at: int) -> tuple[int, list[int] | None]:
        """Start of the line that holds `at`, and its cluster starts; None where every character is one."""
        text = self.text
        start = text.rfind("\n", 0, at) + 1
        if start not in self._lines:
            stop = text.find("\n", at) + 1 or len(text)
            joined = _JOINING.search(text, start, stop)
            self._lines[start] = [m.start() for m in _CLUSTER.finditer(text, start, stop)] if joined else None
        return start, self._lines[start]


def lines(text: str, start: int, end: int) -> list[int]:
    """Starts of lines inside (start, end) that aren't blank."""
    found, at = [], text.find("\n", start, end)
    while 0 <= at < end - 1:
        stop = text.find("\n", at + 1, end)
        if not text[at + 1 : stop if stop >= 0 else end].isspace() and stop != at + 1:
            found.append(at + 1)
        at = stop
    return found


def sentences(text: str, start: int, end: int, graphemes: Graphemes) -> list[int]:
    """Starts of sentences inside (start, end)."""
    return [m.end() for m in _SENTENCE.finditer(text, start, end) if m.end() < end and graphemes.is_boundary(m.end())]


def last_gap(text: str, start: int, end: int, graphemes: Graphemes) -> int:
    """The last word start in (start, end], or -1. Words are what white space divides."""
    at = end
    while at > start:
        if text[at - 1].isspace() and at < len(text) and not text[at].isspace() and graphemes.is_boundary(at):
            return at
        at -= 1
    return -1


def words(text: str, start: int, end: int, graphemes: Graphemes) -> list[int]:
    """Starts of words inside (start, end)."""
    return [m.end() for m in _GAP.finditer(text, start, end) if m.end() < end and graphemes.is_boundary(m.end())]
