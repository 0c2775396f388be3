"""Strategy `html`: sections between the headings of a page, wherever in its containers they stand."""

from __future__ import annotations

from pipeline.chunk.markdown_heading import sections
from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.packer import pack
from pipeline.types import Chunk, ParsedDocument

VERSION = 2
"""Raised whenever the output for any document changes."""


def chunk(document: ParsedDocument, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Sections packed to the budget, each with the titles above it."""
    return pack(document, sections(document.blocks), options)
