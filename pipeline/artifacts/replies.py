"""What is believed of a model's reply: JSON found and mended, then held item by item against what was asked. Pure.

A reply is untrusted text. Only the shape that the request's schema gives gets through; keys beside it, items of unknown
types and values of the wrong kind do not, and how many fell away is told.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STRING_CHARS_MAX = 200_000
ITEMS_MAX = 5000
DEPTH_MAX = 40

_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_TRAILING = re.compile(r",(\s*[}\]])")


class Unreadable(ValueError):
    """The reply holds no JSON object of the shape asked for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply in the shape asked for."""

    value: dict[str, Any]
    dropped: int
    """Items of lists that didn't fit."""


def read(text: str, schema: Mapping[str, Any]) -> Reply:
    """Find the object in a reply and hold it against the schema.

    Raises:
        Unreadable: there is none, it was cut off, or a part that isn't a list's item doesn't fit.
    """
    found = _object(text)
    dropped = [0]
    return Reply(_fit(found, schema, dropped), dropped[0])


def _object(text: str) -> dict[str, Any]:
    text = text.lstrip("\ufeff")
    fenced = _FENCE.match(text)
    for candidate in (text, *([fenced.group(1)] if fenced else []), _braces(text)):
        for mended in (candidate, _TRAILING.sub(r"\1", candidate)):
            try:
                value = json.loads(mended, strict=False)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    raise Unreadable("the reply holds no JSON object")


def _braces(text: str) -> str:
    """From the first brace to the last one: what stands around it is talk."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else ""


def _fit(value: Any, schema: Mapping[str, Any], dropped: list[int]) -> Any:
    kind = schema["type"]
    if kind == "object":
        if not isinstance(value, dict):
            raise Unreadable("an object was asked for")
        properties = schema["properties"]
        missing = [key for key in properties if key not in value and not _absent_fits(properties[key])]
        if missing:
            raise Unreadable(f"{missing[0]} is missing")
        return {key: _fit(value.get(key, _absent(inner)), inner, dropped) for key, inner in properties.items()}
    if kind == "array":
        return _items(value, schema["items"], dropped)
    return _scalar(value, kind if isinstance(kind, list) else [kind], schema.get("enum"))


def _absent_fits(schema: Mapping[str, Any]) -> bool:
    return schema["type"] == "array" or (isinstance(schema["type"], list) and "null" in schema["type"])


def _absent(schema: Mapping[str, Any]) -> Any:
    return [] if schema["type"] == "array" else None


def _items(value: Any, schema: Mapping[str, Any], dropped: list[int]) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable("a list was asked for")
    kept = []
    for item in value[:ITEMS_MAX]:
        try:
            kept.append(_fit(item, schema, dropped))
        except Unreadable:
            dropped[0] += 1
    dropped[0] += max(len(value) - ITEMS_MAX, 0)
    return kept


def _scalar(value: Any, kinds: list[str], allowed: list[str] | None) -> Any:
    if value is None and "null" in kinds:
        return None
    if isinstance(value, bool):
        return value if "boolean" in kinds else _refuse()
    if isinstance(value, str):
        if "string" not in kinds:
            return _number(value, kinds)
        return _clean(value) if allowed is None or value in allowed else _refuse()
    if isinstance(value, int | float):
        return _numeric(value, kinds)
    return _refuse()


def _numeric(value: float, kinds: list[str]) -> Any:
    """Numbers as they came, as far as JSON's own doubles hold them; elsewhere as text."""
    if math.isfinite(value) and abs(value) < _EXACT:
        if "number" in kinds or ("integer" in kinds and isinstance(value, int)):
            return value
        if "integer" in kinds and value == int(value):
            return int(value)
    if "string" in kinds:
        return str(value)
    if "number" in kinds and math.isfinite(value):
        return float(value)
    return None if "null" in kinds else _refuse()


_EXACT = 2**53


def _refuse() -> Any:
    raise Unreadable("a value of another kind was asked for")


def _number(text: str, kinds: list[str]) -> Any:
    """Numbers that came as text; what isn't one is nothing, where nothing is allowed."""
    plain = text.strip().replace(",", "").replace("\u202f", "").replace(" ", "")
    if re.fullmatch(r"[+-]?\d{1,15}", plain):
        return int(plain)
    if "number" in kinds and re.fullmatch(r"[+-]?\d{1,15}\.\d{1,15}", plain):
        return float(plain)
    return None if "null" in kinds else _refuse()


def _clean(text: str) -> str:
    """Text that every store takes: no NUL, no lone surrogates, bounded."""
    return text[:STRING_CHARS_MAX].replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
