"""Jupyter notebooks: Markdown cells as they are, code and the text of outputs fenced; no pictures, no JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from pipeline.errors import RejectedInput
from pipeline.parse import html, markdown
from pipeline.parse.decode import clean, decode
from pipeline.types import ParsedDocument

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Terminal colour sequences, and control characters that no text needs."""
_OBJECT = re.compile(r"<[\w.]+(?: object)?(?: at 0x[0-9a-f]+)?>")
"""What stands for an object that shows itself otherwise."""
_FENCES = re.compile(r"^\s*(`{3,})", re.MULTILINE)


def parse(data: bytes, name: str) -> ParsedDocument:
    """A notebook as a Markdown document of kind `notebook`.

    Raises:
        RejectedInput: code `notebook_broken`.
    """
    text, warnings = decode(data)
    try:
        notebook = json.loads(text)
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        language = _language(notebook)
        parts = [part.strip("\n") for cell in cells for part in _cell(cell, language)]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise RejectedInput("notebook_broken", f"{name} isn't a notebook that can be read: {error}") from error
    body = clean("\n\n".join(part for part in parts if part.strip()) + "\n")
    # A rule at the start of a first cell is a rule, not front matter.
    return markdown.from_text("\n" + body, warnings, kind="notebook")


def _language(notebook: dict[str, object]) -> str:
    metadata = notebook.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    found = kernel.get("language", "") if isinstance(kernel, dict) else ""
    return found if isinstance(found, str) and re.fullmatch(r"[\w+#-]{1,30}", found) else ""


def _cell(cell: dict[str, object], language: str) -> Iterator[str]:
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") == "code":
        yield _fenced(source, language)
        outputs = cell.get("outputs")
        for output in outputs if isinstance(outputs, list) else []:
            yield from _shown(output)
    elif cell.get("cell_type") == "raw":
        yield _fenced(source, "")
    elif cell.get("cell_type") == "heading":  # before format 4
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 1 <= level <= 6 else 1)} {' '.join(source.split())}"  # noqa: PLR2004
    else:
        yield source


def _shown(output: dict[str, object]) -> Iterator[str]:
    """An output's text, fenced; where its text only names an object, what Markdown or HTML shows of it."""
    if output.get("output_type") in {"error", "pyerr"}:
        yield _fenced(f"{output.get('ename', '')}: {output.get('evalue', '')}", "")
        return
    data = output.get("data")
    if not isinstance(data, dict):
        yield _fenced(_joined(output.get("text") if data is None else ""), "")
        return
    text = _joined(data.get("text/plain"))
    if not text.strip() or _OBJECT.fullmatch(text.strip()):
        if (markdown_text := _joined(data.get("text/markdown"))).strip():
            yield _ESCAPES.sub("", markdown_text)
            return
        if page := _joined(data.get("text/html")).strip():
            # As a page of its own; its headings are no headings of the notebook.
            yield _fenced(html.parse(clean(page).encode("utf-8"), "").text, "") or _fenced(text, "")
            return
    yield _fenced(text, "")


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _fenced(text: str, language: str) -> str:
    text = _ESCAPES.sub("", text).strip("\n")
    if not text.strip():
        return ""
    inside = max((len(mark) for mark in _FENCES.findall(text)), default=0)
    fence = "`" * max(3, inside + 1)
    return f"{fence}{language}\n{text}\n{fence}"
