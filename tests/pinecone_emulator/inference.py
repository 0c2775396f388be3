"""Hosted models: embedding by hashed words, reranking by shared words. The same text always gives the same answer."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .limits import bad, need
from .store import Refused
from .wire import Call, Reply

_WORD = re.compile(r"\w{1,4}|[^\w\s]")
"""What counts as a token: up to four letters of a word, or one sign."""


@dataclass(frozen=True)
class Model:
    kind: str
    vector_type: str
    dimension: int | None
    window: int
    """Tokens of one text; for a reranker, of question and text together."""
    batch: int


MODELS = {
    "multilingual-e5-large": Model("embed", "dense", 1024, 507, 96),
    "llama-text-embed-v2": Model("embed", "dense", 1024, 2048, 96),
    "pinecone-sparse-english-v0": Model("embed", "sparse", None, 512, 96),
    "bge-reranker-v2-m3": Model("rerank", "", None, 1024, 100),
    "pinecone-rerank-v0": Model("rerank", "", None, 512, 100),
    "cohere-rerank-3.5": Model("rerank", "", None, 40_000, 200),
}


def tokens(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def dense(text: str, dimension: int, side: str) -> list[float]:
    """A unit vector. Texts that share tokens are near; questions stand a little apart from passages."""
    total = np.zeros(dimension, np.float64)
    for token in tokens(text):
        total += _direction(token, dimension)
    norm = np.linalg.norm(total)
    total = total / norm if norm else _direction("", dimension)
    total = total + 0.2 * _direction(f"\0{side}", dimension)
    return (total / np.linalg.norm(total)).astype(np.float32).tolist()  # type: ignore[no-any-return]


def _direction(token: str, dimension: int) -> Any:
    seed = int.from_bytes(hashlib.sha256(token.encode("utf-8", "replace")).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return vector / np.linalg.norm(vector)


def sparse(text: str) -> tuple[list[int], list[float]]:
    """Hashed tokens and how often each is said."""
    counts: dict[int, float] = {}
    for token in tokens(text):
        term = int.from_bytes(hashlib.sha256(token.encode()).digest()[:4], "big")
        counts[term] = counts.get(term, 0.0) + 1.0
    return sorted(counts), [counts[term] for term in sorted(counts)]


def _model(name: Any, kind: str) -> Model:
    model = MODELS.get(name) if isinstance(name, str) else None
    if model is None or model.kind != kind:
        raise Refused(404, "NOT_FOUND", f"Model '{name}' not found")
    return model


def _cut(words: list[str], window: int, truncate: str, what: str) -> list[str]:
    if len(words) <= window:
        return words
    if truncate == "NONE":
        raise bad(f"{what} has {len(words)} tokens, which exceeds the maximum of {window} tokens for this model")
    return words[:window]


def embed(call: Call) -> Reply:
    body = call.body
    model = _model(body.get("model"), "embed")
    inputs, parameters = need(body, "inputs", list), body.get("parameters") or {}
    if not 1 <= len(inputs) <= model.batch:
        raise bad(f"1 to {model.batch} inputs are allowed in one request, got {len(inputs)}")
    side, truncate = parameters.get("input_type"), parameters.get("truncate", "END")
    if side not in ("passage", "query"):
        raise bad("input_type is passage or query")
    dimension = parameters.get("dimension", model.dimension)
    data: list[dict[str, Any]] = []
    total = 0
    for at, item in enumerate(inputs):
        text = need(item, "text", str)
        if not text:
            raise bad(f"input {at} is empty")
        words = _cut(tokens(text), model.window, truncate, f"input {at}")
        total += len(words) + 2
        if model.vector_type == "sparse":
            terms, weights = sparse(" ".join(words))
            data.append({"vector_type": "sparse", "sparse_indices": terms, "sparse_values": weights})
        else:
            data.append({"vector_type": "dense", "values": dense(" ".join(words), dimension, side)})
    usage = {"total_tokens": total}
    return Reply({"model": body["model"], "vector_type": model.vector_type, "data": data, "usage": usage})


def relevance(question: str, text: str) -> float:
    """The share of the question's tokens that the text says, between 0 and 1."""
    asked, said = set(tokens(question)), set(tokens(text))
    return (len(asked & said) + 0.01) / (len(asked) + 0.02)


def rerank(call: Call) -> Reply:
    body = call.body
    model = _model(body.get("model"), "rerank")
    question, documents = need(body, "query", str), need(body, "documents", list)
    if not 1 <= len(documents) <= model.batch:
        raise bad(f"1 to {model.batch} documents are allowed in one request, got {len(documents)}")
    truncate = (body.get("parameters") or {}).get("truncate", "NONE")
    field = (body.get("rank_fields") or ["text"])[0]
    asked = _cut(tokens(question), model.window // 2, "NONE", "the query")
    scored = []
    for at, document in enumerate(documents):
        text = need(document, field, str)
        if not text:
            raise bad(f"document {at} is empty")
        words = _cut(tokens(text), model.window - len(asked), truncate, f"document {at}")
        row: dict[str, Any] = {"index": at, "score": relevance(question, " ".join(words))}
        scored.append({**row, "document": document} if body.get("return_documents", True) else row)
    scored.sort(key=lambda row: -row["score"])
    data = scored[: body.get("top_n") or len(scored)]
    return Reply({"model": body["model"], "data": data, "usage": {"rerank_units": 1}})


def models(call: Call) -> Reply:
    def shown(name: str) -> dict[str, Any]:
        model = MODELS[name]
        row: dict[str, Any] = {"model": name, "type": model.kind, "short_description": name, "supported_parameters": []}
        row |= {"max_batch_size": model.batch, "max_sequence_length": model.window, "modality": "text"}
        if model.kind == "embed":
            row |= {"vector_type": model.vector_type, "default_dimension": model.dimension}
        return row

    if len(call.parts) > 1:
        if call.parts[1] not in MODELS:
            raise Refused(404, "NOT_FOUND", f"Model '{call.parts[1]}' not found")
        return Reply(shown(call.parts[1]))
    return Reply({"models": [shown(name) for name in MODELS]})
