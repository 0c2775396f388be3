"""replay: a past run once more, from its recordings, and what came out otherwise."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.cli import curating
from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, read_manifest, text_of
from pipeline.cli.publishing import follow
from pipeline.console import Console, counted
from pipeline.errors import RejectedInput
from pipeline.types import RunId

SHOWN_MAX = 20
"""Differences that a terminal shows; --json lists more."""
HITS_SHOWN = 5


def replay(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run that made a version live; see `lamina runs`.")],
    *,
    stage: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="STAGE",
            help="First stage that is done anew: parse, chunk, embed_dense, extract or reduce.",
        ),
    ] = "chunk",
    sources: Annotated[
        str, typer.Option("--source", metavar="GLOB", help="Only these sources: a glob or a folder.")
    ] = "",
    manifest: Annotated[
        str, typer.Option("--manifest", metavar="FILE", help="Follow another manifest (JSON or YAML).")
    ] = "",
    live: Annotated[
        bool, typer.Option("--live", help="Ask providers for what isn't recorded, and pay for it; it is recorded then.")
    ] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Make the outcome live in the context.")] = False,
    questions: Annotated[
        list[str] | None,
        typer.Option("--question", metavar="TEXT", help="Ask both, and compare what they find. May be repeated."),
    ] = None,
    keep: Annotated[
        str, typer.Option("--keep", metavar="FOLDER", help="Leave the outcome in a new folder, as a home of its own.")
    ] = "",
    workers: curating.Workers = 0,
    as_json: AsJson = False,
) -> int:
    """Do a past run again from what was recorded of it, beside the context, and compare. No provider is asked.

    Nothing of the context changes without --publish. Exit status 1: with nothing changed, it came out otherwise.
    """
    from pipeline import bootstrap  # noqa: PLC0415  # brings every adapter
    from pipeline import publish as publish_  # noqa: PLC0415  # brings numeric libraries
    from pipeline import replay as flow  # noqa: PLC0415  # brings the stages and their libraries
    from pipeline.loop import Meter  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    call.workers = workers
    ask = flow.Ask(
        RunId(text_of(run)), text_of(stage), text_of(sources), read_manifest(manifest) if manifest else None,
        live, publish, tuple(text_of(question) for question in questions or ()),
    )  # fmt: skip
    with call.ports.ledger.read() as session:
        slug = publish_.require_run(session, ask.run).context
    meter = Meter()
    with _folder(text_of(keep) and keep) as folder:
        scratch = bootstrap.scratch(call.settings, folder)
        try:
            with call.console.watch(curating.looker(scratch, slug, meter)):
                report = flow.replay(call.ports, scratch, ask, call.settings.workers, meter)
        finally:
            bootstrap.close(scratch)
    report["kept_in"] = str(folder) if keep else None
    if as_json:
        call.console.document(report)
    else:
        _show(call.console, report)
    if report["published"] is not None:
        follow(call, slug)
        if report["published"]["state"] not in ("completed", "noop"):
            return 3
    return 1 if report["equal"] is False and not report["changed"] else 0


@contextmanager
def _folder(keep: str) -> Iterator[Path]:
    """The scratch home: the folder asked for, which must be new, or one that is gone afterwards."""
    if not keep:
        with tempfile.TemporaryDirectory(prefix="lamina-replay-") as made:
            yield Path(made)
        return
    folder = Path(keep).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RejectedInput("folder_taken", f"{keep} is there already and not empty", remedy="name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


def _show(out: Console, report: dict[str, Any]) -> None:
    part = f", only {report['sources']}" if report["sources"] else ""
    out.line(
        f"run {report['run']} of {report['context']}, version {report['version']}, again from {report['from']}{part}"
    )
    paid = [
        counted(report["embedded_texts"], "text") + " embedded" if report["embedded_texts"] else "",
        counted(report["model_calls"], "call") + " to a language model" if report["model_calls"] else "",
    ]
    out.line(
        f"done anew: {', '.join(filter(None, paid))}" if any(paid) else "no model and no provider was asked", indent=2
    )
    if report["equal"] is None:
        out.line(report["reason"], indent=2)
    elif report["equal"]:
        out.line(f"it comes out the same, byte for byte: {_counts(report, 'same')}", indent=2)
    else:
        out.line(f"it comes out otherwise: {counted(report['differences_total'], 'difference')}", indent=2)
        for what in ("changed", "missing", "extra", "same"):
            if found := _counts(report, what):
                out.line(f"{what}: {found}", indent=2)
        out.table(
            ("what", "of", "source", "name"),
            [(row["what"], row["kind"], row.get("source", ""), row["name"])
             for row in report["differences"][:SHOWN_MAX]],
        )  # fmt: skip
        if report["differences_total"] > SHOWN_MAX:
            out.line("see more with --json", indent=2)
    for asked in report["questions"]:
        _question(out, asked)
    if report["kept_in"]:
        out.line(f"kept: LAMINA_HOME={report['kept_in']} lamina query {report['context']} ...", indent=2)
    if published := report["published"]:
        ended = published["error"] or f"version {published['version']} is live"
        out.line(f"published by run {published['run']}, {published['state']}: {ended}", indent=2)


def _counts(report: dict[str, Any], what: str) -> str:
    found = {
        kind: report["counts"].get(f"{kind}_{what}", 0) for kind in ("chunk", "vector", "artifact", "edge", "file")
    }
    return ", ".join(counted(count, kind) for kind, count in found.items() if count)


def _question(out: Console, asked: dict[str, Any]) -> None:
    out.line()
    found = "finds the same" if asked["same"] else f"{asked['shared']} of {len(asked['then'])} are found again"
    out.line(f"{asked['question']}: {found}")
    if not asked["same"]:
        pairs = [
            (str(at + 1), *(side[at]["source"] if at < len(side) else "-" for side in (asked["then"], asked["now"])))
            for at in range(min(HITS_SHOWN, max(len(asked["then"]), len(asked["now"]))))
        ]
        out.table(("", "then", "now"), pairs)
