"""Atoms: what the packer moves. A span, what it falls into, and whether it wants to stand with what follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.chunk.cuts import MARKS_FROM, PREFIX_SIGNS_FROM, cluster_end
from pipeline.types import Block, BlockKind

LEAD_IN_CHARS_MAX = 400
"""A paragraph up to this long that ends in a colon introduces what follows and stays with it."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A piece that stays whole while it fits.

    Its span starts and ends with characters that aren't white space, but for the indentation of a first line.
    """

    start: int
    end: int
    leads: bool = False
    """A heading or a lead-in: no chunk ends with it while something follows."""
    kind: BlockKind = "html"
    """Kind of the block that it comes from; of no meaning for groups."""
    parts: tuple[Atom, ...] = ()
    """What a group falls into."""
    cuts: tuple[tuple[int, int], ...] = ()
    """Places inside where it falls apart, each with its depth; without any: by level."""
    level: int = 0
    """How many of the two ways (lines, sentences) are used up."""


def of_block(text: str, block: Block) -> Atom | None:
    """A block as an atom; None for one of white space only."""
    span = trim(text, block.start, block.end)
    if span is None:
        return None
    start, end = span
    kind = block.kind
    leads = kind == "heading" or (kind == "paragraph" and text[end - 1] == ":" and end - start <= LEAD_IN_CHARS_MAX)
    if not block.cuts:
        return Atom(start, end, leads=leads, kind=kind)
    depths = block.depths or (0,) * len(block.cuts)
    inside = [(cut, depth) for cut, depth in zip(block.cuts, depths, strict=True) if start < cut < end]
    return Atom(start, end, leads=leads, kind=kind, cuts=tuple(inside))


def parts(text: str, one: Atom) -> tuple[Atom, ...]:
    """What an atom falls into first: a group's atoms, or the pieces between its shallowest cuts.

    The pieces keep the deeper cuts. Empty if nothing but lines and sentences is left.
    """
    if not one.cuts:
        return one.parts
    depth = min(depth for _, depth in one.cuts)
    here = [at for at, own in one.cuts if own == depth]
    found = []
    following = 0
    for left, right in pairwise([one.start, *here, one.end]):
        inner = []
        while following < len(one.cuts) and one.cuts[following][0] < right:
            if one.cuts[following][1] > depth:
                inner.append(one.cuts[following])
            following += 1
        span = trim(text, left, right)
        if span is not None:
            inside = tuple((at, own) for at, own in inner if span[0] < at < span[1]) if inner else ()
            found.append(Atom(*span, kind=one.kind, cuts=inside))
    return tuple(found)


def of_blocks(text: str, blocks: Sequence[Block]) -> list[Atom]:
    """Blocks as atoms, without those of white space only."""
    return [one for block in blocks if (one := of_block(text, block)) is not None]


def group(atoms: Sequence[Atom]) -> Atom:
    """Several atoms as one that is kept whole while it fits."""
    if len(atoms) == 1:
        return atoms[0]
    return Atom(
        atoms[0].start,
        atoms[-1].end,
        leads=all(one.leads for one in atoms),
        kind=atoms[0].kind,
        parts=tuple(atoms),
    )


def starts(text: str, row: Iterable[Atom]) -> Iterator[int]:
    """Where the atoms and their parts start, in order."""
    for one in row:
        inner = parts(text, one)
        if inner:
            yield from starts(text, inner)
        else:
            yield one.start


def last_leaf(text: str, one: Atom) -> Atom:
    """The last of the smallest parts."""
    while inner := parts(text, one):
        one = inner[-1]
    return one


def pieces(text: str, start: int, end: int, cuts: Iterable[int], *, kind: BlockKind, level: int) -> Iterator[Atom]:
    """The span divided at the offsets `cuts`, white space between the pieces dropped."""
    for left, right in pairwise([start, *(p for p in cuts if start < p < end), end]):
        span = trim(text, left, right)
        if span is not None:
            yield Atom(*span, kind=kind, level=level)


def trim(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The span without blank lines before it and white space after it; None if nothing is left.

    White space that belongs to a grapheme (a mark stands on it, or a prefix sign before it) stays.
    """
    if (
        end - start > 1
        and text[end - 1] == "\n"
        and not text[start].isspace()
        and not text[end - 2].isspace()
        and ord(text[end - 2]) < PREFIX_SIGNS_FROM
        and (start == 0 or text[start - 1] == "\n")
    ):
        return start, end - 1  # whole lines without blank ones around them, as most are
    stop, piece = end, text[start:end].rstrip()
    if not piece:
        return None
    end = start + len(piece)
    at = end - len(piece.lstrip())
    start = text.rfind("\n", start, at) + 1 or start
    if end < stop and ord(text[end - 1]) >= PREFIX_SIGNS_FROM:
        end = cluster_end(text, end - 1)
    if start == 0 or text[start - 1] == "\n":
        return start, end  # a line keeps its indentation
    # A cut inside a line leaves its blank behind.
    torn = at > start and ord(text[at]) >= MARKS_FROM and cluster_end(text, at - 1) > at
    return (at - 1 if torn else at), end
