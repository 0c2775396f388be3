"""Canary questions: each must find certain sources in a version before that may go live."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.errors import RejectedInput
from pipeline.types import ContextSlug

CANARIES_MAX = 200
"""Of one context: they are asked one after the other before every flip."""
K_MAX = 100
MODES = ("hybrid", "dense", "sparse")
FIELDS = frozenset({"question", "sources", "k", "mode"})


@dataclass(frozen=True, slots=True)
class Canary:
    """One question, and the sources that it must find."""

    question: str
    sources: tuple[str, ...]
    k: int = 10
    mode: str = "hybrid"


def read(file: Path, slug: ContextSlug) -> tuple[Canary, ...]:
    """The context's questions from a JSON or YAML file: `{context: [{question, sources, k, mode}]}`.

    Raises:
        RejectedInput: code `bad_canaries`: the file can't be read, or an entry is wrong; which one, and how it should be.
    """
    try:
        held = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise _bad(f"{file} can't be read: {str(error).splitlines()[0]}") from error
    if not isinstance(held, dict):
        raise _bad(f"{file} holds no contexts")
    entries = held.get(slug, [])
    if not isinstance(entries, list) or len(entries) > CANARIES_MAX:
        raise _bad(f"{file}: {slug} is not a list of at most {CANARIES_MAX} questions")
    return tuple(_canary(f"{file}: {slug}[{at}]", entry) for at, entry in enumerate(entries))


def _canary(place: str, entry: Any) -> Canary:
    if not isinstance(entry, dict) or not set(entry) <= FIELDS:
        raise _bad(f"{place} has other fields than {', '.join(sorted(FIELDS))}")
    question, sources = entry.get("question"), entry.get("sources")
    if not isinstance(question, str) or not question.strip():
        raise _bad(f"{place} has no question")
    if not isinstance(sources, list) or not sources or not all(isinstance(one, str) for one in sources):
        raise _bad(f"{place} names no sources")
    k, mode = entry.get("k", 10), entry.get("mode", "hybrid")
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= K_MAX:
        raise _bad(f"{place}: k is a number from 1 to {K_MAX}")
    if mode not in MODES:
        raise _bad(f"{place}: mode is one of {', '.join(MODES)}")
    return Canary(question, tuple(sources), k, mode)


def _bad(problem: str) -> RejectedInput:
    return RejectedInput(
        "bad_canaries",
        f"canary questions: {problem}",
        remedy="write {context: [{question: TEXT, sources: [PATH]}]} in JSON or YAML, or unset canaries",
    )
