"""Asking a language model: memo before money, bounded repeats, nothing stored that was cut off.

Each answer is kept under (task, model, prompts, limit): neither a crash, nor a replay, nor the same passage in another
source buys it twice. What a call cost is in the ledger before its answer is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.artifacts import replies, tasks
from pipeline.errors import PipelineError, RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.models import ModelReply, Task, Tier
from pipeline.ports import Clock, LanguageModel, Memo
from pipeline.retry import next_attempt

ASKED_MAX = 2
"""Times that a task is put to a model whose replies can't be read."""

CUT_OFF = "cut_off"
"""Code of a reply that ended at the limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply in the shape that was asked for."""

    value: dict[str, Any]
    dropped: int
    """Items that didn't fit the schema."""
    bought: bool
    """False where the memo had it."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A model with all that a call needs."""

    model: LanguageModel
    memo: Memo
    clock: Clock
    tier: Tier
    max_tokens: int
    afford: Callable[[], None]
    """Raises where the next call may not be made: too much spent, claim lost, run cancelled."""
    spend: Callable[[ModelReply], None]
    """Notes what a call was billed."""
    fresh: str = ""
    """Not empty: answers given before this mark don't count (`artifacts_reset`)."""
    of: tuple[str, ...] = ()
    """What the questions are made of, as `recording.origin` writes it: answers are forgotten with any of it."""
    repeats: int = 3
    """Times that a call that failed for a while is made again here."""

    def key(self, task: Task) -> str:
        """Memo key of the answer."""
        kind = type(task).__name__
        asked = canonical_json(asdict(task))
        model = self.model.model(self.tier)
        digest = fingerprint("answer", kind, asked, model, tasks.prompts_fingerprint(), self.max_tokens, self.fresh)
        return f"answer:{digest}"

    def held(self, task: Task) -> bool:
        """Whether the answer is there already."""
        key = self.key(task)
        return key in self.memo.get_many([key])

    def ask(self, task: Task) -> Answer:
        """The answer, from the memo or the model.

        Raises:
            RejectedInput: code `cut_off`: the reply ended at the limit, ask for less; `refused`: the model declined;
                `unreadable`: no reply of the shape asked for came; or the provider's own refusal.
            Unavailable: the model didn't answer.
        """
        key = self.key(task)
        # What costs nothing and comes out the same is cheaper to do again than to keep.
        known = None if self.model.deterministic else self.memo.get_many([key]).get(key)
        if known is not None:
            self.memo.put_many({}, {key: self.of}, joint=len(self.of) > 1)
            value, dropped = json.loads(known)
            return Answer(value, dropped, bought=False)
        request = tasks.request(task, self.tier, self.max_tokens)
        best: replies.Reply | None = None
        fault = ""
        for _ in range(1 if self.model.deterministic else ASKED_MAX):
            reply = self._call(request)
            if reply.finish == "length":
                raise RejectedInput(
                    CUT_OFF,
                    f"{reply.model}'s answer was cut off at {request.max_tokens} tokens",
                    remedy="raise curate.artifacts.max_tokens, or give smaller windows (extraction_window_chars)",
                )
            if reply.finish == "refusal":
                raise RejectedInput("refused", f"{reply.model} declined to answer", remedy="see the source's text")
            try:
                found = replies.read(reply.text, request.schema)
            except replies.Unreadable as error:
                fault = str(error)
                continue
            if best is None or found.dropped < best.dropped:
                best = found
            if not found.dropped:
                break
        if best is None:
            raise RejectedInput(
                "unreadable",
                f"{self.model.model(self.tier)} gave no answer of the shape asked for ({fault})",
                remedy="run again, or use another model",
            )
        if not self.model.deterministic:
            answer = canonical_json([best.value, best.dropped]).encode()
            self.memo.put_many({key: answer}, {key: self.of}, joint=len(self.of) > 1)
        return Answer(best.value, best.dropped, bought=True)

    def _call(self, request: Any) -> ModelReply:
        attempt = 1
        while True:
            self.afford()
            try:
                reply = self.model.answer(request)
            except PipelineError as error:
                worth = attempt <= self.repeats and error.code not in FINAL
                retry = next_attempt(error, attempt) if worth else None
                if retry is None:
                    raise
                attempt += 1
                self.clock.sleep(retry.delay_s)
                continue
            self.spend(reply)
            return reply


FINAL = frozenset({"quota", "unauthorized", "language_model_missing"})
"""Codes of refusals that waiting doesn't cure."""
