"""Strategy `sliding_window`: windows of `target_size` tokens that advance by `target_size - overlap`.

Structure is not looked at. A window is moved only so as not to cut a grapheme, and made shorter only where its text,
standing alone, would count more tokens than it had inside the document.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from pipeline.chunk.cuts import Graphemes
from pipeline.chunk.measure import Measure
from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.outline import TABLES, Outline
from pipeline.types import Chunk, ParsedDocument

VERSION = 2
"""Raised whenever the output for any document changes."""

Count = Callable[[int, int], int]
"""Tokens of the span [start, end) standing alone, with what is repeated in front of it."""


def chunk(document: ParsedDocument, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Windows over the whole text; those of white space only are dropped."""
    measure = Measure(document.text)
    outline = Outline(document, measure, options.target_size, repeat=TABLES)
    spans = windows(document.text, measure.starts, options, outline.size, prefix=lambda at: outline.prefix(at)[1])
    kept = [(start, end) for start, end in spans if not document.text[start:end].isspace()]
    return tuple(
        outline.chunk(index, start, end, oversize=outline.size(start, end) > options.target_size)
        for index, (start, end) in enumerate(kept)
    )


def windows(
    text: str, starts: Sequence[int], options: ChunkOptions, count: Count, prefix: Callable[[int], int] = lambda _: 0
) -> list[tuple[int, int]]:
    """Spans that cover `text`.

    Args:
        text: what is divided.
        starts: offset at which each token starts, never falling.
        options: size and overlap in those tokens.
        count: tokens of a window as it's stored; one above the target is made shorter.
        prefix: tokens of what is repeated in front of a window that starts at an offset.
    """
    graphemes, total = Graphemes(text), len(text)
    spans: list[tuple[int, int]] = []
    start, token, covered = 0, 0, 0
    while covered < total:
        size = options.target_size - prefix(start)
        end = graphemes.floor(starts[token + size]) if token + size < len(starts) else total
        end = max(end, graphemes.next(start))
        while count(start, end) > options.target_size and graphemes.floor(end - 1) > start:
            end = graphemes.floor(end - 1)
        if end > covered:
            spans.append((start, end))
            covered = end
            step = max(token + size - options.overlap, token + 1)
            following = graphemes.floor(starts[step]) if step < len(starts) else end
        else:
            # It was made so short that it adds nothing to the one before; a later start can.
            following = start
        # A shortened window pulls the next one with it; a step too small to leave a grapheme goes on to the next.
        start = min(max(following, graphemes.next(start)), covered)
        token = bisect_left(starts, start)
    return spans
