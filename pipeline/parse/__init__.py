"""Bytes to `ParsedDocument`: one file per format, one table, no I/O.

`parse_bytes` is the entry: detect, parse by table, check. Formats share `decode.py` for text and `markdown_blocks.py`
for block structure. Runs inside the child process of `adapters/parser_sandbox.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from pipeline.errors import RejectedInput
from pipeline.parse import code, csv, html, json_records, markdown, notebook, pdf, text
from pipeline.parse.detect import detect
from pipeline.parse.languages import GRAMMARS
from pipeline.parse.mail import message
from pipeline.parse.office import docx, pptx, xlsx
from pipeline.types import ParsedDocument

VERSION = 2
"""Raised whenever any parser's output changes; enters every parse fingerprint."""

ParseFunction = Callable[[bytes, str], ParsedDocument]

PARSERS: dict[str, ParseFunction] = {
    "markdown": markdown.parse,
    "text": text.parse,
    "html": html.parse,
    "csv": csv.parse,
    "code": code.parse,
    "notebook": notebook.parse,
    "pdf": pdf.parse,
    "docx": docx.parse,
    "pptx": pptx.parse,
    "xlsx": xlsx.parse,
    "json": json_records.parse,
    "eml": lambda data, name: message.parse(data, name, parse_bytes),
}

_LIBRARIES = (
    "charset-normalizer",
    "langchain-text-splitters",
    "liteparse",
    "pypdfium2",
    "tree-sitter",
    *sorted({module.replace("_", "-") for module, _ in GRAMMARS.values()}),
)
"""Format libraries whose version can change a document."""

__all__ = ["PARSERS", "VERSION", "ParseFunction", "detect", "identity", "parse_bytes"]

_BLANKS = b" \t\r\n\x0b\x0c\x00"


def parse_bytes(data: bytes, name: str) -> ParsedDocument:
    """Parse one source. Pure: the same bytes and name give the same document.

    Args:
        data: the source's bytes, whole.
        name: file name, a hint for the format.

    Raises:
        RejectedInput: `empty_file`, `unsupported`, `undecodable`, `no_text`, or a format's own code.
    """
    if not data.removeprefix(b"\xef\xbb\xbf").strip(_BLANKS):
        raise RejectedInput("empty_file", f"{name} holds nothing but white space" if data else f"{name} has 0 bytes")
    document = PARSERS[detect(data, name)](data, name)
    if not document.text.strip() and not document.header.strip() and not document.parts:
        raise RejectedInput("empty_file", f"{name} holds no text once markup, comments and metadata are taken away")
    return document


def identity() -> str:
    """Name and version of this parser set, format libraries included; part of the recipe."""
    return " ".join([f"local-parsers@{VERSION}", *(f"{library}@{version(library)}" for library in _LIBRARIES)])
