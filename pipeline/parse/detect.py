"""Which format a source is in: content first, the file name as a hint."""

from __future__ import annotations

import re

from pipeline.errors import RejectedInput

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
_ZIP = ((b"word/", "a Word document"), (b"xl/", "an Excel workbook"), (b"ppt/", "a PowerPoint presentation"))
_HTML_START = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE | re.DOTALL)

KIND_OF_EXTENSION = {
    **dict.fromkeys(("md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"), "markdown"),
    **dict.fromkeys(("html", "htm", "xhtml"), "html"),
    **dict.fromkeys(("csv", "tsv"), "csv"),
    **dict.fromkeys(("txt", "text", "log", "rst", "adoc", "org", "tex"), "text"),
    "ipynb": "notebook",
}
LANGUAGE_OF_EXTENSION = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
    "ts": "typescript", "tsx": "typescript", "go": "go", "rs": "rust", "java": "java", "kt": "kotlin", "c": "c",
    "h": "c", "cc": "cpp", "cpp": "cpp", "hpp": "cpp", "cs": "csharp", "rb": "ruby", "php": "php", "swift": "swift",
    "scala": "scala", "sh": "shell", "bash": "shell", "ps1": "powershell", "sql": "sql", "lua": "lua", "r": "r",
    "jl": "julia", "pl": "perl", "sol": "solidity", "vy": "vyper", "css": "css", "scss": "scss", "vue": "vue",
    "json": "json", "jsonl": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini", "cfg": "ini",
    "xml": "xml", "proto": "protobuf", "tf": "hcl", "dart": "dart", "ex": "elixir", "exs": "elixir", "hs": "haskell",
    "clj": "clojure", "erl": "erlang", "ml": "ocaml", "zig": "zig", "nim": "nim", "graphql": "graphql",
}  # fmt: skip


def detect(data: bytes, name: str) -> str:
    """The key in `PARSERS` for these bytes.

    Raises:
        RejectedInput: code `unsupported`, naming what the bytes look like.
    """
    head = data[:HEAD_BYTES]
    if b"%PDF-" in head[:1024]:
        return "pdf"
    looks = _looks_like(data, head)
    if looks:
        raise RejectedInput(
            "unsupported", f"{name} looks like {looks}, which can't be read", remedy="Convert it, or ignore it."
        )
    kind = KIND_OF_EXTENSION.get(extension(name), "")
    if not kind and extension(name) in LANGUAGE_OF_EXTENSION:
        kind = "code"
    if kind in {"", "text"} and _HTML_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    if not kind and head.startswith(b"#!"):
        return "code"
    return kind or "text"


def extension(name: str) -> str:
    """Lower-case file extension without the dot; empty for names without one."""
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return suffix.lower() if dot and stem else ""


def language(data: bytes, name: str) -> str:
    """Programming language of code, by extension or by the first line's interpreter; empty if unknown."""
    known = LANGUAGE_OF_EXTENSION.get(extension(name), "")
    first = data[:128].partition(b"\n")[0]
    return "python" if not known and first.startswith(b"#!") and b"python" in first else known


def _looks_like(data: bytes, head: bytes) -> str:
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return next((what for mark, what in _ZIP if mark in data[-65536:] or mark in head), "a zip archive")
    if head[4:8] == b"ftyp":
        return "a film or picture (MP4 family)"
    if head.startswith(b"RIFF") and head[8:12] in {b"WAVE", b"AVI ", b"WEBP"}:
        return "a recording, film or picture (RIFF family)"
    return next((what for mark, what in _UNSUPPORTED if head.startswith(mark)), "")
