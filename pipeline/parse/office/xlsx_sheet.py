"""A worksheet's rows, streamed: only cells that hold something exist, whatever the sheet says of its size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from pipeline.parse.decode import clean
from pipeline.parse.markdown_inline import without_payloads
from pipeline.parse.office.ooxml import Package, child, number
from pipeline.parse.office.xlsx_values import (
    COLUMNS_MAX,
    ROWS_MAX,
    FormatKind,
    column_of,
    format_kind,
    formula_text,
    iso_text,
    moved,
    shown,
    unescaped,
)

CELLS_MAX = 3_000_000
"""Filled cells of one workbook; that many take about a minute to read."""
CHARS_MAX = 64 << 20
"""Characters of all cells: a long text is stored once and may fill a million cells."""


@dataclass(frozen=True, slots=True)
class Row:
    """The filled cells of one row."""

    number: int
    """From 1; larger than that of the row before."""
    columns: tuple[int, ...]
    """From 1, rising."""
    values: tuple[str, ...]
    typed: tuple[int, ...]
    """Columns whose values are numbers, dates, booleans or errors."""


@dataclass(slots=True)
class Book:
    """What the cells of all sheets refer to."""

    package: Package
    strings: list[str]
    kinds: list[FormatKind]
    """What each cell format makes of numbers."""
    epoch_1904: bool
    cells: int = 0
    """Filled cells read so far."""
    chars: int = 0
    _patterns: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    """Columns of rows; most rows of a table have the same, and it is held once."""

    def rows(self, part: str) -> Iterator[Row]:
        """Rows that hold something, top to bottom; a row that stands above its predecessor counts as the next one."""
        shared: dict[str, tuple[str, int, int]] = {}
        last = 0
        for element in self.package.elements(part, "s:row"):
            at = number(element.get("r"))
            last = at if last < at <= ROWS_MAX else last + 1
            cells = {}
            column = 0
            for one in element:
                if one.tag == "s:c":
                    column = column_of(one.get("r", "")) or column + 1
                    value, typed = self._cell(one, (last, column), shared)
                    if value and not value.isspace():
                        cells[column] = (without_payloads(clean(value)), typed)
            if cells:
                yield self._row(last, cells)

    def _row(self, at: int, cells: dict[int, tuple[str, bool]]) -> Row:
        columns = sorted(cells)
        if columns[-1] > COLUMNS_MAX:
            raise self.package.broken(f"row {at} has more than {COLUMNS_MAX:,} cells")
        values = tuple(cells[column][0] for column in columns)
        self.cells += len(values)
        self.chars += sum(map(len, values))
        if self.cells > CELLS_MAX:
            raise self.package.too_large(f"{CELLS_MAX:,} filled cells")
        if self.chars > CHARS_MAX:
            raise self.package.too_large(f"{CHARS_MAX:,} characters of text")
        return Row(at, self._held(columns), values, self._held([column for column in columns if cells[column][1]]))

    def _held(self, columns: list[int]) -> tuple[int, ...]:
        key = tuple(columns)
        return self._patterns.setdefault(key, key)

    def _cell(self, cell: Element, at: tuple[int, int], shared: dict[str, tuple[str, int, int]]) -> tuple[str, bool]:
        """Text of a cell, and whether it's something else than text; the formula where no value is stored."""
        kind, raw, formula, inline = cell.get("t", "n"), None, None, None
        for one in cell:
            if one.tag == "s:v":
                raw = one.text or ""
            elif one.tag == "s:f":
                formula = one
            elif one.tag == "s:is":
                inline = one
        written = "" if formula is None else _formula(formula, at, shared)
        if kind == "inlineStr":
            return (unescaped(string_text(inline)) if inline is not None else written), False
        if raw is None or (not raw and kind != "str"):
            return written, True
        return self._value(kind, raw, cell.get("s"))

    def _value(self, kind: str, raw: str, style: str | None) -> tuple[str, bool]:
        if kind == "s":
            at = number(raw, -1)
            return (self.strings[at] if 0 <= at < len(self.strings) else ""), False
        if kind == "str":
            return unescaped(raw), False
        if kind == "b":
            return ("TRUE" if raw.strip() in {"1", "true"} else "FALSE"), True
        if kind in {"e", "d"}:
            return (iso_text(raw) if kind == "d" else raw), True
        at = number(style)
        return shown(raw, self.kinds[at] if 0 <= at < len(self.kinds) else "", epoch_1904=self.epoch_1904), True


def _formula(element: Element, at: tuple[int, int], shared: dict[str, tuple[str, int, int]]) -> str:
    """A formula's text; one that is shared is written at its first cell only."""
    text, kind, key = element.text or "", element.get("t", ""), element.get("si", "")
    if kind == "shared":
        if text:
            shared[key] = (text, *at)
        elif key in shared:
            first, row, column = shared[key]
            text = moved(first, at[0] - row, at[1] - column)
    elif kind == "dataTable":
        text = f"TABLE({','.join(cell for name in ('r1', 'r2') if (cell := element.get(name, '')))})"
    return formula_text(text) if text else ""


def string_text(element: Element) -> str:
    """A string's text with or without runs of formatting; how it's pronounced is left out."""
    parts = []
    for one in element:
        if one.tag == "s:t":
            parts.append(one.text or "")
        elif one.tag == "s:r":
            parts += [text.text or "" for text in one if text.tag == "s:t"]
    return "".join(parts)


def read_strings(package: Package, parts: list[str]) -> list[str]:
    """The workbook's table of strings."""
    held: list[str] = []
    size = 0
    for part in parts[:1]:
        for one in package.elements(part, "s:si"):
            held.append(unescaped(string_text(one)))
            size += len(held[-1])
            if size > CHARS_MAX:
                raise package.too_large(f"{CHARS_MAX:,} characters of text")
    return held


def read_kinds(package: Package, parts: list[str]) -> list[FormatKind]:
    """What each cell format makes of numbers, from the workbook's styles."""
    root = package.optional(parts[0]) if parts else None
    if root is None:
        return []
    own = child(root, "s:numFmts")
    codes = {number(one.get("numFmtId"), -1): one.get("formatCode", "") for one in (() if own is None else own)}
    kinds = {code: format_kind(code, text) for code, text in codes.items()}
    formats = child(root, "s:cellXfs")
    found = []
    for one in () if formats is None else formats:
        code = number(one.get("numFmtId"))
        found.append(kinds[code] if code in kinds else format_kind(code, None))
    return found


def reads_1904(workbook: Element) -> bool:
    """Whether the workbook counts days from 1904."""
    properties = child(workbook, "s:workbookPr")
    return properties is not None and properties.get("date1904", "0") in {"1", "true"}
