"""The manifest as frozen values: every key, its limits and its default.

A key that the author left out has its default here and is missing from `model_fields_set`; null is never a value.
Rules that span several keys are in `rules` and run when a whole `Manifest` is built. The two fields that are None
when absent say so in their description: their value comes from elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from manifests.rules import OVERLAP_DEFAULT, TARGET_SIZE_DEFAULT, check

Leg = Literal["chunks", "artifacts"]
LEGS: tuple[Leg, ...] = get_args(Leg)

Strategy = Literal["markdown_heading", "sliding_window", "html", "csv", "code"]
ModelTier = Literal["standard", "lite"]
Kind = Literal["summary", "topic", "entity", "event", "doc", "page", "glossary"]
Scope = Literal["document", "corpus"]
ArtifactFormat = Literal["markdown", "sqlite"]
Affinity = Literal["TEXT", "INTEGER", "REAL", "NUMERIC"]

_SECTION = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def _not_null(value: object) -> object:
    if value is None:
        raise PydanticCustomError("null", "null is not a value")
    return value


def _storable(text: str) -> str:
    # Half of a surrogate pair has no UTF-8, and NUL ends a text early in C libraries that read names.
    if any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
        raise PydanticCustomError("unstorable", "holds a character that no file can hold")
    return text


def _overlap(given: dict[str, Any]) -> int:
    target_size: int = given.get("target_size", TARGET_SIZE_DEFAULT)
    return min(OVERLAP_DEFAULT, target_size // 8)


_Text = Annotated[str, AfterValidator(_storable)]
_Name = Annotated[str, Field(max_length=64, pattern=r"\S"), AfterValidator(_storable)]
_LongName = Annotated[str, Field(max_length=128, pattern=r"\S"), AfterValidator(_storable)]
_Listed = Field(strict=False)  # documents hold lists; inside they are tuples, and strictness would refuse the change


class ChunkingConfig(BaseModel):
    """How one source is divided into chunks."""

    model_config = _SECTION

    strategy: Strategy = "markdown_heading"
    """Where the text may be divided: at Markdown headings, anywhere (windows of fixed size), at HTML elements, between
    table rows, or at definitions of program code."""
    target_size: int = Field(default=TARGET_SIZE_DEFAULT, ge=64, le=4096)
    """Tokens (cl100k) that a chunk holds at most, a repeated table header included. Title and heading path, at most 64
    tokens put in front for the search, come on top. Small chunks find single facts, large ones keep an argument
    together."""
    overlap: int = Field(default_factory=_overlap, ge=0, le=1024)
    """Tokens that a chunk takes over from the end of the one before it, so that a sentence on the border is found
    whole. Must be below `target_size`. Absent: 64, or an eighth of `target_size` where that is less."""
    respect_sections: bool = True
    """Start a new chunk at every section, even if the one before it is only half full."""


class KeywordConfig(BaseModel):
    """Search for exact words beside the search by meaning."""

    model_config = _SECTION

    enabled: bool = True
    """Whether chunks also get sparse vectors, so that names, codes and rare words are found literally."""


class ChunksConfig(BaseModel):
    """The chunk leg: passages of the sources, searchable by meaning and by words."""

    model_config = _SECTION

    enabled: bool = True
    """Whether this leg is built."""
    embedding_model: Annotated[_LongName | None, BeforeValidator(_not_null)] = None
    """Name of the model that turns chunks into vectors. Absent: the deployment's default model, which the recipe
    records; there is no fixed name to fall back to."""
    chunking: ChunkingConfig = Field(default_factory=ChunkingConfig)
    """How sources are divided."""
    keyword: KeywordConfig = Field(default_factory=KeywordConfig)
    """The word index built beside the vectors."""


class Column(BaseModel):
    """One column of a table."""

    model_config = _SECTION

    name: _Name
    """What the column is called. Of two names that come to the same column name the first one counts."""
    type: Affinity = "TEXT"
    """SQLite type affinity of the column."""
    description: Annotated[str, Field(max_length=256), AfterValidator(_storable)] = ""
    """What belongs into the column; the extraction reads it."""


class ArtifactType(BaseModel):
    """One kind of knowledge to extract."""

    model_config = _SECTION

    name: _Name
    """What the type is called: edges refer to it, and a table is named after it. Letter case doesn't distinguish."""
    kind: Kind = "topic"
    """What an artifact of this type stands for; chooses the extraction prompt. A `glossary` is read from the headings
    in `sections`, word for word and without a language model."""
    scope: Scope = "corpus"
    """`document`: one artifact for each source. `corpus`: what all sources say about one subject becomes one
    artifact."""
    icon: Annotated[str, Field(max_length=64), AfterValidator(_storable)] = ""
    """Symbol for displays; changes nothing that is built."""
    description: Annotated[str, Field(max_length=512), AfterValidator(_storable)] = ""
    """What to capture, in a sentence or two; part of the extraction prompt."""
    coverage: Annotated[tuple[_LongName, ...], _Listed] = Field(default=(), max_length=32)
    """Topics that an artifact should speak to wherever the source does."""
    sections: Annotated[tuple[_LongName, ...], _Listed] = Field(default=(), max_length=64)
    """Headings that a `glossary` reads, spelled exactly as in the sources. Other kinds pay no heed to it."""
    min_doc_count: Annotated[int | None, Field(ge=1, le=64), BeforeValidator(_not_null)] = None
    """How many sources must speak of a subject of this type before it becomes an artifact. Absent: the value given for
    all types. No effect with `document` scope."""
    format: ArtifactFormat = "markdown"
    """`markdown`: a file for each artifact. `sqlite`: rows of a table in the context's database."""
    columns: Annotated[tuple[Column, ...], _Listed] = Field(default=(), max_length=64)
    """The table's columns; only with format `sqlite`."""
    natural_key: Annotated[tuple[_Name, ...], _Listed] = Field(default=(), max_length=16)
    """Columns that together tell one row from every other, so that a later run replaces rows and doesn't add them
    again; only with format `sqlite`."""


class EdgeType(BaseModel):
    """One directed kind of relation between artifacts."""

    model_config = _SECTION

    name: _Name
    """What the relation is called, as a verb: `cites`. Used once between the same two types."""
    from_type: _Name = Field(alias="from")
    """Name of the artifact type where the edge starts."""
    to_type: _Name = Field(alias="to")
    """Name of the artifact type where the edge ends; may be the one where it starts."""
    description: Annotated[str, Field(max_length=512), AfterValidator(_storable)] = ""
    """When the relation holds; the extraction reads it."""
    attributes: Annotated[tuple[_Name, ...], _Listed] = Field(default=(), max_length=16)
    """Names of further values noted on each edge."""


class ArtifactsConfig(BaseModel):
    """The artifact leg: knowledge that a language model extracts, as files or table rows."""

    model_config = _SECTION

    enabled: bool = False
    """Whether this leg is built."""
    artifact_model: ModelTier = "lite"
    """Which tier of language model extracts: `lite` costs less, `standard` reads more carefully."""
    artifact_types: Annotated[tuple[ArtifactType, ...], _Listed] = Field(default=(), max_length=32)
    """What to extract. Without a type nothing is."""
    edge_types: Annotated[tuple[EdgeType, ...], _Listed] = Field(default=(), max_length=32)
    """How artifacts may be related."""
    min_doc_count: int = Field(default=1, ge=1, le=64)
    """How many sources must speak of a corpus-wide subject before it becomes an artifact; types may say otherwise."""
    max_tokens: int = Field(default=1500, ge=128, le=8192)
    """Longest artifact that the model may write, in tokens."""
    max_doc_chars: int = Field(default=60_000, ge=1000, le=2_000_000)
    """Most characters given to one extraction call. Without windows the rest of a longer source is not read."""
    extraction_window_chars: int = Field(default=0, ge=0, le=1_000_000)
    """Characters of each window when a long source is read in several calls. 0: no windows, only the beginning up to
    `max_doc_chars` is read."""
    mention_max_chars: int = Field(default=400, ge=100, le=4000)
    """Longest note, in characters, of what one source says about a subject."""
    max_mentions_per_artifact: int = Field(default=40, ge=1, le=500)
    """Most notes that are merged into one corpus-wide artifact."""
    mention_context_chars: int = Field(default=8000, ge=1000, le=100_000)
    """Most characters of those notes together, counted after `max_mentions_per_artifact` has chosen them."""
    max_artifacts_per_type: int = Field(default=10_000, ge=1, le=10_000)
    """Most artifacts of one type. Absent: as many as a type can hold."""


class CurateManifest(BaseModel):
    """What a curate builds from the sources."""

    model_config = _SECTION

    chunks: ChunksConfig = Field(default_factory=ChunksConfig)
    """The chunk leg."""
    artifacts: ArtifactsConfig = Field(default_factory=ArtifactsConfig)
    """The artifact leg; off unless switched on."""


class OptimizeManifest(BaseModel):
    """The tuning loop, which tries other manifests for questions that were answered badly."""

    model_config = _SECTION

    schedule: Annotated[str, Field(max_length=128), AfterValidator(_storable)] = "0 * * * *"
    """When the loop runs: a cron expression of five fields."""
    latency_threshold_ms: int = Field(default=60_000, ge=0, le=600_000)
    """Milliseconds past which an answer counts as too slow. 0: speed is no reason to tune, only answers that artifacts
    could not give and chunks had to."""
    min_group_size: int = Field(default=2, ge=1, le=100)
    """How many similar bad answers it takes before the loop works on them."""
    eval_pass_rate_threshold: float = Field(default=1.0, ge=0, le=1, allow_inf_nan=False)
    """Share of the test questions that a candidate must answer right to be adopted; 1 means all."""
    max_iterations: int = Field(default=20, ge=1, le=100)
    """Candidates tried before the loop stops with the best of them."""


class SearchManifest(BaseModel):
    """Standing advice to whoever answers from the index."""

    model_config = _SECTION

    instructions: _Text = ""
    """System prompt for every question put to this context; what one conversation adds comes after it."""


class Manifest(BaseModel):
    """The one document that says what an index is made of and how it is asked. Every key may be left out."""

    model_config = _SECTION

    curate: CurateManifest = Field(default_factory=CurateManifest)
    """What is built."""
    optimize: OptimizeManifest = Field(default_factory=OptimizeManifest)
    """How it is tuned."""
    search: SearchManifest = Field(default_factory=SearchManifest)
    """How it is asked."""

    @model_validator(mode="after")
    def _rules(self) -> Manifest:
        problems = check(self.model_dump(by_alias=True, exclude_unset=True))
        if problems:
            text = " ".join(map(str, problems))
            raise PydanticCustomError("manifest_rules", "{text}", {"text": text})
        return self
