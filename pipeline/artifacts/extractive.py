"""The extractive model: answers every task from the text's own sentences, the same way every time. Pure, no network.

It writes nothing of its own. Names come from `candidates`, notes are the sentences that hold them (those that define
first), summaries are the most central sentences in their order (LexRank's idea: Erkan & Radev 2004, by the degree of
overlap), tables come from the text's own tables and from lines `Column: value`. What it can't do is understand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pipeline.artifacts import names
from pipeline.artifacts.candidates import Candidate, Reading, Sentence, read, sentences
from pipeline.artifacts.extractive_tables import DATE, columns_of, rows_of, values_of
from pipeline.models import DocumentTask, EdgeSpec, MentionsTask, ReduceTask, SameTask, Task, TypeSpec

VERSION = 1
"""Part of the model's name: another version gives other answers."""

SUMMARY_SENTENCES = 6
REDUCED_SENTENCES = 12
CENTRAL_SENTENCES_MAX = 400
"""Sentences that are compared with each other; of longer texts the first ones."""
TOPICS_MAX = 40

_DEFINES = re.compile(
    r"^\W*(?:(?:is|are|was|were|means|denotes|refers to|consists of|describes|provides)\b|\(|[:\u2013\u2014-]\s)"
)
_LISTED = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_MARKS = re.compile(r"[*_`#>|]+")


def answer(task: Task) -> str:
    """The reply, as JSON of the task's schema."""
    if isinstance(task, MentionsTask):
        value: dict[str, Any] = _mentions(task)
    elif isinstance(task, DocumentTask):
        value = {"rows": rows_of(task)} if task.type.columns else _summary(task)
    elif isinstance(task, ReduceTask):
        value = {"row": _merged_row(task)} if task.type.columns else {"body": _reduced(task)}
    else:
        value = _same(task)
    return json.dumps(value, ensure_ascii=False)


# ---- mentions


def _mentions(task: MentionsTask) -> dict[str, Any]:
    reading = read(task.text, task.title)
    found: list[tuple[TypeSpec, Candidate]] = []
    for spec, candidates in _by_type(task.types, reading, task.text).items():
        found += [(spec, candidate) for candidate in candidates]
    mentions = []
    for spec, candidate in found:
        note, quote = _note(reading.sentences, candidate, task.mention_chars)
        item: dict[str, Any] = {
            "type": spec.name,
            "name": candidate.name,
            "aliases": list(candidate.aliases),
            "mention": note,
            "quote": quote,
        }
        if any(t.columns for t in task.types):
            item["values"] = {
                name: cell
                for t in task.types
                for name, cell in (
                    values_of(t, note, candidate.name) if t is spec else dict.fromkeys(columns_of(t))
                ).items()
            }
        mentions.append(item)
    value: dict[str, Any] = {"mentions": mentions}
    if task.edges:
        value["edges"] = _edges(task.edges, found, reading.sentences)
    return value


def _by_type(types: Sequence[TypeSpec], reading: Reading, text: str) -> dict[TypeSpec, list[Candidate]]:
    out: dict[TypeSpec, list[Candidate]] = {spec: [] for spec in types}
    named = [spec for spec in types if spec.kind in ("entity", "page", "doc", "summary")]
    for candidate in reading.candidates:
        spec = _type_of(candidate, named, reading.sentences)
        if spec is not None:
            out[spec].append(candidate)
    for spec in types:
        if spec.kind == "topic":
            out[spec] = _topics(reading, text)
        elif spec.kind == "event":
            out[spec] = _events(reading)
    return out


_CUES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    # What a type may be called, and words of a name, or around one, that speak for it.
    "person": (
        names.word_set("person people human author character employee staff member contact individual who"),
        names.word_set(
            "born died he she his her actor actress singer writer poet director king queen president minister mayor professor "
            "engineer manager nurse footballer player politician composer son daughter wife husband brother sister"
        ),
    ),
    "organisation": (
        names.word_set("organisation organization company companies firm institution team vendor supplier employer"),
        names.word_set(
            "company firm founded headquartered subsidiary inc ltd gmbh corporation university institute agency ministry "
            "association foundation bank club team league party school college council committee group"
        ),
    ),
    "place": (
        names.word_set("place location city cities country town region site area geography"),
        names.word_set(
            "city town village river lake mountain county province district island capital located north south east west "
            "region state bay valley street bridge port coast"
        ),
    ),
    "product": (
        names.word_set("product model device tool system software service machine component part release"),
        names.word_set(
            "version release device model firmware software pump engine router tool supports manual upgrade"
        ),
    ),
    "work": (
        names.word_set("work film book song album movie publication title"),
        names.word_set("film book novel song album directed written published released starring series magazine"),
    ),
}


def _type_of(candidate: Candidate, types: Sequence[TypeSpec], lines: Sequence[Sentence]) -> TypeSpec | None:
    """The type that the name and the sentences around it speak for; the first one where nothing decides."""
    if len(types) < 2:  # noqa: PLR2004 - with one there is nothing to choose
        return types[0] if types else None
    around = Counter(
        word
        for i in candidate.sentences[:5]
        for word in names.normal(lines[i].text).split()
        if word not in names.JOINERS
    )
    own = names.words(candidate.name)

    def score(spec: TypeSpec) -> float:
        told = {names.singular(w) for w in names.words(f"{spec.name} {spec.description}")} | set(
            names.words(f"{spec.name} {spec.description}")
        )
        total = 0.0
        for called, cues in _CUES.values():
            if called & told:
                total += sum(min(around[w], 2) for w in cues) / 2 + 2 * sum(w in cues for w in own)
        total += sum(min(around[w], 1) for w in told if len(w) > 3) / 4  # noqa: PLR2004 - short words say nothing
        if _CUES["person"][0] & told and 2 <= len(own) <= 4 and all(w.isalpha() for w in own):  # noqa: PLR2004
            total += 1 + 2 * (names.words(candidate.name)[0] in names.TITLES)
        if _CUES["product"][0] & told and any(c.isdigit() for c in candidate.name):
            total += 2
        return total

    return max(types, key=lambda spec: (score(spec), -types.index(spec)))


def _topics(reading: Reading, text: str) -> list[Candidate]:
    """Headings, and names and pairs of words that the text keeps coming back to."""
    found: dict[tuple[str, ...], Candidate] = {}
    for candidate in reading.candidates:
        if len(candidate.sentences) > 1:
            found[names.core(candidate.name)] = candidate
    for hit in re.finditer(r"^#{1,6}\s+(.+?)\s*#*$", text, re.MULTILINE):
        title = names.display(_MARKS.sub(" ", hit.group(1)))
        if names.usable(title) and len(title.split()) <= 8:  # noqa: PLR2004 - longer ones are sentences
            inside = [i for i, s in enumerate(reading.sentences) if names.occurs(title, names.normal(s.text))]
            following = [i for i, s in enumerate(reading.sentences) if s.start >= hit.end()][:3]
            found.setdefault(names.core(title), Candidate(title, [hit.span(1)], sorted({*inside, *following})))
    pairs: Counter[tuple[str, str]] = Counter()
    for sentence in reading.sentences:
        plain = names.normal(sentence.text).split()
        pairs.update({(a, b) for a, b in pairwise(plain) if _solid(a) and _solid(b)})
    for (a, b), count in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        if count < 3 or len(found) >= TOPICS_MAX:  # noqa: PLR2004 - twice may be chance
            break
        name = f"{a} {b}"
        inside = [i for i, s in enumerate(reading.sentences) if names.occurs(name, names.normal(s.text))]
        found.setdefault(names.core(name), Candidate(name, [], inside))
    return list(found.values())[:TOPICS_MAX]


def _solid(word: str) -> bool:
    return len(word) > 3 and word.isalpha() and word not in names.COMMON and names.telling_words(word) != ()  # noqa: PLR2004


def _events(reading: Reading) -> list[Candidate]:
    """Sentences with a date and a name."""
    found = []
    for i, sentence in enumerate(reading.sentences):
        date = DATE.search(sentence.text)
        who = next((c for c in reading.candidates if i in c.sentences), None)
        if date is not None and who is not None:
            clause = re.split(r"[;:]|,\s+(?:which|who|and|but)\b", sentence.text, maxsplit=1)[0]
            name = names.display(_MARKS.sub(" ", clause))[:120].rstrip(" ,.;:")
            found.append(Candidate(name, [(sentence.start, sentence.end)], [i]))
    return found


def _note(lines: Sequence[Sentence], candidate: Candidate, limit: int) -> tuple[str, str]:
    """The sentences that hold a name, the defining ones first, and the first of them as the quote."""
    held = [lines[i] for i in candidate.sentences]
    spellings = (candidate.name, *candidate.aliases)
    held.sort(key=lambda s: (not _defines(s.text, spellings), s.start))
    quote = held[0].text if held else candidate.name
    note, used = "", set[str]()
    for sentence in held:
        text = _plain(sentence.text)
        if text in used:
            continue
        used.add(text)
        joined = f"{note} {text}".strip()
        if len(joined) > limit:
            note = note or text[: limit - 1].rsplit(" ", 1)[0] + "…"
            break
        note = joined
    return note, quote[:400]


def _plain(sentence: str) -> str:
    """A sentence without marks of lists and emphasis, on one line."""
    return " ".join(_MARKS.sub(" ", _LISTED.sub("", sentence)).split())


def _defines(sentence: str, spellings: Iterable[str]) -> bool:
    for spelling in spellings:
        at = sentence.find(spelling)
        if 0 <= at < 8 and _DEFINES.match(sentence[at + len(spelling) :]):  # noqa: PLR2004 - an article may stand before
            return True
    return False


# ---- edges


def _edges(
    specs: Sequence[EdgeSpec], found: Sequence[tuple[TypeSpec, Candidate]], lines: Sequence[Sentence]
) -> list[dict[str, Any]]:
    """Two names in a sentence with the relation's own words between or around them; any two for `mentions` and the like."""
    out = []
    by_sentence: dict[int, list[tuple[str, Candidate]]] = {}
    for spec, candidate in found:
        for i in candidate.sentences:
            by_sentence.setdefault(i, []).append((spec.name, candidate))
    for edge in specs:
        cues = _edge_words(edge)
        for i, present in sorted(by_sentence.items()):
            sentence = lines[i].text
            for left_type, left in present:
                for right_type, right in present:
                    if left is right or (left_type, right_type) != (edge.source, edge.target):
                        continue
                    if _related(sentence, left, right, cues):
                        item = {"edge": edge.name, "from": left.name, "to": right.name, "quote": sentence[:400]}
                        if edge.attributes:
                            item["attributes"] = dict.fromkeys(edge.attributes)  # type: ignore[assignment]
                        out.append(item)
    return out


_ANY_RELATION = names.word_set(
    "mention related relate link connected reference co occur associated association see also"
)


def _stem(word: str) -> str:
    """The beginning that forms of an English word share."""
    for ending in ("ing", "ies", "ied", "es", "ed", "er", "or", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:  # noqa: PLR2004
            return word[: -len(ending)]
    return word


def _edge_words(edge: EdgeSpec) -> frozenset[str] | None:
    """Stems that show the relation; None where any company does."""
    own = [
        w
        for w in names.words(re.sub(r"[_-]", " ", edge.name))
        if w not in names.JOINERS and w not in {"by", "to", "has", "is"}
    ]
    if not own or all(names.singular(w) in _ANY_RELATION for w in own):
        return None
    return frozenset(_stem(w) for w in own)


def _related(sentence: str, left: Candidate, right: Candidate, cues: frozenset[str] | None) -> bool:
    if cues is None:
        return True
    a, b = _place(sentence, left), _place(sentence, right)
    if a is None or b is None or a >= b:
        return False
    between = [_stem(w) for w in names.normal(sentence[a:b]).split()]
    return any(w in cues for w in between)


def _place(sentence: str, candidate: Candidate) -> int | None:
    places = [at for s in (candidate.name, *candidate.aliases) if (at := sentence.find(s)) >= 0]
    return min(places) if places else None


# ---- documents


def _summary(task: DocumentTask) -> dict[str, str]:
    lines = [s for s in sentences(task.text) if len(s.text.split()) > 3]  # noqa: PLR2004 - fewer words say nothing
    chosen = _central(lines, SUMMARY_SENTENCES)
    title = task.title or next((names.display(_MARKS.sub(" ", s.text))[:120] for s in sentences(task.text)), "")
    topics = [t for t in task.type.coverage if any(names.occurs(t, names.normal(s.text)) for s in lines)]
    for topic in topics:
        spoken = next(s for s in lines if names.occurs(topic, names.normal(s.text)))
        if spoken not in chosen:
            chosen = sorted([*chosen, spoken], key=lambda s: s.start)
    body = " ".join(_plain(s.text) for s in chosen)
    return {"title": title, "body": body or " ".join(task.text.split())[:1000]}


def _central(lines: Sequence[Sentence], count: int) -> list[Sentence]:
    """The sentences that share most with the others, in their order; the first one weighs a little more."""
    lines = list(lines[:CENTRAL_SENTENCES_MAX])
    bags = [frozenset(names.telling_words(s.text)) for s in lines]
    frequent = Counter(word for bag in bags for word in bag)
    weight = [
        sum(frequent[w] - 1 for w in bag) / (len(bag) + 4) * (1.3 if i == 0 else 1.0) if bag else 0.0
        for i, bag in enumerate(bags)
    ]
    order = sorted(range(len(lines)), key=lambda i: (-weight[i], i))
    kept: list[int] = []
    for i in order:
        if len(kept) == count:
            break
        if all(len(bags[i] & bags[j]) < 0.7 * max(min(len(bags[i]), len(bags[j])), 1) for j in kept):
            kept.append(i)
    return [lines[i] for i in sorted(kept)]


# ---- subjects


def _reduced(task: ReduceTask) -> str:
    """Sentences of the notes, each once, definitions first, each with the notes that say it."""
    said: dict[str, tuple[str, list[int]]] = {}
    for i, note in enumerate(task.notes, 1):
        for sentence in sentences(note):
            key = names.normal(sentence.text)
            if key:
                said.setdefault(key, (sentence.text, []))[1].append(i)
    spellings = (task.name, *task.aliases)
    order = sorted(
        said.values(), key=lambda entry: (not _defines(entry[0], spellings), -len(set(entry[1])), entry[1][0])
    )
    out = []
    for text, sources in order[:REDUCED_SENTENCES]:
        cited = "".join(f"[{i}]" for i in dict.fromkeys(sources[:5]))
        out.append(f"{text} {cited}")
    return "\n".join(out)


def _merged_row(task: ReduceTask) -> dict[str, Any]:
    """Each column's last value; what no note gives, from the notes' text."""
    row: dict[str, Any] = dict.fromkeys(columns_of(task.type))
    for values in task.values:
        row.update({k: v for k, v in values.items() if k in row and v is not None})
    text = "\n".join(task.notes)
    found: Mapping[str, Any] = values_of(task.type, text, task.name)
    return {k: v if v is not None else found[k] for k, v in row.items()}


def _same(task: SameTask) -> dict[str, Any]:
    """Whether the notes share enough words; asked only where somebody configures this model as the judge."""
    left, right = (
        frozenset(w for n in notes for w in names.telling_words(n)) for notes in (task.left_notes, task.right_notes)
    )
    share = len(left & right) / max(min(len(left), len(right)), 1)
    return {"same": share >= 0.5, "reason": f"{share:.0%} of the words in common"}  # noqa: PLR2004
