"""What a replay made against what the run made: chunks and their vectors, artifacts, edges, files, and answers to questions.

Compared is what is the same in any deployment: logical ids, contents, vectors bit by bit, files by the hash of their bytes.
Record ids and version numbers are left out: they say when something was written, not what.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline import publish, recording, search
from pipeline.fingerprint import canonical_json
from pipeline.ports import Ports
from pipeline.rows import RecordRow, RunRow
from pipeline.types import ContextSlug, RecordId, SourcePath, StoredRecords

Json = dict[str, Any]

PAGE_ROWS = 200
LISTED_MAX = 200
"""Differences that a report lists; it counts all."""
QUESTION_K = 10

Said = tuple[tuple[str, ...], str]
"""A key, whose last part is a name to show, and what is said under it."""


@dataclass(slots=True)
class _Found:
    """Counts, the first differences, and a hash over all that the replay made."""

    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Json] = field(default_factory=list)
    total: int = 0
    vectors_off: float = 0.0
    digest: Any = field(default_factory=hashlib.sha256)

    def say(self, kind: str, what: str, name: str, source: str = "") -> None:
        """Count a difference, and list it while there is room."""
        self.counts[f"{kind}_{what}"] += 1
        self.total += 1
        if len(self.differences) < LISTED_MAX:
            self.differences.append(
                {"kind": kind, "what": what, "name": name, **({"source": source} if source else {})}
            )

    def both(self, kind: str, then: Iterator[Said], now: Iterator[Said]) -> None:
        """Compare what both say, each in the order of its keys; memory holds one of each. The digest takes what is now."""
        left, right = next(then, None), next(now, None)
        while left is not None or right is not None:
            if right is None or (left is not None and left[0] < right[0]):
                assert left is not None
                self.say(kind, "missing", left[0][-1])
                left = next(then, None)
                continue
            self.digest.update(canonical_json(right).encode())
            if left is None or right[0] < left[0]:
                self.say(kind, "extra", right[0][-1])
            elif left[1] != right[1]:
                self.say(kind, "changed", right[0][-1])
                left = next(then, None)
            else:
                self.counts[f"{kind}_same"] += 1
                left = next(then, None)
            right = next(now, None)


def compare(ports: Ports, scratch: Ports, run: RunRow, sources: str, questions: Sequence[str]) -> Json:
    """The report of a replay.

    Args:
        ports: the deployment that has the original.
        scratch: the one that has the replay, live.
        run: the original.
        sources: glob of the sources that were replayed; what the whole corpus decides about is then left out.
        questions: asked of both.

    Returns:
        `equal` (None where there is nothing to compare with, and `reason`), `counts`, `differences` (the first
        `LISTED_MAX`), `differences_total`, `vectors_max_difference`, `digest` (SHA-256 over everything that the replay
        made), and `questions`.
    """
    slug = run.context
    with scratch.ledger.read() as session:
        made = publish.require_context(session, slug).live_version
    found = _Found()
    with ports.ledger.read() as session:
        version = session.versions.get(slug, run.number)
    readable = version is not None and version.readable
    old = _Side(ports, slug, run.number if readable else 0)
    new = _Side(scratch, slug, made)
    _records(found, old, new, sources)
    if not sources:
        found.both("artifact", old.artifacts(), new.artifacts())
        found.both("edge", old.edges(), new.edges())
        found.both("file", old.files(), new.files())
    asked = [_question(old, new, text) for text in questions] if readable else []
    return {
        "equal": (found.total == 0) if readable else None,
        "reason": None
        if readable
        else f"version {run.number} can't be read any more, so there is nothing to compare with",
        "counts": dict(sorted(found.counts.items())) if readable else {},
        "differences": found.differences if readable else [],
        "differences_total": found.total if readable else 0,
        "vectors_max_difference": found.vectors_off,
        "digest": found.digest.hexdigest(),
        "questions": asked,
    }


# ---- records


def _records(found: _Found, old: _Side, new: _Side, sources: str) -> None:
    """Chunks, source by source; both sides by path, so that memory holds one page."""
    for paths in _paths(old, new, sources):
        then, now = old.records(paths), new.records(paths)
        for key in sorted({*then, *now}):
            path, logical = key
            if key not in now:
                found.say("chunk", "missing", logical, path)
            elif key not in then:
                found.say("chunk", "extra", logical, path)
            elif then[key].content != now[key].content:
                found.say("chunk", "changed", logical, path)
            else:
                found.counts["chunk_same"] += 1
        _vectors(found, old, new, then, now)


def _paths(old: _Side, new: _Side, sources: str) -> Iterator[list[SourcePath]]:
    for side, other in ((old, None), (new, old)):
        for page in side.pages(sources):
            known = other.has(page) if other is not None else frozenset()
            paths = [path for path in page if path not in known]
            for at in range(0, len(paths), PAGE_ROWS):
                yield paths[at : at + PAGE_ROWS]


Keyed = dict[tuple[str, str], RecordRow]


def _vectors(found: _Found, old: _Side, new: _Side, then: Keyed, now: Keyed) -> None:
    keys = sorted(now)
    for at in range(0, len(keys), PAGE_ROWS):
        part = keys[at : at + PAGE_ROWS]
        made = new.stored([now[key] for key in part])
        had = old.stored([then[key] for key in part if key in then])
        for key in part:
            found.digest.update(canonical_json([*key, now[key].content]).encode())
            left, right = had.get(then[key].id) if key in then else None, made.get(now[key].id)
            if right is not None:
                found.digest.update(right[0].tobytes())
            if key not in then or then[key].content != now[key].content:
                continue
            if left is None or right is None:
                found.say("vector", "missing", key[1], key[0])
            elif left[0].tobytes() != right[0].tobytes() or left[1] != right[1]:
                found.vectors_off = max(found.vectors_off, float(np.max(np.abs(left[0] - right[0]), initial=0.0)))
                found.say("vector", "changed", key[1], key[0])
            else:
                found.counts["vector_same"] += 1


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two: a version of the context in a deployment. Version 0 holds nothing."""

    ports: Ports
    slug: ContextSlug
    version: int

    def pages(self, sources: str) -> Iterator[list[SourcePath]]:
        """Paths of sources, in pages."""
        if self.version:
            wanted = recording.inventory(
                self.ports, self.slug, self.version, lambda row: recording.matches(row.path, sources)
            )
            for page in wanted:
                yield [row.path for row in page]

    def has(self, paths: Sequence[SourcePath]) -> frozenset[SourcePath]:
        """Those of the paths that the version holds."""
        with self.ports.ledger.read() as session:
            rows = session.sources.at_for(self.slug, self.version, paths) if self.version else ()
        return frozenset(row.path for row in rows if row.hash and row.chunks)

    def records(self, paths: Sequence[SourcePath]) -> Keyed:
        """(path, logical id) to record."""
        with self.ports.ledger.read() as session:
            rows = session.records.at_for(self.slug, self.version, paths) if self.version else ()
        return {(row.path, row.logical_id): row for row in rows}

    def stored(self, rows: Sequence[RecordRow]) -> dict[RecordId, tuple[Any, bytes]]:
        """Record id to dense vector and sparse vector, the latter as bytes."""
        out: dict[RecordId, tuple[Any, bytes]] = {}
        for space in sorted({row.namespace for row in rows}):
            ids = [row.id for row in rows if row.namespace == space]
            held: StoredRecords = self.ports.index(self.slug).fetch(space, ids, vectors=True, metadata=False)
            for at, id_ in enumerate(held.ids):
                assert held.dense is not None
                assert held.sparse is not None
                begin, end = held.sparse.indptr[at], held.sparse.indptr[at + 1]
                terms = held.sparse.indices[begin:end].tobytes() + held.sparse.values[begin:end].tobytes()
                out[id_] = (held.dense[at], terms)
        return out

    def artifacts(self) -> Iterator[Said]:
        """By type, name and logical id: all that an artifact says."""
        after = ("", "", "")
        while self.version:
            with self.ports.ledger.read() as session:
                page = session.knowledge.page_artifacts(self.slug, self.version, after, PAGE_ROWS)
            for row in page:
                after = (row.type, row.name, row.id)
                yield after, canonical_json([row.scope, row.format, row.basis, row.file, row.data])
            if len(page) < PAGE_ROWS:
                return

    def edges(self) -> Iterator[Said]:
        """By the id of its statement: the edge."""
        after = ""
        while self.version:
            with self.ports.ledger.read() as session:
                page = session.knowledge.page_edges(self.slug, self.version, after, PAGE_ROWS)
            for row in page:
                after = row.id
                yield (row.id,), canonical_json([row.type, row.source, row.target, row.path, row.data])
            if len(page) < PAGE_ROWS:
                return

    def files(self) -> Iterator[Said]:
        """By path: the key of the blob, which is a hash of its bytes."""
        after = ""
        while self.version:
            with self.ports.ledger.read() as session:
                page = session.files.page(self.slug, self.version, after, PAGE_ROWS)
            for row in page:
                after = row.path
                yield (row.path,), row.blob
            if len(page) < PAGE_ROWS:
                return


# ---- questions


def _question(old: _Side, new: _Side, text: str) -> Json:
    """What both find, best first, by logical id."""
    then, now = _asked(old, text), _asked(new, text)
    shared = len({hit["id"] for hit in then} & {hit["id"] for hit in now})
    return {
        "question": text,
        "same": then == now,
        "shared": shared,
        "then": then,
        "now": now,
    }


def _asked(side: _Side, text: str) -> list[Json]:
    answer = search.search(side.ports, side.slug, search.Question(text, k=QUESTION_K, version=side.version))
    return [
        {"id": hit.logical_id, "source": hit.metadata.get("source_path", ""), "score": round(hit.score, 6)}
        for hit in answer.results
    ]
