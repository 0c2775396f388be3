"""Settings to ports: the only place that names adapters."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from pipeline import landing
from pipeline.adapters.archive_sandbox import SandboxedArchiveReader
from pipeline.adapters.clock_system import SystemClock
from pipeline.adapters.embedder_minilm import MiniLmEmbedder
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.adapters.governor_local import LocalGovernor
from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.adapters.ledger_sqlite import SqliteLedger
from pipeline.adapters.memo_sqlite import SqliteMemo
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.adapters.model_governed import GovernedModel
from pipeline.adapters.model_openai import OpenAIModel, OpenAISettings
from pipeline.adapters.object_store_local import LocalObjectStore
from pipeline.adapters.owner_local import is_gone, own_name
from pipeline.adapters.parser_sandbox import SandboxedParser, SandboxLimits
from pipeline.adapters.reranker_minilm import MiniLmReranker
from pipeline.adapters.source_tree_local import NEVER, LocalSourceTree
from pipeline.adapters.view_local import LocalView
from pipeline.errors import RejectedInput
from pipeline.fingerprint import decode_path, fingerprint
from pipeline.fleet_ports import Dispatch, Governor
from pipeline.ledger import Ledger
from pipeline.models import Price, Tier
from pipeline.ports import Clock, DenseEmbedder, LanguageModel, Memo, ObjectStore, Ports, Reranker, SourceTree
from pipeline.rates import Budget
from pipeline.rows import ContextRow
from pipeline.settings import Settings
from pipeline.types import ContextSlug, SourcePath

if TYPE_CHECKING:
    from pipeline.adapters.s3_client import S3Settings

GC_ALLOCATIONS = 50_000
"""New containers between two collections of the youngest generation; some megabytes at most."""


def context_folder(settings: Settings, slug: ContextSlug) -> Path:
    """Where a context's files stand."""
    return settings.home / "contexts" / slug


def staged_folder(settings: Settings, slug: ContextSlug) -> Path:
    """Where `lamina add` puts files."""
    return context_folder(settings, slug) / "sources"


def staged_places(settings: Settings, slug: ContextSlug) -> landing.Places:
    """The folders of a staged context."""
    return landing.Places(staged_folder(settings, slug), context_folder(settings, slug) / "incoming")


def build(settings: Settings) -> Ports:
    """The embedded deployment: local files, SQLite, local models. Opens the ledger, nothing else.

    Raises:
        RejectedInput: the settings name an embedder that there isn't.
        Corruption: the ledger can't be used.
    """
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RejectedInput(
            "bad_home",
            f"LAMINA_HOME is {settings.home}, which can't be made a folder: {error.strerror}",
            remedy="set LAMINA_HOME to a folder that you may write to",
        ) from error
    # Units run side by side, a thread each; a numeric library that spreads one small product over all processors only
    # burns the time that its threads spend waiting for each other.
    threadpool_limits(1, user_api="blas")
    # A batch makes many small values that all live until it ends: collecting garbage every 700 of them finds none.
    gc.set_threshold(GC_ALLOCATIONS, 20, 50)

    clock = SystemClock()
    ledger = _ledger(settings)
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

    return Ports(
        clock=clock,
        ledger=ledger,
        memo=_memo(settings, clock),
        parser=SandboxedParser(
            SandboxLimits(
                memory_bytes=settings.parser.memory_bytes,
                cpu_seconds=settings.parser.cpu_s,
                wall_seconds=settings.parser.wall_s,
                documents_per_child=settings.parser.recycle_documents,
            ),
            workers=settings.worker_count,
        ),
        embedders=_embedders(settings),
        index=index,
        objects=lambda slug: _objects(settings, slug),
        sources=lambda context: _sources(settings, clock, ledger, context),
        view=lambda slug: LocalView(context_folder(settings, slug) / "knowledge"),
        limits=settings.limits,
        project_id=settings.project_id,
        owner=own_name(),
        is_gone=is_gone,
        user=settings.user,
        processors=settings.worker_count,
        close_indexes=close,
        language=_language(settings, clock),
        prices=_prices(settings),
        reranker=_reranker(settings),
        archives=SandboxedArchiveReader(),
        unread_names=NEVER,
    )


def _ledger(settings: Settings) -> Ledger:
    if not settings.services.ledger_url:
        return SqliteLedger(settings.home / "ledger.sqlite")
    try:
        from pipeline.adapters.ledger_postgres import PostgresLedger  # noqa: PLC0415  # its driver is an extra
    except ImportError as error:
        raise RejectedInput(
            "bad_settings",
            "ledger_url names a PostgreSQL database, whose driver isn't installed",
            remedy="install lamina[fleet], or unset ledger_url",
        ) from error
    return PostgresLedger(settings.services.ledger_url)


def _memo(settings: Settings, clock: Clock) -> Memo:
    """Beside the ledger: whoever shares one shares the other."""
    if not settings.services.ledger_url:
        return SqliteMemo(settings.home / "memo.sqlite", clock=clock, max_bytes=settings.memo_bytes)
    from pipeline.adapters.memo_postgres import PostgresMemo  # noqa: PLC0415  # its driver is an extra

    large = _s3_store(settings, "shared/") if settings.services.objects_url else None
    return PostgresMemo(settings.services.ledger_url, clock, objects=large, max_bytes=settings.memo_bytes)


def _objects(settings: Settings, slug: ContextSlug) -> ObjectStore:
    if settings.services.objects_url:
        return _s3_store(settings, f"contexts/{slug}/")
    return LocalObjectStore(context_folder(settings, slug) / "objects")


def _s3_store(settings: Settings, below: str) -> ObjectStore:
    from pipeline.adapters.object_store_s3 import S3ObjectStore  # noqa: PLC0415  # boto3 is an extra

    given = _s3(settings, settings.services.objects_url, "objects_url")
    return S3ObjectStore(replace(given, prefix=given.prefix + below))


def _s3(settings: Settings, url: str, what: str) -> S3Settings:
    """Bucket and prefix of an `s3://` address, with the deployment's way to reach it.

    Raises:
        RejectedInput: it is none, or boto3 isn't installed.
    """
    try:
        from pipeline.adapters.s3_client import S3Settings  # noqa: PLC0415  # as above
    except ImportError as error:
        raise RejectedInput(
            "no_boto3", f"{what} is {url}, and boto3 isn't installed", remedy="install lamina[fleet]"
        ) from error
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    if not url.startswith("s3://") or not bucket:
        raise RejectedInput("bad_settings", f"{what} is {url!r}", remedy="write it as s3://BUCKET/PREFIX")
    prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
    chosen = settings.services
    return S3Settings(
        bucket, prefix, chosen.s3_endpoint_url, chosen.s3_region, chosen.s3_access_key, chosen.s3_secret_key
    )


def dispatch(settings: Settings) -> Dispatch:
    """Messages to the fleet's workers.

    Raises:
        RejectedInput: no broker is set, or Celery isn't installed.
    """
    broker = require_broker(settings)
    try:
        from pipeline.adapters.dispatch_celery import CeleryDispatch  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise RejectedInput(
            "no_celery", "the fleet's libraries aren't installed", remedy="install lamina[fleet]"
        ) from error
    from pipeline.curate import STAGES  # noqa: PLC0415  # brings every stage and its libraries

    return CeleryDispatch(broker, settings.limits.unit_limit_s, {stage.name: stage.waits for stage in STAGES})


def broker_file(settings: Settings) -> Path:
    """Where `lamina up` writes the address of the broker that it runs."""
    return settings.home / "broker"


def require_broker(settings: Settings) -> str:
    """The broker's address: from settings, or of the fleet that `lamina up` runs in this home.

    Raises:
        RejectedInput: there is neither.
    """
    if settings.services.broker_url:
        return settings.services.broker_url
    try:
        return broker_file(settings).read_text("utf-8").strip()
    except OSError:
        raise RejectedInput(
            "no_broker",
            "no broker is set, and no local fleet runs here",
            remedy="set broker_url in lamina.toml (LAMINA_BROKER_URL), or start a fleet on this machine: lamina up",
        ) from None


def _sources(settings: Settings, clock: Clock, ledger: Ledger, context: ContextRow) -> SourceTree:
    if context.kind == "s3":
        from pipeline.adapters.source_tree_s3 import S3SourceTree  # noqa: PLC0415  # boto3 is an extra

        return S3SourceTree(_s3(settings, decode_path(SourcePath(context.root)).decode(), "the source"))
    if context.kind == "staged":
        # Whoever reads the tree sees imports whole: one that was cut short after its commit is finished first.
        places = staged_places(settings, context.slug)
        landing.settle(clock, ledger, context.slug, places)
        return LocalSourceTree(places.tree)
    return LocalSourceTree(Path(os.fsdecode(decode_path(SourcePath(context.root)))))


def _reranker(settings: Settings) -> Reranker | None:
    if settings.reranker not in ("none", "minilm"):
        raise RejectedInput(
            "bad_settings",
            f"reranker is {settings.reranker!r}, which this deployment doesn't serve",
            remedy="use none or minilm",
        )
    return MiniLmReranker(threads=settings.worker_count) if settings.reranker == "minilm" else None


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
        return _governed(settings, clock, OpenAIModel(given, clock))
    if settings.language != "none":
        raise RejectedInput(
            "bad_settings",
            f"language is {settings.language!r}, which this deployment doesn't serve",
            remedy="use extractive, openai or none",
        )
    return None


def _governed(settings: Settings, clock: Clock, model: LanguageModel) -> LanguageModel:
    """The model under the fleet's budget, where one is set."""
    chosen = settings.rates
    limits = {
        "requests": chosen.model_requests_minute,
        "tokens": chosen.model_tokens_minute,
        "money": chosen.model_money_minute,
    }
    budget = Budget({name: limit for name, limit in limits.items() if limit})
    if not budget.limits:
        return model
    governor: Governor = LocalGovernor(budget, clock)
    if settings.services.broker_url or broker_file(settings).exists():
        from pipeline.adapters.governor_redis import RedisGovernor  # noqa: PLC0415  # an extra

        key = fingerprint("provider", settings.models.openai_base_url, settings.models.openai_api_key)[:16]
        url = require_broker(settings)
        governor = RedisGovernor(url, f"model:{key}", budget, clock, processes=chosen.rate_processes)
    return GovernedModel(model, governor, clock, _prices(settings))


def _prices(settings: Settings) -> dict[str, Price]:
    """Tiers with a price; an extractive model costs nothing whatever is set."""
    given = settings.models
    found = {
        "lite": Price(given.price_lite_in, given.price_lite_out),
        "standard": Price(given.price_standard_in, given.price_standard_out),
        "pro": Price(given.price_pro_in, given.price_pro_out),
    }
    return {tier: price for tier, price in found.items() if price.prompt or price.completion}


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
    if isinstance(ports.language, OpenAIModel | GovernedModel):
        ports.language.close()
    ports.close_indexes()
    ports.memo.close()
    ports.ledger.close()
