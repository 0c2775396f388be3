"""Front matter: YAML between '---' lines or TOML between '+++' lines at the start of a Markdown text."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping

import yaml

from pipeline.types import MetadataValue

FRONT_MATTER_CHARS_MAX = 64 * 1024
"""Longer front matter is no front matter; real ones are a few hundred characters."""
ENTRIES_MAX = 256
"""Flat entries that are kept, which also bounds what YAML aliases can expand to."""
VALUE_CHARS_MAX = 4096
"""Longer values are cut: metadata travels with every record and 40 KB is the limit for all of it."""
_EXACT_INT_MAX = 2**53

_OPEN = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSE = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE),
}
_PAIR = re.compile(r"^([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?$")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Entries = tuple[tuple[str, MetadataValue], ...]


def split(text: str) -> tuple[Entries, str, tuple[str, ...]]:
    """Flat metadata, the text after the front matter, and warnings. A text without front matter is given back whole."""
    opening = _OPEN.match(text)
    if opening is None:
        return (), text, ()
    mark = opening.group(1)
    closing = _CLOSE[mark].search(text, opening.end(), opening.end() + FRONT_MATTER_CHARS_MAX)
    if closing is None:
        return (), text, ()
    inner = text[opening.end() : closing.start()]
    warnings: tuple[str, ...] = ()
    value: object
    try:
        value = tomllib.loads(inner) if mark == "+++" else yaml.load(inner, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, tomllib.TOMLDecodeError, ValueError, RecursionError, OverflowError):
        value = _pairs(inner)
        warnings = ("front matter isn't valid; only its plain 'key: value' lines were read",)
    if not isinstance(value, dict):
        # '---', text, '---' is a rule and a heading, unless nothing stands between.
        return ((), text[closing.end() :], ()) if not inner.strip() else ((), text, ())
    return flat(value), text[closing.end() :], warnings


def flat(value: Mapping[object, object]) -> Entries:
    """Nested mappings as dotted keys; dates as ISO text; None and empty containers left out."""
    entries: list[tuple[str, MetadataValue]] = []
    for key, entry in _walk("", value, 0):
        entries.append((key, entry))
        if len(entries) == ENTRIES_MAX:
            break
    return tuple(entries)


def _walk(prefix: str, value: object, depth: int) -> Iterator[tuple[str, MetadataValue]]:
    if isinstance(value, dict):
        if depth < 8:  # noqa: PLR2004 - deeper nesting is data, not description
            for key, inner in value.items():
                name = _clean(str(key))
                if name:
                    yield from _walk(f"{prefix}.{name}" if prefix else name, inner, depth + 1)
        return
    if isinstance(value, (list, tuple, set)):
        parts = tuple(_clean(str(_scalar(v))) for v in list(value)[:ENTRIES_MAX] if not isinstance(v, (dict, list)))
        parts = tuple(part for part, raw in zip(parts, value, strict=False) if raw is not None and part)
        if parts:
            yield prefix, parts
        return
    scalar = _scalar(value)
    if scalar is not None and scalar != "":
        yield prefix, scalar


def _scalar(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_INT_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    isoformat = getattr(value, "isoformat", None)
    return _clean(str(isoformat() if isoformat else value))


def _clean(text: str) -> str:
    text = text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    return text.strip()[:VALUE_CHARS_MAX]


def _pairs(inner: str) -> dict[object, object] | None:
    pairs = {m.group(1): (m.group(2) or "").strip() for line in inner.split("\n") if (m := _PAIR.match(line))}
    return {key: value.strip("\"'") for key, value in pairs.items()} or None
