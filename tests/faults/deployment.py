"""The embedded deployment of one crash case: a home on disk, a clock that all its processes share, and what is curated."""

from __future__ import annotations

import mmap
import struct
import time
from dataclasses import replace
from pathlib import Path

from manifests import Manifest, manifest_from
from pipeline import bootstrap, contexts, loop
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.adapters.parser_inprocess import InProcessParser
from pipeline.fingerprint import encode_path
from pipeline.limits import Limits
from pipeline.ports import Ports
from pipeline.request import CurateRequest
from pipeline.rows import RunRow
from pipeline.settings import ServiceChoices, Settings
from pipeline.types import ContextSlug

SLUG = ContextSlug("notes")
EMBEDDER = StaticEmbedder()
"""One for the process and its forks: its weights are read-only."""
PARSER = InProcessParser()

LEASE_S = 30.0
LEDGER_URL = "ledger_url"
"""File of a home whose ledger stands on PostgreSQL."""
ARTIFACTS = {
    "enabled": True,
    "artifact_types": [
        {"name": "thing", "kind": "topic"},
        {"name": "summary", "kind": "summary", "scope": "document"},
        {
            "name": "egg", "kind": "entity", "scope": "document", "format": "sqlite", "natural_key": ["name"],
            "columns": [{"name": "name"}, {"name": "body"}],
        },
    ],
    "edge_types": [{"name": "tells of", "from": "summary", "to": "thing"}, {"name": "with", "from": "thing", "to": "thing"}],
}  # fmt: skip
"""Both legs: what documents say for themselves, subjects of the corpus, rows of a database, edges."""


def _manifest(**chunking: object) -> Manifest:
    return manifest_from({"curate": {"chunks": {"chunking": {"overlap": 0, **chunking}}, "artifacts": ARTIFACTS}})


MANIFEST: Manifest = _manifest(target_size=64)
WHOLE: Manifest = _manifest(target_size=256, respect_sections=False)
"""Cuts the same sources otherwise: what a forced run under it makes shares hardly a record with what was there."""


class SharedClock:
    """The system's time plus an offset that stands in the home, so that a test moves it on for every process at once."""

    def __init__(self, home: Path) -> None:
        path = home / "clock"
        if not path.exists():
            path.write_bytes(struct.pack("d", 0.0))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)

    def now(self) -> float:
        return time.time() + float(struct.unpack("d", self._shared[:8])[0])

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def advance(self, seconds: float) -> None:
        self._shared[:8] = struct.pack("d", struct.unpack("d", self._shared[:8])[0] + seconds)


def open_ports(home: Path, *, sandbox: bool = False, lease_s: float = LEASE_S, keep: int = 1) -> Ports:
    """What `bootstrap.build` makes, on the case's own clock, with a model and parsers that need no start of their own.

    One version is kept, unless told otherwise, so that a run's reclaim has something to erase.
    """
    limits = Limits(upsert_records=4, embed_texts=6, keep_versions=keep, unit_attempts=50, lease_s=lease_s)
    url = home / LEDGER_URL
    services = ServiceChoices(ledger_url=url.read_text() if url.exists() else "")
    settings = Settings(home=home, embedder="static", workers=1, user="tester", limits=limits, services=services)
    ports = bootstrap.build(settings)
    return replace(
        ports,
        clock=SharedClock(home),
        embedders={"static": EMBEDDER},
        parser=ports.parser if sandbox else PARSER,
    )


def follow(ports: Ports, manifest: Manifest = MANIFEST, *, force: bool = False) -> RunRow:
    request = CurateRequest(SLUG, manifest, settings={"embedder": "static"}, batch_size=3, force=force)
    return loop.curate_and_follow(ports, request, 1)


def section(word: str) -> str:
    return f"## {word}\n\nthe body of {word} says what a {word} is and how a {word} is kept\n\n"


def first_sources(root: Path) -> None:
    """What version 1 holds."""
    (root / "deep/er").mkdir(parents=True)
    (root / "apples.md").write_text("# Fruit\n\n" + section("apple") + section("pear") + section("plum"))
    (root / "birds.md").write_text("# Birds\n\n" + section("robin") + section("wren"))
    (root / "deep/caves.txt").write_text("The body of a cave is dark.\n\nA cave keeps its cold all summer.\n")
    (root / "deep/er/dunes.md").write_text(section("dune") + section("marram"))
    (root / "eggs.csv").write_text("name,body\ngoose,large body\nquail,small body\n")
    (root / "ferns.md").write_text(section("fern"))
    (root / "gone.md").write_text("# Gone\n\n" + section("dodo") + section("auk"))
    (root / "moves.md").write_text("# Moves\n\n" + section("glacier"))


PURGED = "birds.md"
"""The source that a purge takes; no other one speaks of a wren."""


def second_sources(root: Path) -> None:
    """One file changed, one deleted, one added, one renamed."""
    (root / "apples.md").write_text(
        "# Fruit\n\n" + section("apple") + section("quince") + section("plum") + section("fig")
    )
    (root / "gone.md").unlink()
    (root / "new.md").write_text("# New\n\n" + section("comet") + section("meteor"))
    (root / "moves.md").rename(root / "deep/moved.md")


def make_home(home: Path, sources: Path, ledger_url: str = "") -> None:
    """Version 1, live."""
    home.mkdir()
    if ledger_url:
        (home / LEDGER_URL).write_text(ledger_url)
    ports = open_ports(home)
    try:
        contexts.open_context(ports, SLUG, kind="folder", root=encode_path(str(sources).encode()))
        assert follow(ports).state == "completed"
        ports.clock.advance(60)  # the files have been at rest for a while
    finally:
        bootstrap.close(ports)
