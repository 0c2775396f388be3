"""What must hold of every source, however broken: the judge behind the property tests and the fuzzers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import regex

from pipeline import tokens
from pipeline.chunk import CHUNKERS, ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes, wire
from pipeline.parse.tables import tables
from pipeline.types import ParsedDocument

EXTENSIONS = (
    "md", "markdown", "txt", "html", "htm", "csv", "tsv", "json", "jsonl", "ipynb", "eml", "mht", "pdf", "docx", "pptx",
    "xlsx", "py", "js", "ts", "tsx", "go", "rs", "java", "c", "cpp", "cs", "rb", "php", "sh", "sql", "lua", "kt",
    "swift", "scala", "css", "yaml", "toml", "xml", "vue", "tf", "ex", "sol", "ps1", "rst", "",
)  # fmt: skip
STRATEGIES = tuple(CHUNKERS)
CODES = re.compile(r"[a-z]+(_[a-z]+)*")
TORN_MAX_CHARS = 20_000
"""Texts up to this long have every chunk border compared with every grapheme border."""


def judge(data: bytes, name: str, strategy: str, options: ChunkOptions) -> str:
    """Parse and chunk one source and check everything that must hold. `ok`, or the code of the refusal."""
    try:
        document = parse_bytes(data, name)
    except RejectedInput as error:
        refused = error
    else:
        return _judge_document(document, strategy, options)
    assert CODES.fullmatch(refused.code), refused.code
    assert refused.message.strip(), "a refusal says why"
    refused.message.encode("utf-8")
    return refused.code


def _judge_document(document: ParsedDocument, strategy: str, options: ChunkOptions) -> str:
    assert wire.decode(wire.encode(document)) == document, "it crosses the process border unchanged"
    for one in (document, *(part.document for part in document.parts)):
        check_document(one)
        check_chunks(one, strategy, options)
    names = [part.name for part in document.parts]
    assert len(set(names)) == len(names), "parts have names of their own"
    assert not any(part.document.parts for part in document.parts), "parts hold no parts"
    return "ok"


def check_document(document: ParsedDocument) -> None:
    """Text is clean, blocks cover it in order, metadata is flat."""
    text = document.text
    for string in strings(document):
        string.encode("utf-8")
    assert "\r" not in text, "line feeds are the only line ends"
    assert "\0" not in text, "no NUL"
    assert document.kind == "csv" or not text.startswith("\ufeff"), "no byte order mark"
    at = 0
    for block in document.blocks:
        assert at <= block.start <= block.end <= len(text), "blocks stand in order"
        assert not text[at : block.start].strip(), "nothing stands between blocks"
        assert all(block.start < cut < block.end for cut in block.cuts), "cuts stand inside"
        at = block.end
    assert not text[at:].strip(), "nothing stands after the last block"
    keys = [key for key, _ in document.metadata]
    assert len(set(keys)) == len(keys), "each field once"
    for key, value in document.metadata:
        assert key, "fields have names"
        assert isinstance(value, (str, int, float, bool, tuple)), "metadata is flat"
        assert not isinstance(value, float) or math.isfinite(value), "numbers are finite"
        assert not isinstance(value, int) or abs(value) <= 2**53, "integers are exact"
        assert not isinstance(value, tuple) or all(isinstance(one, str) for one in value), "lists hold strings"
    assert all(warning.strip() for warning in document.warnings), "warnings say something"
    for table in tables(document):
        list(table.records())


def check_chunks(document: ParsedDocument, strategy: str, options: ChunkOptions) -> None:
    """Spans are exact, everything is covered, nothing is over budget or torn, and starts rise."""
    text = document.text
    found = chunk_document(document, strategy, options)
    borders = {m.start() for m in regex.finditer(r"\X", text)} | {len(text)} if len(text) <= TORN_MAX_CHARS else None
    at, last = 0, -1
    for chunk in found:
        assert text[chunk.start : chunk.end] == chunk.text, "spans are exact"
        assert chunk.start > last, "starts rise"
        assert not text[at : chunk.start].strip(), "everything is covered"
        assert chunk.tokens == tokens.count(chunk.prefix + chunk.text), "counts are exact"
        assert chunk.tokens <= options.target_size or chunk.oversize, "nothing is over budget"
        assert borders is None or {chunk.start, chunk.end} <= borders, "no grapheme is torn"
        assert chunk.text.strip(), "no chunk is blank"
        at, last = max(at, chunk.end), chunk.start
    assert not text[at:].strip(), "everything is covered to the end"


def strings(document: ParsedDocument) -> Iterator[str]:
    """Every string that a document holds."""
    yield from (document.kind, document.text, document.title, document.language, document.header, *document.warnings)
    yield from (block.title for block in document.blocks)
    yield from (symbol.name for symbol in document.symbols)
    for key, value in document.metadata:
        yield key
        yield from (value if isinstance(value, tuple) else [value] if isinstance(value, str) else [])
