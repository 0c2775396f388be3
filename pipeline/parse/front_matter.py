"""Front matter: YAML between '---' lines or TOML between '+++' lines at the start of a Markdown text."""

from __future__ import annotations

import re
import tomllib

import yaml

from pipeline.parse.metadata import Entries, describe

FRONT_MATTER_CHARS_MAX = 64 * 1024
"""Longer front matter is no front matter; real ones are a few hundred characters."""

_OPEN = re.compile(r"(---|\+\+\+)[ \t]*\n")
_CLOSE = {
    "---": re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.MULTILINE),
    "+++": re.compile(r"^\+\+\+[ \t]*(?:\n|\Z)", re.MULTILINE),
}
_PAIR = re.compile(r"^([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*))?$")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    except (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError, ArithmeticError, RecursionError):
        # Tags that don't suit their value ('!!bool x', '!!timestamp x') raise whatever comes of it.
        value = _pairs(inner)
        warnings = ("front matter isn't valid; only its plain 'key: value' lines were read",)
    if not isinstance(value, dict):
        # '---', text, '---' is a rule and a heading, unless nothing stands between.
        return ((), text[closing.end() :], ()) if not inner.strip() else ((), text, ())
    return describe(value), text[closing.end() :], warnings


def _pairs(inner: str) -> dict[object, object] | None:
    pairs = {m.group(1): (m.group(2) or "").strip() for line in inner.split("\n") if (m := _PAIR.match(line))}
    return {key: value.strip("\"'") for key, value in pairs.items()} or None
