"""The fleet's driver: lanes, small tokens that pass from unit to unit. Holds no rules of curating; `curate` has those.

A run has a few lanes. A lane is at a unit (held by a worker), on its way to one (a message is sent), or idle. When a
unit ends, its lane and every idle one go where units wait, later stages first, so that a batch that was begun is finished
before another begins, and no more messages are under way than there are lanes. Messages are hints: one that is lost is
sent again by `reconcile`, one that comes twice or late finds its number taken and does nothing. All state is the ledger's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from pipeline import curate, publication, publish, starting
from pipeline.errors import Conflict, PipelineError, RejectedInput, Unavailable
from pipeline.fleet_ports import Dispatch
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.request import CurateRequest, input_of, request_of
from pipeline.rows import RUN_ACTIVE, RunRow
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug, RunId
from pipeline.units import LaneRow, Token, UnitClaim

FLEET = "fleet"
"""Who owns a run that workers share; single units belong to single workers."""

HEARTBEATS_PER_LEASE = 3
PATIENCE = 2
"""Periods of `reconcile` that a message may take before it is sent again; doubled for every time in a row."""
LANES_MAX = 4096
"""Of one run: each is a row of the ledger that every pass looks at."""
SMALL_BATCHES = 1
"""Batches of a run that somebody is probably waiting for: it needn't queue behind large ones."""
FOLLOW_MAX = 5
"""Runs in a row that may follow one submission."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a submission."""

    run: RunId
    context: ContextSlug
    joined: bool
    """Whether an unfinished run that does the same was there already."""
    told: bool = True
    """Whether workers were told; else they learn of it once the broker is back."""


def submit(ports: Ports, request: CurateRequest, dispatch: Dispatch) -> Submitted:
    """Begin a run that the fleet does, or find the one that does the same already.

    Raises:
        RejectedInput: see `starting.start`.
        Conflict: code `run_active`: another run holds the context.
    """
    with ports.ledger.read() as session:
        held = session.runs.active(request.context)
    ours = held is not None and held.owner == FLEET and held.held(ports.clock.now(), ports.limits.far_s)
    if held is not None and ours and starting.does_the_same(ports, held, request):
        _allow(ports, held, request)
        reconcile_run(ports, held, dispatch)
        return Submitted(held.id, held.context, joined=True)
    if ours:
        assert held is not None
        raise Conflict(
            "run_active",
            f"run {held.id} of {held.context} is at work in the fleet",
            remedy=f"wait for it (lamina explain {held.id}), or stop it with: lamina cancel {held.id}",
        )
    return _enter(ports, starting.start(replace(ports, owner=FLEET), request), dispatch)


def _allow(ports: Ports, held: RunRow, request: CurateRequest) -> None:
    """What may be spent from here on; what was parked for that is tried again."""
    now = request_of(held)
    if now.max_spend == request.max_spend:
        return
    with ports.ledger.transaction("lane.allow", held.context) as session:
        session.runs.set_input(held.id, input_of(replace(now, max_spend=request.max_spend)))
        session.units.wake(held.id, ports.clock.now())


def _enter(ports: Ports, started: starting.Started, dispatch: Dispatch) -> Submitted:
    with ports.ledger.transaction("lane.create", started.context) as session:
        session.lanes.create(started.run, min(ports.limits.lanes, LANES_MAX))
        tokens = _assign(ports, session, started.run)
    sent = _send(dispatch, tokens)
    return Submitted(started.run, started.context, joined=False, told=sent == len(tokens))


def step(
    ports: Ports, token: Token, dispatch: Dispatch, *, cache: DraftCache, stopping: Callable[[], bool] = lambda: False
) -> str:
    """What a message makes a worker do: one unit of the token's stage, whichever waits. What came of it, for logs.

    Args:
        ports: the deployment; its `owner` names this process.
        token: from the message.
        dispatch: sends on.
        cache: this process's, from unit to unit.
        stopping: whether the worker wants to end: the unit is then handed back at the next occasion.
    """
    with ports.ledger.read() as session:
        run = session.runs.get(token.run)
    if run is None or run.state not in RUN_ACTIVE or run.owner != FLEET:
        return "ended"
    taken = _take(ports, run, token)
    if taken is None:
        return "stale"
    claim, outcome = taken.claim, "idle"
    try:
        if claim is not None:
            outcome = _work(ports, taken, cache, stopping)
    finally:
        _pass_on(ports, run, token, dispatch)
    return outcome


@dataclass(slots=True)
class _Taken:
    """A lane at its unit."""

    run: RunRow
    token: Token
    claim: UnitClaim | None
    lost: threading.Event = field(default_factory=threading.Event)


def _take(ports: Ports, run: RunRow, token: Token) -> _Taken | None:
    now = ports.clock.now()
    until = now + ports.limits.lease_s
    with ports.ledger.transaction("lane.take", run.context) as session:
        if not session.runs.renew(run.id, run.fence, until, now):
            return None  # it has ended, or was taken over, since it was read
        if not session.lanes.take(run.id, token.lane, token.seq, owner=ports.owner, now=now, until=until):
            return None
        claim = session.units.claim(run.id, run.fence, (token.stage,), owner=ports.owner, until=until, now=now)
    return _Taken(run, token, claim)


def _work(ports: Ports, taken: _Taken, cache: DraftCache, stopping: Callable[[], bool]) -> str:
    claim = taken.claim
    assert claim is not None
    try:
        if curate.isolated(ports, claim):
            return "isolated"
        with _beating(ports, taken):
            curate.run_claim(
                ports,
                claim,
                cache,
                report=lambda _amount: None,
                lost=lambda: taken.lost.is_set() or stopping(),
                rests=True,
            )
    except Conflict as error:
        if error.code != "stale_fence":
            raise
        if stopping():
            curate.put_down(ports, claim)
        return "lost"
    except Unavailable as error:
        if error.code == "unit_stuck":
            curate.give_up(ports, claim, error)
        return error.code
    except PipelineError as error:
        return error.code  # the ledger says so by now
    except Exception as error:
        curate.stumble(ports, claim, error, rests=True)
        raise
    return "done"


@contextmanager
def _beating(ports: Ports, taken: _Taken) -> Iterator[None]:
    """Renew the run, the unit and the lane beside the work (DESIGN §4, invariant 10)."""
    over = threading.Event()
    thread = threading.Thread(target=_beat, args=(ports, taken, over), name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _beat(ports: Ports, taken: _Taken, over: threading.Event) -> None:
    limits, claim, token = ports.limits, taken.claim, taken.token
    assert claim is not None
    end = ports.clock.now() + limits.unit_limit_s
    while not over.wait(limits.lease_s / HEARTBEATS_PER_LEASE):
        now = ports.clock.now()
        if now > end:
            return  # a hung body must not hold its unit for ever
        try:
            with ports.ledger.transaction("lane.beat", claim.context) as session:
                session.runs.renew(claim.run, claim.run_fence, now + limits.lease_s, now)
                session.lanes.renew(claim.run, token.lane, token.seq, now + limits.lease_s)
                held = session.units.renew(claim, now + limits.lease_s)
        except PipelineError:
            continue  # the ledger is away for a moment; the next beat comes well before the lease ends
        if not held:
            taken.lost.set()
            return


def _pass_on(ports: Ports, run: RunRow, token: Token, dispatch: Dispatch) -> None:
    """The lane's unit is over: it and every idle lane go where units wait; or the run has ended."""
    with ports.ledger.transaction("lane.pass", run.context) as session:
        if session.lanes.renew(run.id, token.lane, token.seq, 0.0):  # still this worker's
            session.lanes.rest(run.id, token.lane)
        now = session.runs.get(run.id)
        active = now is not None and now.state in RUN_ACTIVE and now.owner == FLEET
        tokens = _assign(ports, session, run.id) if active else ()
    _send(dispatch, tokens)
    if now is not None and not active:
        ports.tracer.run(now)
        _follow(ports, now, dispatch)
        if now.state == "completed":
            with suppress(Unavailable):
                dispatch.finished(now.context)
                if now.context in publication.behind(ports):
                    dispatch.publish(now.context)


def _follow(ports: Ports, ended: RunRow, dispatch: Dispatch) -> None:
    """Curate again where the run that ended could not say what the sources are now (see `loop.curate_and_follow`)."""
    moved = ended.state == "retired" or (ended.state == "abandoned" and ended.error == publish.MOVED)
    asked = request_of(ended)
    if not (moved or (asked.resumed and ended.state in ("completed", "noop"))) or asked.follows >= FOLLOW_MAX:
        return
    try:
        started = starting.start_again(replace(ports, owner=FLEET), ended)
    except PipelineError:
        return  # somebody else has begun one, or the context is gone
    _enter(ports, started, dispatch)


def _assign(ports: Ports, session: Session, run: RunId) -> tuple[Token, ...]:
    """Send idle lanes where units wait and nobody is on the way to them."""
    lanes = session.lanes.list(run)
    idle = [lane.lane for lane in lanes if lane.state == "idle"]
    if not idle:
        return ()
    now = ports.clock.now()
    waiting = session.units.waiting(run, curate.CLAIM_ORDER, now, len(lanes))
    reserved = session.work.highest_batch(run) <= SMALL_BATCHES
    for lane in lanes:
        if lane.state == "sent" and lane.stage in waiting:
            waiting[lane.stage] -= 1
    wanted = [stage for stage in curate.CLAIM_ORDER for _ in range(waiting.get(stage, 0))]
    return tuple(
        Token(
            stage,
            run,
            lane,
            session.lanes.send(run, lane, stage, now=now, until=now + PATIENCE * ports.limits.reconcile_s),
            reserved,
        )
        for lane, stage in zip(idle, wanted, strict=False)
    )


def _send(dispatch: Dispatch, tokens: Sequence[Token]) -> int:
    """How many went. Messages are hints: where the broker is away, `reconcile` sends them once it is back."""
    sent = 0
    with suppress(Unavailable):
        for token in tokens:
            dispatch.send(token)
            sent += 1
    return sent


def reconcile(ports: Ports, dispatch: Dispatch) -> int:
    """Put right what messages and workers have lost, for every run of the fleet. Tokens sent.

    To be called every few seconds, by anybody, and when a worker starts; two at once do no harm.
    """
    with ports.ledger.read() as session:
        runs = session.runs.at_work(FLEET)
    with suppress(Unavailable):
        for context in publication.behind(ports):
            dispatch.publish(context)
    return sum(reconcile_run(ports, run, dispatch) for run in runs)


def reconcile_run(ports: Ports, run: RunRow, dispatch: Dispatch) -> int:
    """The same for one run."""
    now = ports.clock.now()
    with ports.ledger.transaction("lane.reconcile", run.context) as session:
        if not session.runs.renew(run.id, run.fence, now + ports.limits.lease_s, now):
            return 0
        if _stalled(ports, session, run, now):
            return 0
        session.lanes.create(run.id, min(ports.limits.lanes, LANES_MAX))
        starting.recall(ports, session, run.id, now)
        again = [token for lane in session.lanes.list(run.id) if (token := _overdue(ports, session, run, lane))]
        tokens = (*again, *_assign(ports, session, run.id))
    return _send(dispatch, tokens)


def _overdue(ports: Ports, session: Session, run: RunRow, lane: LaneRow) -> Token | None:
    """A message that wasn't answered is sent again; a worker that fell silent loses its lane."""
    now = ports.clock.now()
    if lane.state == "idle" or now < lane.until <= now + ports.limits.far_s:
        return None
    if lane.state == "held":
        session.lanes.rest(run.id, lane.lane)
        return None
    patience = min(ports.limits.far_s, PATIENCE * ports.limits.reconcile_s * 2.0 ** (lane.silent + 1))
    session.lanes.resend(run.id, lane.lane, until=now + patience)
    reserved = session.work.highest_batch(run.id) <= SMALL_BATCHES
    return Token(lane.stage, run.id, lane.lane, lane.seq, reserved)


def _stalled(ports: Ports, session: Session, run: RunRow, now: float) -> bool:
    """Give up a run of which no unit has ended for too long, with the reason that stands there last."""
    if now - run.active_at > ports.limits.stall_s:
        # Nobody was there to work, or the clock was set ahead: the wait begins now.
        session.units.release_all(run.id, None)
        session.units.wake(run.id, now)
        return False
    last = max(session.units.moved_at(run.id, now), run.started_at)
    if run.state != "running" or now - last < ports.limits.stall_s:
        return False
    resting = session.units.open(run.id, 1)
    if resting and resting[0].not_before > now + ports.limits.stall_s:
        return False  # parked on purpose, until somebody allows it more
    reason = run.error or "no worker took its units"
    publish.abandon(
        session, run, now, state="failed", error=f"no unit has ended for {ports.limits.stall_s:g} s: {reason}"
    )
    return True


def requeue(ports: Ports, run_id: RunId, dispatch: Dispatch) -> int:
    """Let everything of a run be tried at once: rests end, lanes that wait are sent again. Tokens sent.

    Raises:
        RejectedInput: there is no such run, it has ended, or it isn't the fleet's.
        Unavailable: the broker didn't take all of them; what it didn't is sent once it is back.
    """
    with ports.ledger.read() as session:
        run = publish.require_run(session, run_id)
    if run.state not in RUN_ACTIVE:
        raise RejectedInput("run_ended", f"run {run_id} has ended already: {run.state}", remedy="nothing to do")
    if run.owner != FLEET:
        raise RejectedInput(
            "not_the_fleets",
            f"run {run_id} belongs to {run.owner}",
            remedy=f"go on with it: lamina curate {run.context}",
        )
    with ports.ledger.transaction("lane.requeue", run.context) as session:
        session.units.wake(run.id, ports.clock.now())
        for lane in session.lanes.list(run.id):
            if lane.state == "sent" or lane.until < ports.clock.now():
                session.lanes.rest(run.id, lane.lane)
        tokens = _assign(ports, session, run.id)
    sent = _send(dispatch, tokens)
    if sent < len(tokens):
        raise Unavailable(
            "broker_away",
            f"{sent} of {len(tokens)} messages of run {run_id} were sent, then the broker did not answer",
            remedy="is it running, and is its password right? lamina doctor says; the run goes on once it is back",
        )
    return sent
