"""Jobs at LlamaParse: what they are asked to do, what comes back, and how one document is paid for once.

A document's jobs stand in a row of places, 0, 1, 2 … A place is claimed, then holds a job's id, then may be marked
lost, when the service no longer knows the job; only then is the next one used. Values are never changed, so a store
whose first value stays is enough. What is left to chance is said at `JobBook`.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from pipeline.errors import Unavailable
from pipeline.ports import Clock, Memo

_JOB_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LOOK_S: Final = 0.5
"""Between two looks for the id that another worker is about to store."""
_KEEPS_MAX: Final = 3
"""Tries at storing the id of a job that is paid for."""
_NEW_WAITS: Final = 3
"""For so many waits an unknown job is taken for one that isn't known yet, as another one would be paid for."""
_PLACES_MAX: Final = 1 << 20


class JobStore(Protocol):
    """Small values under keys, shared by all workers. The first value that a key gets stays."""

    def get(self, key: str) -> str | None:
        """The value; None if there is none."""
        ...

    def put(self, key: str, value: str) -> None:
        """Store, unless the key has a value; readers see it once this returns."""
        ...


class MemoJobStore:
    """A `JobStore` in the memo. What the memo evicts is paid for again, at worst."""

    def __init__(self, memo: Memo) -> None:
        """Keep the values in `memo`."""
        self._memo = memo

    def get(self, key: str) -> str | None:
        """The value; None if there is none."""
        found = self._memo.get_many([key]).get(key)
        return None if found is None else found.decode("ascii", "replace")

    def put(self, key: str, value: str) -> None:
        """Store, unless the key has a value."""
        self._memo.put_many({key: value.encode("ascii")})


@dataclass(frozen=True, slots=True)
class RemotePage:
    """One page as the service read it."""

    number: int
    """From 1."""
    markdown: str
    error: str = ""
    """Why the page could not be read; empty if it could."""
    images: tuple[str, ...] = ()
    """Names of the pictures that the service took from it."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A document on its way to the service."""

    data: bytes
    file_name: str
    """As the service is told: a piece of the hash, and the ending that says the format."""
    name: str
    """As messages name it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a job is asked to do; each may change its result."""

    tier: str
    version: str
    language: str
    """ISO code of the language that pictures of text are in; empty: the service's default."""


@dataclass(frozen=True, slots=True)
class Polls:
    """How a job is waited for."""

    first_s: float
    """Before the second question; each wait is longer than the one before."""
    longest_s: float
    """Of one wait."""
    pause: Callable[[float], None]
    """Waits so many seconds, or raises where nobody wants to wait any longer."""

    def is_new(self, submitted: float) -> bool:
        """Whether a job submitted at that moment (of `time.monotonic`) may not be known everywhere at the service."""
        return time.monotonic() - submitted < _NEW_WAITS * self.longest_s


class Transport(Protocol):
    """One of the service's interfaces. Threads may share one."""

    generation: str
    """Name and version of the interface."""

    def run(self, upload: Upload, job_id: str, keep: Callable[[str], None], until: float) -> tuple[RemotePage, ...]:
        """Follow a job to its end.

        Args:
            upload: the document.
            job_id: the job; empty to submit a new one.
            keep: told a new job's id before anything is asked about it.
            until: of `time.monotonic`, when to stop.

        Raises:
            JobLost: the service lost the job, or gave it up for no fault of the document.
            RejectedInput: the service refuses the document for good.
            Unavailable: no answer; `parse_pending` if the job goes on.
        """
        ...


class JobBook:
    """Which job reads a document, over all workers that share a store.

    A document is paid for twice only if a worker ends, or is cut off from the store, between the service's yes to an
    upload and the store's; if that yes gets lost on the way; if the store forgets; or if the clocks of two machines
    differ by more than a claim's spare time.
    """

    def __init__(self, store: JobStore, clock: Clock, *, claim_s: float, pause: Callable[[float], None]) -> None:
        """Look up nothing yet.

        Args:
            store: shared by the workers.
            clock: tells when a dead worker's claim ends.
            claim_s: longer than an upload may take.
            pause: waits so many seconds.
        """
        self._store = store
        self._clock = clock
        self._claim_s = claim_s
        self._pause = pause

    def open_place(self, key: str) -> int:
        """The first place that isn't lost: those before it all are."""
        low, high = 0, 1
        while self._is_lost(key, high - 1) and high < _PLACES_MAX:
            low, high = high, high * 2
        while low < high - 1:
            middle = (low + high - 1) // 2
            low, high = (middle + 1, high) if self._is_lost(key, middle) else (low, middle + 1)
        return low

    def job_at(self, key: str, place: int, until: float) -> str | None:
        """The job's id at a place; empty if the caller has the claim and is to submit; None if the place got lost.

        Waits while another worker uploads.

        Raises:
            Unavailable: code `parse_pending`, the other worker took too long.
        """
        claim = f"{secrets.token_hex(8)} {self._clock.now() + self._claim_s:.0f}"
        while True:  # until the caller's deadline
            found = self._store.get(_key(key, place, "job"))
            if found and is_job_id(found):
                return found
            self._store.put(_key(key, place, "claim"), claim)
            held = self._store.get(_key(key, place, "claim")) or claim
            if held == claim:
                return ""
            if self._is_lost(key, place):
                return None
            if self._clock.now() > _end_of(held):
                self.lose(key, place)  # its holder is gone, and nobody knows whether there is a job
                return None
            if time.monotonic() + _LOOK_S >= until:
                raise Unavailable("parse_pending", "another worker is uploading the same document to LlamaParse")
            self._pause(_LOOK_S)

    def keep(self, key: str, place: int, job_id: str) -> None:
        """Store the id of a job that was just submitted; a store that is busy is asked again."""
        for _ in range(_KEEPS_MAX - 1):
            with suppress(Unavailable):
                self._store.put(_key(key, place, "job"), job_id)
                return
            self._pause(_LOOK_S)
        self._store.put(_key(key, place, "job"), job_id)

    def lose(self, key: str, place: int) -> None:
        """Mark a place, so that the next one is used."""
        self._store.put(_key(key, place, "lost"), "1")

    def _is_lost(self, key: str, place: int) -> bool:
        return self._store.get(_key(key, place, "lost")) is not None


def pending(name: str, job_id: str, polls: Polls) -> Unavailable:
    """A job that isn't done in time. It goes on, and the next attempt asks for it."""
    return Unavailable(
        "parse_pending",
        f"LlamaParse is still at work on {name} (job {job_id})",
        remedy="Run again: the job is kept and isn't paid for twice.",
        retry_after_ms=int(polls.longest_s * 1000),
    )


def is_job_id(value: object) -> bool:
    """Whether a value can stand in an address as a job's id."""
    return isinstance(value, str) and _JOB_ID.fullmatch(value) is not None


def _key(key: str, place: int, what: str) -> str:
    return f"llamaparse:{key}:{place}:{what}"


def _end_of(claim: str) -> float:
    try:
        return float(claim.partition(" ")[2])
    except ValueError:
        return 0.0
