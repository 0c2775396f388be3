"""What stands around an artifact: its neighbours breadth first, and the sources that support each edge.

Memory is bounded by the artifacts shown and their neighbours' ids, never by the rows of an edge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.artifacts import names
from pipeline.artifacts.leg import data
from pipeline.errors import RejectedInput
from pipeline.ports import Ports
from pipeline.rows import ArtifactRow, EdgeRow
from pipeline.types import ContextSlug, LogicalId

PAGE_ROWS = 500
DEPTH_MAX = 4
NODES_MAX = 1000
SUPPORTS_MAX = 20
"""Sources named with an edge; the number of all of them stands beside."""


@dataclass(frozen=True, slots=True)
class Node:
    """An artifact in a graph."""

    id: LogicalId
    type: str
    name: str
    file: str
    distance: int
    """Edges between it and the artifact asked for."""


@dataclass(frozen=True, slots=True)
class Support:
    """What one source says of an edge."""

    path: str
    text: str
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge with its sources."""

    type: str
    source: LogicalId
    target: LogicalId
    attributes: dict[str, Any]
    """Of all sources together; where they differ, the last one's by path."""
    supports: tuple[Support, ...]
    """The first `SUPPORTS_MAX` by path."""
    sources: int
    """How many sources support it."""


@dataclass(frozen=True, slots=True)
class Graph:
    """What stands around an artifact."""

    nodes: tuple[Node, ...]
    """By distance, best supported first."""
    edges: tuple[Edge, ...]
    """Edges with an end nearer than the depth asked for, between nodes shown."""
    left_out: int
    """Neighbours that there was no room for."""


def around(ports: Ports, slug: ContextSlug, version: int, start: ArtifactRow, *, depth: int, most: int) -> Graph:
    """An artifact and its neighbours, breadth first; where there is no room for all, those with most support.

    Raises:
        RejectedInput: depth or number out of bounds.
    """
    if not 1 <= depth <= DEPTH_MAX or not 1 <= most <= NODES_MAX:
        raise RejectedInput(
            "bad_graph",
            f"a graph of depth {depth} with {most} artifacts",
            remedy=f"depth is 1 to {DEPTH_MAX}, the number of artifacts 1 to {NODES_MAX}",
        )
    distance, left_out = {start.id: 0}, 0
    frontier = [start.id]
    for step in range(1, depth + 1):
        found = Counter(
            other
            for id_ in frontier
            for edge in _edges_of(ports, slug, version, id_)
            if (other := edge.target if edge.source == id_ else edge.source) not in distance
        )
        frontier = sorted(found, key=lambda id_: (-found[id_], id_))[: most - len(distance)]
        left_out += len(found) - len(frontier)
        distance.update(dict.fromkeys(frontier, step))
    with ports.ledger.read() as session:
        rows = {row.id: row for row in session.knowledge.artifacts_at(slug, version, list(distance))}
    nodes = tuple(Node(r.id, r.type, r.name, r.file, at) for id_, at in distance.items() if (r := rows.get(id_)))
    inner = [node.id for node in nodes if node.distance < depth]
    return Graph(nodes, _between(ports, slug, version, inner, frozenset(rows)), left_out)


def _edges_of(ports: Ports, slug: ContextSlug, version: int, artifact: LogicalId) -> Iterator[EdgeRow]:
    after = ""
    while True:
        with ports.ledger.read() as session:
            page = session.knowledge.page_edges_of(slug, version, artifact, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].id


def _between(
    ports: Ports, slug: ContextSlug, version: int, inner: Sequence[LogicalId], shown: frozenset[LogicalId]
) -> tuple[Edge, ...]:
    """Edges of the inner nodes. Of each no more sources are held than are shown."""
    order = {id_: at for at, id_ in enumerate(inner)}
    edges: list[Edge] = []
    for at, id_ in enumerate(inner):
        supports: dict[tuple[str, LogicalId, LogicalId], list[EdgeRow]] = defaultdict(list)
        total: Counter[tuple[str, LogicalId, LogicalId]] = Counter()
        for row in _edges_of(ports, slug, version, id_):
            other = row.target if row.source == id_ else row.source
            if other not in shown or order.get(other, at) < at:
                continue
            key = (row.type, row.source, row.target)
            total[key] += 1
            supports[key].append(row)
            if len(supports[key]) >= 2 * SUPPORTS_MAX:
                supports[key] = sorted(supports[key], key=lambda r: (r.path, r.id))[:SUPPORTS_MAX]
        edges += [_edge(key, supports[key], total[key]) for key in sorted(total)]
    return tuple(edges)


def _edge(key: tuple[str, LogicalId, LogicalId], rows: Sequence[EdgeRow], total: int) -> Edge:
    chosen = sorted(rows, key=lambda r: (r.path, r.id))[:SUPPORTS_MAX]
    supports = tuple(Support(row.path, data(row)["text"], data(row)["attributes"]) for row in chosen)
    attributes = {name: value for support in supports for name, value in support.attributes.items()}
    return Edge(*key, attributes, supports, total)


def dot(graph: Graph) -> str:
    """The graph for Graphviz. Every name is quoted, so that none is taken for syntax."""
    nodes = [f"  {_quoted(n.id)} [label={_quoted(n.name)}, tooltip={_quoted(n.type)}];" for n in graph.nodes]
    edges = [f"  {_quoted(e.source)} -> {_quoted(e.target)} [label={_quoted(e.type)}];" for e in graph.edges]
    return "\n".join(["digraph lamina {", "  node [shape=box];", *nodes, *edges, "}"])


def _quoted(text: str) -> str:
    plain = names.display(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'
