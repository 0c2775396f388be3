"""Code with a grammar: where its syntax tree allows a cut, how deep each cut lies, and what the code defines.

One rule serves all grammars: a node that begins its line is an item, and a cut may stand before it. What stands right
above an item and speaks about it (comments, decorators, attributes) goes with it. A definition's first line is never
cut from what follows it directly (its documentation, a function's first statement). Items after a blank line, and
definitions, are better places than others at the same level. Grammars are asked only for names.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from pipeline.parse.languages import GRAMMARS
from pipeline.parse.lines import Lines
from pipeline.types import Block, Symbol

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEPTH_MAX = 31
"""Deeper cuts are told apart no further."""
NAME_CHARS_MAX = 120

_DEFINITIONS = frozenset(
    (
        "function_definition", "class_definition", "function_declaration", "generator_function_declaration",
        "method_definition", "class_declaration", "abstract_class_declaration", "interface_declaration",
        "enum_declaration", "internal_module", "type_alias_declaration", "variable_declarator",
        "public_field_definition", "method_declaration", "type_spec", "struct_item", "enum_item", "union_item",
        "trait_item", "impl_item", "mod_item", "function_item", "macro_definition", "constructor_declaration",
        "record_declaration", "annotation_type_declaration", "struct_specifier", "class_specifier", "enum_specifier",
        "union_specifier", "namespace_definition", "type_definition", "namespace_declaration", "struct_declaration",
        "property_declaration", "delegate_declaration", "operator_declaration", "module", "class", "method",
        "singleton_method", "trait_declaration", "create_table", "create_function", "create_view", "create_trigger",
        "create_materialized_view", "create_procedure", "rule_set", "table", "table_array_element",
        "object_declaration", "protocol_declaration", "object_definition", "trait_definition", "enum_definition",
        "concept_definition", "init_declaration",
    )
)  # fmt: skip
_ENTRIES = frozenset(("block_mapping_pair", "pair", "block"))
"""Entries of data. They have names, but no place between two of them is better than another."""
_WRAPS = frozenset(
    (
        "decorated_definition", "export_statement", "template_declaration", "statement", "ambient_declaration",
        "lexical_declaration", "variable_declaration", "type_declaration", "expression_statement", "linkage_specification",
    )
)  # fmt: skip
"""Nodes around a definition that is what they are about."""
_TRANSPARENT = frozenset(
    (
        "body_statement", "statement_list", "statements", "function_body", "block_node", "block_mapping",
        "block_sequence", "body", "template_body", "content", "class_body", "declaration_list", "document", "indented_block", "block",
    )
)  # fmt: skip
"""Nodes that only hold items; where one begins a line, its first item does."""
_ITEMS_IN = {"hcl": frozenset(("block",)), "yaml": frozenset(("document",))}
"""Those that are items in one language: HCL's blocks have names, and YAML keeps several documents in one file."""
_CONTINUES = frozenset(
    (
        "else_clause", "elif_clause", "except_clause", "except_group_clause", "finally_clause", "catch_clause",
        "else", "elsif", "rescue", "ensure", "then", "from", "end_tag", "ETag", "else_if_clause", "where", "base_clause",
        "where_clause", "heredoc_body", "heredoc_end", "block_end",
    )
)  # fmt: skip
"""Nodes that go on with what stands before them."""
_LEADS = frozenset(
    (
        "decorator",
        "attribute_item",
        "attribute_list",
        "annotation",
        "marker_annotation",
        "modifiers",
        "access_specifier",
        "preproc_region",
    )
)
_OPAQUE = re.compile("comment|parameter|string|heredoc|char_data|CharData|raw_text|regex|text", re.IGNORECASE)
"""Nodes in which no place is better than another."""
_LINKAGE = re.compile(
    r"""^([ \t]*\#[ \t]*if(?:def[ \t]+|[ \t]+defined[ \t]*\(?[ \t]*)__cplusplus\b[^\n]*\n\s*)"""
    r"""(extern[ \t]+"C(?:\+\+)?"[ \t]*\{|\})(?=[^\n]{0,200}\n(?:[ \t]*\n){0,9}[ \t]*\#[ \t]*endif\b)""",
    re.MULTILINE,
)
"""The brackets that headers put around their declarations for C++ alone, each between conditions of its own."""
_ROW = re.compile(r"""'(?:[^'\\]|\\.|'')*+\\?(?:'|\Z)|(\)[ \t]*,[ \t]*)\(""")
"""A string, or in group 1 what stands between two rows of values."""
_ROWS_CHARS_MIN = 200
_NAME_CHILDREN = ("object_reference", "dotted_key", "bare_key", "quoted_key", "selectors")
_IN_DECLARATOR = ("declarator", "name")


def blocks_and_symbols(text: str, language: str) -> tuple[tuple[Block, ...], tuple[Symbol, ...]]:
    """One block over the whole text with every cut, and what the code defines. Broken code gets what its tree has."""
    lines = Lines(text)
    walk = _Walk(lines, transparent=_TRANSPARENT - _ITEMS_IN.get(language, frozenset()))
    walk.run(_parser(language).parse(_readable(text, language).encode("utf-8")).root_node)
    if language == "sql":
        walk.cuts.update((at, DEPTH_MAX) for at in _rows(text) if at not in walk.cuts)
    cuts = sorted(walk.cuts.items())
    block = Block("code", 0, len(text), cuts=tuple(at for at, _ in cuts), depths=tuple(depth for _, depth in cuts))
    return (block,), tuple(_nested(sorted(walk.symbols, key=lambda s: (s.start, -s.end))))


def _readable(text: str, language: str) -> str:
    """The text without what keeps a grammar from seeing the structure, every character in its place."""
    if language not in {"c", "cpp"} or "__cplusplus" not in text:
        return text
    # To a grammar the bracket that one condition opens is never closed by the one in another.
    return _LINKAGE.sub(lambda match: match.group(1) + " " * len(match.group(2)), text)


def _rows(text: str) -> Iterator[int]:
    """Starts of rows inside long lines: dumps write a table's content as one statement on one line."""
    at = 0
    for line in text.split("\n"):
        if len(line) >= _ROWS_CHARS_MIN:
            yield from (at + match.end() - 1 for match in _ROW.finditer(line) if match.group(1))
        at += len(line) + 1


@cache
def _parser(language: str) -> Parser:
    from tree_sitter import Language, Parser  # noqa: PLC0415 - native code that only sources in these languages need

    module, function = GRAMMARS[language]
    return Parser(Language(getattr(importlib.import_module(module), function)()))


class _Walk:
    """One pass over a tree; only nodes of several lines are entered."""

    def __init__(self, lines: Lines, transparent: frozenset[str]) -> None:
        self.lines = lines
        self.transparent = transparent
        self.cuts: dict[int, int] = {}
        self.symbols: list[Symbol] = []
        self.waiting: list[tuple[Node, int, int]] = []
        """Nodes to enter, the level of their items, and the line of the item that each is the gist of; -1 for none."""

    def run(self, root: Node) -> None:
        self.waiting.append((root, 0, -1))
        while self.waiting:
            node, level, line = self.waiting.pop()
            if (node.type in _DEFINITIONS or node.type in _ENTRIES) and node.parent is not None:
                name = _name(node)
                if name:
                    self.define(name, node, line)
                    line = -1
            self.items(node, level, line)

    def define(self, name: str, node: Node, line: int) -> None:
        start = self.lines.starts[line if line >= 0 else node.start_point[0]]
        end = self.lines.end(node.end_point[0], node.end_point[1])
        if start < end:
            self.symbols.append(Symbol(start, end, name))

    def items(self, node: Node, level: int, line: int) -> None:
        """Cuts before the items among a node's children."""
        first = node.parent is not None
        leads = _Leads(self.lines)
        for child in self.children(node):
            row = child.start_point[0]
            if _is_lead(child):
                if self.begins_line(child):
                    self.alone(leads.add(row, child.end_point), level, first=first)
                continue
            if not child.is_named:
                continue
            above = leads.take(row)
            if node.type in _WRAPS or not self.is_item(child, node):
                self.enter(child, level, line)
                continue
            if above.alone >= 0:
                self.alone(above.alone, level, first=first)
                first = False
            whole = _gist(child) in _DEFINITIONS
            if not first or whole:
                self.cut(above.line, 2 * level + (not whole and not self.lines.follows_blank(above.line)))
            first = False
            self.enter(child, level + 1, above.line)

    def is_item(self, child: Node, node: Node) -> bool:
        """Whether a child begins a line of its own and starts something."""
        here = node.parent is not None and child.start_point[0] == node.start_point[0]
        return not here and child.type not in _CONTINUES and self.begins_line(child)

    def alone(self, row: int, level: int, *, first: bool) -> None:
        """A comment about nothing in particular, as an item of its own."""
        if row >= 0 and not first:
            self.cut(row, 2 * level + (not self.lines.follows_blank(row)))

    def enter(self, node: Node, level: int, line: int) -> None:
        if node.end_point[0] > node.start_point[0] and not _OPAQUE.search(node.type):
            self.waiting.append((node, level, line))

    def cut(self, row: int, depth: int) -> None:
        at = self.lines.starts[row]
        if 0 < at < self.lines.starts[-1]:  # a tree may put an empty node behind the last line
            self.cuts[at] = min(depth, DEPTH_MAX, self.cuts.get(at, DEPTH_MAX))

    def children(self, node: Node) -> Iterator[Node]:
        """Children in order, those of nodes that only hold items in their place."""
        waiting = node.children[::-1]
        while waiting:
            child = waiting.pop()
            if child.type in self.transparent and child.is_named and child.end_point[0] > child.start_point[0]:
                waiting += child.children[::-1]
            else:
                yield child

    def begins_line(self, node: Node) -> bool:
        return node.start_point[1] == self.lines.indent(node.start_point[0])


class _Above:
    """What stands above an item."""

    __slots__ = ("alone", "line")

    def __init__(self, line: int, alone: int) -> None:
        self.line = line
        """First line of the item, with what speaks about it."""
        self.alone = alone
        """First line of comments that don't; -1 for none."""


class _Leads:
    """Comments, decorators and attributes since the last item."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.first = -1
        self.end = -1
        """The line after the last of them."""

    def add(self, row: int, end: tuple[int, int]) -> int:
        """Take one more; the first line of an earlier run that it doesn't continue, or -1."""
        apart = self.first if self.first >= 0 and row > self.end else -1
        if apart >= 0 or self.first < 0:
            self.first = row
        self.end = end[0] + (1 if end[1] else 0)
        return apart

    def take(self, row: int) -> _Above:
        first, adjacent = self.first, self.first >= 0 and self.end >= row
        self.first = self.end = -1
        return _Above(first if adjacent else row, -1 if adjacent else first)


def _is_lead(node: Node) -> bool:
    return node.type in _LEADS or "omment" in node.type


def _gist(node: Node) -> str:
    """Type of what an item is about, under decorators, exports and the like."""
    for _ in range(4):
        if node.type not in _WRAPS or not node.named_child_count:
            break
        node = node.named_children[-1]
    return node.type


def _name(node: Node) -> str:
    """The name that a definition gives; empty if it gives none."""
    if node.type == "impl_item":
        return _text(node.child_by_field_name("type"))
    if node.type == "block" and node.named_child_count and node.named_children[0].type == "identifier":
        return _text(node).partition("{")[0].strip()  # a block of HCL: its kind and labels
    if node.type == "block":
        return ""
    found = node.child_by_field_name("name") or node.child_by_field_name("key") or _declared(node)
    if found is None:
        found = next((child for child in node.named_children if child.type in _NAME_CHILDREN), None)
    return _text(found)


def _declared(node: Node) -> Node | None:
    """The name inside C's declarators: `static int *f(int a)` declares f."""
    found = node.child_by_field_name("declarator")
    while found is not None:
        inner = next((one for field in _IN_DECLARATOR if (one := found.child_by_field_name(field)) is not None), None)
        if inner is None or found.type == "qualified_identifier":
            break
        found = inner
    return found


def _text(node: Node | None) -> str:
    raw = (node.text or b"")[: 4 * NAME_CHARS_MAX].decode("utf-8", "ignore") if node is not None else ""
    return " ".join(raw.split())[:NAME_CHARS_MAX].strip("\"'`")


def _nested(symbols: Iterable[Symbol]) -> Iterator[Symbol]:
    """Symbols by start, outer first, those that would cross another (they share a line with it) made to follow it."""
    around: list[int] = []
    for symbol in symbols:
        start = symbol.start
        while around and (around[-1] <= start or around[-1] < symbol.end):
            start = max(start, around.pop())
        if start < symbol.end:
            around.append(symbol.end)
            yield Symbol(start, symbol.end, symbol.name)
