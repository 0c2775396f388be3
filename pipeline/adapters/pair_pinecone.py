"""Published pair on Pinecone: two indexes with integrated models, `X` and `X-sparse`, the text in `chunk_text`.

Third-party readers ask both by text and join the answers by id. The records API of such indexes embeds by itself, and
cuts what its model can't read; the text is kept whole.
"""

from __future__ import annotations

import fnmatch
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.adapters.index_pinecone_open import described, until_ready
from pipeline.adapters.pinecone_client import PineconeAccount, PineconeClient
from pipeline.errors import Conflict, RejectedInput
from pipeline.fleet_ports import LEGS, Leg, PublishedRecord
from pipeline.published_schema import TEXT
from pipeline.types import ContextSlug, RecordId

ENDINGS: Final[Mapping[Leg, str]] = {"dense": "", "sparse": "-sparse"}
RECORDS_MAX: Final = 96
"""Of one request with text; the service's own limit."""
BYTES_MAX: Final = 1_900_000
"""Of one request, a little under the service's 2 MB."""
IDS_MAX: Final = 100
"""Ids fetched at once: the address holds them."""
LIST_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class PairSettings:
    """Which indexes, with which models."""

    account: PineconeAccount
    index: str
    """Of the dense one; the sparse one's has the ending `-sparse`."""
    contexts: str = "*"
    """Patterns of the contexts that are published there, with commas between."""
    dense_model: str = "llama-text-embed-v2"
    sparse_model: str = "pinecone-sparse-english-v0"
    """Of indexes that have to be made; others keep theirs."""
    cloud: str = "aws"
    region: str = "us-east-1"
    create_deadline_s: float = 600.0


class PineconePair:
    """Port `PublishedPair`. Threads may share one instance."""

    records_per_call: Final = RECORDS_MAX

    def __init__(self, settings: PairSettings) -> None:
        """Nothing is imported or connected yet.

        Raises:
            RejectedInput: address or key can't be used.
        """
        self.name: Final = settings.index
        self._settings = settings
        self._client = PineconeClient(settings.account)
        self._hosts: dict[Leg, str] = {}
        self._lock = threading.Lock()

    def serves(self, context: ContextSlug) -> bool:
        """See the port."""
        patterns = (pattern.strip() for pattern in self._settings.contexts.split(","))
        return any(fnmatch.fnmatchcase(context, pattern) for pattern in patterns if pattern)

    def open(self) -> None:
        """See the port."""
        with self._lock:
            self._hosts = {leg: self._host(leg) for leg in LEGS}

    def write(self, namespace: str, records: Sequence[PublishedRecord]) -> None:
        """See the port."""
        for group in _groups(records):
            for leg in LEGS:
                self._upsert(leg, namespace, group)

    def write_dense(self, namespace: str, record: PublishedRecord) -> None:
        """See the port."""
        self._upsert("dense", namespace, [_wired(record)])

    def delete(self, namespace: str, ids: Sequence[RecordId]) -> None:
        """See the port."""
        for leg in LEGS:
            self._there(
                leg, f"delete {len(ids)} records", lambda index: index.delete(ids=list(ids), namespace=namespace)
            )

    def drop(self, namespace: str) -> None:
        """See the port."""
        for leg in LEGS:
            self._there(
                leg, f"delete namespace {namespace}", lambda index: index.delete(delete_all=True, namespace=namespace)
            )

    def counts(self, leg: Leg) -> Mapping[str, int]:
        """See the port."""
        told = self._call(leg, "describe index stats", lambda index: index.describe_index_stats())
        return {name: int(space.vector_count) for name, space in told.namespaces.items()}

    def page(self, leg: Leg, namespace: str, after: str) -> tuple[tuple[RecordId, ...], str]:
        """See the port."""
        reply = self._there(
            leg,
            f"list namespace {namespace}",
            lambda index: index.list_paginated(namespace=namespace, limit=LIST_PAGE, pagination_token=after or None),
        )
        if reply is None:
            return (), ""
        more = reply.pagination.next if reply.pagination else None
        return tuple(RecordId(row.id) for row in reply.vectors), more or ""

    def held(self, leg: Leg, namespace: str, ids: Sequence[RecordId]) -> frozenset[RecordId]:
        """See the port."""
        found: set[RecordId] = set()
        for at in range(0, len(ids), IDS_MAX):
            found.update(map(RecordId, self._fetch(leg, namespace, ids[at : at + IDS_MAX])))
        return frozenset(found)

    def read(self, namespace: str, record: RecordId) -> str | None:
        """See the port."""
        held = self._fetch("dense", namespace, [record]).get(record)
        text = (held.metadata or {}).get(TEXT) if held is not None else None
        return text if isinstance(text, str) else None

    def close(self) -> None:
        """See the port."""
        self._client.close()

    def _fetch(self, leg: Leg, namespace: str, ids: Sequence[RecordId]) -> Mapping[str, Any]:
        reply = self._there(
            leg, f"fetch {len(ids)} records", lambda index: index.fetch(ids=list(ids), namespace=namespace)
        )
        return {} if reply is None else reply.vectors

    def _upsert(self, leg: Leg, namespace: str, rows: list[dict[str, Any]]) -> None:
        self._call(
            leg,
            f"write {len(rows)} records to {namespace}",
            lambda index: index.upsert_records(namespace=namespace, records=rows),
        )

    def _call(self, leg: Leg, what: str, use: Any) -> Any:
        if leg not in self._hosts:
            self.open()
        return self._client.call(f"{self.name}{ENDINGS[leg]}: {what}", use, part=self._hosts[leg]).value

    def _there(self, leg: Leg, what: str, use: Any) -> Any:
        """As `_call`; None where the namespace isn't there, or not yet."""
        try:
            return self._call(leg, what, use)
        except RejectedInput as error:
            if error.code == "not_found":
                return None
            raise

    def _host(self, leg: Leg) -> str:
        """Where the index answers; it is made where there is none."""
        name, chosen = self._settings.index + ENDINGS[leg], self._settings
        model = described(self._client, name)
        if model is None:
            embed = {
                "model": chosen.dense_model if leg == "dense" else chosen.sparse_model,
                "field_map": {"text": TEXT},
            }

            def make(pinecone: Any) -> Any:
                # Without waiting: the client would wait for ever, and without our deadline.
                return pinecone.indexes.create_for_model(
                    name=name, cloud=chosen.cloud, region=chosen.region, embed=embed, timeout=-1
                )

            try:
                model = self._client.call(f"create index {name}", make).value
            except Conflict:
                model = described(self._client, name)
        model = until_ready(self._client, name, model, chosen.create_deadline_s)
        self._check(name, leg, model)
        return str(model.host)

    def _check(self, name: str, leg: Leg, model: Any) -> None:
        found = {field: type(spec).__name__ for field, spec in model.schema.fields.items()}
        spec = model.schema.fields.get(TEXT)
        problem = ""
        if found.get(TEXT) != "SemanticTextField":
            problem = f"it doesn't embed the field {TEXT} itself"
        elif ("sparse" in str(spec.model)) != (leg == "sparse"):
            problem = f"its model {spec.model} makes no {leg} vectors"
        if problem:
            raise RejectedInput(
                "index_unfit",
                f"Pinecone's index {name} can't be published to: {problem}",
                remedy="set published_index to the name of a new pair; Lamina makes it",
            )


def _wired(record: PublishedRecord) -> dict[str, Any]:
    return {**record.fields, "_id": record.id, TEXT: record.text}


def _groups(records: Sequence[PublishedRecord]) -> Iterator[list[dict[str, Any]]]:
    """Records in order, in groups that one request takes."""
    group: list[dict[str, Any]] = []
    size = 0
    for record in records:
        row = _wired(record)
        width = len(json.dumps(row)) + 1  # escaped, as the client may send it
        if group and (len(group) == RECORDS_MAX or size + width > BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(row)
        size += width
    if group:
        yield group
