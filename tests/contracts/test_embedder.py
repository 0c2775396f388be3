"""The contract of port `DenseEmbedder`, for every adapter, and the arithmetic that they share."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters import embedder_minilm, embedder_static
from pipeline.adapters.embedder_minilm import MiniLmEmbedder
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.embed.dense import batches, pool, windows
from pipeline.errors import Corruption

TEXTS = [
    "How do I add a dependency that cleans up after the request?",
    "Use yield in a dependency; the code after it runs when the response was sent.",
    "Bananas are rich in potassium.",
    "",
    "短い日本語の文",
    "line one\n\n  indented   line\ttab",
    "<s> not a special token </s> [CLS]",
    "word " * 700,
]


@pytest.fixture(scope="module", params=[StaticEmbedder, MiniLmEmbedder])
def embedder(request):
    return request.param()


class TestDenseEmbedder:
    def test_nothing_gives_nothing(self, embedder):
        result = embedder.embed([])
        assert (result.vectors.shape, result.vectors.dtype, result.tokens) == (
            (0, embedder.identity.dim),
            np.float32,
            0,
        )

    def test_vectors_are_unit_length_and_in_order(self, embedder):
        """Zero for a text without tokens; the tokens are counted."""
        result = embedder.embed(TEXTS)
        assert result.vectors.shape == (len(TEXTS), embedder.identity.dim)
        assert (result.vectors.dtype, result.vectors.flags.c_contiguous) == (np.float32, True)
        norms = np.linalg.norm(result.vectors, axis=1)
        assert norms.tolist() == pytest.approx([0.0 if not text else 1.0 for text in TEXTS], abs=1e-5)
        near, far = result.vectors[0] @ result.vectors[1], result.vectors[0] @ result.vectors[2]
        assert near > far + 0.1
        assert result.tokens > 700

    def test_a_vector_does_not_depend_on_its_batch(self, embedder):
        """Within 1e-5, alone, in another order, or beside a long text that pads the batch."""
        together = embedder.embed(TEXTS).vectors
        backwards = embedder.embed(TEXTS[::-1]).vectors[::-1]
        alone = np.concatenate([embedder.embed([text]).vectors for text in TEXTS])
        assert np.abs(together - alone).max() < 1e-5
        assert np.abs(together - backwards).max() < 1e-5

    def test_a_long_text_is_covered_whole(self, embedder):
        """What stands past the model's window still moves the vector."""
        long = "alpha beta gamma " * 300
        one, two = embedder.embed(
            [long + "volcano eruption lava " * 40, long + "quarterly tax return form " * 40]
        ).vectors
        assert one @ two < 0.999

    def test_identity_names_the_weights(self, embedder):
        assert len(embedder.identity.sha256) == 64
        assert embedder.identity.dim == embedder.embed(["a"]).vectors.shape[1]

    @pytest.mark.parametrize("make", [StaticEmbedder, MiniLmEmbedder])
    def test_threads_load_it_once_and_agree(self, make):
        fresh, found = make(), []
        threads = [threading.Thread(target=lambda: found.append(fresh.embed(TEXTS[:2]).vectors)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 3
        assert all(np.abs(vectors - found[0]).max() < 1e-5 for vectors in found)


def test_pieces_give_the_tokens_of_the_whole_text():
    """Cutting a text changes no token: the vector is the mean over the tokenizer's own ids."""
    static = StaticEmbedder()
    model = static._model()
    for text in [*TEXTS[:3], *TEXTS[4:6], "don't f(x)==y; a_b.c  -- Δx ≤ 3µ 🎉\u200b naïve Привет", "ab" * 400]:
        whole = model.pieces.tokenizer.encode("▁" + text.replace(" ", "▁"), add_special_tokens=False).ids
        mean = model.weights[whole].mean(axis=0)
        result = static.embed([text])
        assert abs(result.tokens - len(whole)) <= len(text) // 256
        assert np.abs(result.vectors[0] - mean / np.linalg.norm(mean)).max() < (1e-5 if len(text) < 256 else 0.1)


@pytest.mark.parametrize(
    "check",
    [
        lambda path: embedder_static._read(path, embedder_static.MODEL_SHA256),
        lambda path: embedder_minilm._check(path, embedder_minilm.MODEL_SHA256),
    ],
)
def test_other_weights_are_refused(tmp_path, check):
    path = tmp_path / "weights"
    path.write_bytes(b"other")
    with pytest.raises(Corruption) as caught:
        check(path)
    assert caught.value.code == "embedder_changed"


@given(length=st.integers(0, 3_000), size=st.integers(1, 300))
def test_windows_cover_everything_near_equally(length, size):
    ranges = windows(length, size)
    assert [at for start, end in ranges for at in range(start, end)] == list(range(length))
    widths = [end - start for start, end in ranges]
    assert not widths or (max(widths) <= size and max(widths) - min(widths) <= 1)
    assert len(ranges) == -(-length // size)


@given(lengths=st.lists(st.integers(1, 300), max_size=60), rows=st.integers(1, 8), cells=st.integers(1, 2_048))
def test_batches_hold_each_position_once_within_the_budget(lengths, rows, cells):
    found = list(batches(lengths, rows_max=rows, cells_max=cells))
    assert sorted(at for batch in found for at in batch) == list(range(len(lengths)))
    for batch in found:
        assert 1 <= len(batch) <= rows
        assert len(batch) == 1 or len(batch) * max(lengths[at] for at in batch) <= cells


def test_pool_weighs_by_tokens():
    vectors = np.array([[1, 0], [0, 1], [0, 2]], np.float32)
    pooled = pool(vectors, np.array([0, 0, 2]), np.array([3, 4, 5]), 3)
    assert pooled.tolist() == [pytest.approx([0.6, 0.8]), [0, 0], [0, 1]]
    assert pool(np.zeros((0, 2), np.float32), np.zeros(0, np.int64), np.zeros(0, np.int64), 1).tolist() == [[0, 0]]
