"""`CurationState`: what is live of a context, under the contract's names. Mapped here and nowhere else."""

from __future__ import annotations

import json

from pipeline.contract import PAGE_ROWS, Json, timestamp
from pipeline.ledger import Session
from pipeline.rows import ContextRow


def curation_state(session: Session, context: ContextRow) -> Json:
    """`CurationState` of what is live."""
    manifest: Json = {}
    after = ""
    while True:
        page = session.sources.page(context.slug, context.live_version, after, PAGE_ROWS)
        for row in page:
            if row.hash:
                manifest[row.path] = {
                    "hash": row.hash,
                    "curated_at": timestamp(row.curated_at),
                    "size": row.size,
                    "mtime": timestamp(row.mtime_ns / 1e9) if row.mtime_ns else None,
                }
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].path
    removed = session.sources.removed(context.slug, context.live_version)
    return {
        "manifest": manifest,
        "edges": _edges(session, context),
        "corpus_groups": _groups(session, context),
        "live_version": context.live_version,
        "versions_stamped": True,
        "source_removed": {
            path: {"removed_version": version, "removed_at": timestamp(at)} for path, version, at in removed
        },
        "redispatch_count": context.redispatch_count,
        "artifact_reclaim": [],
        **_cursors(session, context),
    }


def _cursors(session: Session, context: ContextRow) -> Json:
    """What an unfinished run has extracted so far, by source; empty where every curate ran to its end."""
    pointers: dict[str, list[Json]] = {}
    glossary: dict[str, list[tuple[int, Json]]] = {}
    run = session.runs.active(context.slug)
    after = ""
    while run is not None and run.number:
        page = session.knowledge.moved(context.slug, run.id, run.number, after, PAGE_ROWS)
        for row in page:
            if row.added != run.number:
                continue
            told = json.loads(row.data)
            if row.kind == "mention":
                entry = {"type": row.type, "name": row.name, "mention": told["text"], "seq": row.seq}
                pointers.setdefault(row.path, []).append(entry)
            elif row.kind == "glossary":
                entry = {"type": row.type, "name": row.name, "clause": told["text"]}
                glossary.setdefault(row.path, []).append((row.seq, entry))
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].id
    for entries in pointers.values():
        entries.sort(key=lambda entry: entry["seq"])
    terms = {path: [entry for _, entry in sorted(held, key=lambda item: item[0])] for path, held in glossary.items()}
    return {"source_pointers": pointers, "source_glossary": terms}


def _edges(session: Session, context: ContextRow) -> Json:
    """Source to the artifacts at which the edges end that it supports."""
    found: dict[str, set[str]] = {}
    after = ""
    while True:
        page = session.knowledge.page_edges(context.slug, context.live_version, after, PAGE_ROWS)
        for edge in page:
            found.setdefault(edge.path, set()).update((edge.source, edge.target))
        if len(page) < PAGE_ROWS:
            return {path: sorted(found[path]) for path in sorted(found)}
        after = page[-1].id


def _groups(session: Session, context: ContextRow) -> list[Json]:
    """`CorpusGroup` of each subject that the whole corpus speaks of."""
    out: list[Json] = []
    after = ""
    while True:
        page = session.knowledge.page_subjects(context.slug, context.live_version, after, PAGE_ROWS)
        shown = [s for s in page if json.loads(s.data)["kind"] in ("mention", "glossary")]
        members: dict[str, set[str]] = {}
        for member in session.knowledge.members_at(context.slug, context.live_version, [s.id for s in shown]):
            members.setdefault(member.subject, set()).add(member.path)
        out += [
            {
                "group_key": f"{s.type}/{s.key}",
                "member_sources": sorted(members.get(s.id, ())),
                "canonical_name": s.name,
                "membership_hash": s.membership,
                "added_version": s.added,
            }
            for s in shown
        ]
        if len(page) < PAGE_ROWS:
            return sorted(out, key=lambda g: g["group_key"])
        after = page[-1].id
