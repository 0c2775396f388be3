"""Values that flow between stages. They know nothing of where they came from.

`Source -> ParsedDocument -> tuple[Chunk, ...] -> RecordBatch -> Snapshot`. Text positions are half-open code-point
ranges, defined once here. Nothing in this module does I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NewType

import numpy as np
import numpy.typing as npt

ContextSlug = NewType("ContextSlug", str)
SourcePath = NewType("SourcePath", str)
"""Path relative to the source root, '/' between parts, always valid UTF-8 (see `fingerprint.encode_path`)."""
RecordId = NewType("RecordId", str)
LogicalId = NewType("LogicalId", str)
RunId = NewType("RunId", str)
Namespace = NewType("Namespace", str)

Scalar = str | int | float | bool
MetadataValue = Scalar | tuple[str, ...]
Metadata = Mapping[str, MetadataValue]
"""Flat: strings, finite numbers, booleans, string tuples. No None, nothing nested."""

Origins = Mapping[str, Collection[str]]
"""Memo keys to what their values come from: sources, as `recording.origin` writes them."""
NO_ORIGINS: Origins = MappingProxyType({})

Float32Array = npt.NDArray[np.float32]

OPEN = 2**53 - 1
"""`removed_version` of a record that no version removes: the largest integer that JSON numbers hold exactly."""

Side = Literal["passage", "question"]
"""What a text is to a dense model: something to be found, or what is looked for with. Many models don't mind."""

BlockKind = Literal["heading", "paragraph", "list", "table", "records", "code", "quote", "html", "row"]
"""`table`: rows between pipes, as Markdown has them. `records`: a table as lines of CSV. `row`: one record of CSV whose
header is the document's."""


@dataclass(frozen=True, slots=True)
class Block:
    """One structural piece of a document's text, in reading order; blocks don't overlap."""

    kind: BlockKind
    start: int
    """First code point; always the start of a line."""
    end: int
    """One past the last code point, the closing newline included when there is one."""
    level: int = 0
    """Headings: 1 to 6. Other kinds: 0."""
    title: str = ""
    """Headings: the plain title. Otherwise empty."""
    cuts: tuple[int, ...] = ()
    """Offsets inside (start, end) where the block may be divided without breaking an item, a row or a statement."""
    header_end: int = 0
    """The header is [start, header_end) and is repeated as a prefix on continuation; 0 = none."""
    depths: tuple[int, ...] = ()
    """How deep each cut lies, the best being 0 (a class's members 0, statements in them 1); empty: all alike. A piece
    is divided at the smallest depth that it holds."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something that code defines, from its decorators, comments and documentation to its last line."""

    start: int
    end: int
    name: str
    """Its own name; the symbols around it say the rest."""


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a parser makes of one source: text and its structure. Spans everywhere point into `text`."""

    kind: str
    """Format that was recognised: markdown, text, html, csv, code, pdf, …"""
    text: str
    """Newlines are '\\n'; no byte order mark; no NUL that the source didn't have as text."""
    title: str = ""
    blocks: tuple[Block, ...] = ()
    """Cover every non-space character of `text`, in order."""
    page_starts: tuple[int, ...] = ()
    """Offset at which page i+1 starts; empty for formats without pages."""
    metadata: tuple[tuple[str, MetadataValue], ...] = ()
    """Front matter and document properties, flat, in source order."""
    language: str = ""
    """Programming language of code, or empty. The language that people speak is `metadata`'s `language`."""
    symbols: tuple[Symbol, ...] = ()
    """What code defines, outer before inner; they nest and never cross."""
    header: str = ""
    """csv: the header record, rendered as the rows are, repeated as a prefix of every chunk; otherwise empty."""
    warnings: tuple[str, ...] = ()
    """What people should know about what was read: pages without text, hidden sheets, ragged rows."""
    parts: tuple[Part, ...] = ()
    """Documents that the source holds beside its own text, such as a mail's attachments; they hold none themselves."""


@dataclass(frozen=True, slots=True)
class Part:
    """A document inside a source."""

    name: str
    """Its file name as the source gives it, made unique among the source's parts; '/' stands between nested ones."""
    document: ParsedDocument


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a parsed document. `document.text[start:end] == text` always holds."""

    text: str
    start: int
    end: int
    index: int
    """Position among the document's chunks, from 0."""
    tokens: int
    """cl100k tokens of `prefix + text`, exactly."""
    heading_path: tuple[str, ...] = ()
    """Titles of the headings above the chunk's start, outermost first."""
    prefix: str = ""
    """Context repeated from elsewhere in the document (a table's header), not part of the span."""
    pages: tuple[int, int] = (0, 0)
    """First and last page, from 1; (0, 0) where there are no pages."""
    oversize: bool = False
    """True only for a piece that can't be divided (one grapheme longer than the budget)."""


@dataclass(frozen=True, slots=True)
class SparseVectors:
    """A batch of sparse vectors in compressed row form; row i is [indptr[i], indptr[i+1])."""

    indptr: npt.NDArray[np.int64]
    """Shape (n + 1,)."""
    indices: npt.NDArray[np.uint32]
    """Term hashes, rising within a row, no repeats."""
    values: Float32Array
    """Term weights, finite and positive."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def row(self, i: int) -> tuple[npt.NDArray[np.uint32], Float32Array]:
        """Indices and values of row i."""
        lo, hi = int(self.indptr[i]), int(self.indptr[i + 1])
        return self.indices[lo:hi], self.values[lo:hi]


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records to be written once into one namespace, all with the same `added` version."""

    namespace: Namespace
    added: int
    ids: tuple[RecordId, ...]
    dense: Float32Array
    """float32 (n, dim), C-contiguous, unit length or all zero (text without any known token)."""
    sparse: SparseVectors
    metadata: tuple[Metadata, ...]

    def __post_init__(self) -> None:
        n = len(self.ids)
        assert self.dense.shape[0] == n and len(self.sparse) == n and len(self.metadata) == n, "ragged batch"
        assert self.dense.dtype == np.float32 and self.dense.flags.c_contiguous, "dense must be C-contiguous float32"
        assert bool(np.isfinite(self.dense).all()), "dense vectors must be finite"


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """What an index holds for the ids that were asked for; ids that it doesn't hold are absent."""

    ids: tuple[RecordId, ...]
    added: tuple[int, ...]
    removed: tuple[int, ...]
    dense: Float32Array
    """float32 (n, dim); shape (n, 0) when vectors were not asked for."""
    sparse: SparseVectors
    metadata: tuple[Metadata, ...]
    """Empty mappings when metadata was not asked for."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result of one retriever."""

    id: RecordId
    score: float
    """Cosine similarity for dense, weighted term score for sparse; higher is nearer."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """What decides whether two vectors may be compared. Part of the recipe and of every memo key."""

    name: str
    version: str
    sha256: str
    """Hash of the weights; for a hosted model, empty."""
    dim: int


@dataclass(frozen=True, slots=True)
class Embedding:
    """Vectors of a list of texts, in order."""

    vectors: Float32Array
    """float32 (n, dim), unit length; all zero for a text in which the model knows no token."""
    tokens: int
    """Tokens of the model's own tokenizer that were run through the model; what a provider would bill."""
