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
    """What it falls into first; empty: by level."""
    level: int = 0
    """How many of the two ways (lines, sentences) are used up."""


def of_block(text: str, block: Block) -> Atom | None:
    """A block as an atom; None for one of white space only."""
    span = trim(text, block.start, block.end)
    if span is None:
        return None
    start, end = span
    kind = block.kind
    parts = _parts(text, start, end, block) if block.cuts else ()
    leads = kind == "heading" or (kind == "paragraph" and text[end - 1] == ":" and end - start <= LEAD_IN_CHARS_MAX)
    return Atom(start, end, leads=leads, kind=kind, parts=parts if len(parts) > 1 else ())


def _parts(text: str, start: int, end: int, block: Block) -> tuple[Atom, ...]:
    if not any(block.depths):
        return tuple(pieces(text, start, end, block.cuts, kind=block.kind, level=0))
    return _nested(text, start, end, block.kind, list(zip(block.cuts, block.depths, strict=True)))


def _nested(text: str, start: int, end: int, kind: BlockKind, cuts: list[tuple[int, int]]) -> tuple[Atom, ...]:
    """The span divided at its shallowest cuts, each piece at those of the next depth, and so on."""
    cuts = [(at, depth) for at, depth in cuts if start < at < end]
    depth = min((depth for _, depth in cuts), default=0)
    atoms = []
    here = [at for at, own in cuts if own == depth]
    following = 0
    for left, right in pairwise([start, *here, end]):
        inner = []
        while following < len(cuts) and cuts[following][0] < right:
            if cuts[following][1] > depth:
                inner.append(cuts[following])
            following += 1
        span = trim(text, left, right)
        if span is not None:
            parts = _nested(text, *span, kind, inner) if inner else ()
            atoms.append(Atom(*span, kind=kind, parts=parts if len(parts) > 1 else ()))
    return tuple(atoms)


def of_blocks(text: str, blocks: Sequence[Block]) -> list[Atom]:
    """Blocks as atoms, without those of white space only."""
    return [one for block in blocks if (one := of_block(text, block)) is not None]


def group(atoms: Sequence[Atom]) -> Atom:
    """Several atoms as one that is kept whole while it fits."""
    return Atom(
        atoms[0].start,
        atoms[-1].end,
        leads=all(one.leads for one in atoms),
        kind=atoms[0].kind,
        parts=tuple(atoms) if len(atoms) > 1 else atoms[0].parts,
    )


def starts(row: Iterable[Atom]) -> Iterator[int]:
    """Where the atoms and their parts start, in order."""
    for one in row:
        if one.parts:
            yield from starts(one.parts)
        else:
            yield one.start


def last_leaf(one: Atom) -> Atom:
    """The last of the smallest parts."""
    while one.parts:
        one = one.parts[-1]
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
