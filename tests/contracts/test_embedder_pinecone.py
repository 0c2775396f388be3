"""Port `DenseEmbedder` on a model that Pinecone hosts: the contract, batches and windows, both sides, and errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from contracts import test_embedder
from contracts.test_embedder import TEXTS
from pinecone_emulator import Fault, PineconeEmulator

from pipeline.adapters.embedder_pinecone import PineconeEmbedder, PineconeEmbedderSettings
from pipeline.adapters.pinecone_client import PineconeAccount
from pipeline.errors import Corruption, RejectedInput, Unavailable

KEY = "pc-secret/0"


def embedder_of(server, *, key=KEY, deadline_s=20.0, **changes):
    return PineconeEmbedder(PineconeEmbedderSettings(PineconeAccount(key, server.url, deadline_s), **changes))


@pytest.fixture(scope="module")
def server():
    with PineconeEmulator(key=KEY) as server:
        yield server


@pytest.fixture(scope="module")
def embedder(server):
    embedder = embedder_of(server)
    yield embedder
    embedder.close()


@pytest.fixture
def asked(server):
    """The paths asked for since the test began; faults of one test don't reach the next."""
    server.reset()
    yield lambda: [path for _, path, _ in server.requests]
    server.reset()


class TestPineconeEmbedder(test_embedder.TestDenseEmbedder):
    def test_identity_names_the_weights(self, embedder):
        """The service doesn't tell a hash; model and windows are named."""
        assert (embedder.identity.name, embedder.identity.sha256) == ("multilingual-e5-large", "")
        assert "w320" in embedder.identity.version
        assert embedder.identity.dim == embedder.embed(["a"]).vectors.shape[1] == 1024

    def test_threads_load_it_once_and_agree(self, server):
        fresh, found = embedder_of(server), []
        threads = [threading.Thread(target=lambda: found.append(fresh.embed(TEXTS[:2]).vectors)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fresh.close()
        assert len(found) == 3
        assert all(np.abs(vectors - found[0]).max() < 1e-5 for vectors in found)


def test_no_more_than_96_texts_a_request(embedder, asked):
    texts = [f"text number {n}" for n in range(200)]
    result = embedder.embed(texts)
    assert asked() == ["/embed"] * 3
    assert np.abs(result.vectors[150] - embedder.embed(texts[150:151]).vectors[0]).max() < 1e-5


def test_what_the_model_finds_too_long_is_halved(embedder, asked):
    """A window of 320 cl100k tokens may hold more than 507 of the model's; nothing is truncated, nothing depends on others."""
    long = "1234567890" * 300 + " the end"  # two tokens of the emulator's where cl100k has more than one and a half
    long += "!?" * 900
    alone = embedder.embed([long])
    assert len(asked()) > len(long) // 3000
    assert np.abs(embedder.embed(["short", long, "other"]).vectors[1] - alone.vectors[0]).max() < 1e-5
    assert alone.vectors[0] @ embedder.embed([long + " volcano eruption lava" * 40]).vectors[0] < 0.9999


def test_a_refusal_that_only_sounds_like_length_ends(server, asked, embedder):
    """A few requests, then the service's own words."""
    server.faults.add(Fault("status", 400, message="unknown parameter max_tokens", times=-1))
    with pytest.raises(RejectedInput, match="max_tokens"):
        embedder.embed(["word " * 2000, *(f"text {n}" for n in range(90))])
    assert len(asked()) < 16


def test_questions_are_embedded_as_such(embedder):
    """Passages and questions are two sides of one model."""
    passage, question = embedder.embed(["a text"]), embedder.embed(["a text"], side="question")
    assert np.abs(passage.vectors - question.vectors).max() > 0.01
    assert passage.vectors[0] @ question.vectors[0] > 0.8


def test_blank_texts_are_zero_and_cost_nothing(embedder, asked):
    result = embedder.embed(["", " \n\t", "\u3000"])
    assert (result.vectors.any(), result.tokens, asked()) == (False, 0, [])


def test_half_a_surrogate_pair_is_replaced(embedder):
    assert np.abs(embedder.embed(["a \ud83d b"]).vectors - embedder.embed(["a ? b"]).vectors).max() < 1e-5


def test_another_dimension(server):
    """A known model's dimension may be set; an unknown one's must be."""
    small = embedder_of(server, model="llama-text-embed-v2", dim=384)
    assert small.embed(["a"]).vectors.shape == (1, 384)
    small.close()
    with pytest.raises(RejectedInput, match="isn't known here"):
        embedder_of(server, model="some-model")


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        (Fault("status", 429, retry_after="30", times=-1), Unavailable, "rate_limited"),
        (Fault("status", 403), Unavailable, "unauthorized"),
        (Fault("status", 402), Unavailable, "quota"),
        (Fault("status", 400, message="bad words"), RejectedInput, "refused"),
        (Fault("hang"), Unavailable, "provider_timeout"),
        (Fault("slow_body"), Unavailable, "provider_timeout"),
        (Fault("slow_head"), Unavailable, "provider_timeout"),
        (Fault("garbage"), Corruption, "bad_reply"),
        (Fault("empty"), Corruption, "bad_reply"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
@pytest.mark.usefixtures("asked")
def test_errors_by_what_the_caller_does(server, fault, kind, code):
    embedder = embedder_of(server, deadline_s=0.3 if fault.kind in ("hang", "slow_body", "slow_head") else 5.0)
    server.faults.add(fault)
    with pytest.raises(kind) as caught:
        embedder.embed(["a"])
    embedder.close()
    assert caught.value.code == code
    assert KEY not in f"{caught.value} {caught.value.message} {caught.value.remedy}"
    if code == "rate_limited":
        assert caught.value.retry_after_ms == 30_000


def test_an_unknown_model_and_a_wrong_key(server):
    for changes, kind, code in (
        ({"model": "no-such-model", "dim": 8}, RejectedInput, "not_found"),
        ({"key": "wrong"}, Unavailable, "unauthorized"),
    ):
        embedder = embedder_of(server, **changes)
        with pytest.raises(kind) as caught:
            embedder.embed(["a"])
        embedder.close()
        assert caught.value.code == code


def test_a_broken_connection_is_tried_again(server, asked, embedder, monkeypatch):
    from pinecone._internal import http_client  # noqa: PLC0415  # heavy; the seam is there for tests

    monkeypatch.setattr(http_client, "_retry_sleep", lambda _seconds: None)
    server.faults.add(Fault("reset_before"), Fault("half_body"), Fault("reset_after"))
    assert embedder.embed(["a"]).vectors.any()
    assert len(asked()) == 4
