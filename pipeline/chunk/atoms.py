"""Atoms: what the packer moves. A span, what it falls into, and whether it wants to stand with what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline.types import Block

LEAD_IN_CHARS_MAX = 400
"""A paragraph up to this long that ends in a colon introduces what follows and stays with it."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece that stays whole while it fits. Its span starts and ends with characters that aren't white space,
    but for the indentation of a first line."""

    start: int
    end: int
    leads: bool = False
    """A heading or a lead-in: no chunk ends with it while something follows."""
    paragraph: bool = False
    """Divided at sentences before lines; everything else at lines first."""
    parts: tuple[Atom, ...] = ()
    """What it falls into first; empty: by level."""
    level: int = 0
    """How many of the two ways (lines, sentences) are used up."""


def of_block(text: str, block: Block) -> Atom | None:
    """A block as an atom; None for one of white space only."""
    span = trim(text, block.start, block.end)
    if span is None:
        return None
    start, end = span
    parts = tuple(pieces(text, start, end, block.cuts, level=0)) if block.cuts else ()
    paragraph = block.kind == "paragraph"
    leads = block.kind == "heading" or (paragraph and text[end - 1] == ":" and end - start <= LEAD_IN_CHARS_MAX)
    return Atom(start, end, leads=leads, paragraph=paragraph, parts=parts if len(parts) > 1 else ())


def of_blocks(text: str, blocks: Sequence[Block]) -> list[Atom]:
    """Blocks as atoms, without those of white space only."""
    return [one for block in blocks if (one := of_block(text, block)) is not None]


def group(atoms: Sequence[Atom]) -> Atom:
    """Several atoms as one that is kept whole while it fits."""
    return Atom(
        atoms[0].start,
        atoms[-1].end,
        leads=all(one.leads for one in atoms),
        parts=tuple(atoms) if len(atoms) > 1 else atoms[0].parts,
        paragraph=len(atoms) == 1 and atoms[0].paragraph,
    )


def pieces(
    text: str, start: int, end: int, cuts: Iterable[int], *, level: int, paragraph: bool = False
) -> Iterator[Atom]:
    """The span divided at the offsets `cuts`, white space between the pieces dropped."""
    points = [start, *(p for p in cuts if start < p < end), end]
    for left, right in zip(points, points[1:], strict=False):
        span = trim(text, left, right)
        if span is not None:
            yield Atom(*span, paragraph=paragraph, level=level)


def trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without blank lines before it and white space after it; None if nothing is left."""
    while end > start and text[end - 1].isspace():
        end -= 1
    at = start
    while at < end and text[at].isspace():
        at += 1
        if text[at - 1] == "\n":
            start = at
    if at >= end:
        return None
    # A line keeps its indentation, but a cut inside a line leaves its blank behind.
    return (start if start == 0 or text[start - 1] == "\n" else at), end
