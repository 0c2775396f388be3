"""JSON as values that keep what was written: numbers by their spelling, objects as pairs with all their keys.

Reads one value, JSON Lines, and values that follow each other in any other way. What becomes of them is
`json_records.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


class Number(str):
    """A number as it's spelled in the source: no digit is lost, and NaN has a name."""

    __slots__ = ()


Value: TypeAlias = "str | Number | bool | list[Value] | Pairs | None"
Pairs: TypeAlias = "tuple[tuple[str, Value], ...]"
"""An object: its keys and values in order, a repeated key as often as it's written."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something can't be read."""

    line: int
    reason: str
    is_depth: bool = False
    """Whether it's nested deeper than can be read."""


class Unreadable(ValueError):
    """The text isn't JSON from its start to its end."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


# Line breaks inside strings are let through: writers forget to escape them, and they mean what they are.
_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=Number, parse_float=Number, parse_constant=Number, strict=False
)
_BLANKS = re.compile(r"[ \t\n\r\x1e]*")
"""White space, and the mark that JSON text sequences (RFC 7464) put before each value."""


def values(text: str) -> Iterator[Value]:
    """The values of a text in order, however they are set apart.

    Raises:
        Unreadable: at the first place that isn't JSON, after the values before it.
    """
    at = _after_blanks(text, 0)
    while at < len(text):
        value, at = _value(text, at)
        yield value
        at = _after_blanks(text, at)


def values_by_line(text: str) -> Iterator[list[Value] | Fault]:
    """For each line that isn't blank its values, mostly one, or why there are none. Linear, whatever is broken."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                found = list(values(line))
            except Unreadable as error:
                yield Fault(number, error.fault.reason, error.fault.is_depth)
            else:
                yield found


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int) -> tuple[Value, int]:
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise Unreadable(Fault(error.lineno, f"{error.msg} (column {error.colno})")) from error
    except RecursionError as error:
        raise Unreadable(Fault(text.count("\n", 0, at) + 1, "nested too deeply", is_depth=True)) from error
    return value, end
