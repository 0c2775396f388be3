"""A parsed document as bytes and back, for a process that isn't trusted: JSON and text, checked on arrival.

Layout: 4 bytes with the length of the JSON (big-endian), the JSON, the text as UTF-8.
"""

from __future__ import annotations

import json
import math
import struct
from typing import get_args

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


def _blocks(rows: list[list[object]], length: int) -> tuple[Block, ...]:
    blocks = []
    at = 0
    for kind, start, end, level, title, cuts, header_end in rows:
        if kind not in _KINDS or not at <= _integer(start) <= _integer(end) <= length:
            raise ValueError("a block is out of place")
        at = _integer(end)
        header = _integer(header_end)
        if header and not _integer(start) < header <= at:
            raise ValueError("a header is out of place")
        inner = _rising(cuts, _integer(start), at) if cuts else ()
        blocks.append(Block(kind, _integer(start), at, _integer(level), _string(title), inner, header))  # type: ignore[arg-type]
    return tuple(blocks)


def _rising(values: object, low: int, high: int) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TypeError("offsets are a list")
    found = tuple(_integer(value) for value in values)
    if any(b < a for a, b in zip((low, *found), (*found, high), strict=True)):
        raise ValueError("offsets don't rise")
    return found


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError("an offset is an integer")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string was expected")
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
