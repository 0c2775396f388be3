"""Writes the alias set: `set.jsonl` (documents and their mentions) and `subjects.jsonl` (who is meant).

Run as a script to write both files anew. The same code gives the same bytes: one seeded generator draws everything.
"""

import json
import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aliases import templates
from aliases.forms import Form, Subject, folded, subjects_of
from aliases.words import WORLDS, World

HERE = Path(__file__).resolve().parent
SEED = 20_240_917
DOCUMENTS_PER_WORLD = 13
WEIGHTS = {  # how readily a variation is drawn, while new; others 2.5, the plain name 8 or 14
    "full width": 0.7,
    "no-break space": 1.0,
    "nfd": 1.5,
    "case": 2.0,
    "accent": 4.0,
    "plural": 9.0,
    "accent and plural": 4.0,
    "hyphen": 4.0,
    "word order": 5.0,
    "abbreviation": 3.0,
    "shortened": 4.0,
    "surname": 5.0,
}
SHORT = ("surname", "initials")  # forms that lean on the full name, when somebody else may bear them


@dataclass
class Cast:
    """All worlds' subjects, and the folded names that more than one of them bears."""

    rng: random.Random
    worlds: list[tuple[World, list[Subject]]]
    shared: set[str]
    used: Counter[str] = field(default_factory=Counter)
    expanded: set[str] = field(default_factory=set)
    tellings: Counter[str] = field(default_factory=Counter)


@dataclass
class Draft:
    """A document being written: pieces of text, and where names stand in them."""

    cast: Cast
    world: World
    subjects: list[Subject]
    genre: str
    mixed: bool = False
    clipped: bool = False  # bodies go by their acronyms alone
    text: str = ""
    mentions: list[dict[str, object]] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)

    def allowed(self, subject: Subject, *, plural: bool) -> list[Form]:
        """Forms that a fair reader can trace to the subject at this place of this document."""
        forms = []
        for form in subject.forms:
            key = folded(form.surface)
            shared = key in self.cast.shared
            first = subject.id not in self.named
            leans = form.variation == "surname" or (form.variation in SHORT and shared)
            if self.taken.get(key, subject.id) != subject.id or (leans and first) or (shared and self.mixed):
                continue
            if ("plural" in form.variation and not plural) or (
                self.clipped and subject.thing == "body" and "acronym" not in form.variation
            ):
                continue
            forms.append(form)
        return forms

    def name(self, subject: Subject, *, plural: bool, after: str = "") -> None:
        """Write one mention; rarely used variations are drawn more often than their number gives."""
        forms = self.allowed(subject, plural=plural)
        uses = [self.cast.used[subject.id + f.surface] for f in forms]
        varied = any(n for f, n in zip(forms, uses, strict=True) if f.variation != "plain")
        first = subject.id not in self.named and subject.kind == "person"
        weights = [
            (
                (14.0 if first else 8.0) / (1 if varied else 1 + 50 * (n > 0))
                if f.variation == "plain"
                else WEIGHTS.get(f.variation, 2.5) / (1 + n) ** 1.5
            )
            for f, n in zip(forms, uses, strict=True)
        ]
        self.write_form(subject, self.cast.rng.choices(forms, weights)[0], after)

    def write_form(self, subject: Subject, form: Form, after: str = "") -> None:
        self.cast.used[subject.id + form.surface] += 1
        article = subject.thing in {"body", "prize"} or subject.thing == "river"
        if article and "acronym" not in form.variation:
            starts = not self.text or self.text[-1] == "\n" or self.text.endswith((". ", "- ", ": ", "# "))
            self.text += "The " if starts else "the "
        start = len(self.text)
        self.text += form.surface
        self.mentions.append(
            {
                "start": start,
                "end": len(self.text),
                "surface": form.surface,
                "subject": subject.id,
                "variation": form.variation,
                "possessive": bool(after),
            }
        )
        if after:
            self.text += self.cast.rng.choice(("'", "\u2019")) + ("" if form.surface[-1] in "sS" else "s")
        self.taken[folded(form.surface)] = subject.id
        if form.variation not in SHORT:
            self.named.add(subject.id)

    def other(self, kind: str, besides: Subject | None) -> Subject:
        """A companion for the sentence: the company or body, a place or a person that may be named here."""
        fitting = [s for s in self.subjects if s.kind == kind and s is not besides and s.thing != "prize"]
        return self.cast.rng.choice([s for s in fitting if self.allowed(s, plural=False)])

    def sentence(self, template: str, subject: Subject | None) -> None:
        rng, world = self.cast.rng, self.world
        word, other = rng.sample(world.words.split("|"), 2)
        plain = {"word": word, "other": other, "field": world.field, "region": world.region}
        plain |= {"year": str(rng.randint(1962, 2023)), "n": str(rng.randint(3, 90))}
        plain["thing"] = plain["role"] = subject.thing if subject else ""
        plural = "{thing}" not in template
        for piece in re.split(r"(\{\w+\}(?:'s)?)", template):
            slot = re.fullmatch(r"\{(\w+)\}('s)?", piece)
            if slot is None:
                dotted = piece.startswith(".") and self.text.endswith(".")
                self.text += piece[1:] if dotted else piece
            elif slot[1] in plain:
                value = plain[slot[1]] + (slot[2] or "")
                if self.text.endswith(" a ") and value[0] in "aeiou":
                    self.text = self.text[:-1] + "n "
                self.text += value
            elif slot[1] == "S" and subject:
                self.name(subject, plural=plural, after=slot[2] or "")
            elif slot[1] in "LA" and subject:
                wanted = "plain" if slot[1] == "L" else "acronym"
                self.write_form(subject, next(f for f in subject.forms if f.variation == wanted))
            elif slot[1] == "E":
                self.name(self.employer(subject), plural=False)
            else:
                self.name(self.other({"P": "place", "Q": "person"}[slot[1]], subject), plural=False)

    def employer(self, subject: Subject | None) -> Subject:
        """The world's company; people with an even number, and what is told of the company, go with the body."""
        company, body = self.subjects[0], self.subjects[1]
        even = subject is not None and subject.kind == "person" and int(subject.id[-2:]) % 2 == 0
        chosen = body if even or subject is company else company
        return chosen if self.allowed(chosen, plural=False) else company

    def unsaid(self, choices: tuple[str, ...]) -> str:
        """A template that this document hasn't used, while there is one."""
        chosen = self.cast.rng.choice([c for c in choices if c not in self.said] or choices)
        self.said.add(chosen)
        return chosen

    def told(self, subject: Subject) -> None:
        """The sentences about one subject: an introduction, and up to two more."""
        rng = self.cast.rng
        namesake = any(folded(f.surface) in self.cast.shared for f in subject.forms)
        chance = rng.random()
        if subject.thing == "prize":
            self.sentence(self.unsaid(templates.PRIZE), subject)
            return
        define = chance < 0.5 or subject.id not in self.cast.expanded
        if subject.thing == "body" and define and not (self.mixed or self.clipped):
            self.cast.expanded.add(subject.id)
            self.sentence(self.unsaid(templates.DEFINITIONS), subject)
        elif chance > 0.85 and not namesake and not self.mixed:
            self.sentence(self.unsaid(templates.BARE[subject.kind]), subject)
        else:
            self.sentence(self.unsaid(templates.INTRODUCTIONS[self.genre][subject.kind]), subject)
        for _ in range(rng.choice((0, 1, 1, 1) if self.mixed else (0, 1, 1, 2))):
            self.text += " "
            self.sentence(self.unsaid(templates.FOLLOW_UPS[subject.kind]), subject)

    def body(self, chosen: list[Subject]) -> None:
        """Paragraphs, or list items where the genre has them."""
        listed = self.genre in {"minutes", "catalogue"}
        for subject in chosen:
            self.text += "- " if listed else ""
            self.told(subject)
            if self.cast.rng.random() < 0.5 and not self.mixed:
                self.text += " "
                self.sentence(self.unsaid(templates.CONTINUATIONS[self.genre]), None)
            self.text += "\n" if listed else "\n\n"
        self.text += "\n" if listed else ""
        self.sentence(self.unsaid(templates.CONTINUATIONS[self.genre]), None)
        self.text += "\n"


def least_told(cast: Cast, subjects: list[Subject], count: int) -> list[Subject]:
    """The subjects that the set has told of least, in an order of chance."""
    order = sorted(subjects, key=lambda s: (cast.tellings[s.id], cast.rng.random()))[:count]
    cast.tellings.update(s.id for s in order)
    cast.rng.shuffle(order)
    return order


def document(cast: Cast, place: int, number: int) -> dict[str, object]:
    """One document about one world."""
    world, subjects = cast.worlds[place]
    genre = list(templates.HEADINGS)[(place + number) % len(templates.HEADINGS)]
    clipped = cast.rng.random() < 0.45 and subjects[1].id in cast.expanded
    draft = Draft(cast, world, subjects, genre, clipped=clipped)
    chosen = least_told(cast, subjects, cast.rng.choice((4, 4, 5, 5)))
    heading = cast.rng.choice(templates.HEADINGS[genre])
    product = next((s for s in chosen if s.kind == "product"), subjects[7])
    draft.text = "# "
    draft.sentence(heading, product if "{S}" in heading else None)
    draft.text += "\n\n"
    draft.body(chosen)
    path = f"{world.split}/{genre}-{place:02d}-{number:02d}.md"
    return {"path": path, "split": world.split, "text": draft.text, "mentions": draft.mentions}


def gazette(cast: Cast, first: int, second: int) -> dict[str, object]:
    """A document about two worlds, which names near-namesakes of both side by side."""
    groups = {s.group for s in cast.worlds[first][1]} & {s.group for s in cast.worlds[second][1]} - {""}
    world = cast.worlds[first][0]
    whole = Draft(cast, world, [], "report", mixed=True, text=f"# Gazette of {world.field} and its neighbours\n\n")
    for place in (first, second):
        whole.world, whole.subjects = cast.worlds[place]
        whole.text += f"## News from {whole.world.region}\n\n"
        able = [s for s in whole.subjects if folded(s.canonical) not in cast.shared]
        twins = [s for s in able if s.group in groups and s.thing != "body"]
        whole.body([*twins, *least_told(cast, [s for s in able if s not in twins], max(1, 3 - len(twins)))])
        whole.text += "\n"
    text = whole.text.rstrip("\n") + "\n"
    path = f"{world.split}/gazette-{first:02d}-{second:02d}.md"
    return {"path": path, "split": world.split, "text": text, "mentions": whole.mentions}


def neighbours(cast: Cast) -> list[tuple[int, int]]:
    """Worlds that share a namesake group whose members' full names differ."""
    homes: dict[str, list[tuple[int, Subject]]] = {}
    for place, (_, subjects) in enumerate(cast.worlds):
        for subject in subjects:
            homes.setdefault(subject.group, []).append((place, subject))
    pairs = set()
    for group, found in homes.items():
        places = sorted({p for p, s in found if s.thing != "body" and folded(s.canonical) not in cast.shared})
        if group and len(places) > 1:
            pairs.add((places[0], places[1]))
    return sorted(pairs)


def build() -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The whole set: its documents, and its subjects."""
    rng = random.Random(SEED)
    worlds = [(world, subjects_of(world, number, rng)) for number, world in enumerate(WORLDS)]
    bearers = Counter(key for _, found in worlds for s in found for key in {folded(f.surface) for f in s.forms})
    cast = Cast(rng, worlds, {key for key, count in bearers.items() if count > 1})
    documents = [document(cast, p, n) for p in range(len(worlds)) for n in range(DOCUMENTS_PER_WORLD)]
    documents += [gazette(cast, *pair) for pair in neighbours(cast)]
    subjects: list[dict[str, object]] = [
        {
            "id": s.id,
            "kind": s.kind,
            "name": s.canonical,
            "thing": s.thing,
            "group": s.group,
            "split": s.split,
            "forms": [f.surface for f in s.forms],
            "context": s.context,
        }
        for _, found in worlds
        for s in found
    ]
    return documents, subjects


def as_lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows).encode()


def main() -> None:
    documents, subjects = build()
    (HERE / "set.jsonl").write_bytes(as_lines(documents))
    (HERE / "subjects.jsonl").write_bytes(as_lines(subjects))


if __name__ == "__main__":
    main()
