"""curate and cancel."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, folder_slug, pairs_of, read_manifest, slug_of, text_of
from pipeline.cli.outcome import tell_end
from pipeline.cli.publishing import follow
from pipeline.console import Console
from pipeline.errors import RejectedInput
from pipeline.fingerprint import decode_path, encode_path
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.progress import Estimator, Progress, StageShape, single
from pipeline.rows import ContextRow, RunRow
from pipeline.types import ContextSlug, RunId, SourcePath

if TYPE_CHECKING:
    from pipeline.request import CurateRequest

INTERRUPTED = 130


What = Annotated[
    str,
    typer.Argument(
        metavar="[PATH|CONTEXT]", help="A folder or s3://BUCKET/PREFIX to read in place, or the name of a context."
    ),
]
Name = Annotated[
    str, typer.Option("--context", metavar="SLUG", help="Name of the context; without it, the folder's name.")
]
ManifestFile = Annotated[
    str, typer.Option("--manifest", metavar="FILE", help="Manifest to follow from now on (JSON or YAML).")
]
Choices = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A choice of the recipe, such as embedder=static. May be repeated."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Build every source anew, as manifest and recipe say now.")]
Rehash = Annotated[bool, typer.Option("--rehash", help="Read every file, don't trust sizes and times.")]
AllowEmpty = Annotated[bool, typer.Option("--allow-empty", help="Go on though no file is left.")]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=0, help="Files in one unit of work; 0: the setting.")
]
Workers = Annotated[
    int, typer.Option("--workers", metavar="N", min=0, max=256, help="Units worked on at a time; 0: the setting.")
]
Legs = Annotated[
    str,
    typer.Option("--legs", metavar="LEGS", help="Legs to run, with + between them: chunks, or chunks+artifacts."),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model", metavar="TIER|ID", help="Language model of the artifact leg instead of the manifest's tier."
    ),
]
ArtifactsReset = Annotated[
    bool, typer.Option("--artifacts-reset", help="Ask the language model anew for everything; wants --force.")
]
SkipCorpus = Annotated[
    bool,
    typer.Option("--skip-corpus-aggregation", help="Extract from documents; leave subjects of the corpus as they are."),
]
MaxSpend = Annotated[
    float | None,
    typer.Option(
        "--max-spend", metavar="MONEY", min=0, help="Make no further call to a language model past this cost."
    ),
]


def curate(
    context: typer.Context,
    what: What = "",
    *,
    name: Name = "",
    manifest: ManifestFile = "",
    settings: Choices = None,
    force: Force = False,
    rehash: Rehash = False,
    allow_empty: AllowEmpty = False,
    batch_size: BatchSize = 0,
    workers: Workers = 0,
    legs: Legs = "",
    models: Models = None,
    artifacts_reset: ArtifactsReset = False,
    skip_corpus_aggregation: SkipCorpus = False,
    max_spend: MaxSpend = None,
    as_json: AsJson = False,
) -> int:
    """Bring a context's index up to date with its files, and make the new version live in one step.

    Only new, changed and deleted files cost anything. What was live stays live until the new version is whole, and a
    run that was cut short goes on where it stopped.
    """
    call = invocation(context, as_json=as_json)
    call.workers = workers
    request = request_from(
        call,
        what,
        name,
        manifest=manifest,
        settings=settings,
        force=force,
        rehash=rehash,
        allow_empty=allow_empty,
        batch_size=batch_size,
        legs=legs,
        models=models,
        artifacts_reset=artifacts_reset,
        skip_corpus_aggregation=skip_corpus_aggregation,
        max_spend=max_spend,
    )
    return carry_out(call, request)


def carry_out(call: Invocation, request: CurateRequest, then: Callable[[], Mapping[str, object]] = dict) -> int:
    """Do the run here, show its progress, and tell how it ended; `then` follows it, and is told with it under --json."""
    from pipeline.loop import Meter, curate_and_follow  # noqa: PLC0415  # as above

    slug = request.context
    meter = Meter()
    try:
        with _stoppable(call.console), call.console.watch(looker(call.ports, slug, meter)):
            run = curate_and_follow(call.ports, request, call.settings.workers, meter)
    except KeyboardInterrupt:
        call.console.note(f"interrupted: what is live in {slug} is untouched. The same command goes on with this run")
        return INTERRUPTED
    status = tell_end(call.console, call.ports, run, then())
    _optimize(call, slug)
    follow(call, slug)
    return status


def request_from(
    call: Invocation,
    what: str,
    name: str,
    *,
    manifest: str,
    settings: list[str] | None,
    force: bool,
    rehash: bool,
    allow_empty: bool,
    batch_size: int,
    legs: str,
    models: list[str] | None,
    artifacts_reset: bool,
    skip_corpus_aggregation: bool,
    max_spend: float | None,
    trigger: str = "manual",
) -> CurateRequest:
    """What was typed as a request; its context is made where a folder is curated for the first time."""
    from pipeline.request import CurateRequest  # noqa: PLC0415  # brings the models' libraries

    wanted = read_manifest(manifest) if manifest else None
    choices = pairs_of(settings or ())
    return CurateRequest(
        _open(call, what, name),
        wanted,
        choices,
        force=force,
        rehash=rehash,
        allow_empty=allow_empty,
        batch_size=batch_size or None,
        models=tuple(map(text_of, models or ())),
        legs=tuple(text_of(legs).split("+")) if legs else None,
        artifacts_reset=artifacts_reset,
        skip_corpus_aggregation=skip_corpus_aggregation,
        max_spend=max_spend,
        trigger=trigger,
    )


def _optimize(call: Invocation, slug: ContextSlug) -> None:
    """Build what makes a large index fast. The new version is live and told by now: nothing depends on this."""
    from pipeline.loop import optimize  # noqa: PLC0415  # as above

    began, seen = call.ports.clock.now(), [0, 0]

    def report(done: int, total: int) -> None:
        seen[:] = [done, total]

    def look() -> Progress | None:
        return single("graph", "records", seen[0], seen[1], call.ports.clock.now() - began)

    try:
        with _stoppable(call.console), call.console.watch(look):
            optimize(call.ports, slug, report=report, stop=lambda: False)
    except KeyboardInterrupt:
        call.console.note("interrupted: the graph for fast searches isn't built; the next curate builds it")


@contextmanager
def _stoppable(console: Console) -> Iterator[None]:
    """Ctrl-C says at once that it was heard; a second one doesn't wait for the work at hand."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    pressed: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            # Safe at any moment, as a killed process is: the next run takes over what was committed.
            os._exit(INTERRUPTED)
        console.note("stopping after the piece of work at hand; Ctrl-C again stops at once")
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _open(call: Invocation, what: str, name: str) -> ContextSlug:
    """The context meant; made when a folder is curated for the first time."""
    from pipeline import contexts, publish  # noqa: PLC0415  # as above

    if what.startswith("s3://"):
        root = text_of(what).rstrip("/")
        slug = folder_slug(root.rpartition("/")[2], name)
        return contexts.open_context(call.ports, slug, kind="s3", root=encode_path(root.encode())).slug
    if what and Path(what).is_dir():
        folder = os.path.abspath(what)  # noqa: PTH100  # a link stays what it is: it may lead elsewhere tomorrow
        slug = folder_slug(os.path.basename(folder), name)  # noqa: PTH119
        if call.settings.home.is_relative_to(os.path.realpath(folder)):
            raise RejectedInput(
                "home_inside",
                f"LAMINA_HOME ({call.settings.home}) stands inside {folder}: Lamina would index its own files",
                remedy="set LAMINA_HOME to a folder elsewhere, or curate a folder beside it",
            )
        root = encode_path(os.fsencode(folder))
        held = _known(call.ports, slug)
        if held is not None and held.kind == "folder" and _same_folder(held.root, folder):
            root = SourcePath(held.root)
        return contexts.open_context(call.ports, slug, kind="folder", root=root).slug
    if what and Path(what).exists():
        raise RejectedInput(
            "not_a_folder",
            f"{what} is a file",
            remedy="curate the folder it stands in, or stage it: lamina add CONTEXT FILE",
        )
    if what and name and what != name:
        raise RejectedInput(
            "no_folder",
            f"there is no folder {what}",
            remedy=f"check the path; to curate {name} as it is: lamina curate {name}",
        )
    if not what and not name:
        raise RejectedInput(
            "usage", "nothing to curate was named", remedy="give a folder or a context: lamina curate PATH|CONTEXT"
        )
    slug = slug_of(what or name)
    if _known(call.ports, slug) is None:
        with call.ports.ledger.read() as session:
            known = ", ".join(row.slug for row in session.contexts.list()) or "none yet"
        raise RejectedInput(
            "no_context", f"there is no folder and no context {what or name!r}", remedy=f"contexts: {known}"
        )
    with call.ports.ledger.read() as session:
        return publish.require_context(session, slug).slug


def _known(ports: Ports, slug: ContextSlug) -> ContextRow | None:
    with ports.ledger.read() as session:
        return session.contexts.get(slug)


def _same_folder(root: str, folder: str) -> bool:
    try:
        return os.path.samefile(decode_path(SourcePath(root)), os.fsencode(folder))  # noqa: PTH121
    except OSError:
        return False


def looker(ports: Ports, slug: ContextSlug, meter: Any) -> Callable[[], Progress | None]:
    """What the console calls to see how far the context's run has got."""
    shown: list[RunId] = []

    def which(session: Session) -> RunRow | None:
        run = session.runs.active(slug) or next(iter(session.runs.list(slug, 1)), None)
        found = run if run is not None and run.owner == ports.owner else None
        # A run that has ended since the last look is looked at once more, so that its end is told, too.
        looked = session.runs.get(shown[0]) if shown else found
        if found is not None:
            shown[:] = [found.id]
        return looked

    return _look_at(ports, which, meter.done, meter.doing)


def looker_at(ports: Ports, run: RunId) -> Callable[[], Progress | None]:
    """The same for a run of the fleet, and for the runs that follow it: only the ledger tells how far it has got."""
    nothing: dict[str, int] = {}

    def which(session: Session) -> RunRow | None:
        row = session.runs.get(run)
        return (session.runs.active(row.context) or row) if row else None

    return _look_at(ports, which, nothing, nothing)


def _look_at(
    ports: Ports, which: Callable[[Session], RunRow | None], done: Mapping[str, int], doing: Mapping[str, int]
) -> Callable[[], Progress | None]:
    from pipeline.curate import stages_of  # noqa: PLC0415  # as above

    estimator = Estimator((), ports.clock.now())

    def look() -> Progress | None:
        with ports.ledger.read() as session:
            looked = which(session)
            summary = session.units.summary(looked.id) if looked else ()
        if looked is None:
            return None
        stages = stages_of(looked)
        estimator.shapes = tuple(StageShape(stage.name, stage.scope == "batch", stage.measure) for stage in stages)
        now_done = {stage.name: done.get(stage.name, 0) for stage in stages}
        now_doing = {stage.name: doing.get(stage.name, 0) for stage in stages}
        return estimator.look(looked.id, summary, now_done, now_doing, ports.clock.now())

    return look


def cancel(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run; `lamina runs CONTEXT` lists them.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Stop a run. What is live stays as it is; a run that is past its seal is finished instead, as it can only go on."""
    from pipeline import curate as flow  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    ended = flow.cancel(call.ports, RunId(text_of(run)))
    if as_json:
        call.console.document({"run": ended.id, "context": ended.context, "state": ended.state})
    elif ended.state == "abandoned":
        call.console.line(f"run {ended.id} of {ended.context} is cancelled; what is live is untouched")
    else:
        call.console.line(
            f"run {ended.id} of {ended.context} is past its seal and goes on to its end; `lamina rollback` takes it back"
        )
    return 0
