"""A whole deployment for tests: the real ledger and index on files, everything else in memory, on a virtual clock."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from manifests import Manifest, manifest_from
from pipeline import contexts, curate, loop, publish, search, starting
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.ledger_sqlite import SqliteLedger
from pipeline.adapters.memory import MemoryMemo, MemoryObjectStore, VirtualClock
from pipeline.adapters.memory_files import MemorySourceTree, MemoryView
from pipeline.adapters.parser_inprocess import InProcessParser
from pipeline.errors import RejectedInput
from pipeline.file_ports import ObjectStore
from pipeline.ledger import Ledger
from pipeline.limits import Limits
from pipeline.ports import DenseEmbedder, LanguageModel, Memo, Parser, Ports, VectorIndex
from pipeline.request import CurateRequest
from pipeline.rows import RecordRow, RunRow
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug, Embedding, ModelIdentity, ParsedDocument, Side, SourcePath
from pipeline.units import UnitClaim

SLUG = ContextSlug("ctx")
RAM = Path("/dev/shm")  # where it exists, the fsyncs of thousands of tiny runs cost nothing

SECTIONS = manifest_from({"curate": {"chunks": {"chunking": {"target_size": 64, "overlap": 0}}}})
WHOLE = manifest_from(
    {"curate": {"chunks": {"chunking": {"target_size": 256, "overlap": 0, "respect_sections": False}}}}
)


class HashEmbedder:
    """A dense model that is a hash: deterministic, unit length, and no two texts near each other."""

    concurrent = False
    texts_per_call = 4

    def __init__(self, name: str = "hash", dim: int = 16) -> None:
        self.identity = ModelIdentity(name, "1", "", dim)
        self.texts: list[str] = []
        self.fail: Callable[[str], None] = lambda _text: None

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:  # noqa: ARG002  # both alike
        rows = []
        for text in texts:
            self.fail(text)
            seed = hashlib.sha256(f"{self.identity.name}|{text}".encode()).digest()
            rows.append(np.frombuffer(seed * 4, dtype=np.int8)[: self.identity.dim].astype(np.float32) + 0.5)
        self.texts += texts
        vectors = np.array(rows, dtype=np.float32).reshape(len(rows), self.identity.dim)
        return Embedding(np.ascontiguousarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)), len(texts))


class CountingParser:
    """The real parsers, counted; a document that says REFUSE is refused."""

    def __init__(self) -> None:
        self.inner = InProcessParser()
        self.identity = self.inner.identity
        self.calls: list[str] = []

    def last_job(self) -> str:
        return ""

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        self.calls.append(name)
        if b"REFUSE" in data:
            raise RejectedInput("refused", f"{name} says REFUSE")
        return self.inner.parse(data, name)

    def close(self) -> None:
        self.inner.close()


def text_of(*words: str) -> bytes:
    """A Markdown file with one section, and so one chunk under `SECTIONS`, a word."""
    return "".join(f"# {w}\n\nbody of {w}\n\n" for w in words).encode()


def _home() -> Path:
    """A folder of its own, gone when the tests end."""
    home = Path(tempfile.mkdtemp(prefix="lamina-", dir=RAM if RAM.is_dir() else None))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def sqlite_ledger(home: Path) -> Ledger:
    return SqliteLedger(home / "ledger.sqlite")


@dataclass
class World:
    """One context in one deployment."""

    home: Path = field(default_factory=_home)
    limits: Limits = field(
        default_factory=lambda: Limits(batch_sources=2, embed_texts=4, upsert_records=3, lease_s=30.0)
    )
    files: dict[SourcePath, bytes] = field(default_factory=dict)
    memo: Memo = field(default_factory=MemoryMemo)
    parser: Parser = field(default_factory=CountingParser)
    embedders: dict[str, DenseEmbedder] = field(default_factory=lambda: {"hash": HashEmbedder()})
    language: LanguageModel | None = None
    wrap_index: Callable[[VectorIndex], VectorIndex] = lambda index: index
    owner: str = "one"
    opened: bool = True
    """Whether the context is there from the start."""
    open_ledger: Callable[[Path], Ledger] = sqlite_ledger

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.tree = MemorySourceTree(self.files)
        self.view = MemoryView()
        self.objects: ObjectStore = MemoryObjectStore()
        self.ledger = self.open_ledger(self.home)
        self.raw_index = LocalIndex(self.home / "index.sqlite")
        self.index = self.wrap_index(self.raw_index)
        self.ports = self.ports_for(self.owner)
        if self.opened:
            contexts.open_context(self.ports, SLUG, kind="staged", root="")

    def ports_for(self, owner: str) -> Ports:
        """The same deployment as another process sees it."""
        return Ports(
            clock=self.clock, ledger=self.ledger, memo=self.memo, parser=self.parser, embedders=self.embedders,
            index=lambda _slug: self.index, objects=lambda _slug: self.objects, sources=lambda _context: self.tree,
            view=lambda _slug: self.view, limits=self.limits, owner=owner, language=self.language,
        )  # fmt: skip

    def put(self, path: str, *words: str) -> None:
        self.files[SourcePath(path)] = text_of(*words)
        self.tree.touched[SourcePath(path)] = int(self.clock.now() * 1e9)

    def drop(self, path: str) -> None:
        self.files.pop(SourcePath(path), None)

    def request(self, manifest: Manifest | None = SECTIONS, *, force: bool = False, **more: object) -> CurateRequest:
        return replace(CurateRequest(SLUG, manifest, force=force, allow_empty=True), **more)

    def curate(self, manifest: Manifest | None = SECTIONS, *, force: bool = False, **more: object) -> RunRow:
        """One whole run; the clock moves on so that run ids differ."""
        self.clock.advance(1)
        return loop.curate_and_follow(self.ports, self.request(manifest, force=force, **more), 1)

    def live(self) -> int:
        with self.ledger.read() as session:
            return publish.require_context(session, SLUG).live_version

    def readable(self) -> list[int]:
        with self.ledger.read() as session:
            return [v.number for v in session.versions.list(SLUG) if v.readable]

    def listed(self, version: int) -> tuple[RecordRow, ...]:
        with self.ledger.read() as session:
            return session.records.page_at(SLUG, version, "", 100_000)

    def read(self, version: int) -> list[tuple[str, str, int]]:
        """What a reader at `version` can find: (path, text, position), by way of index and ledger both."""
        out = []
        for row in self.listed(version):
            stored = self.raw_index.fetch(row.namespace, [row.id], vectors=True, metadata=True)
            if row.namespace.endswith(".chunks") and stored.ids and stored.added[0] <= version < stored.removed[0]:
                meta = stored.metadata[0]
                out.append((str(meta["source_path"]), str(meta["text"]), int(meta["chunk_index"])))
        return sorted(out)

    def texts(self, version: int | None = None) -> list[str]:
        return sorted(text for _, text, _ in self.read(self.live() if version is None else version))

    def found(self, text: str, **more: object) -> list[str]:
        """Source paths that a sparse query finds at the live version."""
        answer = search.search(self.ports, SLUG, replace(search.Question(text, k=100, mode="sparse"), **more))
        return sorted({str(r.metadata["source_path"]) for r in answer.results})

    def close(self) -> None:
        self.raw_index.close()
        self.ledger.close()


def start(world: World, owner: str = "one", **more: object) -> starting.Started:
    """Begin or take over a run as `owner`."""
    return starting.start(world.ports_for(owner), world.request(**more))


def step(
    world: World, started: starting.Started, owner: str = "one", cache: DraftCache | None = None
) -> UnitClaim | None:
    """Do one unit of a run."""
    ports = world.ports_for(owner)
    claim = curate.next_claim(ports, started)
    if claim is not None:
        curate.run_claim(ports, claim, cache or DraftCache(), report=lambda _n: None, lost=lambda: False)
    return claim


def step_until(world: World, started: starting.Started, stage: str, owner: str = "one") -> bool:
    """Do units until one of `stage` is done; False when the run ended before."""
    while (claim := step(world, started, owner)) is not None:
        if claim.stage == stage:
            return True
    return False
