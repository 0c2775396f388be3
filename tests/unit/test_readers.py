"""Readers at full rate while curates, graph builds and reclaim work beside them: each answer is one whole version."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from world import SECTIONS, SLUG, HashEmbedder, World

from pipeline import contexts, loop, search
from pipeline.adapters import index_local_search
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.ports import VectorIndex
from pipeline.types import SourcePath

DOCUMENTS = 60
SECTIONS_EACH = 8
ROUNDS = 8


def _with_graphs(index: VectorIndex) -> VectorIndex:
    assert isinstance(index, LocalIndex)
    index.close()
    return LocalIndex(Path(index._path), segment_rows=64, graphs=GraphSettings(min_records=200, threads=1))


@dataclass
class Readers:
    """Threads that ask, each in its own mode, until told to stop."""

    world: World
    seen: list[tuple[str, int, frozenset[str], int]] = field(default_factory=list)
    graphs: Counter[int] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def ask(self, mode: str) -> None:
        question = search.Question("round of the thing", k=100, mode=mode)
        try:
            while not self.stop.is_set():
                answer = search.search(self.world.ports, SLUG, question)
                rounds = frozenset(str(r.metadata["text"]).rsplit(" ", 1)[1].strip() for r in answer.results)
                self.seen.append((mode, answer.version, rounds, len(answer.results)))
                if "dense" in answer.legs:
                    self.graphs[answer.legs["dense"].trace.graphs] += 1
        except BaseException as error:  # noqa: BLE001  # carried to the test
            self.errors.append(error)

    @contextmanager
    def asking(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.ask, args=(mode,)) for mode in ("dense", "sparse", "hybrid")]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    # Scoring one by one looks dear, so that graphs answer though there are few records.
    monkeypatch.setattr(index_local_search, "reading_cost", lambda _slots, _rows: 1e12)
    made = World(wrap_index=_with_graphs, embedders={"hash": HashEmbedder()})
    yield made
    made.close()


def _write(world: World, round_: int) -> None:
    """Every document anew; each section says which round it is of."""
    for i in range(DOCUMENTS):
        text = "".join(f"# Thing {i} {j}\n\nround of the thing {round_}\n\n" for j in range(SECTIONS_EACH))
        world.files[SourcePath(f"d{i:02}.md")] = text.encode()
        world.tree.touched[SourcePath(f"d{i:02}.md")] = int(world.clock.now() * 1e9) + round_


def test_no_reader_sees_a_mix_and_none_fails(world: World) -> None:
    """New versions, graphs built and merged, old versions reclaimed: a hundred hits, all of one round, every time."""
    _write(world, 0)
    world.curate(SECTIONS)
    loop.optimize(world.ports, SLUG, report=lambda _done, _total: None, stop=lambda: False)
    readers = Readers(world)
    rounds_of = {world.live(): "0"}
    with readers.asking():
        for round_ in range(1, ROUNDS):
            _write(world, round_)
            run = world.curate(SECTIONS)
            rounds_of[run.number] = str(round_)
            loop.optimize(world.ports, SLUG, report=lambda _done, _total: None, stop=lambda: False)
    assert not readers.errors
    assert len({version for _, version, _, _ in readers.seen}) > 1
    for mode, version, rounds, found in readers.seen:
        assert rounds == {rounds_of[version]}, (mode, version)
        assert found == 100
    assert sum(count for graphs, count in readers.graphs.items() if graphs) > 0, "graphs answered while it went on"
    with world.ledger.read() as session:
        assert sum(version.readable for version in session.versions.list(SLUG)) == world.limits.keep_versions


def test_a_pinned_reader_keeps_its_version(world: World) -> None:
    """While versions come and go the pinned one answers the same, word for word, score for score."""
    _write(world, 0)
    world.curate(SECTIONS)
    pinned = contexts.pin(world.ports, SLUG, version=world.live(), seconds=10_000)
    question = search.Question("round of the thing", k=20, version=pinned.version)
    first = [(r.id, r.score) for r in search.search(world.ports, SLUG, question).results]
    for round_ in range(1, 4):
        _write(world, round_)
        world.curate(SECTIONS)
        loop.optimize(world.ports, SLUG, report=lambda _done, _total: None, stop=lambda: False)
        assert {r.id for r in search.search(world.ports, SLUG, question).results} == {id_ for id_, _ in first}
