"""How far a run has got and how long it may still take. Pure: the command line supplies what ledger and meter say.

A batch of sources passes one stage after the other, so a later stage learns its size as batches reach it; what is still
to come is put in proportion to the share of the work before it that is done. Time left is work left times what a unit of work has cost
so far, over the units that were under way at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipeline.units import StageSummary

FIRST_BATCH_STAGE = "parse"
"""The stage whose units are all known from the start: one for each batch of the run."""

SETTLE_S = 1.5
"""Time before which costs are too rough to tell time left from."""


@dataclass(frozen=True, slots=True)
class StageShape:
    """What the display has to know of a stage."""

    name: str
    per_batch: bool
    measure: str
    """What its size counts: files, bytes, tokens, records, …"""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One stage that has begun."""

    name: str
    measure: str
    done: int
    total: int
    """0 where it isn't known."""
    estimated: bool
    """Whether `total` is put in proportion, since not every batch has come so far."""
    rate: float
    """Work a second since this process first saw the stage work; 0 before that."""
    finished: bool
    seconds: float
    """From the first unit's claim to the last one's end, or until now."""
    spent: float
    """Unit-seconds that this process has put into it; 0 for a stage at which nothing is under way."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A run at one moment."""

    run: str
    stages: tuple[StageProgress, ...]
    seconds_left: float | None
    """None while nothing sound can be said."""


@dataclass(slots=True)
class Estimator:
    """Turns successive looks at one curate into `Progress`; remembers what each stage has cost so far."""

    shapes: Sequence[StageShape]
    """The stages of the run looked at, in their order; set anew when another kind of run follows."""
    began: float
    """When the work began, in seconds; the first look comes a little later."""
    run: str = ""
    looked: float = 0.0
    busy: dict[str, float] = field(default_factory=dict)
    """Stage to unit-seconds spent on it, sampled at each look."""
    seen: dict[str, float] = field(default_factory=dict)
    """Stage to when it was first seen at work."""
    before: dict[str, int] = field(default_factory=dict)
    """Stage to work that was done before this process began with the run."""
    metered: dict[str, int] = field(default_factory=dict)
    """What the meter showed when the run began: it counts on over the runs that one command starts."""

    def look(
        self, run: str, summary: Sequence[StageSummary], done: Mapping[str, int], doing: Mapping[str, int], now: float
    ) -> Progress:
        """Progress now.

        Args:
            run: the run looked at; another one than before starts the measuring anew.
            summary: the ledger's sizes by stage.
            done: the meter's work by stage.
            doing: the meter's units under way by stage.
            now: the time in seconds.
        """
        stages = {stage.stage: stage for stage in summary}
        if run != self.run:
            self._begin(run, stages, done, now)
        here = {shape.name: max(0, done.get(shape.name, 0) - self.metered.get(shape.name, 0)) for shape in self.shapes}
        passed = now - self.looked
        for shape in self.shapes:
            units = max(0, doing.get(shape.name, 0))
            if units:
                self.busy[shape.name] = self.busy.get(shape.name, 0.0) + passed * units
            if units or here[shape.name]:
                self.seen.setdefault(shape.name, self.looked)
        self.looked = now
        batches = stages[FIRST_BATCH_STAGE].units if FIRST_BATCH_STAGE in stages else 0
        reached = _reached(self.shapes, stages)
        shown = tuple(
            self._stage(shape, stages[shape.name], here[shape.name], reached[shape.name], now)
            for shape in self.shapes
            if shape.name in stages
        )
        shown = tuple(stage if doing.get(stage.name, 0) > 0 else replace(stage, spent=0.0) for stage in shown)
        return Progress(run, shown, self._left(shown, here, batches, now))

    def _begin(self, run: str, stages: Mapping[str, StageSummary], done: Mapping[str, int], now: float) -> None:
        first = not self.run
        self.began = self.began if first else now
        self.run, self.looked = run, self.began
        self.busy, self.seen = {}, {}
        # Before its first look the meter has counted for this run alone; afterwards for those before it, too.
        self.metered = {} if first else dict(done)
        self.before = {
            name: max(0, stage.size_done - (done.get(name, 0) if first else 0)) for name, stage in stages.items()
        }

    def _stage(self, shape: StageShape, stage: StageSummary, here: int, reached: float, now: float) -> StageProgress:
        whole = reached >= 1
        counted = shape.per_batch and stage.size > 0
        total = round(stage.size / reached) if counted and reached else 0
        done = max(stage.size_done, min(stage.size, self.before.get(shape.name, 0) + here)) if counted else here
        since = now - self.seen.get(shape.name, now)
        ended = stage.units == stage.units_done and whole
        seconds = max(0.0, (stage.last_at if ended else now) - stage.first_at) if stage.first_at else 0.0
        return StageProgress(
            name=shape.name,
            measure=shape.measure,
            done=done,
            total=total,
            estimated=not whole,
            rate=here / since if since > 0 else 0.0,
            finished=ended,
            seconds=seconds,
            spent=self.busy.get(shape.name, 0.0),
        )

    def _left(self, shown: Sequence[StageProgress], here: Mapping[str, int], batches: int, now: float) -> float | None:
        elapsed = now - self.began
        spent = sum(self.busy.values())
        per_batch = [shape.name for shape in self.shapes if shape.per_batch]
        by_name = {stage.name: stage for stage in shown}
        if not batches or elapsed < SETTLE_S or not spent or any(name not in by_name for name in per_batch):
            return None
        work = 0.0
        for name in per_batch:
            stage = by_name[name]
            if stage.finished:
                continue
            if not here[name]:
                return None
            work += max(0, stage.total - stage.done) * self.busy.get(name, 0.0) / here[name]
        return work / max(1.0, spent / elapsed)


def _reached(shapes: Sequence[StageShape], stages: Mapping[str, StageSummary]) -> dict[str, float]:
    """Stage to the share of the run's work that has come to it: what is done at the stage before, of what came there."""
    out, share = {}, 1.0
    for shape in shapes:
        stage = stages.get(shape.name)
        out[shape.name] = share if shape.per_batch else 1.0
        if shape.per_batch:
            share *= _done(stage) if stage else 0.0
    return out


def _done(stage: StageSummary) -> float:
    if stage.units == stage.units_done:
        return 1.0
    return stage.size_done / stage.size if stage.size else stage.units_done / stage.units


def single(name: str, measure: str, done: int, total: int, spent: float) -> Progress | None:
    """Work of one kind that is no run; None before its size is known.

    Args:
        name: of the work.
        measure: what is counted.
        done: how much is done.
        total: how much there is; `done` itself where nobody knows.
        spent: seconds since it began.
    """
    if not total:
        return None
    rate = done / spent if spent > 0 else 0.0
    stage = StageProgress(
        name, measure, done, total, estimated=False, rate=rate, finished=done == total, seconds=spent, spent=spent
    )
    return Progress(name, (stage,), (total - done) / rate if rate else None)
