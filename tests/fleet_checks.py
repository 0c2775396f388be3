"""What tests of a fleet hold it against: what is live, what one process would have made of it, and what readers see."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
import postgres_server
from fleet_processes import Fleet

from pipeline import bootstrap, publish, search
from pipeline.errors import Unavailable
from pipeline.ports import Ports
from pipeline.settings import load
from pipeline.types import ContextSlug

SLUG = ContextSlug("notes")


@contextmanager
def fleet_on(ledger: str, tmp_path: Path, **settings: str) -> Iterator[Fleet]:
    """A fleet without workers whose ledger stands on `sqlite` or `postgres`."""
    more = {"LAMINA_LEDGER_URL": postgres_server.fresh_url()} if ledger == "postgres" else {}
    with Fleet(tmp_path / "home", **more, **settings) as made:
        yield made


def ports_of(fleet: Fleet) -> Ports:
    return bootstrap.build(load(fleet.environ, fleet.home))


def content(ports: Ports) -> tuple[list[tuple[object, ...]], np.ndarray]:
    """Logical ids, texts and places of what is live, and the vectors."""
    with ports.ledger.read() as session:
        context = publish.require_context(session, SLUG)
        rows = sorted(session.records.page_at(SLUG, context.live_version, "", 1_000_000), key=lambda r: r.logical_id)
    index = ports.index(SLUG)
    texts, vectors = [], []
    for space in sorted({r.namespace for r in rows}):
        mine = [r for r in rows if r.namespace == space]
        stored = index.fetch(space, [r.id for r in mine], vectors=True, metadata=True)
        assert len(stored.ids) == len(mine), "listed records that the index doesn't hold"
        texts += [(r.logical_id, r.path, r.position, m["text"]) for r, m in zip(mine, stored.metadata, strict=True)]
        vectors.append(stored.dense)
    return texts, np.concatenate(vectors)


def embedded(tmp_path: Path, sources: Path) -> tuple[list[tuple[object, ...]], np.ndarray]:
    """The same corpus curated by one process."""
    with Fleet(tmp_path / "embedded") as other:
        other.lamina("curate", str(sources), "--context", SLUG)
        ports = ports_of(other)
        try:
            return content(ports)
        finally:
            bootstrap.close(ports)


def same(found: tuple[list[tuple[object, ...]], np.ndarray], want: tuple[list[tuple[object, ...]], np.ndarray]) -> None:
    assert found[0] == want[0]
    assert np.allclose(found[1], want[1], rtol=0, atol=1e-5)


def check(fleet: Fleet, want: tuple[list[tuple[object, ...]], np.ndarray], flips: int = 1) -> None:
    """Nothing missing, nothing extra, and so many pointer moves."""
    ports = ports_of(fleet)
    try:
        same(content(ports), want)
        publish.sweep(ports, SLUG)
        with ports.ledger.read() as session:
            assert len(session.contexts.moves(SLUG)) == flips
            for space in session.records.namespaces(SLUG):
                held = [record for record, _, _ in ports.index(SLUG).scan(space)]
                assert len(session.records.get(SLUG, held)) == len(held), "rows in the index that nobody lists"
    finally:
        bootstrap.close(ports)


class Readers:
    """Ask at full rate beside the block: each answer is one version's, none fails."""

    def __init__(self, fleet: Fleet, slug: ContextSlug = SLUG, *, patient: bool = False) -> None:
        self.ports = ports_of(fleet)
        self.slug = slug
        self.patient = patient
        """A service that doesn't answer is asked again; a wrong answer never is."""
        self.seen: set[frozenset[str]] = set()
        self.errors: list[BaseException] = []
        self.asked = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        bootstrap.close(self.ports)
        assert not self.errors, self.errors[0]
        assert self.asked

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                answer = search.search(
                    self.ports, self.slug, search.Question("every document says", k=search.K_MAX, mode="sparse")
                )
                marks = frozenset(
                    str(r.metadata["text"]).split(" of ")[-1].split(" ")[0]
                    for r in answer.results
                    if "every" in str(r.metadata["text"])
                )
                self.seen.add(marks)
                self.asked += 1
                time.sleep(0.05 if self.patient else 0)  # an emulator takes its time from the workers
            except Unavailable as error:
                if not self.patient:
                    self.errors.append(error)
                    return
            except Exception as error:  # noqa: BLE001  # a reader's error must reach the test
                self.errors.append(error)
                return


def done(fleet: Fleet, run: str, stage: str) -> int:
    return next((s["done"] for s in fleet.lamina("explain", run)["stages"] if s["stage"] == stage), 0)
