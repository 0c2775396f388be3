"""The control plane: indexes, and namespaces inside them."""

from __future__ import annotations

import re
import time
from typing import Any

from . import inference
from .limits import DIMENSION, bad, need, page_limit
from .store import Index, Namespace, Refused, page
from .wire import Call, Reply

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,43}[a-z0-9])?")
_DEPLOYMENT = {"deployment_type": "managed", "cloud": "aws", "region": "us-east-1"}


def shown(call: Call, index: Index) -> dict[str, Any]:
    """An index as describe gives it."""
    ready = time.monotonic() - index.created >= call.store.behaviour.ready_after_s
    return {
        "name": index.name,
        "host": f"{call.host}/index/{index.name}" if ready else None,
        "status": {"ready": ready, "state": "Ready" if ready else "Initializing"},
        "schema": {"fields": index.fields},
        "deployment": index.deployment,
        "deletion_protection": "disabled",
        "read_capacity": {"mode": "OnDemand", "status": {"state": "Ready"}},
        "tags": index.tags,
    }


def _new_name(call: Call, value: Any) -> str:
    name = value or f"index-{len(call.store.indexes) + 1}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise bad("an index name is 1 to 45 lower-case letters, digits and inner hyphens")
    if name in call.store.indexes:
        raise Refused(409, "ALREADY_EXISTS", f"Resource {name} already exists")
    return name


def create(call: Call) -> Reply:
    body = call.body
    name, fields = _new_name(call, body.get("name")), need(need(body, "schema", dict), "fields", dict)
    kept = {field: _field(field, spec) for field, spec in fields.items()}
    kinds = [spec["type"] for spec in kept.values()]
    if not kinds or kinds.count("dense_vector") > 1 or kinds.count("sparse_vector") > 1:
        raise bad("a schema has at least one field, and at most one of each vector type")
    if any(field.startswith("_") for field in kept) and not set(kept) <= {"_values", "_sparse_values"}:
        raise bad("names of fields don't start with an underscore")
    index = Index(name, kept, {**_DEPLOYMENT, **(body.get("deployment") or {})}, time.monotonic(), body.get("tags"))
    call.store.indexes[name] = index
    return Reply(shown(call, index), 201)


def _field(name: str, spec: Any) -> dict[str, Any]:
    kind = need(spec, "type", str)
    if not name or name.startswith("$") or len(name.encode()) > 64:
        raise bad(f"{name!r} can't be the name of a field")
    if kind == "dense_vector":
        dimension, metric = need(spec, "dimension", int), str(spec.get("metric", "cosine")).lower()
        if not 1 <= dimension <= DIMENSION or metric not in ("cosine", "dotproduct", "euclidean"):
            raise bad(f"{name}: the dimension is 1 to {DIMENSION}, the metric cosine, dotproduct or euclidean")
        return {"type": kind, "dimension": dimension, "metric": metric}
    if kind == "sparse_vector":
        return {"type": kind}
    if kind == "string" and spec.get("full_text_search") is not None:
        return {"type": kind, "full_text_search": {"language": "en"}}
    raise bad(f"{name}: the emulator knows no field of type {kind!r} with these options")


def create_for_model(call: Call) -> Reply:
    body = call.body
    name, embed = _new_name(call, body.get("name")), need(body, "embed", dict)
    model = inference._model(embed.get("model"), "embed")
    field = need(need(embed, "field_map", dict), "text", str)
    spec = {"type": "semantic_text", "model": embed["model"]}
    if model.vector_type == "dense":
        spec |= {"metric": embed.get("metric") or "cosine", "dimension": embed.get("dimension") or model.dimension}
    else:
        spec |= {"metric": "dotproduct"}
    where = {"deployment_type": "managed", "cloud": need(body, "cloud", str), "region": need(body, "region", str)}
    index = Index(name, {field: spec}, where, time.monotonic(), body.get("tags"))
    call.store.indexes[name] = index
    return Reply(shown(call, index), 201)


def indexes(call: Call) -> Reply:
    """/indexes and /indexes/{name}."""
    if len(call.parts) == 1:
        if call.method == "POST":
            return create(call)
        return Reply({"indexes": [shown(call, index) for index in call.store.indexes.values()]})
    if call.parts[1] == "create-for-model":
        return create_for_model(call)
    index = call.store.index(call.parts[1])
    if call.method == "DELETE":
        del call.store.indexes[index.name]
        return Reply({}, 202)
    if call.method == "PATCH":
        index.tags = {**(index.tags or {}), **(call.body.get("tags") or {})}
    return Reply(shown(call, index))


def namespaces(call: Call) -> Reply:
    """/namespaces and /namespaces/{name}."""
    index, store = call.target, call.store

    def described(name: str, space: Namespace) -> dict[str, Any]:
        return {"name": name, "record_count": str(len(space.visible)), "indexed_fields": {"fields": []}}

    if len(call.parts) == 1 and call.method == "POST":
        name = need(call.body, "name", str)
        if store.space(index, name) is not None:
            raise Refused(409, "ALREADY_EXISTS", f"Namespace {name} already exists")
        store.write(index, name, "create_namespace", {})
        made = store.space(index, name, make=True)
        assert made is not None
        return Reply(described(name, made), 201)
    if len(call.parts) == 1:
        spaces = {name: space for name in index.namespaces if (space := store.space(index, name)) is not None}
        fitting = [name for name in spaces if name.startswith(call.one("prefix") or "")]
        found, more = page(fitting, call.one("paginationToken") or "", page_limit(call.one("limit")))
        reply: dict[str, Any] = {"namespaces": [described(name, spaces[name]) for name in found]}
        reply["total_count"] = len(fitting)
        return Reply(reply if more is None else {**reply, "pagination": {"next": more}})
    name = call.parts[1]
    if call.method == "DELETE":
        store.drop(index, name)
        return Reply({}, 202)
    space = store.space(index, name)
    if space is None:
        raise Refused(404, "NOT_FOUND", f"Namespace {name} not found")
    return Reply(described(name, space))
