"""Source code: cut by its syntax tree where a grammar knows its language, else by separators, else by its lines."""

from __future__ import annotations

import re

from pipeline.parse import code_lines, code_tree
from pipeline.parse.decode import decode
from pipeline.parse.languages import GRAMMARS, language
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import ParsedDocument

_DECLARED = re.compile(rb"(?:encoding\s*=\s*[\"']|coding[:=]\s*)([\w.-]{2,40})")
"""The encoding that XML, or a comment at the start of Python, Ruby and others, names."""
_DECLARED_BYTES = 200


def parse(data: bytes, name: str) -> ParsedDocument:
    """Code as it stands, with the places where it may be cut and the symbols that it defines."""
    declared = _DECLARED.search(data[:_DECLARED_BYTES])
    text, warnings = decode(data, declared.group(1).decode("ascii", "ignore") if declared else "")
    text = without_payloads(text)
    spoken = language(data, name)
    if spoken in GRAMMARS:
        blocks, symbols = code_tree.blocks_and_symbols(text, spoken)
    else:
        blocks, symbols = code_lines.blocks(text, spoken), ()
    return ParsedDocument(kind="code", text=text, blocks=blocks, language=spoken, symbols=symbols, warnings=warnings)
