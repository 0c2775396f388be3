"""Reading documents on trial: which requests a curate would make of them, and about what would come of it.

The code that curates does the reading, over a model that answers extractively and notes what it was asked. So requests
are rendered, not modelled; answers that the memo holds already take the place of guessed ones. Nothing is stored.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from manifests.model import ArtifactsConfig, ArtifactType
from pipeline.artifacts import extractive
from pipeline.artifacts.asking import Asker
from pipeline.artifacts.estimate import SEED
from pipeline.artifacts.groups import Decisions
from pipeline.artifacts.making import make
from pipeline.artifacts.statements import extract
from pipeline.artifacts.subjects import Subject, subjects
from pipeline.fingerprint import canonical_json
from pipeline.models import CatalogModel, MentionsTask, ModelReply, ModelRequest, ReduceTask, Task, Tier, TokenUsage
from pipeline.ports import Clock, LanguageModel, Memo
from pipeline.rows import StatementRow
from pipeline.tokens import count
from pipeline.types import NO_ORIGINS, ContextSlug, Origins, ParsedDocument, SourcePath

REDUCED_MAX = 400
"""Subjects of a type whose request is rendered; of more, a draw."""


@dataclass(slots=True)
class Call:
    """One request that a curate would make."""

    task: Task
    key: str
    """Of its answer in the memo."""
    kind: tuple[str, str]
    """What is asked for, and of which type: mentions are of all types at once."""
    prompt: int
    """Tokens of system, prompt and schema."""
    guess: int
    """Tokens of the extractive answer; of prose, the longest that may be written."""
    notes: int = 0
    """Tokens of the notes in a prompt about a subject: what more documents would add to."""
    had: int = 0
    """Tokens of the answer, where it is known."""
    of: tuple[SourcePath, ...] = ()
    """Sources that it asks about."""
    bought: bool = False
    """Whether this estimate has paid for it: other documents' requests of the kind still cost."""


@dataclass(slots=True)
class Looked:
    """One source that the sample has read."""

    path: SourcePath
    size: int
    stratum: int
    settled: bool
    """Its live statements stay: it costs nothing."""
    documents: tuple[tuple[str, ParsedDocument], ...] = ()
    """The source's own text and its parts; none where it can't be read."""
    calls: list[Call] = field(default_factory=list)
    guessed: list[StatementRow] = field(default_factory=list)
    """What the extractive answers come to."""
    best: list[StatementRow] = field(default_factory=list)
    """The same, with the model's own answers where there are any."""
    seconds: float = 0.0

    @property
    def chars(self) -> int:
        """Characters of everything that it holds."""
        return sum(len(document.text) for _, document in self.documents)

    @property
    def known(self) -> bool:
        """Whether the model itself has said which subjects there are."""
        asked = [c for c in self.calls if c.kind[0] == "mentions"]
        return self.settled or (bool(asked) and all(c.had for c in asked))


@dataclass(slots=True)
class Reduced:
    """What would be asked about the subjects of one type."""

    calls: list[Call] = field(default_factory=list)
    found: int = 0
    """Subjects of the sample."""
    share: float = 1.0
    """Of the sample's subjects, those that would be asked about: of the others every document stays as it is."""


@dataclass(slots=True)
class _Layer:
    """Port `Memo` over another: what is put stays here, and what the other holds goes first."""

    below: Memo | None
    held: dict[str, bytes]

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        found = self.below.get_many(keys) if self.below is not None else {}
        return {key: self.held[key] for key in keys if key in self.held} | found

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        del origins, joint  # nothing of it is kept
        self.held.update(items)

    def forget(self, origins: Collection[str]) -> int:
        del origins
        return 0

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class _Stand:
    """Port `LanguageModel`: goes by the real one's names, answers extractively, notes what it was asked."""

    real: LanguageModel
    asked: list[tuple[ModelRequest, str]] = field(default_factory=list)

    @property
    def deterministic(self) -> bool:
        """Never: the layers above the memo are to be looked into."""
        return False

    def model(self, tier: Tier) -> str:
        return self.real.model(tier)

    def catalog(self) -> tuple[CatalogModel, ...]:
        return self.real.catalog()

    def answer(self, request: ModelRequest) -> ModelReply:
        text = extractive.answer(request.task)
        self.asked.append((request, text))
        return ModelReply(text, "stop", TokenUsage(), self.model(request.tier))


def _nothing(*_given: object) -> None:
    """Costs nothing, forbids nothing."""


class Trial:
    """Reads documents as a curate under these types and this model would."""

    def __init__(self, model: LanguageModel, memo: Memo, clock: Clock, config: ArtifactsConfig) -> None:
        self._memo = memo
        self._config = config
        self._stand = _Stand(model)
        guesses: dict[str, bytes] = {}
        tier, limit = config.artifact_model, config.max_tokens
        self._guess = Asker(self._stand, _Layer(None, guesses), clock, tier, limit, _nothing, _nothing)
        self._best = Asker(self._stand, _Layer(memo, guesses), clock, tier, limit, _nothing, _nothing)

    def read(self, looked: Looked) -> None:
        """Fill in what a source's documents would be asked and what would come of it."""
        looked.guessed = self._statements(looked, self._guess)
        looked.calls = self._calls((looked.path,))
        looked.best = looked.guessed
        self.recall(looked)

    def recall(self, looked: Looked) -> None:
        """Take in the answers that the memo holds of a source's calls."""
        # A passage that an earlier source holds, too, was noted there; its answer serves here as well.
        found = [self._take(call) for call in looked.calls if not call.had]
        if any(found) or not looked.calls:
            looked.best = self._statements(looked, self._best)

    def _statements(self, looked: Looked, asker: Asker) -> list[StatementRow]:
        out: list[StatementRow] = []
        for part, document in looked.documents:
            out += extract(document, looked.path, self._config, asker, part=part).statements
        return out

    def _take(self, call: Call) -> bool:
        held = self._memo.get_many([call.key]).get(call.key)
        if held is not None:
            call.had = count(canonical_json(json.loads(held)[0]))
        return held is not None

    def _calls(self, of: tuple[SourcePath, ...]) -> list[Call]:
        calls = {call.key: call for request, text in self._stand.asked if (call := self._call(request, text, of))}
        self._stand.asked.clear()
        return list(calls.values())

    def _call(self, request: ModelRequest, text: str, of: tuple[SourcePath, ...]) -> Call:
        task = request.task
        type_ = "" if isinstance(task, MentionsTask) or not hasattr(task, "type") else task.type.name
        prose = bool(type_) and not task.type.columns  # type: ignore[union-attr]  # mentions have no single type
        schema = json.dumps(dict(request.schema), ensure_ascii=False, sort_keys=True)
        return Call(
            task=task,
            key=self._guess.key(task),
            kind=(request.schema_name, type_),
            prompt=count(request.system) + count(request.prompt) + count(schema),
            guess=request.max_tokens if prose else count(text),
            notes=sum(map(count, task.notes)) if isinstance(task, ReduceTask) else 0,
            of=of,
        )

    def reduce(self, type_: ArtifactType, found: Sequence[Subject], settled: frozenset[SourcePath]) -> Reduced:
        """What would be asked about some subjects of one type."""
        moved = [s for s in found if any(m.path not in settled for m in s.statements)]
        share = len(moved) / len(found) if found else 1.0
        chosen = moved
        if len(moved) > REDUCED_MAX:
            chosen = random.Random(SEED).sample(moved, REDUCED_MAX)  # noqa: S311  # a sample, no secret
        calls: list[Call] = []
        for subject in chosen:
            make(subject, type_, self._config, self._guess, "")
            calls += self._calls(tuple(statement.path for statement in subject.statements))
        for call in calls:
            self._take(call)
        return Reduced(calls, len(found), share)


def subjects_of(slug: ContextSlug, type_: ArtifactType, looked: Sequence[Looked], *, best: bool) -> tuple[Subject, ...]:
    """The sample's subjects of one type, edges aside."""
    rows = [s for one in looked for s in (one.best if best else one.guessed) if s.type == type_.name]
    return subjects(slug, type_.name, [s for s in rows if s.kind != "edge"], Decisions(), 0)


def least(type_: ArtifactType, config: ArtifactsConfig) -> int:
    """Sources that must speak of a subject of the type."""
    if type_.scope == "document":
        return 1
    own = type_.min_doc_count if "min_doc_count" in type_.model_fields_set else None
    return config.min_doc_count if own is None else own
