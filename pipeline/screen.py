"""The published quality rules: which chunks are not worth indexing, counted by name.

The rules are few and cautious: a screened chunk can't be found, so each rule names text in which nobody could look for
anything. A rule is a pure function; adding one raises VERSION.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pipeline.types import Chunk

VERSION = 1

REPLACEMENT_SHARE_MAX = 0.1
"""Share of U+FFFD past which a text is taken for undecodable bytes rather than for text with a blemish."""


def _no_letters_or_digits(text: str) -> bool:
    return not any(c.isalnum() for c in text)


def _undecodable(text: str) -> bool:
    return text.count("\ufffd") > REPLACEMENT_SHARE_MAX * len(text)


RULES: dict[str, Callable[[str], bool]] = {
    "no_letters_or_digits": _no_letters_or_digits,
    "undecodable": _undecodable,
}


def screen(chunks: Sequence[Chunk]) -> tuple[tuple[Chunk, ...], dict[str, int]]:
    """The chunks that pass, in order, and how many each rule rejected. The first rule that rejects is counted."""
    kept: list[Chunk] = []
    rejected: Counter[str] = Counter()
    for chunk in chunks:
        name = next((name for name, rule in RULES.items() if rule(chunk.text)), None)
        if name is None:
            kept.append(chunk)
        else:
            rejected[name] += 1
    return tuple(kept), dict(sorted(rejected.items()))
