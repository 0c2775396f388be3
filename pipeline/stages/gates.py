"""Gates: what must hold of a new version before it may go live. A part of the verify stage.

Conservation and dangling edges are shown there first, for every run. These come after, by setting; the first that
refuses ends the run with its name and the way on, and the live version stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline import contract, search
from pipeline.integrity import Checker
from pipeline.stages.job import Job

NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Gate:
    """One of them."""

    name: str
    refuses: Callable[[Job, contract.Tally], str]
    """Why the version may not go live, and what to do; empty where it may."""


def refusal(job: Job, tally: contract.Tally) -> str:
    """The first gate that refuses, with its reason and the way on; empty where none does."""
    for gate in GATES:
        reason = gate.refuses(job, tally)
        if reason:
            return f"gate {gate.name}: {reason}; the live version stays"
    return ""


def _failed(job: Job, tally: contract.Tally) -> str:
    share = tally.failed / tally.processed if tally.processed else 0.0
    allowed = job.ports.limits.failed_share
    if share <= allowed:
        return ""
    return (
        f"{share:.0%} of the sources failed, more than the {allowed:.0%} that failed_share allows. See which with "
        f"lamina show {job.run.id}; mend them, or curate again with LAMINA_FAILED_SHARE={share:.2f}"
    )


def _shrink(job: Job, _tally: contract.Tally) -> str:
    """How many records the new version would show, against those of the live one."""
    if job.run.trigger == "delete" or not job.run.base_version:
        return ""
    with job.ports.ledger.read() as session:
        live = sum(session.records.visible(job.slug, job.run.base_version).values())
        new = session.records.count_wanted(job.slug, job.run.id)
    lost = (live - new) / live if live else 0.0
    allowed = job.ports.limits.max_shrink
    if lost <= allowed:
        return ""
    return (
        f"version {job.run.number} would show {new} records where {live} are live, {lost:.0%} fewer, and max_shrink allows "
        f"{allowed:.0%}. Put the sources back, or curate again with LAMINA_MAX_SHRINK=1"
    )


def _canary(job: Job, _tally: contract.Tally) -> str:
    """Questions whose answers must name certain sources."""
    failed = []
    for canary in job.ports.canaries(job.slug):
        job.keep_going()
        question = search.Question(canary.question, k=canary.k, mode=canary.mode, before_flip=job.run.id)
        answer = search.search(job.ports, job.slug, question)
        found = {str(result.metadata.get("source_path", "")) for result in answer.results}
        missing = [source for source in canary.sources if source not in found]
        if missing:
            failed.append(f"{canary.question!r} doesn't find {', '.join(missing)} among the first {canary.k}")
    if not failed:
        return ""
    told = "; ".join(failed[:NAMED_MAX]) + (f"; and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else "")
    return f"{told}. Put the sources back, or change the questions in the file that `canaries` names"


def _sound(job: Job, _tally: contract.Tally) -> str:
    """A sample of what the new version takes over from the live one is in the index as the ledger says."""
    limit = job.ports.limits.fsck_sample
    if not limit or not job.run.base_version:
        return ""
    with job.ports.ledger.read() as session:
        base = session.versions.get(job.slug, job.run.base_version)
        rows = session.records.page_at(job.slug, job.run.base_version, job.run.id, limit)
        if len(rows) < limit:  # ids are hashes: where the sample begins is as good as any place
            wrapped = session.records.page_at(job.slug, job.run.base_version, "", limit - len(rows))
            rows += tuple(row for row in wrapped if row.id <= job.run.id)
    if base is None:
        return ""
    bad = [finding for finding, _ in Checker(job.ports, job.slug, base).findings(rows)]
    if not bad:
        return ""
    return (
        f"{len(bad)} of {len(rows)} records that it would take over aren't in the index as the ledger says "
        f"({bad[0].kind}: {bad[0].what} of {bad[0].where}). Heal with: lamina fsck {job.slug} --repair, then curate again"
    )


GATES = (Gate("failed", _failed), Gate("shrink", _shrink), Gate("canary", _canary), Gate("sound", _sound))
