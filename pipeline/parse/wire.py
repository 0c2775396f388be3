"""A parsed document as bytes and back, for a process that isn't trusted: JSON and text, checked on arrival.

Layout: 4 bytes with the length of the JSON (big-endian), the JSON (the document, then its parts, each with the length
of its text in bytes), the texts as UTF-8 in the same order.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import Any, get_args

from pipeline.types import Block, BlockKind, MetadataValue, ParsedDocument, Part, Symbol

_KINDS = frozenset(get_args(BlockKind))
DEPTHS = 32
"""Depths of cuts that are told apart at most; whoever reads them may recurse."""
_LENGTH = struct.Struct(">I")


def encode(document: ParsedDocument) -> bytes:
    """The bytes that `decode` reads."""
    named = [("", document), *((part.name, part.document) for part in document.parts)]
    texts = [one.text.encode("utf-8") for _, one in named]
    fields = [_fields(name, one, len(text)) for (name, one), text in zip(named, texts, strict=True)]
    head = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return b"".join((_LENGTH.pack(len(head)), head, *texts))


def _fields(name: str, document: ParsedDocument, size: int) -> dict[str, object]:
    return {
        "name": name,
        "size": size,
        "kind": document.kind,
        "title": document.title,
        "blocks": [[b.kind, b.start, b.end, b.level, b.title, b.cuts, b.header_end, b.depths] for b in document.blocks],
        "page_starts": document.page_starts,
        "metadata": document.metadata,
        "language": document.language,
        "header": document.header,
        "symbols": [[s.start, s.end, s.name] for s in document.symbols],
        "warnings": document.warnings,
    }


def decode(data: bytes) -> ParsedDocument:
    """The document, every field checked for type and range. Linear time.

    Raises:
        ValueError: the bytes aren't what `encode` makes of a valid document.
    """
    try:
        (size,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + size
        first, *rest = json.loads(data[_LENGTH.size : at])
        parts = []
        text, at = _text(data, at, first)
        for fields in rest:
            inner, at = _text(data, at, fields)
            parts.append(Part(_string(fields["name"]), _document(fields, inner, ())))
        if at != len(data):
            raise ValueError("bytes are left over")
        return _document(first, text, tuple(parts))
    except (KeyError, TypeError, struct.error, RecursionError) as error:
        raise ValueError(f"not a document: {error}") from error


def _text(data: bytes, at: int, fields: dict[str, Any]) -> tuple[str, int]:
    size = fields["size"]
    if type(size) is not int or not 0 <= size <= len(data) - at:
        raise ValueError("a text is longer than what was sent")
    return data[at : at + size].decode("utf-8"), at + size


def _document(fields: dict[str, Any], text: str, parts: tuple[Part, ...]) -> ParsedDocument:
    return ParsedDocument(
        kind=_string(fields["kind"]),
        text=text,
        title=_string(fields["title"]),
        blocks=_blocks(fields["blocks"], len(text)),
        page_starts=_rising(fields["page_starts"], 0, len(text)),
        metadata=tuple((_string(key), _value(value)) for key, value in fields["metadata"]),
        language=_string(fields["language"]),
        header=_string(fields["header"]),
        symbols=_symbols(fields["symbols"], len(text)),
        warnings=tuple(_string(warning) for warning in fields["warnings"]),
        parts=parts,
    )


def _blocks(rows: list[list[Any]], length: int) -> tuple[Block, ...]:
    blocks = []
    at = 0
    # One compound test a row: a document has hundreds of blocks, and calls would cost more than what they check.
    for kind, start, end, level, title, cuts, header, depths in rows:
        if not (type(start) is type(end) is type(level) is type(header) is int and kind in _KINDS):
            raise TypeError("a block has a field of the wrong type")
        if not at <= start <= end <= length or (header and not start < header <= end):
            raise ValueError("a block is out of place")
        inner = _rising(cuts, start, end) if cuts else ()
        deep = tuple(depths)
        if deep and (len(deep) != len(inner) or any(type(d) is not int or not 0 <= d < DEPTHS for d in deep)):
            raise ValueError("depths don't belong to cuts")
        blocks.append(Block(kind, start, end, level, _string(title) if title else "", inner, header, deep))
        at = end
    return tuple(blocks)


def _symbols(rows: list[list[Any]], length: int) -> tuple[Symbol, ...]:
    symbols: list[Symbol] = []
    around: list[int] = []
    at = 0
    for start, end, name in rows:
        if type(start) is not int or type(end) is not int:
            raise TypeError("an offset is an integer")
        while around and around[-1] <= start:
            around.pop()
        if not at <= start < end <= (around[-1] if around else length):
            raise ValueError("a symbol is out of place")
        around.append(end)
        symbols.append(Symbol(start, end, _string(name)))
        at = start
    return tuple(symbols)


def _rising(values: object, low: int, high: int) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TypeError("offsets are a list")
    if any(type(value) is not int for value in values):
        raise TypeError("an offset is an integer")
    found = tuple(values)
    if found and (found[0] < low or found[-1] > high or any(b < a for a, b in pairwise(found))):
        raise ValueError("offsets don't rise")
    return found


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string was expected")
    if not value.isascii():
        value.encode("utf-8")  # UnicodeEncodeError, a ValueError, for lone surrogates
    return value


def _value(value: object) -> MetadataValue:
    if isinstance(value, list):
        return tuple(_string(part) for part in value)
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("metadata numbers are finite")
        return value
    return _string(value)
