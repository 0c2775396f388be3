"""What the index should hold of a record, derived from the ledger and the files alone, and whether it does.

A source's chunk listing is kept as a file whose key is its hash, and says everything that its records say; an artifact's
row says everything of its record. So what an index has lost or spoilt can be told for certain, and written again, without
the source and without a run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from manifests import manifest_from
from pipeline import recording
from pipeline.artifacts import render
from pipeline.artifacts.leg import artifact_path, data
from pipeline.codec import decode_vectors, empty_sparse, encode_vectors, take_sparse
from pipeline.drafts import LABEL_CHARS_MAX, blob_key, context_line, listing_path
from pipeline.errors import RejectedInput
from pipeline.fingerprint import canonical_json, text_hash
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.recipe import Recipe, recipe_from_json, serving
from pipeline.rows import RecordRow, VersionRow
from pipeline.types import (
    OPEN,
    ContextSlug,
    Float32Array,
    LogicalId,
    Metadata,
    Namespace,
    RecordBatch,
    RecordId,
    SourcePath,
    StoredRecords,
)

Terms = tuple[npt.NDArray[np.uint32], Float32Array]

NORM_TOLERANCE = 1e-3
"""How far from 1 a stored vector's length may be."""
WEIGHT_TOLERANCE = 1e-5
"""How far a stored term weight may be from what the encoder gives."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that isn't as the ledger says."""

    kind: str
    """missing, changed, dense, sparse, stamp, stray, file, counts or view."""
    what: str
    """The record's id, the file's path, or the namespace."""
    where: str
    """The source, or the namespace."""
    healed: bool = False


@dataclass(slots=True)
class Expected:
    """What a record should be."""

    metadata: Metadata
    embed_text: str | None
    """What its vectors were made of; None where that can't be told from what is kept."""
    sources: tuple[str, ...]
    """What that text comes from."""


@dataclass(slots=True)
class Checker:
    """Checks records of one version."""

    ports: Ports
    slug: ContextSlug
    version: VersionRow
    recipe: Recipe = field(init=False)
    keyword: bool = field(init=False)
    """Whether the version's records have terms."""

    def __post_init__(self) -> None:
        self.recipe = recipe_from_json(self.version.recipe)
        self.keyword = manifest_from(json.loads(self.version.manifest)).curate.chunks.keyword.enabled

    def expected(self, rows: Sequence[RecordRow]) -> dict[RecordId, Expected]:
        """What is known of these records; those whose listing is lost or spoilt are left out."""
        chunks: dict[SourcePath, list[RecordRow]] = {}
        artifacts: list[RecordRow] = []
        for row in rows:
            if row.path.startswith(artifact_path("")):
                artifacts.append(row)
            else:
                chunks.setdefault(row.path, []).append(row)
        with self.ports.ledger.read() as session:
            blobs = self._listings(session, list(chunks))
            known = session.knowledge.artifacts_at(self.slug, self.version.number, [r.logical_id for r in artifacts])
        found = {a.id: a for a in known}
        out: dict[RecordId, Expected] = {}
        for row in artifacts:
            if row.logical_id in found:
                artifact = found[row.logical_id]
                of = tuple(source["path"] for source in data(artifact)["sources"])
                out[row.id] = Expected(render.metadata(artifact), render.embed_text(artifact), of)
        for path, some in chunks.items():
            told = self._told(blobs.get(path, ""))
            for row in some:
                if row.logical_id in told:
                    metadata = told[row.logical_id]
                    out[row.id] = Expected(metadata, _embed_text(metadata, self.recipe.context_tokens), (path,))
        return out

    def findings(self, rows: Sequence[RecordRow]) -> Iterator[tuple[Finding, RecordRow]]:
        """What is wrong with these records in the index, each told once."""
        expected = self.expected(rows)
        for namespace in sorted({row.namespace for row in rows}):
            some = [row for row in rows if row.namespace == namespace]
            stored = self.ports.index(self.slug).fetch(namespace, [r.id for r in some], vectors=True, metadata=True)
            held = {id_: at for at, id_ in enumerate(stored.ids)}
            terms = self._terms([expected.get(row.id) for row in some])
            for at, row in enumerate(some):
                kind = "missing"
                if row.id in held and stored.added[held[row.id]] != row.added:
                    kind = "changed"
                elif row.id in held:
                    kind = self._wrong(stored, held[row.id], expected.get(row.id), terms[at])
                if kind:
                    yield Finding(kind, row.id, row.path), row

    def rewritten(self, rows: Sequence[RecordRow]) -> frozenset[RecordId]:
        """Put these records into the index as they should be; those of which enough is known."""
        expected = {id_: one for id_, one in self.expected(rows).items() if one.embed_text is not None}
        done: set[RecordId] = set()
        for namespace in sorted({row.namespace for row in rows}):
            for added in sorted({row.added for row in rows}):
                some = [r for r in rows if (r.namespace, r.added) == (namespace, added) and r.id in expected]
                if some:
                    self._write(namespace, added, some, [expected[r.id] for r in some])
                    done.update(row.id for row in some)
        return frozenset(done)

    def _write(self, namespace: Namespace, added: int, rows: Sequence[RecordRow], wanted: Sequence[Expected]) -> None:
        texts = [one.embed_text or "" for one in wanted]
        batch = RecordBatch(
            namespace,
            added,
            tuple(row.id for row in rows),
            decode_vectors(self._vectors(texts, wanted), self.recipe.model.dim),
            self.recipe.encoder().encode(texts) if self.keyword else empty_sparse(len(rows)),
            tuple(one.metadata for one in wanted),
        )
        index = self.ports.index(self.slug)
        index.delete(namespace, batch.ids)  # what stands there under these ids would stay
        index.upsert(batch)
        with self.ports.ledger.read() as session:
            closed = [row for row in session.records.get(self.slug, batch.ids) if row.removed != OPEN]
        for removed in sorted({row.removed for row in closed}):
            index.stamp(namespace, [row.id for row in closed if row.removed == removed], removed)

    def _vectors(self, texts: Sequence[str], wanted: Sequence[Expected]) -> list[bytes]:
        keys = [f"dense:{self.recipe.model_fingerprint()}:{text_hash(text)}" for text in texts]
        held = self.ports.memo.get_many(sorted(set(keys)))
        origins = {
            key: [recording.origin(self.slug, path) for path in one.sources]
            for key, one in zip(keys, wanted, strict=True)
        }
        lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in held}
        if lacking:
            embedder = serving(self.ports.embedders, self.recipe.model)
            if embedder is None:
                raise RejectedInput(
                    "model_not_served",
                    f"{self.slug} is built with {self.recipe.model.name}, which this deployment doesn't serve",
                    remedy="install that version, then repair again",
                )
            block = min(self.ports.limits.embed_texts, embedder.texts_per_call)
            todo = list(lacking.items())
            for at in range(0, len(todo), block):
                part = todo[at : at + block]
                vectors = encode_vectors(embedder.embed([text for _, text in part]).vectors)
                fresh = dict(zip((key for key, _ in part), vectors, strict=True))
                self.ports.memo.put_many(fresh, {key: origins[key] for key in fresh}, joint=True)
                held.update(fresh)
        return [held[key] for key in keys]

    def _terms(self, expected: Sequence[Expected | None]) -> list[Terms | None]:
        """(terms, weights) that each should have; None where that isn't known."""
        texts = [one.embed_text if one and self.keyword else None for one in expected]
        vectors = self.recipe.encoder().encode([text or "" for text in texts])
        out: list[Terms | None] = []
        for at, text in enumerate(texts):
            row = take_sparse(vectors, at, at + 1)
            out.append(None if text is None else (row.indices, row.values))
        return out

    def _wrong(self, stored: StoredRecords, at: int, expected: Expected | None, terms: Terms | None) -> str:
        if expected is not None and canonical_json(dict(stored.metadata[at])) != canonical_json(
            dict(expected.metadata)
        ):
            return "changed"
        vector = stored.dense[at]
        if vector.shape != (self.recipe.model.dim,) or not np.isfinite(vector).all():
            return "dense"
        if abs(float(np.linalg.norm(vector)) - 1) > NORM_TOLERANCE:
            return "dense"
        row = take_sparse(stored.sparse, at, at + 1)
        if terms is None:
            return ""
        same = row.indices.shape == terms[0].shape and bool((row.indices == terms[0]).all())
        return "" if same and bool(np.allclose(row.values, terms[1], rtol=0, atol=WEIGHT_TOLERANCE)) else "sparse"

    def _listings(self, session: Session, paths: Sequence[SourcePath]) -> dict[SourcePath, str]:
        files = session.files.at_for(self.slug, self.version.number, paths)
        return {file.source: file.blob for file in files if file.path == listing_path(file.source)}

    def _told(self, blob: str) -> dict[LogicalId, Metadata]:
        """Metadata of the listing's chunks; empty where it is lost or isn't what its key says."""
        data = sound_blob(self.ports, self.slug, blob) if blob else None
        out: dict[LogicalId, Metadata] = {}
        for line in (data or b"").decode().splitlines():
            held = {name: tuple(v) if isinstance(v, list) else v for name, v in json.loads(line).items()}
            out[LogicalId(str(held["logical_id"]))] = held
        return out


def sound_blob(ports: Ports, slug: ContextSlug, blob: str) -> bytes | None:
    """The blob; None where it is gone or isn't what its key says."""
    try:
        data = ports.objects(slug).get(blob)
    except RejectedInput:
        return None
    return data if blob_key(data) == blob else None


def _embed_text(metadata: Metadata, budget: int) -> str | None:
    """The text that was embedded; None where a shortened label hides what stood in front of it."""
    title, headings = str(metadata.get("title", "")), metadata.get("headings", ())
    labels = [title, *(headings if isinstance(headings, tuple) else ())]
    if any(len(label) >= LABEL_CHARS_MAX for label in labels):
        return None
    if "part" in metadata and title == metadata.get("filename"):
        return None  # an untitled part bears its file's name, which isn't embedded; so may a titled one
    line = context_line(title, labels[1:], budget)
    return line + str(metadata.get("prefix", "")) + str(metadata["text"])
