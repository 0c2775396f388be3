"""Markdown: front matter lifted, comments and payloads removed, blocks scanned."""

from __future__ import annotations

from pipeline.parse import front_matter
from pipeline.parse.decode import decode
from pipeline.parse.markdown_blocks import scan
from pipeline.parse.markdown_inline import without_comments, without_payloads
from pipeline.types import Block, ParsedDocument

_PASSES = 4
"""Rounds of taking comments away: what stands behind one may be a whole comment only once it's gone."""


def parse(data: bytes, name: str) -> ParsedDocument:
    """A Markdown document; `name` is not used, as nothing in it changes the result."""
    del name
    text, warnings = decode(data)
    return from_text(text, warnings)


def from_text(text: str, warnings: tuple[str, ...] = (), *, kind: str = "markdown") -> ParsedDocument:
    """A decoded Markdown text as a document."""
    metadata, body, notes = front_matter.split(without_payloads(text))
    body, blocks = structure(body)
    title = next((str(value) for key, value in metadata if key == "title"), "")
    return ParsedDocument(
        kind=kind,
        text=body,
        title=title or first_title(blocks),
        blocks=blocks,
        metadata=metadata,
        warnings=(*warnings, *notes),
    )


def structure(body: str) -> tuple[str, tuple[Block, ...]]:
    """The text that is kept, comments gone, and its blocks."""
    blocks = scan(body)
    for _ in range(_PASSES):
        if "<!--" not in body:
            break
        kept = _without_comments(body, blocks)
        if kept == body:
            break
        body, blocks = kept, scan(kept)
    return body, blocks


def _without_comments(body: str, blocks: tuple[Block, ...]) -> str:
    parts, at = [], 0
    for block in blocks:
        # Comments in code are code. Front ends that hide them are the readers of the text, not of the code.
        if block.kind != "code" and "<!--" in (piece := body[block.start : block.end]):
            kept = without_comments(piece)
            parts += [body[at : block.start], kept if kept.strip() else "\n"]
            at = block.end
    return "".join([*parts, body[at:]])


def first_title(blocks: tuple[Block, ...]) -> str:
    """The first level-1 heading's title, else empty."""
    return next((block.title for block in blocks if block.kind == "heading" and block.level == 1), "")
