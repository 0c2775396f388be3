"""A parsed document as bytes and back, for a process that isn't trusted: JSON and text, checked on arrival.

Layout: 4 bytes with the length of the JSON (big-endian), the JSON, the text as UTF-8.
"""

from __future__ import annotations

import json
import math
import struct
from itertools import pairwise
from typing import Any, get_args

from pipeline.types import Block, BlockKind, MetadataValue, ParsedDocument

_KINDS = frozenset(get_args(BlockKind))
_LENGTH = struct.Struct(">I")


def encode(document: ParsedDocument) -> bytes:
    """The bytes that `decode` reads."""
    fields = {
        "kind": document.kind,
        "title": document.title,
        "blocks": [[b.kind, b.start, b.end, b.level, b.title, b.cuts, b.header_end] for b in document.blocks],
        "page_starts": document.page_starts,
        "metadata": document.metadata,
        "language": document.language,
        "header": document.header,
        "warnings": document.warnings,
    }
    head = json.dumps(fields, separators=(",", ":")).encode("ascii")
    return b"".join((_LENGTH.pack(len(head)), head, document.text.encode("utf-8")))


def decode(data: bytes) -> ParsedDocument:
    """The document, every field checked for type and range. Linear time.

    Raises:
        ValueError: the bytes aren't what `encode` makes of a valid document.
    """
    try:
        (size,) = _LENGTH.unpack_from(data)
        fields = json.loads(data[_LENGTH.size : _LENGTH.size + size])
        text = data[_LENGTH.size + size :].decode("utf-8")
        return ParsedDocument(
            kind=_string(fields["kind"]),
            text=text,
            title=_string(fields["title"]),
            blocks=_blocks(fields["blocks"], len(text)),
            page_starts=_rising(fields["page_starts"], 0, len(text)),
            metadata=tuple((_string(key), _value(value)) for key, value in fields["metadata"]),
            language=_string(fields["language"]),
            header=_string(fields["header"]),
            warnings=tuple(_string(warning) for warning in fields["warnings"]),
        )
    except (KeyError, TypeError, struct.error, RecursionError) as error:
        raise ValueError(f"not a document: {error}") from error


def _blocks(rows: list[list[Any]], length: int) -> tuple[Block, ...]:
    blocks = []
    at = 0
    # One compound test a row: a document has hundreds of blocks, and calls would cost more than what they check.
    for kind, start, end, level, title, cuts, header in rows:
        if not (type(start) is type(end) is type(level) is type(header) is int and kind in _KINDS):
            raise TypeError("a block has a field of the wrong type")
        if not at <= start <= end <= length or (header and not start < header <= end):
            raise ValueError("a block is out of place")
        inner = _rising(cuts, start, end) if cuts else ()
        blocks.append(Block(kind, start, end, level, _string(title) if title else "", inner, header))
        at = end
    return tuple(blocks)


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
