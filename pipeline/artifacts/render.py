"""Artifacts as text: the markdown file, the index page, and what the search index holds. Pure.

Front matter uses the terms of the Open Knowledge Format: type, title, sources, links, generated. Nothing in a file
depends on when it was made, so that the same knowledge gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from pipeline.artifacts.leg import data, slug_of
from pipeline.fingerprint import canonical_json
from pipeline.rows import ArtifactRow, EdgeRow
from pipeline.types import Metadata, MetadataValue

FOLDER = "artifacts"
DATABASE = f"{FOLDER}/knowledge.sqlite"
LINKS_MAX = 200
LISTED_SOURCES_MAX = 50
TEXT_BYTES_MAX = 24_000
"""Of an artifact's text in the index; the file holds all of it."""


def file_path(type_: str, key: str) -> str:
    """Where the artifact of a subject stands: stable while the subject keeps its key."""
    return f"{FOLDER}/{slug_of(type_.casefold(), type_)}/{slug_of(key, key)}.md"


def index_path(type_: str) -> str:
    """The type's index page."""
    return f"{FOLDER}/{slug_of(type_.casefold(), type_)}/index.md"


def page(artifact: ArtifactRow, edges: Iterable[tuple[EdgeRow, str]]) -> bytes:
    """The markdown file of an artifact.

    Args:
        artifact: a prose artifact.
        edges: rows that start at it, each with the target's file or name.
    """
    held = data(artifact)
    links: dict[tuple[str, str], None] = {(edge.type, target): None for edge, target in edges}
    head: dict[str, Any] = {
        "type": artifact.type,
        "title": artifact.name,
        "id": artifact.id,
        "aliases": held["aliases"],
        "sources": [_source(source) for source in held["sources"]],
        "links": [{"type": type_, "to": target} for type_, target in sorted(links)[:LINKS_MAX]],
        "generated": {"by": held["model"], "scope": artifact.scope},
    }
    head = {key: value for key, value in head.items() if value not in ([], "")}
    front = yaml.safe_dump(head, allow_unicode=True, sort_keys=False, width=10_000)
    return f"---\n{front}---\n\n# {artifact.name}\n\n{held['body'].strip()}\n".encode()


def _source(source: Mapping[str, Any]) -> dict[str, Any]:
    shown = {"path": source["path"]}
    if source.get("part"):
        shown["part"] = source["part"]
    return {**shown, "spans": source["spans"]}


def index(type_: str, entries: Iterable[tuple[str, str]]) -> bytes:
    """The index page of a type.

    Args:
        type_: its name.
        entries: title and file of each artifact, in order.
    """
    lines = [f"- [{_linked(title)}]({file.rsplit('/', 1)[-1]})" for title, file in entries]
    front = yaml.safe_dump({"type": "index", "title": type_}, allow_unicode=True, sort_keys=False)
    return f"---\n{front}---\n\n# {type_}\n\n{chr(10).join(lines)}\n".encode()


def _linked(title: str) -> str:
    return title.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def row_text(row: Mapping[str, Any]) -> str:
    """A row of a table as lines, for searching and reading."""
    return "\n".join(f"{column}: {cell}" for column, cell in row.items() if cell is not None)


def body_of(artifact: ArtifactRow) -> str:
    """What the artifact says."""
    held = data(artifact)
    return row_text(held["row"]) if artifact.format == "sqlite" else str(held["body"])


def embed_text(artifact: ArtifactRow) -> str:
    """What is embedded and indexed: names in front of the text."""
    aliases: Sequence[str] = data(artifact)["aliases"]
    lead = artifact.name + (f" ({', '.join(aliases[:5])})" if aliases else "")
    return f"{artifact.type} > {lead}\n\n{_cut(body_of(artifact))}"


def metadata(artifact: ArtifactRow) -> Metadata:
    """Flat metadata of an artifact's record."""
    held = data(artifact)
    sources = tuple(dict.fromkeys(source["path"] for source in held["sources"]))
    value: dict[str, MetadataValue] = {
        "text": _cut(body_of(artifact)),
        "title": artifact.name,
        "kind": "artifact",
        "layer": "L0",
        "artifact_type": artifact.type,
        "scope": artifact.scope,
        "logical_id": artifact.id,
        "doc_id": artifact.id.replace("-", ""),
        "source_path": _common(sources),
        "source_paths": sources[:LISTED_SOURCES_MAX],
        "aliases": tuple(held["aliases"][:LISTED_SOURCES_MAX]),
    }
    if artifact.file:
        value["filename"] = artifact.file.rsplit("/", 1)[-1]
        value["file"] = artifact.file
    return {key: cell for key, cell in value.items() if cell not in ("", ())}


def _common(paths: Sequence[str]) -> str:
    """The source, or the folder that holds all of them: an artifact is within a scope where all its sources are."""
    if len(paths) == 1:
        return paths[0]
    parts = [path.split("/")[:-1] for path in paths]
    shared = []
    for together in zip(*parts, strict=False):
        if len(set(together)) > 1:
            break
        shared.append(together[0])
    return "/".join(shared)


def _cut(text: str) -> str:
    raw = text.encode()
    return text if len(raw) <= TEXT_BYTES_MAX else raw[:TEXT_BYTES_MAX].decode("utf-8", "ignore")


def content(artifact: ArtifactRow) -> str:
    """Everything that a reader can see of an artifact, as one comparable text."""
    return canonical_json([artifact.name, artifact.file, artifact.basis, artifact.data])
