"""Which two names could be one thing, and how much the spelling alone says. Pure: one rule, one function.

A bucket is a name's words run together, without titles and articles: spellings that fall into one are one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.artifacts import names


@dataclass(frozen=True, slots=True)
class Link:
    """Two names that could be one thing."""

    rule: str
    strong: bool
    """Whether the spelling alone joins them where nothing speaks against it; otherwise only agreement does."""


_DIGITS = re.compile(r"\d+")
LEGAL = "\x1f"
"""Marks the bucket of a name with a legal form: Marta Quill GmbH is not Marta Quill."""

PLACES = names.word_set(
    "lake lac lago river mount mountain cape port bay gulf isle island fort glen loch valley ridge creek"
)
"""Words that stand before or behind a place's own name without a difference."""


def bucket(name: str) -> str:
    """The name's bucket."""
    kept, suffixed = names.core(name), names.words(name)[-1:] != names.core(name)[-1:]
    return "".join(kept) + (LEGAL if suffixed else "")


def link(left: Iterable[str], right: Iterable[str], *, defined: bool) -> Link | None:
    """How two buckets may be one thing, by their spellings; None where no rule says so.

    Args:
        left: spellings in one bucket.
        right: those in the other.
        defined: whether a text gives one as another name of the other.
    """
    best: Link | None = None
    for a in sorted(left):
        for b in sorted(right):
            made = _link(a, b, defined=defined)
            if made is not None and (best is None or made.strong > best.strong):
                best = made
    return best


def _link(a: str, b: str, *, defined: bool) -> Link | None:
    x, y = names.core(a), names.core(b)
    if _DIGITS.findall("".join(x)) != _DIGITS.findall("".join(y)):
        return None  # another version, model or number is another thing
    person = person_shaped(x) and person_shaped(y)
    rules = (
        ("legal form", "".join(x) == "".join(y), not person),
        ("plural", names.folded(a) == names.folded(b), not titled(a) and not titled(b)),
        ("acronym", _acronym_of(a, b) or _acronym_of(b, a), defined),
        ("word order", sorted(x) == sorted(y), bool(PLACES & set(x))),
        ("initials", person and _persons(x, y), False),
        ("shortened", _shortened(x, y) or _shortened(y, x), False),
        ("acronym", defined and bool(names.as_acronym(a) or names.as_acronym(b)), True),
        ("defined", defined, False),
    )
    return next((Link(rule, strong=strong) for rule, holds, strong in rules if holds), None)


def _acronym_of(short: str, full: str) -> bool:
    letters, words = names.as_acronym(short), names.core(full)
    if not letters or len(words) < 2:  # noqa: PLR2004 - an acronym has a letter for each of several words
        return False
    return letters in (names.acronym(full), "".join(w[0] for w in words))


def titled(name: str) -> bool:
    """Whether a title says that it is a person."""
    return names.words(name)[:1] != names.core(name)[:1] and names.words(name)[0] in names.TITLES


def has_initial(name: str) -> bool:
    """Whether a given name is abbreviated to its first letter."""
    return any(map(names.is_initial, names.core(name)[:-1]))


def person_shaped(words: tuple[str, ...]) -> bool:
    """Two to four words without digits: what people are called, and much else."""
    return 2 <= len(words) <= 4 and all(w.isalpha() for w in words)  # noqa: PLR2004


def _persons(x: tuple[str, ...], y: tuple[str, ...]) -> bool:
    """Whether given names fit: the first ones equal or one the other's initial, middle ones as far as both have them."""
    if x[-1] != y[-1] or not _fits(x[0], y[0]):
        return False
    if not (any(map(names.is_initial, (*x, *y))) or len(x) != len(y)):
        return False  # Ann Lee and Ann May Lee may be one; Ann Lee and Ann Lee are the same name anyway
    inner_x, inner_y = x[1:-1], y[1:-1]
    return all(_fits(p, q) for p, q in zip(inner_x, inner_y, strict=False))


def same_person(x: tuple[str, ...], y: tuple[str, ...]) -> bool:
    """Whether two names of people, as words, may be one person's."""
    return x == y or _persons(x, y)


def _fits(p: str, q: str) -> bool:
    return p == q or (names.is_initial(p) and q.startswith(p)) or (names.is_initial(q) and p.startswith(q))


def _shortened(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    """Whether the short name is the long one's end, of two words at least: the Alvarez Prize, the Maria Alvarez Prize."""
    return 2 <= len(short) < len(long) and long[-len(short) :] == short  # noqa: PLR2004
