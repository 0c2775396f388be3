"""The command with Pinecone as its index: the same answers as on local files, also by a fleet whose service misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_processes import Fleet, lamina, make_sources
from pinecone_emulator import Behaviour, Fault, PineconeEmulator

from pipeline import bootstrap, search
from pipeline.settings import load
from pipeline.types import ContextSlug

QUESTIONS = ("first3word1", "every document of first says this", "second2word7 second5word1", "Document 7")


@pytest.fixture
def service() -> Iterator[PineconeEmulator]:
    with PineconeEmulator(Behaviour(lag_s=0.2), key="m4rked-key") as server:
        yield server


def settings(service: PineconeEmulator, family: str) -> dict[str, str]:
    return {
        "LAMINA_INDEX": "pinecone", "LAMINA_PINECONE_API_KEY": service.key, "LAMINA_PINECONE_CONTROL_URL": service.url,
        "LAMINA_PINECONE_FAMILY": family,
    }  # fmt: skip


def answers(home: Path, more: dict[str, str]) -> list[list[tuple[str, float]]]:
    ports = bootstrap.build(load({"LAMINA_HOME": str(home), "LAMINA_EMBEDDER": "static", **more}, home))
    try:
        asked = [search.search(ports, ContextSlug("notes"), search.Question(text, k=5)) for text in QUESTIONS]
        return [[(hit.logical_id, round(hit.score, 4)) for hit in answer.results] for answer in asked]
    finally:
        bootstrap.close(ports)


@pytest.mark.parametrize("family", ["documents", "vectors"])
def test_answers_are_those_of_local_files(service: PineconeEmulator, tmp_path: Path, family: str) -> None:
    """Over a first run, an edit with a deletion, and a rollback; the service shows writes a fifth of a second late."""
    sources, hosted, local = tmp_path / "notes", tmp_path / "hosted", tmp_path / "local"
    more = settings(service, family)
    make_sources(sources, 12)
    for home, chosen in ((hosted, more), (local, {})):
        assert lamina(home, chosen, "curate", str(sources))["delta"]["new"] == 12
    first = answers(local, {})
    assert answers(hosted, more) == first
    make_sources(sources, 6, mark="second")
    (sources / "doc00007.md").unlink()
    for home, chosen in ((hosted, more), (local, {})):
        delta = lamina(home, chosen, "curate", str(sources))["delta"]
        assert (delta["changed"], delta["deleted"]) == (6, 1)
    assert answers(hosted, more) == answers(local, {}) != first
    assert {"name": "index", "ok": True, "detail": "pinecone answers", "remedy": ""} in lamina(hosted, more, "doctor")[
        "checks"
    ]
    lamina(hosted, more, "rollback", "notes")
    assert answers(hosted, more) == first


def test_a_fleet_gets_through_a_service_that_misbehaves(service: PineconeEmulator, tmp_path: Path) -> None:
    """Refusals for the pace, 503s, connections reset before and after a write was applied: nothing lost, nothing extra."""
    sources = tmp_path / "notes"
    make_sources(sources, 24)
    lamina(tmp_path / "local", {}, "curate", str(sources))
    service.faults.by_chance(
        0.3,
        Fault("status", 429, retry_after="1"),
        Fault("status"),
        Fault("reset_before"),
        Fault("reset_after"),
        seed=3,
    )
    more = {**settings(service, "documents"), "LAMINA_LEASE_S": "10"}
    with Fleet(tmp_path / "home", **more) as fleet:
        for _ in range(2):
            fleet.work()
        run = fleet.lamina("submit", str(sources))["run"]
        assert fleet.until_ended(run, 240) == "completed"
        assert service.faults.injected > 5
        service.faults.clear()
        assert answers(tmp_path / "home", more) == answers(tmp_path / "local", {})
