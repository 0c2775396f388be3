"""What documents say about themselves, made flat: the one place that decides names, types and dates of metadata.

A field is a string, a finite number, a boolean or a tuple of strings. Every format describes its documents through
`describe`, so that `author` or `created_epoch` mean the same whatever the file was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta

from pipeline.types import MetadataValue

ENTRIES_MAX = 256
"""Flat entries that are kept, and parts of one list."""
VALUE_CHARS_MAX = 4096
"""Longer values are cut: metadata travels with every record and 40 KB is the limit for all of it."""
DEPTH_MAX = 8
"""Levels of mappings and lists; deeper nesting is data, not description."""
VISITS_MAX = 20_000
"""Values that are looked at: aliases let a few lines of YAML stand for billions."""
_EXACT_INT_MAX = 2**53

STANDARD = {
    "title": ("title",),
    "author": ("author", "authors", "creator", "creators", "byline", "authorname", "authorsname"),
    "created": ("created", "createdat", "createdon", "datecreated", "createddate", "creationdate", "date"),
    "modified": (
        "modified", "modifiedat", "datemodified", "modifieddate", "lastmodified", "lastmodifiedat", "updated",
        "updatedat", "dateupdated", "lastupdated", "lastmod",
    ),
    "published": (
        "published", "publishedat", "publishedon", "datepublished", "publisheddate", "publishdate", "publicationdate",
        "pubdate",
    ),
    "language": ("language", "lang"),
    "keywords": ("keywords", "keyword", "tags"),
    "description": ("description", "summary", "excerpt"),
    "url": ("url", "canonical", "canonicalurl", "sourceurl"),
}  # fmt: skip
"""Standard field to the names under which files give it, best first, compared without case and punctuation."""
_DATES = frozenset(("created", "modified", "published"))
_DATE_WORDS = frozenset(
    (
        "created", "updated", "modified", "published", "issued", "released", "sent", "received", "submitted",
        "accepted", "expires", "expiry", "deadline", "due", "timestamp", "lastmod", "lastupdated", "lastmodified",
    )
)  # fmt: skip
"""Words in a name that promise a date, beside those that end in `date` and `time`."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?(?:[Zz]|[+-]\d{2}(?::?\d{2})?))?)?",
    re.ASCII,
)
_ZONE_GAP = re.compile(r" (?=[Z+-])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Entries = tuple[tuple[str, MetadataValue], ...]


def describe(value: Mapping[object, object]) -> Entries:
    """Flat metadata with the standard fields filled in; `value` isn't changed.

    What the file says stays under its own name. A standard field that is missing is added, at the end, if the file
    has it under another name. `title`, `description`, `language` and `url` are strings, `keywords` a tuple, `author`
    a string or, of several, a tuple; dates are ISO text beside a number `<name>_epoch`.
    """
    entries = dict(flat(value))
    named: dict[str, str] = {}
    for key in entries:
        if key.isascii():
            named.setdefault("".join(_WORD.findall(key)).lower(), key)
    for name, others in STANDARD.items():
        if name in entries:
            entries[name] = _typed(name, entries[name])
            continue
        own = next((named[other] for other in others if other in named and _is_fit(name, entries[named[other]])), "")
        if own:
            entries[name] = _typed(name, entries[own])
            moment = _moment(name, entries[name])
            if moment is not None:
                entries.setdefault(epoch_of(name), moment)
    return tuple(entries.items())


def flat(value: Mapping[object, object]) -> Entries:
    """Nested mappings as dotted keys, lists as tuples of strings, dates as ISO text and a number; no empty values.

    The mappings of a list share their keys: `authors` with a `name` each become `authors.name`, a tuple. Keys are
    in source order, each once, the first winning; sets are sorted. `value` isn't changed.
    """
    raw: dict[str, object] = {}
    for key, entry in _walk("", value, iter(range(VISITS_MAX)), 0):
        if len(raw) >= ENTRIES_MAX:
            break
        if _own(entry) not in (None, "", ()):
            raw.setdefault(key, entry)
    entries: dict[str, MetadataValue] = {}
    for key, entry in raw.items():
        own = _own(entry)
        assert own is not None, "empty values were left out"
        entries[key] = own
        moment = _moment(key, entry)
        if moment is not None and epoch_of(key) not in raw:
            entries[epoch_of(key)] = moment
    return tuple(entries.items())


def epoch_of(key: str) -> str:
    """Name of the number that stands beside a date."""
    return f"{key}_epoch"


def epoch(moment: date) -> int:
    """Whole seconds since 1970 in UTC, rounded down; a moment without a zone is in UTC, a day starts at midnight."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(seconds=1)


def iso_moment(text: str) -> date | None:
    """The day or moment that an ISO 8601 text names in full; None for every other text."""
    text = text.strip()
    if not _ISO.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(_ZONE_GAP.sub("", text.upper().replace(",", ".")))
    except ValueError:
        return None


def clean_value(text: str) -> str:
    """A string as metadata may hold it: trimmed, bounded, without NULs, always encodable as UTF-8."""
    text = text.strip()[:VALUE_CHARS_MAX]
    return text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8").strip()


def _walk(prefix: str, value: object, visits: Iterator[int], depth: int) -> Iterator[tuple[str, object]]:
    """Keys and what stands under them: scalars, or lists of what may become strings."""
    if next(visits, None) is None:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items() if depth < DEPTH_MAX else ():
            name = _text(key)
            if name:
                yield from _walk(f"{prefix}.{name}" if prefix else name, inner, visits, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        scalars: list[object] = []
        shared: dict[str, list[object]] = {}
        _gather(value, scalars, shared, visits, depth)
        if scalars:
            yield prefix, scalars
        for key, found in shared.items():
            yield f"{prefix}.{key}", found
    else:
        yield prefix, value


def _gather(
    values: object, scalars: list[object], shared: dict[str, list[object]], visits: Iterator[int], depth: int
) -> None:
    """Sort a list's content into its scalars, inner lists' included, and what its mappings hold under each key."""
    assert isinstance(values, list | tuple | set | frozenset)
    for value in sorted(values, key=str) if isinstance(values, set | frozenset) else values:
        if len(scalars) >= ENTRIES_MAX or next(visits, None) is None:
            return
        if isinstance(value, Mapping):
            for key, inner in _walk("", value, visits, depth + 1):
                found = shared.setdefault(key, [])
                if len(found) < ENTRIES_MAX:
                    found += inner if isinstance(inner, list) else [inner]
        elif isinstance(value, list | tuple | set | frozenset):
            if depth < DEPTH_MAX:
                _gather(value, scalars, shared, visits, depth + 1)
        else:
            scalars.append(value)


def _own(value: object) -> MetadataValue | None:
    if isinstance(value, list):
        texts = (_text(part) for part in value[:ENTRIES_MAX])
        return tuple(text for text in texts if text)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _EXACT_INT_MAX else _text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _text(value)


def _text(value: object) -> str:
    """One value as a string; empty for None and for bytes, which are a payload."""
    if value is None or isinstance(value, bytes):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError:
            return hex(value)[:VALUE_CHARS_MAX]  # past the digits that Python converts
    if isinstance(value, date | time):
        return value.isoformat()
    return clean_value(str(value))


def _moment(key: str, value: object) -> int | None:
    """The number beside a date, whether the file gives a date or its ISO text under a name that promises one."""
    if isinstance(value, date):
        return epoch(value)
    if isinstance(value, str) and any(_is_date_word(word.lower()) for word in _WORD.findall(key.rpartition(".")[2])):
        found = iso_moment(value)
        return None if found is None else epoch(found)
    return None


def _is_date_word(word: str) -> bool:
    return word in _DATE_WORDS or word.endswith(("date", "time"))


def _is_fit(name: str, value: MetadataValue) -> bool:
    """Whether a value can stand under a standard name; dates that aren't written as ISO can't."""
    if name in _DATES:
        return isinstance(value, str) and iso_moment(value) is not None
    return isinstance(value, str | tuple)


def _typed(name: str, value: MetadataValue) -> MetadataValue:
    """A value in the type that its standard field has; a date field's boolean is a flag of its own and stays."""
    if name in _DATES and isinstance(value, bool):
        return value
    parts = value if isinstance(value, tuple) else (_text(value),)
    if name == "keywords":
        words = parts[0].split(",") if len(parts) == 1 else parts
        return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))[:ENTRIES_MAX]
    if name == "author" and len(parts) > 1:
        return parts
    return ", ".join(parts)[:VALUE_CHARS_MAX]
