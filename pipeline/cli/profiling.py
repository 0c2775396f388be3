"""profile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson, folder_slug, read_manifest, slug_of
from pipeline.console import Console, counted, duration
from pipeline.errors import RejectedInput
from pipeline.fingerprint import decode_path, encode_path
from pipeline.progress import Progress, single
from pipeline.rows import ContextRow
from pipeline.types import SourcePath

if TYPE_CHECKING:
    from manifests import Manifest
    from pipeline.profile import Seen, Spent

MILLION = 1_000_000


def profile(
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(metavar="PATH|CONTEXT", help="A folder, curated before or not, or the name of a context.")
    ],
    *,
    manifest: Annotated[
        str, typer.Option("--manifest", metavar="FILE", help="Manifest to estimate; without it, the live version's.")
    ] = "",
    sample: Annotated[
        int, typer.Option("--sample", metavar="N", min=1, max=10_000, help="Sources that are read at most.")
    ] = 100,
    calibrate: Annotated[
        int,
        typer.Option(
            "--calibrate",
            metavar="N",
            min=0,
            max=200,
            help="Make N requests of each kind for real, so that lengths of replies are known. Costs tokens; the answers "
            "are kept for the next curate.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> int:
    """Estimate what curating would cost: calls, tokens, money and time by model tier. Changes nothing.

    Reads a sample of the sources and counts the requests that a curate would make. What is live and unchanged, and what
    was answered before, costs nothing.
    """
    from pipeline.profile import Seen, Spent, standing  # noqa: PLC0415  # brings the models' libraries
    from pipeline.profile import profile as estimate  # noqa: PLC0415  # as above

    call = invocation(context, as_json=as_json)
    wanted = read_manifest(manifest) if manifest else None
    row = _meant(call, what)
    request = standing(row, wanted or _live_manifest(call, row), sample, calibrate)
    seen, spent = Seen(), Spent()
    try:
        with call.console.watch(lambda: _progress(call, seen)):
            found = estimate(call.ports, request, seen, spent)
    finally:
        _tell_spent(call, request.manifest.curate.artifacts.artifact_model, spent)
    call.console.document(found) if as_json else _show(call, row.slug, found)
    return 0


def _meant(call: Invocation, what: str) -> ContextRow:
    """The context's row; for a folder that is none, one that is in no ledger."""
    if not Path(what).is_dir():
        from pipeline import publish  # noqa: PLC0415  # brings much of the engine

        if Path(what).exists():
            raise RejectedInput("not_a_folder", f"{what} is a file", remedy="give the folder that it stands in")
        with call.ports.ledger.read() as session:
            return publish.require_context(session, slug_of(what))
    folder = os.path.abspath(what)  # noqa: PTH100  # a link stays what it is, as with curate
    slug = folder_slug(os.path.basename(folder), "")  # noqa: PTH119
    with call.ports.ledger.read() as session:
        held = session.contexts.get(slug)
    if held is not None and held.kind == "folder" and _same(held.root, folder):
        return held
    return ContextRow(slug, "folder", encode_path(os.fsencode(folder)), 0.0)


def _same(root: str, folder: str) -> bool:
    try:
        return os.path.samefile(decode_path(SourcePath(root)), os.fsencode(folder))  # noqa: PTH121
    except OSError:
        return False


def _live_manifest(call: Invocation, row: ContextRow) -> Manifest:
    """The manifest that a curate without one would follow."""
    from manifests import manifest_from  # noqa: PLC0415  # its models take a good part of a second to build
    from manifests.templates import default_manifest  # noqa: PLC0415  # as above

    if row.live_version:
        with call.ports.ledger.read() as session:
            live = session.versions.get(row.slug, row.live_version)
        if live is not None:
            return manifest_from(json.loads(live.manifest))
    return default_manifest()


def _progress(call: Invocation, seen: Seen) -> Progress | None:
    measure = "sources" if seen.step == "sample" else "calls"
    return single(seen.step, measure, min(seen.done, seen.total), seen.total, call.ports.clock.now() - seen.began)


def _tell_spent(call: Invocation, tier: str, spent: Spent) -> None:
    if not spent.calls:
        return
    price = call.ports.prices.get(tier)
    used = spent.usage
    paid = (used.prompt * price.prompt + used.completion * price.completion) / MILLION if price else 0.0
    money = f", {paid:.4f} by the prices that are set" if price else ""
    call.console.note(
        f"calibrating took {counted(spent.calls, 'call')}: {used.prompt:,} tokens in, {used.completion:,} out{money}"
    )


def _show(call: Invocation, slug: str, found: dict[str, Any]) -> None:
    out: Console = call.console
    if found["state"] == "empty":
        out.line(f"{slug}: nothing to estimate: {found['reason']}")
        return
    sampling, density, g = found["sampling"], found["density"], found["g"]
    read = f"{sampling['n_sampled']:,} of {counted(sampling['n_total'], 'source')}"
    out.line(f"{slug}: {read} read in {duration(sampling['wall_s'])}; {density['avg_doc_chars']:,} characters each")
    out.line(
        f"artifacts: about {g['value']:,} ({g['lo']:,} to {g['hi']:,}; {g['method']}, {g['confidence']} confidence)",
        indent=2,
    )
    rows = []
    for tier, cost in found["cost"]["by_tier"].items():
        tokens, time_s = cost["tokens"], cost["time_s"]
        mark = f"{tier} *" if tier == found["cost"]["default_tier"] else tier
        span = f"{duration(time_s['lo'])} to {duration(time_s['hi'])}"
        rows.append(
            (
                mark, *(f"{tokens[key]:,}" for key in ("point", "lo", "hi", "input", "output")),
                _money(call, tier, tokens), span,
            )
        )  # fmt: skip
    out.table(("tier", "tokens", "at least", "at most", "in", "out", "money", "time"), rows)
    out.paragraph(g["note"], indent=2)


def _money(call: Invocation, tier: str, tokens: dict[str, int]) -> str:
    """Low and high end by the deployment's prices; a dash where none are set."""
    price = call.ports.prices.get(tier)
    if price is None or not tokens["point"]:
        return "-"
    point = (tokens["input"] * price.prompt + tokens["output"] * price.completion) / MILLION
    low, high = (point * tokens[key] / tokens["point"] for key in ("lo", "hi"))
    return f"{low:.2f} to {high:.2f}"
