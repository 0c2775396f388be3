"""The version rules under test: a world whose index may lag, crash and be written late, and an oracle beside it.

The oracle knows nothing of records: it keeps, for each version that went live, which revision of each source it shows,
and computes what a reader must find by running the pure stages on that revision alone.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from knowledge_facts import ARTIFACTS, knowledge
from world import SECTIONS, SLUG, WHOLE, HashEmbedder, World, sqlite_ledger, start, step

from manifests import Manifest, canonical_json, manifest_from
from pipeline import contexts, curate, publish, screen, search, starting
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.drafts import DocumentFacts, draft_records
from pipeline.errors import Conflict, PipelineError
from pipeline.ledger import Ledger, Session
from pipeline.namespaces import DOCUMENTS, counts_key
from pipeline.parse import parse_bytes
from pipeline.ports import Ports, VectorIndex
from pipeline.queries import GraphInfo, Search, SearchTrace
from pipeline.recipe import recipe_from_json
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.stages.job import DraftCache
from pipeline.types import Hit, Namespace, RecordBatch, RecordId, SourcePath, StoredRecords

MANIFESTS: dict[str, Manifest] = {"sections": SECTIONS, "whole": WHOLE}


def with_artifacts(manifest: Manifest) -> Manifest:
    """The same chunks, and the artifact leg."""
    document = json.loads(canonical_json(manifest))
    document["curate"]["artifacts"] = ARTIFACTS
    return manifest_from(document)


Revision = tuple[bytes, str]
"""Bytes and the manifest they were curated under."""


class CrashError(BaseException):
    """The process died here."""


@lru_cache(maxsize=10_000)
def passages(path: str, revision: Revision) -> tuple[tuple[str, str, int], ...]:
    """What a reader must find of one revision: (path, text, position)."""
    data, manifest = revision
    c = MANIFESTS[manifest].curate.chunks.chunking
    document = parse_bytes(data, path)
    chunks = chunk_document(document, c.strategy, ChunkOptions(c.target_size, c.overlap, c.respect_sections))
    facts = DocumentFacts(SourcePath(path), document.title, document.metadata)
    passed, _ = screen.screen(chunks, screen.DEFAULT)
    kept = [chunk for chunk, good in zip(chunks, passed, strict=True) if good]
    drafts = draft_records(SLUG, [(facts, kept)], recipe="", context_tokens=64)
    return tuple((path, str(d.metadata["text"]), d.position) for d in drafts)


def shown(state: dict[str, Revision]) -> list[tuple[str, str, int]]:
    """What a reader must find of a whole version."""
    return sorted(itertools.chain.from_iterable(passages(path, revision) for path, revision in state.items()))


@dataclass
class LateIndex:
    """The real index behind a wire on which a call may die before or after it lands, or land again much later."""

    inner: VectorIndex
    now: Callable[[], float]
    crash_in: int = 0
    """The call that dies, counted from 1; 0 for none."""
    lands: bool = True
    """Whether the dying call still takes effect."""
    calls: Counter[str] = field(default_factory=Counter)
    sent: list[tuple[float, str, tuple[object, ...]]] = field(default_factory=list)
    between: Callable[[], None] = lambda: None
    """What happens while a search is under way."""
    before_fetch: Callable[[], None] = lambda: None
    """What happens before the next read-back."""

    def _send(self, name: str, *args: object) -> None:
        self.calls[name] += 1
        self.sent.append((self.now(), name, args))
        dies = self.crash_in == 1
        self.crash_in = max(0, self.crash_in - 1)
        if not dies or self.lands:
            getattr(self.inner, name)(*args)
        if dies:
            raise CrashError

    def upsert(self, batch: RecordBatch) -> None:
        self._send("upsert", batch)

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        self._send("stamp", namespace, tuple(ids), removed)

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        self._send("delete", namespace, tuple(ids))

    def fetch(self, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool) -> StoredRecords:
        before_fetch, self.before_fetch = self.before_fetch, lambda: None
        before_fetch()
        return self.inner.fetch(namespace, ids, vectors=vectors, metadata=metadata)

    def search(self, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
        return self.explain(namespace, request)[0]

    def explain(self, namespace: Namespace, request: Search) -> tuple[tuple[Hit, ...], SearchTrace]:
        found = self.inner.explain(namespace, request)
        between, self.between = self.between, lambda: None
        between()
        return found

    def optimize(self, namespace: Namespace, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
        return self.inner.optimize(namespace, report=report, stop=stop)

    def graphs(self, namespace: Namespace) -> tuple[GraphInfo, ...]:
        return self.inner.graphs(namespace)

    def scan(self, namespace: Namespace) -> Iterator[tuple[RecordId, int, int]]:
        return self.inner.scan(namespace)

    @property
    def creates_only(self) -> bool:
        return self.inner.creates_only

    def settle(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        self.inner.settle(namespace, ids)

    def drop(self, namespace: Namespace) -> None:
        self.inner.drop(namespace)

    def close(self) -> None:
        self.inner.close()

    def late(self, i: int, longest_s: float) -> bool:
        """Let one call land again, as a store without conditions would take it. False when none may be that late."""
        fresh = [(name, args) for at, name, args in self.sent if self.now() - at <= longest_s]
        if not fresh:
            return False
        name, args = fresh[i % len(fresh)]
        if name == "upsert":
            (batch,) = args
            assert isinstance(batch, RecordBatch)
            self.inner.delete(batch.namespace, batch.ids)
        getattr(self.inner, name)(*args)
        return True


class Versions:
    """One context, driven step by step, and what must be true of it."""

    def __init__(self, *, artifacts: bool = False, open_ledger: Callable[[Path], Ledger] = sqlite_ledger) -> None:
        self.artifacts = artifacts
        self.manifests = {name: with_artifacts(m) if artifacts else m for name, m in MANIFESTS.items()}
        self.world = World(
            open_ledger=open_ledger,
            language=ExtractiveModel(),
            wrap_index=lambda inner: LateIndex(inner, lambda: self.world.clock.now()),  # noqa: PLW0108  # no world yet
            embedders={"hash": HashEmbedder("hash"), "other": HashEmbedder("other")},
        )
        assert isinstance(self.world.index, LateIndex)
        self.index: LateIndex = self.world.index
        self.sources: dict[str, bytes] = {}
        self.truth: dict[int, dict[str, Revision]] = {0: {}}
        self.desired: dict[str, Revision] = {}
        self.asked: dict[str, object] = {}
        self.started: starting.Started | None = None
        self.owners = itertools.count()
        self.owner = "owner"
        self.used: set[int] = set()
        self.went_live: list[int] = []
        self.pins: list[tuple[int, float]] = []
        self.moved = False
        """Whether the pointer was moved since the run in hand was planned."""
        self.seen: Counter[str] = Counter()

    # ---------------------------------------------------------------- what a run is asked for
    def claim(self, manifest: str = "sections", *, force: bool = False, embedder: str = "") -> None:
        """Start a run over the sources as they are now."""
        self.world.clock.advance(3)
        files = {SourcePath(p): d for p, d in self.sources.items()}
        now = int(self.world.clock.now() * 1e9)
        for path, data in files.items():
            if self.world.files.get(path) != data:
                self.world.tree.touched[path] = now
        self.world.files.clear()
        self.world.files.update(files)
        live = self.truth[self.world.live()]
        self.desired = {}
        for path, data in self.sources.items():
            had = live.get(path)
            if b"REFUSE" in data:
                if had is not None:
                    self.desired[path] = had
            elif had is not None and had[0] == data and not force and not self._failed_since(path, data):
                self.desired[path] = had
            else:
                self.desired[path] = (data, manifest)
        settings = {"embedder": embedder} if embedder else {}
        self.moved = False
        self.asked = {"manifest": self.manifests[manifest], "force": force, "settings": settings}
        self._start()

    def _failed_since(self, path: str, data: bytes) -> bool:
        """Whether the live version last judged other bytes of this source, which it refused: these are a change back."""
        live = self.world.live()
        with self.world.ledger.read() as session:
            rows = session.sources.at_for(SLUG, live, [SourcePath(path)])
        return bool(rows) and rows[0].status == "failed" and b"REFUSE" not in data

    def _start(self) -> None:
        self.started = start(self.world, self.owner, **self.asked)

    def run(self) -> RunRow | None:
        if self.started is None:
            return None
        with self.world.ledger.read() as session:
            return session.runs.get(self.started.run)

    # ---------------------------------------------------------------- progress, crashes
    def step(self, units: int = 1) -> None:
        """Do some units; the run may end."""
        for _ in range(units):
            if self.started is None:
                return
            self._unit()

    def finish(self, until: str = "") -> None:
        """Go on to the end, or until a unit of `until` is done."""
        for _ in range(500):
            if self.started is None:
                return
            if self._unit() == until:
                return
        raise AssertionError("the run doesn't end")

    def _unit(self) -> str:
        """One unit; its stage, or nothing where none was waiting or the claim was lost under it."""
        assert self.started is not None
        claim = None
        try:
            claim = step(self.world, self.started, self.owner, DraftCache())
        except Conflict as error:
            if error.code != "stale_fence":
                raise
            self.seen["stale"] += 1
        self._ended()
        return claim.stage if claim is not None else ""

    def interrupt(self, do: str) -> None:
        """In the middle of the next unit that reads back, somebody else cancels the run, finishes it, or moves the pointer."""
        actions = {"cancel": self.cancel, "finish": self._finish_elsewhere, "move": self._move_somewhere}
        self.index.before_fetch = actions[do]

    def _finish_elsewhere(self) -> None:
        self.take_over()
        self.finish()

    def _move_somewhere(self) -> None:
        if self.targets():
            self.move(self.targets()[0])

    def crash(self, at_call: int, *, lands: bool) -> None:
        """Go on until an index call dies, or to the end; then another process takes over."""
        self.index.crash_in, self.index.lands = at_call, lands
        try:
            self.finish()
        except CrashError:
            self.seen["crash"] += 1
            self.take_over()
        finally:
            self.index.crash_in = 0

    def take_over(self) -> None:
        """The process is gone, or asleep past its lease; another one resumes."""
        if self.started is None:
            return
        self.world.clock.advance(self.world.limits.lease_s + 1)
        self.owner = f"owner-{next(self.owners)}"
        before = self.started
        self._start()
        self.seen["resumed"] += self.started is not None and self.started.run == before.run
        self._ended()

    def cancel(self) -> None:
        """Abandon, where it may be abandoned."""
        run = self.run()
        if run is not None and run.state in RUN_ACTIVE:
            curate.cancel(self.world.ports, run.id)
            self.seen["cancelled"] += run.state == "running"
        self._ended()

    def _ended(self) -> None:
        run = self.run()
        if run is None:
            return
        if run.number and run.state in ("flipped", "completed") and run.number not in self.truth:
            assert run.number not in self.used, "a number is used by a second plan"
            assert not self.moved, "a flip undid a rollback"
            self.truth[run.number] = self.desired
            self.used.add(run.number)
            self.went_live.append(run.number)
            self.seen["flips"] += 1
            self.check_version(run.number)
        if run.state == "noop":
            assert shown(self.desired) == shown(self.truth[self.world.live()]), (
                "a no-op that should have done something"
            )
        if run.state not in RUN_ACTIVE:
            if run.number:
                self.used.add(run.number)
            self.seen[run.state] += 1
            self.started = None

    def curate(self, manifest: str = "sections", *, force: bool = False, embedder: str = "") -> None:
        """One whole run."""
        self.finish()
        self.claim(manifest, force=force, embedder=embedder)
        self.finish()
        self.check()

    # ---------------------------------------------------------------- the pointer, pins, reclaim
    def targets(self) -> list[int]:
        return [v for v in sorted(self.world.readable()) if v != self.world.live()]

    def move(self, version: int) -> None:
        curate.rollback(self.world.ports, SLUG, version)
        self.went_live.append(version)
        self.moved = True
        self.seen["moves"] += 1
        self.world.clock.advance(1)

    def pin(self, seconds: float) -> None:
        held = contexts.pin(self.world.ports, SLUG, version=None, seconds=seconds)
        self.pins.append((held.version, held.until))
        self.seen["pins"] += 1

    def reclaim(self) -> None:
        publish.reclaim(self.world.ports, SLUG, hold=lambda _session: None)
        publish.sweep(self.world.ports, SLUG)

    # ---------------------------------------------------------------- what must be true
    def check_version(self, version: int) -> None:
        want = shown(self.truth[version])
        assert self.world.read(version) == want, ("reader", version, self.world.read(version), want)
        assert self._asked(version) == want, ("query", version, want)

    def _asked(self, version: int) -> list[tuple[str, str, int]]:
        question = search.Question("body", k=100, mode="sparse", version=version)
        return found(search.search(self.world.ports, SLUG, question))

    def check(self) -> None:
        """Every version that may be read shows just what it showed when it went live."""
        live, now = self.world.live(), self.world.clock.now()
        readable = self.world.readable()
        recent = list(dict.fromkeys(reversed(self.went_live)))[: self.world.limits.keep_versions]
        pinned = {version for version, until in self.pins if now < until}
        for version in sorted({live, *recent, *pinned} - {0}):
            assert version in readable, ("a kept or pinned version can't be read", version)
        assert live in {0, *readable}
        for version in readable:
            self.check_version(version)
            self._check_counts(version)

    def _check_counts(self, version: int) -> None:
        with self.world.ledger.read() as session:
            row = session.versions.get(SLUG, version)
            assert row is not None
            encoder = recipe_from_json(row.recipe).encoder()
            want: Counter[int] = Counter()
            chunks = [r for r in session.records.page_at(SLUG, version, "", 100_000) if r.namespace.endswith(".chunks")]
            for record in chunks:
                stored = self.world.raw_index.fetch(record.namespace, [record.id], vectors=True, metadata=False)
                want.update(stored.sparse.indices.tolist())
                want[DOCUMENTS] += 1
            terms = [*want, *encoder.query_terms("nothing says this")]
            found = session.records.counts(SLUG, counts_key(row.generation, "chunks"), version, terms)
        assert {t: n for t, n in found.items() if n} == dict(want), ("document counts", version)

    def query(self, between: Callable[[], None]) -> None:
        """Ask while the world moves; the answer is of one version, whole."""
        if not self.world.live():
            return
        self.index.between = between
        try:
            answer = search.search(self.world.ports, SLUG, search.Question("body", k=100, mode="sparse"))
        finally:
            self.index.between = lambda: None
        assert found(answer) == shown(self.truth[answer.version]), ("query", answer.version)
        self.seen["queries"] += 1

    def storm(self) -> None:
        """Every call that may still land late does, in both orders; readers must not notice."""
        for i in (*range(len(self.index.sent)), *reversed(range(len(self.index.sent)))):
            if self.index.late(i, self.world.limits.late_write_s):
                self.seen["late"] += 1
        self.check()

    def sweep(self) -> None:
        """After one sweep the index holds what the ledger lists, and nothing else but what the active run writes."""
        publish.sweep(self.world.ports, SLUG)
        publish.restamp(self.world.ports, SLUG)
        run = self.run()
        active = run.number if run is not None and run.state in RUN_ACTIVE else -1
        with self.world.ledger.read() as session:
            spaces = session.records.namespaces(SLUG)
        for namespace in spaces:
            rows = {r: (a, x) for r, a, x in self.world.raw_index.scan(namespace) if a != active}
            with self.world.ledger.read() as session:
                listed = {
                    r.id: (r.added, r.removed)
                    for r in session.records.get(SLUG, list(rows))
                    if r.namespace == namespace
                }
            assert rows == listed, ("the sweep leaves rows that nothing lists", set(rows) ^ set(listed))

    def compare_with_scratch(self) -> None:
        """Invariant 2: what is live equals a curate of the same sources into an empty ledger and index."""
        good = {p: d for p, d in self.sources.items() if b"REFUSE" not in d}
        if len(good) != len(self.sources):
            return
        live = self.world.live()
        with self.world.ledger.read() as session:
            row = session.versions.get(SLUG, live)
        assert row is not None
        embedder = recipe_from_json(row.recipe).embedder
        known = []
        if self.artifacts:  # which don't depend on how chunks are cut, so that no run need be forced
            self.curate("sections")
            known.append(knowledge(self.world, self.world.live()))
        self.curate("sections", force=True, embedder=embedder)
        if self.artifacts:
            known.append(knowledge(self.world, self.world.live()))
        fresh = World(embedders=self.world.embedders, language=ExtractiveModel())
        try:
            fresh.files.update({SourcePath(p): d for p, d in good.items()})
            fresh.curate(self.manifests["sections"], settings={"embedder": embedder})
            assert facts(self.world) == facts(fresh), "incremental differs from from-scratch"
            for held in known:
                scratch = knowledge(fresh, fresh.live())
                differ = [name for name in scratch if scratch[name] != held[name]]
                assert not differ, ("incremental knowledge differs from from-scratch", differ)
        finally:
            fresh.close()

    def close(self) -> None:
        self.world.close()


def found(answer: search.Answer) -> list[tuple[str, str, int]]:
    """What a query found, as `shown` puts it."""
    return sorted(
        (str(r.metadata["source_path"]), str(r.metadata["text"]), int(str(r.metadata["chunk_index"])))
        for r in answer.results
    )


def facts(world: World) -> list[tuple[str, str, tuple[float, ...]]]:
    """Logical ids, texts and vectors of what is live."""
    out = []
    for row in world.listed(world.live()):
        stored = world.raw_index.fetch(row.namespace, [row.id], vectors=True, metadata=True)
        vector = tuple(round(float(x), 5) for x in stored.dense[0])
        out.append((row.logical_id, str(stored.metadata[0]["text"]), vector))
    return sorted(out)


@contextmanager
def patched(owner: object, name: str, value: object) -> Iterator[None]:
    """Put a mutant in the place of one function. Only mutation tests do this."""
    old = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, old)


__all__ = ["CrashError", "LateIndex", "PipelineError", "Ports", "Session", "Versions", "facts", "patched", "shown"]
