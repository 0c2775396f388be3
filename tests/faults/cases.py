"""What a crash case is made of: the warm server, a copy of version 1, a reader beside it, and the state at its end."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import postgres_server
from faults.deployment import LEASE_S, LEDGER_URL, SLUG, first_sources, follow, make_home, open_ports, second_sources

from pipeline import bootstrap, contract_state, publish, search
from pipeline.fingerprint import decode_path
from pipeline.namespaces import DOCUMENTS, KINDS, counts_key, namespace_of
from pipeline.ports import Ports, VectorIndex
from pipeline.types import Embedding, Side, SourcePath

TESTS = Path(__file__).parent.parent
RAM = Path("/dev/shm")  # where it exists, the syncs of hundreds of runs cost nothing
POLL_S = 0.03

Shown = frozenset[tuple[str, str]]
"""(source path, text) of everything that a query finds."""


class Server:
    """The warm process that forks the cases."""

    def __init__(self) -> None:
        quiet = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        path = os.pathsep.join((str(TESTS), str(TESTS.parent)))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **quiet, "PYTHONPATH": path},
        )  # fmt: skip
        self._answer()

    def ask(self, do: str, **given: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has died"
        return dict(json.loads(line))

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Child:
    """One forked process."""

    server: Server
    pid: int
    answer: Path

    def ended(self, *, stopped: bool = False) -> str:
        """`exit N`, `signal N`, or, where that is waited for, `stopped`."""
        return str(self.server.ask("wait", pid=self.pid, stopped=stopped)["ended"])

    def outcome(self) -> dict[str, Any]:
        """What a process that ended by itself has to say."""
        ended = self.ended()
        assert ended == "exit 0", ended
        return dict(json.loads(self.answer.read_text()))

    def wake(self) -> None:
        self.server.ask("wake", pid=self.pid)


@dataclass(frozen=True)
class Facts:
    """Everything about a finished home that another one that did the same work must have too."""

    live: int
    states: tuple[str, ...]
    """Of the versions, newest first."""
    records: tuple[tuple[object, ...], ...]
    vectors: np.ndarray
    sources: tuple[tuple[object, ...], ...]
    files: dict[str, bytes]
    knowledge: dict[str, bytes]
    hashes: dict[str, str]
    counts: dict[tuple[str, int], int]
    known: dict[str, Any]
    """Subjects and edges."""
    shown: Shown


class Template:
    """Version 1, and what every case must come to. Built once."""

    def __init__(self, *, postgres: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lamina-faults-", dir=RAM if RAM.is_dir() else None))
        self.postgres = postgres_server.fresh_database() if postgres else ""
        self.server = Server()
        self._numbers = itertools.count()
        sources = self.folder / "sources"
        first_sources(sources)
        make_home(self.folder / "template", sources, self.postgres)
        with self.case() as case:
            self.old = case.reader_ask()
        second_sources(sources)
        with self.case() as case:
            self.trace = case.run().outcome()["trace"]
            self.facts = case.facts()
            assert case.run(flow="force").outcome()["outcome"] == "completed"
            self.third = case.facts()
        self.new = self.facts.shown
        assert self.old != self.new

    @contextmanager
    def case(self) -> Iterator[Case]:
        home = self.folder / f"home-{next(self._numbers)}"
        shutil.copytree(self.folder / "template", home)
        database = postgres_server.fresh_database(self.postgres) if self.postgres else ""
        if database:
            (home / LEDGER_URL).write_text(database)
        case = Case(self.server, home)
        try:
            yield case
        finally:
            case.close()
            shutil.rmtree(home)
            if database:
                postgres_server.drop_database(database)

    def close(self) -> None:
        self.server.close()
        shutil.rmtree(self.folder)


class Case:
    """One home, from the crash to its end."""

    def __init__(self, server: Server, home: Path) -> None:
        """Open a home that stands."""
        self._server, self.home = server, home
        self.ports = open_ports(home)
        self._numbers = itertools.count()
        self._pids: list[int] = []

    def run(self, **given: object) -> Child:
        """Start a process that curates; `given` says where it is hit."""
        answer = self.home / f"answer-{next(self._numbers)}.json"
        pid = int(self._server.ask("fork", home=str(self.home), answer=str(answer), **given)["pid"])
        self._pids.append(pid)
        return Child(self._server, pid, answer)

    def let_leases_run_out(self) -> None:
        self.ports.clock.advance(LEASE_S + 1)

    def resume(self, **given: object) -> str:
        """What another process comes to, once the first one's lease has run out."""
        self.let_leases_run_out()
        return str(self.run(**given).outcome()["outcome"])

    def reader_ask(self) -> Shown:
        answer = search.search(self.ports, SLUG, search.Question("body", k=search.K_MAX, mode="sparse", kind="all"))
        assert len(answer.results) == len({r.id for r in answer.results})
        return frozenset((str(r.metadata.get("source_path", "")), str(r.metadata["text"])) for r in answer.results)

    @contextmanager
    def readers(self, old: Shown, new: Shown) -> Iterator[None]:
        """Poll beside the block. Every answer is old or new, never an error, and never old again after new."""
        seen: list[object] = []
        stop = threading.Event()

        def poll() -> None:
            while True:
                last = stop.is_set()
                try:
                    seen.append(self.reader_ask())
                except Exception as error:  # noqa: BLE001  # a reader's error must reach the test
                    seen.append(error)
                if last:
                    return
                stop.wait(POLL_S)

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        kinds = ["new" if answer == new else "old" if answer == old else answer for answer in seen]
        assert [kind for kind, _ in itertools.groupby(kinds)] in (["old", "new"], ["new"]), kinds

    # ---------------------------------------------------------------- the end state
    def facts(self) -> Facts:
        """Sweep, check what must hold in any home, and tell what must be equal between two."""
        ports = self.ports
        publish.sweep(ports, SLUG)
        with ports.ledger.read() as session:
            context = publish.require_context(session, SLUG)
            live = context.live_version
            assert session.runs.active(SLUG) is None
            rows = session.records.page_at(SLUG, live, "", 10_000)
            spaces = session.records.namespaces(SLUG)
            sources = session.sources.page(SLUG, live, "", 10_000)
            files = session.files.page(SLUG, live, "", 10_000)
            state = contract_state.curation_state(session, context)
            versions = session.versions.list(SLUG)
            generation = versions[-1].generation
            artifacts = {a.id for a in session.knowledge.page_artifacts(SLUG, live, ("", "", ""), 10_000)}
            edges = session.knowledge.page_edges(SLUG, live, "", 10_000)
            not_there = [e.id for e in edges if not {e.source, e.target} <= artifacts]
            assert artifacts and edges and not not_there
        index = ports.index(SLUG)
        self._index_is_listed(index, spaces)
        rows = tuple(sorted(rows, key=lambda r: r.logical_id))
        vectors, metadata, counts = [], [], {}
        for kind in KINDS:
            space = namespace_of(SLUG, generation, kind)
            mine = [r for r in rows if r.namespace == space]
            stored = index.fetch(space, [r.id for r in mine], vectors=True, metadata=True)
            assert stored.ids == tuple(r.id for r in mine)
            vectors.append(stored.dense)
            metadata += [(r, m) for r, m in zip(mine, stored.metadata, strict=True)]
            want = Counter(int(term) for term in stored.sparse.indices)
            want[DOCUMENTS] = len(mine)
            with ports.ledger.read() as session:
                counted = session.records.counts(SLUG, counts_key(generation, kind), live, list(want))
            assert counted == want, "term counts of the ledger differ from what the index holds"
            counts.update({(kind, term): n for term, n in counted.items()})
        objects = ports.objects(SLUG)
        assert set(objects.list("")) == {f.blob for f in files}, "blobs that no file names"
        return Facts(
            live=live,
            states=tuple(v.state for v in versions),
            records=tuple(
                (r.logical_id, m["text"], m["source_path"], m.get("chunk_index"), r.path, r.position, r.content)
                for r, m in metadata
            ),
            vectors=np.concatenate(vectors),
            sources=tuple((s.path, s.hash, s.seen_hash, s.status, s.code, s.chunks, s.fingerprint) for s in sources),
            files={f.path: objects.get(f.blob) for f in files},
            knowledge=self.knowledge(),
            hashes={path: str(entry["hash"]) for path, entry in state["manifest"].items()},
            counts=counts,
            known={
                "edges": state["edges"],
                "groups": [{**group, "added_version": 0} for group in state["corpus_groups"]],
                "dangling": not_there,
            },
            shown=self.reader_ask(),
        )

    def _index_is_listed(self, index: VectorIndex, spaces: Sequence[Any]) -> None:
        for namespace in spaces:
            held = {id_: (added, removed) for id_, added, removed in index.scan(namespace)}
            with self.ports.ledger.read() as session:
                listed = {r.id: (r.added, r.removed) for r in session.records.get(SLUG, list(held))}
                at = [v.number for v in session.versions.list(SLUG) if v.readable]
                want = {r.id for number in at for r in session.records.page_at(SLUG, number, "", 10_000)}
                want = {r.id for r in session.records.get(SLUG, sorted(want)) if r.namespace == namespace}
            assert held == listed, "the index holds what the ledger doesn't list, or with other versions"
            assert want <= set(held), "the ledger lists what the index doesn't hold"

    def knowledge(self) -> dict[str, bytes]:
        """What the folder shows; it must be the live version's."""
        root = bootstrap.context_folder(bootstrap.Settings(home=self.home), SLUG) / "knowledge"
        assert (root / ".lamina-version").read_text() == str(self.live()), "the knowledge folder shows another version"
        return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and p.name[0] != "."}

    def live(self) -> int:
        with self.ports.ledger.read() as session:
            return publish.require_context(session, SLUG).live_version

    def following(self) -> tuple[str, Counter[str]]:
        """State of one more curate, and the dear or writing calls that it made."""
        made: Counter[str] = Counter()
        run = follow(_counted(self.ports, made))
        return run.state, made

    def close(self) -> None:
        for pid in self._pids:
            self._server.ask("end", pid=pid)
        bootstrap.close(self.ports)


class _Parser:
    def __init__(self, made: Counter[str], inner: Any) -> None:
        self._made, self._inner = made, inner
        self.identity, self.close = inner.identity, inner.close

    def parse(self, data: bytes, name: str) -> Any:
        self._made["parse"] += 1
        return self._inner.parse(data, name)

    def last_job(self) -> str:
        return ""


class _Embedder:
    def __init__(self, made: Counter[str], inner: Any) -> None:
        self._made, self._inner = made, inner
        self.identity = inner.identity

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:
        self._made["embed"] += 1
        embedding: Embedding = self._inner.embed(texts, side=side)
        return embedding


class _Index:
    """Counts writes; everything else goes through."""

    def __init__(self, made: Counter[str], inner: VectorIndex) -> None:
        self._made, self._inner = made, inner

    def __getattr__(self, name: str) -> Any:
        if name in ("upsert", "stamp", "delete", "drop"):
            self._made[name] += 1
        return getattr(self._inner, name)


def _counted(ports: Ports, made: Counter[str]) -> Ports:
    index = ports.index
    return replace(
        ports,
        parser=_Parser(made, ports.parser),
        embedders={name: _Embedder(made, embedder) for name, embedder in ports.embedders.items()},
        index=lambda slug: _Index(made, index(slug)),
    )


def check(case: Case, template: Template) -> None:
    """The end state, and that nothing is left to do."""
    same(case.facts(), template.facts)
    assert case.following() == ("noop", Counter())


def same(found: Facts, want: Facts) -> None:
    """The two homes say the same; version numbers differ only where a run had to be abandoned."""
    assert found.records == want.records
    assert np.allclose(found.vectors, want.vectors, rtol=0, atol=1e-5)
    for name in ("sources", "files", "knowledge", "hashes", "counts", "known", "shown"):
        assert getattr(found, name) == getattr(want, name), name
    if "abandoned" not in found.states:
        assert (found.live, found.states) == (want.live, want.states)
    paths = {os.fsdecode(decode_path(SourcePath(path))) for path in found.files}
    assert found.knowledge.keys() == paths
    assert found.knowledge == found.files
