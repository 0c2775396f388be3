"""backup, restore and gc."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, ContextName, slug_of, text_of
from pipeline.console import bytes_text, counted
from pipeline.errors import RejectedInput
from pipeline.fingerprint import decode_path
from pipeline.progress import Progress, single
from pipeline.types import ContextSlug, SourcePath


def backup(
    context: typer.Context,
    name: ContextName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive to be made, such as handbook.tar.gz.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Write a context as one archive: files, vectors, the ledger's rows with manifests and recipes, and staged sources."""
    from pipeline import backup as flow  # noqa: PLC0415  # brings numeric libraries

    call = invocation(context, as_json=as_json)
    report, look = _watched(call, "backup")
    with call.console.watch(look):
        held = flow.backup(call.ports, slug_of(name), Path(text_of(file)).absolute(), report=report)
    told = {
        "context": held.context, "live_version": held.live_version, "versions": held.versions, "records": held.records,
        "files": held.files, "sources": held.sources, "rows": held.rows, "bytes": held.bytes,
    }  # fmt: skip
    if as_json:
        call.console.document(told)
        return 0
    call.console.line(
        f"{held.context}: {counted(len(held.versions), 'version')}, {counted(held.records, 'record')}, "
        f"{counted(held.files, 'file')} in {bytes_text(held.bytes)}: {file}"
    )
    if held.kind != "staged":
        call.console.line(f"its sources stay where they are: {held.root}", indent=2)
    call.console.line(f"bring it back, into any home, with: lamina restore {file}", indent=2)
    return 0


def restore(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Archive that `lamina backup` has made.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Bring a context back from an archive, into a home that has none of its name. It answers as it did."""
    from pipeline import backup as flow  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    source = Path(text_of(file))
    if not source.is_file():
        raise RejectedInput("no_file", f"there is no file {file}", remedy="check the path")
    report, look = _watched(call, "restore")
    with call.console.watch(look):
        held = flow.restore(call.ports, source, put_source=_putter(call), report=report)
    if as_json:
        call.console.document(
            {
                "context": held.context, "live_version": held.live_version, "versions": held.versions,
                "records": held.records, "files": held.files, "sources": held.sources, "rows": held.rows,
            }
        )  # fmt: skip
        return 0
    call.console.line(
        f"{held.context} is back: version {held.live_version} is live, {counted(held.records, 'record')} in "
        f"{counted(len(held.versions), 'version')}"
    )
    return 0


def gc(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="[CONTEXT]", help="Name of the context; without it, all of them.")
    ] = "",
    *,
    as_json: AsJson = False,
) -> int:
    """Clear away what nobody can read any more, and give back room on disk. Kept versions and pins stay what they are."""
    from pipeline import collecting  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    with call.ports.ledger.read() as session:
        slugs = [slug_of(name)] if name else [held.slug for held in session.contexts.list()]
    rows = []
    for slug in slugs:
        done = collecting.collect(call.ports, slug)
        rows.append(
            {
                "context": done.context, "versions": list(done.versions), "delisted": done.delisted, "erased": done.erased,
                "files": done.files, "plans": done.plans, "freed_bytes": done.freed,
            }
        )  # fmt: skip
        if not as_json:
            call.console.line(
                f"{slug}: {counted(len(done.versions), 'version')} and {counted(done.delisted, 'record')} let go, "
                f"{counted(done.files, 'file')} and {counted(done.plans, 'plan')} erased, {bytes_text(done.freed)} given back"
            )
    if as_json:
        call.console.document({"contexts": rows})
    elif not rows:
        call.console.line("there is no context yet")
    return 0


def _watched(call: Invocation, verb: str) -> tuple[Callable[[str, int], None], Callable[[], Progress | None]]:
    """What a flow reports to, and what shows it."""
    began, seen = call.ports.clock.now(), {"what": "", "n": 0}

    def report(what: str, n: int) -> None:
        seen.update(what=what, n=n)

    def look() -> Progress | None:
        n = int(str(seen["n"]))
        return single(verb, str(seen["what"]), n, n, call.ports.clock.now() - began)

    return report, look


def _putter(call: Invocation) -> Callable[[ContextSlug, SourcePath, bytes], None]:
    """Puts staged sources where the context's stand; the archive decides about names, not about places."""

    def put(slug: ContextSlug, path: SourcePath, data: bytes) -> None:
        raw = decode_path(path)
        parts = raw.split(b"/")
        if raw.startswith(b"/") or b".." in parts or b"" in parts or b"." in parts:
            raise RejectedInput("bad_backup", f"it holds a source {path!r}", remedy="take another archive")
        place = os.path.join(os.fsencode(call.staged_folder(slug)), raw)  # noqa: PTH118
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        with open(place, "wb") as out:  # noqa: PTH123  # an earlier restore may have been cut short
            out.write(data)

    return put
