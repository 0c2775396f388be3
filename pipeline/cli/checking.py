"""fsck: the ledger held against index, files and folder."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, ContextName, slug_of
from pipeline.console import counted
from pipeline.progress import Progress, single

UNSOUND = 1
LISTED_MAX = 20
WORDS = {
    "missing": ("record", "that the index doesn't hold"),
    "changed": ("record", "with other contents"),
    "dense": ("record", "whose vector can't be used"),
    "sparse": ("record", "whose terms aren't its text's"),
    "stamp": ("record", "whose removal stamp isn't the ledger's"),
    "stray": ("id", "in the index that nobody lists"),
    "file": ("file", "lost or spoilt"),
    "counts": ("count", "of documents that isn't right"),
    "view": ("difference", "between the knowledge folder and what is live"),
}


def fsck(
    context: typer.Context,
    name: ContextName,
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what can be, from files and ledger.")] = False,
    as_json: AsJson = False,
) -> int:
    """Hold every readable version against index, files and folder, by id and by hash. Exit status 1: not all is sound.

    Nothing is parsed and no source is read; a run of the kind `fsck` records what was found.
    """
    from pipeline import fsck as flow  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    began, seen = call.ports.clock.now(), [0, 0]

    def progress(done: int, total: int) -> None:
        seen[:] = [done, total]

    def look() -> Progress | None:
        return single("fsck", "records", seen[0], seen[1], call.ports.clock.now() - began)

    with call.console.watch(look):
        report = flow.fsck(call.ports, slug, repair=repair, progress=progress)
    if as_json:
        call.console.document(
            {
                "context": slug, "sound": report.sound, "versions": list(report.versions), "records": report.records,
                "files": report.files, "ids": report.ids, "found": report.found, "healed": report.healed, "run": report.run,
                "findings": [
                    {"kind": f.kind, "what": f.what, "where": f.where, "healed": f.healed} for f in report.findings
                ],
            }
        )  # fmt: skip
        return 0 if report.sound else UNSOUND
    out = call.console
    out.line(
        f"{slug}: {counted(report.records, 'record')}, {counted(report.files, 'file')} and {counted(report.ids, 'id')} "
        f"checked in {counted(len(report.versions), 'version')}"
    )
    for kind, count in sorted(report.found.items()):
        healed = report.healed.get(kind, 0)
        noun, what = WORDS[kind]
        out.line(f"{counted(count, noun)} {what}{f', {healed:,} healed' if healed else ''}", indent=2)
    for finding in report.findings[:LISTED_MAX]:
        out.line(f"{finding.kind}: {finding.what} of {finding.where}{', healed' if finding.healed else ''}", indent=4)
    if len(report.findings) > LISTED_MAX:
        out.line("see all with --json", indent=4)
    if not report.found:
        out.line("all of it is as the ledger says", indent=2)
    elif not report.sound:
        out.line(
            f"heal with: lamina fsck {slug} --repair" if not repair
            else f"what is left comes right with: lamina curate {slug} --force", indent=2,
        )  # fmt: skip
    return 0 if report.sound else UNSOUND
