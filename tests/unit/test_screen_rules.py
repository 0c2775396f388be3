"""`pipeline.screen`: what can't be looked for is dropped, counted by rule; everything else stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.screen import DEFAULT, RULES, rules_of, screen
from pipeline.types import Chunk

GOOD = "The quick brown fox and the lazy dog have met, and that is all there is to say of it."


def chunks(*texts: str) -> list[Chunk]:
    return [Chunk(text, 0, len(text), i, 1) for i, text in enumerate(texts)]


@pytest.mark.parametrize("text", ["a", "7", "é", "日本", "٣", "---\nx", "C++", "\ufffd" + "a" * 9, "🙂 ok"])
def test_kept(text: str) -> None:
    assert screen(chunks("first", text), DEFAULT) == ((True, True), {})


@pytest.mark.parametrize("text", ["---", "* * *\n\n|—|", "🙂", "\ufffd\ufffd", "\ufffd" + "a" * 8, "=" * 30 + "ab"])
def test_soup_is_dropped(text: str) -> None:
    assert screen(chunks("first", text), DEFAULT) == ((True, False), {"symbol_soup": 1})


def test_boilerplate_stays_once() -> None:
    """Of three copies the first stays; two copies may be meant; other digits make another text."""
    three = chunks("All rights reserved.", "a", "All  rights\nreserved.", "b", "All rights reserved.")
    assert screen(three, DEFAULT) == ((True, True, False, True, False), {"repeated_boilerplate": 2})
    assert screen(three[:3], DEFAULT) == ((True, True, True), {})
    assert screen(chunks("row 1", "row 2", "row 3"), DEFAULT) == ((True, True, True), {})


def test_the_last_chunk_of_a_source_stays() -> None:
    assert screen(chunks("---", "***"), DEFAULT) == ((True, False), {"symbol_soup": 1})
    assert screen(chunks("---"), tuple(RULES)) == ((True,), {})
    assert screen([], DEFAULT) == ((), {})


SAMPLES = {
    "symbol_soup": "~~~ ### ///",
    "too_short": "two words",
    "gopher_word_length": "a b c d e f the of",
    "gopher_symbols": "# the … of and",
    "gopher_bullets": "- the one of\n- and the other",
    "gopher_ellipses": "the beginning of ...\nand so on …",
    "gopher_alphabetic": "the 1 of 2 3 4 5 6",
    "gopher_stop_words": "colourless green ideas sleep furiously",
    "gopher_duplicate_lines": "the end of\nthe end of\nand more",
    "c4_lorem_ipsum": "the Lorem Ipsum of that",
    "c4_curly_bracket": "the value of { and }",
    "c4_javascript": "please enable JavaScript to have the best of that",
    "c4_policy": "this site uses cookies to have the best of that",
}


@pytest.mark.parametrize("rule", SAMPLES)
def test_each_rule_by_itself(rule: str) -> None:
    """It drops its sample and passes ordinary prose; switched off, it drops nothing."""
    both = chunks(GOOD, SAMPLES[rule])
    assert screen(both, (rule,)) == ((True, False), {rule: 1})
    assert screen(both, ()) == ((True, True), {})


def test_every_rule_has_a_sample() -> None:
    assert set(SAMPLES) | {"repeated_boilerplate"} == set(RULES)


def test_settings() -> None:
    assert rules_of("default") == DEFAULT
    assert rules_of("none") == ()
    assert rules_of("all") == tuple(RULES)
    assert rules_of("too_short+symbol_soup") == ("symbol_soup", "too_short")
    assert rules_of("soup") is None
    assert rules_of("") is None


@given(st.lists(st.text(max_size=12)), st.sampled_from([DEFAULT, (), tuple(RULES)]))
def test_every_chunk_is_kept_or_counted_once(texts: list[str], rules: tuple[str, ...]) -> None:
    passed, rejected = screen(chunks(*texts), rules)
    assert len(passed) == len(texts)
    assert sum(passed) + sum(rejected.values()) == len(texts)
    assert not texts or any(passed)
    assert set(rejected) <= set(rules)
    assert list(rejected) == sorted(rejected)
