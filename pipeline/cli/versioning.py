"""versions, rollback, pin and unpin."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline import contexts, contract, publish
from pipeline.cli.invocation import invocation
from pipeline.cli.options import AsJson, ContextName, seconds_of, slug_of, text_of
from pipeline.cli.publishing import follow
from pipeline.console import Rows, moment


def versions(context: typer.Context, name: ContextName, *, as_json: AsJson = False) -> int:
    """List the versions of a context, newest first: which is live, and which can still be read or rolled back to."""
    call = invocation(context, as_json=as_json)
    slug = slug_of(name)
    now = call.ports.clock.now()
    with call.ports.ledger.read() as session:
        held = publish.require_context(session, slug)
        listed = session.versions.list(slug)
        purged = session.purges.holding(slug)
        pins = [pin for pin in session.versions.pins(slug) if pin.until > now]
    rows: Rows = []
    for version in listed:
        until = max((pin.until for pin in pins if pin.version == version.number), default=0.0)
        rows.append(
            {
                "version": version.number,
                "state": version.state,
                "live": version.number == held.live_version,
                "readable": version.readable,
                "purged": version.number in purged,
                "pinned_until": contract.timestamp(until) if until else None,
                "pins": [pin.id for pin in pins if pin.version == version.number],
                "records": version.records,
                "claimed_at": contract.timestamp(version.claimed_at),
                "live_at": contract.timestamp(version.live_at) if version.live_at else None,
                "run": version.run,
            }
        )
    if as_json:
        call.console.document({"context": name, "live_version": held.live_version, "versions": rows})
    elif rows:
        when = {version.number: moment(version.live_at or version.claimed_at) for version in listed}
        call.console.table(
            ("version", "state", "live", "readable", "pinned", "records", "when", "run"),
            [
                (
                    row["version"], "purged" if row["purged"] else row["state"], "yes" if row["live"] else "", "yes" if row["readable"] else "",
                    ", ".join(row["pins"]), row["records"], when[row["version"]], row["run"],
                )
                for row in rows
            ],
        )  # fmt: skip
    else:
        call.console.line(f"{name} has not been curated yet; run: lamina curate {name}")
    return 0


def rollback(
    context: typer.Context,
    name: ContextName,
    *,
    to: Annotated[
        int | None, typer.Option("--to", metavar="N", help="Version to make live; without it, the one live before.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make an earlier version live again, or a later one once more. It takes a moment, whatever the size."""
    from pipeline import curate as flow  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    run = flow.rollback(call.ports, slug_of(name), to)
    if as_json:
        call.console.document(
            {"context": name, "live_version": run.number, "previous_version": run.base_version, "run": run.id}
        )
    else:
        call.console.line(f"{name}: version {run.number} is live, before it was {run.base_version}")
        call.console.line(f"back again: lamina rollback {name} --to {run.base_version}", indent=2)
    follow(call, slug_of(name))
    return 0


def pin(
    context: typer.Context,
    name: ContextName,
    *,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="Version to hold; without it, the live one.")
    ] = None,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long: 90s, 15m, 2h, 7d; at most 30d.")
    ] = "1h",
    as_json: AsJson = False,
) -> int:
    """Keep a version readable for a while, whatever is curated meanwhile."""
    call = invocation(context, as_json=as_json)
    held = contexts.pin(call.ports, slug_of(name), version=version, seconds=seconds_of(duration))
    if as_json:
        call.console.document(
            {"context": name, "pin": held.id, "version": held.version, "until": contract.timestamp(held.until)}
        )
    else:
        call.console.line(f"version {held.version} of {name} is pinned until {moment(held.until)}")
        call.console.line(f"let go with: lamina unpin {name} {held.id}", indent=2)
    return 0


def unpin(
    context: typer.Context,
    name: ContextName,
    pin_id: Annotated[str, typer.Argument(metavar="PIN", help="Id of the pin; `lamina versions` lists them.")],
    *,
    as_json: AsJson = False,
) -> int:
    """Let a pin go before its time."""
    call = invocation(context, as_json=as_json)
    contexts.unpin(call.ports, slug_of(name), text_of(pin_id))
    if as_json:
        call.console.document({"context": name, "unpinned": pin_id})
    else:
        call.console.line(f"pin {pin_id} of {name} is gone")
    return 0
