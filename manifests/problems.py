"""What is wrong with a manifest, in words that a person can act on.

`Problem` is one fault, `ManifestError` carries all of them. How values are shortened for display and how a near miss
is guessed is decided here; which faults exist is decided in `syntax`, `model` and `rules`.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass

VALUE_CHARACTERS_MAX = 60
"""Longest value that a message repeats: enough to recognise it, too little to flood a terminal."""

GUESS_CHARACTERS_MAX = 128
"""Longest word for which a near miss is sought: comparing words costs the product of their lengths."""

ABSENT = "(absent)"
"""Shown as the value where the fault is that there is none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a manifest."""

    path: str
    """Where it is, as `curate.artifacts.artifact_types[2].name`; empty for the document as a whole."""
    value: str
    """The offending value as JSON, shortened; `(absent)` where a value is missing."""
    message: str
    """What is wrong."""
    remedy: str
    """What to write instead."""

    def __str__(self) -> str:
        where = f"{self.path} = {self.value}: " if self.path else ""
        return f"{where}{self.message}. {self.remedy}{'' if self.remedy.endswith('?') else '.'}"


class ManifestError(ValueError):
    """A manifest that can't be used; `problems` holds every fault found, in document order where that is known."""

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        self.name = name
        self.problems = problems
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{name}: {count}", *(f"  {problem}" for problem in problems)]))


def shown(value: object) -> str:
    """A value as one line of JSON of at most `VALUE_CHARACTERS_MAX` characters; never fails, never breaks a line."""
    if isinstance(value, str):
        value = value[: VALUE_CHARACTERS_MAX * 2]
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[: VALUE_CHARACTERS_MAX * 2])
    return text if len(text) <= VALUE_CHARACTERS_MAX else text[: VALUE_CHARACTERS_MAX - 3] + "..."


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that `word` most likely was meant to be, or None; letter case is overlooked."""
    if len(word) > GUESS_CHARACTERS_MAX:
        return None
    by_folded = {candidate.casefold(): candidate for candidate in reversed(list(valid))}
    found = difflib.get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def listed(words: Iterable[str]) -> str:
    """Words as people list them: `a, b or c`."""
    *head, last = list(words)
    return f"{', '.join(head)} or {last}" if head else last
