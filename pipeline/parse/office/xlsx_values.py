"""How a spreadsheet's stored values read: numbers, dates by their number format, escapes, formulas moved to a cell."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache

COLUMNS_MAX = 16_384
ROWS_MAX = 1_048_576
_LETTERS_MAX = 3
_SHORTEST = re.compile(r"-?(?:[1-9][0-9]{0,14}|0|(?:0|[1-9][0-9]{0,6})\.[0-9]{0,7}[1-9])")
"""Numbers that are written as they are shown: no zeros too many, no more than 15 digits."""
_WHOLE = re.compile(r"-?[0-9]{1,400}")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")

_CODE_CHARS_MAX = 255
"""Characters of a number format, as many as programs allow."""
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(50, 59)))
_DURATIONS = frozenset((45, 46, 47))
"""Numbers of formats that every workbook has without naming them: 46 is [h]:mm:ss, its neighbours are minutes."""
_LITERAL = re.compile(r'"[^"]*"|\\.|[_*].|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE | re.DOTALL)
"""What a number format writes as it stands: quoted and escaped characters, gaps, colours, currencies, conditions."""
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_DATE_LETTER = re.compile(r"[dmyhs]", re.IGNORECASE)

_EPOCH_1900 = datetime(1899, 12, 30)  # noqa: DTZ001 - a spreadsheet's dates have no zone
_EPOCH_1904 = datetime(1904, 1, 1)  # noqa: DTZ001
_FALSE_LEAP_DAY = 60
"""1900-02-29, which never was, has a number; those below it count from a day later."""
_WHOLE_BELOW = 1e16
"""Whole numbers from here on are written with an exponent."""
_LAST_DAY = 2_958_465
"""9999-12-31."""
_DAY_MS = 86_400_000

_REFERENCE = re.compile(
    r'"(?:[^"]|"")*"'
    r"|'(?:[^']|'')*'!?"
    r"|(?<![\w.$\[\]])(?P<cell>(\$?)([A-Za-z]{1,3})(\$?)([1-9][0-9]{0,6}))(?![\w.(\[!])"
    r"|(?<![\w.$\[\]])(?P<columns>(\$?)([A-Za-z]{1,3}):(\$?)([A-Za-z]{1,3}))(?![\w.($])"
    r"|(?<![\w.$\[\]])(?P<rows>(\$?)([1-9][0-9]{0,6}):(\$?)([1-9][0-9]{0,6}))(?![\w.($])"
)
"""What moves with a formula, after what doesn't: texts and quoted names of sheets."""
_NEWER = re.compile(r"_xl(?:fn|ws|pm|udf)\.")
"""Marks that files put before functions that older programs don't know; nobody sees them."""

FormatKind = str
"""`date`, `duration`, or empty for a number that is one."""


def format_kind(number: int, code: str | None) -> FormatKind:
    """What a number format makes of its numbers; `code` is None for those that every workbook has."""
    if code is None:
        return "date" if number in _DATES else "duration" if number in _DURATIONS else ""
    plain = _LITERAL.sub("", code[:_CODE_CHARS_MAX].partition(";")[0])
    if _ELAPSED.search(plain):
        return "duration"
    return "date" if plain.strip().lower() != "general" and _DATE_LETTER.search(plain) else ""


def shown(raw: str, kind: FormatKind, *, epoch_1904: bool = False) -> str:
    """A stored number as text: a date as ISO, a duration as h:mm:ss, else the shortest form of the number."""
    if kind:
        try:
            value = float(raw)
        except ValueError:
            return raw
        moment = _duration(value) if kind == "duration" else _moment(value, epoch_1904=epoch_1904)
        if moment:
            return moment
    return number_text(raw)


def number_text(raw: str) -> str:
    """A number's shortest form in the 15 digits that programs show; what isn't a number stays as it is."""
    if _SHORTEST.fullmatch(raw):
        return raw if raw != "-0" else "0"
    raw = raw.strip()
    if _WHOLE.fullmatch(raw):
        sign, digits = ("-", raw[1:]) if raw.startswith("-") else ("", raw)
        digits = digits.lstrip("0")
        return sign + digits if digits else "0"
    try:
        value = float(raw)
    except ValueError:
        return raw
    if not math.isfinite(value):
        return raw
    short = float(f"{value:.15g}")
    value = short if math.isfinite(short) else value
    return str(int(value)) if value.is_integer() and abs(value) < _WHOLE_BELOW else repr(value)


def iso_text(raw: str) -> str:
    """A date that is stored as ISO text, midnight left out as everywhere."""
    return re.sub(r"T00:00(?::00(?:\.0*)?)?Z?$", "", raw.strip())


def _duration(value: float) -> str:
    if not math.isfinite(value) or abs(value) > _LAST_DAY:
        return ""
    milliseconds = round(abs(value) * _DAY_MS)
    seconds, rest = divmod(milliseconds, 1000)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{'-' if value < 0 else ''}{text}{f'.{rest:03}' if rest else ''}"


def _moment(value: float, *, epoch_1904: bool) -> str:
    """ISO text of a serial number: a day, a day with a time, or a time where the number has no day."""
    if not 0 < value <= _LAST_DAY + 1:
        return ""  # 0 is an empty day in most workbooks, and programs show no date for the rest either
    milliseconds = round(value * _DAY_MS)
    day, rest = divmod(milliseconds, _DAY_MS)
    epoch = _EPOCH_1904 if epoch_1904 else _EPOCH_1900
    early = not epoch_1904 and 0 < day < _FALSE_LEAP_DAY
    try:
        moment = epoch + timedelta(days=day + early, milliseconds=rest)
    except OverflowError:
        return ""
    time = moment.time().isoformat("milliseconds" if rest % 1000 else "seconds")
    if value < 1 and day == 0:
        return time
    date = "1900-02-29" if not epoch_1904 and day == _FALSE_LEAP_DAY else moment.date().isoformat()
    return f"{date}T{time}" if rest else date


def unescaped(text: str) -> str:
    """A stored string as text: `_x000D_` and its like are characters; NULs, which no text holds, are blanks."""
    if "_x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)
        # Characters beyond the first plane come as two halves.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").replace("\0", " ")
    return text


def column_of(reference: str) -> int:
    """Column of a cell such as `B7`, from 1; 0 if there is no such cell."""
    letters = reference.rstrip("0123456789")
    return column_number(letters) if 0 < len(letters) <= _LETTERS_MAX and letters.isalpha() and letters.isascii() else 0


@lru_cache(maxsize=COLUMNS_MAX)
def column_number(letters: str) -> int:
    """1 for A, 28 for AB."""
    value = 0
    for letter in letters.upper():
        value = value * 26 + ord(letter) - 64
    return value


def column_letters(value: int) -> str:
    """A for 1, AB for 28."""
    letters = ""
    while value > 0:
        value, rest = divmod(value - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def formula_text(formula: str) -> str:
    """A formula as people see it."""
    return "=" + _NEWER.sub("", formula)


def moved(formula: str, down: int, right: int) -> str:
    """A formula as it reads in another cell: relative references move with it, past the sheet's edge to #REF!."""

    def column(fixed: str, letters: str) -> str:
        value = column_number(letters) + (0 if fixed else right)
        return fixed + column_letters(value) if 0 < value <= COLUMNS_MAX else ""

    def row(fixed: str, digits: str) -> str:
        value = int(digits) + (0 if fixed else down)
        return f"{fixed}{value}" if 0 < value <= ROWS_MAX else ""

    def move(found: re.Match[str]) -> str:
        groups = found.groups()
        if found.group("cell"):
            parts, between = (column(*groups[1:3]), row(*groups[3:5])), ""
        elif found.group("columns"):
            parts, between = _pair(column, groups[6:10]), ":"
        elif found.group("rows"):
            parts, between = _pair(row, groups[11:15]), ":"
        else:
            return found.group()
        return between.join(parts) if all(parts) else "#REF!"

    return _REFERENCE.sub(move, formula)


def _pair(one: Callable[[str, str], str], groups: tuple[str, ...]) -> tuple[str, str]:
    return one(groups[0], groups[1]), one(groups[2], groups[3])
