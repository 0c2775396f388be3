"""What a fleet's operators watch, as numbers out of the ledger: runs, units, messages, times, spending.

The ledger knows all of it, so that one process can answer for the whole fleet, and a worker that dies takes no count with
it. Names follow Prometheus' conventions (base units, `_total` for what only grows).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.artifacts.leg import cost
from pipeline.curate import BY_NAME, stages_of
from pipeline.ports import Ports
from pipeline.rows import RUN_ACTIVE, RunRow, SpendRow

RUNS_MAX = 200
"""Latest runs that are counted."""
UNITS_MAX = 20_000
"""Units of one run whose times are added up."""
RECENT_S = 86_400.0
"""Ended runs are told of for a day."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One number."""

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


HELP = {
    "lamina_runs": "Runs of the last day by state.",
    "lamina_units": "Units of active runs by stage and state (waiting, resting, leased, lost).",
    "lamina_queue_oldest_seconds": "Age of the oldest message that no worker has answered, by queue.",
    "lamina_lanes": "Lanes of active runs by state.",
    "lamina_run_seconds": "Real time that the latest run of a context has taken.",
    "lamina_run_stage_seconds": "Real time in which at least one unit of a stage was at work, of that run.",
    "lamina_run_unaccounted_seconds": "Real time of that run in which no unit was at work.",
    "lamina_fsck_found": "What the latest check of a context found and didn't heal, by context.",
    "lamina_index_erased_total": "Ids erased from the index by sweeps of the last day's runs: what no version shows.",
    "lamina_index_restamped_total": "Stamps that those runs set again because a late write had taken them back.",
    "lamina_publication_lag_seconds": "Age of the live version while its published copy is another one, by context.",
    "lamina_model_calls_total": "Calls to language models, of the runs of the last day.",
    "lamina_model_tokens_total": "Tokens of language models, of those runs, by kind.",
    "lamina_model_cost_total": "Money that they cost at the prices in the settings.",
}
"""Every name, and what it counts."""


def collect(ports: Ports) -> tuple[Sample, ...]:
    """Every number there is, as of now."""
    now = ports.clock.now()
    with ports.ledger.read() as session:
        runs = session.runs.list(None, RUNS_MAX)
    runs = tuple(r for r in runs if r.state in RUN_ACTIVE or now - r.ended_at < RECENT_S)
    states = Counter(run.state for run in runs)
    out = [Sample("lamina_runs", (("state", state),), n) for state, n in sorted(states.items())]
    active = [run for run in runs if run.state in RUN_ACTIVE]
    out += _units(ports, active, now)
    latest = {run.context: run for run in reversed(runs) if run.kind == "curate" and run.manifest}
    for run in latest.values():
        out += _times(ports, run, now)
    checked = {run.context: run for run in reversed(runs) if run.kind == "fsck"}
    for run in checked.values():
        notes = json.loads(run.notes)["fsck"]
        left = sum(notes["found"].values()) - sum(notes["healed"].values())
        out.append(Sample("lamina_fsck_found", (("context", run.context),), left))
    for key in ("erased", "restamped"):
        healed = sum(json.loads(run.notes or "{}").get(key, 0) for run in runs)
        out.append(Sample(f"lamina_index_{key}_total", (), healed))
    return (*out, *_lags(ports, now), *_spending(ports, runs))


def _lags(ports: Ports, now: float) -> list[Sample]:
    if ports.pair is None:
        return []
    out = []
    with ports.ledger.read() as session:
        rows = dict(session.publications.list(ports.pair.name))
        for context in session.contexts.list():
            live = session.versions.get(context.slug, context.live_version) if context.live_version else None
            if live is None or not ports.pair.serves(context.slug):
                continue
            row = rows.get(context.slug)
            shown = row is not None and row.version == live.number and not row.aim
            lag = 0.0 if shown else max(0.0, now - live.live_at)
            out.append(Sample("lamina_publication_lag_seconds", (("context", context.slug),), lag))
    return out


def _units(ports: Ports, active: Sequence[RunRow], now: float) -> list[Sample]:
    units: Counter[tuple[str, str]] = Counter()
    lanes: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    for run in active:
        with ports.ledger.read() as session:
            rows = session.units.open(run.id, UNITS_MAX)
            held = session.lanes.list(run.id)
        for unit in rows:
            if unit.state == "leased":
                state = "leased" if unit.lease_until > now else "lost"
            else:
                state = "resting" if unit.not_before > now else "waiting"
            units[unit.stage, state] += 1
        for lane in held:
            lanes[lane.state] += 1
            if lane.state == "sent" and lane.stage in BY_NAME:
                queue = BY_NAME[lane.stage].waits
                oldest[queue] = max(oldest.get(queue, 0.0), now - lane.since)
    queues = sorted({stage.waits for stage in BY_NAME.values()})
    return [
        *(Sample("lamina_units", (("stage", st), ("state", state)), n) for (st, state), n in sorted(units.items())),
        *(Sample("lamina_lanes", (("state", state),), n) for state, n in sorted(lanes.items())),
        *(Sample("lamina_queue_oldest_seconds", (("queue", queue),), oldest.get(queue, 0.0)) for queue in queues),
    ]


def _times(ports: Ports, run: RunRow, now: float) -> list[Sample]:
    """The time of a run by stage, and the rest that no unit accounts for: waiting for messages, for workers, for leases."""
    with ports.ledger.read() as session:
        spans = session.units.spans(run.id, UNITS_MAX)
    began = run.started_at or run.created_at
    whole = max(0.0, (run.ended_at or now) - began)
    label = ("context", run.context)
    names = [stage.name for stage in stages_of(run)]
    by_stage = {name: covered((begun, ended) for stage, begun, ended in spans if stage == name) for name in names}
    rest = max(0.0, whole - covered((begun, ended) for _, begun, ended in spans))
    return [
        Sample("lamina_run_seconds", (label,), whole),
        *(Sample("lamina_run_stage_seconds", (label, ("stage", name)), by_stage[name]) for name in names),
        Sample("lamina_run_unaccounted_seconds", (label,), rest),
    ]


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals, which come in order of their begin."""
    total, upto = 0.0, float("-inf")
    for begun, ended in spans:
        if ended > upto:
            total += ended - max(begun, upto)
            upto = ended
    return total


def _spending(ports: Ports, runs: Sequence[RunRow]) -> list[Sample]:
    rows: list[SpendRow] = []
    for run in runs:
        with ports.ledger.read() as session:
            rows += session.knowledge.spent(run.id)
    calls: Counter[str] = Counter()
    tokens: Counter[tuple[str, str]] = Counter()
    for row in rows:
        calls[row.model] += row.calls
        for kind, n in (("prompt", row.prompt), ("completion", row.completion), ("cache_read", row.cache_read)):
            tokens[row.model, kind] += n
    return [
        *(Sample("lamina_model_calls_total", (("model", model),), n) for model, n in sorted(calls.items())),
        *(
            Sample("lamina_model_tokens_total", (("model", model), ("kind", kind)), n)
            for (model, kind), n in sorted(tokens.items())
        ),
        Sample("lamina_model_cost_total", (), cost(tuple(rows), ports.prices)),
    ]


def text(samples: Iterable[Sample]) -> str:
    """The numbers in Prometheus' text format 0.0.4."""
    lines: list[str] = []
    named: dict[str, list[Sample]] = {name: [] for name in HELP}
    for sample in samples:
        named[sample.name].append(sample)
    for name, mine in named.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{_labels(sample)} {sample.value:.10g}" for sample in mine]
    return "\n".join(lines) + "\n"


def _labels(sample: Sample) -> str:
    if not sample.labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
