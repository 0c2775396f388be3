"""Settings to the adapters of services: PostgreSQL, S3, Celery, Pinecone, budgets.

Client libraries are extras, imported where their service is chosen. With `bootstrap`, which builds everything else, the
only place that names adapters.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from pipeline.adapters.governor_local import LocalGovernor
from pipeline.adapters.ledger_sqlite import SqliteLedger
from pipeline.adapters.memo_sqlite import SqliteMemo
from pipeline.adapters.model_governed import GovernedModel
from pipeline.adapters.object_store_local import LocalObjectStore
from pipeline.errors import RejectedInput
from pipeline.file_ports import ObjectStore
from pipeline.fingerprint import fingerprint
from pipeline.fleet_ports import Dispatch, Governor, PublishedPair
from pipeline.ledger import Ledger
from pipeline.models import Price
from pipeline.ports import Clock, LanguageModel, Memo, Parser, VectorIndex
from pipeline.rates import Budget
from pipeline.settings import Settings
from pipeline.tracing import Tracer, Untraced
from pipeline.types import ContextSlug

if TYPE_CHECKING:
    from pipeline.adapters.pinecone_client import PineconeAccount
    from pipeline.adapters.s3_client import S3Settings


BROKERS = frozenset({"redis", "rediss", "redis+socket"})
"""Schemes of a broker's address."""
PAIR_NAME_MAX = 38
"""An index' name holds 45 characters, seven of which the ending takes."""


def context_folder(settings: Settings, slug: ContextSlug) -> Path:
    """Where a context's own files stand."""
    return settings.home / "contexts" / slug


def require_broker(settings: Settings) -> str:
    """The broker's address: from settings, or of the fleet that `lamina up` runs in this home.

    Raises:
        RejectedInput: there is neither.
    """
    if settings.services.broker_url:
        return _checked_broker(settings.services.broker_url)
    try:
        return broker_file(settings).read_text("utf-8").strip()
    except OSError:
        raise RejectedInput(
            "no_broker",
            "no broker is set, and no local fleet runs here",
            remedy="set broker_url in lamina.toml (LAMINA_BROKER_URL), or start a fleet on this machine: lamina up",
        ) from None


def _checked_broker(url: str) -> str:
    """The address, if it is one. It is never shown: a wrong one may hold a password in any place.

    Raises:
        RejectedInput: code `bad_broker`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        known = parts.scheme in BROKERS and not parts.fragment and not parts.query.count("#")
        placed = bool(parts.path) if parts.scheme.endswith("+socket") else bool(parts.hostname)
        numbered = parts.scheme.endswith("+socket") or parts.path.strip("/").isdecimal() or not parts.path.strip("/")
        good = known and placed and numbered and (port is None or port > 0)
    except ValueError:
        good = False
    if not good:
        raise RejectedInput(
            "bad_broker",
            "broker_url isn't the address of a broker",
            remedy="write redis://:PASSWORD@HOST:PORT/NUMBER, rediss:// for TLS or redis+socket:///PATH; in a password write "
            "# as %23, / as %2F, ? as %3F and @ as %40",
        )
    return url


def broker_file(settings: Settings) -> Path:
    """Where `lamina up` writes the address of the broker that it runs."""
    return settings.home / "broker"


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


def ledger(settings: Settings) -> Ledger:
    """On PostgreSQL where one is set, else in the home folder."""
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


def memo(settings: Settings, clock: Clock) -> Memo:
    """Beside the ledger: whoever shares one shares the other."""
    if not settings.services.ledger_url:
        return SqliteMemo(settings.home / "memo.sqlite", clock=clock, max_bytes=settings.memo_bytes)
    from pipeline.adapters.memo_postgres import PostgresMemo  # noqa: PLC0415  # its driver is an extra

    large = _s3_store(settings, "shared/") if settings.services.objects_url else None
    return PostgresMemo(settings.services.ledger_url, clock, objects=large, max_bytes=settings.memo_bytes)


def objects(settings: Settings, slug: ContextSlug) -> ObjectStore:
    """The store of one context's files."""
    if settings.services.objects_url:
        return _s3_store(settings, f"contexts/{slug}/")
    return LocalObjectStore(context_folder(settings, slug) / "objects")


def _s3_store(settings: Settings, below: str) -> ObjectStore:
    from pipeline.adapters.object_store_s3 import S3ObjectStore  # noqa: PLC0415  # boto3 is an extra

    given = s3_settings(settings, settings.services.objects_url, "objects_url")
    return S3ObjectStore(replace(given, prefix=given.prefix + below))


def s3_settings(settings: Settings, url: str, what: str) -> S3Settings:
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


def pinecone_index(settings: Settings) -> VectorIndex:
    """One index for every context."""
    from pipeline.adapters.index_pinecone import PineconeIndex  # noqa: PLC0415  # an extra
    from pipeline.adapters.index_pinecone_open import PineconeSettings  # noqa: PLC0415  # as above

    chosen = settings.pinecone
    families: dict[str, Literal["auto", "documents", "vectors"]] = {
        "auto": "auto", "documents": "documents", "vectors": "vectors",
    }  # fmt: skip
    if chosen.pinecone_family not in families:
        raise RejectedInput(
            "bad_settings", f"pinecone_family is {chosen.pinecone_family!r}", remedy="use auto, documents or vectors"
        )
    return PineconeIndex(
        PineconeSettings(
            pinecone_account(settings),
            index=chosen.pinecone_index,
            cloud=chosen.pinecone_cloud,
            region=chosen.pinecone_region,
            family=families[chosen.pinecone_family],
            fresh_deadline_s=chosen.pinecone_fresh_s,
            updates_per_s=chosen.pinecone_updates_per_s,
        )
    )


def tracer(settings: Settings, owner: str) -> Tracer:
    """Where spans go, if anywhere.

    Raises:
        RejectedInput: the address isn't one, or OpenTelemetry isn't installed.
    """
    url = settings.services.traces_url
    if not url:
        return Untraced()
    if not url.startswith(("http://", "https://")):
        raise RejectedInput("bad_settings", f"traces_url is {url!r}", remedy="write it like http://localhost:4318")
    try:
        from pipeline.adapters.tracer_otel import OtelTracer  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise RejectedInput(
            "no_otel", "traces_url is set, and OpenTelemetry isn't installed", remedy="install lamina[otel]"
        ) from error
    return OtelTracer(url, _version(), owner)


def _version() -> str:
    try:
        return importlib.metadata.version("lamina")
    except importlib.metadata.PackageNotFoundError:
        return "from source"


def published_pair(settings: Settings) -> PublishedPair | None:
    """Where copies of live versions are published, if anywhere.

    Raises:
        RejectedInput: no key is set, or the pair would be the index of our own vectors.
    """
    chosen = settings.pinecone
    if not chosen.published_index:
        return None
    if settings.index == "pinecone" and chosen.pinecone_index in (
        chosen.published_index, f"{chosen.published_index}-sparse",
    ):  # fmt: skip
        raise RejectedInput(
            "bad_settings",
            f"published_index and pinecone_index both name {chosen.pinecone_index}",
            remedy="give the published pair a name of its own",
        )
    if len(chosen.published_index) > PAIR_NAME_MAX:
        raise RejectedInput(
            "bad_settings",
            f"published_index has {len(chosen.published_index)} characters, and -sparse comes behind it",
            remedy=f"take {PAIR_NAME_MAX} at most",
        )
    from pipeline.adapters.pair_pinecone import PairSettings, PineconePair  # noqa: PLC0415  # an extra

    return PineconePair(
        PairSettings(
            pinecone_account(settings),
            chosen.published_index,
            chosen.published_contexts,
            chosen.published_dense_model,
            chosen.published_sparse_model,
            chosen.pinecone_cloud,
            chosen.pinecone_region,
        )
    )


def pinecone_account(settings: Settings) -> PineconeAccount:
    """Whom to ask, and as whom.

    Raises:
        RejectedInput: no key is set.
    """
    from pipeline.adapters.pinecone_client import PineconeAccount  # noqa: PLC0415  # an extra

    chosen = settings.pinecone
    if not chosen.pinecone_api_key:
        raise RejectedInput(
            "bad_settings", "Pinecone is chosen, and pinecone_api_key isn't set", remedy="set LAMINA_PINECONE_API_KEY"
        )
    return PineconeAccount(chosen.pinecone_api_key, chosen.pinecone_control_url, chosen.pinecone_deadline_s)


def llama_parser(settings: Settings, inner: Parser, memo: Memo, clock: Clock) -> Parser:
    """LlamaParse for the formats that are sent there, `inner` for the others; job ids are kept in the memo."""
    from pipeline.adapters.parser_llamaparse import LlamaParser, LlamaParseSettings  # noqa: PLC0415  # rarely wanted
    from pipeline.adapters.parser_llamaparse_jobs import MemoJobStore  # noqa: PLC0415  # as above

    chosen = settings.llamaparse
    interfaces: dict[str, Literal["http", "package"]] = {"http": "http", "package": "package"}
    if not chosen.llamaparse_api_key or chosen.llamaparse_interface not in interfaces:
        raise RejectedInput(
            "bad_settings",
            "LlamaParse is chosen, and llamaparse_api_key isn't set"
            if not chosen.llamaparse_api_key
            else f"llamaparse_interface is {chosen.llamaparse_interface!r}",
            remedy="set LAMINA_LLAMAPARSE_API_KEY; the interface is http or package",
        )
    given = LlamaParseSettings(
        chosen.llamaparse_api_key,
        frozenset(part.strip() for part in chosen.llamaparse_formats.split(",") if part.strip()),
        interfaces[chosen.llamaparse_interface],
        chosen.llamaparse_base_url,
        chosen.llamaparse_tier,
        chosen.llamaparse_version,
        chosen.llamaparse_language,
        chosen.llamaparse_project_id,
        chosen.llamaparse_deadline_s,
    )
    return LlamaParser(given, inner, MemoJobStore(memo), clock)


def governed(settings: Settings, clock: Clock, model: LanguageModel) -> LanguageModel:
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
    return GovernedModel(model, governor, clock, prices(settings))


def prices(settings: Settings) -> dict[str, Price]:
    """Tiers with a price; an extractive model costs nothing whatever is set."""
    given = settings.models
    found = {
        "lite": Price(given.price_lite_in, given.price_lite_out),
        "standard": Price(given.price_standard_in, given.price_standard_out),
        "pro": Price(given.price_pro_in, given.price_pro_out),
    }
    return {tier: price for tier, price in found.items() if price.prompt or price.completion}
