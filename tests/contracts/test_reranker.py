"""The contract of port `Reranker`, and the flow around it: off unless asked for, refused where nothing serves it."""

from __future__ import annotations

import importlib.util

import pytest

from pipeline.adapters import reranker_minilm
from pipeline.adapters.reranker_minilm import MiniLmReranker
from pipeline.errors import Corruption, Unavailable

QUESTION = "How many people live in Berlin?"
TEXTS = [
    "New York City is famous for the Metropolitan Museum of Art.",
    "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
    "",
    "Berlin is known for its museums. " * 200,
]


@pytest.fixture(scope="module")
def reranker():
    return MiniLmReranker()


def test_scores_say_which_text_answers(reranker):
    scores = reranker.rerank(QUESTION, TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert max(scores) == scores[1] > 0.9
    assert scores[0] < 0.1


def test_a_score_depends_on_its_own_text_alone(reranker):
    together = reranker.rerank(QUESTION, TEXTS)
    assert together == reranker.rerank(QUESTION, TEXTS)
    assert [reranker.rerank(QUESTION, [text])[0] for text in TEXTS] == list(together)
    assert reranker.rerank(QUESTION, []) == ()


def test_a_question_longer_than_the_model_takes(reranker):
    assert 0 <= reranker.rerank("word " * 5000, [TEXTS[3]])[0] <= 1


def test_missing_and_changed_weights(monkeypatch):
    monkeypatch.setattr(reranker_minilm, "MODEL_SHA256", "0" * 64)
    with pytest.raises(Corruption):
        MiniLmReranker().rerank(QUESTION, TEXTS[:1])
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(Unavailable, match="aren't installed"):
        MiniLmReranker().rerank(QUESTION, TEXTS[:1])
