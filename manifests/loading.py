"""From text or plain values to a `Manifest`, or to the list of everything that is wrong.

Each fault of `model` gets its words here: what was expected, and what to write instead. Of several faults in one place
only the first is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from manifests.model import Manifest
from manifests.paths import field_at, key_paths, keys_of, path_text, section_at
from manifests.problems import ABSENT, ManifestError, Problem, listed, nearest, shown
from manifests.rules import check
from manifests.syntax import read_document

PROBLEMS_MAX = 200
"""Most faults told at once; more come from a file that is no manifest, and each costs a search for near misses."""

_TOLD_ELSEWHERE = ("manifest_rules", "default_factory_not_called")
"""Faults that only follow from others: rules are checked below, and a default waits for the key it depends on."""


def load_manifest(text: str, name: str) -> Manifest:
    """A manifest from JSON or YAML text; deterministic, time linear in the text's length.

    Args:
        text: the document, at most 1 MiB.
        name: what messages call it; its ending (.json, .yaml, .yml) tells the format, else the first character does.

    Raises:
        ManifestError: with every fault found. Faults of syntax end the reading and name line and column.

    """
    document, problems = read_document(text, name)
    return _build(document, name, problems)


def manifest_from(document: object, name: str = "manifest") -> Manifest:
    """A manifest from plain values as JSON has them: dicts, lists, strings, numbers, booleans.

    Raises:
        ManifestError: with every fault found.

    """
    return _build(document, name, [])


def validate_text(text: str, name: str) -> tuple[Problem, ...]:
    """Every fault of a manifest text; empty exactly when `load_manifest` would return."""
    try:
        load_manifest(text, name)
    except ManifestError as error:
        return error.problems
    return ()


def _build(document: object, name: str, problems: list[Problem]) -> Manifest:
    told = list(problems)
    manifest: Manifest | None = None
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        faults = [fault for fault in error.errors(include_url=False) if fault["type"] not in _TOLD_ELSEWHERE]
        told += [_problem(fault, document) for fault in faults[:PROBLEMS_MAX]]
        if len(faults) > PROBLEMS_MAX:
            told.append(Problem("", "", f"{len(faults) - PROBLEMS_MAX} more problems", "Mend these first"))
    told += check(document)
    if told or manifest is None:
        first_at: dict[tuple[str, str], Problem] = {}
        for problem in told:
            # The root may have several faults of different kinds; everywhere else one value has one fault to mend.
            first_at.setdefault((problem.path, problem.message if not problem.path else ""), problem)
        raise ManifestError(name, tuple(first_at.values()))
    return manifest


def _problem(fault: ErrorDetails, document: object) -> Problem:
    location, value, kind = fault["loc"], fault["input"], fault["type"]
    path = path_text(location)
    if kind == "extra_forbidden":
        return Problem(path, shown(value), "the manifest has no such key", _key_remedy(fault))
    if kind == "missing":
        return Problem(path, ABSENT, "this key is required", f"Add {location[-1]}")
    if value is None and document is not None:
        return Problem(path, "null", "null is not a value; absent means default", "Leave the key out, or give a value")
    message, remedy = _WORDS.get(kind, _other)(fault)
    return Problem(path, shown(value), message, remedy)


def _key_remedy(fault: ErrorDetails) -> str:
    *parents, key = fault["loc"]
    section = section_at(tuple(parents))
    valid = list(keys_of(section)) if section else []
    close = nearest(str(key), valid)
    if close:
        return f"Did you mean {close}?"
    elsewhere = [path for path in key_paths() if path.rpartition(".")[2] == key]
    if elsewhere:
        return f"Its place is {listed(elsewhere)}"
    return f"Take it out; the keys here are {listed(valid)}" if valid else "Take it out"


def _other(fault: ErrorDetails) -> tuple[str, str]:
    return fault["msg"][:1].lower() + fault["msg"][1:], "See the documentation of this key"


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), "a mapping of keys")


def _expected(what: str, remedy: str) -> Callable[[ErrorDetails], tuple[str, str]]:
    def words(fault: ErrorDetails) -> tuple[str, str]:
        return f"must be {what}, not {_kind_of(fault['input'])}", remedy

    return words


def _number(fault: ErrorDetails) -> tuple[str, str]:
    value = fault["input"]
    message = f"must be a whole number, not {_kind_of(value)}"
    if isinstance(value, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        return message, f"Write {int(value)} without quotes"
    if isinstance(value, float) and value.is_integer():
        return message, f"Write {int(value)}"
    return message, f"Write a whole number {_range(fault)}"


def _fraction(fault: ErrorDetails) -> tuple[str, str]:
    return f"must be a number, not {_kind_of(fault['input'])}", f"Write a number {_range(fault)}, without quotes"


def _bounds(fault: ErrorDetails) -> tuple[str, str]:
    context = fault["ctx"]
    side = f"at least {context['ge']:g}" if "ge" in context else f"at most {context['le']:g}"
    return f"must be {side}", f"Write a number {_range(fault)}"


def _range(fault: ErrorDetails) -> str:
    metadata: list[Any] = getattr(field_at(fault["loc"]), "metadata", [])
    low = next((m.ge for m in metadata if isinstance(m, Ge)), None)
    high = next((m.le for m in metadata if isinstance(m, Le)), None)
    return f"from {low} to {high}"


def _choice(fault: ErrorDetails) -> tuple[str, str]:
    valid = re.findall(r"'([^']*)'", fault["ctx"]["expected"])
    value = fault["input"]
    close = nearest(value, valid) if isinstance(value, str) else None
    return f"must be {listed(valid)}", f"Did you mean {close}?" if close else f"Write one of {listed(valid)}"


def _long_text(fault: ErrorDetails) -> tuple[str, str]:
    limit, length = fault["ctx"]["max_length"], len(fault["input"])
    return f"has {length} characters, at most {limit} are allowed", f"Shorten it to {limit} characters"


def _long_list(fault: ErrorDetails) -> tuple[str, str]:
    limit, length = fault["ctx"]["max_length"], len(fault["input"])
    return f"has {length} items, at most {limit} are allowed", f"Keep {limit} of them"


def _blank(_fault: ErrorDetails) -> tuple[str, str]:
    return "must not be blank", "Write at least one visible character"


def _unstorable(_fault: ErrorDetails) -> tuple[str, str]:
    return "holds a character that no file can hold (NUL, or half of a surrogate pair)", "Type the text anew"


def _not_finite(fault: ErrorDetails) -> tuple[str, str]:
    return "must be a finite number", f"Write a number {_range(fault)}"


_KINDS: dict[type, str] = {
    bool: "a truth value",
    int: "a whole number",
    float: "a number with a fraction",
    str: "a text",
    list: "a list",
    tuple: "a list",
    type(None): "null",
}
_TEXT = _expected("a text", 'Write it in quotes, as in "text"')
_SECTION = _expected("a mapping of keys", "Write keys with values, or leave the section out")
_WORDS: dict[str, Callable[[ErrorDetails], tuple[str, str]]] = {
    "int_type": _number,
    "float_type": _fraction,
    "bool_type": _expected("true or false", "Write true or false, without quotes"),
    "string_type": _TEXT,
    "string_unicode": _unstorable,
    "unstorable": _unstorable,
    "tuple_type": _expected("a list", "Write a list in square brackets, even for one item"),
    "model_type": _SECTION,
    "greater_than_equal": _bounds,
    "less_than_equal": _bounds,
    "literal_error": _choice,
    "string_too_long": _long_text,
    "too_long": _long_list,
    "string_pattern_mismatch": _blank,
    "finite_number": _not_finite,
}
