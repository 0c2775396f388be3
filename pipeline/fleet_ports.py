"""Ports of what a deployment may add: messages between a fleet's processes, budgets that they share, published copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pipeline.types import ContextSlug, Metadata, RecordId
from pipeline.units import Token

Leg = Literal["dense", "sparse"]
LEGS: tuple[Leg, Leg] = ("dense", "sparse")


@dataclass(frozen=True, slots=True)
class PublishedRecord:
    """One passage as third-party readers get it."""

    id: RecordId
    text: str
    fields: Metadata


class Dispatch(Protocol):
    """How a fleet's processes tell each other of work. Messages are hints: they may be lost, repeated or come late."""

    def send(self, token: Token) -> None:
        """To whoever does the token's stage.

        Raises:
            Unavailable: the broker does not answer.
        """
        ...

    def finished(self, context: ContextSlug) -> None:
        """A version of the context went live: what makes searches of it fast may be built.

        Raises:
            Unavailable: as above.
        """
        ...

    def publish(self, context: ContextSlug) -> None:
        """The context's published copy is behind its live version.

        Raises:
            Unavailable: as above.
        """
        ...

    def check(self) -> None:
        """Find out whether messages could be sent.

        Raises:
            Unavailable: as above.
        """
        ...

    def close(self) -> None:
        """Release the connections. May be repeated."""
        ...


class Governor(Protocol):
    """One budget for everybody who uses a provider under one key. Measures: requests, tokens, money."""

    def admit(self, costs: Mapping[str, float]) -> float:
        """Take `costs` out of the budget, measure to amount; 0 where it allows that, else seconds to wait, nothing taken.

        Never raises: without what it shares it allows less.
        """
        ...

    def settle(self, difference: Mapping[str, float]) -> None:
        """Take what a call has cost beyond what was taken for it; below zero, give it back."""
        ...

    def too_many(self, wait_s: float) -> None:
        """The provider refused for the pace and asks to wait; everybody slows down."""
        ...

    def close(self) -> None:
        """Release the connections. May be repeated."""
        ...


class PublishedPair(Protocol):
    """Two indexes that embed text themselves, one dense and one sparse, with the same records in the same namespaces.

    Every method may be repeated, and raises `Unavailable` where the service doesn't answer in time. Writes may become
    visible later.
    """

    @property
    def name(self) -> str:
        """Of the dense index; the sparse one's is the same with an ending."""
        ...

    @property
    def records_per_call(self) -> int:
        """How many `write` sends at once."""
        ...

    def serves(self, context: ContextSlug) -> bool:
        """Whether the context's versions are published there."""
        ...

    def open(self) -> None:
        """Find both indexes, or make them.

        Raises:
            RejectedInput: code `index_unfit`: an index of that name is none of such a pair.
        """
        ...

    def write(self, namespace: str, records: Sequence[PublishedRecord]) -> None:
        """Put records into both, in place of those with their ids."""
        ...

    def delete(self, namespace: str, ids: Sequence[RecordId]) -> None:
        """Erase from both; ids that don't exist are passed over."""
        ...

    def counts(self, leg: Leg) -> Mapping[str, int]:
        """Namespace to its records; those without any may be left out."""
        ...

    def page(self, leg: Leg, namespace: str, after: str) -> tuple[tuple[RecordId, ...], str]:
        """Some ids of a namespace, and where to go on; empty at the start and at the end."""
        ...

    def held(self, leg: Leg, namespace: str, ids: Sequence[RecordId]) -> frozenset[RecordId]:
        """Those that are there."""
        ...

    def drop(self, namespace: str) -> None:
        """Erase a namespace from both."""
        ...

    def read(self, namespace: str, record: RecordId) -> str | None:
        """The text of a record of the dense index."""
        ...

    def write_dense(self, namespace: str, record: PublishedRecord) -> None:
        """Put one record into the dense index alone."""
        ...

    def close(self) -> None:
        """Release the connections. May be repeated."""
        ...
