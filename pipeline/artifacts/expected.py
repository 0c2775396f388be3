"""From what a sample was asked and said to what curating the whole corpus would cost, as the contract writes it. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from manifests.model import ArtifactsConfig, ArtifactType
from pipeline.artifacts import estimate, leg
from pipeline.artifacts.estimate import Band, Distinct, Length, exactly
from pipeline.artifacts.trial import Call, Looked, Reduced, least, subjects_of
from pipeline.types import ContextSlug, SourcePath

ASSUMED = {
    "document": Band(0.375, 0.25, 0.5),
    "artifact": Band(0.225, 0.15, 0.3),
}
"""Replies in prose, as a share of the longest that may be written: a page of a document, some sentences on a subject."""
ASSUMED_LISTS = Band(0.9, 0.62, 1.24)
"""Replies that list mentions or fill rows, against the extractive model's own, which quotes whole sentences."""
ASSUMED_SUBJECTS = Band(1.0, 0.75, 1.3)
"""Subjects that a language model would name, against the extractive reading."""
DOCUMENTS_TELLING = 3
"""Sources that a model must have read for its own count of subjects to go before a guessed one."""
EXTRACTIVE_TIME = (0.7, 1.6)
"""Of the time that the sample took for its share of the text."""
CHARS_PER_TOKEN = 4
"""Of notes, about; where their cap in characters is held against tokens."""
NARROW, WIDE = 1.25, 2.0
"""High end over low end of a band up to which confidence is high, and medium."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A sample and the corpus that it stands for."""

    slug: ContextSlug
    config: ArtifactsConfig
    sizes: dict[SourcePath, int]
    """Bytes of every source."""
    settled: frozenset[SourcePath]
    looked: Sequence[Looked]
    weights: Sequence[float]
    """By stratum."""
    reduced: dict[str, Reduced]
    """By type."""
    prompt_ratio: float = 1.0
    """Prompt tokens that the model's provider bills for each that is counted here."""
    free: bool = False
    """The model is of this machine and bills nothing."""
    at_once: int = 1
    """Calls that run at the same time while documents are read."""
    wall_s: float = 0.0
    chars: float = field(default=0.0)
    """Characters of the whole corpus; see `characters`."""


def characters(sizes: dict[SourcePath, int], looked: Sequence[Looked]) -> float:
    """Characters of all sources: those read as they are, the others by their format's share of characters in bytes."""
    read, held = defaultdict[str, int](int), defaultdict[str, int](int)
    for one in looked:
        for key in (_format(one.path), ""):
            read[key] += one.size
            held[key] += one.chars
    seen = {one.path for one in looked}
    total = float(held[""])
    for path, size in sizes.items():
        if path not in seen:
            key = _format(path) if read[_format(path)] else ""
            total += size * held[key] / max(read[key], 1)
    return total


def _format(path: str) -> str:
    name = path.rpartition("/")[2]
    return "." + name.rpartition(".")[2].casefold() if "." in name else "(none)"


def output(sampled: Sampled) -> dict[str, Any]:
    """`ProfileEstimateOutput`."""
    counts = {t.name: _distinct(sampled, t) for t in sampled.config.artifact_types}
    readings = _extraction(sampled)
    reductions = _reduction(sampled, counts)
    ok = [one for one in sampled.looked if one.documents]
    spoken = {one.path: 0 for one in ok}
    for type_ in sampled.config.artifact_types:
        for subject in subjects_of(sampled.slug, type_, ok, best=False):
            for path in {s.path for s in subject.statements}:
                spoken[path] += 1
    n_total, n_sampled = len(sampled.sizes), len(sampled.looked)
    return {
        "state": "completed",
        "g": _g(sampled, counts, sum(part.calls.value for part in (*readings, *reductions))),
        "density": {
            "entities_per_doc": round(sum(spoken.values()) / len(ok), 3),
            "avg_doc_chars": round(sampled.chars / n_total),
        },
        "cost": {
            "by_tier": {tier: _tier(sampled, tier, readings, reductions) for tier in leg.TIERS},
            "default_tier": sampled.config.artifact_model,
        },
        "sampling": {
            "n_total": n_total,
            "n_sampled": n_sampled,
            "fraction": round(n_sampled / n_total, 6),
            "wall_s": round(sampled.wall_s, 3),
        },
    }


# ---- subjects


def _distinct(sampled: Sampled, type_: ArtifactType) -> Distinct:
    """How many artifacts the type would have: by the free reading, put in the model's measure where it has answered."""
    ok = [one for one in sampled.looked if one.documents]
    guess = _counted(sampled, type_, ok, best=False)
    own = [one for one in ok if one.known]
    if type_.scope == "document" or type_.kind == "glossary" or len(own) < DOCUMENTS_TELLING or sampled.free:
        return guess
    known = _counted(sampled, type_, own, best=True)
    if len(own) == len(sampled.sizes):
        return known
    seen = len(subjects_of(sampled.slug, type_, own, best=True))
    return estimate.resized(guess, known, _counted(sampled, type_, own, best=False), seen)


def _counted(sampled: Sampled, type_: ArtifactType, some: Sequence[Looked], *, best: bool) -> Distinct:
    place = {one.path: at for at, one in enumerate(some)}
    found = subjects_of(sampled.slug, type_, some, best=best)
    spoken = [frozenset(place[s.path] for s in subject.statements) for subject in found]
    if type_.scope == "document":
        growth = len(sampled.sizes) / len(sampled.looked) - 1  # each document has its own
    else:
        read = sum(one.chars for one in some)
        growth = max(sampled.chars - read, 0.0) / max(read, 1)
    growth = 0.0 if len(sampled.looked) == len(sampled.sizes) and len(some) == _readable(sampled) else growth
    cap = sampled.config.max_artifacts_per_type
    return estimate.distinct(spoken, len(some), growth, least(type_, sampled.config), cap)


def _readable(sampled: Sampled) -> int:
    return sum(bool(one.documents) for one in sampled.looked)


def _g(sampled: Sampled, counts: dict[str, Distinct], calls: float) -> dict[str, Any]:
    total = exactly(0.0)
    for each in counts.values():
        total = total.plus(each.band)
    corpus = [counts[t.name] for t in sampled.config.artifact_types if t.scope == "corpus"]
    largest = max(counts.values(), key=lambda d: d.band.value)
    wide = total.hi / max(total.lo, 1)
    whole = len(sampled.looked) == len(sampled.sizes)
    sure = "high" if wide <= NARROW else "medium" if wide <= WIDE else "low"
    return {
        "value": round(total.value),
        "lo": math.floor(total.lo),
        "hi": math.ceil(total.hi),
        "method": largest.method,
        "recurrence": round(max((d.recurrence for d in corpus), default=0.0), 4),
        "confidence": "medium" if whole and sure == "high" and not (sampled.free or _answers(sampled)) else sure,
        "note": _note(sampled, calls),
    }


def _answers(sampled: Sampled) -> int:
    calls = [*(c for one in sampled.looked for c in one.calls), *(c for r in sampled.reduced.values() for c in r.calls)]
    return sum(bool(c.had) for c in calls)


def _note(sampled: Sampled, calls: float) -> str:
    unread, settled = len(sampled.looked) - _readable(sampled), len(sampled.settled)
    said = ["Subjects are counted by the extractive reading, which knows names only; a language model may find others."]
    if sampled.free:
        said = ["The extractive model is of this machine: it bills no tokens. Time is measured on the sample."]
    elif answers := _answers(sampled):
        said.append(f"Lengths of replies are those of {answers} answers that are known.")
    else:
        said.append(
            "No answer is known: that a document's text comes to a quarter to a half of max_tokens, a subject's to 15 to "
            "30 %, and lists to 0.62 to 1.24 times the extractive model's are assumptions. --calibrate N replaces them."
        )
    if not sampled.free:
        said.append(f"About {calls:,.0f} calls would be made.")
    if unread:
        said.append(f"{unread} of {len(sampled.looked)} sources sampled hold no text that can be read.")
    if settled:
        said.append(f"{settled} sources are as the live version read them and cost nothing.")
    said.append("Time is that of the artifact leg alone.")
    return " ".join(said)


# ---- tokens


@dataclass(frozen=True, slots=True)
class _Part:
    """Calls of one kind, over the whole corpus."""

    calls: Band
    prompt: float
    """Prompt tokens at the point."""
    reply: Band
    total: Band


def _lengths(sampled: Sampled) -> dict[tuple[str, str], Length]:
    together = defaultdict[tuple[str, str], list[Call]](list)
    for one in sampled.looked:
        for call in one.calls:
            together[call.kind].append(call)
    for reduced in sampled.reduced.values():
        for call in reduced.calls:
            together[call.kind].append(call)
    tables = {t.name for t in sampled.config.artifact_types if t.format == "sqlite"}
    return {
        kind: estimate.length(
            [(c.guess, c.had) for c in calls if c.had],
            ASSUMED_LISTS if kind[0] == "mentions" or kind[1] in tables else ASSUMED[kind[0]],
        )
        for kind, calls in together.items()
    }


def _extraction(sampled: Sampled) -> list[_Part]:
    """What reading the documents would cost, kind by kind."""
    lengths, out = _lengths(sampled), []
    for kind in sorted({c.kind for one in sampled.looked for c in one.calls}):
        known = lengths[kind]
        calls, prompt, guess = exactly(0.0), exactly(0.0), 0.0
        for stratum, weight in enumerate(sampled.weights):
            mine = [one for one in sampled.looked if one.stratum == stratum]
            sizes = [one.size for one in mine]
            numbers, prompts, guesses = [], [], []
            paid_number = paid_prompt = paid_guess = 0.0
            for one in mine:
                owed = [c for c in one.calls if c.kind == kind and (c.bought or not c.had)]
                paid = [c for c in owed if c.bought]
                numbers.append(float(len(owed)))
                prompts.append(float(sum(c.prompt for c in owed)))
                guesses.append(float(sum(c.guess for c in owed)))
                paid_number += len(paid)
                paid_prompt += sum(c.prompt for c in paid)
                paid_guess += sum(c.guess for c in paid)
            # What a calibration has bought stands for others of its kind, but isn't bought again itself.
            calls = calls.plus(_less(estimate.expanded(numbers, sizes, weight), paid_number))
            prompt = prompt.plus(_less(estimate.expanded(prompts, sizes, weight), paid_prompt))
            guess += estimate.expanded(guesses, sizes, weight).value - paid_guess
        prompt = prompt.times(sampled.prompt_ratio)
        reply = estimate.replies(known, calls.value, max(guess, 0.0))
        per = reply.value / calls.value if calls.value else 0.0
        swing = Band(0.0, (calls.lo - calls.value) * per, (calls.hi - calls.value) * per)
        out.append(_Part(calls, prompt.value, reply, prompt.plus(reply).plus(swing)))
    return out


def _less(band: Band, paid: float) -> Band:
    return Band(*(max(v - paid, 0.0) for v in (band.value, band.lo, band.hi)))


def _reduction(sampled: Sampled, counts: dict[str, Distinct]) -> list[_Part]:
    """What writing about the subjects of the corpus would cost, type by type."""
    lengths, out = _lengths(sampled), []
    read = sum(one.chars for one in sampled.looked)
    growth = max(sampled.chars / max(read, 1), 1.0) if len(sampled.looked) < len(sampled.sizes) else 1.0
    for name, reduced in sorted(sampled.reduced.items()):
        if not reduced.calls:
            continue
        number = len(reduced.calls)
        owed = sum(c.bought or not c.had for c in reduced.calls) / number
        # Where other documents may still speak of a subject, its request will be another, and its answer is bought again.
        final = growth <= 1 and all(one.known for one in sampled.looked if one.documents)
        paid = sum(c.bought for c in reduced.calls) if final else 0
        calls = counts[name].band.times(reduced.share * owed)
        if not (sampled.free or _told(sampled)):
            calls = Band(calls.value, calls.lo * ASSUMED_SUBJECTS.lo, calls.hi * ASSUMED_SUBJECTS.hi)
        calls = _less(calls, float(paid))
        fixed = sum(c.prompt - c.notes for c in reduced.calls) / number * sampled.prompt_ratio
        # More documents say more of the same subjects, as far as subjects don't grow in number with them.
        denser = max(growth * reduced.found / max(counts[name].band.value, 1.0), 1.0)
        notes = sum(c.notes for c in reduced.calls) / number
        most = max(sampled.config.mention_context_chars / CHARS_PER_TOKEN, notes)
        noted = _shorter(sampled, lengths).times(notes * denser)
        noted = Band(*(min(n, most) * sampled.prompt_ratio for n in (noted.value, noted.lo, noted.hi)))
        prompt = fixed + noted.value
        known = lengths[reduced.calls[0].kind]
        guess = sum(c.guess for c in reduced.calls) / number
        reply = estimate.replies(known, calls.value, calls.value * guess)
        per = prompt + (reply.value / calls.value if calls.value else 0.0)
        swing = Band(0.0, (calls.lo - calls.value) * per, (calls.hi - calls.value) * per)
        given = noted.times(calls.value).plus(exactly(calls.value * fixed))
        out.append(_Part(calls, given.value, reply, given.plus(reply).plus(swing)))
    return out


def _shorter(sampled: Sampled, lengths: dict[tuple[str, str], Length]) -> Band:
    """What a model's notes come to against those of the sample, which are extractive where the model hasn't answered."""
    calls = [c for one in sampled.looked for c in one.calls if c.kind[0] == "mentions"]
    guessed = sum(c.guess for c in calls if not c.had)
    if not guessed:
        return exactly(1.0)
    known = lengths["mentions", ""]
    ratio = known.ratio if known.by_guess else known.ratio.times(len(calls) / sum(c.guess for c in calls))
    share = guessed / sum(c.guess for c in calls)
    return ratio.times(1 / (share + (1 - share) * ratio.value))


def _told(sampled: Sampled) -> bool:
    """Whether the model has read enough itself to go by its own count of subjects."""
    return sum(one.known for one in sampled.looked if one.documents) >= DOCUMENTS_TELLING


def _tier(sampled: Sampled, tier: str, readings: Sequence[_Part], reductions: Sequence[_Part]) -> dict[str, Any]:
    if sampled.free:
        spent = sum(one.seconds for one in sampled.looked)
        read = sum(one.chars for one in sampled.looked if not one.settled)
        idle = sum(sampled.sizes[p] for p in sampled.settled) / max(sum(sampled.sizes.values()), 1)
        whole = spent / max(read, 1) * sampled.chars * (1 - idle)
        low, high = (whole * factor for factor in EXTRACTIVE_TIME)
        nothing = {"point": 0, "lo": 0, "hi": 0, "input": 0, "output": 0}
        return {"tokens": nothing, "time_s": {"lo": math.floor(low), "hi": math.ceil(high)}}
    total, given, written = exactly(0.0), 0.0, 0.0
    answered = _answers(sampled) > 0  # without answers all rests on one assumption: a terse model is terse throughout
    times = [0.0, 0.0]
    for parts, at_once in ((readings, sampled.at_once), (reductions, 1)):
        for part in parts:
            total = total.plus(part.total) if answered else total.along(part.total)
            given, written = given + part.prompt, written + part.reply.value
            # Documents are read several at a time, subjects are written about one after the other.
            spans = estimate.seconds(estimate.PACES[tier], part.calls.value, part.prompt, part.reply, at_once)
            times = [a + b for a, b in zip(times, spans, strict=True)]
    band = total.narrowed()
    output = round(written)
    return {
        "tokens": {
            "point": round(given) + output,
            "lo": min(math.ceil(band.lo), round(given) + output),
            "hi": max(min(math.ceil(band.hi), 2 * math.ceil(band.lo)), round(given) + output),
            "input": round(given),
            "output": output,
        },
        "time_s": {"lo": math.floor(times[0]), "hi": math.ceil(times[1])},
    }
