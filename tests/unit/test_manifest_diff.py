"""What a change of the manifest means, in words."""

from __future__ import annotations

import json
from typing import Any

from manifests import Change, ManifestDiff, diff, manifest_from


def between(old: dict[str, Any], new: dict[str, Any]) -> ManifestDiff:
    return diff(manifest_from(old), manifest_from(new))


def chunks(**keys: Any) -> dict[str, Any]:
    return {"curate": {"chunks": keys}}


def artifacts(*types: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"curate": {"artifacts": {"enabled": True, "artifact_types": list(types), **keys}}}


def test_nothing_changed() -> None:
    found = between({}, chunks(enabled=True))
    assert found.changes == ()
    assert found.to_lines() == ("No difference once defaults are filled in.",)
    assert not any(leg.stale for leg in found.legs)


def test_a_new_size_cuts_every_source_again() -> None:
    found = between(chunks(chunking={"overlap": 0}), chunks(chunking={"target_size": 256, "overlap": 0}))
    assert found.changes == (Change("curate.chunks.chunking.target_size", 512, 256),)
    assert found.to_lines() == (
        "curate.chunks.chunking.target_size: 512 -> 256",
        "chunks: target_size 512 -> 256: every source is cut again on the next forced curate",
        "artifacts: what is indexed stays as it is",
    )
    assert not found.legs[0].refused_unforced


def test_an_overlap_that_follows_from_the_size_is_told_too() -> None:
    assert [c.path.rpartition(".")[2] for c in between({}, chunks(chunking={"target_size": 128})).changes] == [
        "target_size",
        "overlap",
    ]


def test_another_model_is_refused_without_force() -> None:
    leg = between(chunks(embedding_model="m1"), chunks(embedding_model="m2")).legs[0]
    assert leg.refused_unforced
    assert "embedding_model m1 -> m2" in leg.reasons[0]
    assert "unforced curate is refused" in leg.reasons[0]
    assert "the deployment's default -> m2" in between({}, chunks(embedding_model="m2")).legs[0].reasons[0]
    assert between({}, chunks(keyword={"enabled": False})).legs[0].refused_unforced


def test_a_leg_that_is_off_is_never_refused() -> None:
    off = between(chunks(enabled=False), chunks(enabled=False, embedding_model="m"))
    assert not off.legs[0].stale
    assert [c.path for c in off.changes] == ["curate.chunks.embedding_model"]
    on = between(chunks(enabled=False), chunks(embedding_model="m"))
    assert on.legs[0].reasons == (
        "chunks: switched on: new and changed sources are cut and embedded at once, all others on the next forced curate",
    )
    assert not on.legs[0].refused_unforced
    assert "switched off" in between({}, chunks(enabled=False)).legs[0].reasons[0]


def test_types_and_edges_are_told_by_name() -> None:
    old = artifacts({"name": "A"}, {"name": "B"}, edge_types=[{"name": "is", "from": "A", "to": "B"}])
    new = artifacts({"name": "C"}, {"name": "B", "description": "x", "icon": "i"}, max_tokens=200,
                    edge_types=[{"name": "is", "from": "C", "to": "B"}])  # fmt: skip
    found = between(old, new)
    assert [c.path.removeprefix("curate.artifacts.") for c in found.changes] == [
        "artifact_types[A]",
        "artifact_types[B].icon",
        "artifact_types[B].description",
        "artifact_types[C]",
        "edge_types[is].from",
        "max_tokens",
    ]
    reasons = [reason.split(":")[1].strip() for reason in found.legs[1].reasons]
    assert reasons == ["max_tokens 1500 -> 200", 'type "A" is gone', 'type "B"', 'type "C" is new', 'edge "is"']


def test_keys_that_come_with_another_format_are_no_news() -> None:
    old, new = artifacts({"name": "A"}), artifacts({"name": "A", "format": "sqlite", "columns": [{"name": "id"}]})
    (reason,) = between(old, new).legs[1].reasons
    assert 'type "A": format markdown -> sqlite' in reason


def test_reordered_columns_are_a_change() -> None:
    def table(*names: str) -> dict[str, Any]:
        return artifacts({"name": "T", "format": "sqlite", "columns": [{"name": name} for name in names]})

    assert [c.path.rpartition(".")[2] for c in between(table("a", "b"), table("b", "a")).changes] == ["columns"]
    assert [c.path.rpartition(".")[2] for c in between(table("a"), table("a", "b")).changes] == ["columns[b]"]
    assert between(table("a", "b"), table("b", "a")).legs[1].stale


def test_json_form() -> None:
    form = between({}, {"search": {"instructions": "Be brief."}}).to_json()
    assert form == {
        "changes": [{"path": "search.instructions", "old": "", "new": "Be brief."}],
        "legs": {leg: {"stale": False, "reasons": [], "refused_unforced": False} for leg in ("chunks", "artifacts")},
    }
    json.dumps(form, allow_nan=False)


def test_long_values_are_shortened_for_people_only() -> None:
    found = between({}, {"search": {"instructions": "x" * 1000}})
    assert max(map(len, found.to_lines())) < 200
    assert found.changes[0].new == "x" * 1000
