"""inventory: what the tree holds, what of it moved, and what this run will do about each source.

Steps: walk and hash, diff against the live version, claim a number. A run that finds nothing to do ends here as a no-op
and claims none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline import contract, publish, quarantine
from pipeline.artifacts import leg
from pipeline.errors import RejectedInput
from pipeline.file_ports import SourceStat
from pipeline.fingerprint import canonical_json, content_hash, fingerprint
from pipeline.inventory import decide, merge_by_path, trusted
from pipeline.ledger import Session
from pipeline.recipe import recipe_from_json
from pipeline.rows import SourceRow, StatRow, VersionRow, WorkRow
from pipeline.stages.job import Job, Outcome, pipeline_fingerprint
from pipeline.types import SourcePath

PAGE_ROWS = 1000
"""Ledger rows read or written at a time: what bounds this stage's memory."""

FIRST_STAGE = "parse"


def inventory(job: Job) -> Outcome:
    """Walk the tree, write the plan by source, claim the version number.

    Raises:
        RejectedInput: code `empty_root`: the tree is empty while sources are live, and `allow_empty` wasn't given.
    """
    with job.ports.ledger.transaction("inventory.begin", job.slug) as session:
        job.hold(session)
        session.work.clear(job.run.id)
    plan = _Plan(job)
    if options(job).get("buried_only"):
        plan.drop_buried()
    else:
        buried = _buried(job)
        unwanted = next(buried, None)
        for path, there, live in merge_by_path(_walk(job), _live(job)):
            while unwanted is not None and unwanted[0] < path:
                unwanted = next(buried, None)
            digest = unwanted[1] if unwanted is not None and unwanted[0] == path else ""
            plan.judge(SourcePath(path), there, live, digest)
        _refuse_empty(job, plan)
    plan.carry()
    plan.flush()
    if not plan.batches:
        return Outcome(lambda session: _noop(job, session, plan))
    return Outcome(lambda session: _claim(job, session, plan))


@dataclass(slots=True)
class _Plan:
    """Rows on their way to the ledger, and the counts that the end of the stage needs."""

    job: Job
    fingerprint: str = ""
    artifacts: str | None = None
    knowledge: bool = False
    """Whether the run passes the stages of the artifact leg: it runs, or an earlier run has left statements."""
    pending: bool = False
    """Whether subjects are to be looked at though no source moved: somebody has decided about merges since the last run,
    or that run left the corpus pass out."""
    rows: list[WorkRow] = field(default_factory=list)
    stats: dict[SourcePath, StatRow] = field(default_factory=dict)
    gone: list[SourcePath] = field(default_factory=list)
    batches: dict[int, int] = field(default_factory=dict)
    in_batch: int = 0
    found: int = 0
    live: int = 0
    stale: int = 0
    standing: int = 0
    """Sources that failed before, are unchanged, and fail on."""
    skipped: int = 0
    kept_out: int = 0
    """Files whose bytes somebody has deleted from the context."""
    revived: list[SourcePath] = field(default_factory=list)
    """Deleted ones that hold other bytes by now."""

    def __post_init__(self) -> None:
        job = self.job
        self.fingerprint = pipeline_fingerprint(job.manifest, job.recipe)
        if leg.runs(job.manifest, job.run.input):
            model = leg.model_of(job.ports, job.manifest, job.run.input)
            self.artifacts = leg.leg_fingerprint(job.manifest, model)
        with job.ports.ledger.read() as session:
            self.knowledge = leg.wanted(job.manifest) or session.knowledge.holds_any(job.slug)
            know, wanted = session.knowledge, leg.reduces(job.run.input) and leg.runs(job.manifest, job.run.input)
            decided = any(d.withdrawn or not d.applied for d in know.decisions(job.slug))
            left = know.unreduced(job.slug, job.run.id, "", 1) or know.orphans(job.slug, job.run.id, "", 1)
            self.pending = self.knowledge and wanted and (decided or bool(left))

    def judge(
        self,
        path: SourcePath,
        there: tuple[SourceStat, StatRow | None] | None,
        live: SourceRow | None,
        unwanted: str = "",
    ) -> None:
        """Decide about one path and queue what follows.

        Args:
            path: of the source.
            there: the file, with what is known of it.
            live: what the live version shows of it.
            unwanted: hash of the bytes that somebody has deleted from the context; empty for none.
        """
        self.live += live is not None
        if there is None:
            self._drop(path, live)
            return
        self.found += 1
        stat, known = there
        seen = ""
        if live is not None or unwanted:
            seen = known.hash if known and trusted(stat, known) and not self._rehash else self._hash(stat)
        if unwanted and seen == unwanted:
            self.kept_out += 1
            self._drop(path, live)
            return
        if unwanted:
            self.revived.append(path)
        held = live is None or live.status != "failed" or self._in_quarantine(live)
        decision = decide(live, seen, self.fingerprint, force=self.job.run.force, artifacts=self.artifacts, held=held)
        self.stale += decision.stale
        if decision.change != "unchanged":
            self._add(WorkRow(path, 0, decision.change, stat.size, stat.mtime_ns, hash=seen))
        elif live is not None:
            self.standing += live.status in ("failed", "empty") or live.artifact_status == "errored"
            self.skipped += live.status == "skipped"

    def _in_quarantine(self, live: SourceRow) -> bool:
        job = self.job
        ids = [quarantine.entry_id(live.seen_hash, live.path, p) for p in (job.recipe.parser, self.fingerprint)]
        with job.ports.ledger.read() as session:
            return bool(session.quarantine.held(job.slug, ids))

    def _drop(self, path: SourcePath, live: SourceRow | None) -> None:
        if live is not None:
            self._add(WorkRow(path, 0, "deleted", 0, 0))
            self.gone.append(path)

    def drop_buried(self) -> None:
        """Plan the removal of what was deleted from the context, and look at nothing else."""
        job = self.job
        dropped: set[SourcePath] = set()
        after = ""
        while True:
            with job.ports.ledger.read() as session:
                page = session.sources.buried(job.slug, after, PAGE_ROWS)
                rows = session.sources.at_for(job.slug, job.run.base_version, [path for path, _ in page])
            for row in sorted(rows, key=lambda row: row.path):
                self._drop(row.path, row)
                dropped.add(row.path)
            if len(page) < PAGE_ROWS:
                break
            after = page[-1][0]
        after = ""
        while True:
            with job.ports.ledger.read() as session:
                troubled = session.sources.troubled(job.slug, job.run.base_version, after, PAGE_ROWS)
            left = [row for row in troubled if row.path not in dropped]
            self.standing += sum(row.status in ("failed", "empty") or row.artifact_status == "errored" for row in left)
            self.skipped += sum(row.status == "skipped" for row in left)
            if len(troubled) < PAGE_ROWS:
                return
            after = troubled[-1].path

    @property
    def _rehash(self) -> bool:
        return bool(options(self.job)["rehash"])

    def _hash(self, stat: SourceStat) -> str:
        """Hash of the bytes there now, remembered with the state they were read under."""
        try:
            data, read = self.job.ports.sources(self.job.context).read(stat.path, self.job.ports.limits.source_bytes)
        except RejectedInput as error:
            return unread_hash(stat, error.code)
        digest = self.job.ports.recorded(stat.path) or content_hash(data)
        self.stats[stat.path] = StatRow(read.size, read.mtime_ns, read.change_ns, digest, self.job.ports.clock.now())
        if len(self.stats) >= PAGE_ROWS:
            self.flush()
        return digest

    def _add(self, row: WorkRow) -> None:
        limits = self.job.ports.limits
        batch = max(self.batches, default=0)
        size = self.batches.get(batch, 0)
        if (
            not self.batches
            or self.in_batch >= batch_sources(self.job)
            or (size and size + row.size > limits.batch_bytes)
        ):
            batch, size, self.in_batch = batch + 1, 0, 0
        self.batches[batch] = size + row.size
        self.in_batch += 1
        self.rows.append(_with_batch(row, batch))
        if len(self.rows) >= PAGE_ROWS:
            self.flush()

    def carry(self) -> None:
        """Restate what is live over what rolled-back versions left open, wherever this run doesn't decide anew.

        Artifacts are left out: the reduce stage decides about every one that differs.
        """
        if self.pending and not self.batches:
            self.batches[1] = 0  # no source moved, but the subjects may
        if not self.batches:
            return  # with no other change the live version already says what it should: a no-op
        self.flush()
        with self.job.ports.ledger.read() as session:
            diverged = session.records.diverged(self.job.slug, self.job.run.base_version)
            decided = session.work.holds(self.job.run.id, diverged)
        for path in diverged:
            if path not in decided and not path.startswith("/"):
                self._add(WorkRow(path, 0, "carry", 0, 0))

    def notes(self) -> str:
        """What the inventory saw, for people."""
        return canonical_json(
            {
                "found": self.found,
                "stale": self.stale,
                "standing": self.standing,
                "skipped": self.skipped,
                "kept_out": self.kept_out,
                "knowledge": self.knowledge,
            }
        )

    def flush(self) -> None:
        """Write what is queued."""
        if not (self.rows or self.stats or self.gone or self.revived):
            return
        with self.job.ports.ledger.transaction("inventory.rows", self.job.slug) as session:
            self.job.hold(session)
            session.work.add(self.job.run.id, self.rows)
            session.sources.remember_stats(self.job.slug, self.stats)
            session.sources.forget_stats(self.job.slug, self.gone)
            session.sources.unmark_removed(self.job.slug, self.revived)
        self.rows, self.stats, self.gone, self.revived = [], {}, [], []


def options(job: Job) -> dict[str, object]:
    """The run's own options, kept beside its `CurateInput`."""
    held: dict[str, object] = json.loads(job.run.input)["_options"]
    return held


def batch_sources(job: Job) -> int:
    """Sources in one unit: the run's own number, or the deployment's."""
    return int(json.loads(job.run.input).get("batch_size") or job.ports.limits.batch_sources)


def unread_hash(stat: SourceStat, code: str) -> str:
    """Stands for the bytes of a file that can't be read, so that an unchanged one isn't judged anew at every run."""
    return fingerprint("unread", code, stat.size, stat.mtime_ns)


def _with_batch(row: WorkRow, batch: int) -> WorkRow:
    return WorkRow(row.path, batch, row.change, row.size, row.mtime_ns, hash=row.hash)


def _walk(job: Job) -> Iterator[tuple[str, tuple[SourceStat, StatRow | None]]]:
    walked = ((stat.path, stat) for stat in job.ports.sources(job.context).walk())
    for path, stat, known in merge_by_path(walked, _stats(job)):
        if stat is not None:
            job.report(1)
            yield path, (stat, known)


def _stats(job: Job) -> Iterator[tuple[str, StatRow]]:
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.sources.stats(job.slug, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1][0]


def _live(job: Job) -> Iterator[tuple[str, SourceRow]]:
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.sources.page(job.slug, job.run.base_version, after, PAGE_ROWS)
        yield from ((row.path, row) for row in page)
        if len(page) < PAGE_ROWS:
            return
        after = page[-1].path


def _buried(job: Job) -> Iterator[tuple[SourcePath, str]]:
    after = ""
    while True:
        with job.ports.ledger.read() as session:
            page = session.sources.buried(job.slug, after, PAGE_ROWS)
        yield from page
        if len(page) < PAGE_ROWS:
            return
        after = page[-1][0]


def _refuse_empty(job: Job, plan: _Plan) -> None:
    if plan.found or options(job)["allow_empty"]:
        return
    where = job.context.root or "the staged files"
    raise RejectedInput(
        "empty_root",
        f"no source was found in {where}, while {plan.live} are live in {job.slug}"
        if plan.live
        else f"no source was found in {where}",
        remedy="check the folder and .laminaignore; with --allow-empty an empty tree is taken at its word",
    )


def _noop(job: Job, session: Session, plan: _Plan) -> None:
    output = contract.noop_output(job.run, standing=plan.standing)
    session.runs.set_notes(job.run.id, plan.notes())
    publish.end_unchanged(session, job.run, job.ports.clock.now(), output)


def _claim(job: Job, session: Session, plan: _Plan) -> None:
    run = session.runs.require(job.run.id, job.claim.run_fence)
    number = run.number or session.contexts.claim_number(job.slug)
    generation = _generation(job, session)
    if not run.number:
        now = job.ports.clock.now()
        row = VersionRow(
            number,
            run.id,
            generation,
            run.manifest,
            run.recipe,
            "claimed",
            readable=False,
            claimed_at=now,
            live_at=0.0,
            records=0,
        )
        session.versions.add(job.slug, row)
    session.runs.plan(run.id, number, generation)
    session.runs.set_notes(run.id, plan.notes())
    session.units.create(run.id, FIRST_STAGE, plan.batches)


def _generation(job: Job, session: Session) -> int:
    """The generation whose vectors this run's may stand beside: one that any version had, or a new one.

    Not the live version's alone: after a rollback the open records may be of another generation, and the plan, which is a
    diff against what is open, keeps them where they say the same.
    """
    versions = session.versions.list(job.slug)
    for version in versions:
        if recipe_from_json(version.recipe).same_vectors(job.recipe):
            return version.generation
    return 1 + max((version.generation for version in versions), default=0)
