"""Filter columns: what the local index keeps so that filters and scopes hold inside a search, whatever its size.

For each segment and each metadata field but `text` there is one column. Where all values are numbers it holds them, and
not-a-number for rows that have none. Else it holds the distinct values, and for every row the number of its value, 0
where it has none: a condition is decided once for each distinct value, by the rule in `pipeline.filters`, and numpy
does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from pipeline.filters import ORDERINGS, Comparison, Filter, fields_of, holds, in_scope
from pipeline.types import Metadata, MetadataValue

Mask = npt.NDArray[np.bool_]

UNCOLUMNED = "text"
"""The one field without a column: it is most of the metadata, and filters hardly ever ask for it."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """One field of one segment, all of whose values are numbers."""

    values: npt.NDArray[np.float64]
    """(rows,); not-a-number for rows without the field. Exact: metadata holds no integer past 2^53."""


@dataclass(frozen=True, slots=True)
class Values:
    """One field of one segment."""

    codes: npt.NDArray[np.unsignedinteger]
    """(rows,); 0 for rows without the field, else the position in `values` plus 1."""
    values: tuple[MetadataValue, ...]


Column = Numbers | Values

_NUMBERS = "#"
"""Stands for the distinct values of a column of numbers."""


def columns(rows: Sequence[Metadata]) -> Iterator[tuple[str, Column]]:
    """Every field's column, by name."""
    found: dict[str, tuple[list[int], list[int], dict[tuple[type, MetadataValue], int]]] = {}
    for row, metadata in enumerate(rows):
        for name, value in metadata.items():
            if name == UNCOLUMNED:
                continue
            held = found.get(name)
            if held is None:
                held = found[name] = ([], [], {})
            kept = tuple(value) if isinstance(value, list) else value
            # In Python 1, 1.0 and True are equal; in metadata they are values of three types.
            held[0].append(row)
            held[1].append(held[2].setdefault((type(kept), kept), len(held[2]) + 1))
    for name, (at, codes, values) in sorted(found.items()):
        known = tuple(value for _, value in values)
        if all(kind in (int, float) for kind, _ in values):
            numbers = np.full(len(rows), np.nan)
            numbers[at] = np.array(known, np.float64)[np.array(codes) - 1]
            yield name, Numbers(numbers)
            continue
        array = np.zeros(len(rows), np.min_scalar_type(len(known)))
        array[at] = codes
        yield name, Values(array, known)


def encode(column: Column) -> tuple[bytes, str]:
    """Rows and distinct values as they are stored; the width of codes follows from the number of values."""
    if isinstance(column, Numbers):
        return column.values.astype("<f8").tobytes(), _NUMBERS
    wide = column.codes.astype(column.codes.dtype.newbyteorder("<"))
    return wide.tobytes(), json.dumps(column.values, separators=(",", ":"))


def decode(codes: bytes, values: str) -> Column:
    """Back from the stored form."""
    if values == _NUMBERS:
        return Numbers(np.frombuffer(codes, "<f8"))
    known = tuple(json.loads(values))
    if "[" in values[1:]:
        known = tuple(tuple(value) if isinstance(value, list) else value for value in known)
    return Values(np.frombuffer(codes, np.min_scalar_type(len(known)).newbyteorder("<")), known)


class Rule:
    """A filter and a scope, decided once for each distinct value of a search, whatever the number of segments."""

    def __init__(self, condition: Filter | None, scope: Sequence[str]) -> None:
        self.condition = condition
        self.scope = tuple(scope)
        self.unknown = set(fields_of(condition)) if condition else set()
        """Fields of the filter that no segment has had so far."""
        self._decided: dict[object, dict[tuple[type, MetadataValue], bool]] = {}

    def allowed(self, read: Callable[[str], Column | None], rows: int) -> Mask | None:
        """Which rows of a segment may be found; None for all.

        Args:
            read: a field's column; None where no row has the field.
            rows: rows of the segment.
        """
        inside = None
        if self.scope:
            inside = self._mask(read("source_path"), "scope", self._in_scope, rows)
        if self.condition is None or (inside is not None and not inside.any()):
            return inside
        fits = self._passing(self.condition, read, rows)
        return fits if inside is None else inside & fits

    def _in_scope(self, path: MetadataValue | None) -> bool:
        return in_scope(str(path or ""), self.scope)

    def _passing(self, condition: Filter, read: Callable[[str], Column | None], rows: int) -> Mask:
        if isinstance(condition, Comparison):
            column = read(condition.field)
            if column is not None:
                self.unknown.discard(condition.field)
            return self._mask(column, condition, lambda value: holds(condition, value), rows)
        parts = [self._passing(part, read, rows) for part in condition.parts]
        if condition.operator == "$and":
            return reduce(np.logical_and, parts, np.ones(rows, np.bool_))
        return reduce(np.logical_or, parts, np.zeros(rows, np.bool_))

    def _mask(
        self, column: Column | None, key: object, decide: Callable[[MetadataValue | None], bool], rows: int
    ) -> Mask:
        if column is None:
            return np.full(rows, decide(None))
        if isinstance(column, Numbers):
            return _numbers(column.values, key) if isinstance(key, Comparison) else np.full(rows, decide(None))
        known = self._decided.setdefault(key, {})
        verdicts = list(map(known.get, zip(map(type, column.values), column.values, strict=True)))
        if None in verdicts:
            for at, value in enumerate(column.values):
                if verdicts[at] is None:
                    verdicts[at] = known[type(value), value] = decide(value)
        mask: Mask = np.array([decide(None), *verdicts], np.bool_)[column.codes]
        return mask


def _numbers(values: npt.NDArray[np.float64], comparison: Comparison) -> Mask:
    """The rules of `pipeline.filters.holds` for numbers; tests hold the two together."""
    operator, operands = comparison.operator, comparison.operands
    if operator == "$exists":
        there: Mask = ~np.isnan(values) if operands[0] else np.isnan(values)
        return there
    wanted = [float(operand) for operand in operands if not isinstance(operand, (bool, str))]
    if operator in ORDERINGS:
        held: Mask = ORDERINGS[operator](values, wanted[0]) if wanted else np.zeros(len(values), np.bool_)
        return held
    found: Mask = np.isin(values, wanted)
    return found if operator in ("$eq", "$in") else ~found


def text_column(texts: Mapping[int, str | None], rows: int) -> Column:
    """The column of `text`, made for one question from the texts themselves, slot to text."""
    codes = np.zeros(rows, np.uint32)
    values: list[MetadataValue] = []
    for slot, text in texts.items():
        if text is not None:
            values.append(text)
            codes[slot] = len(values)
    return Values(codes, tuple(values))
