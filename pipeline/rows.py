"""Rows: what the ledger says, as frozen values. Written and read through the protocols in `pipeline.ledger`."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.types import OPEN, ContextSlug, LogicalId, Namespace, RecordId, RunId, SourcePath

RUN_ACTIVE = ("running", "sealed", "flipped")
"""States in which a run still owns its context; the last two can only go forward."""


BLOBS = Namespace("blobs")
"""Where tombstones of blobs stand; no index namespace has this name (theirs hold a dot)."""


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One context and its live pointer."""

    slug: ContextSlug
    kind: str
    """`folder`, `s3`: read in place; `staged`: files were copied in with `lamina add`."""
    root: str
    """Absolute folder, encoded like a source path, or `s3://bucket/prefix`; empty for a staged context."""
    created_at: float
    live_version: int = 0
    epoch: int = 0
    """Raised by every pointer move; part of every compare-and-set."""
    highest_version: int = 0
    redispatch_count: int = 0


@dataclass(frozen=True, slots=True)
class RunRow:
    """One execution of a flow over a context."""

    id: RunId
    context: ContextSlug
    kind: str
    """curate, rollback, delete."""
    trigger: str
    state: str
    """running, sealed, flipped; then one of completed, noop, abandoned, retired, failed."""
    force: bool
    created_by: str
    created_at: float
    input: str
    """Canonical JSON of the run's `CurateInput`."""
    manifest: str = ""
    """Canonical JSON of the manifest that the run follows."""
    recipe: str = ""
    """Canonical JSON of the recipe that the run follows."""
    base_version: int = 0
    base_epoch: int = 0
    number: int = 0
    """The version claimed; 0 until there is something to write."""
    generation: int = 0
    fence: int = 0
    owner: str = ""
    lease_until: float = 0.0
    started_at: float = 0.0
    active_at: float = 0.0
    ended_at: float = 0.0
    cancel_requested: bool = False
    output: str = ""
    error: str = ""
    notes: str = ""
    """Canonical JSON of what the inventory saw: sources found, stale, standing failures, skipped."""

    def held(self, now: float, far_s: float) -> bool:
        """Whether its owner's lease holds others off; see `Limits.far_s`."""
        return now < self.lease_until <= now + far_s


@dataclass(frozen=True, slots=True)
class WorkRow:
    """What a run does about one source."""

    path: SourcePath
    batch: int
    change: str
    """new, changed, stale (forced), retry, deleted, carry (restates what is live over what a rolled-back version left)."""
    size: int
    mtime_ns: int
    hash: str = ""
    """Hash of the bytes that were parsed; inventory's until then."""
    status: str = ""
    """ok, failed, empty, skipped; empty until parsed."""
    code: str = ""
    reason: str = ""
    fingerprint: str = ""
    """What the source's chunks are a function of: content, manifest leg, recipe, stage versions."""
    parse_key: str = ""
    chunk_key: str = ""
    chunks: int = 0
    """Chunks kept after screening."""
    screened: str = ""
    """Canonical JSON: screening rule to count."""
    chunks_created: int = 0
    chunks_updated: int = 0
    warnings: str = ""
    """JSON list of what people should know about how it was read; empty for none."""
    artifact_status: str = ""
    """What the artifact leg made of it: ok, errored; empty where the leg didn't run."""
    artifact_reason: str = ""
    artifact_key: str = ""
    """What the source's statements are a function of: content, manifest leg, model, prompts."""
    artifact_notes: str = ""
    job: str = ""
    """Id of the hosted job that parsed it; empty where a parser of this machine did, or nobody had to."""
    """Canonical JSON of `KnowledgeNotes`: what was cut, screened and asked."""


@dataclass(frozen=True, slots=True)
class SourceRow:
    """What one version knows of one source."""

    path: SourcePath
    hash: str
    """Hash of the last good revision, whose chunks are listed; empty when there never was one."""
    seen_hash: str
    """Hash of the bytes last judged; differs from `hash` while the newest revision fails."""
    size: int
    mtime_ns: int
    status: str
    code: str
    reason: str
    fingerprint: str
    chunks: int
    curated_at: float
    added: int
    removed: int = OPEN
    warnings: str = ""
    """JSON list of what people should know about how the last good revision was read; empty for none."""
    artifact_status: str = ""
    """ok; errored: extraction failed, and the statements are those of an older revision or none; empty: leg not run."""
    artifact_reason: str = ""
    artifact_key: str = ""
    """What the listed statements are a function of; empty where there are none."""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One record as the ledger lists it."""

    id: RecordId
    logical_id: LogicalId
    path: SourcePath
    position: int
    content: str
    """Fingerprint of everything the record says: equal content under OPEN means nothing to write."""
    namespace: Namespace
    added: int
    removed: int = OPEN
    copy_of: RecordId | None = None
    """Set on planned additions whose vectors come from another listed record."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of the knowledge tree: a stable path and the blob behind it."""

    path: str
    source: SourcePath
    blob: str
    size: int
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One claimed version number and what it means."""

    number: int
    run: RunId
    generation: int
    manifest: str
    recipe: str
    state: str
    """claimed, sealed, live (was made live at least once), retired, abandoned."""
    readable: bool
    claimed_at: float
    live_at: float
    records: int
    """Records visible at this version, counted in the seal transaction."""


@dataclass(frozen=True, slots=True)
class PinRow:
    """A reader's hold on one version."""

    id: str
    version: int
    until: float
    created_at: float


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One move of the live pointer."""

    epoch: int
    version: int
    run: RunId
    at: float


@dataclass(frozen=True, slots=True)
class StatRow:
    """The cheap state under which a file was last hashed."""

    size: int
    mtime_ns: int
    change_ns: int
    hash: str
    checked_at: float


@dataclass(frozen=True, slots=True)
class StatementRow:
    """One thing that extraction found in one source. Never rewritten: other content is another statement."""

    id: str
    """Fingerprint of path, content and, among equal ones of a source, ordinal."""
    path: SourcePath
    kind: str
    """mention: what it says of a subject; edge: that two of its subjects are related; document: its own artifact;
    row: a row of a table; glossary: a term read word for word."""
    type: str
    """Artifact type; of an edge, edge type."""
    name: str
    """The subject as the source spells it; of an edge, the subject where it starts."""
    seq: int
    """Ordinal within the source."""
    data: str
    """Canonical JSON; its keys depend on the kind and are documented in `artifacts.statements`."""
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class SubjectRow:
    """Statements that are about one thing."""

    id: LogicalId
    type: str
    key: str
    """Stable identifier that the id is made of."""
    name: str
    """Canonical name."""
    documents: int
    """Sources that speak of it."""
    mentions: int
    membership: str
    """Hash of its statements and of the human decisions on them."""
    data: str
    """Canonical JSON: aliases, and the evidence of each merge."""
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class MemberRow:
    """To which subject a statement belongs."""

    id: str
    """The statement's."""
    subject: LogicalId
    path: SourcePath
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """One artifact: the subject's text or row."""

    id: LogicalId
    """The subject's."""
    type: str
    name: str
    scope: str
    format: str
    basis: str
    """Fingerprint of everything that it was made of: membership, configuration, prompt, model."""
    membership: str
    file: str
    """Path of its markdown file; empty for a row of a table."""
    data: str
    """Canonical JSON: sources with spans, aliases, the row, and the file's blob."""
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """One source's support for an edge. The edge is (type, source, target); its sources are its rows."""

    id: str
    """The statement's."""
    type: str
    source: LogicalId
    target: LogicalId
    path: SourcePath
    data: str
    """Canonical JSON: attributes, quote."""
    added: int
    removed: int = OPEN


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What a person decided about merges. Not versioned: it holds until it is taken back."""

    id: str
    kind: str
    """pin: both names are one subject; forbid: they are not; split: the name means something else in some sources."""
    type: str
    left: str
    right: str
    """The other name; of a split, canonical JSON of its sources."""
    at: float
    by: str
    applied: int = 0
    """Version in which it first held; 0 while no run has taken it up."""
    withdrawn: bool = False
    """Taken back; kept until a run has undone it."""


@dataclass(frozen=True, slots=True)
class SpendRow:
    """What a run was billed by one language model."""

    model: str
    tier: str
    calls: int
    prompt: int
    completion: int
    cache_read: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """How far a context's copy for third-party readers has come. See `pipeline.publication`."""

    target: str
    """The dense index of the pair."""
    version: int
    """What the pair shows, whole; 0 for nothing."""
    aim: int = 0
    """The version that is on its way there; 0 for none. Until it has arrived the pair may hold some of it."""
    cursor: str = ""
    """How far it is on its way: `+` and the last id written, then `-` and the last one erased."""
    fields: str = "{}"
    """Canonical JSON: namespace to metadata field to its type."""
    changed_at: float = 0.0
    holder: str = ""
    """Who carries it there; empty for nobody."""
    fence: int = 0
    """Raised for each holder, so that an earlier one's reports are refused."""
    rest_until: float = 0.0
    """End of the holder's lease; without a holder, of the rest after a failure."""
    error: str = ""
    """Why the last attempt ended early."""


@dataclass(frozen=True, slots=True)
class QuarantineRow:
    """Bytes that a pipeline can't take, so that nobody tries again until one of the two changes."""

    id: str
    """Of the bytes, what their name hints at, and the pipeline: see `pipeline.quarantine`."""
    path: SourcePath
    """Where they were first met."""
    hash: str
    pipeline: str
    """What of the pipeline refused them: the parsers, or all that decides about chunks."""
    error: str
    """Fingerprint of the error: the same trouble of other sources has the same one."""
    code: str
    reason: str
    since: float
    spared: int = 0
    """Attempts that were spared since."""
