"""upsert: planned records and files to the index and the object store, under ids and keys that no other plan uses.

Nothing written here is visible: readers see version N only after the flip. A second writer of the same unit writes the
same bytes under the same ids, so it may run twice, late, or beside itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.artifacts.leg import artifact_path, data
from pipeline.artifacts.render import embed_text, metadata
from pipeline.codec import encode_counts, take_sparse
from pipeline.drafts import listing
from pipeline.errors import Corruption
from pipeline.fingerprint import text_hash
from pipeline.rows import RecordRow, WorkRow
from pipeline.stages.embed_dense import vectors_for
from pipeline.stages.embed_sparse import sparse_for
from pipeline.stages.job import Job, Outcome
from pipeline.stages.planned import Planned, PlannedSource, planned
from pipeline.stages.reduced_files import RECORDS_AT_ONCE
from pipeline.stages.screen import screened
from pipeline.types import Namespace, RecordBatch, SourcePath, SparseVectors


def upsert(job: Job) -> Outcome:
    """Write the batch's records and files; below 0 a page of artifact records."""
    if job.claim.batch < 0:
        return _artifacts(job)
    sources = planned(job)
    _write_files(job)
    vectors = sparse_for(job, sources)
    written = [p for s in sources for p in s.written]
    copied = [r for s in sources for r in s.copied]
    block = job.ports.limits.upsert_records
    for at in range(0, len(written), block):
        part = written[at : at + block]
        _write(job, job.namespace, part, take_sparse(vectors, at, at + len(part)))
    terms = [vectors.indices]
    terms += [_copy(job, copied[at : at + block]) for at in range(0, len(copied), block)]
    # What the seal has to add up is known here; the memo saves it reading every record back.
    _keep_terms(job, terms, len(written) + len(copied), [s.row.path for s in sources])
    return Outcome(size=0)


def terms_key(job: Job, batch: int) -> str:
    """Memo key of the document counts that a batch's additions bring."""
    return f"terms:{job.run.id}:{batch}"


def _artifacts(job: Job) -> Outcome:
    """Write a page of the artifact records that the reduce stage planned; their files are there already."""
    slug, run = job.slug, job.run
    with job.ports.ledger.read() as session:
        skip = (-job.claim.batch - 1) * RECORDS_AT_ONCE
        records = session.records.page_added_under(slug, run.number, artifact_path(""), skip, RECORDS_AT_ONCE)
        artifacts = {a.id: a for a in session.knowledge.artifacts_wanted(slug, run.id, [r.logical_id for r in records])}
    items = []
    for record in records:
        artifact = artifacts.get(record.logical_id)
        if artifact is None:
            raise Corruption("plan_mismatch", f"record {record.id} was planned for an artifact that isn't")
        text = embed_text(artifact)
        of = tuple(source["path"] for source in data(artifact)["sources"])
        items.append(Planned(record, metadata(artifact), text, text_hash(text), of))
    sparse = sparse_for(job, [PlannedSource(WorkRow(SourcePath(artifact_path("")), 0, "", 0, 0), tuple(items), ())])
    if items:
        _write(job, job.artifact_namespace, items, sparse)
    terms = [sparse.indices]
    _keep_terms(job, terms, len(items), [path for p in items for path in p.sources])
    return Outcome(size=0)


def _keep_terms(job: Job, terms: Sequence[npt.NDArray[np.uint32]], records: int, paths: Sequence[str]) -> None:
    key = terms_key(job, job.claim.batch)
    job.ports.memo.put_many({key: encode_counts(terms, records)}, {key: job.origins(paths)}, joint=True)


def _write(job: Job, namespace: Namespace, items: Sequence[Planned], sparse: SparseVectors) -> None:
    job.keep_going()
    dense = vectors_for(job, items)
    batch = RecordBatch(
        namespace,
        job.run.number,
        tuple(p.record.id for p in items),
        dense,
        sparse,
        tuple(p.metadata for p in items),
    )
    job.ports.index(job.slug).upsert(batch)
    job.report(len(items))


def _copy(job: Job, records: Sequence[RecordRow]) -> npt.NDArray[np.uint32]:
    job.keep_going()
    old = [r.copy_of for r in records if r.copy_of is not None]
    stored = job.ports.index(job.slug).fetch(job.namespace, old, vectors=True, metadata=True)
    if len(stored.ids) != len(records):
        raise Corruption(
            "record_missing",
            f"{len(records) - len(stored.ids)} records of {job.slug} are listed but the index doesn't hold them",
        )
    batch = RecordBatch(
        job.namespace, job.run.number, tuple(r.id for r in records), stored.dense, stored.sparse, stored.metadata
    )
    job.ports.index(job.slug).upsert(batch)
    job.report(len(records))
    return stored.sparse.indices


def _write_files(job: Job) -> None:
    """Put the blobs that planned files name and that this batch makes; restated files have theirs already."""
    with job.ports.ledger.read() as session:
        rows = session.work.batch(job.run.id, job.claim.batch)
        planned_files = {
            f.source: f for f in session.files.open_for(job.slug, [r.path for r in rows]) if f.added == job.run.number
        }
    blobs = {
        planned_files[row.path].blob: listing(screened(job, row).drafts)
        for row in rows
        if row.status == "ok" and row.path in planned_files
    }
    job.ports.objects(job.slug).put_many(blobs)
