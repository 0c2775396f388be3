"""import: files and archives into staged contexts."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import contexts
from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, text_of
from pipeline.console import counted

PARTIAL = 1
LISTED_MAX = 50
"""Records of each kind that a report names on a terminal; its file names all."""


def import_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="CONTEXT", help="Name of the context; made when it is new.")],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files to copy in, archives to expand.")],
    *,
    into: Annotated[
        str, typer.Option("--into", metavar="FOLDER", help="Put them into this folder of the staged files.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace staged files of the same names.")] = False,
    as_json: AsJson = False,
) -> int:
    """Stage files and the contents of archives (.zip, .tar, .tar.gz, .tgz). They are indexed at the next curate.

    All of an import is staged or nothing. An entry that can't be staged as what it is (a link, a path that leaves the
    folder, an encrypted file) is left out and named; a damaged archive, a passed limit or a taken name refuses the whole.
    """
    from pipeline import bootstrap, importing  # noqa: PLC0415  # knows every format; wanted by this verb only

    call = invocation(context, as_json=as_json)
    slug = contexts.checked_slug(text_of(name))
    places = bootstrap.staged_places(call.settings, slug)
    done = importing.import_files(call.ports, slug, places, files, into=into, replace=replace)
    report, console = done.report, call.console
    status = PARTIAL if report.failed else 0
    if as_json:
        console.document(report.document(done.manifest_file))
        for record in report.failures[:LISTED_MAX]:
            console.note(f"failed: {record.src}: {record.reason}")
        return status
    for record in report.taken[:LISTED_MAX]:
        what = f" to {record.out[0]}" if record.action == "copied" else f": {counted(len(record.out), 'file')}"
        console.line(f"{record.action}: {record.src}{what}")
    for record in (*report.skips[:LISTED_MAX], *report.failures[:LISTED_MAX]):
        console.line(f"{record.action}: {record.src}: {record.reason}")
    if max(report.imported, report.skipped, report.failed) > LISTED_MAX:
        console.line(f"all records are in {call.context_folder(slug) / done.manifest_file}")
    there = f" ({done.same} there already)" if done.same else ""
    console.line(
        f"{counted(report.outputs, 'file')} staged in {name}{there}, {report.skipped} skipped, {report.failed} failed;"
        f" index them with: lamina curate {name}"
    )
    return status
