"""lamina replay as a person runs it: a run of last week, on a machine without a network, from the recordings alone."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

MANIFEST = """
curate:
  chunks: {chunking: {target_size: 64, overlap: 0}}
  artifacts:
    enabled: true
    artifact_types:
      - {name: animal, kind: entity}
      - {name: summary, kind: summary, scope: document}
    edge_types:
      - {name: tells of, from: summary, to: animal}
"""
QUESTION = "when are the otters fed?"


def offline(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> object:
        raise AssertionError("the network was asked")

    for name in ("connect", "connect_ex", "sendto"):
        patch.setattr(socket.socket, name, refuse)
    patch.setattr(socket, "getaddrinfo", refuse)


def newest(lamina: Any) -> str:
    """Id of the latest run."""
    return str(lamina.json("runs", "zoo")["runs"][0]["run"])


@pytest.fixture
def runs(lamina: Any) -> list[str]:
    """Three versions: curated, edited, and one file less."""
    zoo, manifest = Path(lamina.zoo()), lamina.write("m.yaml", MANIFEST)
    made = []
    for edit in (
        lambda: None,
        lambda: (zoo / "guide.md").write_text("# Otter guide\n\nOtters eat crabs now, at noon.\n"),
        lambda: (zoo / "late.md").write_text("# Herons\n\nHerons come in May.\n"),
    ):
        edit()
        ended = lamina("curate", zoo, "--manifest", manifest, "--json", LAMINA_RETAIN_SOURCES="1")
        assert ended.status == 0, ended
        made.append(newest(lamina))
    return made


def test_the_same_comes_out_with_no_network_and_no_files(
    lamina: Any, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lamina("versions", "zoo", "--json").document
    shutil.rmtree(lamina.zoo())
    offline(monkeypatch)
    for run in runs[1:]:
        ended = lamina("replay", run, "--question", QUESTION)
        assert ended.status == 0, ended
        assert "it comes out the same, byte for byte: " in ended.out
        assert "no model and no provider was asked" in ended.out
        assert f"{QUESTION}: finds the same" in ended.out
    told = lamina("replay", runs[0], "--json").document
    assert (told["equal"], told["version"]) == (None, 1)
    assert "can't be read any more" in told["reason"]
    assert lamina("replay", runs[0], "--from", "parse", "--json").document["digest"] == told["digest"]
    assert lamina("replay", runs[2], "--from", "parse").status == 0
    assert lamina("versions", "zoo", "--json").document == before


def test_one_thing_changed(lamina: Any, runs: list[str]) -> None:
    coarse = lamina.write(
        "coarse.yaml", MANIFEST.replace("{target_size: 64,", "{strategy: sliding_window, target_size: 512,")
    )
    folder = lamina.folder / "outcome"
    ended = lamina(
        "replay", runs[2], "--manifest", coarse, "--source", "*.md", "--keep", folder, "--question", QUESTION
    )
    assert ended.status == 0, ended
    assert "it comes out otherwise: " in ended.out
    assert "missing" in ended.out
    found = lamina("query", "zoo", QUESTION, "--json", LAMINA_HOME=str(folder)).document
    assert found["hits"], "the outcome can be asked"
    again = lamina("replay", runs[2], "--keep", folder, "--json")
    assert again.refusal["code"] == "folder_taken"
    assert lamina("curate", "zoo", "--json").document["delta"] == "empty", "the context is as it was"


def test_an_old_run_goes_live_again(lamina: Any, runs: list[str]) -> None:
    ended = lamina("replay", runs[0], "--publish")
    assert ended.status == 0, ended
    assert "version 4 is live" in ended.out
    found = lamina("query", "zoo", "crabs at noon", "--mode", "sparse", "--json").document
    assert not found["hits"], "what was written later is gone"


def test_what_was_not_recorded_is_refused_by_name(lamina: Any) -> None:
    assert lamina("curate", lamina.zoo()).status == 0
    made = newest(lamina)
    refusal = lamina("replay", made, "--from", "parse", "--json").refusal
    assert refusal["code"] == "not_recorded"
    assert "guide.md" in refusal["message"]
    assert "retain_sources" in refusal["remedy"]
    assert lamina("replay", "0" * 16, "--json").refusal["code"] == "no_run"
