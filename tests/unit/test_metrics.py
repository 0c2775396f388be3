"""Numbers for operators: what they say is what the ledger holds."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from world import SECTIONS, SLUG, World, text_of

from pipeline import fleet, metrics
from pipeline.limits import Limits
from pipeline.stages.job import DraftCache
from pipeline.types import ContextSlug, SourcePath
from pipeline.units import Token


class Sent:
    def __init__(self) -> None:
        self.queue: list[Token] = []

    def send(self, token: Token) -> None:
        self.queue.append(token)

    def finished(self, context: ContextSlug) -> None:
        pass

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


def values(world: World) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Through Prometheus' own parser, so that the text is what it reads."""
    found = {}
    for family in text_string_to_metric_families(metrics.text(metrics.collect(world.ports))):
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_a_run_of_the_fleet_in_numbers() -> None:
    world = World(limits=Limits(batch_sources=2, lanes=3))
    try:
        for n in range(8):
            world.files[SourcePath(f"p{n}.md")] = text_of(f"word{n}")
        sent = Sent()
        world.clock.advance(1)
        fleet.submit(world.ports_for("cli"), world.request(SECTIONS), sent)
        fleet.step(world.ports_for("w"), sent.queue.pop(0), sent, cache=DraftCache())  # the inventory
        world.clock.advance(7)
        fleet.step(world.ports_for("w"), sent.queue.pop(0), sent, cache=DraftCache())  # one batch parsed
        world.clock.advance(5)
        now = values(world)
        assert now["lamina_runs", (("state", "running"),)] == 1
        assert now["lamina_units", (("stage", "parse"), ("state", "waiting"))] == 3
        assert now["lamina_units", (("stage", "chunk"), ("state", "waiting"))] == 1
        assert now["lamina_lanes", (("state", "sent"),)] == 3
        assert now["lamina_queue_oldest_seconds", (("queue", "cpu"),)] == 12
        assert now["lamina_queue_oldest_seconds", (("queue", "embed"),)] == 0
        context = ("context", str(SLUG))
        assert now["lamina_run_seconds", (context,)] == 12
        assert now["lamina_run_unaccounted_seconds", (context,)] == 12, "a virtual clock stands still while units work"
    finally:
        world.close()


def test_overlapping_units_are_counted_once() -> None:
    assert metrics.covered([(0, 10), (2, 5), (8, 12), (20, 21)]) == 13
    assert metrics.covered([]) == 0


def test_labels_may_hold_anything() -> None:
    sample = metrics.Sample("lamina_runs", (("state", 'a"b\\c\nd'),), 1)
    [family] = [f for f in text_string_to_metric_families(metrics.text([sample])) if f.samples]
    assert family.samples[0].labels == {"state": 'a"b\\c\nd'}
