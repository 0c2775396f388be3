"""Finding, checking and creating the Pinecone index that a deployment names, and which API it is written through."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from pipeline.adapters.index_pinecone_documents import Documents
from pipeline.adapters.index_pinecone_records import Layout
from pipeline.adapters.index_pinecone_vectors import Vectors
from pipeline.adapters.pinecone_client import Answer, PineconeAccount, PineconeClient
from pipeline.errors import Conflict, RejectedInput, Unavailable

T = TypeVar("T")

DENSE_FIELD: Final = "lamina_dense"
SPARSE_FIELD: Final = "lamina_sparse"
"""Vector fields of the document indexes that Lamina creates."""
_VALUES: Final = "_values"
_SPARSE_VALUES: Final = "_sparse_values"
"""Those of an index of vectors."""
_METRICS: Final = ("dotproduct", "cosine")
"""Both give the cosine, since every vector is of unit length."""
_POLL_S: Final = 1.0
_POLL_FIRST_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class PineconeSettings:
    """Which index, and how long its service may take."""

    account: PineconeAccount
    index: str
    """1 to 45 lower-case letters, digits and inner hyphens. All its vectors have one dimension."""
    cloud: str = "aws"
    region: str = "us-east-1"
    """Where a new index is made."""
    family: Literal["auto", "documents", "vectors"] = "auto"
    """The API that the index must be written through. `auto` takes what the index is, and makes a new one for documents."""
    fresh_deadline_s: float = 120.0
    """How long a read waits until what this process wrote can be seen."""
    create_deadline_s: float = 600.0
    """How long the first write waits for a new index."""
    updates_per_s: float = 90.0
    """Records stamped a second in a namespace; the service allows 100."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An index that can be used."""

    client: PineconeClient
    host: str
    family: Documents | Vectors

    @property
    def layout(self) -> Layout:
        """Its vector fields."""
        return self.family.layout

    def call(self, what: str, use: Callable[[Any], T], deadline_s: float | None = None) -> Answer[T]:
        """One request to the index; see `PineconeClient.call`."""
        return self.client.call(what, use, part=self.host, deadline_s=deadline_s)

    def there(self, what: str, use: Callable[[Any], T], deadline_s: float | None = None) -> Answer[T] | None:
        """As `call`; None where the namespace isn't there, or not yet."""
        try:
            return self.call(what, use, deadline_s)
        except RejectedInput as error:
            if error.code == "not_found":
                return None
            raise


def find(client: PineconeClient, settings: PineconeSettings) -> Opened | None:
    """The index as it is; None where there is none.

    Raises:
        RejectedInput: code `index_unfit`: an index of that name can't hold Lamina's records.
    """
    model = described(client, settings.index)
    return None if model is None else _usable(client, settings, model)


def create(client: PineconeClient, settings: PineconeSettings, dim: int) -> Opened:
    """Make the index, and wait until it can be used. Somebody else's of the same name is as good."""
    vectors = settings.family == "vectors"
    fields: dict[str, Any] = {
        _VALUES if vectors else DENSE_FIELD: {"type": "dense_vector", "dimension": dim, "metric": "dotproduct"},
        _SPARSE_VALUES if vectors else SPARSE_FIELD: {"type": "sparse_vector"},
    }
    where = {"deployment_type": "managed", "cloud": settings.cloud, "region": settings.region}

    def make(pinecone: Any) -> Any:
        # Without waiting: the client would wait for ever, and without our deadline.
        return pinecone.indexes.create(name=settings.index, schema={"fields": fields}, deployment=where, timeout=-1)

    try:
        model = client.call(f"create index {settings.index}", make).value
    except Conflict:
        model = described(client, settings.index)
    return _usable(client, settings, model)


def check_dimension(settings: PineconeSettings, held: int, given: int) -> None:
    """Refuse vectors that the index can't hold or be asked with."""
    if held != given:
        raise RejectedInput(
            "dimension_mismatch",
            f"Pinecone's index {settings.index} holds vectors of {held} dimensions, got {given}",
            remedy="Embed with the model that the index was made for, or set pinecone_index to the name of a new index.",
        )


def described(client: PineconeClient, index: str) -> Any:
    """An index as the control plane tells it; None where there is none."""
    try:
        return client.call(f"describe index {index}", lambda p: p.indexes.describe(index)).value
    except RejectedInput as error:
        if error.code == "not_found":
            return None
        raise


def until_ready(client: PineconeClient, index: str, model: Any, deadline_s: float) -> Any:
    """The description of an index that can be used.

    Args:
        client: asks.
        index: its name.
        model: what was last told of it; None where it is gone.
        deadline_s: how long to wait.

    Raises:
        Unavailable: codes `index_not_ready` and `index_vanished`.
    """
    until, wait_s = time.monotonic() + deadline_s, _POLL_FIRST_S
    while model is not None and not (model.status.ready and model.host):
        if model.status.state in ("InitializationFailed", "Terminating", "Disabled"):
            raise Unavailable(
                "index_not_ready",
                f"index {index} is in state {model.status.state}",
                remedy="See Pinecone's console; delete the index and run again, or name another.",
            )
        if time.monotonic() + wait_s >= until:
            raise Unavailable("index_not_ready", f"index {index} isn't ready yet", remedy="run again later")
        time.sleep(wait_s)
        wait_s = min(_POLL_S, 2 * wait_s)
        model = described(client, index)
    if model is None:
        raise Unavailable("index_vanished", f"index {index} was deleted meanwhile", remedy="run again")
    return model


def _usable(client: PineconeClient, settings: PineconeSettings, model: Any) -> Opened:
    family = None if model is None else _family(settings, model)
    model = until_ready(client, settings.index, model, settings.create_deadline_s)
    assert family is not None, "what was gone was refused"
    return Opened(client, model.host, family)


def _family(settings: PineconeSettings, model: Any) -> Documents | Vectors:
    fields = {name: type(spec).__name__ for name, spec in model.schema.fields.items()}
    dense = [name for name, kind in fields.items() if kind == "DenseVectorField"]
    sparse = [name for name, kind in fields.items() if kind == "SparseVectorField"]
    is_vectors = set(fields) <= {_VALUES, _SPARSE_VALUES}
    family = "vectors" if is_vectors else "documents"
    problem = ""
    if len(dense) != 1 or len(sparse) != 1:
        problem = f"its schema has {len(dense)} dense and {len(sparse)} sparse fields; one of each is needed"
    elif model.schema.fields[dense[0]].metric not in _METRICS:
        problem = f"its metric is {model.schema.fields[dense[0]].metric}; {' or '.join(_METRICS)} is needed"
    elif settings.family not in ("auto", family):
        problem = f"it is written through the {family} API, not the {settings.family} API that the settings ask for"
    if problem:
        raise RejectedInput(
            "index_unfit",
            f"Pinecone's index {settings.index} can't be used: {problem}",
            remedy="Set pinecone_index to the name of a new index; Lamina makes it.",
        )
    layout = Layout(dense[0], sparse[0], int(model.schema.fields[dense[0]].dimension))
    return Vectors(layout) if is_vectors else Documents(layout)
