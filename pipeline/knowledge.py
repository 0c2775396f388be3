"""Reading what the artifact leg made of a version: artifacts, files, the database; and the models that make them.

Every flow reads one version, which its caller holds with `reading`; lists come page by page, so that memory holds one.
Edges are in `graph`, decisions about merges in `merges`. Names are compared as `artifacts.names.normal` writes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from pipeline import contexts, publish
from pipeline.artifacts import names
from pipeline.artifacts.leg import TIERS, data
from pipeline.artifacts.render import DATABASE
from pipeline.errors import RejectedInput
from pipeline.ports import Ports
from pipeline.rows import ArtifactRow, FileRow
from pipeline.stored_manifest import types_of
from pipeline.types import ContextSlug, LogicalId

HOLD_S = 3600.0
"""How long reading a version may take: it is pinned for it."""
PAGE_ROWS = 500
NAMESAKES_MAX = 20
NEAR = 5
"""Near misses suggested."""
NEAR_RATIO = 0.6
NEAR_CHARS = 200


@contextmanager
def reading(ports: Ports, slug: ContextSlug, version: int | None) -> Iterator[int]:
    """Hold a version, the live one for None, for as long as the body reads it.

    Raises:
        RejectedInput: no such context, nothing curated yet.
        Conflict: code `version_gone`.
    """
    held = contexts.pin(ports, slug, version=version, seconds=HOLD_S)
    try:
        yield held.version
    finally:
        contexts.unpin(ports, slug, held.id)


# ---- artifacts


@dataclass(frozen=True, slots=True)
class Listed:
    """An artifact in a list."""

    id: str
    type: str
    name: str
    scope: str
    format: str
    sources: int
    """Sources that speak of its subject; not all of them need to be cited."""
    file: str
    """Empty for a row of a table."""
    aliases: tuple[str, ...]


def artifacts(ports: Ports, slug: ContextSlug, version: int, *, type_: str = "", name: str = "") -> Iterator[Listed]:
    """Artifacts by type and name.

    Args:
        ports: the deployment.
        slug: the context.
        version: held by the caller.
        type_: only this type, as `type_named` spells it.
        name: only those whose name or alias holds this text, in whatever spelling.
    """
    wanted = names.normal(name)
    for page in _artifact_pages(ports, slug, version, type_):
        kept = [row for row in page if not wanted or any(wanted in names.normal(s) for s in spellings(row))]
        with ports.ledger.read() as session:
            held = {s.id: s.documents for s in session.knowledge.subjects_at(slug, version, [row.id for row in kept])}
        for row in kept:
            yield _listed(row, held.get(row.id, 0))


def _listed(row: ArtifactRow, documents: int) -> Listed:
    held = data(row)
    sources = documents or len({source["path"] for source in held["sources"]})
    return Listed(row.id, row.type, row.name, row.scope, row.format, sources, row.file, tuple(held["aliases"]))


def _artifact_pages(ports: Ports, slug: ContextSlug, version: int, type_: str) -> Iterator[Sequence[ArtifactRow]]:
    after = (type_, "", "")
    while True:
        with ports.ledger.read() as session:
            publish.require_readable(session, slug, version)
            page = session.knowledge.page_artifacts(slug, version, after, PAGE_ROWS)
        yield [row for row in page if not type_ or row.type == type_]
        if len(page) < PAGE_ROWS or (type_ and page[-1].type != type_):
            return
        after = (page[-1].type, page[-1].name, page[-1].id)


def spellings(row: ArtifactRow) -> tuple[str, ...]:
    """An artifact's name and aliases."""
    return (row.name, *data(row)["aliases"])


def type_named(ports: Ports, slug: ContextSlug, version: int, typed: str) -> str:
    """A type of the version in whatever letter case; empty for empty.

    Raises:
        RejectedInput: code `no_type`.
    """
    if not typed:
        return ""
    with ports.ledger.read() as session:
        known = [t["name"] for t in types_of(session, slug, version)]
        kept = session.knowledge.page_artifacts(slug, version, (typed, "", ""), 1)
    for name in known:
        if name.casefold() == typed.casefold():
            return str(name)
    if kept and kept[0].type == typed:  # the manifest has dropped it, but artifacts of it are left
        return typed
    raise no_type(slug, typed, known)


def no_type(slug: ContextSlug, typed: str, known: Sequence[str]) -> RejectedInput:
    """The refusal of a type that there isn't."""
    there = ", ".join(known) or "none; see curate.artifacts in the manifest"
    return RejectedInput("no_type", f"{slug} has no artifact type {typed!r}", remedy=f"types: {there}")


def near(spelled: Iterable[str], typed: str) -> tuple[str, ...]:
    """Those that look most like what was typed, best first."""
    plain = names.normal(typed)[:NEAR_CHARS]
    matcher = SequenceMatcher(a="", b=plain, autojunk=False)

    def scored() -> Iterator[tuple[float, str]]:
        for spelling in spelled:
            other = names.normal(spelling)[:NEAR_CHARS]
            matcher.set_seq1(other)
            if plain and f" {plain} " in f" {other} ":
                yield 1.0, spelling
            elif matcher.real_quick_ratio() > NEAR_RATIO and matcher.quick_ratio() > NEAR_RATIO:
                ratio = matcher.ratio()
                if ratio > NEAR_RATIO:
                    yield ratio, spelling

    best = heapq.nsmallest(4 * NEAR, scored(), key=lambda item: (-item[0], item[1]))
    return tuple(dict.fromkeys(spelling for _, spelling in best))[:NEAR]


def artifact_named(ports: Ports, slug: ContextSlug, version: int, typed: str, type_: str = "") -> ArtifactRow:
    """The artifact with this id, name or, where none has the name, alias.

    Raises:
        RejectedInput: code `no_artifact`; `several_artifacts`: the name doesn't tell which.
    """
    with ports.ledger.read() as session:
        found = [a for a in session.knowledge.artifacts_at(slug, version, [LogicalId(typed)]) if type_ in ("", a.type)]
    if found:
        return found[0]
    plain = names.normal(typed)
    called: list[ArtifactRow] = []
    aliased: list[ArtifactRow] = []
    for page in _artifact_pages(ports, slug, version, type_):
        for row in page:
            if typed == row.name or (plain and plain == names.normal(row.name)):
                called.append(row)
            elif plain and len(aliased) <= NAMESAKES_MAX and plain in map(names.normal, data(row)["aliases"]):
                aliased.append(row)
        del called[NAMESAKES_MAX + 1 :]
    found = called or aliased
    if len(found) == 1:
        return found[0]
    if found:
        raise _several(typed, found)
    spelled = (s for page in _artifact_pages(ports, slug, version, type_) for row in page for s in spellings(row))
    close = ", ".join(near(spelled, typed))
    raise RejectedInput(
        "no_artifact",
        f"version {version} of {slug} has no artifact called {typed!r}{f' of type {type_}' if type_ else ''}",
        remedy=f"did you mean: {close}" if close else f"see: lamina artifacts {slug}",
    )


def _several(typed: str, found: Sequence[ArtifactRow]) -> RejectedInput:
    lines = [f"{row.id}  {row.type}  {row.name}" for row in found[:NAMESAKES_MAX]]
    more = ["and more"] if len(found) > NAMESAKES_MAX else []
    return RejectedInput(
        "several_artifacts",
        f"several artifacts are called {typed!r}",
        remedy="\n".join(["give the id of one, or --type where that tells them apart:", *lines, *more]),
    )


# ---- files and the database


def files(ports: Ports, slug: ContextSlug, version: int) -> Iterator[FileRow]:
    """Every file of the version, by path."""
    after = ""
    while True:
        with ports.ledger.read() as session:
            publish.require_readable(session, slug, version)
            page = session.files.page(slug, version, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def file(ports: Ports, slug: ContextSlug, version: int, paths: Sequence[str]) -> tuple[FileRow, bytes]:
    """The first of these files that the version has.

    Raises:
        RejectedInput: code `no_file`.
    """
    with ports.ledger.read() as session:
        found = [row for path in paths if (row := session.knowledge.file_at(slug, version, path))]
    if not found:
        raise RejectedInput(
            "no_file",
            f"version {version} of {slug} has no file {paths[0]}",
            remedy=f"files: lamina knowledge list {slug}",
        )
    return found[0], ports.objects(slug).get(found[0].blob)


def database(ports: Ports, slug: ContextSlug, version: int) -> bytes:
    """The version's SQLite file.

    Raises:
        RejectedInput: code `no_database`.
    """
    with ports.ledger.read() as session:
        row = session.knowledge.file_at(slug, version, DATABASE)
        tables = [t["name"] for t in types_of(session, slug, version) if t.get("format") == "sqlite"]
    if row is None:
        why = "but no run has built it" if tables else "no artifact type of its manifest has the format sqlite"
        raise RejectedInput(
            "no_database",
            f"version {version} of {slug} has no database: {why}",
            remedy="give a type the format sqlite and columns in the manifest, then curate",
        )
    return ports.objects(slug).get(row.blob)


# ---- models


def model_catalog(ports: Ports) -> dict[str, Any]:
    """The language models that extract artifacts, as the contract's `ModelCatalog`. Asks no server."""
    served = ports.language
    tiers = {tier: served.model(tier) for tier in TIERS} if served is not None else {}
    models = {
        m.id: {"id": m.id, "label": m.label, "provider": m.provider, "available": m.available}
        for m in (served.catalog() if served is not None else ())
    }
    for tier, model in tiers.items():
        provider = models[model]["provider"] if model in models else "lamina"
        label = f"Tier {tier}: {model}"
        models.setdefault(tier, {"id": tier, "label": label, "provider": provider, "available": True})
    return {
        "default": tiers.get("lite", ""),
        "models": list(models.values()),
        "tiers": tiers,
        "phase_defaults": {"curate": "lite"} if tiers else {},
        "supported_curate_models": [id_ for id_, model in models.items() if model["available"]],
        # No model answers questions here, so there is no loop with steps and no level of thinking to choose.
        "query_defaults": {"max_steps": {}, "thinking_levels": [], "thinking_level": ""},
    }
