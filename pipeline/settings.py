"""Where and how work runs: `lamina.toml` and the environment become one frozen value. Nothing here changes a result.

Order, the later one wins: defaults, `lamina.toml` (the file that LAMINA_CONFIG names, else `./lamina.toml`, else
`LAMINA_HOME/lamina.toml`), environment variables `LAMINA_<KEY>`. This is the only reader of the environment.
"""

from __future__ import annotations

import getpass
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pipeline.errors import RejectedInput
from pipeline.limits import Limits

PREFIX = "LAMINA_"
CONFIG = "LAMINA_CONFIG"
FILE = "lamina.toml"


@dataclass(frozen=True, slots=True)
class ParserLimits:
    """Bounds of the child process that parses."""

    memory_bytes: int = 2_147_483_648
    """Address space of a parsing process."""
    cpu_s: int = 120
    """Processor time for one document."""
    wall_s: float = 120.0
    """Real time for one document."""
    recycle_documents: int = 1000
    """Documents after which a parsing process is replaced."""


@dataclass(frozen=True, slots=True)
class GraphChoices:
    """When the local index builds graphs, and how."""

    graph_min_records: int = 50_000
    """Chunks past which a graph is built; fewer are searched exactly. 0: never."""
    graph_m: int = 16
    """Links of a vector in a graph."""
    graph_ef_construction: int = 128
    """Candidates looked at when a vector is linked."""
    graph_ef_search: int = 256
    """Candidates that a search looks at, at least."""
    graph_threads: int = 0
    """Threads that build; 0: as many as there are processors."""


@dataclass(frozen=True, slots=True)
class LanguageChoices:
    """The language model behind any OpenAI-compatible endpoint, and what its tiers cost."""

    openai_base_url: str = "https://api.openai.com/v1"
    """The endpoint, up to and with its version."""
    openai_api_key: str = field(default="", repr=False)
    """Never shown, logged or stored."""
    openai_model_lite: str = ""
    """Model of the tier `lite`; a tier without one takes the next one's."""
    openai_model_standard: str = ""
    openai_model_pro: str = ""
    openai_deadline_s: float = 180.0
    """Longest one call may take, from first to last byte."""
    price_lite_in: float = 0.0
    """Money for a million prompt tokens; for `--max-spend` and the estimate."""
    price_lite_out: float = 0.0
    """Money for a million tokens of replies."""
    price_standard_in: float = 0.0
    price_standard_out: float = 0.0
    price_pro_in: float = 0.0
    price_pro_out: float = 0.0


@dataclass(frozen=True, slots=True)
class ServiceChoices:
    """Services that a fleet shares; without them everything stands in the home folder."""

    ledger_url: str = field(default="", repr=False)
    """PostgreSQL database that holds the ledger: `postgresql://user:password@host:port/database`. Never shown."""
    broker_url: str = field(default="", repr=False)
    """Redis through which workers are told of work: `redis://:password@host:port/0`. Never shown."""
    objects_url: str = ""
    """Bucket for files of versions and large memo values: `s3://bucket/prefix`."""
    s3_endpoint_url: str = ""
    """Of an S3 server other than AWS'."""
    s3_region: str = ""
    traces_url: str = ""
    """Collector of OpenTelemetry traces, by OTLP over HTTP: `http://host:4318`; empty: none."""
    s3_access_key: str = field(default="", repr=False)
    """Never shown; without it credentials come from where boto3 looks for them."""
    s3_secret_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class PineconeChoices:
    """Pinecone as vector index, and its hosted models."""

    pinecone_api_key: str = field(default="", repr=False)
    """Never shown, logged or stored."""
    pinecone_control_url: str = "https://api.pinecone.io"
    """Of the control plane and the hosted models."""
    pinecone_index: str = "lamina"
    """Index of all contexts; all its vectors have one dimension."""
    pinecone_cloud: str = "aws"
    pinecone_region: str = "us-east-1"
    """Where a new index is made."""
    pinecone_family: str = "auto"
    """API that the index is written through: auto, documents or vectors."""
    pinecone_deadline_s: float = 60.0
    """For a whole call, repeats and waits included."""
    pinecone_fresh_s: float = 120.0
    """How long a read waits until what was written can be seen."""
    pinecone_updates_per_s: float = 90.0
    """Records stamped a second in a namespace."""
    pinecone_embedder: str = "multilingual-e5-large"
    """Model of the embedder `pinecone`."""
    pinecone_embedder_dim: int = 0
    """Its dimension; 0: the model's usual one."""
    pinecone_reranker: str = "bge-reranker-v2-m3"
    """Model of the reranker `pinecone`."""
    published_index: str = ""
    """Dense index of the pair to which live versions are copied for third-party readers; empty: none."""
    published_contexts: str = "*"
    """Patterns of the contexts that are copied, with commas between."""
    published_dense_model: str = "llama-text-embed-v2"
    published_sparse_model: str = "pinecone-sparse-english-v0"
    """Models of a pair that has to be made."""


@dataclass(frozen=True, slots=True)
class LlamaParseChoices:
    """LlamaParse, for the formats that are sent there."""

    llamaparse_api_key: str = field(default="", repr=False)
    """Never shown, logged or stored."""
    llamaparse_formats: str = "pdf,docx,pptx"
    """What is sent, with commas between: formats, or file name endings of those that this machine can't read."""
    llamaparse_interface: str = "http"
    """http: the service's second generation; package: the first, through llama-parse."""
    llamaparse_base_url: str = "https://api.cloud.llamaindex.ai"
    llamaparse_tier: str = "cost_effective"
    """cost_effective, agentic or agentic_plus."""
    llamaparse_version: str = "latest"
    """Of the tier: a date keeps results alike."""
    llamaparse_language: str = ""
    """Code of the language of text in pictures."""
    llamaparse_project_id: str = ""
    llamaparse_deadline_s: float = 600.0
    """For a document, from the upload to its pages; the job outlives it."""


@dataclass(frozen=True, slots=True)
class RateChoices:
    """What a fleet may use of the language model's provider a minute, all processes together; 0: no limit."""

    model_requests_minute: float = 0.0
    model_tokens_minute: float = 0.0
    """Of prompts and replies."""
    model_money_minute: float = 0.0
    """By the tiers' prices."""
    rate_processes: int = 8
    """Processes that may call at a time: while what they share is away, each takes so small a part of the limits."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One deployment's choices."""

    home: Path
    """Folder that holds all state."""
    embedder: str = "minilm"
    """Dense model of contexts whose first run names none: minilm, static or pinecone."""
    index: str = "local"
    """Where vectors stand: local (files in the home folder) or pinecone."""
    reranker: str = "none"
    """Model of `lamina query --rerank`: none, minilm or pinecone."""
    language: str = "extractive"
    """Model that extracts artifacts: extractive (of this machine, no language model), openai, or none."""
    parser_service: str = "none"
    """Service that parses the formats which its section names: none or llamaparse."""
    project_id: str = "local"
    user: str = "local"
    canaries: str = ""
    """File of canary questions, JSON or YAML; empty: none."""
    workers: int = 0
    """Units worked on at a time by `lamina curate`; 0: as many as there are processors, at most 4."""
    memo_bytes: int = 0
    """Size past which the least recently used memo entries go; 0: no limit."""
    limits: Limits = field(default_factory=Limits)
    parser: ParserLimits = field(default_factory=ParserLimits)
    graphs: GraphChoices = field(default_factory=GraphChoices)
    models: LanguageChoices = field(default_factory=LanguageChoices)
    services: ServiceChoices = field(default_factory=ServiceChoices)
    rates: RateChoices = field(default_factory=RateChoices)
    pinecone: PineconeChoices = field(default_factory=PineconeChoices)
    llamaparse: LlamaParseChoices = field(default_factory=LlamaParseChoices)

    @property
    def worker_count(self) -> int:
        """Units worked on at a time."""
        return self.workers or min(4, os.cpu_count() or 1)


SECRET = frozenset(
    {
        "openai_api_key",
        "ledger_url",
        "broker_url",
        "s3_access_key",
        "s3_secret_key",
        "pinecone_api_key",
        "llamaparse_api_key",
    }
)
"""Settings whose values are shown to nobody."""

GROUPS: dict[str, Any] = {
    "limits": Limits,
    "parser": ParserLimits,
    "graphs": GraphChoices,
    "models": LanguageChoices,
    "services": ServiceChoices,
    "rates": RateChoices,
    "pinecone": PineconeChoices,
    "llamaparse": LlamaParseChoices,
}


def load(environ: Mapping[str, str], folder: Path) -> Settings:
    """Settings from files and environment.

    Args:
        environ: usually `os.environ`.
        folder: the current folder, where `lamina.toml` is looked for.

    Raises:
        RejectedInput: unknown keys and unusable values, all together, each with its place.
    """
    home = Path(environ.get(PREFIX + "HOME") or Path.home() / ".lamina").expanduser()
    given: dict[str, tuple[str, object]] = {}
    source = _config_file(environ, folder, home)
    if source is not None:
        given.update(_flat(_read(source), str(source)))
    known = setting_names()
    for name, value in environ.items():
        key = name.removeprefix(PREFIX).lower()
        if name.startswith(PREFIX) and name not in (CONFIG, PREFIX + "HOME"):
            given[key] = (name, value)
    faults = [f"{place}: there is no setting {key!r}" for key, (place, _) in given.items() if key not in known]
    values: dict[str, Any] = {}
    for key, (place, raw) in given.items():
        if key in known:
            try:
                values[key] = _convert(raw, known[key])
            except ValueError as error:
                faults.append(f"{place}: {key} {error}")
    if faults:
        raise RejectedInput(
            "bad_settings", "settings can't be used: " + "; ".join(faults), remedy="see docs/settings.md"
        )
    named = values.pop("home", home)
    return _build(Path(home if environ.get(PREFIX + "HOME") else named).expanduser().absolute(), values)


def setting_names() -> dict[str, type]:
    """Every key that `lamina.toml` and the environment take, with its type."""
    names: dict[str, type] = {}
    owners: tuple[Any, ...] = (Settings, *GROUPS.values())
    for owner in owners:
        for item in fields(owner):
            if item.name not in GROUPS:
                kind = {"Path": str, "str": str, "int": int, "float": float}[str(item.type)]
                names[item.name] = kind
    return names


def _build(home: Path, values: dict[str, Any]) -> Settings:
    settings = Settings(home=home, user=_user())
    for group, owner in GROUPS.items():
        own = {item.name: values.pop(item.name) for item in fields(owner) if item.name in values}
        settings = replace(settings, **{group: replace(getattr(settings, group), **own)})
    return replace(settings, **values)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def _config_file(environ: Mapping[str, str], folder: Path, home: Path) -> Path | None:
    if environ.get(CONFIG):
        named = Path(environ[CONFIG]).expanduser()
        if not named.is_file():
            raise RejectedInput("no_config", f"{CONFIG} names {named}, which isn't there", remedy="correct or unset it")
        return named
    return next((p for p in (folder / FILE, home / FILE) if p.is_file()), None)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise RejectedInput("bad_settings", f"{path} can't be read: {error}", remedy="see docs/settings.md") from error


def _flat(document: dict[str, Any], place: str) -> dict[str, tuple[str, object]]:
    out: dict[str, tuple[str, object]] = {}
    for key, value in document.items():
        if key in GROUPS and isinstance(value, dict):
            out.update({inner: (f"{place} [{key}]", v) for inner, v in value.items()})
        else:
            out[key] = (place, value)
    return out


def _convert(value: object, kind: type) -> object:
    if kind is str:
        if isinstance(value, str):
            return value
        raise ValueError(f"takes text, not {value!r}")
    if isinstance(value, bool):
        raise ValueError(f"takes a number, not {value!r}")  # noqa: TRY004  # one error for every unusable value
    try:
        number = kind(str(value))
    except (TypeError, ValueError):
        raise ValueError(f"takes a number, not {value!r}") from None
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"takes a number that isn't negative, not {value!r}")
    return number
