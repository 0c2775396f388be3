"""How far a run is said to have got, and when it will end."""

from __future__ import annotations

from pipeline.progress import Estimator, Progress, StageProgress, StageShape
from pipeline.units import StageSummary

SHAPES = (
    StageShape("inventory", per_batch=False, measure="files"),
    StageShape("parse", per_batch=True, measure="bytes"),
    StageShape("embed_dense", per_batch=True, measure="tokens"),
    StageShape("flip", per_batch=False, measure="versions"),
)


def summary(stage: str, units: tuple[int, int], size: tuple[int, int] = (0, 0)) -> StageSummary:
    """Units and sizes as (done, known)."""
    return StageSummary(stage, units[1], units[0], size[1], size[0], 100.0, 110.0, 0)


def by_name(progress: Progress) -> dict[str, StageProgress]:
    return {stage.name: stage for stage in progress.stages}


def test_a_later_stage_is_put_in_proportion_to_what_came_so_far() -> None:
    """Half of the bytes are parsed and gave 300 tokens: about 600 are expected, and it isn't finished."""
    seen = Estimator(SHAPES, 100.0).look(
        "r",
        [summary("parse", (2, 4), (500, 1000)), summary("embed_dense", (2, 2), (300, 300))],
        {"parse": 500, "embed_dense": 300},
        {"parse": 1},
        110.0,
    )
    stages = by_name(seen)
    assert (stages["parse"].done, stages["parse"].total, stages["parse"].estimated) == (500, 1000, False)
    assert (stages["embed_dense"].total, stages["embed_dense"].estimated) == (600, True)
    assert not stages["embed_dense"].finished


def test_work_inside_a_unit_counts_at_once_but_never_past_the_whole() -> None:
    estimator = Estimator(SHAPES, 100.0)
    inside = estimator.look("r", [summary("parse", (0, 1), (0, 1000))], {"parse": 400}, {"parse": 1}, 101.0)
    assert by_name(inside)["parse"].done == 400
    again = estimator.look("r", [summary("parse", (0, 1), (0, 1000))], {"parse": 1900}, {"parse": 1}, 102.0)
    assert by_name(again)["parse"].done == 1000


def test_time_left_is_work_left_at_what_it_cost_so_far() -> None:
    """One unit under way for 10 s did half of both stages' work: as much again is left."""
    estimator = Estimator(SHAPES, 100.0)
    stages = [summary("parse", (1, 2), (500, 1000)), summary("embed_dense", (0, 1), (0, 300))]
    estimator.look("r", stages, {"parse": 500}, {"parse": 1}, 105.0)
    seen = estimator.look("r", stages, {"parse": 500, "embed_dense": 300}, {"embed_dense": 1}, 110.0)
    assert seen.seconds_left is not None
    assert abs(seen.seconds_left - 10.0) < 0.01


def test_nothing_is_said_before_every_stage_has_shown_its_cost() -> None:
    estimator = Estimator(SHAPES, 100.0)
    only_parse = [summary("parse", (1, 2), (500, 1000))]
    assert estimator.look("r", only_parse, {"parse": 500}, {"parse": 1}, 110.0).seconds_left is None
    assert estimator.look("r", [], {}, {}, 111.0) == Progress("r", (), None)


def test_a_run_taken_over_counts_what_was_done_before() -> None:
    """300 of 1000 bytes were done by somebody else: they count as done and not as this process's speed."""
    estimator = Estimator(SHAPES, 100.0)
    estimator.look("r", [summary("parse", (1, 3), (300, 1000))], {}, {"parse": 1}, 101.0)
    seen = estimator.look("r", [summary("parse", (1, 3), (300, 1000))], {"parse": 200}, {"parse": 1}, 110.0)
    assert by_name(seen)["parse"].done == 500
    assert by_name(seen)["parse"].rate == 200 / 10.0


def test_a_second_run_starts_afresh_though_the_meter_counts_on() -> None:
    estimator = Estimator(SHAPES, 100.0)
    estimator.look("first", [summary("parse", (2, 2), (1000, 1000))], {"parse": 1000}, {}, 110.0)
    estimator.look("second", [summary("parse", (0, 1), (0, 400))], {"parse": 1000}, {}, 120.0)
    seen = estimator.look("second", [summary("parse", (0, 1), (0, 400))], {"parse": 1100}, {"parse": 1}, 121.0)
    assert (seen.run, by_name(seen)["parse"].done) == ("second", 100)


def test_stages_without_a_size_are_done_by_their_units() -> None:
    seen = by_name(
        Estimator(SHAPES, 100.0).look(
            "r",
            [
                summary("inventory", (1, 1), (1, 1)),
                summary("parse", (1, 1)),
                summary("embed_dense", (1, 1)),
                summary("flip", (0, 1)),
            ],
            {"inventory": 12},
            {},
            120.0,
        )
    )
    assert {name for name, stage in seen.items() if stage.finished} == {"inventory", "parse", "embed_dense"}
    assert (seen["inventory"].done, seen["inventory"].total, seen["inventory"].seconds) == (12, 0, 10.0)
