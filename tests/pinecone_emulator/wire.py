"""A request and a reply between the socket and the endpoints."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from .limits import bad
from .store import Index, Namespace, Store

DEFAULT = "__default__"


@dataclass(frozen=True)
class Call:
    store: Store
    method: str
    parts: tuple[str, ...]
    """The path's parts, percent escapes resolved."""
    query: dict[str, list[str]]
    raw: bytes
    index: Index | None = None
    """The index that the data API was asked for."""
    host: str = ""
    """Where this server is reached."""

    @property
    def body(self) -> Any:
        try:
            return json.loads(self.raw or b"{}", parse_constant=_no_constant)
        except ValueError as error:
            raise bad(f"the body isn't JSON: {error}") from error

    def one(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return self.query.get(name, [None])[0]

    @property
    def target(self) -> Index:
        assert self.index is not None
        return self.index


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@dataclass(frozen=True)
class Reply:
    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def written(call: Call, lsn: int) -> dict[str, str]:
    """The headers of a write's reply."""
    return {"x-pinecone-request-lsn": str(lsn)} if call.store.behaviour.lsn else {}


def searched(call: Call, space: Namespace | None, *, sparse: bool) -> dict[str, str]:
    """The headers of a search's reply."""
    behaviour = call.store.behaviour
    if space is None or not behaviour.lsn or (sparse and not behaviour.sparse_lsn):
        return {}
    return {"x-pinecone-max-indexed-lsn": str(call.store.indexed_lsn(space))}
