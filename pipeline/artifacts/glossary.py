"""Terms that a document defines under headings of its own, word for word. Pure; no model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.artifacts import names
from pipeline.types import ParsedDocument

_TERM = re.compile(
    r"^\s*(?:[-*+]\s+|\d+[.)]\s+)?(?:\*\*|__)?([^:\n|*_]{1,120}?)(?:\*\*|__)?\s*(?::(?:\*\*|__)?| [\u2013\u2014-] )\s*(\S.*)$"
)


def glossary_terms(document: ParsedDocument, sections: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Term and span of each entry under the headings named: subheadings, or lines `term: text`, `term - text`."""
    wanted = {names.normal(section) for section in sections}
    blocks, text = document.blocks, document.text
    for i, block in enumerate(blocks):
        if block.kind != "heading" or names.normal(block.title) not in wanted:
            continue
        inner = []
        for following in blocks[i + 1 :]:
            if following.kind == "heading" and following.level <= block.level:
                break
            inner.append(following)
        heads = [b for b in inner if b.kind == "heading"]
        if heads:
            stops = [*(h.start for h in heads[1:]), inner[-1].end]
            yield from (
                (h.title, h.end, stop)
                for h, stop in zip(heads, stops, strict=True)
                if h.title and text[h.end : stop].strip()
            )
            continue
        for b in inner:
            yield from _term_lines(text, b.start, b.end)


def _term_lines(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Entries that begin on a line of their own and go on to the next one that does."""
    open_: tuple[str, int] | None = None
    at = start
    for line in text[start:end].splitlines(keepends=True):
        hit = _TERM.match(line.rstrip("\n"))
        if hit is not None:
            if open_ is not None:
                yield (*open_, at)
            open_ = (hit.group(1).strip(), at + hit.start(2))
        at += len(line)
    if open_ is not None:
        yield (*open_, at)
