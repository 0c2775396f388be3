"""Zip and OLE files by what is in them: which are Office packages, and what the others are called."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain

from pipeline.errors import RejectedInput
from pipeline.parse.office.ooxml import has_too_many_entries

TYPES_BYTES_MAX = 1 << 20
"""Bytes of the list of content types that are looked at."""
_HEAD_BYTES = 1 << 16
"""Where names are looked for when the directory at the end is lost."""

ZIP_MARKS = (b"PK\x03\x04", b"PK\x05\x06")
OLE_MARK = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""The stream that holds an Office package under a password."""

_MAIN = {"word/document.xml": "docx", "ppt/presentation.xml": "pptx", "xl/workbook.xml": "xlsx"}
_FOLDERS = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
_TYPES = {
    re.compile(rb"(?:wordprocessingml|ms-word)[\w.]*\.main\+xml"): "docx",
    re.compile(rb"(?:presentationml|ms-powerpoint)[\w.]*\.main\+xml"): "pptx",
    re.compile(rb"(?:spreadsheetml|ms-excel)[\w.]*\.main\+xml"): "xlsx",
}
"""Content types of main parts; without `main` they are those of whole files inside."""
_PARTS_LIST = "[content_types].xml"
_BINARY_WORKBOOK = "xl/workbook.bin"
_MIMETYPE = re.compile(rb"PK\x03\x04.{26}mimetype(application/[\w.+-]+)", re.DOTALL)
_STATED = {
    "application/epub+zip": "an EPUB book",
    "application/vnd.oasis.opendocument.text": "an OpenDocument text",
    "application/vnd.oasis.opendocument.spreadsheet": "an OpenDocument spreadsheet",
    "application/vnd.oasis.opendocument.presentation": "an OpenDocument presentation",
    "application/vnd.oasis.opendocument.": "an OpenDocument file",
}
"""By the type that such files state at their very start."""
_HELD = {
    _BINARY_WORKBOOK: "a binary Excel workbook (.xlsb)",
    "meta-inf/container.xml": "an EPUB book",
    "content.xml": "an OpenDocument file",
}
_FOLDER_OF = {
    "visio": "a Visio drawing",
    "word": "a Word document",
    "xl": "an Excel workbook",
    "ppt": "a PowerPoint presentation",
}
"""Office's own are told here only without the lists that make them packages."""
_AS_OFFICE = "Save it as .docx, .xlsx or .pptx, or print it to PDF, and stage that."
_LIBRARY_ERRORS = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, NotImplementedError, OSError, OverflowError,
    RuntimeError, ValueError,
)  # fmt: skip

REMEDIES = {
    "a binary Excel workbook (.xlsb)": "Save it as .xlsx and stage that.",
    "an OpenDocument text": "Save it as .docx or PDF and stage that.",
    "an OpenDocument spreadsheet": "Save it as .xlsx and stage that.",
    "an OpenDocument presentation": "Save it as .pptx or PDF and stage that.",
    "an OpenDocument file": _AS_OFFICE,
    "an EPUB book": "Convert it to HTML or PDF and stage that.",
    "an old Microsoft Office file": _AS_OFFICE,
    "an RTF document": "Save it as .docx or PDF and stage that.",
    "a PostScript document": "Convert it to PDF and stage that.",
    "a DjVu document": "Convert it to PDF with a text layer and stage that.",
    "an Apple Pages, Numbers or Keynote document": _AS_OFFICE,
    "a Visio drawing": "Save it as PDF and stage that.",
    "a zip archive": "Unpack it and stage what is in it.",
}
"""What a person can do about a file that can't be read, by what it looks like."""


def office_kind(data: bytes, name: str) -> str:
    """`docx`, `pptx` or `xlsx` for an Office package, empty for everything else.

    Raises:
        RejectedInput: `encrypted`, for a package under a password.
    """
    if data.startswith(OLE_MARK) and _ENCRYPTED in data:
        raise RejectedInput("encrypted", f"{name} is protected by a password", remedy="Stage it without.")
    if not data.startswith(ZIP_MARKS):
        return ""
    names, whole = _names(data)
    # A package lists its parts; of one that is cut off, the list may be what is missing.
    if (whole and not names & {_PARTS_LIST, "_rels/.rels"}) or _BINARY_WORKBOOK in names:
        return ""
    by_part = (kind for part, kind in _MAIN.items() if part in names)
    by_folder = (kind for folder, kind in _FOLDERS.items() if any(one.startswith(folder) for one in names))
    return next(by_part, "") or next(by_folder, "") or next(_kinds_listed(data), "")


def zip_looks_like(data: bytes) -> str:
    """What to call a zip file that isn't read."""
    stated = _MIMETYPE.match(data[:_HEAD_BYTES])
    said = stated.group(1).decode("ascii") if stated else ""
    by_type = (what for start, what in _STATED.items() if said.startswith(start))
    names, _ = _names(data)
    by_name = (what for part, what in _HELD.items() if part in names)
    by_ending = ("an Apple Pages, Numbers or Keynote document" for one in names if one.endswith(".iwa"))
    folders = {one.partition("/")[0] for one in names if "/" in one}
    by_folder = (what for folder, what in _FOLDER_OF.items() if folder in folders)
    return next(chain(by_type, by_name, by_ending, by_folder), "a zip archive")


def _names(data: bytes) -> tuple[frozenset[str], bool]:
    """Names of the entries in lower case, and whether it's all of them: without a directory the first ones are seen."""
    if not has_too_many_entries(data):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return frozenset(one.replace("\\", "/").lstrip("/").lower() for one in archive.namelist()), True
        except _LIBRARY_ERRORS:
            pass
    return frozenset(_first_names(data[:_HEAD_BYTES])), False


def _first_names(head: bytes) -> Iterator[str]:
    at = head.find(ZIP_MARKS[0])
    while at >= 0:
        size = int.from_bytes(head[at + 26 : at + 28], "little")
        yield head[at + 30 : at + 30 + size].decode("cp437").replace("\\", "/").lower()
        at = head.find(ZIP_MARKS[0], at + 4)


def _kinds_listed(data: bytes) -> Iterator[str]:
    """Kinds of the main part by its content type, for packages that put it elsewhere."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            place = next(one for one in archive.namelist() if one.lstrip("/").lower() == _PARTS_LIST)
            with archive.open(place) as stream:
                listed = stream.read(TYPES_BYTES_MAX)
    except (*_LIBRARY_ERRORS, StopIteration):
        return
    yield from (kind for main, kind in _TYPES.items() if main.search(listed))
