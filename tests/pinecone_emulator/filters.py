"""Metadata filters as the service reads them. Written from its documents, on purpose not with Lamina's own filters."""

from __future__ import annotations

from typing import Any

Filter = dict[str, Any]

COMPARISONS = {
    "$gt": lambda value, bound: value > bound,
    "$gte": lambda value, bound: value >= bound,
    "$lt": lambda value, bound: value < bound,
    "$lte": lambda value, bound: value <= bound,
}
OPERANDS_MAX = 10_000


class BadFilter(ValueError):
    """The filter can't be read."""


def check(document: Any, *, negation: bool) -> None:
    """Raise `BadFilter` for what the service refuses. `negation`: whether `$not` is known (document indexes)."""
    if not isinstance(document, dict):
        raise BadFilter("a filter is an object")
    for key, condition in document.items():
        if key in ("$and", "$or"):
            if not isinstance(condition, list) or not condition:
                raise BadFilter(f"{key} needs a list of at least one filter")
            for part in condition:
                check(part, negation=negation)
        elif key == "$not" and negation:
            check(condition, negation=negation)
        elif key.startswith("$"):
            raise BadFilter(f"{key} is not a known operator")
        else:
            _check_field(key, condition)


def _check_field(key: str, condition: Any) -> None:
    tests = condition if isinstance(condition, dict) else {"$eq": condition}
    if not tests:
        raise BadFilter(f"the condition on {key} is empty")
    for operator, operand in tests.items():
        _check_one(key, operator, operand)


def _check_one(key: str, operator: str, operand: Any) -> None:
    number = isinstance(operand, int | float) and not isinstance(operand, bool)
    if operator in COMPARISONS:
        fits = number
    elif operator in ("$eq", "$ne"):
        fits = number or isinstance(operand, str | bool)
    elif operator in ("$in", "$nin"):
        fits = isinstance(operand, list) and 0 < len(operand) <= OPERANDS_MAX
        fits = fits and all(isinstance(o, str | int | float) and not isinstance(o, bool) for o in operand)
    elif operator == "$exists":
        fits = isinstance(operand, bool)
    else:
        raise BadFilter(f"{operator} is not a known operator")
    if not fits:
        raise BadFilter(f"{operator} on {key} can't take {operand!r:.60}")


def matches(document: Filter, fields: dict[str, Any], *, missing_is_unequal: bool) -> bool:
    """Whether a record's fields satisfy a filter that was checked."""

    def holds(key: str, condition: Any) -> bool:
        if key == "$and":
            return all(whole(part) for part in condition)
        if key == "$or":
            return any(whole(part) for part in condition)
        if key == "$not":
            return not whole(condition)
        tests = condition if isinstance(condition, dict) else {"$eq": condition}
        return all(_one(operator, fields.get(key), operand) for operator, operand in tests.items())

    def _one(operator: str, value: Any, operand: Any) -> bool:
        if operator == "$exists":
            return (value is not None) == operand
        if value is None:
            return operator in ("$ne", "$nin") and missing_is_unequal
        if operator in COMPARISONS:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and COMPARISONS[operator](value, operand)
        wanted = operand if operator in ("$in", "$nin") else [operand]
        values = value if isinstance(value, list) else [value]
        found = any(isinstance(v, bool) == isinstance(w, bool) and v == w for v in values for w in wanted)
        return found == (operator in ("$eq", "$in"))

    def whole(part: Filter) -> bool:
        return all(holds(key, condition) for key, condition in part.items())

    return whole(document)
