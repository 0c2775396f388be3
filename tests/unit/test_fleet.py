"""Lanes: bounded messages, and a run that ends whatever becomes of them."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest
from world import SECTIONS, SLUG, HashEmbedder, World, text_of

from pipeline import curate, fleet, publish, starting
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.errors import Conflict, RejectedInput, Unavailable
from pipeline.limits import Limits
from pipeline.models import Price, Tier
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug, RunId, SourcePath
from pipeline.units import Token

LANES = 5


@pytest.fixture
def world() -> Iterator[World]:
    made = world_of()
    yield made
    made.close()


def world_of(count: int = 30) -> World:
    made = World(language=ExtractiveModel(), limits=Limits(batch_sources=2, lanes=LANES, lease_s=30.0, stall_s=3600.0))
    for n in range(count):
        made.files[SourcePath(f"p{n:02d}.md")] = text_of(f"word{n}", "every")
    return made


class Broker:
    """Holds messages as a broker does: in order, unless told otherwise."""

    def __init__(self) -> None:
        self.queue: deque[Token] = deque()
        self.live: list[ContextSlug] = []
        self.most = 0

    def send(self, token: Token) -> None:
        self.queue.append(token)
        self.most = max(self.most, len(self.queue))

    def finished(self, context: ContextSlug) -> None:
        self.live.append(context)

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def run_out(world: World, broker: Broker, owner: str = "w1") -> list[str]:
    """Deliver until nothing is left."""
    ports, cache, outcomes = world.ports_for(owner), DraftCache(), []
    while broker.queue:
        outcomes.append(fleet.step(ports, broker.queue.popleft(), broker, cache=cache))
    return outcomes


def state(world: World) -> str:
    with world.ledger.read() as session:
        return session.runs.list(SLUG, 1)[0].state


def submit(world: World, broker: Broker, **more: object) -> RunId:
    world.clock.advance(1)
    return fleet.submit(world.ports_for("cli"), world.request(SECTIONS, **more), broker).run


def test_a_run_of_lanes_gives_what_the_loop_gives(world: World) -> None:
    """Same logical ids, texts and places, whoever drives."""
    broker = Broker()
    submit(world, broker)
    outcomes = run_out(world, broker)
    assert state(world) == "completed"
    assert set(outcomes) <= {"done", "idle"}
    assert broker.live == [SLUG]
    other = world_of()
    try:
        other.curate()
        assert world.read(1) == other.read(1)
        assert [r.logical_id for r in world.listed(1)] == [r.logical_id for r in other.listed(1)]
    finally:
        other.close()


def test_messages_under_way_are_no_more_than_lanes(world: World) -> None:
    """However many units wait."""
    broker = Broker()
    submit(world, broker)
    run_out(world, broker)
    assert broker.most <= LANES


def test_a_message_that_comes_twice_or_late_does_nothing(world: World) -> None:
    broker = Broker()
    submit(world, broker)
    seen: list[Token] = []
    ports, cache = world.ports_for("w1"), DraftCache()
    outcomes = []
    while broker.queue:
        token = broker.queue.popleft()
        seen.append(token)
        outcomes += [fleet.step(ports, token, broker, cache=cache) for _ in range(2)]
    assert state(world) == "completed"
    assert outcomes.count("stale") >= len(seen) - 2, "each second delivery but the last ones, whose run has ended"
    assert {fleet.step(ports, token, broker, cache=cache) for token in seen} == {"ended"}
    assert not broker.queue


@pytest.mark.parametrize("seed", range(6))
def test_lost_messages_and_dead_workers_do_not_keep_a_run_from_its_end(seed: int) -> None:
    """Messages are lost, repeated and shuffled, workers die at their units; reconcile puts it right, each time."""
    world, chance = world_of(16), random.Random(seed)
    try:
        broker = Broker()
        submit(world, broker)
        flips = 0
        for _ in range(5000):
            if state(world) not in ("running", "sealed", "flipped"):
                break
            if not broker.queue or chance.random() < 0.05:
                world.clock.advance(40)
                fleet.reconcile(world.ports_for("beat"), broker)
                continue
            at = chance.randrange(len(broker.queue))
            broker.queue.rotate(-at)
            token = broker.queue.popleft()
            what = chance.random()
            if what < 0.15:
                continue  # lost
            if what < 0.3:
                broker.send(token)  # twice
            if what < 0.4:
                _die_at_it(world, token)
                continue
            fleet.step(world.ports_for(f"w{chance.randrange(3)}"), token, broker, cache=DraftCache())
            assert len(broker.queue) <= 4 * LANES
        assert state(world) == "completed"
        with world.ledger.read() as session:
            flips = len(session.contexts.moves(SLUG))
        assert flips == 1
        other = world_of(16)
        try:
            other.curate()
            assert world.read(world.live()) == other.read(1)
        finally:
            other.close()
    finally:
        world.close()


def _die_at_it(world: World, token: Token) -> None:
    """A worker takes the message and its unit, and is never heard of again."""
    with world.ledger.read() as session:
        run = session.runs.get(token.run)
    assert run is not None
    fleet._take(world.ports_for("dead"), run, token)


def test_a_worker_past_its_lease_changes_nothing_when_it_wakes(world: World) -> None:
    broker = Broker()
    run = submit(world, broker)
    fleet.step(world.ports_for("w1"), broker.queue.popleft(), broker, cache=DraftCache())  # the inventory
    token = broker.queue.popleft()
    with world.ledger.read() as session:
        row = session.runs.get(run)
    assert row is not None
    taken = fleet._take(world.ports_for("sleeper"), row, token)
    assert taken is not None
    world.clock.advance(40)
    fleet.reconcile(world.ports_for("beat"), broker)
    run_out(world, broker, "w2")
    assert state(world) == "completed"
    before = world.read(1)
    assert fleet._work(world.ports_for("sleeper"), taken, DraftCache(), lambda: False) == "lost"
    fleet._pass_on(world.ports_for("sleeper"), row, token, broker)
    assert (world.read(1), list(broker.queue)) == (before, [])


def test_submitting_the_same_again_joins_the_run_and_other_inputs_are_refused(world: World) -> None:
    broker = Broker()
    run = submit(world, broker)
    again = fleet.submit(world.ports_for("cli"), world.request(SECTIONS), broker)
    assert (again.run, again.joined) == (run, True)
    with pytest.raises(Conflict) as error:
        submit(world, broker, force=True)
    assert error.value.code == "run_active"
    run_out(world, broker)
    assert state(world) == "completed"


def test_the_embedded_loop_keeps_off_a_run_of_the_fleet_and_takes_it_over_once_it_is_silent(world: World) -> None:
    broker = Broker()
    submit(world, broker)
    with pytest.raises(Conflict) as error:
        world.curate()
    assert error.value.code == "run_active"
    world.clock.advance(40)
    assert world.curate().state == "completed"
    late = run_out(world, broker)
    assert set(late) == {"ended"}
    assert fleet.reconcile(world.ports_for("beat"), broker) == 0


def test_a_model_that_does_not_answer_lets_the_unit_rest(world: World) -> None:
    """It is tried again later and later, the reason stands in the ledger, and the run ends once the model is back."""
    model = world.embedders["hash"]
    assert isinstance(model, HashEmbedder)

    def refuse(_text: str) -> None:
        raise Unavailable("busy", "the model is busy", retry_after_ms=7000)

    model.fail = refuse
    broker = Broker()
    run = submit(world, broker)
    assert "busy" in run_out(world, broker)
    with world.ledger.read() as session:
        row, units = session.runs.get(run), session.units.open(run, 100)
    assert row is not None
    assert "the model is busy" in row.error
    resting = [u for u in units if u.not_before > world.clock.now()]
    assert resting
    assert all(6 <= u.not_before - world.clock.now() <= 60 for u in resting)
    assert fleet.reconcile(world.ports_for("beat"), broker) == 0, "nobody hurries a unit that rests"
    model.fail = lambda _text: None
    world.clock.advance(8)
    assert fleet.reconcile(world.ports_for("beat"), broker) > 0
    run_out(world, broker)
    assert state(world) == "completed"


def test_requeue_ends_every_rest(world: World) -> None:
    model = world.embedders["hash"]
    assert isinstance(model, HashEmbedder)

    def refuse(_text: str) -> None:
        raise Unavailable("busy", "the model is busy", retry_after_ms=60_000)

    model.fail = refuse
    broker = Broker()
    run = submit(world, broker)
    run_out(world, broker)
    model.fail = lambda _text: None
    assert fleet.requeue(world.ports_for("cli"), run, broker) > 0
    run_out(world, broker)
    assert state(world) == "completed"
    with pytest.raises(RejectedInput) as error:
        fleet.requeue(world.ports_for("cli"), run, broker)
    assert error.value.code == "run_ended"


def test_a_run_of_which_nothing_ends_any_more_is_given_up_with_its_reason(world: World) -> None:
    broker = Broker()
    submit(world, broker)
    broker.queue.clear()
    for _ in range(200):
        world.clock.advance(20)
        fleet.reconcile(world.ports_for("beat"), broker)
        if state(world) == "failed":
            break
    with world.ledger.read() as session:
        row = session.runs.list(SLUG, 1)[0]
    assert row.state == "failed"
    assert "no unit has ended for 3600 s: no worker took its units" in row.error
    assert len(broker.queue) <= LANES * 12, "an unanswered message is repeated ever more rarely"


def test_a_cancelled_run_stops_wherever_it_is(world: World) -> None:
    broker = Broker()
    run = submit(world, broker)
    for _ in range(4):
        fleet.step(world.ports_for("w1"), broker.queue.popleft(), broker, cache=DraftCache())
    curate.cancel(world.ports_for("cli"), run)
    assert set(run_out(world, broker)) == {"ended"}
    assert (state(world), world.live()) == ("abandoned", 0)


def test_a_worker_that_wants_to_end_hands_its_unit_back(world: World) -> None:
    broker = Broker()
    submit(world, broker)
    fleet.step(world.ports_for("w1"), broker.queue.popleft(), broker, cache=DraftCache())
    outcome = fleet.step(
        world.ports_for("w1"), broker.queue.popleft(), broker, cache=DraftCache(), stopping=lambda: True
    )
    assert outcome == "lost"
    with world.ledger.read() as session:
        assert all(u.state == "waiting" for u in session.units.open(session.runs.list(SLUG, 1)[0].id, 100))
    run_out(world, broker, "w2")
    assert state(world) == "completed"


def test_a_run_whose_base_was_moved_is_followed_by_a_fresh_one(world: World) -> None:
    broker = Broker()
    submit(world, broker)
    run_out(world, broker)
    world.clock.advance(60)
    world.put("new.md", "fresh")
    submit(world, broker)
    run_out(world, broker)
    world.clock.advance(60)
    world.put("newer.md", "fresher")
    first = submit(world, broker)
    while True:
        token = broker.queue.popleft()
        if token.stage == "seal":
            break
        fleet.step(world.ports_for("w1"), token, broker, cache=DraftCache())
    curate.rollback(world.ports_for("cli"), SLUG, 1)
    broker.send(token)
    run_out(world, broker)
    with world.ledger.read() as session:
        assert session.runs.get(first).state in ("abandoned", "retired")  # type: ignore[union-attr]
        live = publish.require_context(session, SLUG).live_version
    assert live > 2
    assert world.found("fresher") == ["newer.md"]


def test_spending_past_the_cap_parks_the_run_until_more_is_allowed(world: World) -> None:
    """Nobody tries again by himself, it isn't given up either, and a higher cap lets it go on."""
    model = world.embedders["hash"]
    assert isinstance(model, HashEmbedder)

    def refuse(_text: str) -> None:
        raise Unavailable("spent", "the run has spent what it may")

    model.fail = refuse
    broker = Broker()
    asking = replace(world.ports_for("cli"), prices={tier: Price(1.0, 1.0) for tier in get_args(Tier)})
    run = fleet.submit(asking, world.request(SECTIONS, max_spend=1.0), broker).run
    run_out(world, broker)
    for _ in range(100):
        world.clock.advance(60)
        fleet.reconcile(world.ports_for("beat"), broker)
        run_out(world, broker)
    assert state(world) == "running"
    model.fail = lambda _text: None
    again = fleet.submit(asking, world.request(SECTIONS, max_spend=2.0), broker)
    assert (again.run, again.joined) == (run, True)
    run_out(world, broker)
    with world.ledger.read() as session:
        row = session.runs.get(run)
    assert row is not None
    assert row.state == "completed"
    assert json.loads(row.input)["_options"]["max_spend"] == 2.0


@pytest.mark.parametrize("hours", [-6, 6])
def test_a_clock_that_jumps_keeps_nobody_waiting_for_long(world: World, hours: int) -> None:
    """Amid a run whose units are held, rest and are on their way; then the workers that had them die."""
    model = world.embedders["hash"]
    assert isinstance(model, HashEmbedder)

    def refuse(_text: str) -> None:
        raise Unavailable("busy", "the model is busy", retry_after_ms=50_000)

    broker, ports = Broker(), world.ports_for("w1")
    submit(world, broker)
    fleet.step(ports, broker.queue.popleft(), broker, cache=DraftCache())  # the inventory
    _die_at_it(world, broker.queue.popleft())
    model.fail = refuse
    while broker.queue:
        fleet.step(ports, broker.queue.popleft(), broker, cache=DraftCache())
    model.fail = lambda _text: None
    world.clock.advance(hours * 3600)
    waited = 0.0
    while state(world) == "running":
        world.clock.advance(world.limits.reconcile_s)
        waited += world.limits.reconcile_s
        fleet.reconcile(world.ports_for("beat"), broker)
        run_out(world, broker, "w2")
        assert waited < 2 * world.limits.lease_s, "a clock that was set back holds the run up"
    assert state(world) == "completed"
    assert len(world.texts()) == 60


def test_a_process_is_taken_over_from_though_its_clock_was_ahead(world: World) -> None:
    """On another machine, so that nobody can look whether it lives."""
    world.clock.advance(6 * 3600)
    started = starting.start(world.ports_for("elsewhere"), world.request(SECTIONS))
    world.clock.advance(-6 * 3600)
    run = world.curate()
    assert (run.id, run.state) == (started.run, "completed")
