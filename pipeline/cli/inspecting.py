"""inspect: one file as the parser and the chunker see it. Nothing is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson
from pipeline.console import Console, counted
from pipeline.errors import RejectedInput

TARGET_SIZE = 512
"""Default budget of a chunk, as in a manifest that names none."""


def inspect(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to look at.")],
    *,
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME", help="Chunking strategy, as in a manifest.")
    ] = "markdown_heading",
    target_size: Annotated[
        int, typer.Option("--target-size", metavar="N", min=1, help="Tokens of a chunk at most.")
    ] = TARGET_SIZE,
    overlap: Annotated[int, typer.Option("--overlap", metavar="N", min=0, help="Tokens repeated at most.")] = 0,
    respect_sections: Annotated[
        bool,
        typer.Option("--respect-sections/--share-chunks", help="Whether small sections get chunks of their own."),
    ] = True,
    as_json: AsJson = False,
) -> int:
    """Show how one file is read and cut: format, headings, tables, metadata, warnings, and every chunk."""
    from pipeline.chunk import ChunkOptions, strategy_for  # noqa: PLC0415  # brings the chunkers' libraries

    call = invocation(context, as_json=as_json)
    options = ChunkOptions(target_size, overlap, respect_sections)
    options.check()
    strategy_for("text", strategy)
    document = call.ports.parser.parse(_bytes(file, call.ports.limits.source_bytes), Path(file).name)
    seen = _seen(document, strategy, options)
    if as_json:
        call.console.document({"file": file, **seen, "parts": [_part(p, strategy, options) for p in document.parts]})
        return 0
    _show(call.console, Path(file).name, seen)
    for part in document.parts:
        call.console.line()
        _show(call.console, part.name, _seen(part.document, strategy, options))
    return 0


def _bytes(file: str, limit: int) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(limit + 1)
    except OSError as error:
        raise RejectedInput("unreadable", f"can't read {file}: {error.strerror}", remedy="check the path") from error
    if len(data) > limit:
        raise RejectedInput(
            "too_large", f"{file} has more than {limit:,} bytes", remedy="raise source_bytes in lamina.toml"
        )
    return data


def _part(part: Any, strategy: str, options: Any) -> dict[str, Any]:
    return {"name": part.name, **_seen(part.document, strategy, options)}


def _seen(document: Any, strategy: str, options: Any) -> dict[str, Any]:
    from pipeline.chunk import chunk_document, strategy_for  # noqa: PLC0415  # as above
    from pipeline.parse.tables import tables  # noqa: PLC0415  # as above

    return {
        "format": document.kind,
        "language": document.language or None,
        "title": document.title or None,
        "characters": len(document.text),
        "pages": len(document.page_starts),
        "metadata": dict(document.metadata),
        "warnings": list(document.warnings),
        "headings": [{"level": b.level, "title": b.title} for b in document.blocks if b.kind == "heading"],
        "symbols": [symbol.name for symbol in document.symbols],
        "tables": [{"columns": t.columns, "rows": t.rows} for t in tables(document)],
        "strategy": strategy_for(document.kind, strategy),
        "chunks": [
            {
                "index": c.index,
                "start": c.start,
                "end": c.end,
                "tokens": c.tokens,
                "headings": c.heading_path,
                "pages": c.pages if c.pages[0] else None,
                "prefix": c.prefix or None,
                "oversize": c.oversize,
                "text": c.text,
            }
            for c in chunk_document(document, strategy, options)
        ],
    }


def _show(out: Console, name: str, seen: dict[str, Any]) -> None:
    spoken = f" in {seen['language']}" if seen["language"] else ""
    pages = f", {counted(seen['pages'], 'page')}" if seen["pages"] else ""
    out.line(f"{name}: {seen['format']}{spoken}, {counted(seen['characters'], 'character')}{pages}")
    if seen["title"]:
        out.line(f"title: {seen['title']}", indent=2)
    for key, value in seen["metadata"].items():
        out.line(f"{key}: {', '.join(value) if isinstance(value, (tuple, list)) else value}", indent=2)
    for text in seen["warnings"]:
        out.line(f"warning: {text}", indent=2)
    for heading in seen["headings"]:
        out.line(f"{'#' * heading['level']} {heading['title']}", indent=2)
    for table in seen["tables"]:
        out.line(f"table: {counted(len(table['rows']), 'row')} of {_names(table['columns'])}", indent=2)
    chunks = seen["chunks"]
    out.line(f"{counted(len(chunks), 'chunk')} by {seen['strategy']}", indent=2)
    for chunk in chunks:
        where = f"  {' > '.join(chunk['headings'])}" if chunk["headings"] else ""
        page = f"  page {chunk['pages'][0]}" if chunk["pages"] else ""
        out.line(f"#{chunk['index']}  {chunk['start']}-{chunk['end']}  {chunk['tokens']} tokens{page}{where}", indent=2)
        out.block((chunk["prefix"] or "") + chunk["text"], indent=6)


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns) if columns else "nameless columns"
