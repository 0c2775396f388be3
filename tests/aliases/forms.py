"""The subjects of a world, and all the ways in which each of their names may be written."""

import random
import re
import unicodedata
from dataclasses import dataclass

from aliases.words import LEGAL, WOMEN, World

LETTERS_WITHOUT_MARKS = str.maketrans("øØłŁđĐ", "oOlLdD")


@dataclass(frozen=True)
class Form:
    """One way of writing a subject's name, and the variation that it shows."""

    surface: str
    variation: str


@dataclass
class Subject:
    """One thing in the world, with every way that it may be written."""

    id: str
    kind: str
    thing: str
    group: str
    split: str
    forms: list[Form]
    context: list[str]

    @property
    def canonical(self) -> str:
        return self.forms[0].surface


def without_accents(name: str) -> str:
    decomposed = unicodedata.normalize("NFD", name.translate(LETTERS_WITHOUT_MARKS))
    return "".join(c for c in decomposed if not unicodedata.combining(c))


def folded(name: str) -> str:
    """What two surfaces have in common when a hurried reader can't tell them apart."""
    plain = without_accents(unicodedata.normalize("NFKC", name)).casefold()
    return "".join(c for c in plain if c.isalnum())


def full_width(name: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in name)


def spelled(names: list[tuple[str, str]]) -> list[Form]:
    """The given forms, and what typing and encoding make of the first."""
    first = names[0][0]
    made = [
        *names,
        (first.upper(), "case"),
        (without_accents(first), "accent"),
        (unicodedata.normalize("NFD", first), "nfd"),
        (first.replace(" ", "\u00a0"), "no-break space"),
    ]
    if first.isascii():
        made.append((full_width(first), "full width"))
    if "-" in first:
        made.append((first.replace("-", " "), "hyphen"))
    kept: dict[str, str] = {}
    for surface, variation in made:
        kept.setdefault(surface, variation)
    return [Form(surface, variation) for surface, variation in kept.items()]


def person_forms(name: str, rng: random.Random) -> list[Form]:
    first, middle, last = name.split(" ")
    titles = ("Dr.", "Prof.", "Ms" if first in WOMEN.split() else "Mr")
    return spelled(
        [
            (f"{first} {last}", "plain"),
            (f"{first} {middle[0]}. {last}", "middle initial"),
            (f"{first} {middle} {last}", "middle name"),
            (f"{first[0]}. {middle[0]}. {last}", "initials"),
            (f"{first[0]}. {last}", "initials"),
            (f"{rng.choice(titles)} {first} {last}", "title"),
            (last, "surname"),
        ]
    )


def product_forms(name: str) -> list[Form]:
    if name[-1].isdigit():
        return spelled([(name, "plain"), (name.replace(" ", "-"), "hyphen"), (name.replace(" ", ""), "closed up")])
    plural = re.sub("y$", "ie", name) + "s"
    more = [(plural, "plural"), (without_accents(plural), "accent and plural")]
    return spelled([(name, "plain"), *([(name + "es", "plural")] if name.endswith("x") else more)])


def place_forms(name: str) -> list[Form]:
    head, _, rest = name.partition(" ")
    if head in {"Lake", "River"}:
        return spelled([(name, "plain"), (f"{rest} {head}", "word order")])
    short = {"Mount": ("Mt.", "Mt"), "Saint": ("St.", "St")}.get(head, ())
    return spelled([(name, "plain"), *((f"{s} {rest}", "abbreviation") for s in short)])


def company_forms(name: str, suffix: str, *, founder: bool) -> list[Form]:
    """A company named like its founder is never written without its legal suffix."""
    written = [(f"{name} {s}", "legal suffix") for s in LEGAL[suffix]]
    if founder:
        return spelled([(written[0][0], "plain"), *written[1:]])
    return spelled([(name, "plain"), *written])


def body_forms(name: str, acronym: str) -> list[Form]:
    return [*spelled([(name, "plain")]), Form(acronym, "acronym"), Form(".".join(acronym) + ".", "dotted acronym")]


def entries(text: str) -> list[tuple[str, str, str]]:
    """(name, what it is, namesake group) for each entry of a world's line."""
    parts = [re.fullmatch(r"([^=@]+)(?:=([^@]+))?(?:@(.+))?", entry) for entry in text.split("|")]
    return [(p[1], p[2] or "", p[3] or "") for p in parts if p]


def subjects_of(world: World, number: int, rng: random.Random) -> list[Subject]:
    found: list[Subject] = []

    def add(kind: str, thing: str, group: str, forms: list[Form]) -> None:
        name = f"w{number:02d}-{kind}-{len(found) + 1:02d}"
        context = [world.field, world.region, *([thing] if kind in {"person", "product", "place"} else [])]
        found.append(Subject(name, kind, thing, group, world.split, forms, context))

    people = entries(world.people)
    founders = {f"{n.split(' ')[0]} {n.split(' ')[-1]}" for n, _, _ in people}
    [(name, suffix, group)] = entries(world.company)
    add("organisation", "company", group, company_forms(name, suffix, founder=name in founders))
    [(name, acronym, group)] = entries(world.body)
    add("organisation", "body", group, body_forms(name, acronym))
    for (name, _, group), role in zip(people, world.roles.split("|"), strict=True):
        add("person", role, group, person_forms(name, rng))
    for name, thing, group in entries(world.products):
        add("product", thing, group, product_forms(name))
    for name, thing, group in entries(world.places):
        add("place", thing, group, place_forms(name))
    for name, _, group in entries(world.prize) if world.prize else []:
        add("organisation", "prize", group, spelled([(name, "plain"), (name.split(" ", 1)[1], "shortened")]))
    return found
