"""The statistics of an estimate: samples, totals, numbers of subjects, lengths of replies."""

from __future__ import annotations

import random

import pytest

from pipeline.artifacts import estimate
from pipeline.artifacts.estimate import Band, Length


def test_a_sample_is_drawn_once_and_for_all() -> None:
    """The same sizes give the same sample, with nothing twice and as much as was asked for."""
    sizes = [random.Random(1).randint(1, 10_000) for _ in range(500)]
    found = estimate.strata(sizes, 60)
    chosen = [i for part in found for i in part.chosen]
    assert found == estimate.strata(sizes, 60)
    assert len(chosen) == len(set(chosen)) == 60


def test_all_are_read_where_there_are_no_more() -> None:
    """A sample as large as the corpus is the corpus, without expansion."""
    assert estimate.strata([5, 1, 3], 3) == (estimate.Stratum((0, 1, 2), 1.0),)
    assert estimate.strata([], 3) == ()


def test_the_large_ones_are_in() -> None:
    """Documents that hold most of the bytes are sampled, however many small ones there are."""
    sizes = [10] * 1000 + [100_000] * 3
    chosen = {i for part in estimate.strata(sizes, 20) for i in part.chosen}
    assert {1000, 1001, 1002} <= chosen


@pytest.mark.parametrize("seed", range(5))
def test_a_total_that_follows_size_is_found_exactly(seed: int) -> None:
    """What is in proportion to bytes expands to its true total, and the band says that it is sure."""
    draw = random.Random(seed)
    sizes = [round(draw.lognormvariate(7, 1.5)) + 1 for _ in range(400)]
    total = Band(0, 0, 0)
    for part in estimate.strata(sizes, 40, seed):
        mine = [sizes[i] for i in part.chosen]
        total = total.plus(estimate.expanded([3.0 * s for s in mine], mine, part.weight))
    assert total.value == pytest.approx(3 * sum(sizes))
    assert total.hi - total.lo < 1e-6 * total.value


def test_a_band_holds_most_totals() -> None:
    """Of a total that size explains in part, at least 85 of 100 samples' bands hold the truth."""
    held = 0
    for seed in range(100):
        draw = random.Random(seed)
        sizes = [round(draw.lognormvariate(7, 1)) + 1 for _ in range(300)]
        values = [s * draw.uniform(0.5, 1.5) + 300 for s in sizes]
        total = Band(0, 0, 0)
        for part in estimate.strata(sizes, 50, seed):
            mine = [sizes[i] for i in part.chosen]
            total = total.plus(estimate.expanded([values[i] for i in part.chosen], mine, part.weight))
        held += total.lo <= sum(values) <= total.hi
    assert held >= 85


def subjects(documents: int, pool: int, each: int, seed: int = 0) -> list[list[int]]:
    """Subjects of each document."""
    draw = random.Random(seed)
    return [draw.sample(range(pool), each) for _ in range(documents)]


def counted(corpus: list[list[int]]) -> list[frozenset[int]]:
    places: dict[int, set[int]] = {}
    for at, some in enumerate(corpus):
        for subject in some:
            places.setdefault(subject, set()).add(at)
    return [frozenset(p) for p in places.values()]


@pytest.mark.parametrize(("pool", "method"), [(150, "chao2"), (1500, "blend"), (10_000_000, "linear")])
def test_the_estimator_follows_recurrence(pool: int, method: str) -> None:
    """A closed circle of subjects, an open one, and one in which nobody comes twice: the truth is in the band."""
    corpus = subjects(400, pool, 5)
    truth = len(counted(corpus))
    found = estimate.distinct(counted(corpus[:100]), 100, 3.0, 1, 10_000)
    assert found.method == method
    assert found.band.lo <= truth <= found.band.hi
    assert found.band.lo <= found.band.value <= found.band.hi


def test_where_nothing_recurs_the_count_grows_with_the_documents() -> None:
    """Ten documents of five subjects each, no one twice: forty documents have four times as many."""
    own = [frozenset({d}) for d in range(10) for _ in range(5)]
    assert estimate.distinct(own, 10, 3.0, 1, 10_000).band.value == pytest.approx(200)


def test_all_documents_are_no_estimate() -> None:
    """With nothing unread the band is the count, with the least documents and the cap held to."""
    spoken = [frozenset({0}), frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 1, 2})]
    for least, cap, wanted in ((1, 10, 4), (2, 10, 3), (3, 10, 1), (1, 2, 2)):
        found = estimate.distinct(spoken, 3, 0.0, least, cap)
        assert (found.band, found.method) == (Band(wanted, wanted, wanted), "count")


def test_subjects_that_few_documents_speak_of_now_may_have_enough_later() -> None:
    """Under a least number of documents the truth of the whole corpus is in the band."""
    corpus = subjects(400, 300, 3)
    truth = sum(len(s) >= 4 for s in counted(corpus))
    found = estimate.distinct(counted(corpus[:100]), 100, 3.0, 4, 10_000)
    assert found.band.lo <= truth <= found.band.hi


def test_replies_are_expected_as_the_known_ones_were() -> None:
    """Answers in proportion to their guesses give the proportion; answers all of a length give the length."""
    following = estimate.length([(100, 51), (200, 99), (400, 203)], Band(1, 1, 1))
    assert following.by_guess
    assert following.ratio.value == pytest.approx(0.5, rel=0.02)
    flat = estimate.length([(100, 300), (900, 310), (400, 290)], Band(1, 1, 1))
    assert not flat.by_guess
    assert estimate.replies(flat, 10, 99_999).value == pytest.approx(3000)


def test_one_answer_is_not_enough() -> None:
    """What one answer had says nothing of others: the assumption stays."""
    assert estimate.length([(100, 1)], Band(0.9, 0.6, 1.2)) == Length(Band(0.9, 0.6, 1.2), 0.0)


def test_lengths_hold_what_follows() -> None:
    """From eight lognormal answers, the total of sixty more is in the band at least 93 times of 100."""
    held = 0
    for seed in range(200):
        draw = random.Random(seed)
        drawn = [round(draw.lognormvariate(5, 0.3)) for _ in range(68)]
        known = estimate.length([(100, n) for n in drawn[:8]], Band(1, 1, 1))
        band = estimate.replies(known, 60, 6000)
        held += band.lo <= sum(drawn[8:]) <= band.hi
    assert held >= 186


@pytest.mark.parametrize("band", [Band(100, 1, 1000), Band(100, 90, 500), Band(100, 10, 101), Band(0, 0, 0)])
def test_no_band_is_wider_than_twice_its_low_end(band: Band) -> None:
    """A token band is held to twice its low end, about its point, and never widened."""
    found = band.narrowed()
    assert found.hi <= 2 * found.lo + 1e-9
    assert band.lo <= found.lo <= found.value <= found.hi <= band.hi


def test_calls_at_once_take_less_time() -> None:
    """Time is divided by the calls that run at once, and the slow end is the slow one."""
    one = estimate.seconds(estimate.PACES["lite"], 10, 10_000, Band(1000, 900, 1100), 1)
    four = estimate.seconds(estimate.PACES["lite"], 10, 10_000, Band(1000, 900, 1100), 4)
    assert one[0] < one[1]
    assert four == pytest.approx([each / 4 for each in one])
