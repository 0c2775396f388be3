"""Text of a manifest, JSON or YAML, to plain values. What the values mean is not decided here.

YAML is read the way people expect today: `true` and `false` are the only truth values, numbers are decimal. What YAML
1.1 would turn into something else (`010`, `1:30`, `yes`, `2024-05-01`) is reported, since a manifest read two ways by
two programs is worse than a refused one. Size, depth and number of values are bounded, aliases count in full.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from manifests.paths import Location, path_text
from manifests.problems import ManifestError, Problem, shown

SIZE_BYTES_MAX = 1024 * 1024
"""Largest document read, in bytes of UTF-8; a manifest with every list full of short texts stays below it."""
DEPTH_MAX = 32
"""Deepest nesting; the manifest itself needs 8 levels."""
VALUES_MAX = 50_000
"""Most values after aliases are written out; a manifest with every list full has about 10,000."""

_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]{0,19})")
_FRACTION = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]{1,3})?")
_TAG = "tag:yaml.org,2002:"
_JSON_START = ("{", "[")


class _Pairs(list[tuple[str, Any]]):
    """An object as JSON wrote it, repeated keys included."""


class Unreadable:
    """Stands for a value that is reported already; fits no type, so nothing is made of it."""

    def __repr__(self) -> str:
        return "(unreadable)"


@dataclass(slots=True)
class _Reading:
    """One pass over a document: counts values and collects faults that don't end it."""

    name: str
    values: int = 0
    problems: list[Problem] = field(default_factory=list)

    def enter(self, location: Location) -> None:
        self.values += 1
        if self.values > VALUES_MAX or len(location) > DEPTH_MAX:
            what = f"more than {VALUES_MAX} values" if self.values > VALUES_MAX else f"more than {DEPTH_MAX} levels"
            raise _unusable(self.name, f"the document has {what}, aliases written out", "Take out what doesn't belong")

    def repeated(self, location: Location, value: object) -> None:
        self.report(location, value, "this key is written twice in one place", "Keep one of the two")

    def report(self, location: Location, value: object, message: str, remedy: str) -> None:
        self.problems.append(Problem(path_text(location), shown(value), message, remedy))


def read_document(text: str, name: str) -> tuple[object, list[Problem]]:
    """The document's value, and faults of single values in it (the value then holds `Unreadable` in their place).

    A name that ends in .json is read as JSON, .yaml or .yml as YAML; any other by its first character.

    Raises:
        ManifestError: the text is no document at all: bad syntax (with line and column), empty, or too large.

    """
    if len(text) > SIZE_BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > SIZE_BYTES_MAX:
        raise _unusable(name, f"the document is larger than {SIZE_BYTES_MAX} bytes", "Shorten it")
    text = text.removeprefix("\ufeff")
    if not text.strip():
        raise _unusable(name, "the document is empty", "Write {} for a manifest that leaves everything at its default")
    reading = _Reading(name)
    suffix = name.lower().rpartition(".")[2]
    as_json = suffix == "json" or (suffix not in ("yaml", "yml") and text.lstrip().startswith(_JSON_START))
    try:
        value = _json(text, reading) if as_json else _yaml(text, reading)
    except RecursionError:
        raise _unusable(name, f"the document has more than {DEPTH_MAX} levels", "Take out brackets") from None
    return value, reading.problems


def _unusable(name: str, message: str, remedy: str) -> ManifestError:
    return ManifestError(name, (Problem("", "", message, remedy),))


def _at(line: int, column: int, fault: str) -> str:
    return f"line {line}, column {column}: {fault}"


def _json(text: str, reading: _Reading) -> object:
    try:
        raw = json.loads(text, object_pairs_hook=_Pairs)
    except json.JSONDecodeError as error:
        message = _at(error.lineno, error.colno, f"not valid JSON ({error.msg})")
        remedy = "Look for a missing or extra comma, quote or bracket just before that place"
        raise _unusable(reading.name, message, remedy) from error
    except ValueError as error:  # Python refuses to read integers of thousands of digits
        raise _unusable(reading.name, "the document holds an endless number", "Write a shorter number") from error
    return _plain(raw, (), reading)


def _plain(node: object, location: Location, reading: _Reading) -> object:
    reading.enter(location)
    if isinstance(node, _Pairs):
        mapping: dict[str, object] = {}
        for key, inner in node:
            if key in mapping:
                reading.repeated((*location, key), "...")
            else:
                mapping[key] = _plain(inner, (*location, key), reading)
        return mapping
    if isinstance(node, list):
        return [_plain(inner, (*location, i), reading) for i, inner in enumerate(node)]
    return node


def _yaml(text: str, reading: _Reading) -> object:
    try:
        loader = yaml.SafeLoader(text)  # checks the characters, so it may fail as well
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        fault = f"not valid YAML ({error.problem or error.context})"
        message = _at(mark.line + 1, mark.column + 1, fault) if mark else fault
        remedy = "Indent with spaces, align the keys of one section, and quote texts that hold : or #"
        raise _unusable(reading.name, message, remedy) from error
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = _at(line, column, "a character that YAML doesn't allow")
        raise _unusable(reading.name, message, "Delete the invisible character there") from error
    if node is None:
        raise _unusable(reading.name, "the document holds comments only", "Write {} to leave everything at its default")
    return _value(node, (), reading)


def _value(node: yaml.Node, location: Location, reading: _Reading) -> object:
    reading.enter(location)
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.MappingNode) and kind == "map":
        return _mapping(node, location, reading)
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_value(inner, (*location, i), reading) for i, inner in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node, kind, location, reading)
    reading.report(location, "...", f"the tag {node.tag} is not understood here", "Take the tag out")
    return Unreadable()


def _mapping(node: yaml.MappingNode, location: Location, reading: _Reading) -> dict[str, object]:
    mapping: dict[str, object] = {}
    for key_node, inner in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            reading.report(location, "...", "a key must be a word", "Write keys as plain words")
            continue
        key = str(key_node.value)  # keys are words, whatever YAML would make of `on` or `1`
        if key_node.tag == f"{_TAG}merge":
            reading.report((*location, key), "...", "merging of sections is not supported", "Write the keys out")
        elif key in mapping:
            reading.repeated((*location, key), f"line {key_node.start_mark.line + 1}")
        else:
            mapping[key] = _value(inner, (*location, key), reading)
    return mapping


def _scalar(node: yaml.ScalarNode, kind: str, location: Location, reading: _Reading) -> object:
    text = str(node.value)
    if kind == "str":
        return text
    if kind == "null":
        return None
    if kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "int" and _DECIMAL.fullmatch(text):
        return int(text)
    if kind == "float" and _FRACTION.fullmatch(text):
        return float(text)
    reading.report(location, text, *_surprise(kind, text, node))
    return Unreadable()


def _surprise(kind: str, text: str, node: yaml.ScalarNode) -> tuple[str, str]:
    """Message and remedy for a scalar that YAML 1.1 reads as something its author hardly meant."""
    where = f"(line {node.start_mark.line + 1}, column {node.start_mark.column + 1})"
    quoted = shown(text)
    if kind == "bool":
        meant = "true" if text.lower() in ("yes", "on", "y") else "false"
        return f"only true and false are truth values {where}", f"Write {meant}, or {quoted} if the word is meant"
    if kind == "timestamp":
        return f"YAML reads this as a date {where}", f"Write {quoted} with quotes if the text is meant"
    if kind in ("int", "float"):
        fault = f"YAML programs don't agree on this number {where}"
        return fault, f"Write a plain decimal number, or {quoted} with quotes if the text is meant"
    return f"the tag {shown(node.tag)} is not understood here", "Take the tag out"
