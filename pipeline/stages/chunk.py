"""chunk: parsed documents to chunks in the memo, by the manifest's strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.chunk import VERSIONS, ChunkOptions, chunk_document
from pipeline.codec import ChunkedDocument, decode_chunks, encode_chunks
from pipeline.errors import PipelineError, RejectedInput
from pipeline.fingerprint import canonical_json, fingerprint
from pipeline.ledger import Session
from pipeline.quarantine import entry_of
from pipeline.rows import WorkRow
from pipeline.stages.job import Job, Outcome, pipeline_fingerprint
from pipeline.stages.parse import parsed
from pipeline.types import Chunk, Origins, ParsedDocument, SourcePath

WARNINGS_MAX = 20
"""Warnings of one source that the ledger keeps."""
WARNING_CHARS_MAX = 500


def chunk(job: Job) -> Outcome:
    """Cut every source of the batch that parsed."""
    with job.ports.ledger.read() as session:
        rows = [row for row in session.work.batch(job.run.id, job.claim.batch) if row.status == "ok"]
    rows = [replace(row, chunk_key=chunk_key(job, row.parse_key)) for row in rows]
    held = job.ports.memo.get_many(sorted({row.chunk_key for row in rows}))
    fresh: dict[str, bytes] = {}
    done: list[WorkRow] = []
    for row in rows:
        job.keep_going()
        done.append(_one(job, row, held, fresh))
        job.report(row.size)
    job.ports.memo.put_many(fresh, _origins(job, rows))
    pipeline = pipeline_fingerprint(job.manifest, job.recipe)
    refused = [entry_of(row, pipeline, job.ports.clock.now()) for row in done]

    def write(session: Session) -> None:
        session.work.update(job.run.id, done)
        session.quarantine.put(job.slug, [entry for entry in refused if entry is not None])

    return Outcome(write, size=job.claim.size)


def _origins(job: Job, rows: Sequence[WorkRow]) -> Origins:
    paths: dict[str, list[SourcePath]] = {}
    for row in rows:
        paths.setdefault(row.chunk_key, []).append(row.path)
    return {key: job.origins(some) for key, some in paths.items()}


def _one(job: Job, row: WorkRow, held: Mapping[str, bytes], fresh: dict[str, bytes]) -> WorkRow:
    try:
        document = decode_chunks(held[row.chunk_key]) if row.chunk_key in held else _cut(job, row)
    except RejectedInput as error:
        return replace(row, status="failed", code=error.code, reason=error.message, chunk_key="")
    if row.chunk_key not in held:
        fresh[row.chunk_key] = encode_chunks(document)
    job.cache.put(row.chunk_key, document, _characters(document))
    if not document.chunks and not any(part.chunks for _, part in document.parts):
        return replace(row, status="empty", code="no_text", reason="the parsed document holds no text", chunk_key="")
    return replace(row, warnings=warnings_text(document.all_warnings()))


def warnings_text(warnings: Sequence[str]) -> str:
    """Warnings as the ledger keeps them: a JSON list, bounded; empty for none."""
    kept = [text[:WARNING_CHARS_MAX] for text in warnings[:WARNINGS_MAX]]
    if len(warnings) > WARNINGS_MAX:
        kept.append(f"and {len(warnings) - WARNINGS_MAX} more")
    return canonical_json(kept) if kept else ""


def chunk_key(job: Job, parse_key: str) -> str:
    """Memo key: the parsed document, the strategies' versions (the document's kind chooses among them), the parameters."""
    c = job.manifest.curate.chunks.chunking
    return fingerprint(
        "chunk",
        parse_key,
        c.strategy,
        canonical_json(VERSIONS),
        c.target_size,
        c.overlap,
        c.respect_sections,
        job.recipe.tokenizer,
    )


def chunked(job: Job, row: WorkRow) -> ChunkedDocument:
    """The chunks behind `row.chunk_key`; cut again if neither cache nor memo holds them.

    Raises:
        RejectedInput: the parsed document is gone and the source can't be read as it was.
    """
    held = job.cache.take(row.chunk_key)
    if isinstance(held, ChunkedDocument):
        return held
    found = job.ports.memo.get_many([row.chunk_key]).get(row.chunk_key)
    return decode_chunks(found) if found is not None else _cut(job, row)


def _cut(job: Job, row: WorkRow) -> ChunkedDocument:
    whole = parsed(job, row)
    c = job.manifest.curate.chunks.chunking
    options = ChunkOptions(target_size=c.target_size, overlap=c.overlap, respect_sections=c.respect_sections)
    return _chunked(whole, c.strategy, options)


def _chunked(whole: ParsedDocument, strategy: str, options: ChunkOptions) -> ChunkedDocument:
    metadata = whole.metadata
    if whole.language and "language" not in dict(metadata):
        metadata = (*metadata, ("language", whole.language))
    return ChunkedDocument(
        whole.title,
        metadata,
        whole.warnings,
        _chunks(whole, strategy, options),
        whole.kind,
        tuple((part.name, _chunked(part.document, strategy, options)) for part in whole.parts),
    )


def _chunks(document: ParsedDocument, strategy: str, options: ChunkOptions) -> tuple[Chunk, ...]:
    try:
        return chunk_document(document, strategy, options)
    except (PipelineError, MemoryError):
        raise
    except Exception as error:
        # Cutting is a pure function of this one document: whatever goes wrong in it is no reason to stop the others.
        what = f"cutting its text into chunks failed ({type(error).__name__}: {error})"
        raise RejectedInput("chunk_failed", what, remedy="Report it with the file, or leave the file out.") from error


def _characters(document: ChunkedDocument) -> int:
    return sum(len(c.text) for c in document.chunks) + sum(_characters(part) for _, part in document.parts)
