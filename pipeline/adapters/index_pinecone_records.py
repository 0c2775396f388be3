"""How a record looks on Pinecone, and back.

Beside the record's own metadata stand fields of ours, all named `lamina_…`:

added, removed   the version interval, as numbers
keys             a list for filters: a hash of the id, and one of each ancestor of `source_path` and of the path itself.
                 Pinecone has no filter for prefixes; that a path lies under a folder is that the folder's hash is here
zero             true where the dense vector is all zero, which Pinecone refuses: a stand-in is stored, and searches know
empty            names of fields whose list is empty; Pinecone doesn't promise to keep those
floats           names of fields that hold a whole number as a float: Pinecone gives every number back as a float, and
                 what is whole comes back as an integer otherwise
names            true names of the fields stored under another: those that start with `_`, `$` or `lamina_`, are longer
                 than 64 bytes, hold characters that don't print, or are the index's own vector fields. They stand under
                 `lamina_x_` and a hash, so that filters on them work too

Only `added`, `removed` and `keys` stand in every record. What doesn't fit Pinecone's limits is refused before anything
is sent, by record and field. Of more than 2,048 terms the heaviest stay, of equal ones those with the smaller hash.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pipeline.errors import Corruption, RejectedInput
from pipeline.fingerprint import content_hash
from pipeline.types import OPEN, Float32Array, Metadata, MetadataValue, RecordBatch, RecordId

PREFIX: Final = "lamina_"
ADDED: Final = "lamina_added"
REMOVED: Final = "lamina_removed"
KEYS: Final = "lamina_keys"
ZERO: Final = "lamina_zero"
EMPTY: Final = "lamina_empty"
FLOATS: Final = "lamina_floats"
NAMES: Final = "lamina_names"

UPSERT_RECORDS_MAX: Final = 1_000
UPSERT_BYTES_MAX: Final = 2_000_000
"""Of 2 MB, counted as the smaller of its two meanings; what stands around the records is left room for below."""
_AROUND_BYTES: Final = 2_048
METADATA_BYTES_MAX: Final = 40_000
"""Of 40 KB, as above."""
ID_CHARS_MAX: Final = 512
TERMS_MAX: Final = 2_048
NAME_BYTES_MAX: Final = 64
INTEGER_MAX: Final = 2**53
_HASH_CHARS: Final = 24
"""96 bits: a corpus of a thousand million paths meets a pair of equal ones once in 10^11."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The vector fields of an index."""

    dense: str
    sparse: str
    dim: int

    def stored(self, name: str) -> str:
        """Under which name a metadata field stands; see the module docstring."""
        plain = name.isprintable() and not name.startswith(("_", "$", PREFIX)) and name not in (self.dense, self.sparse)
        if plain and 0 < len(name.encode()) <= NAME_BYTES_MAX:
            return name
        return f"{PREFIX}x_{_hash(name)}"


@dataclass(frozen=True, slots=True)
class Wired:
    """A record ready to be sent."""

    id: RecordId
    dense: list[float]
    sparse: tuple[list[int], list[float]] | None
    fields: dict[str, Any]
    bytes: int
    """About what it adds to a request."""


@dataclass(frozen=True, slots=True)
class Held:
    """A record as it came back."""

    dense: Sequence[float]
    sparse: tuple[Sequence[int], Sequence[float]] | None
    fields: Mapping[str, Any]


def storable_id(record: str) -> bool:
    """Whether Pinecone can hold such an id."""
    return 0 < len(record) <= ID_CHARS_MAX and record.isascii() and "\0" not in record


def id_key(record: str) -> str:
    """The key by which a search finds a record."""
    return "=" + _hash(record)


def scope_key(prefix: str) -> str:
    """The key of every record whose source path is `prefix` or lies under it."""
    return "/" + _hash(prefix.rstrip("/"))


def wired(batch: RecordBatch, layout: Layout) -> Iterator[Wired]:
    """The batch's records, the first of each id.

    Raises:
        RejectedInput: codes `bad_record_id`, `bad_metadata` and `metadata_too_large`, naming record and field.
    """
    seen: set[str] = set()
    for position, record in enumerate(batch.ids):
        if record in seen:
            continue
        seen.add(record)
        if not storable_id(record):
            raise RejectedInput(
                "bad_record_id",
                f"record id {record[:80]!r} isn't 1 to {ID_CHARS_MAX} ASCII characters, which Pinecone asks for",
            )
        yield _wired(batch, position, layout)


def blocks(records: Iterator[Wired]) -> Iterator[list[Wired]]:
    """Records in order, in groups that one request holds."""
    block: list[Wired] = []
    size = _AROUND_BYTES
    for record in records:
        if block and (len(block) == UPSERT_RECORDS_MAX or size + record.bytes > UPSERT_BYTES_MAX):
            yield block
            block, size = [], _AROUND_BYTES
        block.append(record)
        size += record.bytes
    if block:
        yield block


def heaviest(terms: Sequence[int], weights: Sequence[float]) -> tuple[list[int], list[float]]:
    """At most 2,048 terms, in rising order; which, says the module docstring."""
    chosen = sorted(zip(terms, weights, strict=True), key=lambda pair: (-pair[1], pair[0]))[:TERMS_MAX]
    chosen.sort()
    return [term for term, _ in chosen], [weight for _, weight in chosen]


def interval(record: str, fields: Mapping[str, Any]) -> tuple[int, int]:
    """(added, removed) of a record that came back.

    Raises:
        Corruption: code `foreign_record`: it isn't one of ours.
    """
    found = [fields.get(name) for name in (ADDED, REMOVED)]
    numbers = [int(value) for value in found if isinstance(value, int | float) and float(value).is_integer()]
    if len(numbers) != len(found):
        raise Corruption(
            "foreign_record",
            f"record {record[:80]!r} has no version interval: something else writes to Lamina's namespace",
            remedy="Keep other writers out of the index, and delete what they wrote.",
        )
    return numbers[0], numbers[1]


def metadata_of(fields: Mapping[str, Any], layout: Layout) -> Metadata:
    """The record's own metadata, with the types that it was written with."""
    names = {layout.stored(name): name for name in fields.get(NAMES) or ()}
    floats = frozenset(fields.get(FLOATS) or ())
    found: dict[str, MetadataValue] = {
        names.get(stored, stored): _value(value, whole=stored not in floats)
        for stored, value in fields.items()
        if stored in names or not (stored.startswith((PREFIX, "_")) or stored in (layout.dense, layout.sparse))
    }
    found.update(dict.fromkeys((names.get(stored, stored) for stored in fields.get(EMPTY) or ()), ()))
    return found


def dense_of(held: Held, dim: int) -> Float32Array:
    """The dense vector, zero where a stand-in was stored."""
    return np.zeros(dim, np.float32) if held.fields.get(ZERO) else np.array(held.dense, np.float32)


def sparse_of(held: Held) -> tuple[npt.NDArray[np.uint32], Float32Array]:
    """The terms in rising order, and their weights."""
    if held.sparse is None:
        return np.zeros(0, np.uint32), np.zeros(0, np.float32)
    terms, weights = np.array(held.sparse[0], np.uint32), np.array(held.sparse[1], np.float32)
    order = np.argsort(terms, kind="stable")
    return terms[order], weights[order]


def _wired(batch: RecordBatch, position: int, layout: Layout) -> Wired:
    import orjson  # noqa: PLC0415  # comes with the client

    record, row = batch.ids[position], batch.dense[position]
    fields = _fields(record, batch.metadata[position], layout)
    fields |= {ADDED: batch.added, REMOVED: OPEN}
    if not row.any():
        row = np.zeros_like(row)
        row[0] = 1
        fields[ZERO] = True
    # Through its shortest decimal form: written as a double, each number of the vector would take twice the bytes.
    packed = orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY)
    terms, weights = batch.sparse.row(position)
    sparse = heaviest(terms.tolist(), weights.tolist()) if len(terms) else None
    size = len(packed) + len(orjson.dumps(sparse)) + _checked_size(record, fields) + len(record) + 128
    return Wired(record, orjson.loads(packed), sparse, fields, size)


def _fields(record: str, metadata: Metadata, layout: Layout) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    lists: dict[str, list[str]] = {EMPTY: [], FLOATS: [], NAMES: []}
    for name, value in metadata.items():
        stored = layout.stored(name)
        if stored != name:
            lists[NAMES].append(name)
        _check(record, name, value)
        if isinstance(value, tuple | list):
            fields[stored] = list(value)
            if not value:
                lists[EMPTY].append(stored)
        else:
            fields[stored] = value
            if isinstance(value, float) and value.is_integer():
                lists[FLOATS].append(stored)
    path = str(metadata.get("source_path", ""))
    ends = [at for at, char in enumerate(path) if char == "/"] + [len(path)]
    folders = dict.fromkeys(path[:end] for end in ends)
    fields[KEYS] = [id_key(record), *(scope_key(f) for f in folders if f and not f.endswith("/"))]
    return fields | {name: values for name, values in lists.items() if values}


def _check(record: str, name: str, value: object) -> None:
    if isinstance(value, str | bool) or (isinstance(value, tuple | list) and all(isinstance(i, str) for i in value)):
        return
    if isinstance(value, int):
        if abs(value) <= INTEGER_MAX:
            return
        problem = "integers past 2^53 would be rounded; write them as text"
    elif isinstance(value, float):
        if math.isfinite(value):
            return
        problem = "numbers must be finite"
    else:
        problem = f"a value of type {type(value).__name__} is neither text, number, boolean nor list of texts"
    raise RejectedInput("bad_metadata", f"record {record[:80]!r}, field {name[:80]!r}: {problem}")


def _checked_size(record: str, fields: Mapping[str, Any]) -> int:
    import orjson  # noqa: PLC0415

    sizes = {}
    for name, value in fields.items():
        try:
            sizes[name] = len(orjson.dumps({name: value}))
        except TypeError:
            sizes[name] = 0
            problem = "text that isn't valid Unicode can't be sent"
            raise RejectedInput("bad_metadata", f"record {record[:80]!r}, field {name[:80]!r}: {problem}") from None
    size = sum(sizes.values())
    if size > METADATA_BYTES_MAX:
        largest = max(sizes, key=lambda name: (sizes[name], name))
        shown = "source_path" if largest == KEYS else largest
        raise RejectedInput(
            "metadata_too_large",
            f"record {record[:80]!r} has {size} bytes of metadata, {sizes[largest]} of them in field {shown[:80]!r}; "
            f"Pinecone holds {METADATA_BYTES_MAX}",
            remedy="Split the text or drop the field.",
        )
    return size


def _value(value: Any, *, whole: bool) -> MetadataValue:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value) if whole and float(value).is_integer() else float(value)
    return value  # type: ignore[no-any-return]


def _hash(text: str) -> str:
    return content_hash(text.encode("utf-8", "surrogatepass"))[:_HASH_CHARS]
