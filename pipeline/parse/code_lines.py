"""Code without a grammar here: cuts by the separators that langchain-text-splitters keeps for its language, else by shape."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache

from pipeline.parse.languages import SEPARATORS
from pipeline.parse.lines import Lines
from pipeline.types import Block

_CLOSER = re.compile(r"[ \t]*(?:[)\]}]|end\b|fi\b|done\b|esac\b|</)")
_LEAD = re.compile(r"[ \t]*(?:#|//|--|;|%|/\*|\*|@|\[<|'|\{-)")
"""How a line starts that speaks about the next one: a comment, or an attribute."""


def blocks(text: str, language: str) -> tuple[Block, ...]:
    """One block over the text, cut at the best places first."""
    lines = Lines(text)
    depths: dict[int, int] = {}
    separators = _separators(SEPARATORS[language]) if language in SEPARATORS else ()
    for depth, separator in enumerate(separators):
        for match in separator.finditer(text):
            row = bisect_right(lines.starts, match.start()) - 1
            depths.setdefault(lines.starts[_with_leads(lines, row + 1)], depth)
    base = len(separators)
    for row, line in enumerate(lines.lines):
        if row and lines.follows_blank(row) and not lines.is_blank(row) and not _CLOSER.match(line):
            depths.setdefault(lines.starts[row], base + (line[0] in " \t"))
    cuts = sorted((at, depth) for at, depth in depths.items() if 0 < at < len(text))
    return (Block("code", 0, len(text), cuts=tuple(at for at, _ in cuts), depths=tuple(depth for _, depth in cuts)),)


def _with_leads(lines: Lines, row: int) -> int:
    """The first of the lines right above `row` that speak about it, or `row`."""
    while row > 0 and _LEAD.match(lines.lines[row - 1]):
        row -= 1
    return row


@cache
def _separators(name: str) -> tuple[re.Pattern[str], ...]:
    """The patterns that begin with a line end and name a keyword, best first; blank lines and spaces are ours."""
    from langchain_text_splitters import Language, RecursiveCharacterTextSplitter  # noqa: PLC0415 - half a second

    found = RecursiveCharacterTextSplitter.get_separators_for_language(Language(name))
    patterns = [re.compile(one) for one in found if one.startswith(("\n", "\\n"))]
    return tuple(one for one in patterns if not any(one.fullmatch(blank) for blank in ("\n", "\n\n", " ")))
