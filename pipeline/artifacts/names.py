"""Names as people spell them, and what two spellings have in common. Pure.

`normal` undoes what never distinguishes two things: letter case, accents, widths, blanks, punctuation. `keys` gives the
blocking keys by which names that might be one thing find each other; whether they are is decided by `grouping`.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from pipeline.embed.sparse import STOP_WORDS

_POSSESSIVE = re.compile("['\u2019\u02bc`\u00b4]s?\\b")
_INITIALS = re.compile(r"\b(?:\w\.){2,}")
_NOT_WORD = re.compile(r"[^\w+#&]+|_")
_WORD = re.compile(r"\w+")


def word_set(text: str) -> frozenset[str]:
    """Words with blanks between as a set: easier to read, and to mend, than a list of quoted ones."""
    return frozenset(text.split())


_TITLES = (
    "mr mrs ms miss mx dr prof professor sir dame lord lady rev capt captain col lt sgt judge justice chancellor mayor hon "
    "herr frau monsieur madame senor senora"
)
TITLES = word_set(_TITLES)
"""Words in front of a person's name."""
_SUFFIXES = (
    "inc incorporated ltd limited llc llp plc gmbh ag kg se sa sas sarl spa srl bv nv ab oy oyj as aps corp corporation co "
    "company pty pte kk jr sr phd md esq"
)
SUFFIXES = word_set(_SUFFIXES)
"""Words behind a name that say its legal form or a person's degree."""
JOINERS = frozenset(
    [
        "of",
        "the",
        "and",
        "for",
        "de",
        "la",
        "le",
        "les",
        "du",
        "des",
        "van",
        "von",
        "der",
        "den",
        "di",
        "da",
        "del",
        "do",
        "dos",
        "e",
        "y",
        "et",
        "und",
        "a",
        "an",
        "in",
        "on",
        "at",
    ]
)
"""Small words inside names; acronyms pass over them."""

ACRONYM = re.compile(r"^[A-Z][A-Z0-9&.]{1,9}$")


_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "\u0131": "i", "ħ": "h"}
)
"""Letters that no decomposition takes apart, as people write them without."""


@lru_cache(maxsize=65_536)
def normal(name: str) -> str:
    """Lower case, without accents, widths and punctuation; words with one blank between."""
    name = _INITIALS.sub(lambda hit: hit.group().replace(".", " "), unicodedata.normalize("NFKC", name))
    plain = "".join(c for c in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(c))
    plain = plain.translate(_LETTERS)
    plain = unicodedata.normalize("NFC", _POSSESSIVE.sub("", plain))
    return " ".join(_NOT_WORD.sub(" ", plain).split())


def display(name: str) -> str:
    """A name as it is shown: one line, blanks single, nothing that doesn't print."""
    kept = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(kept.split())


def usable(name: str) -> bool:
    """Whether it can be a subject's name at all: it has a letter or digit, and says more than a function word."""
    plain = normal(name)
    return bool(plain) and any(c.isalnum() for c in plain) and any(w not in STOP_WORDS for w in plain.split())


def occurs(name: str, normal_text: str) -> bool:
    """Whether a name stands in a text, both normalised, at word borders (scripts without blanks: anywhere)."""
    plain = normal(name)
    if not plain:
        return False
    if not plain.isascii() and any(ord(c) >= _UNSPACED for c in plain):
        return plain in normal_text
    return f" {plain} " in f" {normal_text} "


_UNSPACED = 0x0E00
"""From Thai on, scripts may write words without blanks between."""


def words(name: str) -> tuple[str, ...]:
    """The words of the normalised name."""
    return tuple(normal(name).split())


@lru_cache(maxsize=65_536)
def core(name: str) -> tuple[str, ...]:
    """The words that name the thing: without article, titles, legal forms. Never empty for a usable name."""
    all_words = words(name)
    kept = list(all_words)
    while len(kept) > 1 and (kept[0] == "the" or kept[0] in TITLES):
        kept.pop(0)
    while (size := _legal_words(kept)) and len(kept) > size:
        del kept[-size:]
    if len(kept) > 1:
        kept[0] = _ABBREVIATED.get(kept[0], kept[0])
    return tuple(kept)


def _legal_words(kept: list[str]) -> int:
    """How many words at the end are a legal form or degree; G.m.b.H. has come apart into letters."""
    if kept[-1] in SUFFIXES:
        return 1
    for size in (4, 3, 2):
        if all(map(is_initial, kept[-size:])) and not all(map(is_initial, kept)) and "".join(kept[-size:]) in SUFFIXES:
            return size
    return 0


_ABBREVIATED = {"st": "saint", "ste": "sainte", "mt": "mount", "ft": "fort"}
"""Beginnings of places' names."""


_PLURAL_CHARS_MIN = 4
_NO_PLURAL = ("ss", "us", "is", "as", "os")


def singular(word: str) -> str:
    """An English plural's singular, by its ending alone; other words as they are."""
    if len(word) < _PLURAL_CHARS_MIN or not word.endswith("s") or word.endswith(_NO_PLURAL):
        return word
    if word.endswith("ies") and len(word) > _PLURAL_CHARS_MIN:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]


def folded(name: str) -> tuple[str, ...]:
    """The core with its last word in the singular; one-word names stay: Mars is no plural of Mar."""
    kept = core(name)
    return (*kept[:-1], singular(kept[-1])) if len(kept) > 1 else kept


def acronym(name: str) -> str:
    """Initials of a name of several words, small words passed over; empty for others."""
    significant = [w for w in core(name) if w not in JOINERS]
    return "".join(w[0] for w in significant) if len(significant) > 1 else ""


def as_acronym(name: str) -> str:
    """The letters of a name that is written as an acronym, such as GSR or U.N.; empty for others."""
    shown = unicodedata.normalize("NFKC", display(name)).removeprefix("the ").removeprefix("The ")
    return normal(shown).replace(" ", "") if ACRONYM.match(shown) else ""


def is_initial(word: str) -> bool:
    """Whether a word of a normalised name stands for a longer one."""
    return len(word) == 1 and word.isalpha()


CROSS = {"+": "@", "-": "~", "<": ">"}
"""First characters of blocking keys that come in pairs: a long form (an expansion, a full name, a long name) is only ever
compared with short ones (an acronym, initials, its end), or all names with the same initials would be."""
_BACK = {short: long for long, short in CROSS.items()}
ACRONYM_CHARS_MIN = 3
"""Shorter acronyms find their expansion only where a text gives it."""


def keys(name: str) -> frozenset[str]:
    """Blocking keys; what may meet whom is said by `meets`."""
    kept = folded(name)
    found = {whole_key(name)}
    if len(kept) > 1:
        found.add("=" + " ".join(sorted(kept)))  # other order
        found.add(f"^{kept[0]} {kept[-1]}")  # with or without what stands between
        abbreviated = any(map(is_initial, kept[:-1]))
        found.add(f"{'~' if abbreviated else '-'}{kept[0][0]} {kept[-1]}")
        found.add(f"{'<' if len(kept) > 2 else '>'}{' '.join(kept[-2:])}")  # noqa: PLR2004 - longer than its end
        if len(letters := acronym(name)) >= ACRONYM_CHARS_MIN:
            found.add("+" + letters)
    if letters := as_acronym(name):
        found.add("@" + letters)
    return frozenset(found)


def whole_key(name: str) -> str:
    """The blocking key that a name's own spellings share."""
    return ":" + "".join(folded(name))


def meets(key: str) -> tuple[str, ...]:
    """The keys of names that are compared with one which has this key."""
    mark = key[0]
    if mark in CROSS:
        return (CROSS[mark] + key[1:],)
    return (key, _BACK[mark] + key[1:]) if mark in _BACK else (key,)


TELLING_CHARS = 3


def telling_words(text: str) -> tuple[str, ...]:
    """Words of a text that say what it is about: no function words, no single letters, plurals folded."""
    return tuple(singular(w) for w in _WORD.findall(normal(text)) if len(w) >= TELLING_CHARS and w not in STOP_WORDS)


_COMMON = (
    "i you he she it we they this that these those there here what when where who why how which while if as at by for from in "
    "into of off on or and but nor so yet to with without within about above after again all also although always among an a "
    "another any are be been before below between both can could did do does each either every few first for further had has "
    "have her hers him his however its just last later least less like many may me might mine more most much must my near "
    "neither never next no none not note now old once one only other our ours out over own please second several shall "
    "should since some soon still such than the their them then third though through thus today together too two under until "
    "up upon us use used using very was were whatever whether will would yes your yours see add click monday tuesday wednesday "
    "thursday friday saturday sunday january february march april june july august september october november december "
    "three four five six seven eight nine ten around behind beside beyond across along inside outside toward towards nobody everybody anybody "
    "somebody everyone anyone someone everything nothing anything something during despite because according instead both today tomorrow yesterday"
)
COMMON = word_set(_COMMON)
"""Words whose capital says nothing about them."""
