"""What surrounds a place in a document: heading path, pages, repeated prefix. Turns spans into chunks."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from pipeline import tokens
from pipeline.chunk.measure import Measure, starts_with_text
from pipeline.types import Block, BlockKind, Chunk, ParsedDocument, Symbol

TABLES: frozenset[BlockKind] = frozenset(("table", "records", "row"))
HEADED: frozenset[BlockKind] = frozenset((*TABLES, "code"))
"""Kinds of blocks with a header; a fenced code block's is its opening line."""


class _Heading(NamedTuple):
    """Where a heading stands, which block it is, and the titles above it and its own."""

    start: int
    block: int
    path: tuple[str, ...]


class Outline:
    """Lookups by offset in one document."""

    def __init__(
        self, document: ParsedDocument, measure: Measure, target_size: int, *, repeat: frozenset[BlockKind] = HEADED
    ) -> None:
        """Look the document over once.

        Args:
            document: what is cut.
            measure: its token positions.
            target_size: tokens of a chunk at most.
            repeat: kinds of blocks whose header is repeated in front of what is cut off.
        """
        self.document = document
        self.measure = measure
        self.target_size = target_size
        self._headings = _headings(document.blocks)
        self._heading_starts = [heading.start for heading in self._headings]
        self._headed = [block for block in document.blocks if block.header_end and block.kind in repeat]
        self._headed_starts = [block.start for block in self._headed]
        self._symbol_starts = [symbol.start for symbol in document.symbols]
        self._around = _around(document.symbols)
        self.repeats = bool(document.header or self._headed)
        """Whether any chunk of the document can have a prefix."""
        self._prefixes: dict[int, tuple[str, int]] = {}

    def prefix(self, start: int) -> tuple[str, int]:
        """The header lines that a chunk from `start` repeats, and their tokens; empty where there are none.

        A prefix that takes more than half of the budget is dropped.
        """
        if not self.repeats:
            return "", 0
        if self.document.header:
            return self._sized(-1, self.document.header)
        at = bisect_right(self._headed_starts, start) - 1
        if at < 0 or not self._headed[at].header_end <= start < self._headed[at].end:
            return "", 0
        block = self._headed[at]
        return self._sized(at, self.document.text[block.start : block.header_end])

    def chunk(self, index: int, start: int, end: int, *, oversize: bool = False) -> Chunk:
        """The chunk of a span, everything about it filled in."""
        document = self.document
        prefix = self.prefix(start)[0]
        return Chunk(
            text=document.text[start:end],
            start=start,
            end=end,
            index=index,
            tokens=self.size(start, end),
            heading_path=self.path(start, end),
            prefix=prefix,
            pages=self.pages(start, end),
            oversize=oversize,
        )

    def size(self, start: int, end: int) -> int:
        """Exactly the tokens of prefix and span together."""
        prefix, tokens_before = self.prefix(start)
        if prefix and not starts_with_text(self.document.text, start, end):
            # The newline that ends the prefix joins the white space after it; nothing adds up there.
            return tokens.count(prefix + self.document.text[start:end])
        return tokens_before + self.measure.count(start, end)

    def path(self, start: int, end: int) -> tuple[str, ...]:
        """Titles of the headings above `start`; headings that the span opens with count as above it.

        In code, names of the symbols that the whole span lies in: several definitions have none in common.
        """
        if self.document.symbols:
            return self._symbols(start, end)
        headings, blocks = self._headings, self.document.blocks
        at = bisect_right(self._heading_starts, start) - 1
        if at >= 0 and headings[at].start == start:
            block = headings[at].block
        elif not blocks or start < blocks[0].start:
            block = -1
        else:
            return headings[at].path if at >= 0 else ()
        # The span opens with headings: the last of them that follow each other says where it stands.
        while at + 1 < len(headings) and headings[at + 1].block == block + 1 and headings[at + 1].start < end:
            at, block = at + 1, block + 1
        return headings[at].path if at >= 0 else ()

    def _symbols(self, start: int, end: int) -> tuple[str, ...]:
        # They nest, so those that begin at or before `start` and haven't ended there stand one in the other.
        at = bisect_right(self._symbol_starts, start)
        path: list[str] = []
        while at > 0:
            if self.document.symbols[at - 1].end >= end:
                path.append(self.document.symbols[at - 1].name)
            at = self._around[at - 1]
        return tuple(path[::-1])

    def pages(self, start: int, end: int) -> tuple[int, int]:
        """First and last page that the span touches, from 1; (0, 0) without pages."""
        starts = self.document.page_starts
        return (bisect_right(starts, start), bisect_right(starts, end - 1)) if starts else (0, 0)

    def _sized(self, key: int, prefix: str) -> tuple[str, int]:
        if key not in self._prefixes:
            size = tokens.count(prefix)
            self._prefixes[key] = ("", 0) if size * 2 > self.target_size else (prefix, size)
        return self._prefixes[key]


def _around(symbols: tuple[Symbol, ...]) -> list[int]:
    """For each symbol, one more than the index of the one around it; 0 for the outermost."""
    around: list[int] = []
    opened: list[int] = []
    for at, symbol in enumerate(symbols):
        while opened and symbols[opened[-1]].end <= symbol.start:
            opened.pop()
        around.append(opened[-1] + 1 if opened else 0)
        opened.append(at)
    return around


def _headings(blocks: tuple[Block, ...]) -> list[_Heading]:
    found: list[_Heading] = []
    opened: list[tuple[int, str]] = []
    for at, block in enumerate(blocks):
        if block.kind == "heading":
            while opened and opened[-1][0] >= block.level:
                opened.pop()
            opened.append((block.level, block.title))
            found.append(_Heading(block.start, at, tuple(title for _, title in opened if title)))
    return found
