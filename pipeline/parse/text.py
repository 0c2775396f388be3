"""Plain text: paragraphs between blank lines, no headings."""

from __future__ import annotations

from pipeline.parse.decode import decode
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, ParsedDocument


def parse(data: bytes, name: str) -> ParsedDocument:
    """A text document; `name` is not used, as nothing in it changes the result."""
    del name
    text, warnings = decode(data)
    text = without_payloads(text)
    return ParsedDocument(kind="text", text=text, blocks=paragraphs(text), warnings=warnings)


def paragraphs(text: str) -> tuple[Block, ...]:
    """One block for each run of lines that aren't blank."""
    blocks, start, at = [], -1, 0
    for line in _lines(text):
        if line.strip():
            start = at if start < 0 else start
        elif start >= 0:
            blocks.append(Block("paragraph", start, at))
            start = -1
        at += len(line)
    if start >= 0:
        blocks.append(Block("paragraph", start, at))
    return tuple(blocks)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
