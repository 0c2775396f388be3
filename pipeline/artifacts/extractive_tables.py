"""Rows and values out of a text's own tables, labelled lines and dates, for the extractive model. Pure."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.artifacts import names
from pipeline.models import DocumentTask, TypeSpec

_OPEN = re.compile(r'(?:^|[,;\t])\s*"(?:[^"]|"")*$')
"""A line that ends within a quoted cell."""
CELL_LINES_MAX = 50
"""Lines of one quoted cell."""
DATE = re.compile(
    r"\b(?:\d{4}-\d{2}-\d{2}|\d{1,2}\.?\s+(?:January|February|March|April|May|June|July|August|September|October|November|"
    r"December)(?:\s+\d{4})?|(?:January|February|March|April|May|June|July|August|September|October|November|December)"
    r"\s+\d{1,2}(?:,\s*\d{4})?|(?:January|February|March|April|May|June|July|August|September|October|November|December)"
    r"\s+\d{4}|(?:in|since|until|from|by)\s+(?:1[5-9]|20)\d{2})\b"
)
"""Dates as English texts write them."""
_LABELLED = re.compile(
    r"^[\s>*+-]*(?:\*\*|__)?([^\W\d_][^:\n|]{0,60}?)(?:\*\*|__)?\s*:(?:\*\*|__)?\s*(\S.*?)\s*$", re.MULTILINE
)


def columns_of(spec: TypeSpec) -> list[str]:
    """The columns' names."""
    return [name for name, _, _ in spec.columns]


def rows_of(task: DocumentTask) -> list[dict[str, Any]]:
    """Rows of the text's own tables whose headers name columns; else one row from labelled lines."""
    rows = [row for header, cells in _tables_of(task) for row in _table_rows(task.type, header, cells)]
    if rows:
        return rows
    row = values_of(task.type, task.text, task.title)
    return [row] if any(cell is not None for cell in row.values()) else []


def _tables_of(task: DocumentTask) -> Iterable[tuple[list[str], list[list[str]]]]:
    if not task.header:
        return _tables(task.text)
    if task.header.count("|") >= 2:  # noqa: PLR2004 - a row has a pipe at either end
        return _tables(f"{task.header.rstrip()}\n{task.text}")
    try:
        header, *records = csv.reader(io.StringIO(task.header + task.text, newline=""))
    except (csv.Error, ValueError):
        return _tables(task.text)
    # Where the table ends amid the text, lines of another width follow: they are no rows of it.
    table = [cells for cells in records if len(cells) == len(header)]
    return [(header, table), *_tables(task.text)] if len(table) < len(records) else [(header, table)]


def _tables(text: str) -> Iterable[tuple[list[str], list[list[str]]]]:
    """Header and rows of pipe tables and of lines with commas or tabs under a header of as many fields."""
    block: list[list[str]] = []
    for raw in [*_records(text.splitlines()), ""]:
        line = raw.strip()
        cells = _cells(line)
        if cells is not None and (not block or len(cells) == len(block[0])):
            block.append(cells)
            continue
        if len(block) > 1:
            yield block[0], [r for r in block[1:] if not all(re.fullmatch(r":?-+:?", c) for c in r)]
        block = [cells] if cells is not None else []


def _records(lines: Sequence[str]) -> Iterable[str]:
    """Lines, of which those that a quoted cell holds the ends of are joined."""
    held: list[str] = []
    for line in lines:
        held.append(line)
        if _OPEN.search(held[0]) and sum(part.count('"') for part in held) % 2 and len(held) < CELL_LINES_MAX:
            continue
        # Where the quote is never closed it was no cell's: each line stands for itself again.
        yield from ["\n".join(held)] if '"' in held[-1] else held
        held = []
    yield from held


def _cells(line: str) -> list[str] | None:
    if line.count("|") >= 2:  # noqa: PLR2004 - a row has a pipe at either end
        return [c.strip() for c in line.strip("|").split("|")]
    for mark in ("\t", ";", ","):
        if line.count(mark) >= 1 and not line.endswith("."):
            return _quoted(line, mark) if '"' in line else [c.strip() for c in line.split(mark)]
    return None


def _quoted(line: str, mark: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line, newline=""), delimiter=mark, skipinitialspace=True))
    except csv.Error:
        return [c.strip().strip('"') for c in line.split(mark)]


def _table_rows(spec: TypeSpec, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[dict[str, Any]]:
    places = {name: i for i, title in enumerate(header) if (name := _column_for(spec, title)) is not None}
    if not places or (spec.natural_key and not any(k in places for k in spec.natural_key)):
        return
    for row in rows:
        yield {name: _cell(row[places[name]], kind) if name in places else None for name, kind, _ in spec.columns}


def _column_for(spec: TypeSpec, title: str) -> str | None:
    wanted = names.normal(title.replace("_", " "))
    return next((name for name, _, _ in spec.columns if names.normal(name.replace("_", " ")) == wanted), None)


def values_of(spec: TypeSpec, text: str, name: str) -> dict[str, Any]:
    """Columns from lines `Column: value`, from dates and numbers beside the column's name, and from the name itself."""
    labelled = {names.normal(hit.group(1)): hit.group(2) for hit in _LABELLED.finditer(text)}
    row: dict[str, Any] = {}
    for column, kind, _ in spec.columns:
        plain = names.normal(column.replace("_", " "))
        cell = _cell(labelled[plain], kind) if plain in labelled else None
        if cell is None and plain in ("name", "title", names.normal(spec.name)):
            cell = _cell(name, kind)
        if cell is None and "date" in plain.split():
            date = DATE.search(text)
            cell = _cell(date.group(), kind) if date else None
        row[column] = cell
    return row


def _cell(text: str, kind: str) -> Any:
    text = text.strip()
    if not text or text.casefold() in ("null", "none", "n/a", "-"):
        return None
    if kind == "TEXT":
        return text
    plain = re.sub(r"(?<=\d)[,\u202f ](?=\d{3}\b)", "", text)
    hit = re.search(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", plain)
    number = float(hit.group()) if hit else math.inf
    if not math.isfinite(number):
        return None if kind in ("INTEGER", "REAL") else text
    return int(number) if kind == "INTEGER" or (kind == "NUMERIC" and number.is_integer()) else number
