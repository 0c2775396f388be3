"""One process that carries one version over to the published pair; see `pipeline.publication` for what it keeps to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from pipeline import published_schema
from pipeline.errors import Conflict, PipelineError, Unavailable
from pipeline.fleet_ports import LEGS, Leg, PublishedPair, PublishedRecord
from pipeline.namespaces import KINDS
from pipeline.ports import Ports
from pipeline.published_schema import Fields
from pipeline.retry import next_attempt, rest_s
from pipeline.rows import PublicationRow, RecordRow
from pipeline.types import ContextSlug, Namespace

T = TypeVar("T")
P = ParamSpec("P")

PAGE_ROWS = 1000
"""Rows of the ledger read at a time."""
ROUNDS_MAX = 5
"""Times that the schema record is written again because others wrote it, too."""
SETTLE_S = 60.0
"""How long the pair's counts may take to show what was written."""
LOOK_S = 1.0
REST_S = 60.0
"""At least so long after a failure nobody tries again by itself."""


@dataclass(slots=True)
class Published:
    """What a call did, and what the pair holds then."""

    context: ContextSlug
    index: str
    version: int = 0
    """That the pair shows, whole."""
    written: int = 0
    deleted: int = 0
    missing: int = 0
    """Records found missing from one or both indexes and written again."""
    strays: int = 0
    """Ids found that the version doesn't have, and erased."""
    left_out: int = 0
    """Metadata values left out because the field's earlier values are of another type."""
    cut: int = 0
    """Texts cut to what the service holds of a record."""
    undeclared: tuple[str, ...] = ()
    """Namespaces that found no room in the schema record; readers sample them instead."""
    records: dict[str, int] = field(default_factory=dict)
    """Namespace to its records."""
    stopped: bool = False
    """Ended early because it was told to; the next call goes on from here."""


def namespace_for(slug: ContextSlug, kind: str) -> str:
    """Where readers find a context's passages, and its artifacts. Slugs hold no dot, so that no two meet."""
    return slug if kind == KINDS[0] else f"{slug}.{kind}"


def lease_s(ports: Ports) -> float:
    """Longer than one page takes, a call that comes late included."""
    return ports.limits.lease_s + ports.limits.late_write_s


def patiently(ports: Ports, call: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What the call gives, repeated after waits as long as that is worth it."""
    attempts = 0
    while True:
        try:
            return call(*given, **named)
        except Unavailable as error:
            attempts += 1
            again = next_attempt(error, attempts)
            if again is None:
                raise
            ports.clock.sleep(again.delay_s)


@dataclass(slots=True)
class Carrier:
    """One process that carries one version over."""

    ports: Ports
    pair: PublishedPair
    slug: ContextSlug
    row: PublicationRow
    out: Published
    report: Callable[[int, int], None] = lambda _done, _total: None
    stop: Callable[[], bool] = lambda: False
    done: int = 0
    total: int = 0

    def carry(self, *, check: bool) -> None:
        """What the pair shows becomes `row.aim`, and the row says so; or some of it does, and the row says how far."""
        old, new = self.row.version, self.row.aim
        fields = Fields.parse(self.row.fields)
        with self.ports.ledger.read() as session:
            self.total = session.records.count_between(self.slug, new, old) + session.records.count_between(
                self.slug, old, new
            )
        for page in self._pages(new, old, "+"):
            self.out.written += self._write(page, fields)
            self._keep(cursor=f"+{page[-1].id}", fields=fields.text())
        for page in self._pages(old, new, "-"):
            self._erase(page)
            self.out.deleted += len(page)
            self._keep(cursor=f"-{page[-1].id}")
        if self.out.stopped:
            self._keep(holder="", rest_until=0.0)
            return
        with self.ports.ledger.read() as session:
            expected = expected_counts(session.records.visible(self.slug, new), self.slug)
        if check or not self._settles(expected):
            self._compare(expected, fields)
        shown = fields.of(name for name, count in expected.items() if count)
        self._keep(fields=shown.text())
        self.describe(shown.schemas)
        self._keep(
            version=new, aim=0, cursor="", holder="", rest_until=0.0, error="", changed_at=self.ports.clock.now()
        )

    def prove(self, now: PublicationRow | None) -> PublicationRow:
        """The row as it stands, if this process still holds it."""
        if now is None or now.fence != self.row.fence:
            raise Conflict("stale_fence", f"another process publishes {self.slug} now")
        return now

    def describe(self, own: Mapping[str, Mapping[str, str]]) -> None:
        """Put what readers should know of each namespace into the record that they look for."""
        ports, pair = self.ports, self.pair
        found = patiently(ports, pair.read, published_schema.NAMESPACE, published_schema.RECORD) or ""
        before = found
        for _ in range(ROUNDS_MAX):
            with ports.ledger.read() as session:
                rows = session.publications.list(pair.name)
            names = {name for slug, _ in rows for kind in KINDS for name in (namespace_for(slug, kind),)}
            ours = {
                n: s for slug, row in rows if slug != self.slug for n, s in Fields.parse(row.fields).schemas.items()
            }
            text, self.out.undeclared = published_schema.document({**ours, **own}, found, names)
            if text == before:
                return  # whoever published another context meanwhile is in it, too
            record = PublishedRecord(published_schema.RECORD, text, {})
            patiently(ports, pair.write_dense, published_schema.NAMESPACE, record)
            before = text

    def _keep(self, **changes: object) -> None:
        with self.ports.ledger.transaction("publication.keep", self.slug) as session:
            now = self.prove(session.publications.get(self.slug, self.pair.name))
            lease = {"rest_until": self.ports.clock.now() + lease_s(self.ports), **changes}
            session.publications.save(self.slug, replace(now, **lease))  # type: ignore[arg-type]

    def _pages(self, seen: int, unseen: int, sign: str = "") -> Iterator[tuple[RecordRow, ...]]:
        """Records of `seen` that `unseen` hasn't, as many at a time as one call writes.

        With a sign: those past the cursor of that sign, which is where an earlier holder stood.
        """
        cursor, step = self.row.cursor, self.pair.records_per_call
        if sign == "+" and cursor.startswith("-"):
            return
        after = cursor[1:] if sign and cursor.startswith(sign) else ""
        while True:
            with self.ports.ledger.read() as session:
                rows = session.records.page_between(self.slug, seen, unseen, after, PAGE_ROWS)
            for at in range(0, len(rows), step):
                if sign and (self.out.stopped or self.stop()):
                    self.out.stopped = True
                    return
                part = rows[at : at + step]
                yield part
                self.done += len(part)
                self.report(self.done, self.total)
            if len(rows) < PAGE_ROWS:
                return
            after = rows[-1].id

    def _write(self, rows: Iterable[RecordRow], fields: Fields) -> int:
        written = 0
        for space, some in _by_namespace(rows).items():
            ids = [row.id for row in some]
            stored = self.ports.index(self.slug).fetch(some[0].namespace, ids, vectors=False, metadata=True)
            name = namespace_for(self.slug, space)
            records = []
            for record, metadata in zip(stored.ids, stored.metadata, strict=True):
                made, cut = published_schema.record(record, metadata, fields, name)
                self.out.cut += cut
                records.append(made)
            patiently(self.ports, self.pair.write, name, records)
            written += len(records)
        self.out.left_out = fields.left_out
        return written

    def _erase(self, rows: Iterable[RecordRow]) -> None:
        for space, some in _by_namespace(rows).items():
            patiently(self.ports, self.pair.delete, namespace_for(self.slug, space), [row.id for row in some])

    def _settles(self, expected: Mapping[str, int]) -> bool:
        """Whether the counts of both indexes become those of the ledger before long."""
        until = self.ports.clock.now() + SETTLE_S
        while True:
            counts = [patiently(self.ports, self.pair.counts, leg) for leg in LEGS]
            if all(count.get(name, 0) == wanted for count in counts for name, wanted in expected.items()):
                return True
            if self.ports.clock.now() >= until:
                return False
            self.ports.clock.sleep(LOOK_S)

    def _compare(self, expected: Mapping[str, int], fields: Fields) -> None:
        """Hold ids against the ledger: what isn't the version's goes, what is missing is written."""
        lacking = False
        for leg in LEGS:
            for name, wanted in expected.items():
                found = self._erase_strays(leg, name)
                lacking = lacking or found < wanted
        if not lacking:
            return
        for page in self._pages(self.row.aim, 0):
            missing: list[RecordRow] = []
            for space, some in _by_namespace(page).items():
                ids, name = [row.id for row in some], namespace_for(self.slug, space)
                held = [patiently(self.ports, self.pair.held, leg, name, ids) for leg in LEGS]
                missing += [row for row in some if any(row.id not in leg for leg in held)]
            self.out.missing += self._write(missing, fields)
            self._keep(fields=fields.text())

    def _erase_strays(self, leg: Leg, name: str) -> int:
        """The namespace's records that belong there; the others are erased."""
        found, after = 0, ""
        while True:
            page, after = patiently(self.ports, self.pair.page, leg, name, after)
            with self.ports.ledger.read() as session:
                listed = session.records.listed(self.slug, self.row.aim, page)
            strays = [record for record in page if record not in listed]
            if strays:
                patiently(self.ports, self.pair.delete, name, strays)
            self.out.strays += len(strays)
            found += len(page) - len(strays)
            self._keep()
            if not after:
                return found


class resting:  # noqa: N801  # reads as the statement that it is
    """Lets go of a publication that could not be ended, with the reason, so that others needn't wait for its lease."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        ports, slug, row = self._carrier.ports, self._carrier.slug, self._carrier.row
        rest = max(REST_S, rest_s(error, 1)) if isinstance(error, PipelineError) else 0.0
        reason = error.message if isinstance(error, PipelineError) else type(error).__name__
        with suppress(PipelineError), ports.ledger.transaction("publication.rest", slug) as session:
            now = session.publications.get(slug, row.target)
            if now is not None and now.fence == row.fence:
                rested = replace(now, holder="", rest_until=ports.clock.now() + rest, error=reason)
                session.publications.save(slug, rested)


def expected_counts(visible: Mapping[Namespace, int], slug: ContextSlug) -> dict[str, int]:
    """Published namespace to how many records it should hold; none is left out."""
    out: Counter[str] = Counter({namespace_for(slug, kind): 0 for kind in KINDS})
    for space, count in visible.items():
        out[namespace_for(slug, space.rsplit(".", 1)[1])] += count
    return dict(out)


def _by_namespace(rows: Iterable[RecordRow]) -> dict[str, list[RecordRow]]:
    """Kind of collection to its rows."""
    out: dict[str, list[RecordRow]] = {}
    for row in rows:
        out.setdefault(row.namespace.rsplit(".", 1)[1], []).append(row)
    return out
