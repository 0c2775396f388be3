"""The frozen alias set through a whole curate with the extractive model: who is taken for whom."""

from __future__ import annotations

from typing import Any

import pytest
from aliases.score import documents, score

from pipeline import bootstrap
from pipeline.settings import Settings
from pipeline.types import ContextSlug

MANIFEST = (
    '{"curate": {"artifacts": {"enabled": true, "artifact_types": [{"name": "subject", "kind": "entity"}], '
    '"edge_types": [{"name": "beside", "from": "subject", "to": "subject"}]}}}'
)


@pytest.mark.parametrize("split", ["tune", "report"])
def test_namesakes_stay_apart_and_spellings_come_together(lamina: Any, split: str) -> None:
    """Pairwise precision of at least 0.98 at a recall of at least 0.85, of the pairs of all mentions that there are."""
    lamina.write("m.json", MANIFEST)
    for document in documents(split):
        lamina.write(f"docs/{document['path']}", document["text"])
    lamina.ok("curate", lamina.folder / "docs", "--context", "aliases", "--manifest", lamina.folder / "m.json")
    ports = bootstrap.build(Settings(home=lamina.folder / "home", embedder="static"))
    try:
        found = score(ports.ledger, ContextSlug("aliases"), "subject", split)
    finally:
        bootstrap.close(ports)
    assert found.gold > 1800
    assert found.precision >= 0.98, found
    assert found.recall_of_all >= 0.85, found
