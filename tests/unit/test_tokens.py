"""Token counts are exact, cost no network, and positions are code points."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipeline import tokens

CREW = "\U0001f469\U0001f3fd‍\U0001f692"


def test_counts_known_texts():
    """Counts equal those that the tokenizer's makers publish."""
    assert tokens.count("") == 0
    assert tokens.count("hello world") == 2
    assert tokens.count("tiktoken is great!") == 6


def test_control_token_spellings_are_text():
    """A document that spells a control token neither raises nor counts as one token (O-07.3)."""
    for spelling in ("<|endoftext|>", "<|fim_prefix|>", "<|im_start|>"):
        assert tokens.count(spelling) > 1
        assert len(tokens.boundaries(spelling)) == tokens.count(spelling)


@pytest.mark.parametrize("text", ["plain words here\n\n  more", "Ünïcode façade 工程报告", CREW * 3, "x" + "́" * 40])
def test_boundaries_are_rising_code_points(text):
    """One start for each token, from 0, never falling, inside the text; slices of ASCII at them are the tokens."""
    starts = tokens.boundaries(text)
    assert len(starts) == tokens.count(text)
    assert starts[0] == 0
    assert (np.diff(starts) >= 0).all()
    assert starts[-1] < len(text)
    if text.isascii():
        pieces = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        assert [tokens.count(piece) for piece in pieces] == [1] * len(pieces)


def test_no_boundaries_in_empty_text():
    assert len(tokens.boundaries("")) == 0


def test_threads_agree():
    """Loading is lazy and counting is safe from several threads."""
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(tokens.count, ["one two three"] * 64)) == {3}
