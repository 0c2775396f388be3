"""Statistics of an estimate: which documents are sampled, what a sample says of the whole, how sure that is. Pure.

Totals are expanded stratum by stratum, by bytes. How many subjects the whole corpus has comes of how many documents
each sampled subject stands in: Chao's estimator with its extrapolation to more documents (Chao 1987; Colwell and others
2012), which trusts what recurs, and a straight line, which trusts that new text goes on bringing new subjects; the
share of subjects that recur decides between the two.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev

SEED = 20
"""Of every draw: the same corpus gives the same sample."""
STRATA = 5
"""Parts of equal bytes that documents are drawn from: a few large ones often hold most of a corpus."""
RESAMPLES = 200
SUBJECTS_MAX = 1_000_000_000
LINEAR_BELOW, CHAO_FROM = 0.05, 0.5
"""Recurrence below which the straight line alone, and from which Chao's estimator alone, gives the count."""
SPREAD = 2.0
"""Standard errors on either side of a point."""
BAND_MAX = 2.0
"""The high end of a token band over its low end, at most."""
FLOOR_CV = 0.25
"""Replies vary by at least this much: a few that happen to be alike prove no more."""
READERS_CV = 0.3
"""How much two readers' shares of the same text's subjects differ from text to text, for one subject."""
_STUDENT = (12.7, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""95 % bounds of Student's distribution by degrees of freedom, from one on; past them `SPREAD` is near enough."""


@dataclass(frozen=True, slots=True)
class Band:
    """A figure and how far it may be off."""

    value: float
    lo: float
    hi: float

    def plus(self, other: Band) -> Band:
        """The sum of two figures whose errors have nothing to do with each other."""
        value = self.value + other.value
        below = math.hypot(self.value - self.lo, other.value - other.lo)
        above = math.hypot(self.hi - self.value, other.hi - other.value)
        return Band(value, value - below, value + above)

    def along(self, other: Band) -> Band:
        """The sum of two figures that err alike."""
        return Band(self.value + other.value, self.lo + other.lo, self.hi + other.hi)

    def times(self, factor: float) -> Band:
        """The figure in another measure."""
        return Band(self.value * factor, self.lo * factor, self.hi * factor)

    def narrowed(self) -> Band:
        """No wider than `BAND_MAX`, about the figure itself."""
        if self.hi <= self.lo * BAND_MAX:
            return self
        least = min(max(self.lo, self.value / math.sqrt(BAND_MAX)), self.value)
        return Band(self.value, least, max(min(self.hi, least * BAND_MAX), self.value))


def exactly(value: float) -> Band:
    """A figure that is known."""
    return Band(value, value, value)


# ---- sampling


@dataclass(frozen=True, slots=True)
class Stratum:
    """Documents of about one size."""

    chosen: tuple[int, ...]
    """Those that are read, by their index."""
    weight: float
    """Bytes of the stratum over the bytes of those that are read."""


def strata(sizes: Sequence[int], count: int, seed: int = SEED) -> tuple[Stratum, ...]:
    """Draw `count` documents (all, where there are fewer) from strata of equal bytes, about as many from each.

    Args:
        sizes: bytes of each document.
        count: documents to draw, at least 1.
        seed: of the draw.
    """
    order = sorted(range(len(sizes)), key=lambda i: (sizes[i], i))
    if count >= len(sizes):
        return (Stratum(tuple(sorted(order)), 1.0),) if order else ()
    draw = random.Random(seed)  # noqa: S311  # a sample, no secret
    total = sum(max(size, 1) for size in sizes)
    # Fewer than `count`, since together they would have more than all bytes: their totals aren't left to chance.
    certain = [i for i in order if max(sizes[i], 1) * count > total]
    found = [Stratum(tuple(sorted(certain)), 1.0)] if certain else []
    left = count - len(certain)
    rest = order[: len(order) - len(certain)]
    parts = _parts(rest, sizes, min(STRATA, left))
    for at, part in enumerate(parts):
        take = min(len(part), max(1, left // (len(parts) - at)))
        left -= take
        chosen = tuple(sorted(draw.sample(part, take)))
        read = sum(max(sizes[i], 1) for i in chosen)
        found.append(Stratum(chosen, sum(max(sizes[i], 1) for i in part) / read))
    return tuple(found)


def _parts(order: Sequence[int], sizes: Sequence[int], number: int) -> list[list[int]]:
    total = sum(max(sizes[i], 1) for i in order)
    out: list[list[int]] = [[]]
    held = 0
    for i in order:
        if out[-1] and held >= total * len(out) / number and len(out) < number:
            out.append([])
        out[-1].append(i)
        held += max(sizes[i], 1)
    # The fewest documents first, so that strata that are read whole pass on what they don't need.
    return sorted(out, key=len)


def expanded(values: Sequence[float], sizes: Sequence[int], weight: float) -> Band:
    """The total over a stratum, from its sampled documents' values; the error by what sizes don't explain."""
    total = sum(values)
    if weight <= 1 or not values:
        return exactly(total)
    rate = total / max(sum(sizes), 1)
    rest = [value - rate * size for value, size in zip(values, sizes, strict=True)]
    spread = stdev(rest) if len(rest) > 1 else abs(total)
    error = SPREAD * weight * spread * math.sqrt(len(values) * (1 - 1 / weight))
    point = total * weight
    return Band(point, max(point - error, total), point + error)


# ---- how many subjects


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many subjects of a type the whole corpus has."""

    band: Band
    recurrence: float
    """Share of the sampled subjects that more than one sampled document speaks of."""
    method: str


def distinct(subjects: Sequence[frozenset[int]], documents: int, growth: float, least: int, cap: int) -> Distinct:
    """Estimate the subjects of which at least `least` documents of the whole corpus speak.

    Args:
        subjects: for each subject of the sample the sampled documents that speak of it.
        documents: sampled documents.
        growth: text that wasn't read over text that was; 0: everything was read.
        least: documents that must speak of a subject.
        cap: subjects that are kept at most.
    """
    recurrence = sum(len(s) > 1 for s in subjects) / len(subjects) if subjects else 0.0
    if growth <= 0:
        return Distinct(exactly(min(sum(len(s) >= least for s in subjects), cap)), recurrence, "count")
    counts = [len(s) for s in subjects]
    value, chao, linear = _blended(counts, documents, growth, least)
    draw = random.Random(SEED)  # noqa: S311  # as above
    again = []
    for _ in range(RESAMPLES):
        times = [0] * documents
        for _ in range(documents):
            times[draw.randrange(documents)] += 1
        redrawn = [c for s in subjects if (c := sum(times[d] for d in s))]
        again.append(_blended(redrawn, documents, growth, least)[0])
    error = SPREAD * pstdev(again)
    seen = sum(c >= least for c in counts)
    lo = max(min(chao, linear, value) - error, seen)
    hi = max(chao, linear, value) + error
    method = "linear" if recurrence < LINEAR_BELOW else "chao2" if recurrence >= CHAO_FROM else "blend"
    return Distinct(Band(*(min(max(v, seen), cap) for v in (value, lo, hi))), recurrence, method)


def _blended(counts: Sequence[int], documents: int, growth: float, least: int) -> tuple[float, float, float]:
    """(blend, Chao's, straight line): subjects with at least `least` documents, once all text is read."""
    if not counts:
        return 0.0, 0.0, 0.0
    once, twice = sum(c == 1 for c in counts), sum(c == 2 for c in counts)  # noqa: PLR2004 - what Chao counts
    recurrence = sum(c > 1 for c in counts) / len(counts)
    share = (documents - 1) / documents
    unseen = share * (once * once / (2 * twice) if twice else once * (once - 1) / 2)
    more = growth * documents
    found = unseen * (1 - (1 - once / (documents * unseen + once)) ** more) if unseen else 0.0
    new = once * growth
    weight = min(max((recurrence - LINEAR_BELOW) / (CHAO_FROM - LINEAR_BELOW), 0.0), 1.0)
    seen = sum(_reaches(least - c, c * growth) for c in counts)
    late = _reaches(least - 1, growth / 2)  # of one that appears on the way, half of the way is left
    by_chao, by_line = min(seen + found * late, SUBJECTS_MAX), min(seen + new * late, SUBJECTS_MAX)
    return weight * by_chao + (1 - weight) * by_line, by_chao, by_line


def _reaches(wanted: int, mean: float) -> float:
    """Chance that a Poisson count of this mean is at least `wanted`."""
    if wanted <= 0:
        return 1.0
    term = total = math.exp(-min(mean, 700.0))
    for n in range(1, wanted):
        term *= mean / n
        total += term
    return max(1.0 - total, 0.0)


def resized(guess: Distinct, known: Distinct, few: Distinct, seen: int) -> Distinct:
    """A count by one reader, put in another's measure.

    Args:
        guess: all that was read, by the reader whose readings cost nothing.
        known: what the other one found in a part of it, extrapolated.
        few: what the first one found in that part, extrapolated.
        seen: subjects that the other one found there: the fewer, the less they say.
    """
    ratio = guess.band.times(known.band.value / few.band.value) if few.band.value else known.band
    ends = (ratio.lo, ratio.hi, known.band.value, ratio.value)
    value = math.sqrt(max(ratio.value, 0.0) * max(known.band.value, 0.0))
    error = SPREAD * READERS_CV / math.sqrt(max(seen, 1))
    band = Band(value, min(ends) * max(1 - error, 0.0), max(ends) * (1 + error))
    return Distinct(band, known.recurrence, f"{guess.method}, calibrated")


# ---- how long replies are


@dataclass(frozen=True, slots=True)
class Length:
    """What replies of one kind come to, for each token that was guessed."""

    ratio: Band
    variation: float
    """Of one reply about its expected length, as a share of it; 0 where nothing is known but a range."""
    by_guess: bool = True
    """Whether a reply's length follows its own guess; otherwise all are expected alike."""


def length(known: Sequence[tuple[int, int]], guessed: Band) -> Length:
    """Reply lengths from some answers.

    Args:
        known: (tokens guessed, tokens it had) of each answer.
        guessed: the ratio that is assumed where fewer than two answers are known.
    """
    if len(known) < 2:  # noqa: PLR2004 - one says nothing of how they vary
        return Length(guessed, 0.0)
    had = [actual for _, actual in known]
    flat = stdev(had) / max(fmean(had), 1.0)
    rate = sum(had) / max(sum(guess for guess, _ in known), 1)
    rest = [actual - rate * guess for guess, actual in known]
    following = math.sqrt(sum(r * r for r in rest) / (len(rest) - 1)) / max(fmean(had), 1.0)
    by_guess = following <= flat
    point = rate if by_guess else fmean(had)
    variation = max(min(flat, following), FLOOR_CV)
    bound = _STUDENT[len(known) - 2] if len(known) - 2 < len(_STUDENT) else SPREAD
    error = bound * variation / math.sqrt(len(known))
    return Length(Band(point, point * max(1 - error, 1 / 3), point * (1 + error)), variation, by_guess)


def replies(kind: Length, calls: float, guesses: float) -> Band:
    """Tokens of some replies together.

    Args:
        kind: what is known of their length.
        calls: how many.
        guesses: tokens guessed for all of them.
    """
    band = kind.ratio.times(guesses if kind.by_guess else calls)
    if not kind.variation or calls <= 0:
        return band
    noise = SPREAD * kind.variation * band.value / math.sqrt(calls)
    return band.plus(Band(0.0, -noise, noise))


# ---- how long it takes


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a tier's models answer; (slow, fast)."""

    wait_s: tuple[float, float]
    """Before the first token of a reply."""
    read: tuple[float, float]
    """Prompt tokens a second."""
    write: tuple[float, float]
    """Reply tokens a second."""


PACES: Mapping[str, Pace] = {
    "lite": Pace((1.0, 0.3), (3000.0, 12000.0), (60.0, 180.0)),
    "standard": Pace((1.5, 0.5), (2000.0, 8000.0), (40.0, 100.0)),
    "pro": Pace((2.5, 0.8), (1000.0, 5000.0), (20.0, 70.0)),
}
"""What hosted models of the three sizes commonly do. Assumptions: a deployment's own provider may be outside them."""


def seconds(pace: Pace, calls: float, prompt: float, reply: Band, at_once: int) -> tuple[float, float]:
    """(least, most) time for some calls, so many at once."""
    slow, fast = (
        calls * pace.wait_s[i] + prompt / pace.read[i] + tokens / pace.write[i]
        for i, tokens in ((0, reply.hi), (1, reply.lo))
    )
    return fast / at_once, slow / at_once
