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
_SAID_FOR_WINDOWS = frozenset(("ascii", "iso8859-1"))
"""What is declared where Windows-1252 is meant, as browsers have it."""
_GUESSED = (
    "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "koi8_r", "mac_roman", "cp850",
    "cp437", "cp866", "cp932", "euc_jp", "gb18030", "big5hkscs", "cp949", "tis_620", "mac_cyrillic",
)  # fmt: skip
"""Encodings besides Windows-1252 that files are in. Of all others short texts look like one by accident."""
_CAPITALS = r"\xc0-\xcf\xd1-\xd6\xd8-\xdc\u0152"
_LETTERS = rf"{_CAPITALS}\xdf-\xef\xf1-\xf6\xf8-\xfc\xff\u0153"
_SIGNS = r"\xa1-\xa3\xa5\xa7\xa9-\xab\xae\xb0-\xb6\xb9-\xbf\xd7\xf7\u201a\u201c-\u201e\u2022\u2039\u203a\u20ac\u2122"
_NOT_WESTERN = re.compile(
    rf"[^\x00-\x7f\xa0\xad\xb7\u2013\u2014\u2018\u2019\u2026{_LETTERS}{_SIGNS}]"
    rf"|[{_LETTERS}]{{3}}"
    rf"|[a-zA-Z{_LETTERS}][{_SIGNS}][a-zA-Z{_LETTERS}]"
    rf"|[a-z][{_CAPITALS}][a-z]"
    rf"|\xf5(?!e)"
)
"""What Windows-1252 doesn't hold in the languages that it was made for: other letters, many accents in a row, signs
and capitals inside words, an õ in other words than Portuguese ones."""
_ODD_SHARE = 50
"""Of so many characters that aren't ASCII one may be odd: a foreign name."""
_DAMAGE = 4
"""So many characters beyond ASCII for each bad byte make a text damaged UTF-8."""
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
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
    if text := _damaged(data):
        places = text.count("\ufffd")
        return text, (f"not UTF-8 in {places} place{'' if places == 1 else 's'}, marked with \ufffd",)
    for codec in _declared(declared):
        try:
            return data.decode(codec), (f"read as {declared}, as the document declares",)
        except (UnicodeError, LookupError, ValueError):
            continue
    return _guess(data)


def _damaged(data: bytes) -> str:
    """UTF-8 with few bad bytes, each as U+FFFD; empty for other bytes, among which hardly any form its characters."""
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - bad - sum(map(str.isascii, text)) if bad * _DAMAGE <= len(text) else 0
    return text if good >= bad * _DAMAGE else ""


def _declared(name: str) -> tuple[str, ...]:
    """Codecs to try for a declared encoding, the likeliest first."""
    if not name or name.lower().replace("-", "_") in _NO_CHARSETS:
        return ()
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ()
    return ("cp1252", name) if known in _SAID_FOR_WINDOWS else (name,)


def _guess(data: bytes) -> tuple[str, tuple[str, ...]]:
    encoding = _legacy(data)
    if not encoding:
        raise RejectedInput(
            "undecodable",
            "isn't text in any encoding that could be recognised",
            remedy="Save it as UTF-8, or ignore it.",
        )
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
    """The old encoding that a text is likely in; empty for what is no text."""
    if data.count(0) > len(data) // 100:
        return ""  # text in a single-byte encoding holds no NULs; this is binary
    sample = _sample(data)
    # cp1252 reads nearly everything; take it only when control bytes are rare.
    controls = sum(sample.count(b) for b in range(32) if b not in {9, 10, 12, 13, 27})
    is_text = controls * 100 < len(sample)
    if is_text and _is_western(sample):
        return "cp1252"
    from charset_normalizer import from_bytes  # noqa: PLC0415 - 0.1 CPU s that most runs never need

    best = from_bytes(sample, cp_isolation=list(_GUESSED)).best()
    if best is None:
        return "cp1252" if is_text else ""
    encoding: str = best.encoding
    return encoding


def _sample(data: bytes) -> bytes:
    """The part to guess from: it begins with the line of the first byte that isn't ASCII."""
    odd = _NOT_ASCII.search(data)
    at = odd.start() if odd else 0
    start = max(data.rfind(b"\n", 0, at) + 1, at - GUESS_BYTES_MAX // 2)
    return data[start : start + GUESS_BYTES_MAX]


def _is_western(sample: bytes) -> bool:
    """Whether the bytes read well in Windows-1252.

    Guessing by statistics takes short texts in it for Central European ones, or for worse.
    """
    try:
        text = sample.decode("cp1252")
    except UnicodeDecodeError:
        return False
    return sum(1 for _ in _NOT_WESTERN.finditer(text)) * _ODD_SHARE <= len(_NOT_ASCII.findall(sample))
