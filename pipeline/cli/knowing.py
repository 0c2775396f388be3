"""artifacts, graph, sql, models, and knowledge list, read and export: what the artifact leg made of a version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, source_names, text_of
from pipeline.console import bytes_text, counted
from pipeline.errors import RejectedInput

if TYPE_CHECKING:
    from pipeline.graph import Graph

ROWS_MAX = 100_000
SECONDS_MAX = 300.0
CELL_CHARS = 200
"""Of a cell in a table for people; --json has all of it."""
TEXT_LINES = 2

AtVersion = Annotated[int | None, typer.Option("--version", metavar="N", help="Read this version, not the live one.")]
OfType = Annotated[str, typer.Option("--type", metavar="T", help="Only artifacts of this type.")]


def artifacts(
    context: typer.Context,
    name: ContextName,
    *,
    type_: OfType = "",
    called: Annotated[
        str, typer.Option("--name", metavar="TEXT", help="Only those whose name or alias holds this text.")
    ] = "",
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """List the artifacts of a context: type, name, scope, how many sources speak of each, and its file."""
    from pipeline import knowledge  # noqa: PLC0415  # brings the artifact leg and the manifest's models

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    with knowledge.reading(call.ports, slug, version) as number:
        known = knowledge.type_named(call.ports, slug, number, text_of(type_))
        found = knowledge.artifacts(call.ports, slug, number, type_=known, name=text_of(called))
        if as_json:
            call.console.stream({"context": name, "version": number}, "artifacts", map(asdict, found))
            return 0
        total, above = 0, ""
        for total, each in enumerate(found, 1):  # noqa: B007 - the last one is the number of all
            if each.type != above:
                call.console.line(f"{each.type} ({each.scope})")
                above = each.type
            where = f"  {each.file}" if each.file else "  (a row of the database)"
            call.console.line(f"{each.name}  {counted(each.sources, 'source')}{where}", indent=2)
        call.console.line(f"version {number}: {counted(total, 'artifact')}")
    return 0


def graph(
    context: typer.Context,
    name: ContextName,
    artifact: Annotated[str, typer.Argument(metavar="NAME", help="Name, alias or id of the artifact to begin with.")],
    *,
    type_: OfType = "",
    depth: Annotated[int, typer.Option("--depth", metavar="N", help="How many edges to go, 1 to 4.")] = 1,
    most: Annotated[int, typer.Option("--max", metavar="N", help="Artifacts to show, 1 to 1000.")] = 50,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print a digraph for Graphviz.")] = False,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """Show what stands around an artifact: its neighbours, the edges, and the sources that support each edge."""
    from pipeline import graph as flow  # noqa: PLC0415  # as in artifacts
    from pipeline import knowledge  # noqa: PLC0415

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    with knowledge.reading(call.ports, slug, version) as number:
        known = knowledge.type_named(call.ports, slug, number, text_of(type_))
        start = knowledge.artifact_named(call.ports, slug, number, text_of(artifact), known)
        found = flow.around(call.ports, slug, number, start, depth=depth, most=most)
    if found.left_out:
        call.console.note(f"{counted(found.left_out, 'neighbour')} left out; see more with --max N")
    if as_json:
        told = {"dot": flow.dot(found)} if as_dot else {}
        call.console.document({"context": name, "version": number, **asdict(found), **told})
    elif as_dot:
        call.console.block(flow.dot(found))
    else:
        _show_graph(call, found)
    return 0


def _show_graph(call: Invocation, found: Graph) -> None:
    out = call.console
    called = {node.id: f"{node.name} ({node.type})" for node in found.nodes}
    out.table(
        ("distance", "type", "name", "file", "id"), [(n.distance, n.type, n.name, n.file, n.id) for n in found.nodes]
    )
    out.line()
    if not found.edges:
        out.line("no edges")
    for edge in found.edges:
        told = ", ".join(f"{key}: {value}" for key, value in edge.attributes.items())
        out.line(
            f"{called[edge.source]} --{edge.type}--> {called[edge.target]}{f'  [{told}]' if told else ''}"
            f"  ({counted(edge.sources, 'source')})"
        )
        for support in edge.supports:
            out.line(support.path, indent=2)
            out.paragraph(support.text, indent=4, lines=TEXT_LINES)


# ---- files


def list_(context: typer.Context, name: ContextName, *, version: AtVersion = None, as_json: AsJson = False) -> int:
    """List every file of a version with its size: chunks, artifacts, index pages, the database."""
    from pipeline import knowledge  # noqa: PLC0415  # as in artifacts

    call = invocation(context, as_json=as_json)
    with knowledge.reading(call.ports, slug_of(name), version) as number:
        found = knowledge.files(call.ports, slug_of(name), number)
        if as_json:
            rows = ({"path": row.path, "size": row.size} for row in found)
            call.console.stream({"context": name, "version": number}, "files", rows)
            return 0
        for row in found:
            call.console.line(f"{bytes_text(row.size):>12}  {row.path}")
    return 0


def read(
    context: typer.Context,
    name: ContextName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The file; `lamina knowledge list` lists them.")],
    *,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """Print one file of a version."""
    from pipeline import knowledge  # noqa: PLC0415  # as in artifacts

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    with knowledge.reading(call.ports, slug, version) as number:
        row, held = knowledge.file(call.ports, slug, number, source_names(path) or ("",))
    try:
        text = held.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RejectedInput(
            "binary_file",
            f"{row.path} is no text",
            remedy=f"write it out: lamina knowledge export {name} FOLDER; a database answers: lamina sql {name}",
        )
    if as_json:
        call.console.document({"context": name, "version": number, "path": row.path, "size": row.size, "text": text})
    else:
        call.console.block(text.removesuffix("\n"))
    return 0


def export(
    context: typer.Context,
    name: ContextName,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="An empty or a new folder.")],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Write into a folder that holds something; its other files stay.")
    ] = False,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """Write every file of a version into a folder."""
    from pipeline import knowledge  # noqa: PLC0415  # as in artifacts
    from pipeline.adapters.export_local import ExportFolder  # noqa: PLC0415

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    written = size = 0
    missed: list[dict[str, str]] = []
    with knowledge.reading(call.ports, slug, version) as number:
        target = ExportFolder(call.folder() / Path(folder), force=force)
        try:
            for row in knowledge.files(call.ports, slug, number):
                reason = target.write(row.path, call.ports.objects(slug).get(row.blob))
                if reason:
                    missed.append({"path": row.path, "reason": reason})
                else:
                    written, size = written + 1, size + row.size
        finally:
            target.close()
    if as_json:
        call.console.document({"context": name, "version": number, "files": written, "size": size, "missed": missed})
    else:
        call.console.line(f"version {number}: {counted(written, 'file')}, {bytes_text(size)} in {folder}")
        for each in missed:
            call.console.line(f"not written: {each['path']}: {each['reason']}")
    return 1 if missed else 0


# ---- the database and the models


def sql(
    context: typer.Context,
    name: ContextName,
    statement: Annotated[str, typer.Argument(metavar="SELECT", help="One SELECT of SQLite.")],
    *,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="Rows at most.")] = 1000,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="Time at most.")] = 10.0,
    version: AtVersion = None,
    as_json: AsJson = False,
) -> int:
    """Ask the database of a version: artifact types with the format sqlite are its tables. Nothing can be changed."""
    from pipeline import knowledge  # noqa: PLC0415  # as in artifacts
    from pipeline.adapters import database_local  # noqa: PLC0415

    call = invocation(context, as_json=as_json)
    if not 1 <= rows <= ROWS_MAX or not 0 < seconds <= SECONDS_MAX:
        raise RejectedInput(
            "bad_limit",
            f"{rows} rows in {seconds:g} s",
            remedy=f"1 to {ROWS_MAX:,} rows, at most {SECONDS_MAX:g} seconds",
        )
    with knowledge.reading(call.ports, slug_of(name), version) as number:
        held = knowledge.database(call.ports, slug_of(name), number)
    found = database_local.select(held, text_of(statement), rows=rows, seconds=seconds)
    if as_json:
        call.console.document(
            {"context": name, "version": number, "columns": found.columns, "rows": found.rows, "more": found.more}
        )
        return 0
    call.console.table(found.columns, (_short(row) for row in found.rows))
    if found.more:
        call.console.note(f"there are more rows; see them with --rows N (now {rows})")
    return 0


def _short(row: Iterable[Any]) -> list[str]:
    cells = ["" if cell is None else str(cell) for cell in row]
    return [cell if len(cell) <= CELL_CHARS else cell[: CELL_CHARS - 2] + " …" for cell in cells]


def models(context: typer.Context, *, as_json: AsJson = False) -> int:
    """List the language models that can extract artifacts, and which tier stands for which. Asks no server."""
    from pipeline import knowledge  # noqa: PLC0415  # as in artifacts

    call = invocation(context, as_json=as_json)
    catalog = knowledge.model_catalog(call.ports)
    if as_json:
        call.console.document(catalog)
        return 0
    if not catalog["tiers"]:
        call.console.line("no language model is configured; see docs/settings.md")
        return 0
    call.console.table(
        ("model", "provider", "what it is"),
        [(m["id"], m["provider"], m["label"]) for m in catalog["models"] if m["id"] not in catalog["tiers"]],
    )
    call.console.line()
    call.console.table(("tier", "model"), catalog["tiers"].items())
    call.console.line()
    call.console.line(f"curate asks the tier {catalog['phase_defaults']['curate']} unless the manifest names another")
    if any(model.startswith("lamina-extractive") for model in catalog["tiers"].values()):
        call.console.line(
            "the extractive model is no language model: it understands nothing, and picks sentences of the sources as"
            " they are"
        )
    return 0
