"""Copies of live versions for third-party readers: a pair of indexes whose service embeds the text itself.

A copy follows the flip, lags behind it and may be seen half-way: it is outside DESIGN §4, invariant 1. Nothing of ours
reads it. Its outbox is the ledger: the pair shows a version, another one is live, and what must change is the difference
of the two. The version that it shows and the one on its way stay readable until it has arrived, so that the difference
can be told again after a crash; writes and deletes are repeatable, and record ids are never used twice. At the end the
pair's own counts are held against the ledger's, and where they differ, ids are: a late write of a holder that was given
up, or whatever else touched the indexes, is put right then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline import publish
from pipeline.errors import Conflict, RejectedInput
from pipeline.fleet_ports import LEGS, PublishedPair
from pipeline.namespaces import KINDS
from pipeline.ports import Ports
from pipeline.publication_carrier import Carrier, Published, expected_counts, lease_s, namespace_for, patiently, resting
from pipeline.rows import PublicationRow
from pipeline.types import ContextSlug

ROUNDS_MAX = 5
"""Versions that one call carries over where curating goes on meanwhile."""

Report = Callable[[int, int], None]


def require_pair(ports: Ports) -> PublishedPair:
    """The deployment's pair.

    Raises:
        RejectedInput: it has none.
    """
    if ports.pair is None:
        raise RejectedInput(
            "no_pair", "no index is set to publish to", remedy="set published_index in lamina.toml; see docs/fleet.md"
        )
    return ports.pair


def behind(ports: Ports) -> tuple[ContextSlug, ...]:
    """Contexts whose copy isn't their live version, nobody being at it or resting from a failure."""
    if ports.pair is None:
        return ()
    now = ports.clock.now()
    with ports.ledger.read() as session:
        live = {c.slug: c.live_version for c in session.contexts.list() if c.live_version and ports.pair.serves(c.slug)}
        rows = dict(session.publications.list(ports.pair.name))
    nothing = PublicationRow(ports.pair.name, 0)
    return tuple(
        slug
        for slug, number in live.items()
        if (row := rows.get(slug, nothing)) and (row.version != number or row.aim) and row.rest_until <= now
    )


def bring_up(
    ports: Ports,
    slug: ContextSlug,
    *,
    check: bool = False,
    report: Report = lambda _done, _total: None,
    stop: Callable[[], bool] = lambda: False,
) -> Published:
    """Make the pair show the live version.

    Args:
        ports: the deployment.
        slug: the context.
        check: hold every id of both indexes against the ledger, whatever their counts say.
        report: given records written or erased so far, and how many there are to do.
        stop: asked now and then whether to end early.

    Raises:
        RejectedInput: no pair is set, the context isn't curated, or its namespace holds somebody else's records.
        Conflict: code `publishing`: another process is at it.
        Unavailable: the service doesn't answer; the next call goes on from here.
    """
    pair = require_pair(ports)
    out = Published(slug, pair.name)
    patiently(ports, pair.open)
    _must_be_free(ports, pair, slug)
    for round_ in range(ROUNDS_MAX):
        held = _take(ports, pair, slug, check=check and not round_)
        if held is None:
            break
        carrier = Carrier(ports, pair, slug, held, out, report, stop)
        with resting(carrier):
            carrier.carry(check=check)
        if out.stopped:
            break
    with ports.ledger.read() as session:
        row = session.publications.get(slug, pair.name)
        out.version = row.version if row else 0
        out.records = expected_counts(session.records.visible(slug, out.version), slug) if out.version else {}
    return out


def withdraw(ports: Ports, slug: ContextSlug) -> bool:
    """Take the context's records out of the pair, and forget that they were there. Whether any had been published.

    Raises:
        RejectedInput: no pair is set.
        Conflict: code `publishing`: another process is at it.
        Unavailable: the service doesn't answer; to be called again.
    """
    pair = require_pair(ports)
    with ports.ledger.read() as session:
        if session.publications.get(slug, pair.name) is None:
            return False
    patiently(ports, pair.open)
    held = _take(ports, pair, slug, check=True)
    assert held is not None, "a check always takes"
    carrier = Carrier(ports, pair, slug, held, Published(slug, pair.name))
    with resting(carrier):
        for kind in KINDS:
            patiently(ports, pair.drop, namespace_for(slug, kind))
        carrier.describe({})
        with ports.ledger.transaction("publication.withdraw", slug) as session:
            carrier.prove(session.publications.get(slug, pair.name))
            session.publications.delete(slug, pair.name)
    return True


def _take(ports: Ports, pair: PublishedPair, slug: ContextSlug, *, check: bool) -> PublicationRow | None:
    """The row, now held by this process, with a version on its way; None where there is nothing to do."""
    now = ports.clock.now()
    with ports.ledger.transaction("publication.take", slug) as session:
        live = publish.require_context(session, slug).live_version
        row = session.publications.get(slug, pair.name) or PublicationRow(pair.name, 0)
        if not live and not row.version:
            raise RejectedInput("not_curated", f"{slug} has not been curated yet", remedy=f"run: lamina curate {slug}")
        if row.holder and row.rest_until > now and not ports.is_gone(row.holder) and row.holder != ports.owner:
            raise Conflict("publishing", f"{row.holder} is publishing {slug}", remedy="wait for it, then try again")
        if row.version == live and not row.aim and not check:
            return None
        cursor = row.cursor if row.aim else ""
        row = replace(
            row,
            aim=row.aim or live,
            cursor=cursor,
            holder=ports.owner,
            fence=row.fence + 1,
            rest_until=now + lease_s(ports),
        )
        session.publications.save(slug, row)
        return row


def _must_be_free(ports: Ports, pair: PublishedPair, slug: ContextSlug) -> None:
    """Refuse to publish into namespaces that hold what isn't ours."""
    with ports.ledger.read() as session:
        if session.publications.get(slug, pair.name) is not None:
            return
    for leg in LEGS:
        counts = patiently(ports, pair.counts, leg)
        taken = [name for kind in KINDS if counts.get(name := namespace_for(slug, kind))]
        if taken:
            raise RejectedInput(
                "namespace_taken",
                f"namespace {taken[0]} of the published {leg} index {pair.name} holds {counts[taken[0]]} records already, "
                f"and {slug} was never published there from here",
                remedy="delete that namespace if it may go, or give the context or published_index another name",
            )
