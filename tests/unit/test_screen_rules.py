"""`pipeline.screen`: what can't be looked for is dropped, counted by rule; everything else stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.screen import RULES, screen
from pipeline.types import Chunk


def chunks(*texts: str) -> list[Chunk]:
    return [Chunk(text, 0, len(text), i, 1) for i, text in enumerate(texts)]


@pytest.mark.parametrize("text", ["a", "7", "é", "日本", "٣", "---\nx", "C++", "\ufffd" + "a" * 9, "🙂 ok"])
def test_kept(text: str) -> None:
    assert screen(chunks(text)) == (tuple(chunks(text)), {})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "no_letters_or_digits"), ("---", "no_letters_or_digits"), ("* * *\n\n|—|", "no_letters_or_digits"),
        ("🙂", "no_letters_or_digits"), ("\ufffd\ufffd", "no_letters_or_digits"), ("\ufffd" + "a" * 8, "undecodable"),
    ],
)  # fmt: skip
def test_dropped_under_the_first_rule_that_applies(text: str, rule: str) -> None:
    assert screen(chunks(text)) == ((), {rule: 1})


@given(st.lists(st.text(max_size=12)))
def test_every_chunk_is_kept_or_counted_once(texts: list[str]) -> None:
    given_chunks = chunks(*texts)
    kept, rejected = screen(given_chunks)
    assert len(kept) + sum(rejected.values()) == len(texts)
    assert list(kept) == [c for c in given_chunks if c in kept]
    assert set(rejected) <= set(RULES)
    assert list(rejected) == sorted(rejected)
