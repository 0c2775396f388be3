"""CSV: records in one normal form (commas, minimal quotes), whichever delimiter and quotes the source has."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
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
_NUMBER = re.compile(r"\s*[-+]?[\d.,' ]*\d%?\s*")

# The library's limit of 131,072 characters a field is a guard for streams; sources are bounded before they get here.
csv.field_size_limit(2**31 - 1)


def parse(data: bytes, name: str) -> ParsedDocument:
    """A table of records: one `row` block each, the header apart in `header`.

    Blank records are dropped, short ones filled up, surplus values kept; both are named in warnings by line.

    Raises:
        RejectedInput: code `csv_broken`.
    """
    text, warnings = decode(data)
    text = without_payloads(text)
    delimiter = _delimiter(text, name)
    try:
        # A line after the last tells whether a quote is still open there: it would become part of a value.
        records = list(_records(f"{text}\n{_END}", delimiter, csv.QUOTE_MINIMAL))
        if records.pop()[1] != [_END]:
            records = list(_records(text, delimiter, csv.QUOTE_NONE))
            warnings = (*warnings, "a quote is never closed; quotes are read as ordinary characters")
    except csv.Error as error:
        raise RejectedInput("csv_broken", f"{name} can't be read as CSV: {error}") from error
    header = records[0][1] if has_header([record for _, record in records[:2]]) else []
    rows = records[1:] if header else records
    width = len(header) or Counter(len(row) for _, row in rows).most_common(1)[0][0] if records else 0
    ragged = [(line, len(row)) for line, row in rows if len(row) != width]
    parts = [_line(row + [""] * (width - len(row))) for _, row in rows]
    blocks, at = [], 0
    for part in parts:
        blocks.append(Block("row", at, at + len(part)))
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
    """The first record names columns if others follow, most of it is filled and none of it is a number."""
    if len(records) < 2:  # noqa: PLR2004 - a header and one record
        return False
    first = records[0]
    filled = [text for value in first if (text := value.strip())]
    return len(filled) * 2 > len(first) and not any(_NUMBER.fullmatch(value) for value in filled)


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
