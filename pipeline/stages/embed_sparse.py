"""embed_sparse: texts of planned records to hashed term weights in the memo."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.codec import decode_sparse, empty_sparse, encode_sparse
from pipeline.fingerprint import fingerprint
from pipeline.stages.job import Job, Outcome
from pipeline.stages.planned import PlannedSource, planned
from pipeline.types import SparseVectors


def embed_sparse(job: Job) -> Outcome:
    """Encode what the memo doesn't hold; nothing where the manifest switches keywords off."""
    sources = planned(job)
    if job.keyword:
        sparse_for(job, sources)
    return Outcome(size=job.claim.size)


def sparse_for(job: Job, sources: Sequence[PlannedSource]) -> SparseVectors:
    """Sparse vectors of the batch's written records, in order, from the memo or encoded again."""
    items = [p for source in sources for p in source.written]
    if not job.keyword:
        return empty_sparse(len(items))
    encoder = job.recipe.encoder()
    # One entry a batch: a resumed run has the same batches, and an edited source is cheaper to encode than to look up.
    key = fingerprint("sparse", encoder.identity, *(p.embed_digest for p in items))
    held = job.ports.memo.get_many([key]).get(key)
    if held is not None:
        return decode_sparse(held)
    vectors = encoder.encode([p.embed_text for p in items])
    whole = job.origins(path for p in items for path in p.sources)
    job.ports.memo.put_many({key: encode_sparse(vectors)}, {key: whole}, joint=True)
    job.report(len(items))
    return vectors
