"""Content-derived ids and stage fingerprints. The only place that hashes.

A fingerprint is SHA-256 over a canonical, length-prefixed encoding, so that no two different inputs share one by
concatenation. Record ids, logical ids and path encoding are defined here and nowhere else (DESIGN §3).
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from uuid import UUID

from pipeline.types import ContextSlug, LogicalId, RecordId, SourcePath

NAMESPACE_LAMINA = UUID("6f1c0c55-5d6d-5f6c-9a55-1d2f64a7f6a3")
"""Root of every UUIDv5 that Lamina derives; never changes."""

_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)

Part = bytes | str | int | bool | None


def fingerprint(*parts: Part) -> str:
    """64 hex digits over typed, length-prefixed parts; equal exactly when all parts are equal in type and value."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode("utf-8")
        digest.update(f"{type(part).__name__}:{len(raw)}:".encode())
        digest.update(raw)
    return digest.hexdigest()


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no spaces, non-ASCII kept: equal values give equal text."""
    return _CANONICAL.encode(value)


def content_hash(data: bytes) -> str:
    """SHA-256 of bytes, 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def text_hash(text: str) -> str:
    """SHA-256 of a text's UTF-8, 64 hex digits."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def chunk_logical_id(context: ContextSlug, path: SourcePath, text_digest: str, ordinal: int) -> LogicalId:
    """UUIDv5 of (context, source path, text hash, occurrence ordinal): the same passage keeps its id across runs."""
    return LogicalId(_uuid5(_CANONICAL.encode(("chunk", context, path, text_digest, ordinal))))


def artifact_logical_id(context: ContextSlug, type_: str, key: str) -> LogicalId:
    """UUIDv5 of (context, artifact type, natural key or subject)."""
    return LogicalId(_uuid5(_CANONICAL.encode(("artifact", context, type_.casefold(), key))))


def _uuid5(name: str) -> str:
    """RFC 9562 §5.5 under our namespace; what `str(uuid.uuid5(...))` gives, at a third of its cost."""
    raw = bytearray(hashlib.sha1(NAMESPACE_LAMINA.bytes + name.encode("utf-8"), usedforsecurity=False).digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x50
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@lru_cache(maxsize=4096)
def source_uid(path: SourcePath) -> str:
    """32 hex digits that stand for a path inside record ids."""
    return fingerprint("source", path)[:32]


def record_id(path: SourcePath, text_digest: str, ordinal: int, added: int) -> RecordId:
    """`{source_uid}#{hash16}.{ordinal}#{added_version}`: never rewritten, never shared by two versions."""
    return RecordId(f"{source_uid(path)}#{text_digest[:16]}.{ordinal}#{added}")


def restamp(record: RecordId, added: int) -> RecordId:
    """The id of the same record content under another version."""
    return RecordId(f"{record.rpartition('#')[0]}#{added}")


_ESCAPABLE = re.compile(rb"%(?=[0-9A-F]{2})")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")


def encode_path(raw: bytes) -> SourcePath:
    """A file name's bytes as text that is always valid UTF-8, without loss.

    Bytes that aren't UTF-8 become %XX; a literal '%' is escaped only where it would read as such an escape.
    """
    text = _ESCAPABLE.sub(b"%25", raw).decode("utf-8", "surrogateescape")
    return SourcePath("".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in text))


def decode_path(path: SourcePath) -> bytes:
    """The file name's bytes that `encode_path` was given."""
    out, at = bytearray(), 0
    for match in _ESCAPED.finditer(path):
        out += path[at : match.start()].encode("utf-8")
        out.append(int(match.group(1), 16))
        at = match.end()
    return bytes(out + path[at:].encode("utf-8"))
