"""Ports: the effects that a deployment chooses. Protocols only; adapters live in `pipeline.adapters`.

Each docstring says whether a call may be repeated, what is atomic, and the errors owed. An adapter turns every vendor
exception into one of the four in `pipeline.errors`. The ledger's protocols stand in `pipeline.ledger`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.archives import ArchiveReader
from pipeline.canaries import Canary
from pipeline.file_ports import KnowledgeView, ObjectStore, SourceTree
from pipeline.fleet_ports import PublishedPair
from pipeline.ledger import Ledger
from pipeline.limits import Limits
from pipeline.models import CatalogModel, ModelReply, ModelRequest, Price, Tier
from pipeline.queries import GraphInfo, Search, SearchTrace
from pipeline.rows import ContextRow
from pipeline.tracing import Tracer, Untraced
from pipeline.types import (
    NO_ORIGINS,
    ContextSlug,
    Embedding,
    Hit,
    ModelIdentity,
    Namespace,
    Origins,
    ParsedDocument,
    RecordBatch,
    RecordId,
    Side,
    SourcePath,
    StoredRecords,
)


class Clock(Protocol):
    """The current time. Virtual in tests."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; returns at once on a virtual clock."""
        ...


class Parser(Protocol):
    """Bytes to `ParsedDocument`. May be repeated: the same bytes give the same document."""

    @property
    def identity(self) -> str:
        """Name and version of the parser set; part of the recipe."""
        ...

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        """Parse one source.

        Args:
            data: the source's bytes, whole.
            name: file name, a hint for the format; content decides.

        Raises:
            RejectedInput: the bytes can't be read as any supported format, or hit a limit. Code `unsupported` and
                `empty_file` mean skipped; `no_text` means a scan without text; every other code means failed.
            Unavailable: the parsing process could not be started.
        """
        ...

    def last_job(self) -> str:
        """Id of the hosted job behind this thread's last call of `parse`; empty where nothing was sent anywhere."""
        ...

    def close(self) -> None:
        """End child processes. May be repeated."""
        ...


class DenseEmbedder(Protocol):
    """Texts to dense vectors. May be repeated; the same text gives the same vector within 1e-5, whatever its batch."""

    @property
    def identity(self) -> ModelIdentity:
        """Which model this is; known without loading it."""
        ...

    @property
    def concurrent(self) -> bool:
        """Whether several threads embed faster than one: true where a call leaves the interpreter free."""
        ...

    @property
    def texts_per_call(self) -> int:
        """Texts that take about a second: what a caller gives at a time, to stay stoppable and to show progress."""
        ...

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:
        """Embed in order. Texts longer than the model's window are covered whole, by pooled windows.

        Args:
            texts: in whatever number.
            side: what they are; models that embed both alike take no notice.

        Raises:
            Unavailable: the provider did not answer.
            RejectedInput: the provider refused the input for good.
        """
        ...


class Reranker(Protocol):
    """Reads a question and passages together and says which answer it. May be repeated; depends on nothing else."""

    @property
    def identity(self) -> ModelIdentity:
        """Which model this is; known without loading it."""
        ...

    def rerank(self, question: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Relevance of each text, in order, from 0 to 1; each as if it were alone.

        Raises:
            Unavailable: the model isn't installed, or the provider did not answer.
        """
        ...


class LanguageModel(Protocol):
    """Answers tasks with JSON. Whether the same request gets the same answer depends on the model."""

    @property
    def deterministic(self) -> bool:
        """Whether the same request always gets the same answer."""
        ...

    def model(self, tier: Tier) -> str:
        """The id of the model that a tier resolves to; known without a call, part of every memo key."""
        ...

    def catalog(self) -> tuple[CatalogModel, ...]:
        """Every model that this deployment knows, selectable or not."""
        ...

    def answer(self, request: ModelRequest) -> ModelReply:
        """One call, without retries. May be repeated; a hosted model bills each.

        Raises:
            Unavailable: no answer within the deadline, or the provider asks to wait (`retry_after_ms`); codes `quota`
                and `unauthorized` where waiting won't help.
            RejectedInput: the provider refuses this request for good; code `too_long` where it is the input's length.
        """
        ...


class VectorIndex(Protocol):
    """Dense and sparse vectors with metadata under write-once ids, in namespaces.

    Every method may be repeated. Each call is atomic by itself and durable when it returns.
    """

    @property
    def creates_only(self) -> bool:
        """Whether an id that exists keeps what it has; False where a late write of the same id takes its stamp back."""
        ...

    def settle(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Return once searches show all that this process wrote, and what anybody wrote to `ids`.

        Args:
            namespace: where.
            ids: records whose writes, each of them accepted, may be other processes'.

        Raises:
            Unavailable: code `not_fresh`: not within the deadline.
        """
        ...

    def upsert(self, batch: RecordBatch) -> None:
        """Create records; an id that exists keeps what it has. `removed` starts as OPEN."""
        ...

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        """Set `removed` on the ids that exist; the others are passed over."""
        ...

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        """Erase; ids that don't exist are passed over."""
        ...

    def fetch(self, namespace: Namespace, ids: Sequence[RecordId], *, vectors: bool, metadata: bool) -> StoredRecords:
        """What is stored for `ids`, in their order, without those that don't exist."""
        ...

    def search(self, namespace: Namespace, request: Search) -> tuple[Hit, ...]:
        """The k best records, best first, ties by id. Fewer only where fewer match; sparse hits share a term.

        A graph finds nearly all of the nearest, and of more than `k` equal ones any; scores are exact all the same.

        A namespace that was never written is empty.
        """
        ...

    def explain(self, namespace: Namespace, request: Search) -> tuple[tuple[Hit, ...], SearchTrace]:
        """As `search`, with how it was done."""
        ...

    def optimize(self, namespace: Namespace, *, report: Callable[[int, int], None], stop: Callable[[], bool]) -> int:
        """Build or renew the structures that make large namespaces fast; searches are right without them.

        May be killed at any point, and be called by several processes: one works, the others return at once.

        Args:
            namespace: what to look at.
            report: told (records done, records to do) from time to time.
            stop: asked often; true ends the work without a trace.

        Returns:
            records that went into new structures; 0 where nothing was due.
        """
        ...

    def graphs(self, namespace: Namespace) -> tuple[GraphInfo, ...]:
        """The graphs there are, the largest first."""
        ...

    def scan(self, namespace: Namespace) -> Iterator[tuple[RecordId, int, int]]:
        """Every (id, added, removed), in id order, with memory bounded."""
        ...

    def drop(self, namespace: Namespace) -> None:
        """Erase a whole namespace."""
        ...

    def shrink(self, *, erase: bool = False) -> int:
        """Give back room on disk, how many bytes; `erase`: also what deleted records left. As slow as writing it anew."""
        ...

    def close(self) -> None:
        """Release files and connections. May be repeated."""
        ...


class Memo(Protocol):
    """Results of pure stages under their fingerprints. A cache: losing it costs work, never correctness."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there."""

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        """Store, and note what of it comes from where; a key that exists keeps its value. Atomic for the whole mapping.

        `joint`: each comes from all of its origins together, not from any of them alone.
        """

    def forget(self, origins: Collection[str]) -> int:
        """Erase, beyond recovery, what comes from these and nowhere else, or jointly from one of them. Values erased."""

    def close(self) -> None:
        """Release the connection. May be repeated."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Every effect that a flow may have. Built in `pipeline.bootstrap`, nowhere else."""

    clock: Clock
    ledger: Ledger
    memo: Memo
    parser: Parser
    embedders: Mapping[str, DenseEmbedder]
    """Short name to embedder, the deployment's default first."""
    index: Callable[[ContextSlug], VectorIndex]
    objects: Callable[[ContextSlug], ObjectStore]
    sources: Callable[[ContextRow], SourceTree]
    view: Callable[[ContextSlug], KnowledgeView]
    limits: Limits
    project_id: str = "local"
    owner: str = "local"
    """Who holds leases: host, process and a counter; unique for each process."""
    user: str = "local"
    """The principal that `created_by` names."""
    is_gone: Callable[[str], bool] = lambda _owner: False
    """Whether an owner's process is known to have ended, so that nobody needs to wait for its lease. When in doubt: no."""
    processors: int = 1
    """Threads worth having where work leaves the interpreter free."""
    close_indexes: Callable[[], None] = lambda: None
    """Release what `index` has opened."""
    language: LanguageModel | None = None
    """Extracts and reduces artifacts; None where the deployment serves none."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Tier to what its tokens cost; a tier without one costs nothing."""
    reranker: Reranker | None = None
    """Puts hits in order where a question asks for it; None where the deployment serves none."""
    tracer: Tracer = field(default_factory=Untraced)
    canaries: Callable[[ContextSlug], tuple[Canary, ...]] = lambda _slug: ()
    """Questions that a version must answer before it may go live."""
    pair: PublishedPair | None = None
    """Where copies of live versions are published; None where they aren't."""
    recorded: Callable[[SourcePath], str] = lambda _path: ""
    """Hash that stands for a source's bytes where a past run is replayed; empty: the bytes are read and hashed."""
    archives: ArchiveReader | None = None
    """Opens archives for imports; None where the deployment reads none."""
    unread_names: frozenset[bytes] = frozenset()
    """Names of files and folders that a source tree never reads."""
