"""Values of pure stages as memo bytes and back. What comes back equals what went in.

Chunks are JSON, so that a person can read a memo entry; sparse vectors and dense vectors are little-endian arrays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.drafts import DocumentFacts
from pipeline.types import Chunk, Float32Array, MetadataValue, SourcePath, SparseVectors


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """What the chunk stage makes of one document, whatever its path."""

    title: str
    metadata: tuple[tuple[str, MetadataValue], ...]
    warnings: tuple[str, ...]
    chunks: tuple[Chunk, ...]
    kind: str = ""
    """Format that the parser recognised."""
    parts: tuple[tuple[str, ChunkedDocument], ...] = ()
    """Documents inside the source, by name."""

    def each(self, path: SourcePath) -> Iterator[tuple[DocumentFacts, tuple[Chunk, ...]]]:
        """Document and parts: what the records of each share when the source stands at `path`, and its chunks."""
        yield DocumentFacts(path, self.title, self.metadata, self.kind), self.chunks
        for name, part in self.parts:
            yield DocumentFacts(path, part.title, part.metadata, part.kind, part=name), part.chunks

    def all_warnings(self) -> tuple[str, ...]:
        """Its own, and those of its parts under their names."""
        return (*self.warnings, *(f"{name}: {text}" for name, part in self.parts for text in part.warnings))


def encode_chunks(document: ChunkedDocument) -> bytes:
    """Memo bytes of a chunked document."""
    return json.dumps(_fields(document), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _fields(document: ChunkedDocument) -> dict[str, Any]:
    paths: dict[tuple[str, ...], int] = {}
    rows = [
        [
            c.start,
            c.end,
            c.tokens,
            paths.setdefault(c.heading_path, len(paths)),
            c.prefix,
            *c.pages,
            int(c.oversize),
            c.text,
        ]
        for c in document.chunks
    ]
    return {
        "kind": document.kind,
        "title": document.title,
        "metadata": [[k, list(v) if isinstance(v, tuple) else v] for k, v in document.metadata],
        "warnings": document.warnings,
        "paths": list(paths),
        "chunks": rows,
        "parts": [[name, _fields(part)] for name, part in document.parts],
    }


def decode_chunks(data: bytes) -> ChunkedDocument:
    """The chunked document behind memo bytes."""
    return _document(json.loads(data))


def _document(value: dict[str, Any]) -> ChunkedDocument:
    paths = [tuple(path) for path in value["paths"]]
    chunks = tuple(
        Chunk(text, start, end, index, count, paths[path], prefix, (first, last), bool(oversize))
        for index, (start, end, count, path, prefix, first, last, oversize, text) in enumerate(value["chunks"])
    )
    metadata = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in value["metadata"])
    parts = tuple((name, _document(part)) for name, part in value["parts"])
    return ChunkedDocument(value["title"], metadata, tuple(value["warnings"]), chunks, value["kind"], parts)


def encode_sparse(vectors: SparseVectors) -> bytes:
    """Memo bytes of a batch of sparse vectors."""
    lengths = np.diff(vectors.indptr).astype("<u4")
    head = np.array([len(lengths)], dtype="<u4")
    return b"".join(
        (
            head.tobytes(),
            lengths.tobytes(),
            vectors.indices.astype("<u4").tobytes(),
            vectors.values.astype("<f4").tobytes(),
        )
    )


def decode_sparse(data: bytes) -> SparseVectors:
    """The sparse vectors behind memo bytes."""
    n = int(np.frombuffer(data, "<u4", 1)[0])
    lengths = np.frombuffer(data, "<u4", n, 4)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
    total = int(indptr[-1])
    at = 4 + 4 * n
    indices = np.frombuffer(data, "<u4", total, at)
    return SparseVectors(
        indptr, indices.astype(np.uint32), np.frombuffer(data, "<f4", total, at + 4 * total).astype(np.float32)
    )


def take_sparse(vectors: SparseVectors, start: int, stop: int) -> SparseVectors:
    """Rows [start, stop) of a batch."""
    indptr = vectors.indptr[start : stop + 1]
    lo, hi = int(indptr[0]), int(indptr[-1])
    return SparseVectors(indptr - lo, vectors.indices[lo:hi], vectors.values[lo:hi])


def empty_sparse(rows: int) -> SparseVectors:
    """A batch in which no row holds a term."""
    return SparseVectors(np.zeros(rows + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32))


def encode_counts(terms: Sequence[npt.NDArray[np.uint32]], documents: int) -> bytes:
    """Memo bytes of document counts: how many records there are, and how many of them hold each term."""
    found, times = np.unique(np.concatenate([np.zeros(0, np.uint32), *terms]), return_counts=True)
    head = np.array([documents, len(found)], dtype="<u4")
    return b"".join((head.tobytes(), found.astype("<u4").tobytes(), times.astype("<u4").tobytes()))


def decode_counts(data: bytes) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], int]:
    """Terms, records that hold each, and records in all."""
    documents, n = (int(x) for x in np.frombuffer(data, "<u4", 2))
    terms, times = np.frombuffer(data, "<u4", n, 8), np.frombuffer(data, "<u4", n, 8 + 4 * n)
    return terms.astype(np.uint32), times.astype(np.int64), documents


def encode_vectors(vectors: Float32Array) -> list[bytes]:
    """Memo bytes of each dense vector, in order."""
    data, width = vectors.astype("<f4", copy=False).tobytes(), 4 * vectors.shape[1]
    return [data[at : at + width] for at in range(0, len(data), width)]


def decode_vectors(values: Sequence[bytes], dim: int) -> Float32Array:
    """Dense vectors behind memo bytes, float32 (n, dim), C-contiguous."""
    return np.frombuffer(b"".join(values), dtype="<f4").astype(np.float32, copy=False).reshape(len(values), dim)
