"""`ParsedDocument` to chunks: one file per strategy, one table, one packer.

`chunk_document` is the entry. A strategy names boundaries; `packer.py` fills the token budget for all of them but
`sliding_window`, which is nothing but token windows.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline.chunk import code, csv, html, markdown_heading, sliding_window
from pipeline.chunk.options import ChunkOptions
from pipeline.errors import RejectedInput
from pipeline.types import Chunk, ParsedDocument

Chunker = Callable[[ParsedDocument, ChunkOptions], tuple[Chunk, ...]]

CHUNKERS: dict[str, Chunker] = {
    "markdown_heading": markdown_heading.chunk,
    "sliding_window": sliding_window.chunk,
    "html": html.chunk,
    "csv": csv.chunk,
    "code": code.chunk,
}

VERSIONS: dict[str, int] = {
    "markdown_heading": markdown_heading.VERSION,
    "sliding_window": sliding_window.VERSION,
    "html": html.VERSION,
    "csv": csv.VERSION,
    "code": code.VERSION,
}
"""Version of each strategy's output; enters the chunk fingerprint."""

_STRUCTURE_OF_KIND = {"html": "html", "csv": "csv", "code": "code"}

__all__ = ["CHUNKERS", "VERSIONS", "ChunkOptions", "Chunker", "chunk_document", "strategy_for"]


def strategy_for(kind: str, strategy: str) -> str:
    """The strategy that is used for a document of `kind` where the manifest says `strategy`.

    `sliding_window` suits every document. A structural strategy stands for "by structure", and a document has the
    structure that it has: a CSV file beside Markdown is chunked by records.

    Raises:
        RejectedInput: code `chunk_strategy`, naming the strategies there are.
    """
    if strategy not in CHUNKERS:
        raise RejectedInput("chunk_strategy", f"no chunking strategy {strategy!r}; there are {', '.join(CHUNKERS)}")
    return strategy if strategy == "sliding_window" else _STRUCTURE_OF_KIND.get(kind, "markdown_heading")


def chunk_document(document: ParsedDocument, strategy: str, options: ChunkOptions) -> tuple[Chunk, ...]:
    """Chunks of one document in order. Pure and deterministic.

    `document.text[c.start:c.end] == c.text` for each; every character that isn't white space is in one; `tokens` is
    exact and at most `target_size` unless `oversize`; no grapheme is cut.

    Raises:
        RejectedInput: codes `chunk_options`, `chunk_strategy`.
    """
    options.check()
    return CHUNKERS[strategy_for(document.kind, strategy)](document, options)
