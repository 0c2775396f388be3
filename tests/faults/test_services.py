"""What a hosted service does to a run: acknowledgements that get lost, storms of refusals, and an outage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_processes import lamina, make_sources
from pinecone_emulator import Behaviour, Fault, PineconeEmulator

SOURCES = 12
SOME = 6


@pytest.fixture
def service() -> Iterator[PineconeEmulator]:
    with PineconeEmulator(Behaviour(lag_s=0.05), key="m4rked-key") as server:
        yield server


class Hosted:
    """A context whose vectors and whose embedding model are the service's."""

    def __init__(self, service: PineconeEmulator, folder: Path) -> None:
        self.service = service
        self.sources, self.home = folder / "notes", folder / "home"
        self.settings = {
            "LAMINA_INDEX": "pinecone", "LAMINA_EMBEDDER": "pinecone", "LAMINA_PINECONE_API_KEY": service.key,
            "LAMINA_PINECONE_CONTROL_URL": service.url, "LAMINA_PINECONE_DEADLINE_S": "60", "LAMINA_EMBED_TEXTS": "4",
        }  # fmt: skip
        make_sources(self.sources, SOURCES)

    def curate(self, status: int = 0) -> None:
        lamina(self.home, self.settings, "curate", str(self.sources), status=status)

    def finds(self, word: str) -> bool:
        return bool(lamina(self.home, self.settings, "query", "notes", word, "--mode", "sparse")["hits"])

    def embeds(self) -> int:
        """Texts go to the model by calls; how many there were."""
        return sum(path.endswith("/embed") for _, path, _ in self.service.requests)

    def is_sound(self) -> None:
        """Ledger, index and files hold the same, and nothing is left to do."""
        assert lamina(self.home, self.settings, "fsck", "notes")["found"] == {}
        self.curate()
        assert lamina(self.home, self.settings, "runs", "notes")["runs"][0]["state"] == "noop"


@pytest.mark.parametrize("verb", ["upsert", "update", "delete"])
def test_an_acknowledgement_that_gets_lost(service: PineconeEmulator, tmp_path: Path, verb: str) -> None:
    """The service does what it is asked, and its answer never arrives; asked again, it does the same once more."""
    hosted = Hosted(service, tmp_path)
    hosted.curate()
    make_sources(hosted.sources, SOME, mark="second")
    (hosted.sources / "doc00007.md").unlink()
    service.faults.add(Fault("reset_after", path=rf"documents/{verb}$", times=2))
    hosted.settings["LAMINA_KEEP_VERSIONS"] = "1"
    hosted.curate()
    assert service.faults.injected == 2
    assert (hosted.finds("second3word1"), hosted.finds("first3word1"), hosted.finds("first9word1")) == (
        True,
        False,
        True,
    )
    hosted.is_sound()


def test_a_storm_of_refusals_for_the_pace(service: PineconeEmulator, tmp_path: Path) -> None:
    """Two requests in five are refused with 429 and a time to wait for; each is made again, none is dropped."""
    hosted = Hosted(service, tmp_path)
    service.faults.by_chance(0.4, Fault("status", 429, retry_after="0.2"), seed=5)
    hosted.curate()
    assert service.faults.injected > 5
    service.faults.clear()
    assert all(hosted.finds(f"first{n}word1") for n in (0, SOURCES // 2, SOURCES - 1))
    hosted.is_sound()


def test_an_outage_of_the_service(service: PineconeEmulator, tmp_path: Path) -> None:
    """The run stops and can be resumed, readers go on at the version that is live, and nothing is paid for twice."""
    hosted = Hosted(service, tmp_path)
    hosted.curate()
    make_sources(hosted.sources, SOME, mark="second")
    service.faults.add(Fault("status", 503, path="documents/upsert$", times=-1))
    hosted.settings["LAMINA_PINECONE_DEADLINE_S"] = "6"
    hosted.curate(status=3)
    hosted.settings["LAMINA_PINECONE_DEADLINE_S"] = "60"
    assert (hosted.finds("second3word1"), hosted.finds("first3word1")) == (False, True)
    paid = hosted.embeds()
    service.faults.clear()
    hosted.curate()
    assert hosted.embeds() == paid, "what was embedded before the outage is asked for again"
    assert (hosted.finds("second3word1"), hosted.finds("first3word1")) == (True, False)
    hosted.is_sound()


def test_an_outage_of_the_embedding_model(service: PineconeEmulator, tmp_path: Path) -> None:
    """Amid the texts: those that were embedded aren't asked for again."""
    hosted, other = Hosted(service, tmp_path / "a"), Hosted(service, tmp_path / "b")
    other.curate()
    undisturbed = hosted.embeds()
    service.faults.add(Fault("status", 503, path="/embed$", times=-1, skip=2))
    hosted.settings["LAMINA_PINECONE_DEADLINE_S"] = "6"
    hosted.curate(status=3)
    hosted.settings["LAMINA_PINECONE_DEADLINE_S"] = "60"
    refused = service.faults.injected
    service.faults.clear()
    hosted.curate()
    assert hosted.embeds() - undisturbed == undisturbed + refused
    hosted.is_sound()
