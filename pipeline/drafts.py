"""Drafts: what a chunk becomes before it is a record. Pure.

A draft fixes everything that a record says: the logical id, the text that is embedded and indexed (title and heading
path in front of the chunk), the flat metadata, and the content fingerprint by which two records are the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pipeline import tokens
from pipeline.fingerprint import (
    canonical_json,
    chunk_logical_id,
    content_hash,
    fingerprint,
    record_id,
    source_uid,
    text_hash,
)
from pipeline.types import Chunk, ContextSlug, LogicalId, Metadata, MetadataValue, RecordId, SourcePath

METADATA_BYTES_MAX = 40_000
"""Pinecone's limit for one record's metadata; held here so that a deployment can move."""

UTF8_BYTES_MAX = 6
"""Bytes of one character in JSON at most: a control character is written as an escape."""

LABEL_CHARS_MAX = 300
"""Characters of a title in metadata."""

FIELD_CHARS = 64
"""Room for a number, or for a field's name and punctuation."""

SEPARATOR = " > "
"""Between the parts of a heading path, in context lines and in `section_path`."""


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What the records of one source share."""

    path: SourcePath
    title: str
    metadata: tuple[tuple[str, MetadataValue], ...]
    format: str = ""
    """What the source, or the part, was read as."""
    part: str = ""
    """Name of the document inside the source, such as a mail's attachment; empty for the source's own text."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One wanted record, before a version number is put on it."""

    logical_id: LogicalId
    ordinal: int
    """Which occurrence of the same text in the source this is, from 0."""
    text_digest: str
    position: int
    content: str
    embed_text: str
    embed_digest: str
    """SHA-256 of `embed_text`: what memo keys of vectors are made of."""
    metadata: Metadata
    metadata_json: str
    """`metadata` as canonical JSON: hashed, listed and compared, so made once."""
    tokens: int

    def record_id(self, path: SourcePath, added: int) -> RecordId:
        """The id under which version `added` writes it."""
        return record_id(path, self.text_digest, self.ordinal, added)


def draft_records(
    context: ContextSlug,
    documents: Iterable[tuple[DocumentFacts, Sequence[Chunk]]],
    *,
    recipe: str,
    context_tokens: int,
) -> tuple[Draft, ...]:
    """Drafts of one source's kept chunks, in document order.

    Args:
        context: the slug; part of the logical id.
        documents: the source's own text and its parts: what the records of each share, and its chunks as kept by
            screening; their positions are counted anew from 0, through all of them.
        recipe: fingerprint of the recipe: another recipe is other content.
        context_tokens: budget of title and heading path.
    """
    seen: Counter[str] = Counter()
    out: list[Draft] = []
    for facts, chunks in documents:
        drafts = _drafts_of(facts, chunks, len(out), seen, context=context, recipe=recipe, budget=context_tokens)
        out.extend(drafts)
    return tuple(out)


def _drafts_of(
    facts: DocumentFacts,
    chunks: Sequence[Chunk],
    first: int,
    seen: Counter[str],
    *,
    context: ContextSlug,
    recipe: str,
    budget: int,
) -> Iterator[Draft]:
    shared = _shared_metadata(facts)
    lead: dict[tuple[str, ...], str] = {}
    for position, chunk in enumerate(chunks, start=first):
        digest = text_hash(chunk.text)
        ordinal = seen[digest]
        seen[digest] += 1
        if chunk.heading_path not in lead:
            lead[chunk.heading_path] = context_line(facts.title, chunk.heading_path, budget)
        logical = chunk_logical_id(context, facts.path, digest, ordinal)
        metadata = _fit({**shared, **_chunk_metadata(chunk, position), "logical_id": logical})
        metadata_json = canonical_json(metadata)
        embed_text = lead[chunk.heading_path] + chunk.prefix + chunk.text
        yield Draft(
            logical_id=logical,
            ordinal=ordinal,
            text_digest=digest,
            position=position,
            content=fingerprint("record", recipe, metadata_json),
            embed_text=embed_text,
            embed_digest=text_hash(embed_text),
            metadata=metadata,
            metadata_json=metadata_json,
            tokens=chunk.tokens,
        )


def context_line(title: str, path: Sequence[str], budget: int) -> str:
    """Title and heading path as one line and a blank one, at most `budget` tokens, shortened from the left."""
    parts = [*([title] if title and title not in path[:1] else []), *path]
    text = SEPARATOR.join(part for part in parts if part)
    if not text or budget <= 0:
        return ""
    # A token is a byte at least, so a short line needs no counting.
    if len(text.encode()) > budget and tokens.count(text) > budget:
        starts = tokens.boundaries(text)
        at = int(starts[len(starts) - budget])
        # A suffix of whole tokens may count one more by itself, as the pieces at its start join otherwise.
        while tokens.count(text[at:].lstrip()) > budget:
            at += 1
        text = text[at:].lstrip()
    return text + "\n\n" if text else ""


def _shared_metadata(facts: DocumentFacts) -> dict[str, MetadataValue]:
    shared: dict[str, MetadataValue] = {_own_name(k, v): v for k, v in facts.metadata if k and k != "title"}
    shared["source_path"] = facts.path
    shared["filename"] = (facts.part or facts.path).rsplit("/", 1)[-1]
    shared["title"] = label(facts.title) or (shared["filename"] if facts.part else "")
    shared["doc_id"] = source_uid(facts.path)
    if facts.part:
        shared["part"], shared["parent_id"] = facts.part, shared["doc_id"]
        shared["doc_id"] = source_uid(SourcePath(f"{facts.path}/{facts.part}"))
    shared["format"] = facts.format
    shared["kind"] = "chunk"
    shared["layer"] = "L0"
    return {key: value for key, value in shared.items() if value not in ("", ())}


def label(title: str) -> str:
    """A title as metadata holds it. A page of text above a line of dashes is a heading, too, and all of it is in the text."""
    return title if len(title) <= LABEL_CHARS_MAX else title[: LABEL_CHARS_MAX - 1].rstrip() + "…"


def _own_name(key: str, value: MetadataValue) -> str:
    """A document's own field under a name that means nothing else here. Its pages are pages whoever counts them."""
    return f"meta.{key}" if key in _RESERVED and not (key == "pages" and isinstance(value, tuple)) else key


def _chunk_metadata(chunk: Chunk, position: int) -> dict[str, MetadataValue]:
    # The number of chunks is left out on purpose: it would make one added section rewrite every record of the source.
    own: dict[str, MetadataValue] = {
        "text": chunk.text,
        "chunk_index": position,
        "start_index": chunk.start,
        "end_index": chunk.end,
        "tokens": chunk.tokens,
    }
    if chunk.heading_path:
        own["headings"] = headings = tuple(label(title) for title in chunk.heading_path)
        own["section_path"] = SEPARATOR.join(headings)
    if chunk.prefix:
        own["prefix"] = chunk.prefix
    if chunk.pages[0]:
        own["page_first"], own["page_last"] = chunk.pages
        own["pages"] = tuple(str(page) for page in range(chunk.pages[0], chunk.pages[1] + 1))
    return own


_RESERVED = frozenset(
    {
        "text", "title", "chunk_index", "start_index", "end_index", "tokens", "section_path", "headings",
        "prefix", "pages", "page_first", "page_last", "source_path", "filename", "doc_id", "kind", "layer",
        "logical_id", "labels", "added_version", "removed_version", "part", "parent_id", "format",
    }
)  # fmt: skip
"""Names that a document's own metadata can't take."""


def _characters(value: MetadataValue) -> int:
    if isinstance(value, str):
        return len(value) + FIELD_CHARS
    return sum(len(part) + FIELD_CHARS for part in value) if isinstance(value, tuple) else FIELD_CHARS


def _fit(metadata: dict[str, MetadataValue]) -> dict[str, MetadataValue]:
    """Drop a document's own fields, largest first, until the record fits; the fixed fields and the text stay."""
    if sum(_characters(value) for value in metadata.values()) * UTF8_BYTES_MAX < METADATA_BYTES_MAX:
        return metadata
    while len(json.dumps(metadata, ensure_ascii=False).encode()) > METADATA_BYTES_MAX:
        own = [key for key in metadata if key not in _RESERVED]
        if not own:
            break
        metadata.pop(max(own, key=lambda key: len(str(metadata[key]))))
    return metadata


def listing(drafts: Sequence[Draft]) -> bytes:
    """The chunk listing of one source: JSON Lines, one chunk a line, the same bytes for the same chunks."""
    return "".join(f"{d.metadata_json}\n" for d in drafts).encode()


def listing_path(path: SourcePath) -> str:
    """Where a source's chunk listing stands in the knowledge tree."""
    return f"chunks/{path}.chunks.jsonl"


def blob_key(data: bytes) -> str:
    """Key of a knowledge file's bytes in the object store."""
    digest = content_hash(data)
    return f"blobs/{digest[0]}/{digest}"
