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


def sparse_for(job: Job, sources: Sequence[PlannedSource]) -> dict[str, SparseVectors]:
    """Sparse vectors of each source's written records, by path, in their order."""
    if not job.keyword:
        return {s.row.path: empty_sparse(len(s.written)) for s in sources}
    encoder = job.recipe.encoder()
    keys = {s.row.path: fingerprint("sparse", encoder.identity, *(p.embed_digest for p in s.written)) for s in sources}
    held = job.ports.memo.get_many(sorted(set(keys.values())))
    out: dict[str, SparseVectors] = {}
    fresh: dict[str, bytes] = {}
    for source in sources:
        path, key = source.row.path, keys[source.row.path]
        if key in held:
            out[path] = decode_sparse(held[key])
        else:
            job.keep_going()
            out[path] = encoder.encode([p.embed_text for p in source.written])
            fresh[key] = encode_sparse(out[path])
        job.report(len(source.written))
    job.ports.memo.put_many(fresh)
    return out
