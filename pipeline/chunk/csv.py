"""Strategy `csv`: whole records, the header repeated in front of every chunk."""

from __future__ import annotations

from pipeline.chunk.options import ChunkOptions
from pipeline.chunk.packer import pack
from pipeline.types import Chunk, ParsedDocument

VERSION = 2
"""Raised whenever the output for any document changes."""


def chunk(document: ParsedDocument, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Records packed to the budget; one is cut only if it's over the budget alone."""
    return pack(document, [document.blocks], options)
