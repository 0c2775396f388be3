"""Port `Reranker` on a model that Pinecone hosts."""

from __future__ import annotations

import pytest
from contracts.test_reranker import QUESTION, TEXTS
from pinecone_emulator import Fault, PineconeEmulator

from pipeline.adapters.pinecone_client import PineconeAccount
from pipeline.adapters.reranker_pinecone import PineconeReranker, PineconeRerankerSettings
from pipeline.errors import Corruption, RejectedInput, Unavailable

KEY = "pc-secret/0"


@pytest.fixture
def server():
    with PineconeEmulator(key=KEY) as server:
        yield server


def reranker_of(server, *, key=KEY, **changes):
    return PineconeReranker(PineconeRerankerSettings(PineconeAccount(key, server.url, 10.0), **changes))


@pytest.fixture
def reranker(server):
    reranker = reranker_of(server)
    yield reranker
    reranker.close()


def test_scores_stand_in_the_order_of_the_texts(reranker):
    """The service answers best first."""
    scores = reranker.rerank(QUESTION, TEXTS)
    assert len(scores) == len(TEXTS)
    assert all(0 <= score <= 1 for score in scores)
    assert max(scores) == scores[1]
    assert scores[2] == 0


def test_a_score_depends_on_its_own_text_alone(reranker):
    together = reranker.rerank(QUESTION, TEXTS)
    assert together == reranker.rerank(QUESTION, TEXTS)
    assert [reranker.rerank(QUESTION, [text])[0] for text in TEXTS] == list(together)
    assert reranker.rerank(QUESTION, []) == ()


def test_no_more_than_a_hundred_texts_a_request(server, reranker):
    texts = [f"number {n} of Berlin" if n % 7 else "" for n in range(250)]
    scores = reranker.rerank(QUESTION, texts)
    assert len(server.requests) == 3
    assert [at for at, score in enumerate(scores) if not score] == list(range(0, 250, 7))


def test_what_is_longer_than_the_model_takes(reranker):
    """Question and text are cut, in any script, and with half a surrogate pair in them."""
    assert 0 <= reranker.rerank("word " * 5000, [TEXTS[3]])[0] <= 1
    assert 0 <= reranker.rerank(QUESTION + "\ud800", ["短い日本語の文" * 4000 + "\udfff"])[0] <= 1


def test_nothing_is_asked_of_a_blank_question(server, reranker):
    assert reranker.rerank(" \n", TEXTS) == (0.0,) * len(TEXTS)
    assert server.requests == []


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (Fault("status", 429, retry_after="60", times=-1), Unavailable, "rate_limited"),
        (Fault("status", 401, message=f"key {KEY} is wrong"), Unavailable, "unauthorized"),
        (Fault("status", 422), RejectedInput, "refused"),
        (Fault("garbage"), Corruption, "bad_reply"),
        (Fault("empty"), Corruption, "bad_reply"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_errors_by_what_the_caller_does(server, reranker, fault, kind, code):
    server.faults.add(fault)
    with pytest.raises(kind) as caught:
        reranker.rerank(QUESTION, TEXTS)
    assert caught.value.code == code
    assert KEY not in caught.value.message


def test_an_unknown_model(server):
    reranker = reranker_of(server, model="no-such-model")
    with pytest.raises(RejectedInput) as caught:
        reranker.rerank(QUESTION, TEXTS)
    reranker.close()
    assert caught.value.code == "not_found"
