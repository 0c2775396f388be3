"""Which rows of a sheet make one table. A blank row parts two tables only if they clearly differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pipeline.parse.csv import YEAR, has_header
from pipeline.parse.office.xlsx_sheet import Row

_LOOKED_AT = 50
"""Rows at the start of a group that decide what it is."""
_TITLED_WIDTH = 3
"""Columns that a table has at least if a lone cell above it is taken for its title: in two it may be a row."""
ALIGNED_MAX = 50_000_000
"""Cells of a table, blank ones included: beyond, columns aren't kept in line."""


def regions(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows in groups, in order; each is one table, or a title or note beside tables."""
    groups = _groups(rows)
    current = next(groups, None)
    group = next(groups, None)
    while current is not None and group is not None:
        following = next(groups, None)
        if _differs(current, group, following):
            yield current
            current = group
        else:
            current += group
        group = following
    if current is not None:
        yield current


def titles(region: Sequence[Row]) -> int:
    """Rows at the top that are titles over the table: a lone text each; all of them where there is no table."""
    lone = next((at for at, row in enumerate(region) if len(row.columns) > 1 or row.typed), len(region))
    if lone == len(region):
        return lone if lone == 1 else 0
    return lone if len(_columns(region)) >= _TITLED_WIDTH else 0


def aligned(region: Sequence[Row]) -> tuple[list[int], Iterator[Sequence[str]]]:
    """The columns in use, and the rows' values in line with them; as they are where that would be mostly blanks."""
    columns = sorted({column for row in region for column in row.columns})
    if len(columns) * len(region) > ALIGNED_MAX:
        return [], (row.values for row in region)
    return columns, _in_line(region, columns)


def is_headed(region: Sequence[Row]) -> bool:
    """Whether the first row names the columns: as in CSV, and nothing but text stands in it, or years."""
    first = region[0]
    typed = set(first.typed)
    if any(
        column in typed and not YEAR.fullmatch(value) for column, value in zip(first.columns, first.values, strict=True)
    ):
        return False
    # Alignment with the columns in use tells a header from a lone cell above many columns.
    top = region[:_LOOKED_AT]
    return has_header(list(islice(_in_line(top, sorted(_columns(top))), 2)))


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows that follow each other without a blank one between."""
    group: list[Row] = []
    for row in rows:
        if group and row.number > group[-1].number + 1:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _differs(above: list[Row], below: list[Row], following: list[Row] | None) -> bool:
    """Whether two groups are two tables, or a table and a title or note."""
    left, right = _columns(above), _columns(below)
    if len(right) == 1 < len(left):
        # A lone column of text among rows of the same table is a heading in it; at the end it's a note.
        return following is None or len(_columns(following)) == 1 or is_headed(following)
    if len(left) == 1 < len(right):
        return True
    above, below = _untitled(above), _untitled(below)
    left, right = _columns(above), _columns(below)
    if not is_headed(below):
        return False
    if (min(left), max(left)) != (min(right), max(right)) or below[0].values == above[0].values:
        return True
    # Text where the table above has numbers is a header, not a row.
    return bool({column for row in above[:_LOOKED_AT] for column in row.typed} & set(below[0].columns))


def _untitled(group: list[Row]) -> list[Row]:
    """A group without the lone texts over it; as it is where nothing else is in it."""
    lone = next((at for at, row in enumerate(group) if len(row.columns) > 1 or row.typed), 0)
    return group[lone:]


def _columns(region: Sequence[Row]) -> set[int]:
    return {column for row in region[:_LOOKED_AT] for column in row.columns}


def _in_line(region: Sequence[Row], columns: list[int]) -> Iterator[Sequence[str]]:
    places = {column: place for place, column in enumerate(columns)}
    whole = tuple(columns)
    for row in region:
        if row.columns == whole:
            yield row.values
        else:
            line = [""] * len(columns)
            for column, value in zip(row.columns, row.values, strict=True):
                line[places[column]] = value
            yield line
