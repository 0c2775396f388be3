"""The embedded driver: threads that claim units and do them until the run has ended.

It holds no rules: `starting.start`, `next_claim` and `run_claim` decide everything. What it adds is concurrency, the
heartbeat that renews leases beside the work, and the numbers that a progress display reads.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from pipeline import curate, publish, starting
from pipeline.errors import Conflict, PipelineError, Unavailable
from pipeline.namespaces import KINDS, namespace_of
from pipeline.ports import Ports
from pipeline.recipe import recipe_from_json, serving
from pipeline.request import CurateRequest
from pipeline.retry import next_attempt
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug
from pipeline.units import UnitClaim

IDLE_S = 0.05
"""Wait of a thread that finds every unit taken."""

HEARTBEATS_PER_LEASE = 3
"""A lease of 30 s is renewed every 10 s (DESIGN §4, invariant 10)."""

Start = Callable[[], starting.Started]


@dataclass(slots=True)
class Meter:
    """Work reported by the units of one run, by stage; thread-safe."""

    done: Counter[str] = field(default_factory=Counter)
    doing: Counter[str] = field(default_factory=Counter)
    """Units under way."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, stage: str, amount: int) -> None:
        """Count work done, in the stage's own measure."""
        with self._lock:
            self.done[stage] += amount

    def begin(self, stage: str, change: int) -> None:
        """Count a unit as begun (1) or ended (-1)."""
        with self._lock:
            self.doing[stage] += change


@dataclass(slots=True)
class _Loop:
    """What the threads of one run share."""

    ports: Ports
    started: starting.Started
    meter: Meter
    stages: tuple[str, ...] = curate.CLAIM_ORDER
    """What is done; the rest is left waiting."""
    cache: DraftCache = field(default_factory=DraftCache)
    stop: threading.Event = field(default_factory=threading.Event)
    spread: threading.Event = field(default_factory=threading.Event)
    """Set when there is work for more than one thread."""
    held: dict[UnitClaim, float] = field(default_factory=dict)
    """Claims under way, and when each was begun."""
    lost: set[UnitClaim] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    error: BaseException | None = None

    def work(self, *, first: bool) -> None:
        """Claim and do units until the run has ended or somebody says stop."""
        try:
            while not first and not self.spread.wait(IDLE_S):
                if self.stop.is_set():
                    return
            while not self.stop.is_set():
                claim = curate.next_claim(self.ports, self.started, self.stages)
                if claim is None:
                    self.spread.set()
                    if self._ended():
                        break
                    self.stop.wait(IDLE_S)
                else:
                    self._one(claim)
        except BaseException as error:  # noqa: BLE001  # carried to the calling thread and raised there
            self._fail(error)
        finally:
            if first:
                self.stop.set()

    def _one(self, claim: UnitClaim) -> None:
        with self.lock:
            self.held[claim] = self.ports.clock.now()
        self.meter.begin(claim.stage, 1)
        try:
            curate.run_claim(
                self.ports,
                claim,
                self.cache,
                report=lambda amount: self.meter.add(claim.stage, amount),
                lost=lambda: claim in self.lost or self.stop.is_set(),
            )
            if claim.stage == "inventory":
                self.spread.set()
        except Conflict as error:
            if error.code != "stale_fence" or self._disowned():
                raise
        except Unavailable as error:
            retry = next_attempt(error, claim.failures + 1)
            if retry is None:
                raise
            self.stop.wait(retry.delay_s)
        except PipelineError:
            raise
        except Exception as error:
            with suppress(PipelineError):
                curate.stumble(self.ports, claim, error)
            raise
        finally:
            self.meter.begin(claim.stage, -1)
            with self.lock:
                self.held.pop(claim, None)

    def _fail(self, error: BaseException) -> None:
        with self.lock:
            # What follows the first error is its echo: every thread loses its claims once the loop stops.
            if self.error is None:
                self.error = error
        self.stop.set()

    def _ended(self) -> bool:
        with self.ports.ledger.read() as session:
            run = session.runs.get(self.started.run)
            left = session.units.unfinished(self.started.run, self.stages)
        return run is None or run.state not in RUN_ACTIVE or (self.stages != curate.CLAIM_ORDER and not left)

    def _disowned(self) -> bool:
        """Whether another process has taken the run over, as opposed to one unit's lease having run out."""
        with self.ports.ledger.read() as session:
            run = session.runs.get(self.started.run)
        return run is not None and run.state in RUN_ACTIVE and run.fence != self.started.fence

    def beat(self) -> None:
        """Renew the run and every claim under way, beside the work."""
        limits = self.ports.limits
        while not self.stop.wait(limits.lease_s / HEARTBEATS_PER_LEASE):
            now = self.ports.clock.now()
            with self.lock:
                fresh = [claim for claim, since in self.held.items() if now - since < limits.unit_limit_s]
            try:
                with self.ports.ledger.transaction("heartbeat", self.started.context) as session:
                    alive = session.runs.renew(self.started.run, self.started.fence, now + limits.lease_s, now)
                    gone = [claim for claim in fresh if not session.units.renew(claim, now + limits.lease_s)]
            except Unavailable:
                continue  # the ledger is busy; the next beat comes well before the lease ends
            except BaseException as error:  # noqa: BLE001  # without a heartbeat every lease would run out in silence
                self._fail(error)
                return
            with self.lock:
                self.lost.update(gone if alive else self.held)


def drive(
    ports: Ports,
    started: starting.Started,
    workers: int,
    meter: Meter | None = None,
    stages: tuple[str, ...] = curate.CLAIM_ORDER,
) -> RunRow:
    """Work on a run until it has ended, or until nothing of the stages is left. Returns the run.

    Args:
        ports: the deployment.
        started: the run, from `starting.start`.
        workers: threads, at least 1.
        meter: counts work for a display.
        stages: what is to be done, later stages first.

    Raises:
        PipelineError: the run could not be finished now; it can be resumed.
        Conflict: code `stale_fence`: another process has taken the run over.
    """
    loop = _Loop(ports, started, meter or Meter(), stages)
    threads = [
        threading.Thread(target=loop.work, kwargs={"first": i == 0}, name=f"worker-{i}") for i in range(max(1, workers))
    ]
    heart = threading.Thread(target=loop.beat, name="heartbeat")
    for thread in (*threads, heart):
        thread.start()
    try:
        # This thread only waits. Ctrl-C is raised in the main thread, between any two of its instructions: in the midst
        # of a unit it would leave open what no `finally` was reached for, a transaction for one.
        loop.stop.wait()
    finally:
        loop.stop.set()
        for thread in (*threads, heart):
            thread.join()
        with suppress(Unavailable):  # what stopped the run may stop this too; the leases then run out by themselves
            curate.let_go(ports, started)
    with ports.ledger.read() as session:
        run = session.runs.get(started.run)
    assert run is not None
    if run.state not in RUN_ACTIVE:
        ports.tracer.run(run)
    # A run that ended under this process (cancelled, or finished by another) is an outcome, not a failure of this one.
    echo = isinstance(loop.error, Conflict) and run.state not in RUN_ACTIVE
    if loop.error is not None and not echo:
        raise loop.error
    return run


def _threads(ports: Ports, started: starting.Started, workers: int) -> int:
    """As many as were asked for; else one a processor where the run's model gains by it, at most four, and one elsewhere."""
    if workers:
        return workers
    with ports.ledger.read() as session:
        run = session.runs.require(started.run, started.fence)
    embedder = serving(ports.embedders, recipe_from_json(run.recipe).model)
    return ports.processors if embedder is not None and embedder.concurrent else 1


def curate_and_follow(ports: Ports, request: CurateRequest, workers: int = 0, meter: Meter | None = None) -> RunRow:
    """Curate until what is live is what the request asks for.

    A resumed run may follow an inventory that is out of date, and a run whose base was moved under it is abandoned or
    retired: in both cases a fresh one follows. Returns the last run that did something. `workers` are threads; 0 leaves
    their number to the model.
    """
    last: RunRow | None = None
    for _ in range(FOLLOW_MAX):
        started = starting.start(ports, request)
        run = drive(ports, started, _threads(ports, started, workers), meter)
        if run.state == "noop" and last is not None and last.state == "completed":
            return last
        last = run
        moved = run.state == "retired" or (run.state == "abandoned" and run.error == publish.MOVED)
        if not (started.resumed or moved):
            return run
    assert last is not None
    return last


def optimize(ports: Ports, slug: ContextSlug, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
    """Make searches of the live version fast, where its size needs it; nothing waits for this, and it may be killed.

    Returns the number of records that went into new structures; see `VectorIndex.optimize`.
    """
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
        live = session.versions.get(slug, context.live_version)
    if live is None:
        return 0
    spaces = [namespace_of(slug, live.generation, kind) for kind in KINDS]
    return sum(ports.index(slug).optimize(space, report=report, stop=stop) for space in spaces)


FOLLOW_MAX = 5
"""Runs in a row that one call may start."""
