"""Strategy `code`: definitions and statements, small ones together, large ones cut at their members."""

from __future__ import annotations

from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.packer import pack
from pipeline.types import Chunk, ParsedDocument

VERSION = 2
"""Raised whenever the output for any document changes."""


def chunk(document: ParsedDocument, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Blocks packed to the budget. Code has no headings, so `respect_sections` changes nothing."""
    return pack(document, [document.blocks], options)
