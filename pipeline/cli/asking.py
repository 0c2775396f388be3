"""query and chunks: what the index holds, found by a question or listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline import contexts, publish
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, source_names, text_of
from pipeline.console import counted
from pipeline.errors import RejectedInput
from pipeline.filters import Filter, parse_filter
from pipeline.rows import FileRow
from pipeline.types import ContextSlug

if TYPE_CHECKING:
    from pipeline.queries import SearchTrace
    from pipeline.search import Answer, Question, Result

SNIPPET_LINES = 4
PAGE_ROWS = 500
HOLD_S = 3600.0
"""How long a listing may take to be read: the version is pinned for it."""


def query(
    context: typer.Context,
    name: ContextName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question, or words to look for.")],
    *,
    k: Annotated[int, typer.Option("-k", "--top-k", metavar="N", help="Passages to find.")] = 10,
    mode: Annotated[
        str,
        typer.Option("--mode", metavar="hybrid|dense|sparse", help="By meaning and words, meaning alone, words alone."),
    ] = "hybrid",
    kind: Annotated[
        str, typer.Option("--kind", metavar="chunk|artifact|all", help="Passages, artifacts, or both in one list.")
    ] = "chunk",
    filter_text: Annotated[
        str, typer.Option("--filter", metavar="JSON", help="""Conditions on metadata, as in '{"title": "Guide"}'.""")
    ] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", metavar="PREFIX", help="Only sources in this folder. May be repeated."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Ask this version, not the live one.")
    ] = None,
    rerank: Annotated[
        bool, typer.Option("--rerank", help="Let the reranker read the best hits and put them in order; slow.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say what each retriever found, and what made the order.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Find the passages that answer a question, best first."""
    from pipeline.search import Question, search  # noqa: PLC0415  # brings tokenizers

    call = invocation(context, as_json=as_json)
    prefixes = tuple(prefix for given in scope or () for prefix in source_names(given) if prefix != ".")
    question = Question(
        text_of(text), k, mode, text_of(kind), prefixes, _filter(text_of(filter_text)), version, rerank=rerank
    )
    answer = search(call.ports, slug_of(name), question)
    for note in _doubts(question, answer):
        call.console.note(note)
    if as_json:
        hits = [_hit(rank, result, answer.version) for rank, result in enumerate(answer.results, 1)]
        told = {"explanation": _explanation(answer)} if explain else {}
        call.console.document({"context": name, "version": answer.version, "mode": mode, "hits": hits, **told})
    else:
        if explain:
            _show_explanation(call, answer)
        _show(call, name, answer, explain=explain)
    return 0


def _filter(text: str) -> Filter | None:
    if not text:
        return None
    try:
        return parse_filter(json.loads(text))
    except json.JSONDecodeError as error:
        raise RejectedInput(
            "bad_filter",
            f"--filter is not JSON: {error}",
            remedy="""write, for example: --filter '{"title": "Guide"}'""",
        ) from error
    except RecursionError as error:
        raise RejectedInput("bad_filter", "--filter is nested too deeply", remedy="make it flatter") from error


def _doubts(question: Question, answer: Answer) -> list[str]:
    """What may be wrong with a question that found less than expected: a field or a folder that isn't there."""
    trace = next(iter(answer.legs.values())).trace
    if question.scope and not trace.records and (not question.filter or trace.unknown_fields):
        folders = ", ".join(question.scope)
        return [f"version {answer.version} holds nothing under {folders}; see: lamina ledger"]
    if not trace.unknown_fields:
        return []
    names = ", ".join(trace.unknown_fields)
    return [
        f"no passage of version {answer.version} has the field {names}; `lamina query --json` shows the fields there are"
    ]


def _hit(rank: int, result: Result, version: int) -> dict[str, Any]:
    m = result.metadata
    return {
        "rank": rank,
        "score": result.score,
        "ranks": dict(result.ranks),
        "scores": dict(result.scores),
        "shares": dict(result.shares),
        "logical_id": result.logical_id,
        "record_id": result.id,
        "version": version,
        "text": m["text"],
        "title": m.get("title", ""),
        "headings": list(_texts(m.get("headings", ()))),
        "kind": m["kind"],
        "source_path": m.get("source_path", ""),
        "part": m.get("part"),
        "start": m.get("start_index"),
        "end": m.get("end_index"),
        "page_first": m.get("page_first"),
        "page_last": m.get("page_last"),
        "metadata": dict(m),
    }


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, (tuple, list)) else ()


def _explanation(answer: Answer) -> dict[str, Any]:
    return {
        "seconds": answer.seconds,
        "generation": answer.generation,
        "model": answer.model,
        "graphs": [asdict(graph) for graph in answer.graphs],
        "reranker": answer.reranker,
        "rerank_seconds": answer.rerank_seconds,
        "legs": {
            name: {
                "weight": answer.weights.get(name, 1.0),
                "hits": len(leg.hits),
                "complete": leg.complete,
                "dropped": leg.dropped,
                "seconds": leg.seconds,
                "index": asdict(leg.trace),
                "found": [{"record_id": hit.id, "score": hit.score} for hit in leg.hits],
            }
            for name, leg in answer.legs.items()
        },
    }


def _show_explanation(call: Invocation, answer: Answer) -> None:
    out = call.console
    out.line(
        f"version {answer.version}, generation {answer.generation}, model {answer.model}, {answer.seconds * 1000:.0f} ms"
    )
    for name, leg in answer.legs.items():
        weight = f"weight {answer.weights[name]:g}, " if name in answer.weights else ""
        dropped = f", {counted(leg.dropped, 'hit')} dropped that the ledger doesn't list" if leg.dropped else ""
        out.line(
            f"{name}: {weight}{counted(len(leg.hits), 'hit')}{_searched(leg.trace)}, {leg.seconds * 1000:.0f} ms{dropped}",
            indent=2,
        )
    for graph in answer.graphs:
        usable = "" if graph.usable else ", damaged"
        out.line(
            f"graph: {graph.live:,} of {graph.records:,} records live, m {graph.m}, ef_construction {graph.ef_construction},"
            f" ef_search {graph.ef_search}, found {graph.recall:.1%} of the ten nearest when built{usable}",
            indent=2,
        )
    if answer.reranker:
        out.line(f"rerank: {answer.reranker}, {answer.rerank_seconds * 1000:.0f} ms", indent=2)
    out.line()


def _searched(trace: SearchTrace) -> str:
    """How an index came to its hits, in one phrase."""
    told = [f" among {trace.records:,}"]
    if trace.by_graph:
        told.append(f"{trace.by_graph:,} of them by {counted(trace.graphs, 'graph')} with {trace.ef} candidates")
    if trace.distances:
        told.append(f"{trace.distances:,} similarities computed")
    if trace.unusable:
        told.append(
            f"{counted(len(trace.unusable), 'damaged graph')} passed over, to be built again by the next curate"
        )
    return ", ".join(told)


def _why(result: Result) -> str:
    """What each retriever thought of a passage, in one phrase."""
    told = []
    for name in result.shares or result.ranks:
        place = f"rank {result.ranks[name]}, score {result.scores[name]:.4f}" if name in result.ranks else "not named"
        share = f" adds {result.shares[name]:.4f}" if name in result.shares else ""
        told.append(f"{name}{share} ({place})")
    if "rerank" in result.scores:
        told.append(f"rerank says {result.scores['rerank']:.4f}")
    return "; ".join(told)


def _show(call: Invocation, name: str, answer: Answer, *, explain: bool) -> None:
    out = call.console
    if not answer.results:
        out.line(f"nothing found in {name}, version {answer.version}")
    for rank, result in enumerate(answer.results, 1):
        m = result.metadata
        headings = list(_texts(m.get("headings", ())))
        title = str(m.get("title", ""))
        parts = [*([title] if title and headings[:1] != [title] else []), *headings] or [str(m.get("filename", ""))]
        out.line(f"{rank}. {' > '.join(parts)}")
        out.line(f"{_place(m)}  score {result.score:.4f}  version {answer.version}", indent=3)
        if explain:
            out.line(_why(result), indent=3)
        out.paragraph(m["text"], indent=3, lines=SNIPPET_LINES)
        out.line(f"id {result.logical_id}", indent=3)
        out.line()


def _place(metadata: Any) -> str:
    """Source, the document inside it, span and pages (of a presentation: slides) in one phrase."""
    first, last = metadata.get("page_first"), metadata.get("page_last")
    word = "slide" if metadata.get("format") == "pptx" else "page"
    pages = "" if not first else f"  {word} {first}" if first == last else f"  {word}s {first}-{last}"
    part = f" ({metadata['part']})" if "part" in metadata else ""
    if metadata["kind"] == "artifact":
        others = len(metadata.get("source_paths", ())) - 1
        more = f" and {counted(others, 'other source')}" if others > 0 else ""
        return f"artifact, {metadata['artifact_type']}, from {metadata['source_paths'][0]}{more}"
    return f"{metadata['source_path']}{part}:{metadata['start_index']}-{metadata['end_index']}{pages}"


def chunks(
    context: typer.Context,
    name: ContextName,
    *,
    source: Annotated[str, typer.Option("--source", metavar="PATH", help="Only this source.")] = "",
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="List this version, not the live one.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List every chunk of a context, or of one source, with its text and place."""
    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    held = contexts.pin(call.ports, slug, version=version, seconds=HOLD_S)
    try:
        files = _files(call, slug, held.version, source)
        if as_json:
            listed = (chunk for file in files for chunk in _chunks(call, slug, file))
            call.console.stream({"context": name, "version": held.version}, "chunks", listed)
        else:
            for file in files:
                _list(call, slug, file)
    finally:
        contexts.unpin(call.ports, slug, held.id)
    return 0


def _files(call: Invocation, slug: ContextSlug, version: int, source: str) -> Iterator[FileRow]:
    if source:
        names = source_names(source)
        with call.ports.ledger.read() as session:
            known = session.sources.at_for(slug, version, names)
            found = session.files.at_for(slug, version, [row.path for row in known[:1]])
        if not known:
            raise RejectedInput(
                "no_source",
                f"version {version} of {slug} has no source {source}",
                remedy=f"sources: lamina ledger {slug}",
            )
        return iter(found)
    return _every_file(call, slug, version)


def _every_file(call: Invocation, slug: ContextSlug, version: int) -> Iterator[FileRow]:
    after = ""
    while True:
        with call.ports.ledger.read() as session:
            publish.require_readable(session, slug, version)
            page = session.files.page(slug, version, after, PAGE_ROWS)
        yield from (row for row in page if row.path.startswith("chunks/"))
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _chunks(call: Invocation, slug: ContextSlug, file: FileRow) -> Iterator[dict[str, Any]]:
    for line in call.ports.objects(slug).get(file.blob).decode("utf-8").split("\n"):
        if line:
            yield json.loads(line)


def _list(call: Invocation, slug: ContextSlug, file: FileRow) -> None:
    listed = list(_chunks(call, slug, file))
    call.console.line(f"{file.source}  ({counted(len(listed), 'chunk')})")
    for chunk in listed:
        where = f"  {chunk['section_path']}" if "section_path" in chunk else ""
        call.console.line(
            f"#{chunk['chunk_index']}  {_place(chunk).rpartition(':')[2]}  {chunk['tokens']} tokens{where}", indent=2
        )
        call.console.block(chunk["text"], indent=6)
    call.console.line()
