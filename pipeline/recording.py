"""What a run was made of, kept so that it can be replayed: which sources with which bytes, and every recorded answer.

Nothing is copied for it. The inventory of a version stands in the ledger's source rows, which outlive the version's records
for `keep_runs` versions; parsed texts, vectors and a language model's answers stand in the memo under content keys. With
`retain_sources` the bytes of sources are kept beside them, content-keyed as well. The adapters here put these recordings in
the place of the world: no parser, provider or folder is asked while they have the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice

from pipeline.errors import Conflict, RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import fingerprint
from pipeline.ledger import Session
from pipeline.models import CatalogModel, ModelReply, ModelRequest, Tier
from pipeline.parse.languages import hint
from pipeline.ports import DenseEmbedder, LanguageModel, Memo, Parser, Ports
from pipeline.rows import SourceRow
from pipeline.types import (
    NO_ORIGINS,
    OPEN,
    ContextSlug,
    Embedding,
    ModelIdentity,
    Origins,
    ParsedDocument,
    Side,
    SourcePath,
)

PAGE_ROWS = 500
PAGE_KEYS = 1000
RETAINED = "retained/"
"""Where the bytes of sources are kept, below the context's own keys."""
PARSE, DENSE, ANSWER = "parse", "dense", "answer"
"""Kinds of memo entries that are recordings. Everything else is quickly done anew, and is."""


# ---- what is kept, and for how long


def first_recorded(session: Session, slug: ContextSlug, keep_runs: int) -> int:
    """The lowest version whose inventory is kept: of the `keep_runs` latest that went live."""
    live = [version.number for version in session.versions.list(slug) if version.live_at > 0]
    if keep_runs < 1:
        return OPEN
    return live[:keep_runs][-1] if live else 0


def origin(slug: ContextSlug, path: str) -> str:
    """What a memo entry comes from, as `Memo.forget` knows it: a source, with all that ever stood under its path."""
    return f"{slug}/{path}"


def parse_key(path: SourcePath, digest: str, parser: str) -> str:
    """Memo key of a parsed document: the bytes, what of the name hints at the format, and the parsers."""
    return f"{PARSE}:{fingerprint(PARSE, digest, hint(path.rpartition('/')[2]), parser)}"


def retained_key(digest: str) -> str:
    """Object key of a source's bytes."""
    return f"{RETAINED}{digest}"


def clear_retained(ports: Ports, slug: ContextSlug) -> int:
    """Erase kept bytes that no recorded version is made of. How many. May be repeated."""
    erased, keys = 0, ports.objects(slug).list(RETAINED)
    while page := list(islice(keys, PAGE_KEYS)):
        with ports.ledger.read() as session:
            named = session.sources.named(slug, [key.removeprefix(RETAINED) for key in page])
            active = session.runs.active(slug)
        if active is not None and active.state == "running":
            return erased  # its sources aren't listed yet
        strays = [key for key in page if key.removeprefix(RETAINED) not in named]
        ports.objects(slug).delete_many(strays)
        erased += len(strays)
    return erased


def inventory(
    ports: Ports, slug: ContextSlug, version: int, wanted: Callable[[SourceRow], bool]
) -> Iterator[Sequence[SourceRow]]:
    """Sources of which the version holds a good revision, by path, page by page."""
    after = ""
    while True:
        with ports.ledger.read() as session:
            page = session.sources.page(slug, version, after, PAGE_ROWS)
        found = [row for row in page if row.hash and row.chunks and wanted(row)]
        if found:
            yield found
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def matches(path: str, glob: str) -> bool:
    """Whether a source's path is meant: a glob whose `*` crosses folders, or a folder."""
    return not glob or fnmatchcase(path, glob) or path.startswith(glob.rstrip("/") + "/")


# ---- recordings in the place of the world


@dataclass(frozen=True, slots=True)
class RecordedTree:
    """Port `SourceTree`: the sources of a version as they were. Bytes only where they were retained."""

    ports: Ports
    slug: ContextSlug
    version: int
    wanted: Callable[[SourceRow], bool]
    bytes_too: bool
    """Whether the bytes are read; else their recorded hash stands for them."""

    def exists(self) -> bool:
        """Always: it was there then."""
        return True

    def walk(self) -> Iterator[SourceStat]:
        """Every source, by path."""
        for page in inventory(self.ports, self.slug, self.version, self.wanted):
            for row in page:
                yield SourceStat(row.path, row.size, row.mtime_ns, 0)

    def read(self, path: SourcePath, limit_bytes: int) -> tuple[bytes, SourceStat]:  # noqa: ARG002  # they were read once
        """The bytes, empty where only their hash is asked for, and the state that held."""
        row = self._row(path)
        data = self.ports.objects(self.slug).get(retained_key(row.hash)) if self.bytes_too else b""
        return data, SourceStat(path, row.size, row.mtime_ns, 0)

    def recorded(self, path: SourcePath) -> str:
        """Hash of the source's bytes; see `Ports.recorded`."""
        return self._row(path).hash

    def _row(self, path: SourcePath) -> SourceRow:
        with self.ports.ledger.read() as session:
            found = session.sources.at_for(self.slug, self.version, [path])
        if not found or not self.wanted(found[0]):
            raise RejectedInput("vanished", f"version {self.version} of {self.slug} is not made of {path}")
        return found[0]


@dataclass(frozen=True, slots=True)
class RecordedMemo:
    """Port `Memo` of a replay: recordings of some kinds are read; what is made stays in the scratch memo."""

    recorded: Memo
    scratch: Memo
    kinds: frozenset[str]
    """Kinds that are taken from the recordings; the others are made anew."""
    kept: frozenset[str]
    """Kinds that are stored among the recordings too: what somebody was paid for."""

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Recorded values of the kinds that are taken, and what the replay has made itself."""
        found = self.scratch.get_many(keys)
        asked = [key for key in keys if key not in found and _kind(key) in self.kinds]
        return found | (self.recorded.get_many(asked) if asked else {})

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        """Store in the scratch memo; what was paid for also among the recordings."""
        self.scratch.put_many(items)
        bought = {key: value for key, value in items.items() if _kind(key) in self.kept}
        if bought:
            self.recorded.put_many(bought, {key: origins[key] for key in bought if key in origins}, joint=joint)

    def forget(self, origins: Collection[str]) -> int:
        """Nothing: a replay deletes no source."""
        assert not origins, "a replay deletes no source"
        return 0

    def close(self) -> None:
        """Nothing is open that isn't its owner's."""


def _kind(key: str) -> str:
    return key.partition(":")[0] if ":" in key else ""


class RecordedParser:
    """Port `Parser` that refuses to parse unless it may."""

    def __init__(self, identity: str, inner: Parser | None) -> None:
        """`inner` parses what isn't recorded; None: nobody does."""
        self.identity = identity
        self._inner = inner

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        """See the port."""
        if self._inner is None:
            raise _missing(f"the parsed text of {name}", "add --from parse, where retain_sources was on for the run")
        return self._inner.parse(data, name)

    def last_job(self) -> str:
        """See the port."""
        return self._inner.last_job() if self._inner is not None else ""

    def close(self) -> None:
        """Nothing is open that isn't its owner's."""


class RecordedEmbedder:
    """Port `DenseEmbedder` that counts, and refuses to embed unless it may."""

    concurrent = False
    texts_per_call = 64

    def __init__(self, identity: ModelIdentity, inner: DenseEmbedder | None) -> None:
        """`inner` embeds what isn't recorded; None: nobody does."""
        self.identity = identity
        self.texts = 0
        self._inner = inner

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:
        """See the port."""
        if self._inner is None:
            example = texts[0][:60].replace("\n", " ")
            raise _missing(f"the {self.identity.name} vector of {len(texts)} texts, such as “{example}”")
        self.texts += len(texts)
        return self._inner.embed(texts, side=side)


class RecordedModel:
    """Port `LanguageModel` that counts, and refuses to ask a provider unless it may."""

    def __init__(self, inner: LanguageModel, *, live: bool) -> None:
        """`live`: providers may be asked what isn't recorded. A deterministic model costs nothing and is always asked."""
        self._inner = inner
        self._live = live
        self.calls = 0

    @property
    def deterministic(self) -> bool:
        """See the port."""
        return self._inner.deterministic

    def model(self, tier: Tier) -> str:
        """See the port."""
        return self._inner.model(tier)

    def catalog(self) -> tuple[CatalogModel, ...]:
        """See the port."""
        return self._inner.catalog()

    def answer(self, request: ModelRequest) -> ModelReply:
        """See the port."""
        if not (self._inner.deterministic or self._live):
            raise _missing(f"an answer of {self._inner.model(request.tier)} to {type(request.task).__name__}")
        self.calls += not self._inner.deterministic
        return self._inner.answer(request)


def _missing(what: str, remedy: str = "add --live to ask for what isn't recorded") -> Conflict:
    """A conflict: no retry helps, and it is no source's fault."""
    return Conflict("not_recorded", f"{what} is not among the recordings", remedy=remedy)
