"""fsck: the ledger held against index, files and folder, by id and by hash; and healing without a run.

Every readable version is checked, each record and file once. What the index lacks or has spoilt is written again under
its own id, from the files and the ledger; what it has too much is erased; stamps are set as the ledger says. A file that
is lost is made again from what the folder shows, or from the rows and records that it tells of, where its hash proves
it; and the folder shows the files again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from manifests import manifest_from
from pipeline import publish
from pipeline.artifacts import files
from pipeline.artifacts.leg import DATABASE_SOURCE, INDEX, artifact_path
from pipeline.drafts import blob_key, listing_path
from pipeline.errors import Conflict
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.integrity import Checker, Finding, sound_blob
from pipeline.namespaces import DOCUMENTS, KINDS, counts_key, namespace_of
from pipeline.ports import Ports
from pipeline.rows import FileRow, RecordRow, RunRow, VersionRow
from pipeline.types import ContextSlug, LogicalId, Metadata, Namespace, RecordId, RunId

PAGE_SOURCES = 50
PAGE_ROWS = 500
"""Rows checked at a time: what bounds memory."""
TOLD_MAX = 10_000
"""Findings that are kept with their names; more are counted."""


@dataclass(slots=True)
class Report:
    """What was checked, and what was found."""

    context: ContextSlug
    versions: tuple[int, ...] = ()
    records: int = 0
    files: int = 0
    ids: int = 0
    """Ids that the index holds."""
    found: dict[str, int] = field(default_factory=dict)
    """Kind to how often."""
    healed: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    run: str = ""

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong, or nothing any more."""
        return self.found == self.healed

    def add(self, finding: Finding) -> None:
        """Count it, and keep it while there is room."""
        self.found[finding.kind] = self.found.get(finding.kind, 0) + 1
        if finding.healed:
            self.healed[finding.kind] = self.healed.get(finding.kind, 0) + 1
        if len(self.findings) < TOLD_MAX:
            self.findings.append(finding)


def fsck(
    ports: Ports, slug: ContextSlug, *, repair: bool, progress: Callable[[int, int], None] = lambda _done, _total: None
) -> Report:
    """Check a context, and heal it where asked to. Recorded as a run.

    Args:
        ports: the deployment.
        slug: the context.
        repair: put right what can be.
        progress: given records checked and how many there are.

    Raises:
        RejectedInput: no such context.
        Conflict: code `run_active`: with `repair`, while a run is at work.
        Unavailable: a store doesn't answer.
    """
    began = ports.clock.now()
    report = Report(slug)
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
        active = session.runs.active(slug)
        versions = [v for v in session.versions.list(slug) if v.readable]
    if repair and active is not None:
        raise Conflict(
            "run_active",
            f"run {active.id} of {slug} is not at its end",
            remedy=f"let it end (lamina explain {active.id}), or stop it: lamina cancel {active.id}",
        )
    live = context.live_version
    versions.sort(key=lambda v: v.number != live)
    report.versions = tuple(v.number for v in versions)
    total = sum(v.records for v in versions[:1])
    for version in versions:
        unseen = 0 if version.number == live else live
        _files(ports, slug, version, unseen, report, repair=repair)
        _records(ports, slug, version, unseen, report, repair=repair, progress=lambda n: progress(n, max(total, n)))
        if version.number == live:
            _counts(ports, slug, version, report)
    _index(ports, slug, active, report, repair=repair)
    _view(ports, slug, live, report, repair=repair)
    report.run = _record(ports, slug, report, began, live)
    return report


def _records(
    ports: Ports,
    slug: ContextSlug,
    version: VersionRow,
    unseen: int,
    report: Report,
    *,
    repair: bool,
    progress: Callable[[int], None],
) -> None:
    checker = Checker(ports, slug, version)
    for rows in _pages(ports, slug, version.number, unseen):
        bad = list(checker.findings(rows))
        healed = checker.rewritten([row for _, row in bad]) if repair and bad else frozenset()
        for finding, row in bad:
            report.add(replace(finding, healed=row.id in healed))
        report.records += len(rows)
        progress(report.records)


def _pages(ports: Ports, slug: ContextSlug, version: int, unseen: int) -> Iterator[tuple[RecordRow, ...]]:
    """Records of the version that `unseen` doesn't show: source by source, then those of artifacts."""
    after = ""
    while True:
        with ports.ledger.read() as session:
            sources = session.sources.page(slug, version, after, PAGE_SOURCES)
            rows = session.records.at_for(slug, version, [s.path for s in sources])
        rows = tuple(r for r in rows if not unseen or not r.added <= unseen < r.removed)
        for at in range(0, len(rows), PAGE_ROWS):
            yield rows[at : at + PAGE_ROWS]
        if len(sources) < PAGE_SOURCES:
            break
        after = sources[-1].path
    after = ""
    while True:
        with ports.ledger.read() as session:
            rows = session.records.page_between(slug, version, unseen, after, PAGE_ROWS)
        corpus = tuple(row for row in rows if row.path.startswith("/"))
        if corpus:
            yield corpus
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1].id


def _files(ports: Ports, slug: ContextSlug, version: VersionRow, unseen: int, report: Report, *, repair: bool) -> None:
    after = ""
    while True:
        with ports.ledger.read() as session:
            page = session.files.page(slug, version.number, after, PAGE_ROWS)
        for file in page:
            if unseen and file.added <= unseen < file.removed:
                continue
            report.files += 1
            if sound_blob(ports, slug, file.blob) is None:
                healed = repair and _made_again(ports, slug, version, file)
                report.add(Finding("file", file.path, file.source, healed))
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _made_again(ports: Ports, slug: ContextSlug, version: VersionRow, file: FileRow) -> bool:
    """Write a lost file again, where the hash proves what the folder shows, or what can be told of it, to be the same."""
    for tell in (_shown_copy, _listing, _of_artifacts):
        data = tell(ports, slug, version, file)
        if data is not None and blob_key(data) == file.blob:
            ports.objects(slug).delete_many([file.blob])  # what stands there under this key would stay
            ports.objects(slug).put_many({file.blob: data})
            return True
    return False


def _shown_copy(ports: Ports, slug: ContextSlug, _version: VersionRow, file: FileRow) -> bytes | None:
    return ports.view(slug).read(file.path)


def _listing(ports: Ports, slug: ContextSlug, version: VersionRow, file: FileRow) -> bytes | None:
    """A chunk listing, from the records that it lists."""
    if file.path != listing_path(file.source):
        return None
    with ports.ledger.read() as session:
        rows = session.records.at_for(slug, version.number, [file.source])
    by_id: dict[RecordId, Metadata] = {}
    for namespace in sorted({row.namespace for row in rows}):
        ids = [row.id for row in rows if row.namespace == namespace]
        stored = ports.index(slug).fetch(namespace, ids, vectors=False, metadata=True)
        by_id.update(zip(stored.ids, stored.metadata, strict=True))
    lines = [canonical_json(dict(by_id[r.id])) for r in sorted(rows, key=lambda r: r.position) if r.id in by_id]
    return "".join(f"{line}\n" for line in lines).encode()


def _of_artifacts(ports: Ports, slug: ContextSlug, version: VersionRow, file: FileRow) -> bytes | None:
    """A page, an index page or the database, from the version's artifacts and edges."""
    known = files.At(ports, slug, version.number)
    if file.source.startswith(artifact_path("")):
        id_ = LogicalId(file.source.removeprefix(artifact_path("")))
        return files.pages(known, known.artifacts([id_])).get(id_)
    if file.source.startswith(INDEX):
        return files.index(known, file.source.removeprefix(INDEX))
    if file.source == DATABASE_SOURCE:
        return files.database(known, files.kept_as_rows(manifest_from(json.loads(version.manifest))))
    return None


def _counts(ports: Ports, slug: ContextSlug, version: VersionRow, report: Report) -> None:
    """Whether keyword search weighs words by the number of records that there are."""
    with ports.ledger.read() as session:
        visible = session.records.visible(slug, version.number)
        for kind in KINDS:
            space = namespace_of(slug, version.generation, kind)
            key = counts_key(version.generation, kind)
            told = session.records.counts(slug, key, version.number, [DOCUMENTS]).get(DOCUMENTS, 0)
            if told != visible.get(space, 0):
                report.add(Finding("counts", space, f"{told} told, {visible.get(space, 0)} there"))


def _index(ports: Ports, slug: ContextSlug, active: RunRow | None, report: Report, *, repair: bool) -> None:
    """What the index holds under ids that nobody lists, and stamps that aren't the ledger's."""
    with ports.ledger.read() as session:
        versions = session.versions.list(slug)
        known = session.records.namespaces(slug)
    spaces = {namespace_of(slug, v.generation, kind) for v in versions for kind in KINDS} | set(known)
    for space in sorted(spaces):
        page: list[tuple[RecordId, int, int]] = []
        for held in ports.index(slug).scan(Namespace(space)):
            page.append(held)
            if len(page) == PAGE_ROWS:
                _page(ports, slug, Namespace(space), page, active, report, repair=repair)
                page = []
        if page:
            _page(ports, slug, Namespace(space), page, active, report, repair=repair)


def _page(
    ports: Ports,
    slug: ContextSlug,
    space: Namespace,
    page: list[tuple[RecordId, int, int]],
    active: RunRow | None,
    report: Report,
    *,
    repair: bool,
) -> None:
    report.ids += len(page)
    with ports.ledger.read() as session:
        rows = {row.id: row for row in session.records.get(slug, [id_ for id_, _, _ in page])}
    strays = [id_ for id_, _, _ in page if id_ not in rows]
    wrong: dict[int, list[RecordId]] = {}
    underway = active.number if active is not None else -1
    for id_, _, removed in page:
        row = rows.get(id_)
        if row is not None and row.removed != removed and underway not in (row.removed, removed):
            wrong.setdefault(row.removed, []).append(id_)
    if repair and strays:
        ports.index(slug).delete(space, strays)
    if repair:
        for removed, ids in wrong.items():
            ports.index(slug).stamp(space, ids, removed)
    for id_ in strays:
        report.add(Finding("stray", id_, space, repair))
    for ids in wrong.values():
        for id_ in ids:
            report.add(Finding("stamp", id_, space, repair))


def _view(ports: Ports, slug: ContextSlug, live: int, report: Report, *, repair: bool) -> None:
    """Whether the folder shows the live version, each of its files, and nothing else."""
    view = ports.view(slug)
    if live and view.shown() != live:
        if repair:
            publish.refresh_view(ports, slug)
        report.add(Finding("view", "knowledge", f"version {live}", repair and view.shown() == live))
    for findings in (_shown_wrong(ports, slug, live, repair=repair), _shown_strays(ports, slug, live, repair=repair)):
        for finding in findings:
            if view.shown() != live:
                return  # a flip came between: what was compared is not what is shown
            report.add(finding)


def _shown_wrong(ports: Ports, slug: ContextSlug, live: int, *, repair: bool) -> Iterator[Finding]:
    view, after = ports.view(slug), ""
    while view.shown() == live:
        with ports.ledger.read() as session:
            page = session.files.page(slug, live, after, PAGE_ROWS)
        for file in page:
            shown = view.read(file.path)
            if (shown is None and not view.fits(file.path)) or (shown is not None and blob_key(shown) == file.blob):
                continue
            data = sound_blob(ports, slug, file.blob) if repair else None
            yield Finding("view", file.path, "knowledge", data is not None and view.write(file.path, data))
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _shown_strays(ports: Ports, slug: ContextSlug, live: int, *, repair: bool) -> Iterator[Finding]:
    """Files that aren't the version's: what they say may be of a source that is long deleted."""
    view = ports.view(slug)
    paths = view.paths()
    while view.shown() == live and (some := list(itertools.islice(paths, PAGE_ROWS))):
        with ports.ledger.read() as session:
            known = session.files.among(slug, live, some)
        for path in some:
            if path not in known:
                if repair:
                    view.remove(path)
                yield Finding("view", path, "knowledge", repair)


def _record(ports: Ports, slug: ContextSlug, report: Report, began: float, live: int) -> str:
    """Put down that it was done, and what it found."""
    now = ports.clock.now()
    run = RunRow(
        id=RunId(fingerprint("fsck", slug, ports.owner, str(began))[:16]),
        context=slug,
        kind="fsck",
        trigger="manual",
        state="completed" if report.sound else "failed",
        force=False,
        created_by=ports.user,
        created_at=began,
        input=canonical_json({"trigger": "manual", "force": False, "scope": "full", "_options": {}}),
        base_version=live,
        started_at=began,
        active_at=now,
        ended_at=now,
        notes=canonical_json({"fsck": {"found": report.found, "healed": report.healed}}),
        error="" if report.sound else "not as the ledger says: " + told(report),
    )
    with ports.ledger.transaction("fsck", slug) as session:
        publish.require_context(session, slug)
        session.runs.create(run)
    return run.id


def told(report: Report) -> str:
    """What was found, in a line."""
    return ", ".join(
        f"{count} {kind}" + (f" ({report.healed[kind]} healed)" if report.healed.get(kind) else "")
        for kind, count in sorted(report.found.items())
    )
