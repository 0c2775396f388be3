"""Artifacts to records and files: what the index, the folder and the database hold of them. A part of the reduce stage.

Planned like a source's: each artifact is listed under a path of its own, and what is wanted there is compared with what
is open there. The database is one file of all rows and edges, written anew when one of them changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pipeline.artifacts import files, render
from pipeline.artifacts.leg import DATABASE_SOURCE, INDEX, artifact_path
from pipeline.drafts import blob_key
from pipeline.fingerprint import canonical_json, fingerprint, record_id, text_hash
from pipeline.rows import ArtifactRow, FileRow, RecordRow
from pipeline.stages.job import Job
from pipeline.types import LogicalId, SourcePath
from pipeline.upsert import plan_records

ARTIFACTS = "/artifacts"
"""Under which artifacts are noted whose records and files have to be looked at."""
AT_ONCE = 200
"""Artifacts whose texts are in memory together."""
PAGE_ROWS = 500
RECORDS_AT_ONCE = 512
"""Records of one upsert unit."""


def plan(job: Job) -> dict[int, int]:
    """Plan records and files; the pages of records that the upsert stage has to write, as batches below 0."""
    _note_linked(job)
    strays = _note_diverged(job)
    types = {path.removeprefix(INDEX): None for path in strays if path.startswith(INDEX)}
    for ids in _pages(lambda after: _noted(job, after), AT_ONCE):
        job.keep_going()
        types.update(dict.fromkeys(_plan_page(job, [LogicalId(i) for i in ids])))
    for type_ in types:
        _plan_index(job, type_)
    _plan_database(job, anew=DATABASE_SOURCE in strays)
    with job.ports.ledger.read() as session:
        count, skip = 0, 0
        while page := session.records.page_added_under(job.slug, job.run.number, "/artifacts/", skip, RECORDS_AT_ONCE):
            count, skip = count + 1, skip + len(page)
    return {-n: RECORDS_AT_ONCE for n in range(1, count + 1)}


def _noted(job: Job, after: str) -> Sequence[str]:
    with job.ports.ledger.read() as session:
        return session.knowledge.page_visited(job.run.id, ARTIFACTS, after, AT_ONCE)


def _pages(page: Callable[[str], Sequence[str]], limit: int) -> Iterator[Sequence[str]]:
    after = ""
    while True:
        found = page(after)
        if found:
            yield found
        if len(found) < limit:
            return
        after = found[-1]


def _note_linked(job: Job) -> None:
    """An artifact's file names what it links to: where an edge moved, the file does."""
    slug, run, number = job.slug, job.run.id, job.run.number

    def moved(after: str) -> Sequence[str]:
        with job.ports.ledger.read() as session:
            return session.knowledge.edge_sources_moved(slug, run, number, after, PAGE_ROWS)

    for ids in _pages(moved, PAGE_ROWS):
        with job.ports.ledger.transaction("reduce.links", job.slug) as session:
            job.hold(session)
            session.knowledge.visit(run, ARTIFACTS, list(ids))


def _note_diverged(job: Job) -> frozenset[str]:
    """What rolled-back versions left different from what is live, be it only in another generation; all such paths."""
    with job.ports.ledger.read() as session:
        strays = [p for p in session.records.diverged(job.slug, job.run.base_version) if p.startswith("/")]
    ids = [p.removeprefix(artifact_path("")) for p in strays if p.startswith(artifact_path(""))]
    if ids:
        with job.ports.ledger.transaction("reduce.strays", job.slug) as session:
            job.hold(session)
            session.knowledge.visit(job.run.id, ARTIFACTS, ids)
    return frozenset(strays)


def _plan_page(job: Job, ids: Sequence[LogicalId]) -> list[str]:
    """Plan some artifacts; the types whose index pages change with them."""
    slug, run, number = job.slug, job.run.id, job.run.number
    paths = [SourcePath(artifact_path(i)) for i in ids]
    with job.ports.ledger.read() as session:
        wanted = {a.id: a for a in session.knowledge.artifacts_wanted(slug, run, ids)}
        opened = {a.id: a for a in session.knowledge.artifacts_open(slug, ids) if a.added < number}
        records = [r for r in session.records.open_for(slug, paths) if r.added < number]
        opened_files = [f for f in session.files.open_for(slug, paths) if f.added < number]
    pages = files.pages(files.Wanted(job.ports, slug, run), wanted)
    blobs: dict[str, bytes] = {}
    add_records: list[RecordRow] = []
    add_files: list[FileRow] = []
    gone_records: list[str] = []
    gone_files: list[str] = []
    for id_, path in zip(ids, paths, strict=True):
        artifact = wanted.get(id_)
        decided = plan_records(
            {r.content: r for r in [_record(job, artifact)]} if artifact else {}, [r for r in records if r.path == path]
        )
        add_records += decided.add
        gone_records += [r.id for r in decided.remove]
        held = {f.path: f.blob for f in opened_files if f.source == path}
        there = {}
        if artifact is not None and artifact.file:
            page = pages[id_]
            there[artifact.file] = blob_key(page)
            if held.get(artifact.file) != there[artifact.file]:
                blobs[there[artifact.file]] = page
                add_files.append(FileRow(artifact.file, path, there[artifact.file], len(page), number))
        gone_files += [name for name, blob in held.items() if there.get(name) != blob]
    with job.ports.ledger.transaction("reduce.files", job.slug) as session:
        job.hold(session)
        session.records.add(slug, add_records)
        session.records.plan_removals(run, "record", gone_records)
        session.files.add(slug, add_files)
        session.records.plan_removals(run, "file", gone_files)
    job.ports.objects(slug).put_many(blobs)
    return sorted({a.type for a in (*wanted.values(), *opened.values())})


def _record(job: Job, artifact: ArtifactRow) -> RecordRow:
    """The artifact as a record of this run's generation."""
    metadata, text = canonical_json(dict(render.metadata(artifact))), render.embed_text(artifact)
    path = SourcePath(artifact_path(artifact.id))
    content = fingerprint("artifact record", job.recipe.fingerprint(), job.artifact_namespace, metadata, text)
    return RecordRow(
        record_id(path, text_hash(content), 0, job.run.number),
        artifact.id,
        path,
        0,
        content,
        job.artifact_namespace,
        job.run.number,
    )


def _plan_index(job: Job, type_: str) -> None:
    text = files.index(files.Wanted(job.ports, job.slug, job.run.id), type_)
    _plan_file(job, SourcePath(f"{INDEX}{type_}"), render.index_path(type_), text)


def _plan_file(job: Job, source: SourcePath, path: str, text: bytes) -> None:
    """Plan a file that stands for itself; no text: no file."""
    slug, run, number = job.slug, job.run.id, job.run.number
    with job.ports.ledger.read() as session:
        held = {f.path: f for f in session.files.open_for(slug, [source]) if f.added < number}
    blob = blob_key(text)
    if text and path in held and held[path].blob == blob and len(held) == 1:
        return
    with job.ports.ledger.transaction("reduce.file", job.slug) as session:
        job.hold(session)
        if text:
            session.files.add(slug, [FileRow(path, source, blob, len(text), number)])
        session.records.plan_removals(run, "file", sorted(held))
    if text:
        job.ports.objects(slug).put_many({blob: text})


# ---- the database


def _plan_database(job: Job, *, anew: bool) -> None:
    types = files.kept_as_rows(job.manifest)
    with job.ports.ledger.read() as session:
        moved = session.knowledge.formats_moved(job.slug, job.run.id, job.run.number, "sqlite")
        moved = moved or bool(session.knowledge.edge_sources_moved(job.slug, job.run.id, job.run.number, "", 1))
        there = bool(session.files.open_for(job.slug, [DATABASE_SOURCE]))
    if not types:
        if there:
            _plan_file(job, DATABASE_SOURCE, render.DATABASE, b"")
        return
    if not (moved or anew or job.run.force) and there:
        return
    text = files.database(files.Wanted(job.ports, job.slug, job.run.id), types)
    _plan_file(job, DATABASE_SOURCE, render.DATABASE, text)
