"""DESIGN §3 to §5 as a state machine over the real ledger, index and flows; oracle: invariant 2."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from versions import Versions
from world import sqlite_ledger, text_of

PATHS = ("p.md", "q.md", "r.md")
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "40"))
STEPS = int(os.environ.get("MODEL_STEPS", "25"))

words = st.lists(st.sampled_from(("alder", "birch", "cedar")), min_size=1, max_size=3)
manifests = st.sampled_from(("sections", "sections", "sections", "whole"))


class VersionRules(RuleBasedStateMachine):
    artifacts = False
    open_ledger = staticmethod(sqlite_ledger)

    def __init__(self) -> None:
        super().__init__()
        self.v = Versions(artifacts=self.artifacts, open_ledger=self.open_ledger)
        self.old: list[dict[str, bytes]] = []

    def _remember(self) -> None:
        self.old.append(dict(self.v.sources))

    @rule(path=st.sampled_from(PATHS), text=words)
    def edit(self, path: str, text: list[str]) -> None:
        self._remember()
        self.v.sources[path] = text_of(*text)

    @rule(path=st.sampled_from(PATHS))
    def refuse(self, path: str) -> None:
        self._remember()
        self.v.sources[path] = b"# REFUSE\n\nthis can't be read\n"

    @precondition(lambda self: self.v.sources)
    @rule(i=st.integers(0, 9))
    def delete(self, i: int) -> None:
        self._remember()
        self.v.sources.pop(sorted(self.v.sources)[i % len(self.v.sources)])

    @precondition(lambda self: self.v.sources)
    @rule(i=st.integers(0, 9), to=st.sampled_from(PATHS))
    def rename(self, i: int, to: str) -> None:
        self._remember()
        self.v.sources[to] = self.v.sources.pop(sorted(self.v.sources)[i % len(self.v.sources)])

    @precondition(lambda self: self.old)
    @rule(i=st.integers(0, 9))
    def revert(self, i: int) -> None:
        self.v.sources = dict(self.old[-1 - i % len(self.old)])

    @precondition(lambda self: self.v.started is None)
    @rule(manifest=manifests, force=st.sampled_from((False, False, False, True)), other=st.booleans())
    def claim(self, manifest: str, force: bool, other: bool) -> None:
        self.v.claim(manifest, force=force, embedder="other" if force and other else "")

    @rule(edits=st.lists(st.tuples(st.sampled_from(PATHS), words), min_size=1, max_size=2), then_reclaim=st.booleans())
    def curate(self, edits: list[tuple[str, list[str]]], then_reclaim: bool) -> None:
        for path, text in edits:
            self.edit(path, text)
            self.v.curate()
        if then_reclaim:
            self.v.reclaim()

    @precondition(lambda self: self.v.sources)
    @rule(i=st.integers(0, 9), models=st.lists(st.sampled_from(("hash", "other")), min_size=1, max_size=3))
    def change_models(self, i: int, models: list[str]) -> None:
        for model in models:
            self.v.curate(force=True, embedder=model)
            if self.v.targets():
                self.v.move(self.v.targets()[i % len(self.v.targets())])

    @rule(n=st.integers(1, 6))
    def step(self, n: int) -> None:
        self.v.step(n)

    @rule(until=st.sampled_from(("", "screen", "upsert", "verify", "seal", "flip")))
    def finish(self, until: str) -> None:
        self.v.finish(until)

    @precondition(lambda self: self.v.started is not None)
    @rule(at_call=st.integers(1, 4), lands=st.booleans())
    def crash(self, at_call: int, lands: bool) -> None:
        self.v.crash(at_call, lands=lands)

    @precondition(lambda self: self.v.started is not None)
    @rule()
    def die_between_units(self) -> None:
        self.v.take_over()

    @precondition(lambda self: self.v.started is not None)
    @rule()
    def cancel(self) -> None:
        self.v.cancel()

    @precondition(lambda self: self.v.targets())
    @rule(i=st.integers(0, 9))
    def move_pointer(self, i: int) -> None:
        targets = self.v.targets()
        self.v.move(targets[i % len(targets)])

    @precondition(lambda self: self.v.targets())
    @rule(
        i=st.integers(0, 9),
        path=st.sampled_from(PATHS),
        text=words,
        until=st.sampled_from(("upsert", "verify", "seal")),
    )
    def move_pointer_under_a_run(self, i: int, path: str, text: list[str], until: str) -> None:
        self.v.finish()
        self.edit(path, text)
        self.v.claim()
        self.v.finish(until)
        self.move_pointer(i)

    @precondition(lambda self: self.v.world.live())
    @rule(seconds=st.sampled_from((5, 60, 600)))
    def pin(self, seconds: int) -> None:
        self.v.pin(seconds)

    @rule(seconds=st.sampled_from((1, 30, 300)))
    def tick(self, seconds: int) -> None:
        if self.v.started is None:
            self.v.world.clock.advance(seconds)

    @rule()
    def reclaim(self) -> None:
        self.v.reclaim()

    @rule(
        path=st.sampled_from(PATHS),
        text=words,
        do=st.sampled_from(("cancel", "cancel", "finish", "move")),
        until=st.sampled_from(("upsert", "verify", "verify")),
    )
    def interrupt_a_run(self, path: str, text: list[str], do: str, until: str) -> None:
        self.v.finish()
        self.edit(path, text)
        self.v.claim()
        self.v.finish(until)
        self.v.interrupt(do)
        self.v.step(2)
        self.v.index.before_fetch = lambda: None

    @rule(path=st.sampled_from(PATHS), edits=st.lists(words, min_size=1, max_size=3))
    def query_while_curating(self, path: str, edits: list[list[str]]) -> None:
        def curates() -> None:
            for text in edits:
                self.edit(path, text)
                self.v.curate()

        self.v.query(curates)

    @rule(i=st.lists(st.integers(0, 400), min_size=1, max_size=6))
    def late_writes(self, i: list[int]) -> None:
        for k in i:
            self.v.index.late(k, self.v.world.limits.late_write_s)

    @rule()
    def sweep(self) -> None:
        self.v.sweep()

    @invariant()
    def holds(self) -> None:
        self.v.check()

    def teardown(self) -> None:
        try:
            self.v.storm()
            self.v.finish()
            self.v.sweep()
            self.v.check()
            if self.v.sources and self.v.world.live():
                self.v.compare_with_scratch()
        finally:
            self.v.close()


class KnowledgeRules(VersionRules):
    """The same rules with both legs."""

    artifacts = True


SHRINK = bool(os.environ.get("MODEL_SHRINK"))
"""Shrinking a find can take minutes; it is for whoever hunts it."""


def run_machine(
    examples: int, steps: int = STEPS, *, shrink: bool = SHRINK, rules: type[VersionRules] = VersionRules
) -> None:
    """Run the state machine; raises what it finds."""
    run_state_machine_as_test(
        rules,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
