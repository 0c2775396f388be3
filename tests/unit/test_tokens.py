"""Token counts are exact, cost no network, and positions are code points."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

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


PUBLISHED = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
"""cl100k's pattern as its makers give it; the product's says the same in another way."""


@pytest.fixture(scope="module")
def published():
    ours = tokens._encoding()[0]  # the one way to the vocabulary without a network
    return tiktoken.Encoding("published", pat_str=PUBLISHED, mergeable_ranks=ours._mergeable_ranks, special_tokens={})


def test_every_character_is_counted_as_published(published):
    """Each code point beside letters, digits, punctuation, spaces, line ends and itself gives the published tokens."""
    for first in range(0, 0x110000, 64):
        codes = [chr(code) for code in range(first, first + 64) if not 0xD800 <= code < 0xE000]
        text = "".join(f"a{c}a {c} 1{c}1  {c}\n {c}!{c}' {c}s'{c}\t{c}{c}\r\n{c}  " for c in codes)
        assert tokens._encoding()[0].encode_ordinary(text) == published.encode_ordinary(text), hex(first)


@given(
    st.text(
        alphabet=st.sampled_from("aZ'sSdmtlvreLL19 \t\n\r\x0b\x1c\x85\xa0 　.,-#é工\u017f\u212a\U0001f600̈"), max_size=60
    )
)
def test_any_text_is_counted_as_published(published, text):
    """Runs of the characters that the pattern tells apart give the published tokens."""
    assert tokens._encoding()[0].encode_ordinary(text) == published.encode_ordinary(text)


@pytest.mark.parametrize("before", ["", "x", "x\n", "\n\n", "!\n \n", "x\r"])
@pytest.mark.parametrize("after", ["x", " x", "!", "\n", "", "1", "\r\nx", "\x1cx"])
def test_very_long_white_space_is_counted_as_shorter_is(monkeypatch, published, before, after):
    """Where a run is too long for tiktoken the text is encoded in parts, with the tokens of the whole."""
    monkeypatch.setattr(tokens, "_RUN_MAX", 6)
    monkeypatch.setattr(tokens, "_LONG_RUN", re.compile(tokens._LONG_RUN.pattern.replace(str(1 << 19), "6")))
    for run in (" " * 6, "\t \t  \t \xa0", " " * 5):
        text = f"{before}{run}{after} {run}{after}"
        whole = published.encode_ordinary(text)
        assert tokens.count(text) == len(whole)
        if text.isascii():
            sizes = [len(token) for token in published.decode_tokens_bytes(whole)]
            assert tokens.boundaries(text).tolist() == np.cumsum([0, *sizes])[:-1].tolist()


@pytest.mark.parametrize("run", [" ", "\t", "\xa0", "\u3000", "\n", " \n"])
def test_white_space_past_a_million_characters(run):
    """tiktoken gives up on a million blanks before a word; a document that holds them is counted all the same."""
    text = "one" + run * 1_100_000 + "two"
    starts = tokens.boundaries(text)
    assert len(starts) == tokens.count(text)
    assert starts[-1] > 1_100_000
