"""Strategy `markdown_heading`: sections between headings. Also how PDF, plain text and notebooks are chunked."""

from __future__ import annotations

from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.packer import pack
from pipeline.types import Block, Chunk, ParsedDocument

VERSION = 2
"""Raised whenever the output for any document changes."""


def chunk(document: ParsedDocument, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Sections packed to the budget, each with the titles above it."""
    return pack(document, sections(document.blocks), options)


def sections(blocks: tuple[Block, ...]) -> list[list[Block]]:
    """Blocks divided before each heading.

    A heading with nothing but a deeper heading below it opens that deeper section: alone it would be a chunk
    without content, and the deeper section is part of its own.
    """
    found: list[list[Block]] = []
    bare = 0
    """Level of the heading that the open section consists of; 0 once it has content."""
    for block in blocks:
        if block.kind == "heading":
            if bare and block.level > bare:
                found[-1].append(block)
            else:
                found.append([block])
            bare = block.level
        elif found:
            found[-1].append(block)
            bare = 0
        else:
            found.append([block])
    return found
