"""Bytes to text: marks, UTF-16, legacy encodings, newlines and NULs. Formats never decode by themselves."""

from __future__ import annotations

import codecs
import re

from pipeline.errors import RejectedInput

GUESS_BYTES_MAX = 64 * 1024
"""Bytes that the legacy-encoding guess looks at; guessing is quadratic in effect and more text adds nothing."""

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_CHARSETS = frozenset(
    (
        "undefined",
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
        "utf_7",
        "utf7",
        "utf_8_sig",
        "mbcs",
        "oem",
    )
)
"""Codecs of the language that are no character sets, or that let bytes spell other characters than they show."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def decode(data: bytes, declared: str = "") -> tuple[str, tuple[str, ...]]:
    """Text with line feeds as its only line ends and no byte order mark, and warnings.

    Args:
        data: the whole source.
        declared: encoding that the format names inside (HTML), tried when the bytes aren't UTF-8.

    Raises:
        RejectedInput: code `undecodable`.
    """
    text, warnings = _decode(data, declared)
    text = clean(text).lstrip("\ufeff")  # tools that put one mark before another are about
    if "\0" in text:
        text = text.replace("\0", " ")
        warnings = (*warnings, "NUL characters were replaced by spaces")
    return text, warnings


def clean(text: str) -> str:
    """Line feeds as the only line ends, U+FFFD for lone surrogates: text that always encodes as UTF-8."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _decode(data: bytes, declared: str) -> tuple[str, tuple[str, ...]]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding), ()
            except UnicodeDecodeError as error:
                if encoding == "utf-8":
                    break
                raise RejectedInput("undecodable", f"starts as {encoding} but breaks off: {error.reason}") from error
    wide = _wide(data) if b"\0" in data[:4096] else ""
    try:
        return data.decode(wide or "utf-8"), (f"no byte order mark; read as {wide}",) if wide else ()
    except UnicodeDecodeError:
        pass
    if declared and declared.lower().replace("-", "_") not in _NO_CHARSETS:
        try:
            return data.decode(declared), (f"read as {declared}, as the document declares",)
        except (UnicodeError, LookupError, ValueError):
            pass
    return _guess(data)


def _guess(data: bytes) -> tuple[str, tuple[str, ...]]:
    encoding = _legacy(data)
    if not encoding:
        raise RejectedInput("undecodable", "isn't text in any encoding that could be recognised")
    text = data.decode(encoding, "replace")
    return text, (f"not UTF-8; read as {encoding}",)


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: nearly every second byte of Western text is zero."""
    head = data[:4096]
    if len(head) < 4:  # noqa: PLR2004 - two characters at least, or there is no pattern to see
        return ""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > half * 0.6 and even < half * 0.1:
        return "utf-16-le"
    if even > half * 0.6 and odd < half * 0.1:
        return "utf-16-be"
    return ""


def _legacy(data: bytes) -> str:
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 0.1 CPU s that most runs never need

    if data.count(0) > len(data) // 100:
        return ""  # text in a single-byte encoding holds no NULs; this is binary
    best = from_bytes(data[:GUESS_BYTES_MAX]).best()
    if best is None or best.encoding in {"utf_16", "utf_32"}:
        # cp1252 reads nearly everything; take it only when control bytes are rare.
        controls = sum(data[:GUESS_BYTES_MAX].count(b) for b in range(32) if b not in {9, 10, 12, 13, 27})
        return "cp1252" if controls * 100 < len(data[:GUESS_BYTES_MAX]) else ""
    encoding: str = best.encoding
    return encoding
