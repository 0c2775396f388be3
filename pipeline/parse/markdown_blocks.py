"""CommonMark block structure with GFM tables, by lines: text -> blocks. The only reader of Markdown structure.

Only the outermost structure is built, because only it decides sections and cuts: a heading inside a list item or a
quote is content of that item. Inside containers just enough is tracked (open fence, open paragraph) to know where they
end. `tests/unit/test_parse_markdown.py` compares with markdown-it-py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

from pipeline.parse.markdown_inline import plain
from pipeline.types import Block, BlockKind

_INDENT = 4
"""Columns that make indented code, and the width of a tab stop."""

_ATX = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)(.*)")
_ATX_CLOSE = re.compile(r"(?:^|[ \t]+)#+$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_QUOTE = re.compile(r" {0,3}>[ \t]?")
_ITEM = re.compile(r"( {0,3})([-+*]|\d{1,9}[.)])([ \t]+|$)")
_NESTED = re.compile(r"[ \t]*(?:>|[-+*](?=[ \t]|$)|\d{1,9}[.)](?=[ \t]|$))[ \t]?")
_NESTED_ITEM = re.compile(r"[ \t]*(?:[-+*]|\d{1,9}[.)])[ \t]+\S")
_DEPTH_MAX = 8
"""Depths of nested items that are told apart."""
_FENCE_CHARS_MAX = 80
"""A longer opening line isn't worth repeating."""
_DELIMITER = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_PIPE = re.compile(r"(?<!\\)\|")
_REFERENCE = re.compile(r" {0,3}\[[^\]]+\]:[ \t]*\S")
_HTML_BLOCK_TAGS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|"
    "fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|"
    "menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|summary|table|tbody|td|tfoot|th|thead|title|tr|"
    "track|ul"
)
_HTML: tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...] = (
    (
        re.compile(r" {0,3}<(?:script|pre|style|textarea)(?:\s|>|$)", re.IGNORECASE),
        re.compile(r"</(?:script|pre|style|textarea)>", re.IGNORECASE),
    ),
    (re.compile(r" {0,3}<!--"), re.compile(r"-->")),
    (re.compile(r" {0,3}<\?"), re.compile(r"\?>")),
    (re.compile(r" {0,3}<!\[CDATA\["), re.compile(r"\]\]>")),
    (re.compile(r" {0,3}<![A-Za-z]"), re.compile(r">")),
    (re.compile(rf" {{0,3}}</?(?:{_HTML_BLOCK_TAGS})(?:\s|/?>|$)", re.IGNORECASE), None),
)
_ATTRIBUTE = r"""\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:[^\s"'=<>`]+|'[^']*'|"[^"]*"))?"""
_HTML_ANY = re.compile(rf" {{0,3}}(?:<[A-Za-z][\w-]*(?:{_ATTRIBUTE})*\s*/?>|</[A-Za-z][\w-]*\s*>)\s*$")
_SPECIAL = frozenset(" \t#`~>-+*_=|:<0123456789")
"""First characters of lines that may be anything but plain paragraph text."""

_SPECIAL_OR_EMPTY = _SPECIAL | {""}


def scan(text: str) -> tuple[Block, ...]:
    """Blocks of a Markdown text in order; together they cover every line that isn't blank. Linear time."""
    return tuple(_Scanner(text).run())


def _columns(line: str) -> int:
    """Width of the leading white space, tabs to stops of four."""
    bare = line.lstrip(" \t")
    lead = line[: len(line) - len(bare)]
    return len(lead.expandtabs(_INDENT)) if "\t" in lead else len(lead)


def _pipes(row: str) -> int:
    """Number of cells in a table row."""
    row = row.strip(" \t")
    cells = len(_PIPE.findall(row)) + 1
    return cells - row.startswith("|") - (len(row) > 1 and row.endswith("|") and not row.endswith("\\|"))


def _is_rule_or_item(line: str) -> bool:
    """A rule, or a list item that may interrupt a paragraph: one with content and, if numbered, number 1."""
    if _RULE.match(line):
        return True
    item = _ITEM.match(line)
    if item is None or item.end() == len(line):
        return False
    return not item.group(2)[0].isdigit() or item.group(2)[:-1] == "1"


_INTERRUPTING: dict[str, Callable[[str], object]] = {
    "#": _ATX.match,
    "`": _FENCE.match,
    "~": _FENCE.match,
    ">": bool,
    "<": lambda line: any(start.match(line) for start, _ in _HTML),
    **dict.fromkeys("-+*_0123456789", _is_rule_or_item),
}
"""First character of a line: whether the line ends an open paragraph."""


def _interrupts(line: str) -> bool:
    """Whether a line that isn't blank ends an open paragraph. Setext lines and tables are the paragraph's business."""
    bare = line.lstrip(" ")
    test = _INTERRUPTING.get(bare[:1])
    return test is not None and len(line) - len(bare) < _INDENT and bool(test(line))


def _is_table(header: str, delimiter: str) -> bool:
    """Whether a delimiter row under a line makes it a table's header: equally many cells, a pipe, no code."""
    return "|" in header and _columns(header) < _INDENT and _pipes(header) == _pipes(delimiter)


def _are_references(lines: list[str]) -> bool:
    """Whether a paragraph is nothing but link definitions."""
    return lines[0].lstrip(" ").startswith("[") and all(_REFERENCE.match(line) for line in lines)


def _is_lazy(line: str) -> bool:
    """Whether a line outside a container may continue the paragraph inside it. Any list marker may not."""
    return not _interrupts(line) and not _ITEM.match(line)


@dataclass(slots=True)
class _Leaf:
    """What is open at the inner end of a container: a fence, a paragraph, or nothing."""

    fence: str = ""
    fence_column: int = 0
    paragraph: bool = field(default=False)

    def feed(self, line: str) -> None:
        """Take the next line of the container, its own prefix removed."""
        if not self.fence and line[:1] not in _SPECIAL_OR_EMPTY:
            self.paragraph = True
            return
        bare = line.strip(" \t")
        if self.fence:
            if bare.startswith(self.fence) and not bare.strip(self.fence[0]):
                self.fence = ""
            elif bare and _columns(line) < self.fence_column:
                self.fence = ""  # the nested container ended, and the fence with it
            else:
                return
            if not bare.strip("`~"):
                return
        if not bare:
            self.paragraph = False
            return
        at = 0
        while match := _NESTED.match(line, at):
            at = match.end()
        rest = line[at:]
        if _columns(rest) >= _INDENT and not self.paragraph:
            return
        fence = _FENCE.match(rest.lstrip(" \t"))
        if fence:
            self.fence, self.fence_column = fence.group(1), len(line) - len(rest.lstrip(" \t"))
        self.paragraph = not (fence or not rest.strip(" \t") or _ATX.match(rest) or _RULE.match(line))


def _item(line: str, match: re.Match[str]) -> tuple[_Leaf, int]:
    """State of a new list item and the column of its content; negative while the item is empty."""
    marker = match.end(2)
    rest = line[marker:]
    leaf = _Leaf()
    if not rest.strip(" \t"):
        return leaf, -(marker + 1)
    wide = line.expandtabs(_INDENT) if "\t" in line else line
    gap = len(wide[marker:]) - len(wide[marker:].lstrip(" "))
    content = marker + (gap if 1 <= gap <= _INDENT else 1)
    leaf.feed(wide[content:])
    return leaf, content


class _Scanner:
    """One pass over the lines; every method takes a line number and returns the first line it didn't use."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        self.starts[-1] = len(text)
        self.blocks: list[Block] = []

    def run(self) -> list[Block]:
        at, end = 0, len(self.lines)
        while at < end:
            line = self.lines[at]
            first = line[:1]
            if not first:
                at += 1
            elif first not in _SPECIAL:
                at = self.paragraph(at)
            elif line.strip(" \t"):
                at = self.block(at, line)
            else:
                at += 1
        return self.blocks

    def block(self, at: int, line: str) -> int:
        """A line that isn't blank and may start anything."""
        bare = line.lstrip(" \t")
        if bare is not line and _columns(line) >= _INDENT:
            return self.indented_code(at)
        first, end = bare[0], at
        if first == "#":
            end = self.atx(at, line)
        elif first in "`~":
            end = self.fenced_code(at, line)
        elif first == ">":
            end = self.quote(at)
        elif first == "<":
            end = self.html(at, line)
        elif first in "-*_" and _RULE.match(line):
            end = self.add("paragraph", at, at + 1)
        elif item := _ITEM.match(line):
            end = self.list(at, item)
        return end if end > at else self.paragraph(at)

    def atx(self, at: int, line: str) -> int:
        """A heading, or `at` itself when the hashes start none."""
        match = _ATX.match(line)
        if match is None:
            return at
        title = match.group(2).strip(" \t")
        if title.endswith("#"):
            title = _ATX_CLOSE.sub("", title)
        return self.add("heading", at, at + 1, level=len(match.group(1)), title=plain(title))

    def add(
        self,
        kind: BlockKind,
        at: int,
        end: int,
        *,
        level: int = 0,
        title: str = "",
        cuts: tuple[int, ...] = (),
        header_end: int = 0,
        depths: tuple[int, ...] = (),
    ) -> int:
        starts = self.starts
        self.blocks.append(Block(kind, starts[at], starts[end], level, title, cuts, header_end, depths))
        return end

    def paragraph(self, at: int) -> int:
        lines, total = self.lines, len(self.lines)
        end = at + 1
        while end < total:
            line = lines[end]
            first = line[:1]
            if not first:
                break
            if first in _SPECIAL:
                bare = line.lstrip(" \t")
                if not bare:
                    break
                if bare[0] in "|-:=" and (used := self.underlined(at, end)):
                    return used
                if _interrupts(line):
                    break
            end += 1
        return self.add("paragraph", at, end)

    def underlined(self, at: int, end: int) -> int:
        """What line `end` makes of the paragraph above it, a table or a setext heading; 0 if it's neither."""
        line = self.lines[end]
        if _DELIMITER.match(line) and _is_table(self.lines[end - 1], line):
            if end - 1 > at:
                self.add("paragraph", at, end - 1)
            return self.table(end - 1)
        underline = _SETEXT.match(line)
        if underline is None or _are_references(self.lines[at:end]):
            return 0
        title = plain(" ".join(part.strip() for part in self.lines[at:end]))
        return self.add("heading", at, end + 1, level=1 if underline.group(1)[0] == "=" else 2, title=title)

    def table(self, at: int) -> int:
        end = at + 2
        while end < len(self.lines):
            line = self.lines[end]
            if not line.strip(" \t") or _columns(line) >= _INDENT or _interrupts(line):
                break
            end += 1
        starts = self.starts
        header_end = starts[at + 2] if end > at + 2 else 0
        cuts = tuple(starts[at + 3 : end])
        self.blocks.append(Block("table", starts[at], starts[end], 0, "", cuts, header_end))
        return end

    def indented_code(self, at: int) -> int:
        end = last = at + 1
        while end < len(self.lines):
            line = self.lines[end]
            if line.strip(" \t"):
                if _columns(line) < _INDENT:
                    break
                last = end + 1
            end += 1
        return self.add("code", at, last, cuts=self.gaps(at, last))

    def fenced_code(self, at: int, line: str) -> int:
        """Fenced code, or `at` itself when the marks open no fence."""
        match = _FENCE.match(line)
        if match is None:
            return at
        fence = match.group(1)
        mark, end = fence[0], at + 1
        while end < len(self.lines):
            inner = self.lines[end]
            end += 1
            if fence in inner:
                bare = inner.strip(" \t")
                if bare.startswith(fence) and not bare.strip(mark) and _columns(inner) < _INDENT:
                    break
        used = self.used(at, end)
        # What is cut off carries the opening line again: it says that this is code, and in which language.
        header_end = self.starts[at + 1] if used > at + 1 and len(line) <= _FENCE_CHARS_MAX else 0
        return self.add("code", at, used, cuts=self.gaps(at, end), header_end=header_end)

    def used(self, at: int, end: int) -> int:
        """`end` without the blank lines before it (an unclosed fence runs to the end of the text)."""
        while end - 1 > at and not self.lines[end - 1].strip(" \t"):
            end -= 1
        return end

    def gaps(self, at: int, end: int) -> tuple[int, ...]:
        """Starts of lines that follow a blank line: where code may be divided."""
        lines, starts = self.lines, self.starts
        if "" not in lines[at:end] and not any(line.isspace() for line in lines[at:end]):
            return ()
        return tuple(starts[i] for i in range(at + 2, end) if lines[i].strip() and not lines[i - 1].strip())

    def html(self, at: int, line: str) -> int:
        """An HTML block, or `at` itself when the line starts none."""
        for start, stop in _HTML:
            if start.match(line):
                return self.html_until(at, stop)
        return self.html_until(at, None) if _HTML_ANY.match(line) else at

    def html_until(self, at: int, stop: re.Pattern[str] | None) -> int:
        end = at
        while end < len(self.lines):
            line = self.lines[end]
            if stop is None and not line.strip(" \t"):
                break
            end += 1
            if stop is not None and stop.search(line):
                break
        return self.add("html", at, self.used(at, end))

    def quote(self, at: int) -> int:
        leaf, end = _Leaf(), at
        while end < len(self.lines):
            line = self.lines[end]
            if match := _QUOTE.match(line):
                leaf.feed(line[match.end() :])
            elif not (leaf.paragraph and line.strip(" \t") and _is_lazy(line)):
                break
            end += 1
        return self.add("quote", at, end)

    def list(self, at: int, item: re.Match[str]) -> int:
        mark = item.group(2)[-1]
        leaf, content = _item(self.lines[at], item)
        items: list[tuple[int, int]] = []
        end, last = at + 1, at + 1
        while end < len(self.lines):
            line = self.lines[end]
            if not line.strip(" \t"):
                if last == end and content < 0:
                    content = 1 << 20  # an item that starts with a blank line ends at a second one
                leaf.feed("")
                end += 1
                continue
            if _columns(line) >= abs(content):
                content = abs(content)
                if not leaf.fence and _NESTED_ITEM.match(line):
                    items.append((self.starts[end], min(1 + (_columns(line) - content) // 2, _DEPTH_MAX)))
                leaf.feed((line.expandtabs(_INDENT) if "\t" in line else line)[content:])
            elif (match := _ITEM.match(line)) and match.group(2)[-1] == mark and not _RULE.match(line):
                items.append((self.starts[end], 0))
                leaf, content = _item(line, match)
            elif not (leaf.paragraph and _is_lazy(line)):
                break
            end += 1
            last = end
        depths = tuple(depth for _, depth in items) if any(depth for _, depth in items) else ()
        return self.add("list", at, last, cuts=tuple(start for start, _ in items), depths=depths)
