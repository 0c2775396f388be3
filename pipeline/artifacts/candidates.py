"""Names in running text, found by their letters and their company alone. Pure; no model, no network, no word list of names.

A candidate is a run of capitalised words, acronyms and words with digits, small joining words allowed inside. A word at
the start of a sentence counts only if the text shows that its capital is its own: it stands so inside a sentence
elsewhere, or it never stands in lower case and is no common word. After Bikel, Schwartz & Weischedel's word features
(1999); the statistics are the document's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from pipeline.artifacts import links, names
from pipeline.artifacts.links import bucket

NAME_WORDS_MAX = 8

_SENTENCE_END = re.compile(
    r"(?<=[.!?…])[\"')\]\u201d\u2019]*\s+(?=[\"'(\[\u201c\u2018]?[^\Wa-z_])|\n\s*\n|\n(?=\s*(?:[-*+#>|]|\d+[.)]\s))"
)
_LETTER = "(?:[^\\W_]|[\u0300-\u036f])"
"""A letter or digit, or a mark that stands by itself after one."""
_TOKEN = re.compile(rf"(?:[^\W\d_]\.){{2,}}|{_LETTER}+(?:[-\u2010\u2011\uff0d'\u2019&.]{_LETTER}+)*[+#]*|\S")
_POSSESSIVE = re.compile("['\u2019\u02bc]s?$")
_ABBREVIATED = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Mt|Ft|Sir|Rev|Capt|Col|Lt|Sgt|Inc|Ltd|Co|Corp|No|Nos|vs|etc|approx|Fig|vol|pp|eds?|al|cf|ca)|\b[A-Z])\.$"
)
_MARKUP = re.compile(r"[*_`#>|\[\]]+|\(https?://[^)\s]*\)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence and where it stands."""

    start: int
    end: int
    text: str


def sentences(text: str) -> Iterator[Sentence]:
    """Sentences, list items and headings of a text; an abbreviation's full stop ends none."""
    start = 0
    for hit in _SENTENCE_END.finditer(text):
        piece = text[start : hit.start()]
        if "\n" not in hit.group() and _ABBREVIATED.search(piece):
            continue
        yield from _sentence(text, start, hit.start())
        start = hit.end()
    yield from _sentence(text, start, len(text))


def _sentence(text: str, start: int, end: int) -> Iterator[Sentence]:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        at = start + piece.index(stripped[0]) if stripped else start
        yield Sentence(at, at + len(stripped), stripped)


@dataclass(slots=True)
class Candidate:
    """A name and its places."""

    name: str
    """The spelling that occurs first."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    sentences: list[int] = field(default_factory=list)
    """Indices of the sentences that hold it, rising."""
    aliases: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """A text's sentences and the names in them."""

    sentences: list[Sentence]
    candidates: list[Candidate]
    """In order of their first places."""


def read(text: str, title: str = "") -> Reading:
    """Sentences and names of a text; words of its title are names wherever they stand with a capital."""
    plain = _MARKUP.sub(lambda hit: " " * len(hit.group()), text)
    found = list(sentences(plain))
    tokens = [
        [_Word(t.group(), s.start + t.start(), s.start + t.end()) for t in _TOKEN.finditer(s.text)] for s in found
    ]
    known = _Usage(tokens, frozenset(names.normal(title).split()))
    held: dict[tuple[str, ...], Candidate] = {}
    for i, line in enumerate(tokens):
        for start, end in _runs(line, known):
            name = _POSSESSIVE.sub("", names.display(plain[start:end]))
            if not names.usable(name):
                continue
            key = _key(name)
            candidate = held.setdefault(key, Candidate(name))
            candidate.spans.append((start, end))
            if not candidate.sentences or candidate.sentences[-1] != i:
                candidate.sentences.append(i)
            if name != candidate.name:
                candidate.aliases[name] = None
    _defined_acronyms(plain, held)
    _shortened(held)
    return Reading(found, list(held.values()))


def _key(name: str) -> tuple[str, ...]:
    """Equal for spellings that one document uses for one thing; a legal form makes another name."""
    return (*names.core(name), bucket(name)[len("".join(names.core(name))) :])


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int

    @property
    def capital(self) -> bool:
        first = self.text[0]
        return first.isupper() or first.istitle()

    @property
    def coded(self) -> bool:
        """A word with letters and digits, such as X200 or B-17."""
        return any(c.isdigit() for c in self.text) and any(c.isalpha() for c in self.text)


class _Usage:
    """How the text itself writes its words."""

    def __init__(self, lines: list[list[_Word]], title: frozenset[str]) -> None:
        self.inside = Counter(names.normal(w.text) for line in lines for w in _behind_first(line) if w.capital)
        lower = {names.normal(w.text) for line in lines for w in line if w.text[0].islower()}
        starts = Counter(names.normal(first.text) for line in lines if (first := _first(line)) is not None)
        # Title and text both begin sentences with it, and neither ever writes it small: whom a passage is about.
        self.title = {word for word in title if starts[word] > 1 and word not in lower}

    def own_capital(self, word: _Word) -> bool:
        """Whether the capital of a word inside a sentence says that it is a name's."""
        return word.capital and (names.normal(word.text) not in names.COMMON or _shouted(word))

    def known(self, word: _Word) -> bool:
        """Whether a word at the start of a sentence is a name's on its own."""
        plain = names.normal(word.text)
        return self.own_capital(word) and (self.inside[plain] > 0 or plain in self.title or _shouted(word))


def _first(line: list[_Word]) -> _Word | None:
    """The first word; marks in front of it are none."""
    return next((w for w in line if w.text[0].isalnum()), None)


def _behind_first(line: list[_Word]) -> list[_Word]:
    """The words behind the first one."""
    first = next((n for n, w in enumerate(line) if w.text[0].isalnum()), len(line))
    return line[first + 1 :]


def _shouted(word: _Word) -> bool:
    return word.text.isupper() and len(word.text.replace(".", "")) > 1 and word.text.replace(".", "").isalpha()


def _initial(line: list[_Word], i: int) -> bool:
    """Whether a single capital letter stands for a given name: a full stop and another capital follow."""
    word = line[i]
    return (
        len(word.text) == 1
        and word.text.isupper()
        and i + 2 < len(line)
        and line[i + 1].text == "."
        and line[i + 2].capital
    )


def _runs(line: list[_Word], usage: _Usage) -> Iterator[tuple[int, int]]:
    """Spans of names in one sentence."""
    letters = [w for w in line if w.text.isalpha()]
    if len(letters) > SHOUTED_WORDS and sum(w.text.isupper() for w in letters) > len(letters) * SHOUTED_SHARE:
        return  # a sentence in capitals marks no names
    start = next((n for n, w in enumerate(line) if w.text[0].isalnum()), len(line))
    line = line[start:]  # a list's mark is no word: the one behind it is the first
    i = 0
    while i < len(line):
        if not _begins(line, i, usage):
            i += 1
            continue
        last = _end(line, i, usage)
        yield line[i].start, line[last - 1].end
        i = last


SHOUTED_WORDS = 4
SHOUTED_SHARE = 0.7
NUMBER_DIGITS_MAX = 4
"""A longer number behind a name is no part of it."""


def _end(line: list[_Word], i: int, usage: _Usage) -> int:
    """One past the last word of the name that begins at `i`."""
    end = last = i + 1
    opened = i > 0 or usage.known(line[0]) or line[0].coded
    while end < len(line) and end - i < NAME_WORDS_MAX:
        word = line[end]
        if word.coded or _initial(line, end) or usage.own_capital(word) or _number(word, at_end=last == end):
            if _dotted(line[end - 1]) and _initial(line, end):
                break  # a sentence ended with the acronym
            end = last = end + 1
        elif (last == end and word.text in (".", ",") and _belongs(line, end)) or (
            opened and word.text.islower() and _joins(line, end, usage)
        ):
            end += 1
        else:
            break
    return last


def _dotted(word: _Word) -> bool:
    return word.text.endswith(".") and len(word.text) > 3  # noqa: PLR2004 - more than one letter with its stop


def _number(word: _Word, *, at_end: bool) -> bool:
    """A version or model: a short number right behind the name, that is no year."""
    text = word.text
    if not (at_end and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        return False
    plain = names.normal(text)
    return not (len(plain) == NUMBER_DIGITS_MAX and plain[:2] in ("16", "17", "18", "19", "20"))


def _begins(line: list[_Word], i: int, usage: _Usage) -> bool:
    word = line[i]
    if not word.text[0].isalnum() or not word.capital:
        return False
    if word.coded or _initial(line, i):
        return True
    if len(word.text) == 1 or not usage.own_capital(word):
        return False
    if i > 0 or usage.known(word):
        return True
    # The first word of a sentence belongs to a name at least where the name goes on: "Global Seed Registry".
    following = line[i + 1] if i + 1 < len(line) else None
    if following is not None and following.text == "." and names.normal(word.text) in _STOPPED and i + 2 < len(line):
        following = line[i + 2]
    return following is not None and following.capital and following.text[0].isalpha()


_STOPPED = names.TITLES | {"st", "mt", "ft", "ste"}
"""Words of names that may be written with a full stop."""


def _belongs(line: list[_Word], at: int) -> bool:
    """Whether a mark is part of the name: an initial's or title's full stop, a comma before Inc."""
    if at + 1 >= len(line):
        return False
    following, before = line[at + 1], line[at - 1]
    if line[at].text == ".":
        return (len(before.text) == 1 or names.normal(before.text) in _STOPPED) and following.capital
    return names.normal(following.text) in names.SUFFIXES and following.capital


def _joins(line: list[_Word], at: int, usage: _Usage) -> bool:
    """Whether a small word stands inside a name: one or two of them, then a capital; "and" joins two names, not one."""
    small = names.normal(line[at].text)
    if small not in _INNER and not (small == "for" and names.normal(line[at - 1].text) in _BODIES):
        return False
    following = line[at + 1 : at + 3]
    if following and names.normal(following[0].text) in _INNER:
        following = following[1:]
    return bool(following) and usage.own_capital(following[0])


_BODY_WORDS = (
    "council society association institute centre center agency committee board foundation office ministry department fund "
    "bureau school league union alliance commission academy campaign coalition network programme program"
)
_BODIES = names.word_set(_BODY_WORDS)
"""What a body may be that is named for its purpose: the Crafts Council for Leather."""
_INNER = names.JOINERS - {"and", "in", "on", "at", "for", "a", "an", "e", "y", "et", "und"}


_BRACKETED = re.compile(r"\(([^()\n]{2,60})\)")
_CALLED = re.compile(r",?\s+(?:known as|short for|abbreviated(?: as| to)?|also called|called)\s+(?:the\s+)?$")


def _defined_acronyms(text: str, held: dict[tuple[str, ...], Candidate]) -> None:
    """`Global Seed Registry (GSR)`, and the other way round: both become one (Schwartz & Hearst 2003, by initials)."""
    by_end = {end: c for c in held.values() for _, end in c.spans}
    for hit in _BRACKETED.finditer(text):
        before = by_end.get(len(text[: hit.start()].rstrip()))
        inner = names.display(hit.group(1))
        if before is None:
            continue
        short, full = (inner, before.name) if names.as_acronym(inner) else (before.name, inner)
        letters = names.as_acronym(short)
        if not letters or not letters_match(letters, full):
            continue
        other = held.get(_key(inner))
        before.aliases[inner] = None
        if other is not None and other is not before:
            before.aliases.update(other.aliases)
            before.spans += other.spans
            before.sentences = sorted({*before.sentences, *other.sentences})
            del held[_key(inner)]


def letters_match(letters: str, full: str) -> bool:
    """Whether a name's words hold an acronym's letters in order, the first at its beginning (Schwartz & Hearst 2003)."""
    kept = names.core(full)
    if len(kept) < 2 or len(letters) > sum(map(len, kept)) or kept[0][0] != letters[0]:  # noqa: PLR2004 - several words
        return False
    rest = iter("".join(kept))
    return all(letter in rest for letter in letters) and sum(w[0] in letters for w in kept) >= len(kept) - 1


def _shortened(held: dict[tuple[str, ...], Candidate]) -> None:
    """A single word that ends one longer name of the same text, as people's names do, is that name's short form."""
    longer: dict[str, list[tuple[str, ...]]] = {}
    for key in held:
        *named, legal = key
        if len(named) > 1 and not legal and links.person_shaped(tuple(named)) and not links.PLACES & set(named):
            longer.setdefault(named[-1], []).append(key)
    for key in [k for k in held if len(k) == 2 and not k[-1]]:  # noqa: PLR2004 - a word, and no legal form
        owners = longer.get(key[0], [])
        if not owners or names.as_acronym(held[key].name):
            continue
        # Erik Halvorsen and E. J. Halvorsen are one man; of Erik and Anna Halvorsen neither owns the name.
        if any(not links.same_person(a[:-1], b[:-1]) for a, b in combinations(owners, 2)):
            continue
        short, owner = held[key], held[max(owners, key=lambda k: (sum(map(len, k)), k))]
        if short.spans[0] < owner.spans[0]:
            continue  # whoever is introduced by the short form is somebody else
        owner.aliases.update(dict.fromkeys((short.name, *short.aliases)))
        owner.spans = sorted({*owner.spans, *short.spans})
        owner.sentences = sorted({*owner.sentences, *short.sentences})
        del held[key]
