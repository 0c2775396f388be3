"""Source code: Python by its syntax tree, other languages at blank lines before lines that aren't indented."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from pipeline.parse.decode import decode
from pipeline.parse.detect import language
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, ParsedDocument

if TYPE_CHECKING:
    from tree_sitter import Node

_DEFINITIONS = frozenset(("function_definition", "class_definition", "decorated_definition"))
_CLOSER = re.compile(r"[ \t]*(?:[)\]}]|end\b|fi\b|done\b|esac\b|</)")
NESTING_MAX = 20
"""Classes in classes that are looked into for cuts."""


def parse(data: bytes, name: str) -> ParsedDocument:
    """Code as blocks: `definition` for functions and classes, `code` for what stands between them."""
    text, warnings = decode(data)
    text = without_payloads(text)
    spoken = language(data, name)
    blocks = _python(text) if spoken == "python" else _plain(text)
    return ParsedDocument(kind="code", text=text, blocks=blocks, language=spoken, warnings=warnings)


def _python(text: str) -> tuple[Block, ...]:
    import tree_sitter_python  # noqa: PLC0415 - native code that only Python sources need
    from tree_sitter import Language, Parser  # noqa: PLC0415

    root = Parser(Language(tree_sitter_python.language())).parse(text.encode("utf-8")).root_node
    places = _Places(text)
    starts: list[tuple[int, str, tuple[int, ...]]] = []
    covered = -1
    """Last line of the nodes so far."""
    for node in root.children:
        first, last = node.start_point[0], node.end_point[0]
        if first > covered:
            if node.type in _DEFINITIONS:
                lead = places.above(first)
                # A comment right above a definition was taken for a block of its own; it goes with the definition.
                while starts and starts[-1][0] >= places.line_starts[lead]:
                    starts.pop()
                starts.append((places.line_starts[lead], _name(node), _members(node, places)))
            elif first > covered + 1 or not starts or starts[-1][1]:
                starts.append((places.line_starts[first], "", ()))
        covered = max(covered, last if node.end_point[1] else last - 1)
    return _closed(starts, text)


def _closed(starts: list[tuple[int, str, tuple[int, ...]]], text: str) -> tuple[Block, ...]:
    """Blocks that end where the next one starts, so that nothing is left out between them."""
    blocks = []
    begin = len(text) - len(text.lstrip("\n"))
    for i, (start, title, cuts) in enumerate(starts):
        end = starts[i + 1][0] if i + 1 < len(starts) else len(text)
        first = min(start, begin) if i == 0 else start
        blocks.append(Block("definition" if title else "code", first, end, 0, title, cuts))
    if not blocks and text.strip():
        return (Block("code", 0, len(text)),)
    return tuple(blocks)


class _Places:
    """Lines of the text.

    The tree's rows are these lines: both count nothing but a line feed as a line end, so that byte columns are never
    needed and characters of several bytes shift nothing.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.line_starts = [0, *accumulate(len(line) + 1 for line in self.lines)]

    def above(self, line: int) -> int:
        """The first of the comment lines that stand directly above `line`."""
        while line > 0 and self.lines[line - 1].lstrip().startswith("#"):
            line -= 1
        return line


def _inner(node: Node) -> Node:
    """The definition under its decorators."""
    return (node.child_by_field_name("definition") or node) if node.type == "decorated_definition" else node


def _name(node: Node) -> str:
    name = _inner(node).child_by_field_name("name")
    return (name.text or b"").decode("utf-8", "replace") if name is not None else "definition"


def _members(node: Node, places: _Places) -> tuple[int, ...]:
    """Where a definition may be cut: at a class's members (theirs too), at blank lines of a function."""
    inner = _inner(node)
    if inner.type != "class_definition":
        return _gaps(places, node.start_point[0], node.end_point[0])
    found: list[int] = []
    level = [inner]
    for _ in range(NESTING_MAX):
        members = [
            m for one in level for m in (one.child_by_field_name("body") or one).children if m.type in _DEFINITIONS
        ]
        found += [places.line_starts[places.above(m.start_point[0])] for m in members]
        level = [_inner(m) for m in members if _inner(m).type == "class_definition"]
        if not level:
            break
    return tuple(sorted(set(found)))


def _gaps(places: _Places, first: int, last: int) -> tuple[int, ...]:
    lines = places.lines
    return tuple(
        places.line_starts[i] for i in range(first + 2, last + 1) if lines[i].strip() and not lines[i - 1].strip()
    )


def _plain(text: str) -> tuple[Block, ...]:
    """Blocks that start at unindented lines after a blank line, closing brackets apart; cuts at other blank lines."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    heads = [
        i
        for i, line in enumerate(lines)
        if line.strip() and (i == 0 or not lines[i - 1].strip()) and line[0] not in " \t" and not _CLOSER.match(line)
    ]
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    heads = heads if heads and heads[0] <= first else [first, *heads]
    blocks = []
    for head, following in zip(heads, [*heads[1:], len(lines)], strict=True):
        cuts = [starts[i] for i in range(head + 2, following) if lines[i].strip() and not lines[i - 1].strip()]
        blocks.append(Block("code", starts[head], min(starts[following], len(text)), cuts=tuple(cuts)))
    return tuple(blocks)
