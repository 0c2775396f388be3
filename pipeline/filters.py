"""Filters over flat metadata, and the access scope: the rules that decide which records a search may return.

A filter document is JSON: a mapping of field to value (same as `$eq`) or to `{operator: operand}`; several keys mean
"and". Operators: `$eq $ne $gt $gte $lt $lte $in $nin $exists`, and `$and` / `$or` over lists of documents.

Types are never converted: a number is compared with numbers, a string with strings (by code point), a boolean with
booleans. A comparison of unlike types is false, so `$ne` and `$nin` of unlike types are true. On a list field `$eq` and
`$in` hold if they do for any element, `$ne` and `$nin` if they do for every one; the orderings never hold. Of a missing
field only `$ne`, `$nin` and `$exists: false` hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final

from pipeline.errors import RejectedInput
from pipeline.types import Metadata, MetadataValue, Scalar

DEPTH_MAX: Final = 8
"""Levels of `$and` / `$or`: deeper trees are written by programs gone wrong."""
COMPARISONS_MAX: Final = 256
"""Comparisons in one filter; each is evaluated for every candidate record."""
OPERANDS_MAX: Final = 10_000
"""Values in all lists of one filter together."""
TEXT_MAX: Final = 4_096
"""Characters of one string operand or field name."""
INTEGER_MAX: Final = 2**53
"""Past this, metadata holds integers as strings, since JSON readers round them."""

ORDERINGS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "$gt": gt,
    "$gte": ge,
    "$lt": lt,
    "$lte": le,
}
_LISTS: Final = ("$in", "$nin")
_GROUPS: Final = ("$and", "$or")
_OPERATORS: Final = ("$eq", "$ne", *ORDERINGS, *_LISTS, "$exists")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One operator applied to one field."""

    field: str
    operator: str
    operands: tuple[Scalar, ...]
    """One value; for `$in` and `$nin` any number of them."""


@dataclass(frozen=True, slots=True)
class Combination:
    """`$and` or `$or` of other filters; `$and` of none holds for every record."""

    operator: str
    parts: tuple[Filter, ...]


Filter = Comparison | Combination


@dataclass(slots=True)
class _Budget:
    """What a document may still spend while it is read."""

    comparisons: int = COMPARISONS_MAX
    operands: int = OPERANDS_MAX

    def spend(self, operands: int, where: str) -> None:
        self.comparisons -= 1
        self.operands -= operands
        if self.comparisons < 0 or self.operands < 0:
            raise _rejected(
                where, f"the filter has more than {COMPARISONS_MAX} comparisons or {OPERANDS_MAX} values in all"
            )


def parse_filter(document: object) -> Filter:
    """Read a filter document as it comes out of JSON.

    An empty mapping matches every record; an empty `$in` none. Equal documents give equal filters.

    Raises:
        RejectedInput: code `bad_filter`; the message names the field and the operator.
    """
    return _parse_group(document, _Budget(), depth=0, where="filter")


def matches(filter: Filter, metadata: Metadata) -> bool:  # noqa: A002 - the word that callers use
    """Whether a record's metadata satisfies a filter, by the rules in the module docstring."""
    if isinstance(filter, Combination):
        decide = all if filter.operator == "$and" else any
        return decide(matches(part, metadata) for part in filter.parts)
    return holds(filter, metadata.get(filter.field))


def fields_of(filter: Filter) -> frozenset[str]:  # noqa: A002 - as above
    """The metadata fields that a filter reads."""
    if isinstance(filter, Comparison):
        return frozenset((filter.field,))
    return frozenset().union(*map(fields_of, filter.parts))


def in_scope(path: str, prefixes: Iterable[str]) -> bool:
    """Whether a source path lies under one of the prefixes, on whole path parts; no prefix at all means everything.

    `docs` and `docs/` both hold `docs` and `docs/a.md`, never `docs2/a.md`. The empty prefix is the root.
    """
    wanted = tuple(prefix.rstrip("/") for prefix in prefixes)
    return not wanted or any(not prefix or path == prefix or path.startswith(prefix + "/") for prefix in wanted)


def holds(comparison: Comparison, value: MetadataValue | None) -> bool:
    """Whether one comparison holds of a value; None stands for a missing field."""
    operator, operands = comparison.operator, comparison.operands
    if operator == "$exists":
        return (value is not None) == operands[0]
    if operator in ORDERINGS:
        bound = operands[0]
        if isinstance(value, tuple | list | bool) or value is None or isinstance(value, str) != isinstance(bound, str):
            return False
        return bool(ORDERINGS[operator](value, bound))
    if value is None:
        present = False
    elif isinstance(value, tuple | list):
        present = any(_same(item, operand) for item in value for operand in operands)
    else:
        present = any(_same(value, operand) for operand in operands)
    return present == (operator in ("$eq", "$in"))


def _same(left: Scalar, right: Scalar) -> bool:
    # In Python True equals 1; in metadata they are values of two types.
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _parse_group(document: object, budget: _Budget, *, depth: int, where: str) -> Filter:
    if depth > DEPTH_MAX:
        raise _rejected(where, f"$and and $or are nested more than {DEPTH_MAX} deep")
    if not isinstance(document, dict):
        raise _rejected(where, f"expected a mapping of fields to conditions, got {_name(document)}")
    parts: list[Filter] = []
    for key, condition in document.items():
        if not isinstance(key, str) or not key or len(key) > TEXT_MAX:
            raise _rejected(where, f"a field is a string of 1 to {TEXT_MAX} characters, got {_name(key)}")
        if key in _GROUPS:
            parts.append(_parse_list(key, condition, budget, depth=depth, where=where))
        elif key.startswith("$"):
            raise _rejected(where, f"operator {key!r} can't stand where a field or one of {', '.join(_GROUPS)} is due")
        else:
            parts.extend(_parse_field(key, condition, budget))
    return parts[0] if len(parts) == 1 else Combination("$and", tuple(parts))


def _parse_list(operator: str, condition: object, budget: _Budget, *, depth: int, where: str) -> Filter:
    inside = f"{where}, operator {operator}"
    if not isinstance(condition, list | tuple) or not condition:
        raise _rejected(inside, f"expected a list of at least one filter, got {_name(condition)}")
    parts = []
    for part in condition:
        # Groups cost too: a million empty mappings in one list would otherwise be free.
        budget.spend(0, inside)
        parts.append(_parse_group(part, budget, depth=depth + 1, where=inside))
    return Combination(operator, tuple(parts))


def _parse_field(field: str, condition: object, budget: _Budget) -> Iterable[Comparison]:
    if not isinstance(condition, dict):
        return (_parse_comparison(field, "$eq", condition, budget),)
    if not condition:
        raise _rejected(f"field {field!r}", f"the condition is empty; use one of {', '.join(_OPERATORS)}")
    return [_parse_comparison(field, operator, operand, budget) for operator, operand in condition.items()]


def _parse_comparison(field: str, operator: object, operand: object, budget: _Budget) -> Comparison:
    where = f"field {field!r}, operator {operator if isinstance(operator, str) else _name(operator)}"
    if operator not in _OPERATORS or not isinstance(operator, str):
        raise _rejected(where, f"unknown operator; use one of {', '.join(_OPERATORS)}")
    if operator in _LISTS:
        if not isinstance(operand, list | tuple):
            raise _rejected(where, f"expected a list of values, got {_name(operand)}")
        budget.spend(len(operand), where)
        return Comparison(field, operator, tuple(_scalar(value, where) for value in operand))
    budget.spend(1, where)
    value = _scalar(operand, where)
    if operator == "$exists" and not isinstance(value, bool):
        raise _rejected(where, f"expected true or false, got {_name(value)}")
    if operator in ORDERINGS and isinstance(value, bool):
        raise _rejected(where, "true and false have no order; expected a number or a string")
    return Comparison(field, operator, (value,))


def _scalar(value: object, where: str) -> Scalar:
    if isinstance(value, list | tuple):
        raise _rejected(where, "expected one value, got a list; use $in for any of several values")
    if not isinstance(value, bool | int | float | str):
        raise _rejected(where, f"expected a string, a number, true or false, got {_name(value)}")
    if isinstance(value, str) and len(value) > TEXT_MAX:
        raise _rejected(where, f"a string of {len(value)} characters; at most {TEXT_MAX} are allowed")
    if isinstance(value, float) and not math.isfinite(value):
        raise _rejected(where, "numbers must be finite")
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise _rejected(where, "integers past 2^53 are held as strings; compare with a string")
    return value


def _name(value: object) -> str:
    names = {"NoneType": "null", "dict": "a mapping", "list": "a list", "str": "a string", "bool": "a boolean"}
    kind = type(value).__name__
    return names.get(kind, f"a value of type {kind}")


def _rejected(where: str, problem: str) -> RejectedInput:
    return RejectedInput(
        "bad_filter", f"{where}: {problem}", remedy="Correct the filter; docs list the operators and their types."
    )
