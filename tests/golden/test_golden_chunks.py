"""Chunks of small documents, kept: output may move only together with a `VERSION`, which moves every fingerprint.

To write the expected files anew, raise the version of what changed, set `REGENERATE`, run this file once, and set it
back.
"""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from pipeline.chunk import CHUNKERS, VERSIONS, ChunkOptions, chunk_document, strategy_for
from pipeline.parse import VERSION, parse_bytes

REGENERATE = False

FOLDER = Path(__file__).parent / "chunks"
SOURCES = sorted((FOLDER / "sources").iterdir())
OPTIONS = (ChunkOptions(48), ChunkOptions(64, 12), ChunkOptions(64, 0, respect_sections=False))


def chunked(source):
    """What is compared: versions, the document's own fields, and the chunks for each choice of options."""
    document = parse_bytes(source.read_bytes(), source.name)
    strategy = strategy_for(document.kind, source.stem)
    runs = {
        f"target {o.target_size}, overlap {o.overlap}, {'sections' if o.respect_sections else 'mixed'}": [
            asdict(chunk) for chunk in chunk_document(document, strategy, o)
        ]
        for o in OPTIONS
    }
    value = {
        "parse_version": VERSION,
        "chunk_version": VERSIONS[strategy],
        "title": document.title,
        "metadata": document.metadata,
        "warnings": document.warnings,
        "chunks": runs,
    }
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("source", SOURCES, ids=[source.stem for source in SOURCES])
def test_output_moves_only_with_its_version(source):
    found = chunked(source)
    kept = FOLDER / "expected" / f"{source.stem}.json"
    if REGENERATE:
        kept.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    expected = json.loads(kept.read_text(encoding="utf-8"))
    versions = ("parse_version", "chunk_version")
    if found != expected and [found[v] for v in versions] == [expected[v] for v in versions]:
        pytest.fail(f"{source.name}: the output moved and no VERSION did; every index would keep stale chunks")
    assert found == expected


def test_every_strategy_has_a_case():
    assert {source.stem for source in SOURCES} == set(CHUNKERS)


def test_expected_files_are_not_being_written():
    assert not REGENERATE
