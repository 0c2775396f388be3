"""Token-budget batching and pooling: how texts of any length pass through a model with a window and a memory bound.

Pure arithmetic; the model itself stands behind the `DenseEmbedder` port.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pipeline.types import Float32Array


def windows(length: int, size: int) -> tuple[tuple[int, int], ...]:
    """Cut `length` tokens into the fewest half-open ranges of at most `size`, near equal, so that none is a mere tail.

    Returns:
        ranges that cover [0, length) in order without overlap; none for a length of 0.
    """
    count = -(-length // size)
    return tuple((length * i // count, length * (i + 1) // count) for i in range(count))


def batches(lengths: Sequence[int], *, rows_max: int, cells_max: int) -> Iterator[tuple[int, ...]]:
    """Group positions of near length, so that little of a padded batch is padding.

    Deterministic: longest first, ties in input order. A single length past `cells_max` makes a batch of its own.

    Args:
        lengths: tokens of each item.
        rows_max: items in a batch.
        cells_max: items times the longest length in a batch; bounds the model's memory.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        if batch and (len(batch) == rows_max or lengths[batch[0]] * (len(batch) + 1) > cells_max):
            yield tuple(batch)
            batch = []
        batch.append(position)
    if batch:
        yield tuple(batch)


def pool(vectors: Float32Array, owners: npt.NDArray[np.int64], weights: npt.NDArray[np.int64], n: int) -> Float32Array:
    """Mean of the vectors of each owner, weighted, then made unit length.

    Args:
        vectors: float32 (m, dim).
        owners: (m,), rising; the row of the result that each vector belongs to.
        weights: (m,), positive; tokens behind each vector.
        n: rows of the result; an owner without vectors gets zeros.
    """
    out = np.zeros((n, vectors.shape[1]), np.float32)
    if len(owners):
        firsts = np.flatnonzero(np.diff(owners, prepend=-1))
        out[owners[firsts]] = np.add.reduceat(vectors * weights[:, None].astype(np.float32), firsts, axis=0)
    return unit(out)


def unit(vectors: Float32Array) -> Float32Array:
    """Scale each row to length 1, in place; rows of zeros stay so."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    vectors /= np.where(norms > 0, norms, np.float32(1))[:, None]
    return vectors
