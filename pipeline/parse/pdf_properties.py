"""What a PDF says about itself: its information dictionary and its language."""

from __future__ import annotations

import ctypes
import re
from datetime import UTC, datetime, timedelta, timezone

from pipeline.parse.decode import clean
from pipeline.parse.metadata import Entries, describe

_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(?:([Zz+-])(?:(\d{2})'?(?:(\d{2})'?)?)?)?")
"""ISO 32000-1, 7.9.4: everything after the year may be missing."""
_NO_TITLE = re.compile(r"(?:untitled|microsoft word - |powerpoint presentation|slide 1|document\d*$)", re.IGNORECASE)
"""What programs write when nobody gave a title."""
_LANGUAGE_CHARS_MAX = 64


def read(data: bytes) -> Entries:
    """Title, author, subject, keywords, dates and language, as far as they are given; nothing for damaged ones."""
    import pypdfium2  # noqa: PLC0415 - native code that only PDF needs

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError:
        return ()
    try:
        info = {key: clean(value).strip() for key, value in document.get_metadata_dict().items()}
        language = _language(document.raw)
    finally:
        document.close()
    title = info.get("Title", "")
    return describe(
        {
            "title": "" if _NO_TITLE.match(title) else title,
            "author": info.get("Author", ""),
            "description": info.get("Subject", ""),
            "keywords": [word.strip() for word in re.split("[,;]", info.get("Keywords", "")) if word.strip()],
            "created": _moment(info.get("CreationDate", "")),
            "modified": _moment(info.get("ModDate", "")),
            "language": language,
        }
    )


def _language(document: object) -> str:
    from pypdfium2 import raw  # noqa: PLC0415 - as above

    buffer = ctypes.create_string_buffer(2 * _LANGUAGE_CHARS_MAX)
    size = raw.FPDFCatalog_GetLanguage(document, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), len(buffer))
    found = buffer.raw[: size - 2].decode("utf-16-le", "ignore") if 2 < size <= len(buffer) else ""  # noqa: PLR2004
    return found if re.fullmatch(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*", found) else ""


def _moment(text: str) -> datetime | None:
    match = _DATE.match(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (
        int(part) if part else at for part, at in zip(match.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
    )
    sign, hours, minutes = match.group(7), int(match.group(8) or 0), int(match.group(9) or 0)
    offset = timedelta(hours=hours, minutes=minutes) * (-1 if sign == "-" else 1)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset) if sign in ("+", "-") else UTC)
    except ValueError:
        return None
