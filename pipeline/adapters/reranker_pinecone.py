"""Reranker: a model that Pinecone hosts, through its official client.

It scores each pair of question and text by itself, so that texts may be asked for in any groups. What is longer than its
window is cut by the service; a text of white space is asked for by nobody and answers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.adapters.pinecone_client import MODELS, PineconeAccount, PineconeClient, bad_reply
from pipeline.types import ModelIdentity

QUESTION_CHARS: Final = 600
"""A longer question is cut: some 150 tokens, which leave most of the smallest window to the text."""
TEXT_CHARS: Final = 16_000
"""More than any window holds of a text; the rest needn't be sent."""
_DOCUMENTS: Final[Mapping[str, int]] = {"cohere-rerank-3.5": 200}
_DOCUMENTS_MAX: Final = 100
"""Texts of one request; the service's own limit for its other models."""


@dataclass(frozen=True, slots=True)
class PineconeRerankerSettings:
    """Which model, and whom to ask."""

    account: PineconeAccount
    model: str = "bge-reranker-v2-m3"


class PineconeReranker:
    """Port `Reranker`. Threads may share one instance."""

    def __init__(self, settings: PineconeRerankerSettings) -> None:
        """Nothing is imported or connected yet.

        Raises:
            RejectedInput: address or key can't be used.
        """
        self._settings = settings
        self._client = PineconeClient(settings.account)
        self.identity: Final = ModelIdentity(settings.model, "pinecone", "", 1)

    def rerank(self, question: str, texts: Sequence[str]) -> tuple[float, ...]:
        """The model's relevance of each text, from 0 to 1; see the port for the contract.

        Raises:
            RejectedInput: the service refuses for good, such as an unknown model.
            Corruption: an answer that isn't one.
        """
        question = _sendable(question)[:QUESTION_CHARS]
        asked = [(at, _sendable(text)[:TEXT_CHARS]) for at, text in enumerate(texts)]
        asked = [(at, text) for at, text in asked if text.strip()] if question.strip() else []
        scores = [0.0] * len(texts)
        size = _DOCUMENTS.get(self._settings.model, _DOCUMENTS_MAX)
        for start in range(0, len(asked), size):
            group = asked[start : start + size]
            for (at, _), score in zip(group, self._scores(question, [text for _, text in group]), strict=True):
                scores[at] = score
        return tuple(scores)

    def close(self) -> None:
        """End idle connections; the next call opens new ones."""
        self._client.close()

    def _scores(self, question: str, texts: Sequence[str]) -> list[float]:
        what = f"rerank {len(texts)} texts"

        def ask(models: Any) -> Any:
            return models.rerank(
                self._settings.model, question, list(texts), return_documents=False, parameters={"truncate": "END"}
            )

        rows = self._client.call(what, ask, part=MODELS).value.data
        scores = {row.index: float(row.score) for row in rows}
        if len(rows) != len(texts) or scores.keys() != set(range(len(texts))):
            raise bad_reply(what, f"{len(rows)} scores came back, not one for each text")
        if not all(0 <= score <= 1 for score in scores.values()):
            raise bad_reply(what, "a score that doesn't lie between 0 and 1")
        return [scores[at] for at in range(len(texts))]


def _sendable(text: str) -> str:
    # Half of a surrogate pair, which JSON can spell, can't be sent.
    return text.encode("utf-8", "replace").decode("utf-8")
