"""What is asked of a language model and what it answers. Values only.

A task is asked in two forms at once: its structure, which a model of this machine reads, and a rendered prompt with a
JSON schema, which a hosted one reads. Either answers with JSON text that obeys the schema; nobody trusts that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Tier = Literal["lite", "standard", "pro"]
Finish = Literal["stop", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """An artifact type as a model is told of it."""

    name: str
    kind: str
    description: str = ""
    coverage: tuple[str, ...] = ()
    columns: tuple[tuple[str, str, str], ...] = ()
    """Name, affinity and description of each column; empty for prose."""
    natural_key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EdgeSpec:
    """An edge type as a model is told of it."""

    name: str
    source: str
    target: str
    description: str = ""
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MentionsTask:
    """Which subjects of some types a text speaks of, what it says of each, and how they are related.

    Reply: `{"mentions": [{"type", "name", "aliases": [], "mention", "quote", "values"?: {}}],
    "edges": [{"edge", "from", "to", "attributes": {}}]}`; ends of edges are names of mentions of the same reply.
    """

    title: str
    text: str
    types: tuple[TypeSpec, ...]
    edges: tuple[EdgeSpec, ...]
    mention_chars: int
    header: str = ""
    """The header of the table in whose rows the text begins; empty elsewhere."""


@dataclass(frozen=True, slots=True)
class DocumentTask:
    """What one document says, for one type of which every document has one artifact or some rows.

    Reply for prose: `{"title", "body"}`. For a table: `{"rows": [{column: value}]}`.
    """

    title: str
    text: str
    type: TypeSpec
    header: str = ""
    """The header of the table in whose rows the text begins; empty elsewhere."""


@dataclass(frozen=True, slots=True)
class ReduceTask:
    """What several documents say of one subject, made into one text or one row.

    Reply for prose: `{"body"}`, in which [n] cites a note. For a table: `{"row": {column: value}}`.
    """

    name: str
    aliases: tuple[str, ...]
    notes: tuple[str, ...]
    """What each source says of it; numbered from 1 in the prompt."""
    type: TypeSpec
    values: tuple[Mapping[str, Any], ...] = ()
    """Table types: the values that each note came with."""


@dataclass(frozen=True, slots=True)
class SameTask:
    """Whether two groups of mentions are of one subject. Reply: `{"same": true|false, "reason"}`."""

    type: TypeSpec
    left: str
    left_notes: tuple[str, ...]
    right: str
    right_notes: tuple[str, ...]


Task = MentionsTask | DocumentTask | ReduceTask | SameTask


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call."""

    task: Task
    system: str
    prompt: str
    """The task in words; source text stands in it fenced, as data."""
    schema_name: str
    schema: Mapping[str, Any]
    """JSON schema of the reply."""
    max_tokens: int
    """Longest reply."""
    tier: Tier = "lite"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What a call was billed."""

    prompt: int = 0
    completion: int = 0
    cache_read: int = 0
    """Prompt tokens that the provider had already."""
    cache_write: int = 0

    def plus(self, other: TokenUsage) -> TokenUsage:
        """The sum."""
        return TokenUsage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back."""

    text: str
    finish: Finish
    """`length`: cut at the limit; `refusal`: the model or its filter declined."""
    usage: TokenUsage
    model: str
    """The model that answered, as the provider names it."""


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A language model that a deployment knows."""

    id: str
    label: str
    provider: str
    available: bool = True


MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in whatever currency the deployment counts."""

    prompt: float = 0.0
    completion: float = 0.0

    def cost(self, prompt: int, completion: int) -> float:
        """Money for so many tokens; prompt tokens that the provider had already count as any other."""
        return (prompt * self.prompt + completion * self.completion) / MILLION
