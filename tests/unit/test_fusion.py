"""Two retrievers' hits in one order: shares of each one's best, nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.fusion import fuse
from pipeline.types import Hit, RecordId

WEIGHTS = {"dense": 0.4, "sparse": 0.6}


def _hits(**scores: float) -> list[Hit]:
    return [Hit(RecordId(name), score) for name, score in sorted(scores.items(), key=lambda item: -item[1])]


def test_scores_are_weighted_shares_of_the_best() -> None:
    legs = {"dense": _hits(a=0.8, b=0.4), "sparse": _hits(b=10.0, a=5.0)}
    first, second = fuse(legs, WEIGHTS)
    assert (first.id, first.score) == ("b", pytest.approx(0.4 * 0.5 + 0.6))
    assert (second.id, second.score) == ("a", pytest.approx(0.4 + 0.6 * 0.5))
    assert second.shares == {"dense": pytest.approx(0.4), "sparse": pytest.approx(0.3)}


def test_a_weak_leg_moves_little() -> None:
    """Where the dense hits are all alike, an outstanding keyword hit stays first; rank fusion would let ranks vote."""
    dense = _hits(**{f"d{i}": 0.50 - i * 0.001 for i in range(50)})
    assert fuse({"dense": dense, "sparse": _hits(x=20.0, d0=2.0)}, WEIGHTS, ["sparse"])[0].id == "x"


def test_what_a_leg_did_not_name_gets_at_most_its_last_score() -> None:
    legs = {"dense": _hits(a=1.0, b=0.5), "sparse": _hits(c=4.0)}
    found = {one.id: one for one in fuse(legs, WEIGHTS)}
    assert found["c"].shares["dense"] == pytest.approx(0.4 * 0.5)
    found = {one.id: one for one in fuse(legs, WEIGHTS, complete=["dense", "sparse"])}
    assert found["c"].shares["dense"] == 0
    assert found["a"].shares["sparse"] == 0


def test_empty_and_worthless_legs_add_nothing() -> None:
    found = fuse({"dense": _hits(a=-0.2, b=-0.1), "sparse": _hits(a=1.0)}, WEIGHTS, ["sparse"])
    assert [(one.id, one.score) for one in found] == [("a", 0.6), ("b", 0.0)]
    assert fuse({"dense": [], "sparse": []}, WEIGHTS) == []
    assert [one.id for one in fuse({"dense": _hits(b=0.3, a=0.3), "sparse": []}, WEIGHTS)] == ["a", "b"]


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 1)),
    st.dictionaries(st.sampled_from("abcdefgh"), st.just(0.0) | st.floats(1e-6, 100)),
    st.floats(0.001, 1000),
)
def test_any_scale_of_a_leg_gives_the_same_order(dense, sparse, scale) -> None:
    """Each record once, scores from 0 to 1 and falling, shares adding up; a leg's unit of measure is of no account."""
    legs = {"dense": _hits(**dense), "sparse": _hits(**sparse)}
    found = fuse(legs, WEIGHTS)
    assert sorted(one.id for one in found) == sorted({*dense, *sparse})
    assert all(0 <= one.score <= 1 + 1e-9 and one.score == pytest.approx(sum(one.shares.values())) for one in found)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    scaled = fuse({**legs, "sparse": _hits(**{k: v * scale for k, v in sparse.items()})}, WEIGHTS)
    assert {one.id: pytest.approx(one.score) for one in found} == {one.id: one.score for one in scaled}
