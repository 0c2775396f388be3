"""The engine on a virtual clock, with workers that a seed schedules: it crashes, delays, duplicates and drops.

Each simulated process is a thread, but only one of them ever runs: at every call to a port it gives the turn back, and the
scheduler, which knows nothing but its seed, says who goes on, who sleeps past its lease, and who dies there. A process that
died makes no further call, whatever its `finally` blocks try. The same seed gives the same history.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from world import SECTIONS, SLUG, World

from pipeline import fleet, publish
from pipeline.errors import PipelineError, Unavailable
from pipeline.fsck import fsck
from pipeline.limits import Limits
from pipeline.ports import Ports
from pipeline.rows import RUN_ACTIVE
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug, RunId, SourcePath
from pipeline.units import Token

WORKERS = 3
FAULTS_FOR = 400
"""Turns in which the scheduler does harm; after them the fleet must come to its end."""
TURNS_MAX = 30_000
LEASE_S = 30.0


class Dead(BaseException):
    """The process was killed here."""


@dataclass
class Chances:
    """How often, at a turn."""

    crash: float = 0.004
    inside: float = 0.01
    """In a write block, before it commits."""
    sleep: float = 0.01
    outage: float = 0.004
    drop: float = 0.1
    twice: float = 0.1
    late: float = 0.1
    flush: float = 0.002
    look: float = 0.05

    def scaled(self, factor: float) -> Chances:
        """The same world in worse weather; messages are lost as often as before."""
        return replace(
            self, crash=self.crash * factor, inside=self.inside * factor, sleep=self.sleep * factor,
            outage=self.outage * factor,
        )  # fmt: skip


class Process:
    """One simulated process."""

    def __init__(self, sim: Simulation, name: str, body: Callable[[Process], None]) -> None:
        self.sim, self.name, self.born = sim, name, 0
        self.go = threading.Semaphore(0)
        self.dead = self.over = False
        self.asleep_until = 0.0
        self.error: BaseException | None = None
        self.cache = DraftCache()
        self._body = body
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.ports: Ports = sim.ports_of(self)

    def _run(self) -> None:
        self.go.acquire()
        try:
            while not self.sim.ending:
                try:
                    self._body(self)
                    self.turn("idle")
                except Dead:
                    self.reborn()
        except BaseException as error:  # noqa: BLE001  # told by the scheduler's thread
            self.error = error
        finally:
            self.over = True
            self.sim.back.release()

    def reborn(self) -> None:
        """Another process in the place of the one that died."""
        self.born += 1
        self.dead = False
        self.cache = DraftCache()
        self.ports = self.sim.ports_of(self)

    @property
    def owner(self) -> str:
        return f"{self.name}.{self.born}"

    def turn(self, _where: str) -> None:
        """Give the turn back; go on when it comes again."""
        if self.dead or self.sim.ending:
            raise Dead
        self.sim.back.release()
        self.go.acquire()
        if self.dead or self.sim.ending:
            raise Dead


class SimLedger:
    """A ledger whose blocks are atomic turns."""

    def __init__(self, process: Process) -> None:
        self._process, self._inner = process, process.sim.world.ledger
        self.close = lambda: None

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[Any]:
        process = self._process
        process.turn(f"{label} before")
        process.sim.outage()
        with self._inner.transaction(label, context) as session:
            yield session
            if process.sim.happens("inside"):
                process.dead = True
                raise Dead
        process.turn(f"{label} after")

    @contextmanager
    def read(self) -> Iterator[Any]:
        self._process.turn("read")
        with self._inner.read() as session:
            yield session


class SimPort:
    """Any other port: a turn before and after each of some methods."""

    def __init__(self, process: Process, inner: object, methods: frozenset[str]) -> None:
        self._process, self._inner, self._methods = process, inner, methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._around(name, found) if name in self._methods else found

    def _around(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self._process.turn(f"{name} before")
            self._process.sim.outage()
            out = method(*given, **named)
            self._process.turn(f"{name} after")
            return out

        return call


INDEX = frozenset({"upsert", "stamp", "delete", "fetch"})
MEMO = frozenset({"put_many", "get_many", "forget"})
OBJECTS = frozenset({"put_many", "delete_many"})
PARSER = frozenset({"parse"})
VIEW = frozenset({"begin", "write", "remove", "end"})


@dataclass
class Simulation:
    """One history."""

    seed: int
    chances: Chances = field(default_factory=Chances)
    ending: bool = False
    turns: int = 0
    harms: Counter[str] = field(default_factory=Counter)
    """What was done to it, by kind."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.back = threading.Semaphore(0)
        limits = Limits(
            batch_sources=2, embed_texts=4, upsert_records=3, lease_s=LEASE_S, lanes=4, stall_s=1e9, unit_attempts=50
        )
        self.world = World(limits=limits)
        self.messages: list[tuple[float, Token]] = []
        self.harm = False

    # ---- the world's side

    def ports_of(self, process: Process) -> Ports:
        world = self.world
        index, objects = SimPort(process, world.index, INDEX), SimPort(process, world.objects, OBJECTS)
        view = SimPort(process, world.view, VIEW)
        return replace(
            world.ports_for(process.owner), ledger=SimLedger(process), index=lambda _slug: index,
            objects=lambda _slug: objects, memo=SimPort(process, world.memo, MEMO), view=lambda _slug: view,
            parser=SimPort(process, world.parser, PARSER),
        )  # fmt: skip

    def happens(self, kind: str) -> bool:
        """Whether that happens now; never once harm has ended."""
        hit = self.harm and self.random.random() < getattr(self.chances, kind)
        self.harms[kind] += hit
        return hit

    def outage(self) -> None:
        if self.happens("outage"):
            raise Unavailable("down", "the service is away for a moment")

    # ---- messages, as `fleet_ports.Dispatch`

    def send(self, token: Token) -> None:
        now = self.world.clock.now()
        for _ in range(2 if self.happens("twice") else 1):
            if not self.happens("drop"):
                late = self.random.uniform(0, 60) if self.happens("late") else 0.0
                self.messages.append((now + late, token))

    def finished(self, context: ContextSlug) -> None:
        """Nothing follows."""

    publish = finished

    def check(self) -> None: ...
    def close(self) -> None: ...

    def take(self) -> Token | None:
        now = self.world.clock.now()
        ready = [one for one in self.messages if one[0] <= now]
        if not ready:
            return None
        chosen = self.random.choice(ready)
        self.messages.remove(chosen)
        return chosen[1]

    # ---- the scheduler

    def run(
        self, bodies: dict[str, Callable[[Process], None]], until: Callable[[], bool], look: Callable[[], None]
    ) -> None:
        """Turn after turn until it holds."""
        self.processes = [Process(self, name, body) for name, body in bodies.items()]
        for process in self.processes:
            process.thread.start()
        try:
            while not until():
                self.turns += 1
                assert self.turns < TURNS_MAX, "the fleet doesn't come to its end"
                self.harm = self.turns < FAULTS_FOR
                self._turn()
                if self.random.random() < self.chances.look:
                    look()
        finally:
            self.ending = True
            for process in self.processes:
                while not process.over:
                    process.go.release()
                    self.back.acquire()
                process.thread.join()

    def _turn(self) -> None:
        clock = self.world.clock
        clock.advance(self.random.uniform(0, 0.5))
        now = clock.now()
        awake = [process for process in self.processes if process.asleep_until <= now]
        if not awake:
            clock.advance(min(process.asleep_until for process in self.processes) - now)
            return
        process = self.random.choice(awake)
        if self.happens("flush"):
            self.messages.clear()
        if self.happens("crash"):
            process.dead = True
        elif self.happens("sleep"):
            process.asleep_until = now + self.random.choice((5.0, 40.0, 200.0))
            return
        process.go.release()
        self.back.acquire()
        if process.error is not None:
            raise process.error


def worker(process: Process) -> None:
    """Take a message, do its unit. One that a process died at may come again, as the broker has no acknowledgement."""
    sim = process.sim
    token = sim.take()
    if token is None:
        return
    try:
        fleet.step(process.ports, token, sim, cache=process.cache)
    except Dead:
        if sim.random.random() < 0.5:
            sim.messages.append((sim.world.clock.now() + 60.0, token))
        raise
    except PipelineError:
        return  # the task ends with it, as Celery's would


def keeper(process: Process) -> None:
    """What beat makes the fleet do."""
    sim = process.sim
    with suppress(PipelineError):
        fleet.reconcile(process.ports, sim)
    process.asleep_until = sim.world.clock.now() + 10.0


def history(seed: int, chances: Chances | None = None, fleet_begins: Callable[[], None] = lambda: None) -> Simulation:
    """Curate, edit, and let the fleet curate again under harm; then everything must be as if nothing had happened.

    `fleet_begins` is called between the two: from there on nothing waits on a real clock.

    Raises:
        AssertionError: it isn't.
    """
    choose = random.Random(seed * 7 + 1)
    sim = Simulation(seed, chances or Chances().scaled(choose.choice((1, 3, 8))))
    world = sim.world
    for n in range(choose.randint(3, 6)):
        world.put(f"{n}.md", *(f"old{n}x{k}" for k in range(choose.randint(1, 3))))
    world.curate()
    old = world.texts(1)
    for n in range(choose.randint(2, 5)):
        world.put(f"{choose.randrange(8)}.md", *(f"new{n}x{k}" for k in range(choose.randint(1, 3))))
    if choose.random() < 0.5:
        world.drop(min(world.files))
    if choose.random() < 0.3:
        world.files[SourcePath("bad.md")] = b"# REFUSE"
    world.clock.advance(10)
    fleet_begins()
    run = fleet.submit(world.ports_for("cli"), world.request(SECTIONS), sim).run
    seen: list[int] = []

    def look() -> None:
        live = world.live()
        seen.append(live)
        if live == 1:
            assert world.texts(1) == old, "a reader of version 1 sees something else"

    def ended() -> bool:
        with world.ledger.read() as session:
            row = session.runs.get(RunId(run))
            return session.runs.active(SLUG) is None and row is not None and row.state not in RUN_ACTIVE

    bodies = {f"w{n}": worker for n in range(WORKERS)} | {"keeper": keeper}
    sim.run(bodies, ended, look)
    _judge(sim, old, seen)
    return sim


def _judge(sim: Simulation, old: list[str], seen: list[int]) -> None:
    world = sim.world
    with world.ledger.read() as session:
        runs = session.runs.list(SLUG, 10)
        moves = session.contexts.moves(SLUG)
    assert runs[0].state == "completed", (runs[0].state, runs[0].error)
    assert len(moves) == 2, "one flip a run"
    assert seen == sorted(seen), "the live version went back"
    fresh = World(files=dict(world.files))
    try:
        fresh.curate()
        assert world.texts() == fresh.texts(), "not what an undisturbed run gives"
        assert [r.logical_id for r in world.listed(world.live())] or not fresh.texts()
    finally:
        fresh.close()
    assert world.texts(1) == old, "what the kept version shows"
    world.clock.advance(10_000)
    publish.sweep(world.ports, SLUG)
    found = fsck(world.ports, SLUG, repair=False).found
    assert found == {}, found
    world.tree.touched.clear()
    assert world.curate().state == "noop", "something was left to do"
    world.close()
