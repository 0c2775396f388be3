"""Which names an import accepts, and when two of them are one. Pure rules over names; nothing here touches a file.

A name is one for every file system: what Windows, macOS or Linux would read differently, or as a place outside the
folder, is refused. Accepted names are in NFC and hold neither empty parts nor `.`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.archives import ImportLimits
from pipeline.errors import RejectedInput

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROLS = frozenset({"Cc", "Zl", "Zp"})
_DRIVE = re.compile(r"[A-Za-z]:")
_RESERVED = re.compile(
    r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE
)
"""Devices on Windows, with any extension."""

_MAC_FOLDER, _MAC_TWIN = "__MACOSX", "._"


def text_of(raw: bytes) -> str:
    """A name's bytes as text, without loss: bytes that aren't UTF-8 become lone surrogates."""
    return raw.decode("utf-8", "surrogateescape")


def bytes_of(path: str) -> bytes:
    """The bytes that `text_of` was given."""
    return path.encode("utf-8", "surrogateescape")


def checked(raw: bytes, prefix: str, limits: ImportLimits) -> str:
    """The path under which an entry may be staged: `prefix` and its name, tidied.

    Args:
        raw: the name's bytes.
        prefix: the folder to import into, checked already; empty for the tree's top.
        limits: depth and lengths.

    Raises:
        RejectedInput: code `unsafe_name`; the message is the reason, without the name.
    """
    name = unicodedata.normalize("NFC", text_of(raw))
    fault = _fault(name)
    parts = [part for part in name.split("/") if part not in ("", ".")]
    fault = fault or next((told for told in map(_fault_of_part, parts) if told), "")
    path = "/".join([prefix, *parts] if prefix else parts)
    if not fault and not parts:
        fault = "has no name"
    elif not fault and path.count("/") >= limits.depth:
        fault = f"lies deeper than {limits.depth} folders"
    elif not fault and len(bytes_of(path)) > limits.name_bytes:
        fault = f"has a name of more than {limits.name_bytes:,} bytes"
    elif not fault and any(len(bytes_of(part)) > limits.part_bytes for part in parts):
        fault = f"has a part of more than {limits.part_bytes} bytes in its name"
    if fault:
        raise RejectedInput("unsafe_name", fault)
    return path


def _fault(name: str) -> str:
    """What is wrong with a whole name."""
    faults = (
        ("\x00" in name, "has a NUL in its name"),
        (any(unicodedata.category(c) in _CONTROLS for c in name), "has a control character in its name"),
        (_BIDI.search(name), "has a character in its name that turns the direction of writing"),
        ("\\" in name, "has a backslash in its name"),
        (name.startswith("/"), "has an absolute path"),
        (_DRIVE.match(name), "has the letter of a drive in its path"),
        (":" in name, "has a colon in its name"),
        (".." in name.split("/"), "leaves the folder"),
    )
    return next((told for found, told in faults if found), "")


def _fault_of_part(part: str) -> str:
    if part[-1] in ". ":
        return "has a name or folder that ends in a dot or a space"
    if _RESERVED.fullmatch(part.partition(".")[0].rstrip(" ")):
        return f"has a name that is reserved on Windows: {part[:20]}"
    return ""


def passed_over(path: str, unread: frozenset[bytes]) -> str:
    """Why an accepted path is left out all the same; empty when it isn't.

    Args:
        path: from `checked`.
        unread: names of files and folders that no source tree reads.
    """
    parts = path.split("/")
    if _MAC_FOLDER in parts or parts[-1].startswith(_MAC_TWIN):
        return "holds what macOS keeps about another file"
    found = next((part for part in parts if bytes_of(part) in unread), "")
    return f"{found} is never read" if found else ""


def collision_key(path: str) -> str:
    """Equal for two paths that some file system takes for one: case, composition, trailing dots and spaces don't count."""
    parts = (part.rstrip(". ") or part for part in unicodedata.normalize("NFC", path).casefold().split("/"))
    return unicodedata.normalize("NFC", "/".join(parts))


def folders_above(path: str) -> Iterator[str]:
    """`a/b`, then `a`, for `a/b/c`."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


@dataclass(slots=True)
class TakenNames:
    """The names that one import has given away."""

    files: dict[str, str] = field(default_factory=dict)
    """Collision key to where the file came from."""
    folders: dict[str, str] = field(default_factory=dict)
    """Collision key to where the first file below came from."""

    def claim(self, path: str, origin: str) -> None:
        """Give a name away, once.

        Args:
            path: from `checked`.
            origin: what a person knows the file by.

        Raises:
            RejectedInput: code `same_name`, naming both files.
        """
        key = collision_key(path)
        above = list(folders_above(key))
        other = self.files.get(key) or self.folders.get(key) or next(filter(None, map(self.files.get, above)), "")
        if other:
            how = "have the same name" if key in self.files else "be a file and a folder of one name"
            raise RejectedInput(
                "same_name",
                f"{other} and {origin} would {how}. Nothing was imported",
                remedy="import them one after the other, one of them with --into FOLDER; or rename one in its archive",
            )
        self.files[key] = origin
        for folder in above:
            self.folders.setdefault(folder, origin)
