"""Memo values as they are stored: one tag byte, then the value as it is or compressed, whichever is shorter."""

from __future__ import annotations

import zlib
from typing import Final

from pipeline.errors import Corruption

_RAW: Final = b"\x00"
_ZLIB: Final = b"\x01"
_COMPRESS_BYTES_MIN: Final = 128
_SAMPLE_BYTES: Final = 256
_CONTROL: Final = bytes(set(range(32)) - set(b"\t\n\r")) + b"\x7f"


def packed(value: bytes) -> bytes:
    """A value to store."""
    sample = value[:_SAMPLE_BYTES]
    # Vectors don't shrink and are the bulk of what is stored: control bytes tell them from text at no cost.
    if len(value) >= _COMPRESS_BYTES_MIN and len(sample.translate(None, _CONTROL)) == len(sample):
        shorter = zlib.compress(value, 1)
        if len(shorter) < len(value):
            return _ZLIB + shorter
    return _RAW + value


def unpacked(stored: bytes, key: str, place: str) -> bytes:
    """The value that was stored.

    Raises:
        Corruption: it is damaged.
    """
    if stored[:1] == _RAW:
        return stored[1:]
    try:
        return zlib.decompress(memoryview(stored)[1:])
    except zlib.error as error:
        raise Corruption(
            "memo_corrupt", f"{place}: the value of {key} is damaged", remedy="Delete the memo: it is only a cache."
        ) from error
