"""The sparse encoder: texts to hashed term weights, queries to hashed term counts, and the IDF that joins them.

BM25 (Robertson & Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", §3) as a dot product. A
record holds the term saturation `tf / (tf + k1 * (1 - b + b * length / average))`, a query `count * idf`. The average
length is a constant, not the corpus mean, and IDF stands on the query side alone: a stored vector never has to be
rewritten when the corpus moves. A term's index is the unsigned 32-bit MurmurHash3 of its UTF-8.

Terms of a text, after NFKC: runs of letters, digits and marks, casefolded, English words stemmed, stop words left out.
Compound tokens (`parseFilter`, `snake_case`, `3.11`) and names with signs (`C++`, `C#`, `.NET`, `AT&T`) count whole and in
parts. Paths and mail addresses count in parts alone. Scripts written without spaces (Chinese, Japanese, Thai, Lao, Khmer,
Burmese), and Korean, whose particles hang on the word, give overlapping pairs of characters.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

import mmh3
import numpy as np
import numpy.typing as npt
import regex
import Stemmer

from pipeline.types import SparseVectors

VERSION: Final = 4
"""Raised whenever the same text would give other terms or other weights."""
K1: Final = 1.2
"""Saturation of repeated terms; the usual value (Robertson & Zaragoza 2009, §3.5)."""
B: Final = 0.75
"""Share of the length normalisation; the usual value (as above)."""
AVERAGE_LENGTH: Final = 200
"""Terms of a chunk of about 400 model tokens. A constant, so that adding a document changes no stored vector."""

TERMS_MAX: Final = 2_048
"""Terms of a record, the heaviest ones, ties to the lower term: what Pinecone stores. One rule for every index, so that
document counts don't depend on where vectors stand."""

_PART_CHARS_MAX: Final = 64
"""Longer tokens are data (base64, hashes), not names: they count whole only."""
_TEXTS_AT_ONCE: Final = 1_024
"""Texts per numpy pass: bounds the intermediate arrays to a few megabytes."""
_TERM_SHIFT: Final = 21
_ROW_SHIFT: Final = _TERM_SHIFT + 32
_COUNT_MAX: Final = (1 << _TERM_SHIFT) - 1
"""Bits of one posting, from the top: 10 of row, 32 of term, 21 of count (a token said more often counts as this)."""
_CACHE_TOKENS_MAX: Final = 100_000
"""Tokens remembered between calls, about 15 MB; past it the cache starts afresh."""

_MARKS: Final = "".join(chr(c) for c in range(0x300, 0x10000) if unicodedata.category(chr(c)) in ("Mn", "Mc"))
"""Vowel signs and accents: parts of words that `\\w` leaves out."""
# No possessive quantifiers: those of Python 3.11.2's `re`, which Debian 12 ships, give wrong matches here.
_ASCII_WORD: Final = re.compile(r"\w+(?:\.(?<=\d\.)\d+)*", re.ASCII)
_WORD: Final = re.compile(rf"[\w{_MARKS}]+(?:\.(?<=\d\.)\d+)*")
"""Words; decimal points inside numbers belong to them."""
_SIGNED: Final = re.compile(
    r"[.+#&/](?:"
    r"(?<=[\s(\[{<|\"'`«\u201c\u2018/,:=]\.)[A-Za-z]\w*"  # .NET, .gitignore; not the end of a sentence, nor a method's dot
    r"|(?<=\w\+)\+|(?<=\w#)(?!\w)"  # C++, C#; not page#top
    r"|(?:(?<=[^\w./][A-Za-z][&/])|(?<=[^\w./][A-Za-z]{2}[&/]))[A-Za-z]{1,2}(?![\w/])"  # AT&T, R&D, A/B, I/O
    r")"
)
"""Names with a sign, from the sign on. It begins with the sign because most texts have few: a search for any word before
a sign takes three times as long."""
_SIGNS: Final = frozenset("+#&/")
_BEFORE_SIGN: Final = re.compile(rf"[\w{_MARKS}]+\Z")
_SPACELESS: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_JOINT: Final = regex.compile(
    r"(?V1)[_.]+|(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}(?!s$)\p{Ll})"
)  # after '_' and '.', at "aB", and at "ABc" before the B; not at the plural of "PDFs"

STOP_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a about above after again against all also am an and any are aren as at be because been before being below "
        "between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from "
        "further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it "
        "its itself just ll m may me might more most mustn my myself no nor not now of off on once only or other our ours "
        "ourselves out over own re s same shan she should shouldn so some such t than that the their theirs them "
        "themselves then there these they this those through to too under until up us ve very was wasn we were weren what "
        "when where which while who whom why will with won would wouldn you your yours yourself yourselves ",
    )
)
"""English function words and the remains of contractions ("don't" is read as "don", "t")."""


@dataclass(frozen=True, slots=True)
class SparseEncoder:
    """One recipe of the encoder. The same text gives the same vector, in any batch, on any machine.

    Keep one instance for many calls: it remembers the terms of tokens it has seen.
    """

    stop_words: bool = True
    """Leave English function words out."""
    stem: bool = True
    """Reduce English words to their stems (Porter 2, by Snowball)."""
    _cache: _Terms = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_cache", _Terms(stop_words=self.stop_words, stem=self.stem))

    @property
    def identity(self) -> str:
        """What decides whether two vectors may be compared; part of the recipe."""
        return (
            f"bm25-mmh3/{VERSION};k1={K1};b={B};average={AVERAGE_LENGTH};"
            f"stop={'english' if self.stop_words else 'none'};stem={'english' if self.stem else 'none'}"
        )

    def encode(self, texts: Sequence[str]) -> SparseVectors:
        """Term saturations of each text, in order; a text without terms has an empty row. Linear in characters.

        Returns:
            one row a text, indices rising and unique, values in (0, 1), at most `TERMS_MAX` of them.
        """
        terms = self._terms()
        blocks = range(0, max(len(texts), 1), _TEXTS_AT_ONCE)
        parts = [_rows(texts[at : at + _TEXTS_AT_ONCE], terms) for at in blocks]
        lengths = np.concatenate([part[0] for part in parts])
        indices, values = np.concatenate([part[1] for part in parts]), np.concatenate([part[2] for part in parts])
        if lengths.max(initial=0) > TERMS_MAX:
            lengths, indices, values = _capped(lengths, indices, values)
        return SparseVectors(
            indptr=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))),
            indices=indices,
            values=values,
        )

    def query_terms(self, text: str) -> dict[int, float]:
        """Term hash to the number of times that the query says it, in rising order of hash."""
        terms = self._terms()
        counts: Counter[int] = Counter()
        for token, count in Counter(_tokens(text)).items():
            for term in terms[token]:
                counts[term] += count
        return {term: float(counts[term]) for term in sorted(counts)}

    def _terms(self) -> _Terms:
        if len(self._cache) > _CACHE_TOKENS_MAX:
            self._cache.clear()
        return self._cache


def _capped(
    lengths: npt.NDArray[np.int64], indices: npt.NDArray[np.uint32], values: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
    """Rows without what is too much of them."""
    kept = np.ones(len(indices), bool)
    ends = np.cumsum(lengths)
    for row in np.flatnonzero(lengths > TERMS_MAX):
        start, end = ends[row] - lengths[row], ends[row]
        order = np.lexsort((indices[start:end], -values[start:end]))
        kept[start + order[TERMS_MAX:]] = False
    return np.minimum(lengths, TERMS_MAX), indices[kept], values[kept]


def idf(doc_count: int, term_counts: Mapping[int, int]) -> dict[int, float]:
    """Inverse document frequency of each term: `ln(1 + (N - n + 0.5) / (n + 0.5))`, always positive.

    Robertson & Zaragoza 2009, eq. 3.3, with the 1 that Lucene adds: very common terms don't count against a text.

    Args:
        doc_count: records that are visible.
        term_counts: term hash to the number of those records that hold it; 0 for terms that none holds.
    """
    weights = {}
    for term, count in term_counts.items():
        # Counts of a version still being repaired may exceed the total for a moment; a weight must stay finite.
        held = min(max(count, 0), doc_count)
        weights[term] = math.log1p((doc_count - held + 0.5) / (held + 0.5))
    return weights


def query_weights(terms: Mapping[int, float], *, doc_count: int, term_counts: Mapping[int, int]) -> dict[int, float]:
    """Query counts times IDF: what a sparse search multiplies stored saturations by.

    Args:
        terms: from `SparseEncoder.query_terms`.
        doc_count: records that are visible.
        term_counts: of those, how many hold each term; absent means none, and such a term gets no weight.
    """
    known = {term: term_counts[term] for term in terms if term_counts.get(term, 0) > 0}
    return {term: terms[term] * weight for term, weight in idf(doc_count, known).items()}


class _Terms(dict[str, tuple[int, ...]]):
    """Token to its term hashes, with repeats where two parts are the same word. Fills itself; pure, so a mere cache."""

    __slots__ = ("stemmer", "stop")

    def __init__(self, *, stop_words: bool, stem: bool) -> None:
        super().__init__()
        self.stop = STOP_WORDS if stop_words else frozenset()
        # Threads may share the stemmer because it holds the interpreter's lock for a whole word. Its own cache is off:
        # this mapping is the better one.
        self.stemmer = Stemmer.Stemmer("english", 0) if stem else None

    def __missing__(self, token: str) -> tuple[int, ...]:
        hashes = self[token] = tuple([mmh3.hash(word, 0, signed=False) for word in self.words(token) if word])
        return hashes

    def words(self, token: str) -> list[str]:
        """The whole token first, then its parts; stop words are empty."""
        if (token.isalnum() and token == token.lower()) or (token.isalpha() and token.istitle()):
            return [self._word(token)]  # no joint is possible: most tokens end here
        if token[0] == "." or not _SIGNS.isdisjoint(token):
            return [self._word(token)]  # its words are found as well
        words = [self._word(token.strip("_"))]
        if len(token) <= _PART_CHARS_MAX:
            parts = [part for part in _JOINT.split(token) if part]
            if len(parts) > 1:
                words.extend(map(self._word, parts))
        return words

    def _word(self, word: str) -> str:
        if not word.isascii():
            return unicodedata.normalize("NFKC", word.casefold())
        folded = word.lower()
        if folded in self.stop:
            return ""
        return str(self.stemmer.stemWord(folded)) if self.stemmer and folded.isalpha() else folded


def _tokens(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_WORD.findall(text) + _signed(text)
    text = unicodedata.normalize("NFKC", text)
    runs = _SPACELESS.findall(text)
    if not runs:
        return _WORD.findall(text) + _signed(text)
    text = _SPACELESS.sub(" ", text)
    tokens: list[str] = _WORD.findall(text) + _signed(text)
    for run in runs:
        if len(run) == 1:
            tokens.append(run)
        else:
            tokens.extend(map(str.__add__, run, run[1:]))
    return tokens


def _signed(text: str) -> list[str]:
    """Names with a sign, beside the words in them."""
    text = f" {text}"  # the first name, too, has something before it
    found = []
    for match in _SIGNED.finditer(text):
        at = match.start()
        before = None if text[at] == "." else _BEFORE_SIGN.search(text, max(at - _PART_CHARS_MAX, 0), at)
        if before is None:
            found.append(match[0])
        elif before.end() - before.start() < _PART_CHARS_MAX:
            found.append(before[0] + match[0])
    return found


def _rows(
    texts: Sequence[str], terms: _Terms
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.float32]]:
    """Row lengths, indices and values of at most `_TEXTS_AT_ONCE` texts, all their terms in one numpy pass."""
    counters = [Counter(_tokens(text)) for text in texts]
    sizes = np.fromiter(map(len, counters), np.int64, len(counters))
    total = int(sizes.sum())
    counts = np.fromiter(chain.from_iterable(counter.values() for counter in counters), np.int64, total)
    # Most tokens are one term, stop words none, compounds several: `widths` says how many.
    found = list(map(terms.__getitem__, chain.from_iterable(counters)))
    widths = np.fromiter(map(len, found), np.int64, total)
    hashes = np.fromiter(chain.from_iterable(found), np.int64, int(widths.sum()))
    rows = np.repeat(np.arange(len(texts), dtype=np.int64), sizes)

    # Several tokens of a text may share a term. Row, term and count are packed into one integer each, so that one plain
    # sort (several times faster than sorting positions) brings equal terms of a text together; then each run is added.
    packed = np.repeat((rows << _ROW_SHIFT) | np.minimum(counts, _COUNT_MAX), widths)
    packed |= hashes << _TERM_SHIFT
    packed.sort()
    keys = packed >> _TERM_SHIFT
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    frequency = np.add.reduceat(packed & _COUNT_MAX, firsts) if len(packed) else packed
    keys = keys[firsts]
    row = keys >> (_ROW_SHIFT - _TERM_SHIFT)
    length = np.bincount(row, weights=frequency, minlength=len(texts))
    norm = K1 * (1.0 - B + B * length / AVERAGE_LENGTH)
    values = (frequency / (frequency + norm[row])).astype(np.float32)
    return np.bincount(row, minlength=len(texts)), (keys & 0xFFFFFFFF).astype(np.uint32), values


DEFAULT: Final = SparseEncoder()
"""The encoder of every recipe that names no other."""
ENCODER_IDENTITY: Final = DEFAULT.identity
encode = DEFAULT.encode
query_terms = DEFAULT.query_terms
