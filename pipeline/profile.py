"""profile: what curating would cost, before anything is spent. Nothing is persisted.

A sample of the documents is read on trial (`artifacts.trial`): the requests are those that a curate would make, and
their tokens are counted. What an answer comes to is an assumption until answers are known: those that the memo holds,
and, where the caller allows it, those of a few requests that are made for real and land in the memo, where the next
curate finds them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from manifests import Manifest
from pipeline import recording
from pipeline.artifacts import estimate, expected, leg
from pipeline.artifacts.asking import Asker
from pipeline.artifacts.trial import Call, Looked, Reduced, Trial, least, subjects_of
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import content_hash
from pipeline.inventory import decide, merge_by_path, trusted
from pipeline.models import ModelReply, TokenUsage
from pipeline.ports import LanguageModel, Ports
from pipeline.rows import ContextRow, SourceRow, StatRow
from pipeline.types import SourcePath

PAGE_ROWS = 1000
SAMPLE_DEFAULT = 100
SAMPLE_MAX = 10_000
CALIBRATE_MAX = 200
WINDOWS_EACH = 4
"""Requests of one kind that a document may give to a calibration: a long one isn't all there is."""
SETTLED_SHARE = 4
"""One in so many of the sample is for sources that cost nothing: they only tell which subjects there are."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What somebody wants estimated."""

    context: ContextRow
    """The context, or a row that stands for a folder that is none."""
    manifest: Manifest
    sample: int = SAMPLE_DEFAULT
    """Sources that are read at most."""
    calibrate: int = 0
    """Requests of each kind that are made for real."""


@dataclass(slots=True)
class Seen:
    """How far it is, for a display."""

    step: str = "sample"
    done: int = 0
    total: int = 0
    began: float = 0.0


@dataclass(slots=True)
class Spent:
    """What calibrating was billed, and what was counted for the same prompts."""

    calls: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    counted: int = 0


def profile(ports: Ports, request: ProfileRequest, seen: Seen, spent: Spent) -> dict[str, Any]:
    """`ProfileEstimateOutput`, or `ProfileEmptyOutput` where there is nothing to estimate.

    Args:
        ports: the deployment.
        request: what to estimate.
        seen: told how far it is.
        spent: told what calibrating was billed.

    Raises:
        RejectedInput: the folder is gone, or this deployment serves no language model.
        Unavailable: calibrating, the model didn't answer; what it answered is in the memo.
    """
    began, model = ports.clock.now(), ports.language
    if not leg.wanted(request.manifest):
        return _empty("the manifest asks for no artifacts, so curating it asks no language model")
    if model is None:
        raise RejectedInput(
            "language_not_served",
            "the manifest asks for artifacts, and this deployment serves no language model",
            remedy="set language to extractive or openai in lamina.toml (LAMINA_LANGUAGE), or switch the leg off",
        )
    if not ports.sources(request.context).exists():
        where = request.context.root or request.context.slug
        raise RejectedInput("no_root", f"the source folder is gone: {where}", remedy="put it back")
    files = _files(ports, request, model)
    if not files:
        return _empty("no source was found")
    strata = _drawn(files, request.sample)
    seen.total, seen.began = sum(len(part.chosen) for part in strata), began
    trial = Trial(model, ports.memo, ports.clock, request.manifest.curate.artifacts)
    looked = []
    for at, part in enumerate(strata):
        for i in part.chosen:
            looked.append(_look(ports, request, trial, files[i], at))
            seen.done += 1
    if not any(one.documents for one in looked):
        return _empty(f"none of the {len(looked)} sources that were sampled holds text that can be read")
    if request.calibrate and not model.deterministic:
        _calibrate(ports, request, trial, looked, seen, spent)
    reduced = _reduced(request, trial, looked, whole=len(looked) == len(files))
    if request.calibrate and not model.deterministic:
        _ask(ports, request, model, [c for r in reduced.values() for c in r.calls], seen, spent)
    sizes = {path: size for path, size, _ in files}
    sampled = expected.Sampled(
        slug=request.context.slug,
        config=request.manifest.curate.artifacts,
        sizes=sizes,
        settled=frozenset(path for path, _, settled in files if settled),
        looked=looked,
        weights=[part.weight for part in strata],
        reduced=reduced,
        prompt_ratio=spent.usage.prompt / spent.counted if spent.counted and spent.usage.prompt else 1.0,
        free=model.deterministic,
        at_once=_at_once(ports, len(files)),
        wall_s=max(ports.clock.now() - began, 0.0),
        chars=expected.characters(sizes, looked),
    )
    return expected.output(sampled)


def _empty(reason: str) -> dict[str, Any]:
    return {"state": "empty", "reason": reason}


def _at_once(ports: Ports, files: int) -> int:
    """Units that a curate works on side by side: a thread each, one call at a time."""
    return max(1, min(ports.processors, -(-files // ports.limits.batch_sources)))


def _drawn(files: Sequence[tuple[SourcePath, int, bool]], sample: int) -> list[estimate.Stratum]:
    """Strata of the sources that cost something, then of those whose statements are live and stay."""
    owed, idle = ([i for i, file in enumerate(files) if file[2] is settled] for settled in (False, True))
    spared = min(len(idle), max(sample // SETTLED_SHARE, 1)) if owed else sample
    rooms = (max(sample - spared, 1), spared)
    return [
        estimate.Stratum(tuple(own[i] for i in part.chosen), part.weight)
        for own, room in zip((owed, idle), rooms, strict=True)
        for part in estimate.strata([files[i][1] for i in own], room)
    ]


# ---- which sources cost something


def _files(ports: Ports, request: ProfileRequest, model: LanguageModel) -> list[tuple[SourcePath, int, bool]]:
    """(path, bytes, whether its live statements stay) of every source, by path."""
    wanted = leg.leg_fingerprint(request.manifest, model.model(request.manifest.curate.artifacts.artifact_model))
    out = []
    walked = ((stat.path, stat) for stat in ports.sources(request.context).walk())
    held = ((path, (live, stat)) for path, live, stat in merge_by_path(_live(ports, request), _stats(ports, request)))
    for path, stat, row in merge_by_path(walked, held):
        if stat is not None:
            live, known = row or (None, None)
            settled = live is not None and _settled(ports, request, stat, (live, known), wanted)
            out.append((SourcePath(path), stat.size, settled))
    return out


def _settled(
    ports: Ports, request: ProfileRequest, stat: SourceStat, held: tuple[SourceRow, StatRow | None], wanted: str
) -> bool:
    """Whether a curate asks nothing about the source: the same bytes, read under these very types and this model."""
    live, known = held
    if known is not None and trusted(stat, known):
        seen = known.hash
    else:
        try:
            seen = content_hash(ports.sources(request.context).read(stat.path, ports.limits.source_bytes)[0])
        except RejectedInput:
            return False
    decision = decide(live, seen, live.fingerprint, force=False, artifacts=wanted)
    return decision.change == "unchanged" and not decision.stale and bool(live.artifact_key)


def _live(ports: Ports, request: ProfileRequest) -> Iterator[tuple[str, SourceRow]]:
    after, context = "", request.context
    while context.live_version:
        with ports.ledger.read() as session:
            page = session.sources.page(context.slug, context.live_version, after, PAGE_ROWS)
        yield from ((row.path, row) for row in page)
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _stats(ports: Ports, request: ProfileRequest) -> Iterator[tuple[str, StatRow]]:
    after, context = "", request.context
    while context.live_version:
        with ports.ledger.read() as session:
            page = session.sources.stats(context.slug, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1][0]


# ---- the sample


def _look(
    ports: Ports, request: ProfileRequest, trial: Trial, file: tuple[SourcePath, int, bool], stratum: int
) -> Looked:
    """Read one source, and what a curate would ask about it."""
    path, size, settled = file
    looked, began = Looked(path, size, stratum, settled), ports.clock.now()
    try:
        data, _ = ports.sources(request.context).read(path, ports.limits.source_bytes)
        document = ports.parser.parse(data, path.rpartition("/")[2])
    except RejectedInput:
        return looked
    looked.documents = (("", document), *((part.name, part.document) for part in document.parts))
    if settled:
        with ports.ledger.read() as session:
            rows = session.knowledge.statements_at(request.context.slug, request.context.live_version, [path])
        looked.guessed = looked.best = list(rows)
    else:
        trial.read(looked)
        looked.seconds = ports.clock.now() - began
    return looked


def _reduced(request: ProfileRequest, trial: Trial, looked: Sequence[Looked], *, whole: bool) -> dict[str, Reduced]:
    """What would be asked about the sample's subjects, by type."""
    config, out = request.manifest.curate.artifacts, {}
    settled = frozenset(one.path for one in looked if one.settled)
    for type_ in config.artifact_types:
        if type_.scope != "corpus" or type_.kind == "glossary":
            continue
        found = subjects_of(request.context.slug, type_, looked, best=True)
        enough = [s for s in found if s.row.documents >= least(type_, config)]
        # In a part of the corpus none may have documents enough; what is asked about one is about the same.
        out[type_.name] = trial.reduce(type_, enough or ([] if whole else found), settled)
    return out


# ---- calibrating


def _calibrate(
    ports: Ports, request: ProfileRequest, trial: Trial, looked: Sequence[Looked], seen: Seen, spent: Spent
) -> None:
    """Make some of the sample's requests for real; a document's together, so that its subjects are known whole."""
    draw = random.Random(estimate.SEED)  # noqa: S311  # a sample, no secret
    wanted: list[Call] = []
    for one in draw.sample(list(looked), len(looked)):
        each = Counter[tuple[str, str]]()
        for call in draw.sample(one.calls, len(one.calls)):
            each[call.kind] += 1
            if each[call.kind] <= WINDOWS_EACH:
                wanted.append(call)
    assert ports.language is not None
    _ask(ports, request, ports.language, wanted, seen, spent)
    for one in looked:
        if any(call.bought for call in one.calls):
            trial.recall(one)


def _ask(
    ports: Ports, request: ProfileRequest, model: LanguageModel, calls: Sequence[Call], seen: Seen, spent: Spent
) -> None:
    """Put requests to the model until as many of each kind are known as were asked for."""
    config = request.manifest.curate.artifacts
    billed: list[ModelReply] = []
    asker = Asker(
        model, ports.memo, ports.clock, config.artifact_model, config.max_tokens, lambda: None, billed.append,
        repeats=ports.limits.model_repeats,
    )  # fmt: skip
    tried = Counter[tuple[str, str]]()
    seen.step, seen.done, seen.began = "calibrate", 0, ports.clock.now()
    seen.total = sum(min(n, request.calibrate) for n in Counter(c.kind for c in calls).values())
    for call in calls:
        if call.had or tried[call.kind] >= request.calibrate:
            continue
        tried[call.kind] += 1
        try:
            of = tuple(recording.origin(request.context.slug, path) for path in call.of)
            replace(asker, of=of).ask(call.task)
        except RejectedInput:
            continue  # refused or cut off: what it was billed is counted below all the same
        finally:
            for reply in billed:
                spent.calls, spent.usage = spent.calls + 1, spent.usage.plus(reply.usage)
                spent.counted += call.prompt
                call.had += reply.usage.completion
            call.bought = bool(billed)
            billed.clear()
        seen.done += 1


def standing(context: ContextRow, manifest: Manifest, sample: int, calibrate: int) -> ProfileRequest:
    """A request within its bounds.

    Raises:
        RejectedInput: code `usage`.
    """
    for name, given, low, high in (("sample", sample, 1, SAMPLE_MAX), ("calibrate", calibrate, 0, CALIBRATE_MAX)):
        if not low <= given <= high:
            raise RejectedInput("usage", f"--{name} is {given}", remedy=f"give {low} to {high:,}")
    return replace(ProfileRequest(context, manifest), sample=sample, calibrate=calibrate)
