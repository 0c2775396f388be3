"""File names of what a mail holds: decoded already, made safe as parts of a path and unique."""

from __future__ import annotations

import re
import unicodedata

NAME_CHARS_MAX = 120

_ENDINGS = {
    "text/plain": "txt", "text/html": "html", "text/csv": "csv", "text/markdown": "md", "text/calendar": "ics",
    "application/pdf": "pdf", "application/json": "json", "application/xml": "xml", "text/xml": "xml",
    "message/rfc822": "eml", "message/global": "eml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
}  # fmt: skip
"""Endings of attachments that come without a name."""
_NO_SEGMENT = re.compile(r"[/\\\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What a file name can't hold: separators, control characters, marks that turn its direction round."""


class Names:
    """The names that one mail has given away; case makes no difference, as on many file systems."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def unique(self, name: str) -> str:
        """The name, with a number in front of its ending if it's taken."""
        stem, dot, last = name.rpartition(".") if "." in name.strip(".") else (name, "", "")
        found, number = name, 1
        while found.casefold() in self.taken:
            number += 1
            found = f"{stem} ({number}){dot}{last}"
        self.taken.add(found.casefold())
        return found


def ending(kind: str) -> str:
    """A file name's ending for a content type."""
    own = kind.partition("/")[2]
    return _ENDINGS.get(kind, own if own.isalnum() and len(own) <= 4 else "bin")  # noqa: PLR2004 - png, zip, webp


def segment(name: str) -> str:
    """A name as one part of a path; empty if nothing is left of it."""
    name = " ".join(_NO_SEGMENT.sub("", unicodedata.normalize("NFC", name)).split()).strip(". ")
    if len(name) > NAME_CHARS_MAX:
        stem, dot, last = name.rpartition(".")
        last = dot + last if dot and len(last) <= 10 else ""  # noqa: PLR2004 - no ending is longer
        name = (stem if last else name)[: NAME_CHARS_MAX - len(last)].rstrip() + last
    return name
