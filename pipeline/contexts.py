"""Flows over contexts that are not runs: open one, pin and unpin versions, forget one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline import publication, publish
from pipeline.errors import Conflict, RejectedInput
from pipeline.fingerprint import fingerprint
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.rows import ContextRow, PinRow
from pipeline.types import ContextSlug

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""Lower-case letters, digits and inner hyphens, 1 to 63: fits a host name, a folder and a Pinecone namespace part."""

PIN_SECONDS_MAX = 30 * 24 * 3600
"""Longest pin: a version that is pinned can't be reclaimed, so a forgotten pin must end."""


def slug_from(name: str) -> ContextSlug:
    """A slug made of a folder's name: lower case, everything else a hyphen.

    Raises:
        RejectedInput: nothing usable is left of the name.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].strip("-")
    if not slug:
        raise RejectedInput("bad_slug", f"can't make a context name of {name!r}", remedy="give one: --context NAME")
    return ContextSlug(slug)


def checked_slug(text: str) -> ContextSlug:
    """`text` as a slug.

    Raises:
        RejectedInput: it isn't one.
    """
    if not SLUG.fullmatch(text):
        raise RejectedInput(
            "bad_slug",
            f"{text!r} can't name a context",
            remedy="use 1 to 63 lower-case letters, digits and inner hyphens",
        )
    return ContextSlug(text)


def open_context(ports: Ports, slug: ContextSlug, *, kind: str, root: str) -> ContextRow:
    """The context, created when it is new.

    Args:
        ports: the deployment.
        slug: its name.
        kind: `folder`, `s3` or `staged`.
        root: the folder, as `fingerprint.encode_path` writes it, or an `s3://` address; empty when staged.

    Raises:
        RejectedInput: the name is taken by another folder, or by staged files.
    """
    with ports.ledger.transaction("context.open", slug) as session:
        held = session.contexts.get(slug)
        if held is None:
            held = ContextRow(slug, kind, root, ports.clock.now())
            session.contexts.create(held)
        elif (held.kind, held.root) != (kind, root):
            where = held.root or "files staged with lamina add"
            raise RejectedInput(
                "slug_taken",
                f"context {slug} belongs to {where}",
                remedy="give this one another name: --context NAME",
            )
        return held


@dataclass(frozen=True, slots=True)
class Pinned:
    """A hold on one version."""

    id: str
    version: int
    until: float


def pin(ports: Ports, slug: ContextSlug, *, version: int | None, seconds: float) -> Pinned:
    """Keep a version readable for a while, whatever is curated meanwhile.

    Raises:
        RejectedInput: nothing curated yet, or a time out of bounds.
        Conflict: code `version_gone`, also of a version under a purge.
    """
    if not 0 < seconds <= PIN_SECONDS_MAX:
        raise RejectedInput(
            "bad_duration", f"a pin of {seconds / 86400:.3g} days", remedy="give more than nothing and at most 30d"
        )
    now = ports.clock.now()
    with ports.ledger.transaction("pin", slug) as session:
        context = publish.require_context(session, slug)
        number = context.live_version if version is None else version
        if not number and version is None:
            raise RejectedInput("not_curated", f"{slug} has not been curated yet", remedy=f"run: lamina curate {slug}")
        publish.require_readable(session, slug, number)
        if number in session.purges.holding(slug):
            raise Conflict(
                "version_gone",
                f"version {number} of {slug} holds purged sources, and is readable until the pins that it has end",
                remedy=f"pin another version: lamina versions {slug}",
            )
        held = len(session.versions.pins(slug))
        row = PinRow(fingerprint("pin", slug, number, str(now), ports.owner, held)[:12], number, now + seconds, now)
        session.versions.pin(slug, row)
    return Pinned(row.id, number, row.until)


def unpin(ports: Ports, slug: ContextSlug, pin_id: str) -> None:
    """Let a pin go.

    Raises:
        RejectedInput: there is no such pin.
    """
    with ports.ledger.transaction("unpin", slug) as session:
        publish.require_context(session, slug)
        if not session.versions.unpin(slug, pin_id):
            pins = ", ".join(p.id for p in session.versions.pins(slug)) or "none"
            raise RejectedInput("no_pin", f"{slug} has no pin {pin_id!r}", remedy=f"pins: {pins}")


def forget(ports: Ports, slug: ContextSlug) -> None:
    """Erase a context from the ledger and the index. Its files are the caller's to remove, afterwards.

    Raises:
        RejectedInput: there is no such context.
        Conflict: codes `run_active` and `publishing`: a run of it is at work, or its copy is being written.
        Unavailable: the index doesn't answer, ours or the one that it is published to.
    """
    with ports.ledger.read() as session:
        publish.require_context(session, slug)
        _require_idle(ports, session, slug)
        namespaces = session.records.namespaces(slug)
    if ports.pair is not None:
        publication.withdraw(ports, slug)
    with ports.ledger.transaction("context.delete", slug) as session:
        _require_idle(ports, session, slug)
        session.contexts.delete(slug)
    for namespace in namespaces:
        ports.index(slug).drop(namespace)


def _require_idle(ports: Ports, session: Session, slug: ContextSlug) -> None:
    run = session.runs.active(slug)
    if run is not None and run.held(ports.clock.now(), ports.limits.far_s):
        raise Conflict(
            "run_active", f"run {run.id} of {slug} is at work", remedy=f"stop it first: lamina cancel {run.id}"
        )
