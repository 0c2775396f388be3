"""The documents API: indexes whose schema names its fields. Keys in snake case."""

from __future__ import annotations

from typing import Any

from . import limits
from .filters import matches
from .limits import bad, need
from .store import Index, Record, Refused, page, ranked
from .vectors import selected
from .wire import Call, Reply, searched, written

READ = {"usage": {"read_units": 1}}


def _split(call: Call, document: dict[str, Any], id_: str, old: Record | None = None) -> Record:
    """A document's parts by what the schema says of them; what isn't named stays as it was."""
    index = call.target
    dense_name, sparse_name = index.named("dense_vector"), index.named("sparse_vector")
    dense, sparse = (old.dense, old.sparse) if old else (None, None)
    fields = dict(old.fields) if old else {}
    for name, value in document.items():
        if name == "_id":
            continue
        if name in (dense_name, sparse_name) and value is None:
            raise bad(f"{id_}: the field {name} can't be null")
        if name == dense_name:
            dense = limits.dense_values(value, index.dimension, id_, stored=True)
        elif name == sparse_name:
            sparse = limits.sparse_values(value, id_)
        else:
            fields[name] = value
    if dense_name and dense is None:
        raise bad(f"{id_}: the field {dense_name} is missing")
    drop = call.store.behaviour.drop_empty_lists
    return Record(dense, sparse, limits.metadata(fields, id_, documents=True, drop_empty_lists=drop))


def upsert(call: Call, name: str) -> Reply:
    rows = need(call.body, "documents", list)
    limits.upsert_size(len(rows), len(call.raw))
    after: dict[str, Record | None] = {}
    for row in rows:
        id_ = limits.record_id(need(row, "_id", str))
        if id_ in after:
            raise bad(f"the id {id_} stands twice in one request")
        after[id_] = _split(call, row, id_)
    lsn = call.store.write(call.target, name, "documents.upsert", after)
    return Reply({"upserted_count": len(rows)}, 202, written(call, lsn))


def search(call: Call, name: str) -> Reply:
    body, index = call.body, call.target
    clauses, k = need(body, "score_by", list), limits.top_k(body.get("top_k"))
    if len(clauses) != 1:
        raise bad("a clause over vectors stands alone; the emulator knows no others")
    clause, dense, sparse = clauses[0], None, None
    if clause.get("type") not in ("dense_vector", "sparse_vector"):
        raise bad(f"the emulator doesn't score by {clause.get('type')!r}")
    if clause.get("field") != index.named(clause["type"]):
        raise bad(f"the index has no field {clause.get('field')!r} of type {clause['type']}")
    if clause["type"] == "dense_vector":
        dense = limits.dense_values(clause.get("values"), index.dimension, "the query", stored=False)
    else:
        terms, weights = limits.sparse_values(clause.get("sparse_values"), "the query")
        sparse = (terms.tolist(), weights.tolist())
    wanted = _filter(call, body.get("filter"))
    space = call.store.space(index, name)
    loose = call.store.behaviour.missing_is_unequal
    found = [] if space is None else ranked(index, space, wanted, dense=dense, sparse=sparse, loose=loose)
    rows = [
        {"_id": id_, "_score": score, **_shown(index, space.visible[id_], body.get("include_fields") or ())}
        for id_, score in found[:k]
        if space is not None
    ]
    return Reply({"matches": rows, "namespace": name, **READ}, headers=searched(call, space, sparse=dense is None))


def _filter(call: Call, value: Any) -> Any:
    wanted = limits.filter_of(value, negation=True)
    ranking = {name for name, spec in call.target.fields.items() if spec["type"] != "string"}
    if wanted and ranking & set(wanted):
        raise bad(f"a vector field can't be filtered: {sorted(ranking & set(wanted))}")
    return wanted


def _shown(index: Index, record: Record, names: Any) -> dict[str, Any]:
    whole = dict(record.fields)
    if record.dense is not None:
        whole[index.named("dense_vector") or ""] = limits.shown_dense(record)
    if record.sparse is not None:
        whole[index.named("sparse_vector") or ""] = limits.shown_sparse(record)
    return whole if "*" in names else {name: value for name, value in whole.items() if name in names}


def fetch(call: Call, name: str) -> Reply:
    body, index = call.body, call.target
    space = call.store.space(index, name)
    held = space.visible if space else {}
    names = body.get("include_fields") or ("*",)
    more = None
    if body.get("ids"):
        ids = [id_ for id_ in limits.id_list(body["ids"]) if id_ in held]
    else:
        wanted, limit = _filter(call, body.get("filter")), int(body.get("limit") or 100)
        if wanted is None or not 1 <= limit <= limits.TOP_K:
            raise bad("a fetch names ids, or a filter with a limit of 1 to 10000")
        loose = call.store.behaviour.missing_is_unequal
        fitting = [id_ for id_, row in held.items() if matches(wanted, row.fields, missing_is_unequal=loose)]
        ids, more = page(fitting, body.get("pagination_token") or "", limit)
    documents = {id_: {"_id": id_, **_shown(index, held[id_], names)} for id_ in ids}
    reply = {"documents": documents, "namespace": name, **READ}
    return Reply(reply if more is None else {**reply, "pagination": {"next": more}})


def delete(call: Call, name: str) -> Reply:
    body = call.body
    if name not in call.target.namespaces:
        raise Refused(404, "NOT_FOUND", f"Namespace {name} not found")
    ids = selected(call, body.get("ids"), body.get("filter"), body.get("delete_all") is True, name, negation=True)
    lsn = call.store.write(call.target, name, "documents.delete", dict.fromkeys(ids))
    return Reply({"matched_records": len(ids)} if body.get("filter") else {}, headers=written(call, lsn))


def update(call: Call, name: str) -> Reply:
    body = call.body
    space = call.store.space(call.target, name, make=True)
    assert space is not None
    patches: dict[str, dict[str, Any]] = {}
    if body.get("documents") is not None:
        if not 1 <= len(body["documents"]) <= limits.IDS:
            raise bad(f"1 to {limits.IDS} documents are allowed in one update")
        for row in body["documents"]:
            patches[limits.record_id(need(row, "_id", str))] = row
    else:
        gone = {"_remove_fields": body.get("remove_fields") or []}
        for id_ in selected(call, None, body.get("filter"), everything=False, name=name, negation=True):
            patches[id_] = {**(body.get("set_fields") or {}), **gone}
    call.store.count_updates(space, max(1, len(patches)))
    after: dict[str, Record | None] = {}
    for id_, patch in patches.items():
        if id_ not in space.accepted:
            continue  # accepted, and without effect
        removed = patch.get("_remove_fields") or []
        if any(value is None for value in patch.values()):
            raise bad(f"{id_}: a field can't be set to null")
        row = _split(call, {k: v for k, v in patch.items() if k != "_remove_fields"}, id_, space.accepted[id_])
        after[id_] = Record(row.dense, row.sparse, {k: v for k, v in row.fields.items() if k not in removed})
    lsn = call.store.write(call.target, name, "documents.update", after)
    return Reply({} if body.get("documents") else {"matched_records": len(after)}, headers=written(call, lsn))


def list_ids(call: Call, name: str) -> Reply:
    body = call.body
    space = call.store.space(call.target, name)
    ids = [id_ for id_ in (space.visible if space else ()) if id_.startswith(body.get("prefix") or "")]
    found, more = page(ids, body.get("pagination_token") or "", limits.page_limit(body.get("limit")))
    reply = {"documents": [{"_id": id_} for id_ in found], "namespace": name, **READ}
    return Reply(reply if more is None else {**reply, "pagination": {"next": more}})
