"""replay: a past run once more, from its recordings, with nothing of the world touched or asked; or with one thing changed.

By DESIGN §4, invariant 2, a version is a function of its sources, manifests, recipe and recorded answers, however many runs
built it. So the run is replayed from scratch: the inventory of its version, with the manifest and recipe that each source
was last planned under, goes through the very stages of a curate into an empty scratch deployment, of one context under the
same name, so that every id comes out the same. Parsed texts, vectors and answers come from the memo; what is quickly
computed (chunks, screening, keyword terms, reduction, files, the database) is computed anew. Then both are compared
(`replay_diff`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from manifests import Manifest, manifest_from
from pipeline import contexts, loop, publish, recording, replay_diff, starting
from pipeline.errors import Conflict, RejectedInput
from pipeline.ports import DenseEmbedder, Ports
from pipeline.recipe import Recipe, apply_settings, named_embedder, recipe_from_json, serving
from pipeline.recording import ANSWER, DENSE, PARSE
from pipeline.request import CurateRequest, request_of
from pipeline.rows import RunRow, SourceRow, VersionRow
from pipeline.stages.job import pipeline_fingerprint
from pipeline.types import RunId

Json = dict[str, Any]

FROM = {
    "parse": frozenset({DENSE, ANSWER}),
    "chunk": frozenset({PARSE, DENSE, ANSWER}),
    "embed_dense": frozenset({PARSE, ANSWER}),
    "extract": frozenset({PARSE, DENSE}),
    "reduce": frozenset({PARSE, DENSE, ANSWER}),
}
"""Stage to begin at, and the recordings that are taken. What lies between and is quickly done is always done anew."""
HELD_AT_ONCE = 32
"""Parsed documents that are looked for at a time."""
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be replayed, and what is to be otherwise."""

    run: RunId
    stage: str = "chunk"
    """A key of `FROM`."""
    sources: str = ""
    """Glob or folder; empty: all of them."""
    manifest: Manifest | None = None
    """Another manifest than the run's."""
    live: bool = False
    """Whether providers may be asked for what isn't recorded, and paid."""
    publish: bool = False
    """Whether the outcome is to go live in the context itself."""
    questions: tuple[str, ...] = ()
    """Asked of both, and the answers compared."""


@dataclass(frozen=True, slots=True)
class _Past:
    """The run that is replayed."""

    run: RunRow
    version: VersionRow
    manifest: Manifest
    recipe: Recipe
    changed: bool
    """Whether the manifest is another than the run's."""


@dataclass(frozen=True, slots=True)
class _Epoch:
    """Sources that were last planned under one manifest and recipe."""

    manifest: Manifest
    recipe: Recipe
    wanted: Callable[[SourceRow], bool]
    """Of this epoch or an earlier one."""
    aggregates: bool
    """Whether it ends with what the whole corpus decides about: only where the corpus is whole."""


def replay(ports: Ports, scratch: Ports, ask: Ask, workers: int, meter: loop.Meter | None = None) -> Json:
    """Replay a run into a scratch deployment, and compare.

    Args:
        ports: the deployment that has run it. Nothing of it is changed unless `ask.publish`; what is paid for under
            `ask.live` is recorded in its memo.
        scratch: an empty deployment.
        ask: what to replay.
        workers: threads; 0: one a processor.
        meter: counts work for a display.

    Returns:
        the report: see `replay_diff.compare`.

    Raises:
        RejectedInput: there is no such run, or it can't be replayed.
        Conflict: code `not_recorded`: what it needs isn't kept; the message names it.
    """
    past = _past(ports, ask)
    _require_recorded(ports, past, ask)
    contexts.open_context(scratch, past.run.context, kind="staged", root="")
    _copy_decisions(ports, scratch, past)
    stand = _Stand(ports, scratch, past, ask)
    for epoch in _epochs(ports, past, ask):
        stand.run(epoch, max(1, workers or ports.processors), meter)
    report = {
        "run": past.run.id,
        "context": past.run.context,
        "version": past.run.number,
        "from": ask.stage,
        "sources": ask.sources or None,
        "changed": past.changed or ask.live or ask.stage == "embed_dense",
        "embedded_texts": stand.embedder.texts,
        "model_calls": stand.model.calls if stand.model else 0,
        **replay_diff.compare(ports, stand.asked(), past.run, ask.sources, ask.questions),
    }
    report["published"] = _publish(ports, past, ask, workers, meter) if ask.publish else None
    return report


# ---- what is there to replay


def _past(ports: Ports, ask: Ask) -> _Past:
    if ask.stage not in FROM:
        raise RejectedInput(
            "bad_stage", f"a replay can't begin at {ask.stage!r}", remedy=f"use one of {', '.join(FROM)}"
        )
    if ask.publish and ask.sources:
        raise RejectedInput(
            "part_published",
            "--source replays a part of the sources, and publishing it would take the others out of the context",
            remedy="drop one of --source and --publish",
        )
    with ports.ledger.read() as session:
        run = publish.require_run(session, ask.run)
        version = session.versions.get(run.context, run.number) if run.number else None
        purged = run.number in session.purges.holding(run.context)
        first = recording.first_recorded(session, run.context, ports.limits.keep_runs)
    if version is None or version.run != run.id or not version.live_at:
        live = f", and changed nothing over version {run.base_version}" if run.state == "noop" else ""
        raise RejectedInput(
            "nothing_to_replay",
            f"run {run.id} of {run.context} ({run.kind}, {run.state}) made no version live{live}",
            remedy=f"replay a run that did: lamina runs {run.context}",
        )
    if purged:
        raise Conflict(
            "not_recorded",
            f"version {run.number} of {run.context} held sources that were purged since, and is recorded no more",
            remedy=f"replay a later run: lamina runs {run.context}",
        )
    if run.number < first:
        raise Conflict(
            "not_recorded",
            f"version {run.number} of {run.context} is no longer recorded, {first} is the first that is",
            remedy="raise keep_runs to record more runs from now on",
        )
    recipe = recipe_from_json(run.recipe)
    if ask.manifest is None:
        return _Past(run, version, manifest_from(json.loads(run.manifest)), recipe, changed=False)
    model = ask.manifest.curate.chunks.embedding_model
    if model is not None:
        recipe = apply_settings(recipe, {"embedder": named_embedder(model, ports.embedders)}, ports.embedders)
    return _Past(run, version, ask.manifest, recipe, changed=True)


def _epochs(ports: Ports, past: _Past, ask: Ask) -> Iterator[_Epoch]:
    """Manifests and recipes in the order in which they first ruled, each with all sources up to it; the run's own last.

    A source whose pipeline none of them is (a stage has a new version since) goes with the last.
    """

    def meant(row: SourceRow) -> bool:
        return recording.matches(row.path, ask.sources)

    if not past.changed:
        own = pipeline_fingerprint(past.manifest, past.recipe)
        with ports.ledger.read() as session:
            versions = sorted(session.versions.list(past.run.context), key=lambda version: version.number)
        earlier: dict[str, VersionRow] = {}
        for version in versions:
            if version.number < past.run.number and version.live_at:
                manifest, recipe = manifest_from(json.loads(version.manifest)), recipe_from_json(version.recipe)
                earlier.setdefault(pipeline_fingerprint(manifest, recipe), version)
        earlier.pop(own, None)
        ruled: frozenset[str] = frozenset()
        for fingerprint, version in earlier.items():
            only = frozenset({fingerprint})
            if not any(recording.inventory(ports, past.run.context, past.run.number, _by(only, meant))):
                continue
            ruled |= only
            yield _Epoch(
                manifest_from(json.loads(version.manifest)), recipe_from_json(version.recipe), _by(ruled, meant), False
            )
    yield _Epoch(past.manifest, past.recipe, meant, not ask.sources)


def _by(fingerprints: frozenset[str], meant: Callable[[SourceRow], bool]) -> Callable[[SourceRow], bool]:
    return lambda row: row.fingerprint in fingerprints and meant(row)


def _require_recorded(ports: Ports, past: _Past, ask: Ask) -> None:
    """Refuse before any work where sources are neither kept as text nor as bytes."""
    slug, hosted = past.run.context, "llamaparse" in past.recipe.parser
    if ask.stage == "parse" and hosted and not ask.live:
        raise Conflict(
            "not_recorded",
            f"{slug} is parsed by a service, and --from parse would send its sources there again",
            remedy="add --live; or replay from a later stage, with the texts that the service gave",
        )
    lost: list[str] = []
    pages = recording.inventory(ports, slug, past.run.number, lambda row: recording.matches(row.path, ask.sources))
    total = 0
    for page in pages:
        total += len(page)
        lost += _lost(ports, past, ask, page)
    if lost:
        what = "the bytes" if ask.stage == "parse" else "the parsed text"
        more = f" and {len(lost) - NAMED_MAX} more" if len(lost) > NAMED_MAX else ""
        raise Conflict(
            "not_recorded",
            f"{what} of {len(lost)} of {total} sources stand in no recording: {', '.join(lost[:NAMED_MAX])}{more}",
            remedy="set retain_sources = 1 for runs to come, or replay from a later stage"
            if ask.stage == "parse"
            else "raise memo_bytes for runs to come; or add --from parse, where retain_sources was on for the run",
        )
    if not total:
        raise RejectedInput(
            "nothing_to_replay",
            f"version {past.run.number} of {slug} holds no source that matches {ask.sources or 'anything'}",
            remedy=f"see: lamina sources {slug}",
        )


def _lost(ports: Ports, past: _Past, ask: Ask, page: Sequence[SourceRow]) -> list[str]:
    if ask.stage == "parse":
        store = ports.objects(past.run.context)
        return [row.path for row in page if not any(store.list(recording.retained_key(row.hash)))]
    out: list[str] = []
    for at in range(0, len(page), HELD_AT_ONCE):
        keys = {
            row.path: recording.parse_key(row.path, row.hash, past.recipe.parser)
            for row in page[at : at + HELD_AT_ONCE]
        }
        held = ports.memo.get_many(sorted(set(keys.values())))
        out += [path for path, key in keys.items() if key not in held]
    return out


def _copy_decisions(ports: Ports, scratch: Ports, past: _Past) -> None:
    """Human decisions about merges that held in the version."""
    with ports.ledger.read() as session:
        held = [d for d in session.knowledge.decisions(past.run.context) if 0 < d.applied <= past.run.number]
    with scratch.ledger.transaction("replay.decisions", past.run.context) as session:
        for decision in held:
            session.knowledge.decide(past.run.context, replace(decision, applied=0, withdrawn=False))


# ---- the replay itself


class _Stand:
    """The scratch deployment with recordings in the place of the world."""

    def __init__(self, ports: Ports, scratch: Ports, past: _Past, ask: Ask) -> None:
        self.ports, self.scratch, self.past, self.ask = ports, scratch, past, ask
        real = serving(ports.embedders, past.recipe.model)
        local = real is not None and bool(real.identity.sha256)
        may = ask.live or (local and (ask.stage == "embed_dense" or past.changed))
        self.embedder = recording.RecordedEmbedder(past.recipe.model, real if may else None)
        self.model = recording.RecordedModel(ports.language, live=ask.live) if ports.language else None
        self.memo = recording.RecordedMemo(
            ports.memo, scratch.memo, FROM[ask.stage], frozenset({DENSE, ANSWER}) if ask.live else frozenset()
        )

    def run(self, epoch: _Epoch, workers: int, meter: loop.Meter | None) -> None:
        """Curate the sources up to an epoch.

        Raises:
            Conflict: code `not_recorded`; or `replay_failed`: the run came to no version.
        """
        past, ask = self.past, self.ask
        tree = recording.RecordedTree(self.ports, past.run.context, past.run.number, epoch.wanted, ask.stage == "parse")
        others: dict[str, DenseEmbedder] = {}
        if epoch.recipe.model != past.recipe.model:
            others[epoch.recipe.embedder] = recording.RecordedEmbedder(epoch.recipe.model, None)
        world = replace(
            self.scratch,
            clock=self.ports.clock,
            memo=self.memo,
            parser=recording.RecordedParser(epoch.recipe.parser, self.ports.parser if ask.stage == "parse" else None),
            embedders={past.recipe.embedder: self.embedder, **others},
            language=self.model,
            sources=lambda _context: tree,
            recorded=tree.recorded,
        )
        asked = request(past.run)
        limited = asked.skip_corpus_aggregation or not epoch.aggregates
        asked = replace(asked, skip_corpus_aggregation=limited)
        started = starting.start_with(world, asked, epoch.manifest, epoch.recipe)
        run = loop.drive(world, started, workers, meter)
        if run.state not in ("completed", "noop"):
            raise Conflict(
                "replay_failed", f"the replay of {past.run.id} ended as {run.state}: {run.error}", remedy="report it"
            )

    def asked(self) -> Ports:
        """The scratch deployment, for questions: they are embedded and reranked as the context's own are."""
        return replace(self.scratch, embedders=self.ports.embedders, reranker=self.ports.reranker)


def request(run: RunRow) -> CurateRequest:
    """What the run was asked for, as a replay asks for it."""
    asked = replace(request_of(run), allow_empty=True, buried_only=False, max_spend=None, resumed=False, follows=0)
    answers = run.id if asked.artifacts_reset else ""
    return replace(asked, rehash=False, trigger="replay", answers_of=answers)


# ---- publishing


def _publish(ports: Ports, past: _Past, ask: Ask, workers: int, meter: loop.Meter | None) -> Json:
    """Make the outcome live in the context: a run over the recorded sources, which finds everything in the memo."""
    tree = recording.RecordedTree(
        ports, past.run.context, past.run.number, lambda _row: True, bytes_too=ask.stage == "parse"
    )
    world = replace(ports, sources=lambda _context: tree, recorded=tree.recorded)
    asked = replace(request(past.run), force=True)
    with ports.ledger.read() as session:
        active = session.runs.active(past.run.context)
        live = publish.require_context(session, past.run.context).live_version
    if active is not None:
        raise Conflict(
            "run_active", f"run {active.id} of {past.run.context} is not at its end", remedy="let it end, then publish"
        )
    started = starting.start_with(world, asked, past.manifest, past.recipe)
    run = loop.drive(world, started, max(1, workers or ports.processors), meter)
    return {"run": run.id, "state": run.state, "version": run.number or live, "error": run.error or None}
