"""Groups of mentions: their names and stable keys, and what people decided about them. Pure values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.artifacts import names
from pipeline.artifacts.clusters import Cluster, Mention, Merge


@dataclass(frozen=True, slots=True)
class Decisions:
    """What people decided about one type's names, as normalised names."""

    pinned: tuple[tuple[str, str], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    split: tuple[tuple[str, frozenset[str]], ...] = ()
    """Name, and the sources in which it means something of its own."""


UNDECIDED = Decisions()
"""Nobody has decided anything."""


@dataclass(frozen=True, slots=True)
class Group:
    """One subject."""

    key: str
    """Stable: of the least spelling in normal form; namesakes after the first carry their first source."""
    name: str
    aliases: tuple[str, ...]
    mentions: tuple[Mention, ...]
    merges: tuple[Merge, ...]

    @property
    def documents(self) -> int:
        """Sources that speak of it."""
        return len({m.path for m in self.mentions})


def keyed(clusters: Sequence[Cluster]) -> list[Group]:
    """Groups with names and keys.

    The key is the canonical name's normal form; of namesakes the one whose first source comes first has it plain, the
    others with their first source.
    """
    named = []
    for cluster in clusters:
        members = tuple(sorted(cluster.mentions, key=lambda m: (m.path, m.seq, m.id)))
        spelled = Counter(m.name for m in members)
        name = min(spelled, key=lambda s: (-spelled[s], -len(names.core(s)), s.isupper(), s))
        others = tuple(sorted({s for m in members for s in (m.name, *m.aliases)} - {name}))
        named.append((" ".join(names.core(name)), name, others, members, cluster))
    named.sort(key=lambda item: (item[0], item[3][0].path, item[3][0].seq))
    out, seen = [], set[str]()
    for plain, name, aliases, ordered, cluster in named:
        key = plain if plain not in seen else f"{plain} ({ordered[0].path}#{ordered[0].seq})"
        seen.add(plain)
        merges = sorted(set(cluster.merges), key=lambda m: (m.left, m.right, m.rule, m.evidence))
        out.append(Group(key, name, aliases, ordered, tuple(merges)))
    return out


def decisions_of(rows: Mapping[str, Iterable[tuple[str, str, frozenset[str]]]]) -> Decisions:
    """Decisions by kind as grouping takes them; names in any spelling."""
    normal = names.normal
    return Decisions(
        tuple((normal(a), normal(b)) for a, b, _ in rows.get("pin", ())),
        tuple((normal(a), normal(b)) for a, b, _ in rows.get("forbid", ())),
        tuple((normal(a), paths) for a, _, paths in rows.get("split", ())),
    )
