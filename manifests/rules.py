"""Rules of a manifest that span several keys, checked on the raw document.

They run on the document and not on the models, so that they report together with faults of single keys: what has the
wrong shape is passed over here, since `model` refuses it. Work is bounded by the longest lists that `model` allows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Any

from manifests.cron import CronError, check_cron
from manifests.problems import Problem, listed, nearest, shown

TARGET_SIZE_DEFAULT = 512
"""Tokens; also what an explicit overlap is compared with when `target_size` is absent."""
OVERLAP_DEFAULT = 64
"""Tokens, unless `target_size` is too small for it."""

_TYPES_MAX = 32
_COLUMNS_MAX = 64
_KEYS_MAX = 16
_SCHEDULE_CHARACTERS_MAX = 128
_ARTIFACTS = "curate.artifacts"


def check(document: object) -> list[Problem]:
    """Every breach of a rule between keys, in document order; deterministic, tolerant of any shape."""
    artifacts = _mapping(_mapping(document, "curate"), "artifacts")
    return [
        *_overlap(_mapping(_mapping(_mapping(document, "curate"), "chunks"), "chunking")),
        *_type_names(artifacts),
        *_tables(artifacts),
        *_edges(artifacts),
        *_schedule(_mapping(document, "optimize")),
    ]


def table_name(name: str) -> str:
    """The SQLite table or column that a name comes to: lower case, every run of other signs one underscore."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return re.sub(r"\W+", "_", folded).strip("_")


def _mapping(node: object, key: str) -> dict[str, Any]:
    inner = node.get(key) if isinstance(node, dict) else None
    return inner if isinstance(inner, dict) else {}


def _items(node: dict[str, Any], key: str, limit: int) -> Iterator[tuple[int, dict[str, Any]]]:
    items = node.get(key)
    if isinstance(items, list | tuple):
        yield from ((i, item) for i, item in islice(enumerate(items), limit) if isinstance(item, dict))


def _words(node: dict[str, Any], key: str, limit: int) -> Iterator[tuple[int, str]]:
    items = node.get(key)
    if isinstance(items, list | tuple):
        yield from ((i, item) for i, item in islice(enumerate(items), limit) if isinstance(item, str))


def _overlap(chunking: dict[str, Any]) -> Iterator[Problem]:
    size, overlap = chunking.get("target_size", TARGET_SIZE_DEFAULT), chunking.get("overlap")
    if type(size) is int and type(overlap) is int and overlap >= size:
        where = "target_size" if "target_size" in chunking else "the default target_size"
        yield Problem(
            "curate.chunks.chunking.overlap",
            shown(overlap),
            f"must be below {where}, which is {size}",
            f"Write a number below {size}, or leave overlap out",
        )


def _type_names(artifacts: dict[str, Any]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for index, item in _items(artifacts, "artifact_types", _TYPES_MAX):
        name = item.get("name")
        if not isinstance(name, str):
            continue
        folded = " ".join(unicodedata.normalize("NFC", name).casefold().split())
        first = seen.setdefault(folded, index)
        if first != index:
            yield Problem(
                f"{_ARTIFACTS}.artifact_types[{index}].name",
                shown(name),
                f"artifact_types[{first}] has this name already; letter case and spacing don't tell names apart",
                "Give each artifact type a name of its own",
            )


def _tables(artifacts: dict[str, Any]) -> Iterator[Problem]:
    tables: dict[str, tuple[int, str]] = {}
    for index, item in _items(artifacts, "artifact_types", _TYPES_MAX):
        path = f"{_ARTIFACTS}.artifact_types[{index}]"
        if item.get("format", "markdown") == "sqlite":
            yield from _table_name(path, index, item.get("name"), tables)
            yield from _natural_key(path, item)
        else:  # columns of a markdown type mean nothing, but a key that names none of them is a mistake all the same
            yield from _natural_key(path, item)


def _table_name(path: str, index: int, name: object, tables: dict[str, tuple[int, str]]) -> Iterator[Problem]:
    if not isinstance(name, str) or not name.strip():
        return
    table = table_name(name)
    if not table or table.startswith("sqlite_"):
        fault = "has no letter or digit to name a table with" if not table else "SQLite keeps names with sqlite_"
        yield Problem(f"{path}.name", shown(name), fault, "Choose another name for the type")
        return
    first, first_name = tables.setdefault(table, (index, name))
    # Names that differ in case alone are reported as duplicates already.
    if first != index and first_name.casefold() != name.casefold():
        yield Problem(
            f"{path}.name",
            shown(name),
            f"comes to the table {table}, as does {shown(first_name)} of artifact_types[{first}]",
            "Choose names that differ in letters or digits",
        )


def _natural_key(path: str, item: dict[str, Any]) -> Iterator[Problem]:
    columns = [c["name"] for _, c in _items(item, "columns", _COLUMNS_MAX) if isinstance(c.get("name"), str)]
    for at, key in _words(item, "natural_key", _KEYS_MAX):
        if key not in columns:
            yield Problem(
                f"{path}.natural_key[{at}]",
                shown(key),
                "is not a column of this type",
                _choose(key, columns, "Declare it in columns, or take it out of natural_key"),
            )


def _edges(artifacts: dict[str, Any]) -> Iterator[Problem]:
    types = [item["name"] for _, item in _items(artifacts, "artifact_types", _TYPES_MAX)
             if isinstance(item.get("name"), str)]  # fmt: skip
    seen: dict[tuple[str, ...], int] = {}
    for index, edge in _items(artifacts, "edge_types", _TYPES_MAX):
        path, name = f"{_ARTIFACTS}.edge_types[{index}]", edge.get("name")
        whole = tuple(str(edge.get(key, "")).casefold() for key in ("name", "from", "to"))
        first = seen.setdefault(whole, index) if isinstance(name, str) else index
        if first != index:
            yield Problem(
                f"{path}.name",
                shown(name),
                f"edge_types[{first}] says the same already; letter case doesn't tell names apart",
                "Drop one of the two, or give it another name or other ends",
            )
        for end in ("from", "to"):
            target = edge.get(end)
            if isinstance(target, str) and target.strip() and target not in types:
                yield Problem(
                    f"{path}.{end}",
                    shown(target),
                    "no artifact type has this name",
                    _choose(target, types, "Declare the type in artifact_types first"),
                )


def _choose(word: str, valid: list[str], otherwise: str) -> str:
    """Advice for a name that refers to nothing: the likely one, else those there are, else how to get one."""
    close = nearest(word, valid)
    if close is not None:
        return f"Did you mean {shown(close)}?"
    return f"Use {listed(map(shown, valid))}" if valid else otherwise


def _schedule(optimize: dict[str, Any]) -> Iterator[Problem]:
    schedule = optimize.get("schedule")
    if not isinstance(schedule, str) or len(schedule) > _SCHEDULE_CHARACTERS_MAX:
        return
    try:
        check_cron(schedule)
    except CronError as error:
        yield Problem(
            "optimize.schedule",
            shown(schedule),
            f"is not a cron expression: {error}",
            'Write minute, hour, day, month and weekday, as in "0 3 * * 1" for Mondays at 3:00',
        )
