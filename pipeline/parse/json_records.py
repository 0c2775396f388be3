"""JSON that holds records: each becomes a section with its title, its texts and a line for every other field.

Records stand in an array, in lines (JSON Lines), one behind the other, or in the one list that an object is about. All
other JSON (settings, arrays of scalars) is code and kept as it's written, as is JSON that is broken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain, islice
from typing import NamedTuple

from pipeline.errors import RejectedInput
from pipeline.parse import code, notebook, text
from pipeline.parse.decode import clean, decode
from pipeline.parse.detect import extension
from pipeline.parse.json_values import Fault, Number, Pairs, Unreadable, Value, values, values_by_line
from pipeline.parse.languages import language
from pipeline.parse.markdown_inline import without_payloads
from pipeline.parse.writer import Writer
from pipeline.types import ParsedDocument

WARNINGS_MAX = 20
"""Bad lines, and fields with payloads, that are named one by one."""
TITLE_CHARS_MAX = 200
ENCODED_CHARS_MIN = 64
"""Letters and digits in a row that may be encoded data."""
LONG_CHARS = 200
"""A string at least this long is a text, whatever its field is called."""
NUMBERS_MAX = 256
"""A longer list of nothing but numbers is a vector, an outline or a signal: nothing to read."""
PATH_CHARS_MAX = 100
"""Of longer dotted keys the end is shown: each of many fields repeats the whole path."""
KEYS_REMEMBERED = 1_024
"""Records of one source have the same keys over and over."""
LEVELS_MAX = 4
"""Objects around a list of records."""

_LINES = frozenset(("jsonl", "ndjson"))
_TITLES = (
    "title", "name", "headline", "subject", "label", "heading", "display_name", "displayname", "full_name", "fullname",
    "caption", "question",
)  # fmt: skip
_IDS = ("id", "_id", "uuid", "guid", "identifier", "key", "slug")
_TEXTS = frozenset(
    (
        "text", "body", "content", "description", "summary", "abstract", "message", "question", "answer", "excerpt",
        "comment", "notes", "note", "details", "transcript", "response", "prompt", "completion",
    )
)  # fmt: skip
_WRAPPERS = ("properties.", "attributes.", "fields.", "_source.", "node.")
"""Objects that hold a record's own fields, as GeoJSON, JSON:API and search engines write them."""
_GAP = re.compile(r"\n(?:[^\S\n]*\n)+")
_ENCODED = re.compile(rf"[A-Za-z0-9+/_-]{{{ENCODED_CHARS_MIN},}}(?:\s[A-Za-z0-9+/_-]{{32,}})*={{0,2}}")
_HEX = re.compile(r"[0-9a-fA-F]{1,128}")
_TOKEN_CHARS_MAX = 2_048
_WORD_CHARS_MAX = 256
_SEGMENT_CHARS_MAX = 20
"""Between separators of paths and slugs; encoded data is longer somewhere."""


class _Leaf(NamedTuple):
    """A field that holds one or more values, none of them empty."""

    key: str
    """Dotted."""
    own: str
    """The key as the record's own field, in lower case."""
    values: list[str]
    is_text: bool

    @property
    def line(self) -> str:
        """The field on one line."""
        return f"{self.key}: {', '.join(self.values)}"


def parse(data: bytes, name: str) -> ParsedDocument:
    """Records as a document of kind `json`; other JSON as code; a notebook as one.

    Raises:
        RejectedInput: `json_broken` for JSON Lines of which most are broken, and for nesting that can't be read.
    """
    decoded, warnings = decode(data)
    if not decoded.strip():
        raise RejectedInput("empty_file", f"{name} holds nothing but white space")
    try:
        found = _of_values(decoded, data, name)
    except Unreadable as error:
        found = _of_lines(decoded, name)
        if found is None and error.fault.is_depth and decoded.rstrip().endswith(("]", "}")):
            raise RejectedInput("json_broken", f"{name} is nested too deeply to be read") from error
        if found is None:
            return _as_written(data, name, error.fault)
    return replace(found, warnings=(*warnings, *found.warnings)) if found else _as_written(data, name, None)


def _of_values(decoded: str, data: bytes, name: str) -> ParsedDocument | None:
    """The document if the text holds records or a notebook, None for other JSON."""
    ahead = values(decoded)
    opening = list(islice(ahead, 2))
    if len(opening) == 1:
        return _of_one(opening[0], data, name)
    recorder = _Recorder()
    recorder.add(chain(opening, ahead))
    return recorder.document() if recorder.objects * 2 > recorder.count else None


def _of_one(value: Value, data: bytes, name: str) -> ParsedDocument | None:
    recorder = _Recorder()
    if isinstance(value, list) and _are_records(value):
        recorder.add(value)
        return recorder.document()
    if not isinstance(value, tuple):
        return None
    if {"cells", "nbformat"} <= {key for key, _ in value}:
        return notebook.parse(data, name)
    held = _held(value)
    if held is not None:
        recorder.envelope(held[1])
        recorder.add(held[0])
    elif extension(name) in _LINES:
        recorder.add([value])
    return recorder.document() if recorder.count else None


def _unread_lines(name: str, good: int, faults: list[Fault]) -> RejectedInput:
    remedy = "Write one JSON object on each line."
    if not faults:
        return RejectedInput("json_broken", f"hardly a line of {name} holds an object", remedy=remedy)
    what = f"{len(faults)} of {good + len(faults)} lines of {name} can't be read; line {faults[0].line}: {faults[0].reason}"
    return RejectedInput("json_broken", what, remedy=remedy)


def _of_lines(decoded: str, name: str) -> ParsedDocument | None:
    """JSON Lines of which some are broken; None if they aren't JSON Lines after all."""
    is_lines = extension(name) in _LINES
    recorder = _Recorder()
    faults: list[Fault] = []
    good = 0
    for found in values_by_line(decoded):
        if isinstance(found, Fault):
            faults.append(found)
        else:
            good += 1
            recorder.add(found)
    if good < len(faults) + (not is_lines) or recorder.objects * 2 <= recorder.count:
        if is_lines:
            raise _unread_lines(name, good, faults)
        return None
    for fault in faults[:WARNINGS_MAX]:
        recorder.warnings.append(f"line {fault.line} is left out: {fault.reason}")
    if len(faults) > WARNINGS_MAX:
        recorder.warnings.append(f"{len(faults) - WARNINGS_MAX} more lines are left out")
    return recorder.document()


def _as_written(data: bytes, name: str, fault: Fault | None) -> ParsedDocument:
    """JSON without records, or what can't be read as JSON: exact text."""
    is_named = language(b"", name) == "json" or extension(name) in _LINES
    if fault is not None and not is_named:
        return text.parse(data, name)
    document = code.parse(data, name if language(b"", name) == "json" else f"{name}.json")
    if fault is None:
        return document
    told = f"line {fault.line} isn't valid JSON ({fault.reason}); the text is kept as it is written"
    return replace(document, warnings=(*document.warnings, told))


@dataclass(slots=True)
class _Recorder:
    """The records so far, as text and blocks."""

    writer: Writer = field(default_factory=Writer)
    title: str = ""
    count: int = 0
    objects: int = 0
    warnings: list[str] = field(default_factory=list)
    payloads: Counter[str] = field(default_factory=Counter)
    """How often something was left out of a field."""

    def document(self) -> ParsedDocument:
        for key, times in list(self.payloads.items())[:WARNINGS_MAX]:
            self.warnings.append(f"encoded data or long lists of numbers were left out of {key}: {times}")
        if len(self.payloads) > WARNINGS_MAX:
            self.warnings.append(f"the same of {len(self.payloads) - WARNINGS_MAX} more fields")
        return ParsedDocument(
            kind="json",
            text=self.writer.text,
            title=self.title,
            blocks=tuple(self.writer.blocks),
            warnings=tuple(self.warnings),
        )

    def envelope(self, around: Pairs) -> None:
        """What an object says beside its list of records: lines in front of them."""
        leaves = list(self.leaves(around))
        named = _best(_short(leaves), _TITLES)
        self.title = " ".join(named.values[0].split()) if named else ""
        self.lines(leaves)

    def add(self, records: Iterable[Value]) -> None:
        """Append records, each a section."""
        for record in records:
            self.count += 1
            self.objects += isinstance(record, tuple)
            leaves = list(self.leaves(record if isinstance(record, tuple) else (("value", record),)))
            if leaves:
                self.section(leaves)

    def section(self, leaves: list[_Leaf]) -> None:
        short = _short(leaves)
        named, known = _best(short, _TITLES), _best(short, _IDS)
        if named or known:
            title = (named or known).values[0]  # type: ignore[union-attr]  # one of them is there
            leaves = [leaf for leaf in leaves if leaf is not named and leaf is not known]
        else:
            named = next((leaf for leaf in leaves if not leaf.is_text and len(leaf.line) <= TITLE_CHARS_MAX), None)
            title = named.line if named else f"record {self.count}"
            leaves = [leaf for leaf in leaves if leaf is not named]
        self.writer.heading(" ".join(title.split()))
        self.lines([known] if known else [])
        for leaf in leaves:
            if leaf.is_text:
                self.paragraphs(leaf)
        self.lines([leaf for leaf in leaves if not leaf.is_text])

    def paragraphs(self, leaf: _Leaf) -> None:
        """A text field; one that isn't known to be the record's text begins with its name."""
        lead = "" if leaf.own in _TEXTS else f"{leaf.key}: "
        for value in leaf.values:
            for piece in _GAP.split(lead + value):
                self.writer.add("paragraph", piece)
            lead = ""

    def lines(self, leaves: list[_Leaf]) -> None:
        """Fields, one a line, as one block that may be cut at each of them."""
        lines = [line for leaf in leaves for line in ([leaf.line] if "\n" not in leaf.line else leaf.line.split("\n"))]
        cuts, at = [], 0
        for line in lines:
            cuts.append(at)
            at += len(line) + 1
        if lines:
            self.writer.add("list", "\n".join(lines), cuts=tuple(cuts[1:]))

    def leaves(self, record: Pairs) -> Iterator[_Leaf]:
        """Every value of a record in source order, without what is empty. No recursion, as nesting may be deep."""
        ahead: list[tuple[str, Value]] = [("", record)]
        while ahead:
            key, value = ahead.pop()
            if isinstance(value, tuple):
                ahead += [(_joined(key, name), inner) for name, inner in reversed(value)]
            elif isinstance(value, list):
                scalars, objects = _flattened(value)
                ahead += [(key, inner) for inner in reversed(objects)]
                if len(scalars) > NUMBERS_MAX and all(isinstance(scalar, Number) for scalar in scalars):
                    self.payloads[key] += 1
                elif shown := [text for scalar in scalars if (text := self.shown(key, scalar))]:
                    is_prose = any(type(scalar) is str for scalar in scalars)
                    yield _Leaf(key, _own(key), shown, is_prose and any(_is_text(key, text) for text in shown))
            elif text := self.shown(key, value):
                yield _Leaf(key, _own(key), [text], type(value) is str and _is_text(key, text))

    def shown(self, key: str, value: Value) -> str:
        """A scalar as text; empty if there is nothing to show."""
        if type(value) is str:
            own = clean(value).replace("\0", " ").strip()
            kept = _without_encoded(own) if len(own) >= ENCODED_CHARS_MIN else own
            if kept is not own:
                self.payloads[key] += 1
            return kept
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, Number) else ""


def _is_text(key: str, value: str) -> bool:
    """Whether a string is to be read rather than to be looked up."""
    return len(value) >= LONG_CHARS or "\n" in value or _own(key) in _TEXTS


def _are_records(found: list[Value]) -> bool:
    return sum(isinstance(value, tuple) for value in found) * 2 > len(found)


def _held(around: Pairs) -> tuple[list[Value], Pairs] | None:
    """The list of records that an object is about, half of its content at least, and all else in it."""
    rest: list[tuple[str, Value]] = []
    prefix, total = "", 0
    for _ in range(LEVELS_MAX):
        weights = [_weight(value) for _, value in around]
        total = total or sum(weights)
        if not around or max(weights) * 2 < total:
            return None
        best = weights.index(max(weights))
        key, value = around[best]
        rest += [(_joined(prefix, other), inner) for i, (other, inner) in enumerate(around) if i != best]
        if isinstance(value, list):
            return (value, tuple(rest)) if _are_records(value) else None
        if not isinstance(value, tuple):
            return None
        around, prefix = value, _joined(prefix, key)
    return None


def _weight(value: Value) -> int:
    """How much a value holds: characters of its scalars, and one for each thing."""
    weight = 0
    ahead = [value]
    while ahead:
        one = ahead.pop()
        weight += 1
        if isinstance(one, list):
            ahead += one
        elif isinstance(one, tuple):
            ahead += [inner for _, inner in one]
        elif isinstance(one, str):
            weight += len(one)
    return weight


def _flattened(found: list[Value]) -> tuple[list[Value], list[Value]]:
    """Scalars of a list and of the lists in it, in order, and the objects between them."""
    scalars: list[Value] = []
    objects: list[Value] = []
    ahead = found[::-1]
    while ahead:
        value = ahead.pop()
        if isinstance(value, list):
            ahead += value[::-1]
        elif isinstance(value, tuple):
            objects.append(value)
        else:
            scalars.append(value)
    return scalars, objects


@lru_cache(KEYS_REMEMBERED)
def _joined(path: str, key: str) -> str:
    key = " ".join(clean(key).replace("\0", " ").split()) or '""'
    path = f"{path}.{key}" if path else key
    return path if len(path) <= PATH_CHARS_MAX else "…" + path[1 - PATH_CHARS_MAX :]


@lru_cache(KEYS_REMEMBERED)
def _own(key: str) -> str:
    key = key.lower()
    return next((key.removeprefix(wrapper) for wrapper in _WRAPPERS if key.startswith(wrapper)), key)


def _short(leaves: list[_Leaf]) -> dict[str, _Leaf]:
    """Fields of one short line by their names, the first of each name."""
    short: dict[str, _Leaf] = {}
    for leaf in leaves:
        if len(leaf.values) == 1 and len(leaf.values[0]) <= TITLE_CHARS_MAX and "\n" not in leaf.values[0]:
            short.setdefault(leaf.own, leaf)
    return short


def _best(short: dict[str, _Leaf], names: tuple[str, ...]) -> _Leaf | None:
    """The field whose name stands first in `names`."""
    return next((short[name] for name in names if name in short), None)


def _without_encoded(value: str) -> str:
    """The text without data addresses' payloads and other encoded data; the same object if it has none."""
    plain = without_payloads(value)
    kept = _ENCODED.sub(lambda match: "" if _is_encoded(match) else match.group(), plain).strip()
    return value if kept == value else kept


def _is_encoded(match: re.Match[str]) -> bool:
    """Whether a long run of letters and digits is data: no hash, no address or path, no word or number."""
    run = match.group()
    if _HEX.fullmatch(run) or run.isdecimal():
        return False
    start = match.start()
    token = match.string[max(0, start - _TOKEN_CHARS_MAX) : start].split()
    if token and not match.string[start - 1].isspace() and "://" in token[-1]:
        return False
    if any(max(map(len, run.split(mark))) <= _SEGMENT_CHARS_MAX for mark in "/-_"):
        return False
    is_mixed = any(c.islower() for c in run) and any(c.isupper() for c in run) and any(c.isdecimal() for c in run)
    return is_mixed or len(run) == len(match.string) or len(run) > _WORD_CHARS_MAX
