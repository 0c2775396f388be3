"""The table of verbs, and how a call ends.

Exit status: 0 done (skipped files are listed), 1 done but sources failed or were scans without text, 2 the input was
refused, 3 it could not be finished, 130 interrupted.
"""

from __future__ import annotations

import importlib.metadata
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.exceptions import Abort, TyperException

from pipeline.cli import (
    asking,
    checking,
    curating,
    deleting,
    doctor,
    importing,
    inspecting,
    keeping,
    knowing,
    looking,
    manifest,
    merging,
    metering,
    planning,
    profiling,
    publishing,
    quarantining,
    replaying,
    staged,
    versioning,
    watching,
    working,
)
from pipeline.cli.invocation import Invocation
from pipeline.console import Console
from pipeline.errors import PipelineError, RejectedInput

REFUSED, UNFINISHED, INTERRUPTED = 2, 3, 130

COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("curate", curating.curate, "lamina curate ./handbook --set embedder=static"),
    ("watch", watching.watch, "lamina watch ./handbook"),
    ("plan", planning.plan, "lamina plan handbook --manifest lamina.yaml"),
    ("apply", planning.apply, "lamina apply 3f2a9c0d1b7e4a55"),
    ("replay", replaying.replay, "lamina replay 3f2a9c0d1b7e4a55 --from extract"),
    ("profile", profiling.profile, "lamina profile ./handbook --manifest lamina.yaml"),
    ("query", asking.query, 'lamina query handbook "how do I reset a password" -k 5'),
    ("contexts", looking.contexts, "lamina contexts"),
    ("runs", looking.runs, "lamina runs handbook"),
    ("show", looking.show, "lamina show 3f2a9c0d1b7e4a55"),
    ("sources", looking.sources, "lamina sources handbook"),
    ("ledger", looking.ledger, "lamina ledger handbook --json"),
    ("chunks", asking.chunks, "lamina chunks handbook --source guides/setup.md"),
    ("artifacts", knowing.artifacts, "lamina artifacts handbook --type Person"),
    ("graph", knowing.graph, 'lamina graph handbook "Ada Lovelace" --depth 2'),
    ("sql", knowing.sql, 'lamina sql handbook "SELECT * FROM invoice LIMIT 10"'),
    ("models", knowing.models, "lamina models"),
    ("inspect", inspecting.inspect, "lamina inspect report.pdf --target-size 300"),
    ("versions", versioning.versions, "lamina versions handbook"),
    ("rollback", versioning.rollback, "lamina rollback handbook --to 3"),
    ("pin", versioning.pin, "lamina pin handbook --for 2h"),
    ("unpin", versioning.unpin, "lamina unpin handbook 8c1d02f7a9b3"),
    ("add", staged.add, "lamina add notes ./minutes ./report.pdf"),
    ("import", importing.import_, "lamina import notes ./export.zip ./report.pdf --into archive"),
    ("remove", staged.remove, "lamina remove notes minutes/2023"),
    ("delete-sources", deleting.delete_sources, "lamina delete-sources handbook guides/old.md"),
    ("delete", staged.delete, "lamina delete notes --yes"),
    ("backup", keeping.backup, "lamina backup handbook handbook.tar.gz"),
    ("restore", keeping.restore, "lamina restore handbook.tar.gz"),
    ("gc", keeping.gc, "lamina gc handbook"),
    ("cancel", curating.cancel, "lamina cancel 3f2a9c0d1b7e4a55"),
    ("fsck", checking.fsck, "lamina fsck handbook --repair"),
    ("publish", publishing.publish, "lamina publish handbook --check"),
    ("submit", working.submit, "lamina submit ./handbook --wait"),
    ("explain", working.explain, "lamina explain 3f2a9c0d1b7e4a55"),
    ("requeue", working.requeue, "lamina requeue 3f2a9c0d1b7e4a55"),
    ("metrics", metering.metrics, "lamina metrics --port 9464"),
    ("worker", working.worker, "lamina worker --queues cpu,store --beat"),
    ("up", working.up, "lamina up --workers 2"),
    ("doctor", doctor.doctor, "lamina doctor"),
)
"""Every verb: its name, what it does, and an example for its help."""

MANIFEST_COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("validate", manifest.validate, "lamina manifest validate lamina.yaml"),
    ("schema", manifest.schema, "lamina manifest schema > manifest.schema.json"),
    ("templates", manifest.templates, "lamina manifest templates support-tickets > lamina.json"),
    ("diff", manifest.diff, "lamina manifest diff old.yaml new.yaml"),
)

KNOWLEDGE_COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("list", knowing.list_, "lamina knowledge list handbook"),
    ("read", knowing.read, "lamina knowledge read handbook artifacts/person/ada-lovelace.md"),
    ("export", knowing.export, "lamina knowledge export handbook ./handbook-files"),
)

MERGES_COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("list", merging.list_, "lamina merges list handbook --type Person"),
    ("pin", merging.pin, 'lamina merges pin handbook Person "Ada Lovelace" "Countess of Lovelace"'),
    ("forbid", merging.forbid, 'lamina merges forbid handbook Person "J. Smith" "John Smith"'),
    ("split", merging.split, "lamina merges split handbook Place Paris --source travel/texas.md"),
    ("withdraw", merging.withdraw, "lamina merges withdraw handbook 4be2a90c71d3"),
)

QUARANTINE_COMMANDS: tuple[tuple[str, Callable[..., int], str], ...] = (
    ("list", quarantining.list_, "lamina quarantine list handbook"),
    ("why", quarantining.why, "lamina quarantine why handbook scans/broken.pdf"),
    ("release", quarantining.release, "lamina quarantine release handbook scans/broken.pdf"),
)

GROUPS: tuple[tuple[str, str, tuple[tuple[str, Callable[..., int], str], ...]], ...] = (
    ("manifest", "Check, describe and compare manifests.", MANIFEST_COMMANDS),
    ("knowledge", "List, read and export the files of a version.", KNOWLEDGE_COMMANDS),
    ("quarantine", "See and release sources that the pipeline can't take.", QUARANTINE_COMMANDS),
    ("merges", "See which names were merged into one subject, and decide about it.", MERGES_COMMANDS),
)


def build_app() -> typer.Typer:
    """The command-line application."""
    app = typer.Typer(
        rich_markup_mode=None, pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.callback()(_lamina)
    for name, function, example in COMMANDS:
        app.command(name, epilog=f"Example: {example}")(function)
    for group, told, commands in GROUPS:
        inner = typer.Typer(rich_markup_mode=None, help=told)
        for name, function, example in commands:
            inner.command(name, epilog=f"Example: {example}")(function)
        app.add_typer(inner, name=group)
    return app


def _show_version(value: bool) -> None:  # noqa: FBT001  # the signature of an option's callback
    if value:
        try:
            version = importlib.metadata.version("lamina")
        except importlib.metadata.PackageNotFoundError:
            version = "(run from its source, not installed)"
        Console().line(f"lamina {version}")
        raise typer.Exit


def _lamina(
    context: typer.Context,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the program an error came from.")] = False,
    version: Annotated[  # noqa: ARG001  # its callback has answered
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Turn a folder of documents and one manifest into a versioned index that can be queried.

    Start with `lamina curate FOLDER`, then ask `lamina query CONTEXT "…"`. State lives in LAMINA_HOME, ~/.lamina unless
    set. Every verb takes --json.
    """
    cast("Invocation", context.obj).debug = debug


def run(arguments: Sequence[str], environ: Mapping[str, str], folder: Callable[[], Path]) -> int:
    """One call of `lamina`, from its arguments to its exit status; every error is printed here.

    Args:
        arguments: without the program's name.
        environ: for the settings.
        folder: tells the current folder.
    """
    held = Invocation(environ, folder)
    command: Any = typer.main.get_command(build_app())
    try:
        try:
            status = command.main(
                args=list(arguments) or ["--help"], prog_name="lamina", standalone_mode=False, obj=held
            )
        finally:
            held.close()
        held.console.flush()
        return status if isinstance(status, int) else 0
    except Exception as error:  # noqa: BLE001  # the driver: whatever happens, a person reads one plain message
        if held.debug:
            held.console.trace(traceback.format_exc())
        held.console.as_json |= "--json" in arguments
        return _report(held.console, error)
    except KeyboardInterrupt:
        held.console.note("interrupted")
        return INTERRUPTED


def _report(console: Console, error: Exception) -> int:
    from manifests import ManifestError  # noqa: PLC0415  # its models take a good part of a second to build

    if isinstance(error, PipelineError):
        console.error(error.code, error.message, error.remedy)
        return REFUSED if isinstance(error, RejectedInput) else UNFINISHED
    if isinstance(error, ManifestError):
        console.error("bad_manifest", str(error), "correct it, then check with: lamina manifest validate FILE")
        return REFUSED
    if isinstance(error, TyperException):
        place = getattr(getattr(error, "ctx", None), "command_path", "lamina")
        console.error("usage", error.format_message(), f"see: {place} --help")
        return REFUSED
    if isinstance(error, Abort):
        return INTERRUPTED
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    console.error(
        "unexpected",
        f"something went wrong that shouldn't: {what}",
        "run it again as `lamina --debug …` and report what it says",
    )
    return UNFINISHED
