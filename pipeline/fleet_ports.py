"""Ports that only a fleet has: messages between its processes, and budgets that they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pipeline.types import ContextSlug
from pipeline.units import Token


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
