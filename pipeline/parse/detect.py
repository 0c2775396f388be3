"""Which format a source is in: content first, the file name as a hint."""

from __future__ import annotations

import re

from pipeline.errors import RejectedInput
from pipeline.parse.languages import WITHOUT_GRAMMAR, language
from pipeline.parse.mail.mime import looks_like_mail, looks_like_mailbox
from pipeline.parse.office.containers import REMEDIES, ZIP_MARKS, office_kind, zip_looks_like

HEAD_BYTES = 4096
"""Bytes at the start that decide between formats that have a signature."""

_UNSUPPORTED = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF87a", "a GIF picture"),
    (b"GIF89a", "a GIF picture"),
    (b"BM\x00", "a bitmap picture"),
    (b"II*\x00", "a TIFF picture"),
    (b"MM\x00*", "a TIFF picture"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Microsoft Office file"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"AT&TFORM", "a DjVu document"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "Java bytecode or a macOS program"),
    (b"\xcf\xfa\xed\xfe", "a macOS program"),
    (b"\x00asm", "WebAssembly"),
    (b"OggS", "an Ogg recording"),
    (b"fLaC", "a FLAC recording"),
    (b"ID3", "an MP3 recording"),
    (b"\x1aE\xdf\xa3", "a Matroska film"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"\x00\x01\x00\x00\x00", "a font"),
)
_HTML_START = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL)

_JSON_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\[{\"\]])")
"""What JSON begins with; its parser gives back what isn't JSON after all."""
_MAIL_EXTENSIONS = frozenset(("eml", "mht", "mhtml", "mbox", "email", "txt", "text", ""))
"""Names that may hold mail; others' header-like lines are theirs."""
_MAILBOX_REMEDY = "Export its mails as single .eml files."

_PAGE = re.compile(rb"\s*<!doctype\s+html[\s>]", re.IGNORECASE)
"""A whole page, whatever its name says: what servers send in the place of a file that isn't there."""

KIND_OF_EXTENSION = {
    **dict.fromkeys(("md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"), "markdown"),
    **dict.fromkeys(("html", "htm", "xhtml"), "html"),
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("txt", "text", "log", "rst", "adoc", "org", "tex"), "text"),
    **dict.fromkeys(("eml", "mht", "mhtml"), "eml"),
    **dict.fromkeys(("json", "jsonl", "ndjson", "geojson", "topojson", "jsonld", "har", "webmanifest"), "json"),
    "ipynb": "notebook",
    WITHOUT_GRAMMAR: "code",
}


def detect(data: bytes, name: str) -> str:
    """The key in `PARSERS` for these bytes.

    Raises:
        RejectedInput: `unsupported`, naming what the bytes look like; `encrypted`.
    """
    head = data[:HEAD_BYTES]
    is_pdf = b"%PDF-" in head[:1024] and not looks_like_mail(data)  # one that is attached as it is
    kind = "pdf" if is_pdf else office_kind(data, name)
    if kind:
        return kind
    looks = _looks_like(data, head)
    if looks:
        remedy = REMEDIES.get(looks, "Convert it, or ignore it.")
        raise RejectedInput("unsupported", f"{name} looks like {looks}, which can't be read", remedy=remedy)
    kind = KIND_OF_EXTENSION.get(extension(name), "")
    if not kind and language(b"", name):
        kind = "code"
    start = head.removeprefix(b"\xef\xbb\xbf")
    if (kind in {"", "text"} and _HTML_START.match(start)) or (
        kind in {"markdown", "csv", "json"} and _PAGE.match(start)
    ):
        return "html"
    if kind in {"", "text"} and _JSON_START.match(head):
        return "json"
    if extension(name) in _MAIL_EXTENSIONS:
        if extension(name) == "mbox" or looks_like_mailbox(data):
            raise RejectedInput("unsupported", f"{name} is a mailbox of several mails", remedy=_MAILBOX_REMEDY)
        if kind == "eml" or looks_like_mail(data):
            return "eml"
    if not kind and head.startswith(b"#!"):
        return "code"
    return kind or "text"


def extension(name: str) -> str:
    """Lower-case file extension without the dot; empty for names without one."""
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return suffix.lower() if dot and stem else ""


def _looks_like(data: bytes, head: bytes) -> str:
    if head.startswith(ZIP_MARKS):
        return zip_looks_like(data)
    if head[4:8] == b"ftyp":
        return "a film or picture (MP4 family)"
    if head.startswith(b"RIFF") and head[8:12] in {b"WAVE", b"AVI ", b"WEBP"}:
        return "a recording, film or picture (RIFF family)"
    return next((what for mark, what in _UNSUPPORTED if head.startswith(mark)), "")
