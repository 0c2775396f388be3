"""The one packer that fills the token budget. Strategies say what belongs together; sizes are decided here.

A section is a row of atoms. A chunk takes atoms while they fit. An atom that can't fit a chunk of its own is divided:
sections at blocks, blocks at their own cuts (items, rows, statements), then at lines, sentences, words and graphemes,
in this order, paragraphs at sentences before lines. Headings and lead-ins never end a chunk while something follows.
Within a section the work is greedy from its start, so that text added later leaves earlier chunks as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipeline.chunk import atoms, cuts
from pipeline.chunk.atoms import Atom
from pipeline.chunk.measure import Measure
from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.outline import Outline
from pipeline.types import Block, Chunk, ParsedDocument

_SLACK = 16
"""Tokens by which a span's own count may fall below the whole text's before a test for fit is trusted to say no."""

_LEVELS = 2
"""Ways of dividing by content; after them only size is left."""


def pack(document: ParsedDocument, sections: Iterable[Sequence[Block]], options: ChunkOptions) -> tuple[Chunk, ...]:
    """Chunks of all sections in order.

    With `respect_sections` none reaches from one section into another; without, whole sections share a chunk while
    they fit. Spans start with a character that isn't white space (or the indentation of its line) and end after one.
    Starts and ends strictly rise. Linear in the text.
    """
    packer = _Packer(document, options)
    if options.respect_sections:
        for section in sections:
            packer.blocks(section)
    else:
        rows = [atoms.of_blocks(document.text, section) for section in sections]
        packer.row([atoms.group(row) for row in rows if row])
    return tuple(packer.chunks)


class _Packer:
    """Chunks so far, and the lookups that one document needs."""

    def __init__(self, document: ParsedDocument, options: ChunkOptions) -> None:
        self.text = document.text
        self.options = options
        self.measure = Measure(document.text)
        self.outline = Outline(document, self.measure, options.target_size)
        self.graphemes = cuts.Graphemes(document.text)
        self.chunks: list[Chunk] = []

    def blocks(self, section: Sequence[Block]) -> None:
        """Emit the chunks of one section; most sections fit whole and need no atoms."""
        span = atoms.trim(self.text, section[0].start, section[-1].end) if section else None
        if span is None:
            return
        if self.fits(*span):
            self.emit(*span)
        else:
            self.row(atoms.of_blocks(self.text, section))

    def row(self, row: list[Atom]) -> None:
        """Emit the chunks of a row of atoms."""
        ahead = row[::-1]  # a stack: dividing an atom replaces its top
        taken: list[Atom] = []
        start = row[0].start if row else 0
        while ahead:
            self.fill(start, taken, ahead)
            if not ahead:
                self.emit(start, taken[-1].end)
            elif taken and not self.goes_on(start, taken, ahead):
                start, taken = self.close(start, taken, ahead), []
            elif not taken and start < ahead[-1].start and self.fits(ahead[-1].start, ahead[-1].end):
                start = ahead[-1].start  # the overlap left no room for an atom that fits without it
            elif finer := self.divide(start, ahead[-1]):
                ahead[-1:] = finer[::-1]
            elif taken:
                start, taken = self.close(start, taken, ahead), []
            elif start < ahead[-1].start:
                start = ahead[-1].start
            else:
                self.emit_grapheme(start, ahead)
                start = ahead[-1].start if ahead else start

    def fill(self, start: int, taken: list[Atom], ahead: list[Atom]) -> None:
        """Move atoms from `ahead` to `taken` while the chunk from `start` has room."""
        budget = self.budget(start)
        reach = self.measure.reach(start, budget)
        at = len(taken)
        while ahead and ahead[-1].end <= reach:
            taken.append(ahead.pop())
        # `reach` is exact but for the lines at both ends, so a step or two settle it.
        while len(taken) > at and not self.within(start, taken[-1].end, budget):
            ahead.append(taken.pop())
        while ahead and self.within(start, ahead[-1].end, budget):
            taken.append(ahead.pop())

    def goes_on(self, start: int, taken: list[Atom], ahead: list[Atom]) -> bool:
        """Whether the next atom, which doesn't fit, is divided to fill this chunk rather than left for the next."""
        if all(one.leads for one in taken):
            return True
        if self.fits(ahead[-1].start, ahead[-1].end):
            return False
        # It has to be divided anyway: begin it here if this chunk would be left more than half empty.
        return self.measure.count(start, taken[-1].end) * 2 < self.budget(start)

    def close(self, start: int, taken: list[Atom], ahead: list[Atom]) -> int:
        """Emit what was taken, but for leads at its end; the start of the next chunk."""
        if not all(one.leads for one in taken):
            while taken[-1].leads:
                ahead.append(taken.pop())
        self.emit(start, taken[-1].end)
        return self.overlap_start(start, taken, ahead[-1])

    def divide(self, start: int, one: Atom) -> list[Atom]:
        """The atom in two or more pieces; empty if only a cut by size is left and none fits the chunk from `start`."""
        if inner := atoms.parts(self.text, one):
            return list(inner)
        for level, way in enumerate(self.ways(one)[one.level :], start=one.level + 1):
            if found := way(one.start, one.end):
                return list(atoms.pieces(self.text, one.start, one.end, found, kind=one.kind, level=level))
        cut = self.cut_by_size(start, one)
        return list(atoms.pieces(self.text, one.start, one.end, (cut,), kind=one.kind, level=_LEVELS)) if cut else []

    def ways(self, one: Atom) -> list[Callable[[int, int], list[int]]]:
        """How an atom is divided, best first: prose at sentences, everything else at lines."""
        return [self.sentences, self.lines] if one.kind == "paragraph" else [self.lines, self.sentences]

    def lines(self, start: int, end: int) -> list[int]:
        return cuts.lines(self.text, start, end)

    def sentences(self, start: int, end: int) -> list[int]:
        return cuts.sentences(self.text, start, end, self.graphemes)

    def cut_by_size(self, start: int, one: Atom) -> int:
        """The last place in a single sentence at which the chunk from `start` fits: a word's start, else a grapheme's.

        0 if there is none. A word is cut only if it's too long for any chunk.
        """
        budget = self.budget(start)
        reach = min(self.measure.reach(start, budget) + 1, one.end - 1)
        cut = cuts.last_gap(self.text, one.start, reach, self.graphemes)
        while cut > one.start and not self.within(start, cut, budget):
            cut = cuts.last_gap(self.text, one.start, cut - 1, self.graphemes)
        if cut > one.start:
            return cut
        full = self.measure.reach(one.start, self.options.target_size)
        if cuts.last_gap(self.text, one.start, min(full, one.end - 1), self.graphemes) >= 0:
            return 0
        cut = self.graphemes.floor(reach)
        while cut > one.start and not self.within(start, cut, budget):
            cut = self.graphemes.floor(cut - 1)
        return max(cut, 0) if cut > one.start else 0

    def emit_grapheme(self, start: int, ahead: list[Atom]) -> None:
        """Emit the first grapheme of the next atom, which no budget divides; the rest of the atom stays."""
        one = ahead.pop()
        first = start
        while self.text[first].isspace() and self.graphemes.is_boundary(first + 1):
            first += 1
        end = min(self.graphemes.next(first), one.end)
        self.emit(first, end, oversize=not self.fits(first, end))
        rest = atoms.trim(self.text, end, one.end)
        if rest is not None:
            ahead.append(Atom(*rest, kind=one.kind, level=one.level))

    def overlap_start(self, start: int, taken: list[Atom], following: Atom) -> int:
        """The start of the next chunk: that of `following`, or earlier by at most `overlap` tokens.

        The best boundary wins: a block's start, else a sentence's or a line's, else a word's. What the next chunk
        needs for an atom that fits whole isn't spent on overlap.
        """
        end, allowed = taken[-1].end, self.options.overlap
        if allowed:
            # Within the target, what is left beside an atom that fits whole; an atom that doesn't will be divided.
            left = self.budget(following.start) - self.measured(following)
            allowed = allowed if left < 0 else min(allowed, left)
        if allowed <= 0:
            return following.start
        earliest = max(self.measure.back(end, allowed), start + 1)
        whole = following.end if self.fits(following.start, following.end) else 0
        for found in self.overlap_candidates(taken, earliest, end):
            for at in found:
                if earliest <= at and self.within(at, end, allowed) and (not whole or self.fits(at, whole)):
                    return at
        return following.start

    def overlap_candidates(self, taken: list[Atom], earliest: int, end: int) -> Iterator[list[int]]:
        """Places where repeated text may start, best first; never inside a row, nor inside a line of code."""
        yield list(atoms.starts(self.text, taken))
        last = atoms.last_leaf(self.text, taken[-1])
        if last.kind in {"table", "records", "row"}:
            return
        first = max(last.start, earliest - 1)
        if last.kind == "code":
            yield self.lines(first, end)
            return
        for way in self.ways(last):
            yield way(first, end)
        yield cuts.words(self.text, first, end, self.graphemes)

    def measured(self, one: Atom) -> int:
        """Tokens of an atom, or more than any budget for one that is far too long to be counted."""
        budget = self.budget(one.start)
        if one.end > self.measure.reach(one.start, budget + _SLACK):
            return budget + 1
        return self.measure.count(one.start, one.end)

    def budget(self, start: int) -> int:
        """Tokens that are left for the text of a chunk from `start`."""
        target = self.options.target_size
        return target - self.outline.prefix(start)[1] if self.outline.repeats else target

    def fits(self, start: int, end: int) -> bool:
        """Whether a chunk of this span keeps within the target."""
        return self.within(start, end, self.budget(start))

    def within(self, start: int, end: int, budget: int) -> bool:
        """Whether the span, white space at its end left out, has at most `budget` tokens."""
        if end > self.measure.reach(start, budget + _SLACK):
            return False  # far beyond: counting could mean encoding a very long line
        while end > start and self.text[end - 1].isspace():
            end -= 1
        return self.measure.count(start, end) <= budget

    def emit(self, start: int, end: int, *, oversize: bool = False) -> None:
        self.chunks.append(self.outline.chunk(len(self.chunks), start, end, oversize=oversize))
