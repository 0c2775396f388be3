"""embed_dense: texts of planned records to dense vectors in the memo, keyed by (model, exact text).

The same text is embedded once, across sources, runs and contexts. Vectors are stored call by call, so that a crash or a
lost lease costs one call at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.codec import decode_vectors, encode_vectors
from pipeline.errors import RejectedInput, Unavailable
from pipeline.ledger import Session
from pipeline.ports import DenseEmbedder
from pipeline.recipe import serving
from pipeline.stages.job import Job, Outcome
from pipeline.stages.planned import Planned, PlannedSource, planned
from pipeline.stages.screen import Wanted, write_plan
from pipeline.types import Float32Array, ModelIdentity, Origins

UNIT_NORM_TOLERANCE = 1e-3
"""How far from 1 a vector's length may be; models in float16 are off by some 1e-4."""


def embed_dense(job: Job) -> Outcome:
    """Embed what the memo doesn't hold. A source whose text the model refuses fails and restates what is live."""
    failed: list[Wanted] = []
    spent = 0
    texts = 0
    todo: list[PlannedSource] = []
    pending = 0
    texts_at_once = _texts_at_once(job)
    for source in planned(job):
        todo.append(source)
        pending += len(source.written)
        if pending >= texts_at_once:
            spent += _embed_sources(job, todo, failed)
            todo, pending = [], 0
        texts += len(source.written) + len(source.copied)
    spent += _embed_sources(job, todo, failed)

    def write(session: Session) -> None:
        write_plan(job, session, failed)

    return Outcome(write, size=max(texts, 1), embed_tokens=spent)


def _embed_sources(job: Job, sources: Sequence[PlannedSource], failed: list[Wanted]) -> int:
    """Embed all texts of some sources together; where the model refuses, source by source, to find out whose it is."""
    items = [p for source in sources for p in source.written]
    try:
        spent = _missing_embedded(job, items, _held(job, items))
    except RejectedInput as error:
        if len(sources) > 1:
            return sum(_embed_sources(job, [source], failed) for source in sources)
        row = replace(sources[0].row, status="failed", code=error.code, reason=error.message, chunks=0)
        failed.append(Wanted(row, {}, b""))
        return 0
    job.report(sum(p.record_tokens for p in items))
    return spent


def vectors_for(job: Job, items: Sequence[Planned]) -> Float32Array:
    """Vectors of planned records, in order, from the memo; embedded again where it has let them go.

    Raises:
        RejectedInput: code `vectors`: the model gave something that can't be stored.
        Unavailable: the model didn't answer, or this deployment doesn't serve it.
    """
    held = _held(job, items)
    _missing_embedded(job, items, held)
    return decode_vectors([held[memo_key(job, p)] for p in items], job.recipe.model.dim)


def memo_key(job: Job, item: Planned) -> str:
    """Memo key of one text's vector: the model and the exact text."""
    return f"dense:{job.recipe.model_fingerprint()}:{item.embed_digest}"


def _held(job: Job, items: Sequence[Planned]) -> dict[str, bytes]:
    return job.ports.memo.get_many(sorted({memo_key(job, p) for p in items}))


def _missing_embedded(job: Job, items: Sequence[Planned], held: dict[str, bytes]) -> int:
    """Embed what `held` lacks, store it call by call, add it to `held`. Tokens that went through the model."""
    missing = {key: p.embed_text for p in items if (key := memo_key(job, p)) not in held}
    todo, block, spent = list(missing.items()), _texts_at_once(job), 0
    origins, joint = _origins(job, items)
    for at in range(0, len(todo), block):
        job.keep_going()
        part = todo[at : at + block]
        result = _embedder(job).embed([text for _, text in part])
        check_vectors(result.vectors, len(part), job.recipe.model)
        fresh = dict(zip((key for key, _ in part), encode_vectors(result.vectors), strict=True))
        job.ports.memo.put_many(fresh, {key: origins[key] for key in fresh}, joint=joint)
        held.update(fresh)
        spent += result.tokens
    job.ports.memo.put_many({}, origins, joint=joint)  # of what the memo had from elsewhere, too
    return spent


def _origins(job: Job, items: Sequence[Planned]) -> tuple[Origins, bool]:
    """What the vectors come from, and whether from all of it together, as an artifact's do.

    A chunk's come from its own source, or from any that holds the same text.
    """
    paths: dict[str, set[str]] = {}
    for p in items:
        paths.setdefault(memo_key(job, p), set()).update(p.sources)
    return {key: job.origins(some) for key, some in paths.items()}, any(len(p.sources) > 1 for p in items)


def _texts_at_once(job: Job) -> int:
    return min(job.ports.limits.embed_texts, _embedder(job).texts_per_call)


def _embedder(job: Job) -> DenseEmbedder:
    found = serving(job.ports.embedders, job.recipe.model)
    if found is None:
        raise Unavailable(
            "model_not_served",
            f"{job.slug} is built with {job.recipe.model.name} {job.recipe.model.version}, which this deployment doesn't serve",
            remedy="install that version, or rebuild with: lamina curate --force --set embedder=NAME",
        )
    return found


def check_vectors(vectors: Float32Array, count: int, model: ModelIdentity) -> None:
    """Refuse what would poison an index: wrong shape, not-a-number, infinity, zero, not unit length."""
    if vectors.shape != (count, model.dim):
        raise RejectedInput("vectors", f"{model.name} gave vectors of shape {vectors.shape}, not {(count, model.dim)}")
    if bool(np.isnan(vectors).any()):
        raise RejectedInput("vectors", f"{model.name} gave a vector that holds not-a-number")
    if bool(np.isinf(vectors).any()):
        raise RejectedInput("vectors", f"{model.name} gave a vector that holds an infinite number")
    norms = np.linalg.norm(vectors, axis=1)
    if bool((norms == 0).any()):
        raise RejectedInput("vectors", f"{model.name} gave a zero vector: it knows no token of the text")
    if bool((np.abs(norms - 1) > UNIT_NORM_TOLERANCE).any()):
        raise RejectedInput("vectors", f"{model.name} gave a vector that isn't of unit length")
