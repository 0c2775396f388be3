"""Settings to ports. With `hosted`, which builds the adapters of services, the only place that names adapters."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from pipeline import canaries, hosted, landing
from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
from pipeline.adapters.clock_system import SystemClock
from pipeline.adapters.embedder_minilm import MiniLmEmbedder
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.adapters.model_openai import OpenAIModel, OpenAISettings
from pipeline.adapters.owner_local import is_gone, own_name
from pipeline.adapters.parser_sandbox import SandboxedParser, SandboxLimits
from pipeline.adapters.reranker_minilm import MiniLmReranker
from pipeline.adapters.source_tree_local import NEVER, LocalSourceTree
from pipeline.adapters.view_local import LocalView
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceTree
from pipeline.fingerprint import decode_path
from pipeline.ledger import Ledger
from pipeline.models import Tier
from pipeline.ports import Clock, DenseEmbedder, LanguageModel, Memo, Parser, Ports, Reranker, VectorIndex
from pipeline.rows import ContextRow
from pipeline.settings import Settings
from pipeline.tracing import Traced
from pipeline.types import ContextSlug, SourcePath

GC_ALLOCATIONS = 50_000
"""New containers between two collections of the youngest generation; some megabytes at most."""


def context_folder(settings: Settings, slug: ContextSlug) -> Path:
    """Where a context's own files stand."""
    return hosted.context_folder(settings, slug)


def staged_folder(settings: Settings, slug: ContextSlug) -> Path:
    """Where `lamina add` puts files.

    Raises:
        RejectedInput: the deployment's files stand on S3: other machines would not see what is staged on this one, and
            curate it away.
    """
    if settings.services.objects_url:
        raise RejectedInput(
            "staged_elsewhere",
            f"{slug} would keep its files on this machine, and this deployment keeps files in {settings.services.objects_url}",
            remedy=f"put them under an s3:// prefix and name that: lamina submit s3://BUCKET/PREFIX --context {slug}",
        )
    return context_folder(settings, slug) / "sources"


def staged_places(settings: Settings, slug: ContextSlug) -> landing.Places:
    """The folders of a staged context."""
    return landing.Places(staged_folder(settings, slug), context_folder(settings, slug) / "incoming")


def require_home(home: Path) -> None:
    """Make the home folder.

    Raises:
        RejectedInput: code `bad_home`: it can't be.
    """
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RejectedInput(
            "bad_home",
            f"LAMINA_HOME is {home}, which can't be made a folder: {error.strerror}",
            remedy="set LAMINA_HOME to a folder that you may write to",
        ) from error


def build(settings: Settings) -> Ports:
    """The embedded deployment: local files, SQLite, local models. Opens the ledger, nothing else.

    Raises:
        RejectedInput: the settings name an embedder that there isn't.
        Corruption: the ledger can't be used.
    """
    require_home(settings.home)
    # Units run side by side, a thread each; a numeric library that spreads one small product over all processors only
    # burns the time that its threads spend waiting for each other.
    threadpool_limits(1, user_api="blas")
    # A batch makes many small values that all live until it ends: collecting garbage every 700 of them finds none.
    gc.set_threshold(GC_ALLOCATIONS, 20, 50)

    clock = SystemClock()
    ledger = hosted.ledger(settings)
    memo = hosted.memo(settings, clock)
    index, close = _indexes(settings)
    owner = own_name()
    tracer = hosted.tracer(settings, owner)
    ports = Ports(
        clock=clock,
        ledger=ledger,
        memo=memo,
        parser=_parser(settings, memo, clock),
        embedders=_embedders(settings),
        index=index,
        objects=lambda slug: hosted.objects(settings, slug),
        sources=lambda context: _sources(settings, clock, ledger, context),
        view=lambda slug: LocalView(context_folder(settings, slug) / "knowledge"),
        limits=settings.limits,
        project_id=settings.project_id,
        owner=owner,
        is_gone=is_gone,
        user=settings.user,
        processors=settings.worker_count,
        close_indexes=close,
        language=_language(settings, clock),
        tracer=tracer,
        prices=hosted.prices(settings),
        reranker=_reranker(settings),
        canaries=lambda slug: canaries.read(Path(settings.canaries), slug) if settings.canaries else (),
        pair=hosted.published_pair(settings),
        archives=SandboxedArchiveReader(),
        unread_names=NEVER,
    )
    return _traced(ports) if settings.services.traces_url else ports


def scratch(settings: Settings, folder: Path) -> Ports:
    """An empty embedded deployment in a folder of its own, for what must touch nothing: no service, no gate."""
    limits = replace(settings.limits, failed_share=1.0, max_shrink=1.0, fsck_sample=0)
    return build(replace(Settings(home=folder), user=settings.user, workers=settings.workers, limits=limits))


CALLS = {
    "embedder": ("embed",),
    "model": ("answer",),
    "index": ("upsert", "stamp", "delete", "fetch", "settle"),
}
"""Methods whose calls are traced, by port."""


def _traced(ports: Ports) -> Ports:
    """The same, with a span around each of those calls."""

    def told(adapter: object, port: str) -> Any:
        return Traced(adapter, port, CALLS[port], ports.tracer)

    return replace(
        ports,
        embedders={name: told(embedder, "embedder") for name, embedder in ports.embedders.items()},
        language=ports.language and told(ports.language, "model"),
        index=lambda slug: told(ports.index(slug), "index"),
    )


def _indexes(settings: Settings) -> tuple[Callable[[ContextSlug], VectorIndex], Callable[[], None]]:
    """The index of each context, opened when it is first asked for, and what closes them."""
    if settings.index == "pinecone":
        shared = hosted.pinecone_index(settings)
        return (lambda _slug: shared), shared.close
    if settings.index != "local":
        raise RejectedInput(
            "bad_settings",
            f"index is {settings.index!r}, which this deployment doesn't serve",
            remedy="use local or pinecone",
        )
    indexes: dict[ContextSlug, LocalIndex] = {}
    lock = threading.Lock()

    def index(slug: ContextSlug) -> LocalIndex:
        with lock:
            if slug not in indexes:
                context_folder(settings, slug).mkdir(parents=True, exist_ok=True)  # its files may stand elsewhere
                indexes[slug] = LocalIndex(context_folder(settings, slug) / "index.sqlite", graphs=_graphs(settings))
            return indexes[slug]

    def close() -> None:
        with lock:
            for held in indexes.values():
                held.close()
            indexes.clear()

    return index, close


def _sources(settings: Settings, clock: Clock, ledger: Ledger, context: ContextRow) -> SourceTree:
    if context.kind == "s3":
        from pipeline.adapters.source_tree_s3 import S3SourceTree  # noqa: PLC0415  # boto3 is an extra

        return S3SourceTree(hosted.s3_settings(settings, decode_path(SourcePath(context.root)).decode(), "the source"))
    if context.kind == "staged":
        # Whoever reads the tree sees imports whole: one that was cut short after its commit is finished first.
        places = staged_places(settings, context.slug)
        landing.settle(clock, ledger, context.slug, places)
        return LocalSourceTree(places.tree)
    return LocalSourceTree(Path(os.fsdecode(decode_path(SourcePath(context.root)))))


def _parser(settings: Settings, memo: Memo, clock: Clock) -> Parser:
    own = SandboxedParser(
        SandboxLimits(
            memory_bytes=settings.parser.memory_bytes,
            cpu_seconds=settings.parser.cpu_s,
            wall_seconds=settings.parser.wall_s,
            documents_per_child=settings.parser.recycle_documents,
        ),
        workers=settings.worker_count,
    )
    if settings.parser_service == "none":
        return own
    if settings.parser_service != "llamaparse":
        raise RejectedInput(
            "bad_settings",
            f"parser_service is {settings.parser_service!r}, which this deployment doesn't serve",
            remedy="use none or llamaparse",
        )
    return hosted.llama_parser(settings, own, memo, clock)


def _reranker(settings: Settings) -> Reranker | None:
    if settings.reranker == "minilm":
        return MiniLmReranker(threads=settings.worker_count)
    if settings.reranker == "pinecone":
        from pipeline.adapters.reranker_pinecone import (  # noqa: PLC0415  # an extra
            PineconeReranker,
            PineconeRerankerSettings,
        )

        return PineconeReranker(
            PineconeRerankerSettings(hosted.pinecone_account(settings), settings.pinecone.pinecone_reranker)
        )
    if settings.reranker != "none":
        raise RejectedInput(
            "bad_settings",
            f"reranker is {settings.reranker!r}, which this deployment doesn't serve",
            remedy="use none, minilm or pinecone",
        )
    return None


def _language(settings: Settings, clock: Clock) -> LanguageModel | None:
    chosen = settings.models
    if settings.language == "extractive":
        return ExtractiveModel()
    if settings.language == "openai":
        models: dict[Tier, str] = {
            "lite": chosen.openai_model_lite,
            "standard": chosen.openai_model_standard,
            "pro": chosen.openai_model_pro,
        }
        given = OpenAISettings(chosen.openai_base_url, chosen.openai_api_key, models, chosen.openai_deadline_s)
        return hosted.governed(settings, clock, OpenAIModel(given, clock))
    if settings.language != "none":
        raise RejectedInput(
            "bad_settings",
            f"language is {settings.language!r}, which this deployment doesn't serve",
            remedy="use extractive, openai or none",
        )
    return None


def _graphs(settings: Settings) -> GraphSettings:
    chosen = settings.graphs
    return GraphSettings(
        min_records=chosen.graph_min_records,
        m=max(chosen.graph_m, 2),
        ef_construction=max(chosen.graph_ef_construction, 1),
        ef_search=max(chosen.graph_ef_search, 1),
        threads=chosen.graph_threads,
    )


def _embedders(settings: Settings) -> dict[str, DenseEmbedder]:
    served: dict[str, DenseEmbedder] = {"minilm": MiniLmEmbedder(), "static": StaticEmbedder()}
    if settings.pinecone.pinecone_api_key:
        from pipeline.adapters.embedder_pinecone import (  # noqa: PLC0415  # an extra
            PineconeEmbedder,
            PineconeEmbedderSettings,
        )

        chosen = settings.pinecone
        model = PineconeEmbedderSettings(
            hosted.pinecone_account(settings), chosen.pinecone_embedder, chosen.pinecone_embedder_dim
        )
        served["pinecone"] = PineconeEmbedder(model)
    if settings.embedder not in served:
        raise RejectedInput(
            "bad_settings",
            f"embedder is {settings.embedder!r}, which this deployment doesn't serve",
            remedy="use one of " + ", ".join(served),
        )
    return {settings.embedder: served[settings.embedder], **served}


def close(ports: Ports) -> None:
    """Release what `build` and the work since then opened."""
    ports.parser.close()
    for held in (ports.language, ports.tracer):
        end = getattr(held, "close", None)
        if end is not None:
            end()
    if ports.pair is not None:
        ports.pair.close()
    ports.close_indexes()
    ports.memo.close()
    ports.ledger.close()
