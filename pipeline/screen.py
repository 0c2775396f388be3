"""The published quality rules: which chunks are not worth indexing, counted by name, switchable in the recipe.

A screened chunk can't be found, so only two rules are on by default: copies of what the same source says again and
again, and text in which nobody could look for anything. The others are those of two published filters for web text,
made for a single chunk; they are for corpora that were crawled. No rule ever takes a source's last chunk. A rule is a
pure function of the source's own chunks; changing one raises VERSION.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.types import Chunk

VERSION = 2

COPIES_MIN = 3
"""Times that a text stands in one source before it's taken for boilerplate; twice may be meant."""
ALNUM_SHARE_MIN = 0.1
"""Share of letters and digits among visible characters below which a text is soup."""
REPLACEMENT_SHARE_MAX = 0.1
"""Share of U+FFFD past which a text is taken for undecodable bytes rather than for text with a blemish."""
WORDS_MIN = 3

_BULLETS = ("•", "‣", "▪", "●", "○", "-", "*", "\u2013")
_ELLIPSES = ("…", "...")
_STOP_WORDS = frozenset(("the", "be", "to", "of", "and", "that", "have", "with"))
_POLICY = ("terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies")


@dataclass
class Candidate:
    """One chunk's text, and what the rules ask about it."""

    text: str
    copies: int
    """How often the source says the same, word for word, this time included."""
    repeats: bool
    """Whether it has been said before."""

    @cached_property
    def words(self) -> list[str]:
        """What white space divides."""
        return self.text.split()

    @cached_property
    def lines(self) -> list[str]:
        """Lines that aren't blank, stripped."""
        return [line.strip() for line in self.text.splitlines() if line.strip()]

    @cached_property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _repeated_boilerplate(one: Candidate) -> bool:
    """Not the first of three or more copies in its source."""
    return one.repeats and one.copies >= COPIES_MIN


def _symbol_soup(one: Candidate) -> bool:
    """Hardly a letter or digit in it, or many characters that could not be decoded."""
    visible = sum(not c.isspace() for c in one.text)
    alphanumeric = sum(c.isalnum() for c in one.text)
    return alphanumeric <= ALNUM_SHARE_MIN * visible or one.text.count("\ufffd") > REPLACEMENT_SHARE_MAX * len(one.text)


def _too_short(one: Candidate) -> bool:
    """Fewer than three words."""
    return len(one.words) < WORDS_MIN


def _gopher_word_length(one: Candidate) -> bool:
    """Mean word length outside 3 to 10 characters."""
    return not 3 <= _share(sum(map(len, one.words)), len(one.words)) <= 10  # noqa: PLR2004 - the paper's numbers


def _gopher_symbols(one: Candidate) -> bool:
    """More than one hash or ellipsis for ten words."""
    marks = one.text.count("#") + sum(one.text.count(mark) for mark in _ELLIPSES)
    return _share(marks, len(one.words)) > 0.1  # noqa: PLR2004


def _gopher_bullets(one: Candidate) -> bool:
    """More than nine of ten lines begin with a bullet."""
    return _share(sum(line.startswith(_BULLETS) for line in one.lines), len(one.lines)) > 0.9  # noqa: PLR2004


def _gopher_ellipses(one: Candidate) -> bool:
    """More than three of ten lines end in an ellipsis."""
    return _share(sum(line.endswith(_ELLIPSES) for line in one.lines), len(one.lines)) > 0.3  # noqa: PLR2004


def _gopher_alphabetic(one: Candidate) -> bool:
    """Fewer than eight of ten words hold a letter."""
    return _share(sum(any(c.isalpha() for c in word) for word in one.words), len(one.words)) < 0.8  # noqa: PLR2004


def _gopher_stop_words(one: Candidate) -> bool:
    """Fewer than two different words of the eight most common English ones. For English prose only."""
    return len(_STOP_WORDS & set(one.lower.split())) < 2  # noqa: PLR2004


def _gopher_duplicate_lines(one: Candidate) -> bool:
    """More than three of ten lines stand in the chunk already."""
    return _share(len(one.lines) - len(set(one.lines)), len(one.lines)) > 0.3  # noqa: PLR2004


def _c4_lorem_ipsum(one: Candidate) -> bool:
    """Placeholder text."""
    return "lorem ipsum" in one.lower


def _c4_curly_bracket(one: Candidate) -> bool:
    """A curly bracket, which prose has not. Not for code."""
    return "{" in one.text


def _c4_javascript(one: Candidate) -> bool:
    """Asks to switch JavaScript on."""
    return "javascript" in one.lower and len(one.words) < 50  # noqa: PLR2004 - the paper drops lines, not documents


def _c4_policy(one: Candidate) -> bool:
    """A short notice about cookies, privacy or terms of use."""
    return any(phrase in one.lower for phrase in _POLICY) and len(one.words) < 50  # noqa: PLR2004


RULES: dict[str, Callable[[Candidate], bool]] = {
    "repeated_boilerplate": _repeated_boilerplate,
    "symbol_soup": _symbol_soup,
    "too_short": _too_short,
    "gopher_word_length": _gopher_word_length,
    "gopher_symbols": _gopher_symbols,
    "gopher_bullets": _gopher_bullets,
    "gopher_ellipses": _gopher_ellipses,
    "gopher_alphabetic": _gopher_alphabetic,
    "gopher_stop_words": _gopher_stop_words,
    "gopher_duplicate_lines": _gopher_duplicate_lines,
    "c4_lorem_ipsum": _c4_lorem_ipsum,
    "c4_curly_bracket": _c4_curly_bracket,
    "c4_javascript": _c4_javascript,
    "c4_policy": _c4_policy,
}
"""By name, in the order in which they are asked. `gopher_*`: Rae et al. 2021, "Scaling Language Models", appendix A1.1,
quality and repetition filters. `c4_*`: Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.2.
`repeated_boilerplate` is the idea of C4's removal of repeated spans, within one source."""

DEFAULT = ("repeated_boilerplate", "symbol_soup")
"""Rules that are on unless the recipe says otherwise."""


def rules_of(text: str) -> tuple[str, ...] | None:
    """The rules that a setting names: default, none, all, or names with '+' between them; None for anything else."""
    named = {"default": DEFAULT, "none": (), "all": tuple(RULES)}
    if text in named:
        return named[text]
    asked = text.split("+")
    return tuple(name for name in RULES if name in asked) if set(asked) <= set(RULES) else None


def screen(chunks: Sequence[Chunk], rules: Sequence[str]) -> tuple[tuple[bool, ...], dict[str, int]]:
    """Which of one source's chunks pass, and how many each rule rejected; the first rule that rejects is counted.

    Where none would pass, the first does.
    """
    keys = [" ".join(chunk.text.split()) for chunk in chunks]
    copies = Counter(keys)
    seen: set[str] = set()
    verdicts: list[str] = []
    for chunk, key in zip(chunks, keys, strict=True):
        one = Candidate(chunk.text, copies[key], key in seen)
        seen.add(key)
        verdicts.append(next((name for name in rules if RULES[name](one)), ""))
    if verdicts and all(verdicts):
        verdicts[0] = ""
    rejected = Counter(name for name in verdicts if name)
    return tuple(not name for name in verdicts), dict(sorted(rejected.items()))
