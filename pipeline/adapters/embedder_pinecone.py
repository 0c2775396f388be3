"""Dense embedder: a model that Pinecone hosts, through its official client.

The service tells neither its models' tokenizers nor which input of several was too long. Texts are therefore cut into
windows by cl100k tokens, well below the model's own limit, and nothing is ever truncated: what the service finds too long
all the same is halved until it fits. Which windows a text gets depends on the text alone, never on its batch.

Such models embed passages and questions differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from pipeline import tokens
from pipeline.adapters.pinecone_client import MODELS, PineconeAccount, PineconeClient, bad_reply
from pipeline.embed.dense import pool, windows
from pipeline.errors import RejectedInput
from pipeline.types import Embedding, Float32Array, ModelIdentity, Side

InputType = Literal["passage", "query"]

INPUTS_MAX: Final = 96
"""Of one request; the service's own limit."""
BATCH_TOKENS: Final = 24_000
"""Of one request, in cl100k tokens: a tenth of what the smallest plan may embed in a minute."""
_WINDOW: Final = 320
"""Where the model's limit isn't known: every model that the service hosts takes 500 tokens or more."""
_PIECE_CHARS: Final = 32
"""A piece of fewer isn't refused for its length, whatever the service says."""
_REFUSED: Final = ("refused", "too_large")

KNOWN: Final[Mapping[str, tuple[int, int]]] = {
    "multilingual-e5-large": (1024, 320),
    "llama-text-embed-v2": (1024, 1400),
}
"""Model to its dimension and window. Its own tokens are fewer in most texts, and up to a third more in code and symbols."""


@dataclass(frozen=True, slots=True)
class PineconeEmbedderSettings:
    """Which model, and whom to ask."""

    account: PineconeAccount
    model: str = "multilingual-e5-large"
    dim: int = 0
    """0: the model's usual one, for models that are known here. Otherwise it is asked for, where the model offers several."""


class PineconeEmbedder:
    """Port `DenseEmbedder`. Threads may share one instance."""

    concurrent: Final = True
    texts_per_call: Final = INPUTS_MAX

    def __init__(self, settings: PineconeEmbedderSettings) -> None:
        """Nothing is imported or connected yet.

        Raises:
            RejectedInput: the dimension of the model isn't known, or address or key can't be used.
        """
        usual, self._window = KNOWN.get(settings.model, (0, _WINDOW))
        dim = settings.dim or usual
        if not settings.model or dim <= 0:
            raise RejectedInput(
                "no_dimension",
                f"the dimension of Pinecone's model {settings.model!r} isn't known here",
                remedy=f"Set it beside the model, or name one of {', '.join(KNOWN)}.",
            )
        self._settings = settings
        self._client = PineconeClient(settings.account)
        self.identity: Final = ModelIdentity(settings.model, f"pinecone-w{self._window}", "", dim)

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:
        """See the port."""
        return self._embed(texts, "query" if side == "question" else "passage")

    def close(self) -> None:
        """End idle connections; the next call opens new ones."""
        self._client.close()

    def _embed(self, texts: Sequence[str], side: InputType) -> Embedding:
        pieces = [(owner, piece, size) for owner, text in enumerate(texts) for piece, size in self._pieces(text)]
        owners: list[int] = []
        weights: list[int] = []
        vectors: list[Float32Array] = []
        billed = 0
        for group in _groups(pieces):
            for owner, size, vector, used in self._vectors(group, side):
                owners.append(owner)
                weights.append(size)
                vectors.append(vector)
                billed += used
        stack = np.stack(vectors) if vectors else np.zeros((0, self.identity.dim), np.float32)
        pooled = pool(stack, np.array(owners, np.int64), np.array(weights, np.int64), len(texts))
        return Embedding(pooled, billed)

    def _pieces(self, text: str) -> Iterator[tuple[str, int]]:
        """The text's windows that say anything, and their cl100k tokens."""
        text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair can't be sent
        starts = tokens.boundaries(text)
        for first, last in windows(len(starts), self._window):
            end = int(starts[last]) if last < len(starts) else len(text)
            piece = text[int(starts[first]) : end]
            if piece.strip():
                yield piece, last - first

    def _vectors(
        self, pieces: Sequence[tuple[int, str, int]], side: InputType
    ) -> Iterator[tuple[int, int, Float32Array, int]]:
        """(owner, tokens, vector, tokens billed) of each piece, in order; several of a piece that had to be divided."""
        try:
            found, billed = self._ask([piece for _, piece, _ in pieces], side)
        except RejectedInput as error:
            halves = _halves(pieces) if error.code in _REFUSED and _says_too_long(error.message) else None
            if halves is None:
                raise
        else:
            for at, ((owner, _, size), vector) in enumerate(zip(pieces, found, strict=True)):
                yield owner, size, vector, 0 if at else billed
            return
        for half in halves:
            yield from self._vectors(half, side)

    def _ask(self, texts: Sequence[str], side: InputType) -> tuple[list[Float32Array], int]:
        parameters: dict[str, Any] = {"input_type": side, "truncate": "NONE"}
        if self._settings.dim:
            parameters["dimension"] = self._settings.dim
        what = f"embed {len(texts)} texts"
        reply = self._client.call(
            what, lambda models: models.embed(self._settings.model, list(texts), parameters), part=MODELS
        ).value
        if reply.vector_type != "dense" or len(reply.data) != len(texts):
            raise bad_reply(what, f"{len(reply.data)} {reply.vector_type} vectors came back")
        found = [np.array(item.values, np.float32) for item in reply.data]
        for vector in found:
            if vector.shape != (self.identity.dim,):
                raise RejectedInput(
                    "dimension_mismatch",
                    f"Pinecone's model {self._settings.model} gave {vector.size} numbers, {self.identity.dim} are set",
                    remedy="Set the dimension that the model gives, and curate into a new index.",
                )
            if not np.isfinite(vector).all():
                raise bad_reply(what, "a vector that isn't finite")
        return found, int(reply.usage.total_tokens)


def _groups(pieces: Sequence[tuple[int, str, int]]) -> Iterator[list[tuple[int, str, int]]]:
    """Pieces in order, in groups that one request takes."""
    group: list[tuple[int, str, int]] = []
    size = 0
    for piece in pieces:
        if group and (len(group) == INPUTS_MAX or size + piece[2] > BATCH_TOKENS):
            yield group
            group, size = [], 0
        group.append(piece)
        size += piece[2]
    if group:
        yield group


def _halves(pieces: Sequence[tuple[int, str, int]]) -> list[list[tuple[int, str, int]]] | None:
    """Two groups instead of one, or one piece in two; None where nothing is left to divide."""
    if len(pieces) > 1:
        middle = len(pieces) // 2
        return [list(pieces[:middle]), list(pieces[middle:])]
    owner, text, size = pieces[0]
    middle = len(text) // 2
    if middle < _PIECE_CHARS:
        return None
    parts = ((text[:middle], size - size // 2), (text[middle:], size // 2))
    return [[(owner, part, max(1, weight))] for part, weight in parts if part.strip()]


def _says_too_long(words: str) -> bool:
    return any(word in words.lower() for word in ("token", "length", "too long", "too large", "exceed"))
