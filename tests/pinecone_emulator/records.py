"""The records API: indexes that embed text themselves (create-for-model). Upserts are lines of JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import inference, limits
from .limits import bad, need
from .store import Record, ranked
from .wire import Call, Reply, searched, written


def upsert(call: Call, name: str) -> Reply:
    try:
        rows = [json.loads(line) for line in call.raw.splitlines() if line.strip()]
    except ValueError as error:
        raise bad(f"the body isn't lines of JSON: {error}") from error
    if not 1 <= len(rows) <= limits.TEXT_RECORDS:
        raise bad(f"1 to {limits.TEXT_RECORDS} records with text are allowed in one upsert, got {len(rows)}")
    limits.upsert_size(len(rows), len(call.raw))
    field = call.target.named("semantic_text") or ""
    after: dict[str, Record | None] = {}
    for row in rows:
        id_ = limits.record_id(row.get("_id", row.get("id")))
        text = need(row, field, str)
        fields = {key: value for key, value in row.items() if key not in ("_id", "id")}
        drop = call.store.behaviour.drop_empty_lists
        kept = limits.metadata(fields, id_, documents=False, drop_empty_lists=drop)
        after[id_] = Record(*_embedded(call, text, "passage"), kept)
    lsn = call.store.write(call.target, name, "records.upsert", after)
    return Reply(None, 201, written(call, lsn))


def _embedded(call: Call, text: str, side: str) -> tuple[Any, tuple[Any, Any] | None]:
    spec = call.target.fields[call.target.named("semantic_text") or ""]
    model = inference.MODELS[spec["model"]]
    if model.vector_type == "sparse":
        terms, weights = inference.sparse(text)
        return None, (np.array(terms, np.uint32), np.array(weights, np.float32))
    return np.array(inference.dense(text, spec["dimension"], side), np.float32), None


def search(call: Call, name: str) -> Reply:
    body, index = call.body, call.target
    asked = need(body, "query", dict)
    k, wanted = limits.top_k(asked.get("top_k")), limits.filter_of(asked.get("filter"), negation=False)
    space = call.store.space(index, name)
    dense, sparse = None, None
    if asked.get("inputs"):
        dense, pair = _embedded(call, need(asked["inputs"], "text", str), "query")
        sparse = (pair[0].tolist(), pair[1].tolist()) if pair else None
    elif asked.get("id"):
        record = space.visible.get(asked["id"]) if space else None
        dense = record.dense if record else None
    elif (asked.get("vector") or {}).get("values"):
        dense = limits.dense_values(asked["vector"]["values"], index.dimension, "the query", stored=False)
    else:
        raise bad("a search names inputs, a vector or an id")
    found = [] if space is None else ranked(index, space, wanted, dense=dense, sparse=sparse)
    fields = body.get("fields")
    hits = [
        {
            "_id": id_,
            "_score": score,
            "fields": {key: v for key, v in space.visible[id_].fields.items() if not fields or key in fields},
        }
        for id_, score in found[:k]
        if space is not None
    ]
    usage = {"read_units": 1, "embed_total_tokens": 1}
    if body.get("rerank") and hits:
        hits = _reranked(body["rerank"], asked, hits)
        usage["rerank_units"] = 1
    return Reply({"result": {"hits": hits}, "usage": usage}, headers=searched(call, space, sparse=dense is None))


def _reranked(how: dict[str, Any], asked: dict[str, Any], hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    inference._model(how.get("model"), "rerank")
    question = how.get("query") or (asked.get("inputs") or {}).get("text") or ""
    field = need(how, "rank_fields", list)[0]
    for hit in hits:
        hit["_score"] = inference.relevance(question, str(hit["fields"].get(field, "")))
    return sorted(hits, key=lambda hit: -hit["_score"])[: how.get("top_n") or len(hits)]
