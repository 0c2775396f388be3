"""Tables of a parsed document as columns and records, read back from its blocks. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.types import Block, ParsedDocument

_PIPE = re.compile(r"(?<!\\)\|")
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")


@dataclass(frozen=True, slots=True)
class Table:
    """One table: values as people read them, always text."""

    start: int
    """First code point in the document's text; a CSV document's header stands before it."""
    end: int
    columns: tuple[str, ...]
    """Names in the header; empty where there is none."""
    rows: tuple[tuple[str, ...], ...]

    def records(self) -> Iterator[dict[str, str]]:
        """Each row by column name; values past the last column under `column N`, counted from 1."""
        for row in self.rows:
            yield {(self.columns[i] if i < len(self.columns) else f"column {i + 1}"): v for i, v in enumerate(row)}


def tables(document: ParsedDocument) -> Iterator[Table]:
    """The document's tables in order; those of its parts are the parts' own."""
    rows = [block for block in document.blocks if block.kind == "row"]
    if rows:
        columns = next(iter(_records(document.header)), ())
        body = document.text[rows[0].start : rows[-1].end]
        yield Table(rows[0].start, rows[-1].end, columns, tuple(_records(body)))
    for block in document.blocks:
        if block.kind == "records":
            yield _table(block, list(_records(document.text[block.start : block.end])))
        elif block.kind == "table":
            lines = document.text[block.start : block.end].splitlines()
            yield _table(block, [_cells(line) for line in lines if line.strip() and not _DELIMITER.match(line)])


def _table(block: Block, rows: list[tuple[str, ...]]) -> Table:
    columns, body = (rows[0], rows[1:]) if block.header_end and rows else ((), rows)
    return Table(block.start, block.end, columns, tuple(body))


def _records(text: str) -> Iterator[tuple[str, ...]]:
    return (tuple(row) for row in csv.reader(io.StringIO(text, newline="")) if row)


def _cells(line: str) -> tuple[str, ...]:
    cells = _PIPE.split(line.strip())
    cells = cells[1:] if cells and not cells[0].strip() else cells
    cells = cells[:-1] if cells and not cells[-1].strip() else cells
    return tuple(cell.strip().replace("\\|", "|") for cell in cells)
