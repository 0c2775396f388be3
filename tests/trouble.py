"""The trouble cases' names, mapped to the product once: parse, chunk, count, run, live, and the rules that many name."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from world import SLUG, CountingParser, HashEmbedder, World

from manifests import Manifest, manifest_from
from pipeline import search, tokens
from pipeline.adapters.memory_files import MemorySourceTree
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.parse import parse_bytes
from pipeline.parse.tables import Table
from pipeline.parse.tables import tables as tables_of
from pipeline.ports import VectorIndex
from pipeline.rows import RecordRow, RunRow, SourceRow
from pipeline.stages.parse import STATUS
from pipeline.types import (
    Metadata,
    MetadataValue,
    Namespace,
    ParsedDocument,
    RecordBatch,
    RecordId,
    SourcePath,
)

STRATEGIES = ("markdown_heading", "sliding_window", "html", "csv", "code")
MARKS = "\ufffd\ufeff\0"
"""What CLEAN allows only where the source had it as text."""

count = tokens.count
Columns = list[str]
Records = list[dict[str, str]]


@dataclass(frozen=True)
class Parsed:
    """What the cases call a document."""

    status: str
    """ok, or what a run would say of the source: skipped, empty, failed."""
    reason: str
    document: ParsedDocument

    @property
    def text(self) -> str:
        return self.document.text

    @property
    def meta(self) -> dict[str, MetadataValue]:
        return dict(self.document.metadata)

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.document.warnings


@dataclass(frozen=True)
class Passage:
    """What the cases call a chunk."""

    text: str
    start: int
    end: int
    path: list[str]
    prefix: str
    tokens: int
    pages: tuple[int, int]


def parse(data: bytes | str, name: str) -> Parsed:
    """A source by its parser; one that is refused has a status and no text."""
    try:
        return Parsed("ok", "", parse_bytes(data.encode() if isinstance(data, str) else data, name))
    except RejectedInput as error:
        return Parsed(STATUS.get(error.code, "failed"), error.message, ParsedDocument("none", ""))


def chunk(doc: Parsed | ParsedDocument, strategy: str, target: int, overlap: int) -> list[Passage]:
    """Chunks of a document under one strategy."""
    document = doc.document if isinstance(doc, Parsed) else doc
    return [
        Passage(c.text, c.start, c.end, list(c.heading_path), c.prefix, c.tokens, c.pages)
        for c in chunk_document(document, strategy, ChunkOptions(target, overlap))
    ]


def headings(doc: Parsed) -> list[tuple[int, str]]:
    """Level and title of every heading, in order."""
    return [(block.level, block.title) for block in doc.document.blocks if block.kind == "heading"]


def tables(doc: Parsed | ParsedDocument) -> list[Table]:
    return list(tables_of(doc.document if isinstance(doc, Parsed) else doc))


def table(doc: Parsed | ParsedDocument) -> tuple[Columns, Records]:
    """Columns and records of the document's one table."""
    (only,) = tables(doc)
    return list(only.columns), list(only.records())


def sized(target: int, overlap: int = 0, strategy: str = "markdown_heading") -> Manifest:
    """A manifest of these chunk settings."""
    chunking = {"strategy": strategy, "target_size": target, "overlap": overlap}
    return manifest_from({"curate": {"chunks": {"chunking": chunking}}})


# The rules.


def check_slice(doc: Parsed, chunks: Sequence[Passage]) -> None:
    """SLICE."""
    for c in chunks:
        assert doc.text[c.start : c.end] == c.text


def check_cover(doc: Parsed, chunks: Sequence[Passage]) -> None:
    """COVER."""
    bare = [True] * len(doc.text)
    for c in chunks:
        bare[c.start : c.end] = [False] * (c.end - c.start)
    lost = [(at, doc.text[at]) for at, left in enumerate(bare) if left and not doc.text[at].isspace()]
    assert not lost


def check_cap(chunks: Sequence[Passage], target: int, *, but: Callable[[Passage], bool] = lambda _: False) -> None:
    """CAP; `but` says which chunks the case excepts from the target."""
    for c in chunks:
        assert c.tokens == count(c.prefix + c.text)
        assert c.tokens <= target or but(c), c


def check_clean(doc: Parsed, chunks: Sequence[Passage], had: str = "") -> None:
    """CLEAN; `had` holds those of the three marks that the source has as text."""
    check_strings([*_strings(doc.document), *(s for c in chunks for s in (c.text, c.prefix, *c.path))], had)


def check_strings(strings: Iterable[str], had: str = "") -> None:
    for text in strings:
        text.encode("utf-8")
        assert not {mark for mark in MARKS if mark in text and mark not in had}, text


def _strings(document: ParsedDocument) -> Iterator[str]:
    yield from (document.text, document.title, document.header, *document.warnings)
    yield from (block.title for block in document.blocks)
    for key, value in document.metadata:
        yield key
        yield from flat_strings(value)
    for part in document.parts:
        yield part.name
        yield from _strings(part.document)


def flat_strings(value: object) -> Iterator[str]:
    """Every string in a metadata value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        yield from value


def check_order(text: str, *pieces: str) -> None:
    """The pieces stand in the text, one after the other."""
    at = 0
    for piece in pieces:
        found = text.find(piece, at)
        assert found >= 0, f"{piece!r} isn't in {text[at:]!r}"
        at = found + len(piece)


def check_only_blanks_between(doc: Parsed, chunks: Sequence[Passage]) -> None:
    """Joined, the chunks are the text with only white space between them missing."""
    edges = [(0, chunks[0].start), *((a.end, b.start) for a, b in pairwise(chunks)), (chunks[-1].end, len(doc.text))]
    for left, right in edges:
        assert left <= right
        assert not doc.text[left:right].strip()


def check_pipe_tables(rendered: str) -> None:
    """Where a table between pipes stands: every line of it has as many unescaped pipes as its header."""
    lines = rendered.splitlines()
    for at, line in enumerate(lines):
        if at and re.fullmatch(r"\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?", line):
            wanted = _pipes(lines[at - 1])
            body = [one for one in lines[at:] if one.strip()]
            assert [_pipes(one) for one in body if "|" in one] == [wanted] * sum("|" in one for one in body)


def _pipes(line: str) -> int:
    return line.replace("\\|", "").count("|")


# A whole run.


class CountingIndex:
    """The index behind it, with every write counted."""

    def __init__(self, inner: VectorIndex) -> None:
        self.inner = inner
        self.fetch, self.search, self.scan, self.close = inner.fetch, inner.search, inner.scan, inner.close
        self.settle, self.creates_only = inner.settle, inner.creates_only
        self.explain, self.optimize, self.graphs = inner.explain, inner.optimize, inner.graphs
        self.upserts: list[RecordBatch] = []
        self.stamps: list[tuple[RecordId, ...]] = []
        self.deletes: list[tuple[RecordId, ...]] = []

    def upsert(self, batch: RecordBatch) -> None:
        self.inner.upsert(batch)
        self.upserts.append(batch)

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        self.inner.stamp(namespace, ids, removed)
        self.stamps.append(tuple(ids))

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        self.inner.delete(namespace, ids)
        self.deletes.append(tuple(ids))

    def drop(self, namespace: Namespace) -> None:
        self.inner.drop(namespace)
        self.deletes.append((RecordId(namespace),))


class CountingTree(MemorySourceTree):
    """A source tree that remembers what was read."""

    def __init__(self, files: dict[SourcePath, bytes] | None = None) -> None:
        super().__init__(files)
        self.reads: list[SourcePath] = []

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:
        self.reads.append(path)
        return super().read(path, limit_bytes)


@dataclass(frozen=True)
class Report:
    """How one whole run ended, and what it cost."""

    row: RunRow
    done: dict[str, int]
    """Path to number of chunks."""
    empty: dict[str, str]
    failed: dict[str, str]
    skipped: dict[str, str]
    warnings: dict[str, list[str]]
    calls: dict[str, int]
    """parse, embed, upsert, stamp, delete. There is no language model port in this build, hence no llm."""
    flips: int
    partial: bool

    @property
    def flipped(self) -> bool:
        return self.flips > 0


@dataclass
class Deployment:
    """A world whose every call is counted."""

    world: World
    tree: CountingTree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = CountingTree(self.world.files)
        self.world.tree = self.tree

    @property
    def parser(self) -> CountingParser:
        assert isinstance(self.world.parser, CountingParser)
        return self.world.parser

    @property
    def embedded(self) -> list[str]:
        """Every text sent to the embedder so far."""
        embedder = next(iter(self.world.embedders.values()))
        assert hasattr(embedder, "texts")
        texts: list[str] = embedder.texts
        return texts

    @property
    def index(self) -> CountingIndex:
        assert isinstance(self.world.index, CountingIndex)
        return self.world.index

    def put(self, files: Mapping[str, bytes | str]) -> None:
        """Write files as an editor would: with a new modification time."""
        for path, data in files.items():
            self.world.files[SourcePath(path)] = data.encode() if isinstance(data, str) else data
            self.tree.touched[SourcePath(path)] = int(self.world.clock.now() * 1e9)

    def drop(self, path: str) -> None:
        self.world.drop(path)

    def run(self, manifest: Manifest | None = None, **more: object) -> Report:
        """One whole run, by default at 200 tokens a chunk."""
        before, moves = self.calls(), self.moves()
        row = self.world.curate(manifest or sized(200), **more)
        after = self.calls()
        spent = {name: after[name] - before[name] for name in after}
        return self.report(row, spent, self.moves() - moves)

    def report(self, row: RunRow, spent: dict[str, int], flips: int) -> Report:
        sources = self.sources()
        return Report(
            row,
            {s.path: s.chunks for s in sources if s.status == "ok"},
            {s.path: s.reason for s in sources if s.status == "empty"},
            {s.path: s.reason for s in sources if s.status == "failed"},
            {s.path: s.reason for s in sources if s.status == "skipped"},
            {s.path: json.loads(s.warnings or "[]") for s in sources},
            spent,
            flips,
            bool(row.output) and json.loads(row.output)["status"] != "completed",
        )

    def calls(self) -> dict[str, int]:
        index = self.index
        return {
            "parse": len(self.parser.calls),
            "embed": len(self.embedded),
            "upsert": len(index.upserts),
            "stamp": len(index.stamps),
            "delete": sum(map(bool, index.deletes)),
        }

    def moves(self) -> int:
        with self.world.ledger.read() as session:
            return len(session.contexts.moves(SLUG))

    def sources(self) -> tuple[SourceRow, ...]:
        """What the live version knows of each source."""
        live = self.world.live()
        with self.world.ledger.read() as session:
            return session.sources.page(SLUG, live, "", 10_000)

    @property
    def live(self) -> Live:
        return Live(self)


@dataclass(frozen=True)
class Live:
    """What a reader of the live version sees, by ledger and index both."""

    deployment: Deployment

    @property
    def rows(self) -> list[RecordRow]:
        return list(self.deployment.world.listed(self.deployment.world.live()))

    @property
    def ids(self) -> list[str]:
        return sorted(record for record, _ in self.records())

    @property
    def texts(self) -> list[str]:
        return sorted(str(meta["text"]) for meta in self.metadata())

    def metadata(self) -> list[Metadata]:
        return [meta for _, meta in self.records()]

    def of(self, path: str) -> list[Metadata]:
        return [meta for meta in self.metadata() if meta["source_path"] == path]

    def records(self) -> list[tuple[RecordId, Metadata]]:
        """Every record that is listed at the live version; each must stand in the index, visible."""
        world, out = self.deployment.world, []
        version = world.live()
        for row in self.rows:
            stored = world.raw_index.fetch(row.namespace, [row.id], vectors=True, metadata=True)
            assert stored.ids == (row.id,), f"{row.id} is listed and not in the index"
            assert stored.added[0] <= version < stored.removed[0], f"{row.id} isn't visible at {version}"
            out.append((row.id, stored.metadata[0]))
        return out

    def find(self, words: str) -> list[str]:
        """Paths under which the words stand: the same by a search and by reading everything."""
        by_reading = sorted({str(m["source_path"]) for m in self.metadata() if words in str(m["text"])})
        question = search.Question(words, k=1000, mode="sparse")
        answer = search.search(self.deployment.world.ports, SLUG, question)
        by_search = sorted({str(r.metadata["source_path"]) for r in answer.results if words in str(r.metadata["text"])})
        assert by_search == by_reading
        return by_reading

    def strings(self) -> Iterator[str]:
        """Every string of every live record's metadata, keys too."""
        for meta in self.metadata():
            for key, value in meta.items():
                yield key
                yield from flat_strings(value)


@contextmanager
def deployment(files: Mapping[str, bytes | str] | None = None, **parts: object) -> Iterator[Deployment]:
    """A fresh deployment that holds these files; `parts` are fields of `World`."""
    wrap = parts.pop("wrap_index", lambda index: index)
    assert callable(wrap)
    world = World(wrap_index=lambda index: CountingIndex(wrap(index)), **parts)  # type: ignore[arg-type]
    made = Deployment(world)
    made.put(files or {})
    try:
        yield made
    finally:
        world.parser.close()
        world.close()
        shutil.rmtree(world.home, ignore_errors=True)


def check_told(report: Report, path: str) -> None:
    """TOLD."""
    assert path not in report.done
    assert {**report.empty, **report.failed}[path].strip()


def check_noop(report: Report) -> None:
    """NOOP."""
    assert set(report.calls.values()) == {0}, report.calls
    assert not report.flipped


def check_alone(files: Mapping[str, bytes | str], bad: str, **parts: object) -> None:
    """ALONE: the other sources end as they would without the bad one."""
    others = {path: data for path, data in files.items() if path != bad}
    with deployment(files, **parts) as with_bad, deployment(others) as without:
        found, wanted = with_bad.run(), without.run()
        assert [path for path in found.done if path != bad] == list(wanted.done)
        for there, here in (
            (found.empty, wanted.empty),
            (found.failed, wanted.failed),
            (found.warnings, wanted.warnings),
        ):
            assert {path: told for path, told in there.items() if path != bad} == here
        seen = [record for record in with_bad.live.records() if record[1]["source_path"] != bad]
        assert seen == without.live.records()


def named(embedder: HashEmbedder) -> dict[str, HashEmbedder]:
    """Embedders of a world with this one alone."""
    return {embedder.identity.name: embedder}


__all__ = [
    "MARKS", "STRATEGIES", "CountingIndex", "CountingTree", "Deployment", "Live", "Parsed", "Passage", "Report",
    "check_alone", "check_cap", "check_clean", "check_cover", "check_noop", "check_only_blanks_between", "check_order",
    "check_pipe_tables", "check_slice", "check_strings", "check_told", "chunk", "count", "deployment", "flat_strings",
    "headings", "named", "parse", "sized", "table", "tables",
]  # fmt: skip
