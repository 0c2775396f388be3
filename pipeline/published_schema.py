"""What third-party readers get to see of a record, and the record that tells them about fields.

The readers' rules: a passage's text stands in `chunk_text`; metadata is flat, without nulls, each field of one type
throughout a namespace; a document is named by `document_number`, `url` or `doc_id`, never by an empty one; the record
`schema_manifest` in the namespace `_mcp_config` of the dense index declares namespaces and their fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.fingerprint import canonical_json
from pipeline.fleet_ports import PublishedRecord
from pipeline.types import Metadata, RecordId

NAMESPACE: Final = "_mcp_config"
RECORD: Final = RecordId("schema_manifest")
TEXT: Final = "chunk_text"
RECORD_BYTES_MAX: Final = 38_000
"""Of a record, a little under what the service takes, since it counts in a way of its own."""
IDENTITY: Final = (
    "doc_id",
    "document_number",
    "url",
    "source_path",
    "title",
    "author",
    "filename",
    "chunk_index",
    "start_index",
)
"""Fields that stay where a record is too large for all of them."""
_NAME_BYTES_MAX: Final = 64


@dataclass(slots=True)
class Fields:
    """Field to type by namespace, as it grows with what is published."""

    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    left_out: int = 0
    """Values that were of another type than their field."""

    @classmethod
    def parse(cls, text: str) -> Fields:
        """From `text`."""
        return cls({name: dict(schema) for name, schema in json.loads(text).items()})

    def text(self) -> str:
        """As the ledger keeps it."""
        return canonical_json(self.schemas)

    def of(self, names: Iterable[str]) -> Fields:
        """Of these namespaces alone."""
        return Fields({name: self.schemas.get(name, {TEXT: "string"}) for name in names})

    def admit(self, namespace: str, name: str, value: object) -> bool:
        """Whether the value is of its field's type, which the first one decides."""
        schema = self.schemas.setdefault(namespace, {TEXT: "string"})
        fits = schema.setdefault(name, _type(value)) == _type(value)
        self.left_out += not fits
        return fits


def _type(value: object) -> str:
    """In the readers' words."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "string[]"


def record(id_: RecordId, metadata: Metadata, fields: Fields, namespace: str) -> tuple[PublishedRecord, bool]:
    """A stored record as readers get it, and whether its text had to be cut."""
    kept: dict[str, Any] = {}
    for name, value in sorted(metadata.items()):
        plain = not name.startswith(("_", "$")) and name not in ("text", TEXT, "id") and _fits(name)
        told = value.strip() != "" if isinstance(value, str) else value not in ([], ())
        if plain and told and fields.admit(namespace, name, value):
            kept[name] = list(value) if isinstance(value, tuple) else value
    text = str(metadata.get("text", ""))
    if _size(kept, text) > RECORD_BYTES_MAX:
        kept = {name: kept[name] for name in IDENTITY if name in kept}
    room = RECORD_BYTES_MAX - _size(kept, "")
    cut = _json_bytes(text) > room
    return PublishedRecord(id_, _cut(text, room) if cut else text, kept), cut


def _fits(name: str) -> bool:
    return 0 < len(name.encode()) <= _NAME_BYTES_MAX


def _size(kept: Mapping[str, Any], text: str) -> int:
    return len(json.dumps({**kept, TEXT: text}, ensure_ascii=False).encode())


def _json_bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2


def _cut(text: str, room: int) -> str:
    """The longest beginning that takes at most `room` bytes."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _json_bytes(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def document(own: Mapping[str, Mapping[str, str]], found: str, names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Text of the schema record, and the namespaces for which it has no room.

    Args:
        own: our namespaces that hold records, each with its fields.
        found: the text that stands there now; what it says of others' namespaces is kept.
        names: all namespaces that are ours, whether they hold anything or not.
    """
    before = _parsed(found)
    ours = frozenset(names)
    namespaces = {name: told for name, told in before.pop("namespaces", {}).items() if name not in ours}
    for name, schema in own.items():
        context, _, kind = name.partition(".")
        words = f"{(kind or 'passages').capitalize()} of {context}, kept up to date by Lamina"
        namespaces[name] = {"description": words, "metadata_schema": dict(schema)}
    undeclared: list[str] = []
    while True:
        text = canonical_json({**before, "namespaces": namespaces})
        if _json_bytes(text) <= RECORD_BYTES_MAX or not namespaces:
            return text, tuple(sorted(undeclared))
        largest = max(namespaces, key=lambda name: (len(canonical_json(namespaces[name])), name))
        undeclared.append(largest)
        del namespaces[largest]


def _parsed(found: str) -> dict[str, Any]:
    """What somebody wrote there, as far as it is of the form; anything else is written anew."""
    try:
        held = json.loads(found) if found else {}
    except ValueError:
        return {}
    if not isinstance(held, dict):
        return {}
    told = held.get("namespaces")
    kept = {name: value for name, value in told.items() if isinstance(value, dict)} if isinstance(told, dict) else {}
    return {**{name: value for name, value in held.items() if name == "description"}, "namespaces": kept}
