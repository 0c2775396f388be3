"""How well a context's subjects agree with the alias set: pairwise precision and recall, by the rules of README.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.artifacts import names
from pipeline.ledger import Ledger
from pipeline.types import ContextSlug

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Score:
    """Of one half."""

    found: int
    """Gold mentions that the system has as a mention, too."""
    gold: int
    precision: float
    """Share of pairs put together that belong together."""
    recall: float
    """Share of pairs of found mentions that belong together and were put together."""
    recall_of_all: float
    """The same, of the pairs of all gold mentions."""


def documents(split: str) -> Iterator[dict[str, Any]]:
    """One half's documents."""
    with (HERE / "set.jsonl").open(encoding="utf-8") as lines:
        yield from (d for d in map(json.loads, lines) if d["split"] == split)


def score(ledger: Ledger, slug: ContextSlug, type_: str, split: str) -> Score:
    """Score the live version's subjects of a type. Paths of sources are those of the set."""
    owner: dict[tuple[str, str], str] = {}
    with ledger.read() as session:
        context = session.contexts.get(slug)
        assert context is not None
        live, after = context.live_version, ""
        subjects = [s for s in session.knowledge.page_subjects(slug, live, after, 100_000) if s.type == type_]
        member_of = {m.id: m.subject for m in session.knowledge.members_at(slug, live, [s.id for s in subjects])}
        for row in session.knowledge.page_statements(slug, live, "mention", after, 1_000_000):
            if row.id in member_of:
                for spelling in (row.name, *json.loads(row.data)["aliases"]):
                    owner.setdefault((row.path, names.normal(spelling)), member_of[row.id])
    pairs, gold = Counter[tuple[str, str]](), Counter[str]()
    for document in documents(split):
        for mention in document["mentions"]:
            gold[mention["subject"]] += 1
            subject = owner.get((document["path"], names.normal(mention["surface"])))
            if subject is not None:
                pairs[subject, mention["subject"]] += 1
    system, truth = Counter[str](), Counter[str]()
    for (subject, meant), n in pairs.items():
        system[subject] += n
        truth[meant] += n
    right = _pairs(pairs)
    return Score(
        sum(pairs.values()), sum(gold.values()), right / _pairs(system), right / _pairs(truth), right / _pairs(gold)
    )


def _pairs(counts: Counter[Any]) -> int:
    return sum(n * (n - 1) // 2 for n in counts.values())
