"""The stored form of a group of vectors, as the local index keeps it: arrays to bytes, and scores.

A segment never changes once written. Dense vectors stand as one matrix. Term weights stand by term, so that a query reads
the postings of its own terms only:

    dense     float32 (rows, dim)
    terms     uint32 (t,), rising: the terms that occur in the segment
    starts    uint32 (t + 1,): term i's postings are [starts[i], starts[i + 1])
    postings  (slot uint16, value float32) each: by term, then by slot
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pipeline.types import Float32Array, SparseVectors

ROWS_MAX: Final = 1 << 16
"""Slots of a segment fit 16 bits."""
POSTING: Final = np.dtype([("slot", "<u2"), ("value", "<f4")])

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """The four arrays of the module docstring, as little-endian bytes."""

    dense: bytes
    terms: bytes
    starts: bytes
    postings: bytes


def pack(dense: Float32Array, sparse: SparseVectors) -> Segment:
    """The stored form of the rows of a batch; at most `ROWS_MAX` of them."""
    assert len(dense) == len(sparse) <= ROWS_MAX, "a segment's rows are numbered in 16 bits"
    slots = np.repeat(np.arange(len(sparse)), sparse.indptr[1:] - sparse.indptr[:-1])
    # (term, slot, position) in one integer: a plain sort is several times faster than sorting positions.
    keys = (sparse.indices.astype(np.uint64) << np.uint64(32)) | np.arange(len(slots), dtype=np.uint64)
    keys.sort()
    order = keys & np.uint64(0xFFFFFFFF)
    by_term = (keys >> np.uint64(32)).astype(np.uint32)
    firsts = np.flatnonzero(np.diff(by_term.astype(np.int64), prepend=-1))
    postings = np.empty(len(keys), POSTING)
    postings["slot"] = slots[order]
    postings["value"] = sparse.values[order]
    return Segment(
        dense=np.ascontiguousarray(dense, "<f4").tobytes(),
        terms=by_term[firsts].astype("<u4").tobytes(),
        starts=np.append(firsts, len(keys)).astype("<u4").tobytes(),
        postings=postings.tobytes(),
    )


def unpack_sparse(terms: bytes, starts: bytes, postings: bytes, rows: int) -> SparseVectors:
    """Back from postings by term to rows, each with its terms rising."""
    bounds = np.frombuffer(starts, "<u4").astype(np.int64)
    by_term = np.repeat(np.frombuffer(terms, "<u4"), bounds[1:] - bounds[:-1])
    packed = np.frombuffer(postings, POSTING)
    order = np.argsort(packed["slot"], kind="stable")
    counts = np.bincount(packed["slot"], minlength=rows)
    return SparseVectors(
        indptr=np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64))),
        indices=by_term[order].astype(np.uint32),
        values=packed["value"][order].astype(np.float32),
    )


def take(sparse: SparseVectors, rows: Int64Array) -> SparseVectors:
    """The chosen rows, in the order chosen."""
    lengths = np.diff(sparse.indptr)[rows]
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)))
    at = np.arange(indptr[-1]) + np.repeat(sparse.indptr[rows] - indptr[:-1], lengths)
    return SparseVectors(indptr, sparse.indices[at], sparse.values[at])


def join(parts: Sequence[SparseVectors]) -> SparseVectors:
    """All rows of all parts, in order."""
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.indptr) for part in parts)])
    return SparseVectors(
        indptr=np.cumsum(lengths, dtype=np.int64),
        indices=np.concatenate([np.zeros(0, np.uint32), *(part.indices for part in parts)]),
        values=np.concatenate([np.zeros(0, np.float32), *(part.values for part in parts)]),
    )


def dense_scores(dense: Float32Array, vector: Float32Array) -> Float32Array:
    """Dot product of each row with the vector.

    `einsum` adds a row up in the same order wherever the row stands, unlike a matrix product: equal vectors get equal
    scores in every segment, so that ties by id hold exactly. It is as fast.
    """
    scores: Float32Array = np.einsum("ij,j->i", dense, vector)
    return scores


def sparse_scores(
    terms: bytes, starts: bytes, read: Callable[[int, int], bytes], weights: Mapping[int, float], rows: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Weighted term score of each row, and which rows hold a term of the query at all.

    Args:
        terms: as stored.
        starts: as stored.
        read: (offset, length) in bytes to that part of the stored postings.
        weights: term hash to query weight.
        rows: rows of the segment.
    """
    scores, touched = np.zeros(rows), np.zeros(rows, np.bool_)
    known = np.frombuffer(terms, "<u4")
    wanted = np.array(sorted(weights), np.uint32)
    bounds = np.frombuffer(starts, "<u4")
    positions = np.searchsorted(known, wanted)
    positions = positions[known[np.minimum(positions, len(known) - 1)] == wanted] if len(known) else positions[:0]
    for position in positions.tolist():
        start, end = int(bounds[position]), int(bounds[position + 1])
        found = np.frombuffer(read(start * POSTING.itemsize, (end - start) * POSTING.itemsize), POSTING)
        scores[found["slot"]] += found["value"].astype(np.float64) * weights[int(known[position])]
        touched[found["slot"]] = True
    return scores, touched
