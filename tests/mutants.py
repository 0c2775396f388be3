"""Seeded mutants of the version rules: each breaks one rule of DESIGN §3 to §5 in the real code, for as long as it is on.

They patch our own functions, which nothing else here may do: a mutant is the one thing that can't live at a port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice

from versions import patched

from pipeline import curate, drafts, publish, search
from pipeline.adapters import ledger_sql_records, ledger_sql_runs
from pipeline.ledger import Session
from pipeline.ports import Ports
from pipeline.rows import RecordRow, RunRow
from pipeline.stages import screen as screen_stage
from pipeline.stages import seal as seal_stage
from pipeline.stages.job import Job
from pipeline.types import ContextSlug, RecordId, SourcePath


def _id_without_version(path: SourcePath, digest: str, ordinal: int, added: int) -> RecordId:
    del added
    return RecordId(f"{path}#{digest[:16]}.{ordinal}")


def _flip_before_seal() -> tuple[curate.Stage, ...]:
    stages = list(curate.ACTIVE_STAGES)
    names = [s.name for s in stages]
    seal, flip = names.index("seal"), names.index("flip")
    stages[seal], stages[flip] = stages[flip], stages[seal]
    return tuple(stages)


def _delete_instead_of_stamp(job: Job, page: Sequence[RecordRow]) -> None:
    for record in page:
        job.ports.index(job.slug).delete(record.namespace, [record.id])


def _kept_without_pins(session: Session, slug: ContextSlug, keep: int, now: float) -> frozenset[int]:
    del now
    recent = dict.fromkeys(move.version for move in session.contexts.moves(slug))
    return frozenset(islice(recent, keep))


def _number_reused(self: ledger_sql_runs.SqlContexts, slug: ContextSlug) -> int:
    row = self.get(slug)
    assert row is not None
    return row.live_version + 1


def _abandon_without_delisting(
    session: Session, run: RunRow, now: float, *, state: str, error: str = "", output: str = ""
) -> None:
    session.runs.set_state(run.id, state, now, output=output, error=error)


def _retire_takes_stamps_back(session: Session, run: RunRow, now: float, output: str) -> None:
    if publish.pointer_stands(session, run):
        session.contexts.move(run.context, run.number, run.id, now)
        session.runs.set_state(run.id, "flipped", now, output=output)
        return
    session.records.delist_additions(run.context, run.number, now)
    session.runs.set_state(run.id, "retired", now)


def _plan_against_live(
    self: ledger_sql_records.SqlRecords, slug: ContextSlug, paths: Sequence[SourcePath]
) -> tuple[RecordRow, ...]:
    row = ledger_sql_runs.SqlContexts(self._db).get(slug)
    assert row is not None
    return tuple(r for r in self.at_for(slug, row.live_version, paths) if r.removed == ledger_sql_records.OPEN)


def _hits_unchecked(
    self: ledger_sql_records.SqlRecords, slug: ContextSlug, version: int, ids: Sequence[RecordId]
) -> dict[RecordId, str]:
    del self, slug, version
    return dict.fromkeys(ids, "")


def _flip_without_compare(session: Session, run: RunRow, now: float, output: str) -> None:
    session.contexts.move(run.context, run.number, run.id, now)
    session.runs.set_state(run.id, "flipped", now, output=output)


def _search_without_look_back(ports: Ports, slug: ContextSlug, question: search.Question) -> search.Answer:
    version = search._resolve(ports, slug, question.version)
    return search._answer(ports, slug, question, version)


def _nothing(*_args: object, **_kw: object) -> None:
    return None


Patch = tuple[object, str, object]

MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "id_without_version": lambda: [
        (drafts, "record_id", _id_without_version),
        (screen_stage, "restamp", lambda record, _added: RecordId(record.rpartition("#")[0])),
    ],
    "no_stamp": lambda: [(ledger_sql_records.SqlRecords, "stamp_planned", _nothing)],
    "flip_before_seal": lambda: [(curate, "ACTIVE_STAGES", _flip_before_seal())],
    "delete_instead_of_stamp": lambda: [(seal_stage, "_stamp", _delete_instead_of_stamp)],
    "abandon_without_delisting": lambda: [(publish, "abandon", _abandon_without_delisting)],
    "reclaim_ignores_pins": lambda: [(publish, "kept_versions", _kept_without_pins)],
    "stamp_under_a_stale_fence": lambda: [(Job, "hold", _nothing)],
    "reused_number": lambda: [(ledger_sql_runs.SqlContexts, "claim_number", _number_reused)],
    "retire_takes_stamps_back": lambda: [(publish, "flip", _retire_takes_stamps_back)],
    "flip_without_compare": lambda: [(publish, "flip", _flip_without_compare)],
    "plan_against_live": lambda: [(ledger_sql_records.SqlRecords, "open_for", _plan_against_live)],
    "readers_trust_the_index": lambda: [(ledger_sql_records.SqlRecords, "listed", _hits_unchecked)],
    "readers_never_look_back": lambda: [(search, "search", _search_without_look_back)],
}


@contextmanager
def mutant(name: str) -> Iterator[None]:
    """Put one mutant in place."""
    with ExitStack() as stack:
        for owner, attribute, value in MUTANTS[name]():
            stack.enter_context(patched(owner, attribute, value))
        yield


__all__ = ["MUTANTS", "mutant"]
