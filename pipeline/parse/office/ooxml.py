"""Office packages: a zip of XML parts that name each other, opened within bounds. What the parts mean isn't known here.

Elements and attributes come under short names whichever edition of the standard a file follows: `w:p`, `r:id`; other
attributes go by their local name, and names from namespaces that nobody here reads stay as they are.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from pipeline.errors import RejectedInput
from pipeline.parse.metadata import Entries, describe

ENTRIES_MAX = 20_000
"""Entries of a package; decks full of pictures have a few thousand."""
PART_BYTES_MAX = 256 << 20
"""Bytes of one part, unpacked."""
TOTAL_BYTES_MAX = 1 << 30
"""Bytes that are unpacked for one document; a part that is read twice counts twice."""
RATIO_MAX = 300
"""Unpacked bytes for each packed one. Real XML reaches 50; what unpacks to one repeated byte reaches 1000."""
RATIO_FROM_BYTES = 16 << 20
"""Smaller parts may have any ratio."""
DEPTH_MAX = 200
"""Elements inside each other. Real files stay below 60; those who read trees may recurse."""
ELEMENTS_MAX = 2_000_000
"""Elements held at once, which bounds memory where bytes don't: four bytes make an element of two hundred."""
STREAMED_MAX = 15_000_000
"""Elements read for one document, held or not, which bounds time."""

READS_MAX = 50_000
"""Parts opened for one document; a list may name the same one a million times."""

_READ_BYTES = 1 << 16
_SIGNATURES_MAX = 10 * ENTRIES_MAX
"""Marks of directory entries anywhere in the bytes, those of packages inside this one included."""
_DIRECTORY_ENTRY = b"PK\x01\x02"
_METHODS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
_ENCRYPTED_FLAG = 1
_DIGITS_MAX = 9

_LIBRARY_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, ParseError, EOFError, LookupError,
    NotImplementedError, OSError, OverflowError, ValueError,
)  # fmt: skip
"""What zipfile, expat and the guard around it raise for damaged bytes; a forbidden DTD is a ValueError."""

_OFFICE = "http://schemas.openxmlformats.org/"
_STRICT = "http://purl.oclc.org/ooxml/"
_MICROSOFT = "http://schemas.microsoft.com/office/"
_PREFIXES = {
    **{f"{_OFFICE}{path}": prefix for path, prefix in (
        ("wordprocessingml/2006/main", "w"), ("presentationml/2006/main", "p"), ("spreadsheetml/2006/main", "s"),
        ("drawingml/2006/main", "a"), ("drawingml/2006/chart", "c"), ("drawingml/2006/diagram", "dgm"),
        ("drawingml/2006/picture", "pic"), ("drawingml/2006/wordprocessingDrawing", "wp"),
        ("drawingml/2006/spreadsheetDrawing", "xdr"), ("officeDocument/2006/math", "m"),
        ("officeDocument/2006/relationships", "r"), ("package/2006/relationships", "rel"),
        ("package/2006/metadata/core-properties", "cp"), ("markup-compatibility/2006", "mc"),
    )},
    **{f"{_STRICT}{path}": prefix for path, prefix in (
        ("wordprocessingml/main", "w"), ("presentationml/main", "p"), ("spreadsheetml/main", "s"),
        ("drawingml/main", "a"), ("drawingml/chart", "c"), ("drawingml/diagram", "dgm"), ("drawingml/picture", "pic"),
        ("drawingml/wordprocessingDrawing", "wp"), ("drawingml/spreadsheetDrawing", "xdr"),
        ("officeDocument/math", "m"), ("officeDocument/relationships", "r"),
    )},
    f"{_MICROSOFT}word/2010/wordprocessingShape": "wps",
    f"{_MICROSOFT}drawing/2010/main": "a14",
    "urn:schemas-microsoft-com:vml": "v",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
}  # fmt: skip

_PROPERTIES = {
    "dc:title": "title", "dc:creator": "author", "dc:subject": "subject", "dc:description": "description",
    "cp:keywords": "keywords", "cp:category": "category", "dc:language": "language", "dcterms:created": "created",
    "dcterms:modified": "modified",
}  # fmt: skip
_MAIN = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}


@dataclass(frozen=True, slots=True)
class Relation:
    """What one part says of another."""

    type: str
    """Last part of the type's address: `styles`, `slide`, `chart`; the same in both editions."""
    target: str
    """Name of a part; empty for what lies outside the package."""


class Package:
    """One file's parts. Every failure of a library becomes a `RejectedInput` that names the part."""

    def __init__(self, data: bytes, name: str, kind: str) -> None:
        """Open the package.

        Args:
            data: the whole file.
            name: file name, for messages.
            kind: `docx`, `pptx` or `xlsx`; a damaged file is refused as `{kind}_broken`.

        Raises:
            RejectedInput: `{kind}_broken`, `too_large_inside`, `encrypted`; so do all methods that read.
        """
        self.name = name
        self.kind = kind
        self.warnings: list[str] = []
        """Parts that could not be read and that the document can do without."""
        self._bytes = 0
        self._reads = 0
        self._elements = 0
        if has_too_many_entries(data):
            raise self.too_large(f"more than {ENTRIES_MAX:,} entries")
        with self._refusing("its directory"):
            self._archive = zipfile.ZipFile(io.BytesIO(data))
        entries = self._archive.infolist()
        if len(entries) > ENTRIES_MAX:
            raise self.too_large(f"more than {ENTRIES_MAX:,} entries")
        # Names are compared without case, and some writers use the other slash.
        self._entries = {_key(entry.filename): entry for entry in entries if not entry.is_dir()}

    def __contains__(self, part: str) -> bool:
        return _key(part) in self._entries

    def main(self) -> str:
        """The part that everything starts from."""
        found = self.related("", "officeDocument")
        if not found and _MAIN[self.kind] in self:
            return _MAIN[self.kind]
        if not found:
            raise self.broken("no part is named as the main one")
        return found[0]

    def relations(self, part: str) -> dict[str, Relation]:
        """What `part` refers to, by id; `""` is the package itself."""
        folder, _, last = part.rpartition("/")
        where = f"{folder}/_rels/{last}.rels".lstrip("/")
        if where not in self:
            return {}
        found = {}
        for one in self.tree(where).iter("rel:Relationship"):
            outside = one.get("TargetMode") == "External"
            target = "" if outside else _resolved(folder, one.get("Target", ""))
            found[one.get("Id", "")] = Relation(one.get("Type", "").rpartition("/")[2], target)
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """Parts of one kind that `part` refers to and that exist, in the order of the file."""
        return [one.target for one in self.relations(part).values() if one.type == kind and one.target in self]

    def tree(self, part: str) -> Element:
        """A part whole."""
        builder = _Builder(self)
        for _ in self._fed(part, builder):
            pass
        return builder.root

    def optional(self, part: str) -> Element | None:
        """A part that the document can do without: None, and a warning, if it's damaged; bombs are still refused."""
        try:
            return self.tree(part)
        except RejectedInput as error:
            if error.code != f"{self.kind}_broken":
                raise
            self.warnings.append(f"{part} is damaged and was left out")
            return None

    def elements(self, part: str, tag: str) -> Iterator[Element]:
        """The elements of one name in a part, one by one; nothing else is held."""
        builder = _Builder(self, tag)
        for _ in self._fed(part, builder):
            yield from builder.found
            builder.found.clear()

    def properties(self) -> Entries:
        """Title, author, dates and the like, flat, in a fixed order."""
        found = self.related("", "core-properties") or [one for one in ("docProps/core.xml",) if one in self]
        root = self.optional(found[0]) if found else None
        texts = {one.tag: " ".join((one.text or "").split()) for one in (() if root is None else root)}
        values: dict[object, object] = {key: texts[tag] for tag, key in _PROPERTIES.items() if texts.get(tag)}
        for key, marks in (("author", ";"), ("keywords", ";,")):
            names = [name.strip() for name in re.split(f"[{marks}]", str(values.get(key, ""))) if name.strip()]
            if len(names) > 1:
                values[key] = names
        return describe(values)

    def broken(self, why: str) -> RejectedInput:
        """The refusal of a damaged file."""
        return RejectedInput(
            f"{self.kind}_broken",
            f"{self.name} can't be read as {self.kind.upper()}: {why}",
            remedy="Open it in the program that it comes from, save it anew and stage that.",
        )

    def too_large(self, limit: str) -> RejectedInput:
        """The refusal of a file that holds more than a named limit."""
        return RejectedInput(
            "too_large_inside",
            f"{self.name} unpacks to more than is read: {limit}",
            remedy="Divide it into several files.",
        )

    def _fed(self, part: str, builder: _Builder) -> Iterator[None]:
        """Feed a part to a builder, stopping after every piece."""
        from defusedxml.ElementTree import DefusedXMLParser  # noqa: PLC0415 - its import costs what few runs need

        parser = DefusedXMLParser(target=builder, forbid_dtd=True)
        for piece in self._pieces(part):
            with self._refusing(part):
                parser.feed(piece)
            # A piece holds so few elements that counting after it is soon enough.
            self._elements += builder.taken()
            if self._elements > STREAMED_MAX:
                raise self.too_large(f"{STREAMED_MAX:,} elements of XML")
            yield
        with self._refusing(part):
            parser.close()
        yield

    def _pieces(self, part: str) -> Iterator[bytes]:
        """A part's bytes, counted as they come: what the directory says of sizes may be a lie."""
        entry = self._entries.get(_key(part))
        if entry is None:
            raise self.broken(f"{part} is missing")
        self._reads += 1
        if self._reads > READS_MAX:
            raise self.too_large(f"more than {READS_MAX:,} parts, those that are named again counted each time")
        if entry.flag_bits & _ENCRYPTED_FLAG:
            raise RejectedInput("encrypted", f"{self.name} is protected by a password", remedy="Stage it without.")
        if entry.compress_type not in _METHODS:
            raise self.broken(f"{part} is packed by a method that packages don't use")
        if entry.file_size > RATIO_FROM_BYTES and entry.file_size > RATIO_MAX * entry.compress_size:
            raise self.too_large(f"{part} grows more than {RATIO_MAX} times")
        size = 0
        with self._refusing(part):
            stream = self._archive.open(entry)
        while True:
            with self._refusing(part):
                piece = stream.read(_READ_BYTES)
            if not piece:
                return
            size += len(piece)
            self._bytes += len(piece)
            if size > PART_BYTES_MAX:
                raise self.too_large(f"{part} has more than {PART_BYTES_MAX >> 20} MiB")
            if self._bytes > TOTAL_BYTES_MAX:
                raise self.too_large(f"its parts have more than {TOTAL_BYTES_MAX >> 20} MiB")
            yield piece

    @contextmanager
    def _refusing(self, what: str) -> Iterator[None]:
        try:
            yield
        except _LIBRARY_ERRORS as error:
            raise self.broken(f"{what}: {error}") from error


class _Builder(TreeBuilder):
    """A tree with short names, of bounded depth and size; or the elements of one name, and nothing around them."""

    def __init__(self, package: Package, wanted: str = "") -> None:
        super().__init__()
        self.found: list[Element] = []
        """Finished elements of the wanted name, until somebody takes them."""
        self.root = Element("")
        self._package = package
        self._wanted = wanted
        self._open: list[Element] = []
        self._inside = 0
        """How many open elements have the wanted name."""
        self._held = 0
        """Elements in memory."""
        self._read = 0
        self._tags: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def taken(self) -> int:
        """Elements read since the last call."""
        read, self._read = self._read, 0
        return read

    def start(self, tag: str, attrs: dict[str, str]) -> Element:
        self._read += 1
        self._held += 1
        if self._held > ELEMENTS_MAX:
            raise self._package.too_large(f"{ELEMENTS_MAX:,} elements of XML at once")
        if len(self._open) == DEPTH_MAX:
            raise self._package.too_large(f"more than {DEPTH_MAX} elements inside each other")
        short = self._tags.get(tag) or self._tags.setdefault(tag, _short(tag))
        for key in attrs:
            if key[0] == "{":
                keys = self._keys
                attrs = {keys.get(one) or keys.setdefault(one, _short_key(one)): value for one, value in attrs.items()}
                break
        element = super().start(short, attrs)
        self._open.append(element)
        if short == self._wanted:
            self._inside += 1
        return element

    def end(self, tag: str) -> Element:
        del tag
        element = self._open.pop()
        super().end(element.tag)
        if not self._open:
            self.root = element
        if not self._wanted:
            return element
        if element.tag == self._wanted:
            self._inside -= 1
            if not self._inside:
                self.found.append(element)
        if not self._inside:
            if self._open:
                self._open[-1].clear()
            self._held = len(self._open)
        return element


def has_too_many_entries(data: bytes) -> bool:
    """Whether a zip's directory must not even be opened: each entry costs memory before anything is read."""
    return data.count(_DIRECTORY_ENTRY) > _SIGNATURES_MAX


def child(element: Element, *path: str) -> Element | None:
    """The first child of that name, and its first child of the next name, and so on."""
    # `Element.find` would take the short names for prefixes of a namespace map.
    found: Element | None = element
    for tag in path:
        found = next((one for one in found if one.tag == tag), None) if found is not None else None
    return found


def is_on(element: Element | None) -> bool:
    """Whether a switch such as `w:vanish` is there and not turned off."""
    return element is not None and element.get("val", "1") not in {"0", "false", "off"}


def number(text: str | None, default: int = 0) -> int:
    """An attribute as a whole number of at most nine digits; the default for anything else."""
    text = text or ""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX else default


def chosen(alternate: Element) -> Iterator[Element]:
    """The contents of the one alternative that is read of `mc:AlternateContent`: the first choice, else the fallback."""
    for tag in ("mc:Choice", "mc:Fallback"):
        found = child(alternate, tag)
        if found is not None:
            return iter(found)
    return iter(())


def _key(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()


def _short(name: str) -> str:
    space, _, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
    prefix = _PREFIXES.get(space)
    return f"{prefix}:{local}" if prefix else name


def _short_key(name: str) -> str:
    short = _short(name)
    return short if short.startswith(("r:", "{")) else short.rpartition(":")[2]


def _resolved(folder: str, target: str) -> str:
    """A target as the name of a part, without steps up and down."""
    path = unquote(target.partition("#")[0]).replace("\\", "/")
    steps: list[str] = []
    for step in (path if path.startswith("/") else f"{folder}/{path}").split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in {"", "."}:
            steps.append(step)
    return "/".join(steps)
