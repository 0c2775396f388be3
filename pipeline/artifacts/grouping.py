"""Mentions to subjects: which are about one thing. Pure; a function of the mentions and the human decisions alone.

Names that could be one thing are linked by rules (`links`). Two mentions under linked names are joined

1. where they *agree*: they stand in one document, or their documents name enough other things in common (the company
   that they keep);
2. where the link alone is strong (same name, plural, legal form, an acronym that a text defines), unless the company
   says otherwise: had both been one thing, the documents of one would have been expected to share company with those of
   the other at least `EXPECTED` times, by the rate at which the documents of the larger one do among themselves, and
   they do so at a small part of that rate (a Poisson test of so few links among so many pairs).

Two names of several words stand in one subject only if a rule links them directly, so that John and Joan are not joined
by a J. in between. What people decided goes before everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pipeline.artifacts import names
from pipeline.artifacts.clusters import Cluster, Mention, Merge, Merger
from pipeline.artifacts.groups import UNDECIDED, Decisions, Group, keyed
from pipeline.artifacts.links import Link, bucket, has_initial, link, titled

EXPECTED = 4.0
"""Shared company expected of one thing that makes its absence telling: e^-4 is under two in a hundred."""
DENSITY_MIN = 0.25
"""Where fewer of a subject's own documents share company, its absence elsewhere says nothing."""
COMPANY_MIN = 3
"""Names beside a subject from which on a document can disagree."""
OBSERVED_SHARE = 0.2
"""Part of the expected links below which two sides disagree: a few come of names that are namesakes themselves."""
AGREE_NAMES = 2
"""Names in common that make two documents agree, or a third of the smaller company where it is small."""
AGREE_SHARE = 1 / 3
JUDGED_MAX = 20
"""Questions to a judge about names that meet each other."""
JUDGED_NOTES = 5
SCANNED = 64
TRIED = 8
"""Earlier documents beside the same name that one is compared with."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a judge reads of a group of mentions, and where they stand."""

    name: str
    notes: tuple[str, ...]
    sources: frozenset[str]


Judge = Callable[[Read, Read], str | None]
"""Why two groups are one thing, or None where they aren't or nobody knows."""


def nobody(_left: Read, _right: Read) -> str | None:
    """The judge where there is none."""
    return None


def group(mentions: Iterable[Mention], decisions: Decisions = UNDECIDED, judge: Judge = nobody) -> tuple[Group, ...]:
    """Subjects of the mentions of one type, by key.

    Args:
        mentions: all that share spellings with each other, and any others.
        decisions: of people.
        judge: asked about weak links that no company confirms, `JUDGED_MAX` times for names that meet at most.
    """
    ordered = sorted(mentions, key=lambda m: (m.path, m.seq, m.id))
    found = [g for part in _linked_parts(ordered, decisions) for g in _Grouping(part, decisions).groups(judge)]
    return tuple(sorted(keyed(found), key=lambda g: g.key))


def _linked_parts(ordered: Sequence[Mention], decisions: Decisions) -> list[list[Mention]]:
    """Mentions whose names meet by a blocking key, directly or through others. Parts never influence each other."""
    pinned: dict[str, list[str]] = defaultdict(list)
    for left, right in decisions.pinned:
        pinned[left].append(f"!{left}|{right}")
        pinned[right].append(f"!{left}|{right}")
    holders: dict[str, list[int]] = defaultdict(list)
    for i, mention in enumerate(ordered):
        spellings = (mention.name, *mention.aliases)
        keys = {key for s in spellings for key in names.keys(s)} | {
            p for s in spellings for p in pinned[names.normal(s)]
        }
        for key in keys:
            holders[key].append(i)
    union = _Union(len(ordered))
    for key, held in holders.items():
        for other in names.meets(key):
            for i in (*holders[other], *held) if other in holders else ():
                union.join(held[0], i)
    parts: dict[int, list[Mention]] = defaultdict(list)
    for i, mention in enumerate(ordered):
        parts[union.find(i)].append(mention)
    return [parts[root] for root in sorted(parts)]


class _Union:
    """Disjoint sets of numbers; the least of each stands for it."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        a, b = self.find(i), self.find(j)
        self._parent[max(a, b)] = min(a, b)


class _Grouping:
    """The work on one part."""

    def __init__(self, mentions: Sequence[Mention], decisions: Decisions) -> None:
        self._mentions = mentions
        self._decisions = decisions
        self._spelled: dict[str, set[str]] = defaultdict(set)
        self._defined: set[tuple[str, str]] = set()
        for mention in mentions:
            own = bucket(mention.name)
            self._spelled[own].add(mention.name)
            for alias in mention.aliases:
                other = bucket(alias)
                if other != own:
                    self._defined.add((min(own, other), max(own, other)))
        everything = sorted(self._spelled)
        self._own = frozenset(everything) | {b for pair in self._defined for b in pair}
        self._links = self._link_all(everything)

    def groups(self, judge: Judge) -> list[Cluster]:
        """Clusters in which no two belong together any more."""
        clusters = self._start()
        clusters = self._agreeing(clusters)
        clusters = self._defaults(clusters)
        clusters = self._judged(clusters, judge)
        return self._pinned(clusters)

    # ---- links

    def _link_all(self, buckets: Sequence[str]) -> dict[tuple[str, str], Link]:
        by_key: dict[str, list[str]] = defaultdict(list)
        for b in buckets:
            spellings = {*self._spelled[b], *self._aliases_of(b)}
            for key in sorted({key for s in spellings for key in names.keys(s)}):
                by_key[key].append(b)
        found: dict[tuple[str, str], Link] = {}
        for key, held in by_key.items():
            for pair in self._meeting(key, held, by_key):
                if pair not in found:
                    left, right = pair
                    made = link(self._spelled[left], self._spelled[right], defined=pair in self._defined)
                    if made is not None:
                        found[pair] = made
        people = self._people(found)
        # A firm may be called like its founder, and Hales is no plural of a person called Hale.
        doubtful = {
            pair for pair, made in found.items() if made.rule in ("legal form", "plural") and people & set(pair)
        }
        return {pair: made for pair, made in found.items() if pair not in doubtful}

    def _meeting(self, key: str, held: Sequence[str], by_key: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
        for other in names.meets(key):
            for left in held:
                for right in by_key.get(other, ()):
                    if left < right:
                        yield left, right
                    elif right < left:
                        yield right, left

    def _people(self, found: Mapping[tuple[str, str], Link]) -> set[str]:
        """Buckets that are people's names: some spelling has a title, or somebody is abbreviated to it."""
        people = {b for b, spelled in self._spelled.items() if any(map(titled, spelled))}
        abbreviated = {b for b, spelled in self._spelled.items() if any(map(has_initial, spelled))}
        for (left, right), made in found.items():
            if made.rule == "initials" and {left, right} & (abbreviated | people):
                people |= {left, right}
        return people

    def _aliases_of(self, b: str) -> set[str]:
        return {a for m in self._mentions if bucket(m.name) == b for a in m.aliases} if self._defined else set()

    def _linked(self, left: str, right: str) -> Link | None:
        if left == right:
            return Link("name", strong=True)
        return self._links.get((min(left, right), max(left, right)))

    # ---- clusters

    def _start(self) -> list[Cluster]:
        """One cluster a mention's document and name; what people split stays marked."""
        made: dict[tuple[str, str, frozenset[int]], Cluster] = {}
        for mention in self._mentions:
            spelled = {names.normal(s) for s in (mention.name, *mention.aliases)}
            parts = frozenset(
                i for i, (name, paths) in enumerate(self._decisions.split) if name in spelled and mention.path in paths
            )
            b = bucket(mention.name)
            held = made.setdefault((mention.path, b, parts), Cluster([], {b}, parts=parts))
            held.mentions.append(mention)
        clusters = [made[key] for key in sorted(made, key=lambda k: (k[0], k[1], sorted(k[2])))]
        for cluster in clusters:
            company = self._company(cluster)
            if len(company) >= COMPANY_MIN:
                cluster.documents[cluster.mentions[0].path] = company
        return clusters

    def _agreeing(self, clusters: list[Cluster]) -> list[Cluster]:
        """Join what is linked and keeps company with the same things.

        Strong links first, so that an initial finds the name that it stands for whole.
        """
        merger = Merger(clusters, self.conflict)
        company = [self._company(cluster) for cluster in clusters]
        beside: dict[str, list[int]] = defaultdict(list)
        for i, names_ in enumerate(company):
            for name in sorted(names_):
                beside[name].append(i)
        inside: dict[str, list[int]] = defaultdict(list)
        for i, cluster in enumerate(clusters):
            inside[cluster.mentions[0].path].append(i)
        for strong in (True, False):
            for path in sorted(inside):
                for i, j in combinations(inside[path], 2):
                    self._join(merger, i, j, f"both in {path}", strong=strong)
            for name in sorted(beside, key=lambda n: (len(beside[n]), n)):
                self._join_beside(merger, beside[name], company, name, strong=strong)
        return merger.clusters()

    def _join_beside(
        self, merger: Merger, members: Sequence[int], company: Sequence[frozenset[str]], name: str, *, strong: bool
    ) -> None:
        for n, i in enumerate(members):
            for j in self._near(merger, members[max(n - SCANNED, 0) : n], i):
                if agree(company[i], company[j]):
                    self._join(merger, j, i, f"both beside {name}", strong=strong)

    def _near(self, merger: Merger, before: Sequence[int], i: int) -> list[int]:
        """Some earlier clusters under a linked name that aren't joined yet."""
        own, found = merger.bucket_of(i), []
        for j in reversed(before):
            if merger.root(i) != merger.root(j) and self._linked(own, merger.bucket_of(j)) is not None:
                found.append(j)
                if len(found) == TRIED:
                    break
        return found

    def _join(self, merger: Merger, i: int, j: int, evidence: str, *, strong: bool) -> None:
        left, right = merger.bucket_of(i), merger.bucket_of(j)
        made = self._linked(left, right)
        if made is not None and made.strong is strong:
            merger.join(i, j, Merge(left, right, made.rule, evidence))

    def _defaults(self, clusters: list[Cluster]) -> list[Cluster]:
        """Join what strong links hold together and the company doesn't set apart, the largest clusters first."""
        order = sorted(clusters, key=lambda c: (-len(c.mentions), c.mentions[0].path, c.mentions[0].seq))
        merger = Merger(order, self.conflict)
        for same in (True, False):  # the very same name before every other rule
            kept: list[int] = []
            for i in range(len(order)):
                if merger.root(i) != i or not self._placed(merger, kept, i, same=same):
                    kept.append(i)
        return merger.clusters()

    def _placed(self, merger: Merger, kept: Sequence[int], i: int, *, same: bool) -> bool:
        """Join a cluster to the first one that it may be part of; whether there was one."""
        for j in kept:
            if merger.root(i) == merger.root(j):
                return True
            made = self._strongest(merger.at(j), merger.at(i), same=same)
            if made is None or self._ambiguous(merger, i, j, made[2]) or self._apart(merger.at(i), merger.at(j)):
                continue
            if merger.join(j, i, Merge(made[0], made[1], made[2].rule, "nothing speaks against it")):
                return True
        return False

    def _strongest(self, a: Cluster, b: Cluster, *, same: bool) -> tuple[str, str, Link] | None:
        for left in sorted(a.buckets):
            for right in sorted(b.buckets):
                if (left == right) is same:
                    made = self._linked(left, right)
                    if made is not None and made.strong:
                        return left, right, made
        return None

    def _ambiguous(self, merger: Merger, a: int, b: int, made: Link) -> bool:
        """Whether an acronym could stand for another cluster, too."""
        if made.rule != "acronym":
            return False
        short, full = (a, b) if any(names.as_acronym(s) for s in self._spellings(merger.at(a))) else (b, a)
        others = [
            c
            for c in merger.roots()
            if c not in (short, full) and self._strongest(merger.at(short), merger.at(c), same=False)
        ]
        return bool(others)

    def _spellings(self, cluster: Cluster) -> set[str]:
        return {m.name for m in cluster.mentions}

    def _judged(self, clusters: list[Cluster], judge: Judge) -> list[Cluster]:
        """Ask about weak links, the largest clusters first; a bounded number of times, whatever the corpus holds."""
        if judge is nobody:
            return clusters
        order = sorted(clusters, key=lambda c: (-len(c.mentions), c.mentions[0].path, c.mentions[0].seq))
        merger, asked = Merger(order, self.conflict), 0
        for i, j in combinations(range(len(order)), 2):
            if asked == JUDGED_MAX:
                break
            a, b = merger.at(i), merger.at(j)
            made = self._weakest(a, b)
            if a is b or made is None or self.conflict(a, b, False) or self._apart(a, b):
                continue
            asked += 1
            why = judge(_read_of(a), _read_of(b))
            if why is not None:
                merger.join(i, j, Merge(made[0], made[1], made[2].rule, f"judged: {why}"))
        return merger.clusters()

    def _weakest(self, a: Cluster, b: Cluster) -> tuple[str, str, Link] | None:
        for left in sorted(a.buckets):
            for right in sorted(b.buckets):
                made = self._linked(left, right)
                if made is not None and left != right:
                    return left, right, made
        return None

    def _pinned(self, clusters: list[Cluster]) -> list[Cluster]:
        merger = Merger(clusters, self.conflict)
        for left, right in self._decisions.pinned:
            some = [i for i, c in enumerate(clusters) if _spells(c, left)] + [
                i for i, c in enumerate(clusters) if _spells(c, right)
            ]
            for i in some[1:]:
                merger.join(some[0], i, Merge(left, right, "pinned", "decided by a person"), pinned=True)
        return merger.clusters()

    # ---- evidence

    def _company(self, cluster: Cluster) -> frozenset[str]:
        return frozenset(name for m in cluster.mentions for name in m.company) - self._own

    def conflict(self, a: Cluster, b: Cluster, pinned: bool) -> bool:  # noqa: FBT001 - as Merger calls it
        """Whether two clusters must not be joined."""
        if a.parts != b.parts:
            return True
        for left, right in self._decisions.forbidden:
            if (_spells(a, left) and _spells(b, right)) or (_spells(a, right) and _spells(b, left)):
                return True
        if pinned:
            return False
        left_full = [x for x in a.buckets if not self._is_short(x)]
        right_full = [y for y in b.buckets if not self._is_short(y)]
        return any(self._linked(x, y) is None for x in left_full for y in right_full)

    def _is_short(self, b: str) -> bool:
        return all(names.as_acronym(s) for s in self._spelled[b])

    def _apart(self, a: Cluster, b: Cluster) -> bool:
        """Whether their documents would share company if they were one thing, and hardly do."""
        large, small = (a, b) if len(a.documents) >= len(b.documents) else (b, a)
        if not small.documents:
            return False
        if large.density is None:
            large.density = _density(list(large.documents.values()))
        expected = large.density * len(large.documents) * len(small.documents)
        if large.density < DENSITY_MIN or expected < EXPECTED:
            return False
        seen = sum(agree(x, y) for x in large.documents.values() for y in small.documents.values())
        return seen < OBSERVED_SHARE * expected


def agree(a: frozenset[str], b: frozenset[str]) -> bool:
    """Whether two documents name enough in common."""
    shared = len(a & b)
    return shared >= AGREE_NAMES or shared >= max(1, AGREE_SHARE * min(len(a), len(b)))


def _density(documents: Sequence[frozenset[str]]) -> float:
    """Share of pairs of documents that agree; of a single document nothing is known, so all are taken to."""
    pairs = list(combinations(documents, 2))
    return sum(agree(a, b) for a, b in pairs) / len(pairs) if pairs else 1.0


def _read_of(cluster: Cluster) -> Read:
    """What a judge reads of a cluster: its name and some of what is said of it."""
    notes = dict.fromkeys(m.text for m in cluster.mentions if m.text)
    return Read(cluster.mentions[0].name, tuple(notes)[:JUDGED_NOTES], frozenset(m.path for m in cluster.mentions))


def _spells(cluster: Cluster, normal: str) -> bool:
    return any(names.normal(s) == normal for m in cluster.mentions for s in (m.name, *m.aliases))
