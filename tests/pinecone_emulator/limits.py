"""What the service refuses before it does anything, with the numbers of its documents."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from .filters import BadFilter, Filter, check
from .store import Record, Refused

UPSERT_RECORDS = 1_000
UPSERT_BYTES = 2 * 1024 * 1024
TEXT_RECORDS = 96
METADATA_BYTES = 40 * 1024
ID_CHARS = 512
SPARSE_TERMS = 2_048
DIMENSION = 20_000
IDS = 1_000
TOP_K = 10_000
LIST_PAGE = 100
FIELD_NAME_BYTES = 64
URL_BYTES = 16 * 1024


def bad(message: str) -> Refused:
    return Refused(400, "INVALID_ARGUMENT", message)


def need(body: Any, key: str, kind: type | tuple[type, ...]) -> Any:
    """A key of the body that must be there."""
    if not isinstance(body, dict) or not isinstance(body.get(key), kind) or isinstance(body[key], bool):
        raise bad(f"{key} is missing or of the wrong type")
    return body[key]


def record_id(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > ID_CHARS:
        raise bad(f"an id is a string of 1 to {ID_CHARS} characters")
    if not value.isascii() or "\0" in value:
        raise bad(f"Vector ID must be ASCII, but got '{value}'")
    return value


def id_list(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or len(value) > IDS:
        raise bad(f"1 to {IDS} ids are allowed in one request")
    return [record_id(id_) for id_ in value]


def top_k(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= TOP_K:
        raise bad(f"top_k must be 1 to {TOP_K}")
    return value


def page_limit(value: Any) -> int:
    limit = LIST_PAGE if value is None else int(value)
    if not 1 <= limit <= LIST_PAGE:
        raise bad(f"limit must be 1 to {LIST_PAGE}")
    return limit


def upsert_size(count: int, size_bytes: int) -> None:
    if not 1 <= count <= UPSERT_RECORDS:
        raise bad(f"1 to {UPSERT_RECORDS} records are allowed in one upsert, got {count}")
    if size_bytes > UPSERT_BYTES:
        raise Refused(413, "PAYLOAD_TOO_LARGE", f"the request has {size_bytes} bytes, the limit is {UPSERT_BYTES}")


def dense_values(values: Any, dimension: int | None, where: str, *, stored: bool) -> Any:
    if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
        raise bad(f"{where}: a dense vector is a list of numbers")
    if len(values) != dimension:
        raise bad(f"Vector dimension {len(values)} does not match the dimension of the index {dimension}")
    vector = np.array(values, np.float32)
    if not np.isfinite(vector).all():
        raise bad(f"{where}: a dense vector has finite values")
    if stored and not vector.any():
        raise bad(f"Dense vectors must contain at least one non-zero value. Vector ID '{where}' contains only zeros")
    return vector


def sparse_values(value: Any, where: str) -> tuple[Any, Any]:
    indices, values = (value.get("indices"), value.get("values")) if isinstance(value, dict) else (None, None)
    if not isinstance(indices, list) or not isinstance(values, list) or len(indices) != len(values) or not indices:
        raise bad(f"{where}: a sparse vector has as many values as indices, at least one")
    if len(indices) > SPARSE_TERMS:
        raise bad(f"{where}: a sparse vector has at most {SPARSE_TERMS} values, got {len(indices)}")
    if any(not isinstance(i, int) or not 0 <= i < 1 << 32 for i in indices) or len(set(indices)) != len(indices):
        raise bad(f"{where}: indices are unsigned 32-bit and unique")
    if any(not isinstance(v, int | float) or not math.isfinite(v) for v in values):
        raise bad(f"{where}: values are finite numbers")
    return np.array(indices, np.uint32), np.array(values, np.float32)


def metadata(fields: Any, where: str, *, documents: bool, drop_empty_lists: bool) -> dict[str, Any]:
    """The fields as they are kept: numbers as floats, nulls gone."""
    if not isinstance(fields, dict):
        raise bad(f"{where}: metadata is an object")
    kept = {}
    for name, value in fields.items():
        if name.startswith("$") or (
            documents and (not name or name[0] == "_" or len(name.encode()) > FIELD_NAME_BYTES)
        ):
            raise bad(f"{where}: {name!r} can't be the name of a field")
        if value is not None and not (value == [] and drop_empty_lists):
            kept[name] = _kept(name, value, where)
    size = len(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))
    if size > METADATA_BYTES:
        raise bad(
            f"Metadata size is {size} bytes, which exceeds the limit of {METADATA_BYTES} bytes per vector: {where}"
        )
    return kept


def _kept(name: str, value: Any, where: str) -> Any:
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise bad(f"{where}: the metadata field {name} is neither string, number, boolean nor list of strings")


def filter_of(value: Any, *, negation: bool) -> Filter | None:
    if value is None or value == {}:
        return None
    try:
        check(value, negation=negation)
    except BadFilter as error:
        raise bad(str(error)) from error
    return value  # type: ignore[no-any-return]


def shown_dense(record: Record) -> list[float]:
    return [] if record.dense is None else record.dense.tolist()


def shown_sparse(record: Record) -> dict[str, Any] | None:
    if record.sparse is None:
        return None
    return {"indices": record.sparse[0].tolist(), "values": record.sparse[1].tolist()}
