"""Checks a cron expression of five fields: minute, hour, day of month, month, day of week.

The common ground of the usual cron programs: `*`, numbers, names of months and days, `a-b`, lists, and steps after
`*` or a range. When a schedule is due is for the scheduler to compute, not for this module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """Names for `low`, `low + 1`, ..."""


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class CronError(ValueError):
    """An expression that no schedule follows from; the text says which field and why."""


def check_cron(expression: str) -> None:
    """Refuse an expression that isn't five valid fields, or that no calendar day ever meets.

    Raises:
        CronError: saying in plain words what is wrong.

    """
    if expression.strip() in _NICKNAMES:
        raise CronError(f"nicknames are not taken; write {_NICKNAMES[expression.strip()]!r}")
    parts = expression.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"a schedule has 5 fields (minute hour day month weekday), this has {len(parts)}")
    _, _, days, months, _ = (_field(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    some_day = any(day <= _MONTH_LENGTHS[month - 1] for month in months for day in days)
    # With both day fields restricted cron runs on either, so only a free weekday makes an impossible date fatal.
    if not some_day and parts[4] == "*":
        raise CronError(f"day {parts[2]} never comes in month {parts[3]}")


def _field(text: str, field: _Field) -> set[int]:
    values: set[int] = set()
    for item in text.split(","):
        values |= _item(item, field)
    return values


def _item(item: str, field: _Field) -> set[int]:
    span, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not _is_number(step_text) or int(step_text) == 0:
            raise CronError(f"{field.name}: the step of {item!r} is not a positive number")
        step = int(step_text)
        if span != "*" and "-" not in span:
            raise CronError(f"{field.name}: a step needs a range; write '{span}-{field.high}/{step_text}'")
    if span == "*":
        return set(range(field.low, field.high + 1, step))
    first_text, dash, last_text = span.partition("-")
    first = _value(first_text, field)
    last = _value(last_text, field) if dash else first
    if last < first:
        raise CronError(f"{field.name}: the range {span!r} runs backwards")
    return set(range(first, last + 1, step))


def _value(text: str, field: _Field) -> int:
    if text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    if not _is_number(text):
        names = f" or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise CronError(f"{field.name}: {text!r} is not a number from {field.low} to {field.high}{names}")
    value = int(text)
    if not field.low <= value <= field.high:
        raise CronError(f"{field.name}: {value} is outside {field.low} to {field.high}")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
