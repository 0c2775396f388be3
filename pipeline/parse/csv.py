"""CSV: records in one normal form (commas, minimal quotes), whichever delimiter and quotes the source has."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from pipeline.errors import RejectedInput
from pipeline.parse.decode import decode
from pipeline.parse.detect import extension
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, ParsedDocument

SAMPLE_CHARS = 64 * 1024
"""Text at the start that decides the delimiter."""
SAMPLE_RECORDS = 50
WARNINGS_MAX = 20
"""Ragged records that are named one by one."""

_DELIMITERS = (",", ";", "\t", "|")
_END = "\x03end of records"
_DECLARED = re.compile(r"\s*sep=([,;\t|])[ \t]*(?=\n)", re.IGNORECASE)
"""The first line by which spreadsheets are told the delimiter; it's no record."""
_PREAMBLE_MAX = 20
"""Records above the header: titles, dates and notes of whoever exported the table."""
YEAR = re.compile(r"\s*(?:19|20)\d\d\s*")
_YEARS_APART_MAX = 10
_NUMBER = re.compile(r"\s*[-+]?[\d.,' ]*\d%?\s*")

# The library's limit of 131,072 characters a field is a guard for streams; sources are bounded before they get here.
csv.field_size_limit(2**31 - 1)


def parse(data: bytes, name: str) -> ParsedDocument:
    """A table of records: one `row` block each, the header apart in `header`.

    Blank records are dropped, short ones filled up, surplus values kept; both are named in warnings by line. What
    stands above the header (titles, dates) is a paragraph for each record.

    Raises:
        RejectedInput: code `csv_broken`.
    """
    text, warnings = decode(data)
    text = without_payloads(text)
    declared = _DECLARED.match(text)
    text = text[declared.end() :] if declared else text
    delimiter = declared.group(1) if declared else _delimiter(text, name)
    try:
        # A line after the last tells whether a quote is still open there: it would become part of a value.
        records = list(_records(f"{text}\n{_END}", delimiter, csv.QUOTE_MINIMAL))
        if records.pop()[1] != [_END]:
            records = list(_records(text, delimiter, csv.QUOTE_NONE))
            warnings = (*warnings, "a quote is never closed; quotes are read as ordinary characters")
    except csv.Error as error:
        raise RejectedInput("csv_broken", f"{name} can't be read as CSV: {error}") from error
    above = _above([record for _, record in records[: _PREAMBLE_MAX + 2]], _width(records))
    preamble, records = records[:above], records[above:]
    header = records[0][1] if has_header([record for _, record in records[:2]]) else []
    rows = records[1:] if header else records
    width = len(header) or _width(rows)
    ragged = [(line, len(row)) for line, row in rows if len(row) != width]
    notes = [_line(_filled(row)) for _, row in preamble]
    parts = notes + [_line(row + [""] * (width - len(row))) for _, row in rows]
    blocks, at = [], 0
    for number, part in enumerate(parts):
        blocks.append(Block("paragraph" if number < len(notes) else "row", at, at + len(part)))
        at += len(part)
    return ParsedDocument(
        kind="csv",
        text="".join(parts),
        blocks=tuple(blocks),
        header=_line(header) if header else "",
        warnings=(*warnings, *_ragged(ragged, width)),
    )


def columns(document: ParsedDocument) -> list[str]:
    """Names of the columns, in order; empty without a header."""
    return next(csv.reader(io.StringIO(document.header, newline="")), [])


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """The first record names columns if others follow, most of it is filled and none of it is a number but years."""
    if len(records) < 2:  # noqa: PLR2004 - a header and one record
        return False
    first = records[0]
    filled = _filled(first)
    if len(filled) * 2 <= len(first):
        return False
    numbers = [at for at, value in enumerate(first) if _NUMBER.fullmatch(value)]
    return not numbers or (not _NUMBER.fullmatch(filled[0]) and _are_years(first, records[1], numbers))


def _are_years(first: Sequence[str], second: Sequence[str], places: list[int]) -> bool:
    """Whether a record has years at these places, in even steps, and the next one has none there."""
    if len(places) < 2 or not all(YEAR.fullmatch(first[at]) for at in places):  # noqa: PLR2004 - two make a step
        return False
    if any(at < len(second) and YEAR.fullmatch(second[at]) for at in places):
        return False
    years = [int(first[at]) for at in places]
    steps = {later - earlier for earlier, later in pairwise(years)}
    return len(steps) == 1 and 0 < abs(steps.pop()) <= _YEARS_APART_MAX


def _filled(record: Sequence[str]) -> list[str]:
    return [text for value in record if (text := value.strip())]


def _width(records: Sequence[tuple[int, Sequence[str]]]) -> int:
    """Values of most records."""
    return Counter(len(row) for _, row in records).most_common(1)[0][0] if records else 0


def _above(records: Sequence[Sequence[str]], width: int) -> int:
    """How many records stand above a header: far fewer values than columns in each, and a full row of names below."""
    for at, record in enumerate(records[: _PREAMBLE_MAX + 1]):
        filled = len(_filled(record))
        if filled * 2 < width or (filled == 1 == len(record) < width):
            continue
        return at if len(record) == width and has_header(records[at : at + 2]) else 0
    return 0


def _records(text: str, delimiter: str, quoting: Literal[0, 3]) -> Iterator[tuple[int, list[str]]]:
    """Records that aren't blank, each with the number of its first line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
    line = 1
    for record in reader:
        if any(value.strip() for value in record):
            yield line, record
        line = reader.line_num + 1


def _delimiter(text: str, name: str) -> str:
    """The delimiter that divides most sampled records into the same number of values, two at least."""
    sample = text[:SAMPLE_CHARS]
    best, best_score = "\t" if extension(name) == "tsv" else ",", 0.0
    for delimiter in _DELIMITERS:
        widths: Counter[int] = Counter()
        try:
            for _, record in _records(sample, delimiter, csv.QUOTE_MINIMAL):
                widths[len(record)] += 1
                if widths.total() == SAMPLE_RECORDS:
                    break
        except csv.Error:
            continue
        if not widths:
            continue
        width, agreeing = widths.most_common(1)[0]
        # A comma inside prose gives ragged widths; agreement counts first, the number of columns breaks ties.
        score = agreeing / widths.total() + min(width, 100) / 1000 if width > 1 else 0.0
        if score > best_score + 1e-9:
            best, best_score = delimiter, score
    return best


def _line(record: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(record)
    return out.getvalue()


def _ragged(found: list[tuple[int, int]], width: int) -> Iterator[str]:
    for line, values in found[:WARNINGS_MAX]:
        yield f"line {line}: {values} values where {width} were wanted"
    if len(found) > WARNINGS_MAX:
        yield f"{len(found) - WARNINGS_MAX} more lines have another number of values than {width}"
