"""flip: the version goes live by one compare-and-set; and reclaim, which clears away what no reader can see any more."""

from __future__ import annotations

import json

from pipeline import contract, publish, purging, recording
from pipeline.fingerprint import canonical_json
from pipeline.ledger import Session
from pipeline.stages.job import Job, Outcome


def flip(job: Job) -> Outcome:
    """Move the live pointer, or retire the version when the pointer was moved after the seal."""
    output = contract.run_output(job.ports, job.run)

    def write(session: Session) -> None:
        publish.flip(session, job.run, job.ports.clock.now(), output)

    return Outcome(write, size=1)


def reclaim(job: Job) -> Outcome:
    """Show the new files, delist and erase what is past keeping, and end the run."""
    publish.refresh_view(job.ports, job.slug)
    publish.reclaim(job.ports, job.slug, hold=job.hold)
    erased = publish.sweep(job.ports, job.slug)
    purging.carry_out(job.ports, job.slug)
    if job.ports.limits.retain_sources:
        recording.clear_retained(job.ports, job.slug)
    restamped = 0 if job.ports.index(job.slug).creates_only else publish.restamp(job.ports, job.slug)

    def write(session: Session) -> None:
        run = session.runs.require(job.run.id, job.claim.run_fence)
        notes = json.loads(run.notes or "{}") | {"erased": erased, "restamped": restamped}
        session.runs.set_notes(run.id, canonical_json(notes))
        session.runs.set_state(run.id, "completed", job.ports.clock.now(), output=run.output)
        session.runs.forget(job.slug, job.ports.limits.keep_runs)

    return Outcome(write)
