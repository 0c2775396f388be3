"""Mentions that were found to belong together, and the joining of them under constraints. Pure; the rules are `grouping`'s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline.artifacts.links import bucket

SAMPLE = 64
"""Documents of one side that are compared."""


@dataclass(frozen=True, slots=True)
class Mention:
    """What grouping looks at of a statement."""

    id: str
    path: str
    seq: int
    name: str
    aliases: tuple[str, ...] = ()
    company: frozenset[str] = frozenset()
    """Buckets of the other names in its document."""
    text: str = ""
    """What it says, for a judge to read."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Why two spellings, or two groups of documents, are one subject."""

    left: str
    right: str
    rule: str
    evidence: str


@dataclass(slots=True)
class Cluster:
    """Mentions taken to be of one subject."""

    mentions: list[Mention]
    buckets: set[str]
    merges: list[Merge] = field(default_factory=list)
    parts: frozenset[int] = frozenset()
    """Human splits that its mentions fall under."""
    documents: dict[str, frozenset[str]] = field(default_factory=dict)
    """The company of some of its documents: of those that keep enough of it to disagree."""
    density: float | None = None


class Merger:
    """Union of clusters under constraints."""

    def __init__(self, clusters: Sequence[Cluster], conflict: Callable[[Cluster, Cluster, bool], bool]) -> None:
        self._held = [
            Cluster(list(c.mentions), set(c.buckets), list(c.merges), c.parts, dict(c.documents)) for c in clusters
        ]
        self._parent = list(range(len(clusters)))
        self._first = [bucket(c.mentions[0].name) for c in clusters]
        self._conflict = conflict

    def root(self, i: int) -> int:
        """The cluster that holds what was at `i`."""
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def roots(self) -> list[int]:
        """Clusters that were not joined into another."""
        return [i for i, p in enumerate(self._parent) if i == p]

    def at(self, i: int) -> Cluster:
        """The cluster that holds what was at `i`, as it is by now."""
        return self._held[self.root(i)]

    def bucket_of(self, i: int) -> str:
        """The bucket under which `i` began."""
        return self._first[i]

    def join(self, i: int, j: int, why: Merge, *, pinned: bool = False) -> bool:
        """Join two clusters unless a constraint forbids it; whether they are one now."""
        a, b = sorted((self.root(i), self.root(j)))
        if a == b:
            return True
        into, gone = self._held[a], self._held[b]
        if self._conflict(into, gone, pinned):
            return False
        self._parent[b] = a
        if pinned or not into.buckets & gone.buckets:
            into.merges.append(why)
        into.merges += gone.merges
        into.mentions += gone.mentions
        into.buckets |= gone.buckets
        if len(into.documents) < SAMPLE:
            room = SAMPLE - len(into.documents)
            into.documents.update(list(gone.documents.items())[:room])
            into.density = None
        return True

    def clusters(self) -> list[Cluster]:
        """What is left."""
        return [self._held[i] for i in self.roots()]
