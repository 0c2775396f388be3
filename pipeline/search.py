"""The read flow: resolve the version, ask both retrievers, check every hit against the ledger, fuse, hydrate.

A query sees exactly one version from its first read to its last (DESIGN §4, invariant 1). A single query takes no pin:
it reads the live version, and afterwards whether that is still readable; if not, it starts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline import publish
from pipeline.embed.sparse import query_weights
from pipeline.errors import Conflict, Corruption, RejectedInput, Unavailable
from pipeline.filters import Filter
from pipeline.fusion import Fused, fuse
from pipeline.namespaces import DOCUMENTS, counts_key, namespace_of
from pipeline.ports import DenseEmbedder, Ports, Reranker
from pipeline.queries import DenseQuery, GraphInfo, Search, SearchTrace, SparseQuery
from pipeline.recipe import Recipe, recipe_from_json, serving
from pipeline.rows import VersionRow
from pipeline.types import ContextSlug, Hit, LogicalId, Metadata, Namespace, RecordId, RunId

MODES = ("hybrid", "dense", "sparse")

KINDS = {"chunk": ("chunks",), "artifact": ("artifacts",), "all": ("chunks", "artifacts")}
"""What a question may look for: passages, artifacts, or both in one list."""

WEIGHTS = {"dense": 0.5, "sparse": 0.5}
"""What the best hit of each retriever adds to a hybrid score. Equal ones are about the best for both local models
(`benchmarks/retrieval.py`), so that there is nothing to tune."""

DEPTH = 5
DEPTH_MIN = 50
"""Each retriever is asked for this many times `k` and at least so many, so that fusion sees past both tops."""

RERANKED = 20
"""Hits that a reranker reads, or `k` where that is more."""

K_MAX = 1000
REFILLS = 6
"""How often a retriever is asked for twice as many because the ledger dropped hits."""
REPEATS = 5
"""How often a query starts again because its version was reclaimed under it."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to look for, and where."""

    text: str
    k: int = 10
    mode: str = "hybrid"
    kind: str = "chunk"
    """chunk, artifact, or all."""
    scope: tuple[str, ...] = ()
    """Prefixes of source paths, on whole path parts."""
    filter: Filter | None = None
    version: int | None = None
    """None: the live one."""
    before_flip: RunId | None = None
    """A run whose version is asked before it goes live: what it plans to remove is hidden. For gates."""
    rerank: bool = False
    """Whether the deployment's reranker puts the best hits in order."""


@dataclass(frozen=True, slots=True)
class Result:
    """One passage found."""

    id: RecordId
    logical_id: LogicalId
    score: float
    """Fused score from 0 to 1; the retriever's own score in the other two modes; the reranker's where it was asked."""
    ranks: Mapping[str, int]
    """Retriever to rank, from 1."""
    scores: Mapping[str, float]
    """Retriever to its own score."""
    shares: Mapping[str, float]
    """Retriever to what it added to the fused score; empty where nothing was fused."""
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Leg:
    """What one retriever did for a question."""

    hits: tuple[Hit, ...]
    """Those that the ledger lists, best first."""
    complete: bool
    """Whether the index had no more to give."""
    dropped: int
    """Hits that the ledger doesn't list: left-overs of dead writers, until the next sweep."""
    seconds: float
    trace: SearchTrace
    """How the index came to them."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Results of one version."""

    version: int
    results: tuple[Result, ...]
    legs: Mapping[str, Leg]
    weights: Mapping[str, float]
    """Weight of each leg in the fusion; empty where nothing was fused."""
    generation: int
    model: str
    """Name and version of the dense model."""
    seconds: float
    graphs: tuple[GraphInfo, ...] = ()
    """The graphs of the namespace, where one was asked."""
    reranker: str = ""
    """Name and version of the model that put the hits in order; empty where none did."""
    rerank_seconds: float = 0.0

    @property
    def dropped(self) -> int:
        """Index hits that the ledger doesn't list."""
        return sum(leg.dropped for leg in self.legs.values())


def search(ports: Ports, slug: ContextSlug, question: Question) -> Answer:
    """Answer one question from one version.

    Raises:
        RejectedInput: unknown context, mode, or version; nothing curated yet.
        Conflict: code `version_gone`: the version asked for can't be read any more.
        Unavailable: the version's model isn't served here, or versions keep being reclaimed under the query.
        Corruption: code `index_lost`: the index has lost what it held.
    """
    _check(question)
    if question.before_flip is not None:
        return _answer(ports, slug, question, _planned(ports, slug, question.before_flip))
    for _ in range(REPEATS):
        version = _resolve(ports, slug, question.version)
        answer = _answer(ports, slug, question, version)
        with ports.ledger.read() as session:
            row = session.versions.get(slug, version.number)
        if row is not None and row.readable:
            _refuse_a_lost_index(ports, slug, question, row, answer)
            return answer
        if question.version is not None:
            break
    raise Conflict(
        "version_gone",
        f"the version of {slug} was reclaimed while it was read",
        remedy="ask again, or pin a version: lamina pin " + slug,
    )


def _refuse_a_lost_index(
    ports: Ports, slug: ContextSlug, question: Question, version: VersionRow, answer: Answer
) -> None:
    """The dense leg of a question that nothing narrows always finds something, unless there is nothing."""
    narrowed = question.scope or question.filter is not None
    if narrowed or "dense" not in answer.legs or answer.legs["dense"].hits:
        return
    with ports.ledger.read() as session:
        visible = session.records.visible(slug, version.number)
    listed = sum(visible.get(namespace_of(slug, version.generation, kind), 0) for kind in KINDS[question.kind])
    if listed:
        raise Corruption(
            "index_lost",
            f"the index of {slug} has none of the records of version {version.number}, of which there are {listed:,}",
            remedy=f"ask again; where it stays so, write them anew: lamina fsck {slug} --repair",
        )


def _check(question: Question) -> None:
    if question.mode not in MODES:
        raise RejectedInput("bad_mode", f"there is no mode {question.mode!r}", remedy="use one of " + ", ".join(MODES))
    if question.kind not in KINDS:
        raise RejectedInput("bad_kind", f"there is no kind {question.kind!r}", remedy="use one of " + ", ".join(KINDS))
    if not 1 <= question.k <= K_MAX:
        raise RejectedInput("bad_k", f"k is {question.k}", remedy=f"give a number from 1 to {K_MAX}")
    if not question.text.strip():
        raise RejectedInput("empty_question", "the question is empty", remedy="ask something")


def _resolve(ports: Ports, slug: ContextSlug, wanted: int | None) -> VersionRow:
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
        number = context.live_version if wanted is None else wanted
        if not number and wanted is None:
            raise RejectedInput("not_curated", f"{slug} has not been curated yet", remedy=f"run: lamina curate {slug}")
        publish.require_readable(session, slug, number)
        row = session.versions.get(slug, number)
    assert row is not None
    return row


def _planned(ports: Ports, slug: ContextSlug, run: RunId) -> VersionRow:
    with ports.ledger.read() as session:
        row = session.runs.get(run)
        version = session.versions.get(slug, row.number) if row is not None else None
    if version is None:
        raise RejectedInput("no_version", f"run {run} of {slug} has no version", remedy="see: lamina runs " + slug)
    return version


def _answer(ports: Ports, slug: ContextSlug, question: Question, version: VersionRow) -> Answer:
    started = ports.clock.now()
    recipe = recipe_from_json(version.recipe)
    spaces = {kind: namespace_of(slug, version.generation, kind) for kind in KINDS[question.kind]}
    depth = question.k if question.mode != "hybrid" else max(question.k * DEPTH, DEPTH_MIN)
    base = Search(SparseQuery({}), depth, version.number, question.scope, question.filter)
    legs: dict[str, Leg] = {}
    if question.mode != "sparse":
        began = ports.clock.now()
        vector = _embedder(ports, recipe, slug).embed([question.text], side="question").vectors[0]
        asked = {space: replace(base, query=DenseQuery(vector)) for space in spaces.values()}
        legs["dense"] = _both(ports, slug, asked, began, question.before_flip)
    if question.mode != "dense":
        began = ports.clock.now()
        asked = {
            space: replace(base, query=SparseQuery(_weights(ports, slug, version, recipe, question, kind)))
            for kind, space in spaces.items()
        }
        legs["sparse"] = _both(ports, slug, asked, began, question.before_flip)
    fused = _fused(legs)
    many = max(question.k, RERANKED) if question.rerank else question.k
    results = _hydrate(ports, slug, list(spaces.values()), fused[:many], legs)
    found = ports.clock.now()
    reranker = _require_reranker(ports) if question.rerank else None
    if reranker is not None:
        results = _reranked(reranker, question.text, results)
    return Answer(
        version=version.number,
        results=results[: question.k],
        legs=legs,
        weights=WEIGHTS if len(legs) > 1 else {},
        generation=version.generation,
        model=f"{recipe.model.name} {recipe.model.version}",
        seconds=ports.clock.now() - started,
        graphs=_graphs(ports, slug, list(spaces.values()), legs),
        reranker=f"{reranker.identity.name} {reranker.identity.version}" if reranker else "",
        rerank_seconds=ports.clock.now() - found if reranker else 0.0,
    )


def _graphs(
    ports: Ports, slug: ContextSlug, spaces: Sequence[Namespace], legs: Mapping[str, Leg]
) -> tuple[GraphInfo, ...]:
    if not any(leg.trace.graphs or leg.trace.unusable for leg in legs.values()):
        return ()
    return tuple(graph for space in spaces for graph in ports.index(slug).graphs(space))


def _require_reranker(ports: Ports) -> Reranker:
    if ports.reranker is None:
        raise RejectedInput(
            "no_reranker",
            "this deployment serves no reranker",
            remedy="ask without it, or install lamina[rerank] and set reranker to minilm",
        )
    return ports.reranker


def _reranked(reranker: Reranker, question: str, results: Sequence[Result]) -> tuple[Result, ...]:
    """The results by what the reranker says of them, ties as they were."""
    texts = [_passage(result.metadata) for result in results]
    scores = reranker.rerank(question, texts)
    judged = [
        replace(result, score=score, scores={**result.scores, "rerank": score})
        for result, score in zip(results, scores, strict=True)
    ]
    return tuple(sorted(judged, key=lambda result: -result.score))


def _passage(metadata: Metadata) -> str:
    """A passage under its title and headings, as a reader meets it."""
    title, section = str(metadata.get("title", "")), str(metadata.get("section_path", ""))
    lead = section if section.startswith(title) else " > ".join(part for part in (title, section) if part)
    return f"{lead}\n\n{metadata['text']}" if lead else str(metadata["text"])


def _fused(legs: Mapping[str, Leg]) -> list[Fused]:
    if len(legs) == 1:
        return [Fused(hit.id, hit.score, {}) for leg in legs.values() for hit in leg.hits]
    complete = [name for name, leg in legs.items() if leg.complete]
    return fuse({name: leg.hits for name, leg in legs.items()}, WEIGHTS, complete)


def _embedder(ports: Ports, recipe: Recipe, slug: ContextSlug) -> DenseEmbedder:
    found = serving(ports.embedders, recipe.model)
    if found is None:
        raise Unavailable(
            "model_not_served",
            f"{slug} is built with {recipe.model.name} {recipe.model.version}, which this deployment doesn't serve",
            remedy="ask with --mode sparse, install that version, or rebuild with: lamina curate --force",
        )
    return found


def _weights(
    ports: Ports, slug: ContextSlug, version: VersionRow, recipe: Recipe, question: Question, kind: str
) -> dict[int, float]:
    terms = recipe.encoder().query_terms(question.text)
    with ports.ledger.read() as session:
        counts = session.records.counts(slug, counts_key(version.generation, kind), version.number, [DOCUMENTS, *terms])
    doc_count = counts.pop(DOCUMENTS, 0)
    if (
        question.before_flip is not None
    ):  # the seal adds up what the run brings; until then a new word would count as none
        counts = {term: max(1, counts.get(term, 0)) for term in terms}
        doc_count = max(doc_count, *counts.values(), 1)
    return query_weights(terms, doc_count=doc_count, term_counts=counts)


def _both(
    ports: Ports, slug: ContextSlug, asked: Mapping[Namespace, Search], began: float, planning: RunId | None
) -> Leg:
    """One retriever over one collection or two; of two the hits stand in one list by score."""
    legs = [_listed(ports, slug, space, request, began, planning) for space, request in asked.items()]
    if len(legs) == 1:
        return legs[0]
    depth = next(iter(asked.values())).k
    hits = sorted((hit for leg in legs for hit in leg.hits), key=lambda hit: (-hit.score, hit.id))
    whole = all(leg.complete for leg in legs) and len(hits) <= depth
    trace = _sum([leg.trace for leg in legs])
    return Leg(tuple(hits[:depth]), whole, sum(leg.dropped for leg in legs), ports.clock.now() - began, trace)


def _sum(traces: Sequence[SearchTrace]) -> SearchTrace:
    unknown = [set(t.unknown_fields) for t in traces]
    return SearchTrace(
        records=sum(t.records for t in traces),
        exact=sum(t.exact for t in traces),
        by_graph=sum(t.by_graph for t in traces),
        graphs=sum(t.graphs for t in traces),
        ef=max(t.ef for t in traces),
        distances=sum(t.distances for t in traces),
        segments=sum(t.segments for t in traces),
        unknown_fields=tuple(sorted(set.intersection(*unknown))),
        unusable=tuple(file for t in traces for file in t.unusable),
    )


def _listed(
    ports: Ports, slug: ContextSlug, namespace: Namespace, request: Search, began: float, planning: RunId | None
) -> Leg:
    """Hits that the ledger lists at the version, refilled up to `k` while the index has more."""
    index = ports.index(slug)
    for attempt in range(REFILLS):
        asked = request.k << attempt
        hits, trace = index.explain(namespace, replace(request, k=asked))
        with ports.ledger.read() as session:
            listed = session.records.listed(slug, request.version, [hit.id for hit in hits])
            if planning is not None:
                going = session.records.planned(planning, list(listed))
                listed = {id_: logical for id_, logical in listed.items() if id_ not in going}
        good = tuple(hit for hit in hits if hit.id in listed)
        if len(good) >= request.k or len(hits) < asked:
            break
    return Leg(good[: request.k], len(hits) < asked, len(hits) - len(good), ports.clock.now() - began, trace)


def _hydrate(
    ports: Ports, slug: ContextSlug, spaces: Sequence[Namespace], ranked: Sequence[Fused], legs: Mapping[str, Leg]
) -> tuple[Result, ...]:
    metadata: dict[RecordId, Metadata] = {}
    for space in spaces:
        stored = ports.index(slug).fetch(space, [one.id for one in ranked], vectors=False, metadata=True)
        metadata.update(zip(stored.ids, stored.metadata, strict=True))
    ranks = {name: {hit.id: rank for rank, hit in enumerate(leg.hits, 1)} for name, leg in legs.items()}
    scores = {name: {hit.id: hit.score for hit in leg.hits} for name, leg in legs.items()}
    return tuple(
        Result(
            one.id,
            LogicalId(str(metadata[one.id]["logical_id"])),
            one.score,
            {name: found[one.id] for name, found in ranks.items() if one.id in found},
            {name: found[one.id] for name, found in scores.items() if one.id in found},
            one.shares,
            metadata[one.id],
        )
        for one in ranked
        if one.id in metadata
    )
