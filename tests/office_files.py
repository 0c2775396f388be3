"""Office packages by hand, for what no library writes, and what must hold of every document that is made of one."""

from __future__ import annotations

import io
import zipfile

from pipeline import tokens
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.parse import parse_bytes, wire

XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
NAMES = " ".join(
    f'xmlns:{prefix}="{address}"'
    for prefix, address in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
        "s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "pic": "http://schemas.openxmlformats.org/drawingml/2006/picture",
        "wp": "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing",
        "xdr": "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "a14": "http://schemas.microsoft.com/office/drawing/2010/main",
        "v": "urn:schemas-microsoft-com:vml",
        "r": OFFICE,
    }.items()
)
TYPES = f'{XML}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'


def relations(*rows: tuple[str, str, str]) -> str:
    """A part's references: id, kind, target; a target with a scheme lies outside."""
    outside = ' TargetMode="External"'
    written = "".join(
        f'<Relationship Id="{key}" Type="{OFFICE}/{kind}" Target="{target}"{outside if "://" in target else ""}/>'
        for key, kind, target in rows
    )
    return f'{XML}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{written}</Relationships>'


def zipped(parts: dict[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def package(main: str, parts: dict[str, str | bytes]) -> bytes:
    """A package whose main part is `main`."""
    return zipped({"[Content_Types].xml": TYPES, "_rels/.rels": relations(("m", "officeDocument", main)), **parts})


def rewritten(data: bytes, part: str, old: str, new: str) -> bytes:
    """A package with one text replaced in one part; the text must be there."""
    source = zipfile.ZipFile(io.BytesIO(data))
    parts = {name: source.read(name) for name in source.namelist()}
    assert old.encode() in parts[part], parts[part]
    return zipped({**parts, part: parts[part].replace(old.encode(), new.encode())})


def with_part(data: bytes, **parts: str | bytes) -> bytes:
    """A package with parts added or put in place of others; '__' in a name stands for '/'."""
    source = zipfile.ZipFile(io.BytesIO(data))
    named = {name.replace("__", "/"): content for name, content in parts.items()}
    return zipped({**{name: source.read(name) for name in source.namelist()}, **named})


def checked(data: bytes, name: str):
    """The document, after everything that holds of every document was asserted of this one."""
    document = parse_bytes(data, name)
    assert wire.decode(wire.encode(document)) == document
    text = document.text
    assert "\r" not in text
    assert "\0" not in text
    covered = bytearray(len(text))
    for block in document.blocks:
        assert text[block.end - 1] == "\n"
        assert block.start == 0 or text[block.start - 1] == "\n"
        covered[block.start : block.end] = b"\1" * (block.end - block.start)
        assert all(text[cut - 1] == "\n" or block.kind == "records" for cut in block.cuts)
    assert all(mark or text[at].isspace() for at, mark in enumerate(covered))
    for target in (40, 400):
        found = chunk_document(document, "markdown_heading", ChunkOptions(target))
        reached = 0
        for one in found:
            assert text[one.start : one.end] == one.text
            assert text[reached : one.start].isspace() or reached >= one.start
            assert one.tokens == tokens.count(one.prefix + one.text)
            assert one.tokens <= target or one.oversize
            reached = max(reached, one.end)
        assert not text[reached:].strip()
    return document


def chunked(document, target: int = 200):
    return chunk_document(document, "markdown_heading", ChunkOptions(target))
