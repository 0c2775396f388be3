"""The vectors API: indexes whose schema has no fields but `_values` and `_sparse_values`. Keys in camel case."""

from __future__ import annotations

from typing import Any

from . import limits
from .filters import matches
from .limits import bad, need
from .store import Record, Refused, page, ranked
from .wire import DEFAULT, Call, Reply, searched, written

READ = {"usage": {"readUnits": 1}}


def _space_name(value: Any) -> str:
    return value or DEFAULT


def _shown_name(name: str) -> str:
    return "" if name == DEFAULT else name


def upsert(call: Call) -> Reply:
    body, index = call.body, call.target
    rows = need(body, "vectors", list)
    limits.upsert_size(len(rows), len(call.raw))
    after: dict[str, Record | None] = {}
    for row in rows:
        id_ = limits.record_id(need(row, "id", str))
        dense = sparse = None
        if index.named("dense_vector"):
            dense = limits.dense_values(row.get("values"), index.dimension, id_, stored=True)
        elif row.get("values"):
            raise bad(f"{id_}: this index holds sparse vectors only")
        if row.get("sparseValues") is not None:
            if not index.named("sparse_vector"):
                raise bad(f"{id_}: this index has no sparse field")
            sparse = limits.sparse_values(row["sparseValues"], id_)
        if dense is None and sparse is None:
            raise bad(f"{id_}: a vector has values or sparse values")
        after[id_] = Record(dense, sparse, _metadata(call, row.get("metadata"), id_))
    lsn = call.store.write(index, _space_name(body.get("namespace")), "vectors.upsert", after)
    return Reply({"upsertedCount": len(rows)}, headers=written(call, lsn))


def _metadata(call: Call, value: Any, id_: str) -> dict[str, Any]:
    drop = call.store.behaviour.drop_empty_lists
    return limits.metadata(value or {}, id_, documents=False, drop_empty_lists=drop)


def query(call: Call) -> Reply:
    body, index = call.body, call.target
    name, k = _space_name(body.get("namespace")), limits.top_k(body.get("topK"))
    wanted = limits.filter_of(body.get("filter"), negation=False)
    space = call.store.space(index, name)
    dense = sparse = None
    if body.get("id") is not None:
        record = space.visible.get(body["id"]) if space else None
        dense, sparse = (record.dense, record.sparse) if record else (None, None)
        sparse = (sparse[0].tolist(), sparse[1].tolist()) if sparse else None
    if body.get("vector") is not None:
        dense = limits.dense_values(body["vector"], index.dimension, "the query", stored=False)
    if body.get("sparseVector") is not None:
        if not index.named("sparse_vector"):
            raise bad("this index has no sparse field")
        terms, weights = limits.sparse_values(body["sparseVector"], "the query")
        sparse = (terms.tolist(), weights.tolist())
    if dense is None and sparse is None and body.get("id") is None:
        raise bad("a query names a vector, a sparse vector or an id")
    loose = call.store.behaviour.missing_is_unequal
    found = [] if space is None else ranked(index, space, wanted, dense=dense, sparse=sparse, loose=loose)
    rows: list[dict[str, Any]] = []
    for id_, score in found[:k]:
        assert space is not None
        row = {"id": id_, "score": score, **_shown(space.visible[id_], values=bool(body.get("includeValues")))}
        if not body.get("includeMetadata"):
            row.pop("metadata", None)
        rows.append(row)
    reply = {"matches": rows, "namespace": _shown_name(name), **READ}
    return Reply(reply, headers=searched(call, space, sparse=dense is None))


def _shown(record: Record, *, values: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"values": limits.shown_dense(record) if values else []}
    if values and record.sparse is not None:
        row["sparseValues"] = limits.shown_sparse(record)
    if record.fields:
        row["metadata"] = record.fields
    return row


def fetch(call: Call) -> Reply:
    ids, name = limits.id_list(call.query.get("ids", [])), _space_name(call.one("namespace"))
    space = call.store.space(call.target, name)
    held = space.visible if space else {}
    rows = {id_: {"id": id_, **_shown(held[id_], values=True)} for id_ in ids if id_ in held}
    return Reply({"vectors": rows, "namespace": _shown_name(name), **READ})


def list_ids(call: Call) -> Reply:
    name, limit = _space_name(call.one("namespace")), limits.page_limit(call.one("limit"))
    space = call.store.space(call.target, name)
    prefix = call.one("prefix") or ""
    ids = [id_ for id_ in (space.visible if space else ()) if id_.startswith(prefix)]
    found, more = page(ids, call.one("paginationToken") or "", limit)
    reply: dict[str, Any] = {"vectors": [{"id": id_} for id_ in found], "namespace": _shown_name(name), **READ}
    if more is not None:
        reply["pagination"] = {"next": more}
    return Reply(reply)


def delete(call: Call) -> Reply:
    body, index = call.body, call.target
    name = _space_name(body.get("namespace"))
    if body.get("ids") is not None:
        limits.id_list(body["ids"])
    if call.store.space(index, name) is None and name not in index.namespaces:
        raise Refused(404, "NOT_FOUND", f"Namespace {name} not found")
    ids = selected(call, body.get("ids"), body.get("filter"), body.get("deleteAll") is True, name, negation=False)
    lsn = call.store.write(index, name, "vectors.delete", dict.fromkeys(ids))
    return Reply({}, headers=written(call, lsn))


def selected(call: Call, ids: Any, wanted: Any, everything: bool, name: str, *, negation: bool) -> list[str]:
    """The ids that a write by ids, by filter or of everything is about."""
    space = call.target.namespaces.get(name)
    held = space.accepted if space else {}
    if sum((ids is not None, wanted is not None, everything)) != 1:
        raise bad("name ids, a filter, or everything")
    if ids is not None:
        return [id_ for id_ in limits.id_list(ids) if id_ in held]
    if everything:
        return list(held)
    chosen = limits.filter_of(wanted, negation=negation)
    if chosen is None:
        raise bad("the filter is empty")
    loose = call.store.behaviour.missing_is_unequal
    return [id_ for id_, row in held.items() if matches(chosen, row.fields, missing_is_unequal=loose)]


def update(call: Call) -> Reply:
    body, index = call.body, call.target
    name = _space_name(body.get("namespace"))
    patch = body.get("setMetadata") or {}
    by_id = body.get("id") is not None
    ids = selected(
        call, [body["id"]] if by_id else None, body.get("filter"), everything=False, name=name, negation=False
    )
    if body.get("dryRun"):
        return Reply({"matchedRecords": len(ids)})
    space = call.store.space(index, name, make=True)
    assert space is not None
    call.store.count_updates(space, max(1, len(ids)))
    after: dict[str, Record | None] = {}
    for id_ in ids:
        old = space.accepted[id_]
        dense, sparse = old.dense, old.sparse
        if by_id and body.get("values"):
            dense = limits.dense_values(body["values"], index.dimension, id_, stored=True)
        if by_id and body.get("sparseValues"):
            sparse = limits.sparse_values(body["sparseValues"], id_)
        after[id_] = Record(dense, sparse, _metadata(call, {**old.fields, **patch}, id_))
    lsn = call.store.write(index, name, "vectors.update", after)
    return Reply({} if by_id else {"matchedRecords": len(ids)}, headers=written(call, lsn))


def stats(call: Call) -> Reply:
    if call.raw and call.body.get("filter"):
        raise bad("a filter of statistics is not supported")
    index, names = call.target, list(call.target.namespaces)
    spaces = {name: call.store.space(index, name) for name in names}
    counts = {name: {"vectorCount": len(space.visible)} for name, space in spaces.items() if space is not None}
    return Reply(
        {
            "namespaces": counts,
            "dimension": index.dimension,
            "indexFullness": 0,
            "totalVectorCount": sum(count["vectorCount"] for count in counts.values()),
            "metric": index.metric,
            "vectorType": "dense" if index.dimension else "sparse",
        }
    )
