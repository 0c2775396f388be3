"""Spans of runs, units and provider calls, for whoever traces them. Nothing of a document, no error's text: codes alone.

One trace a run. Its id follows from the run's, so that every process of a fleet puts its spans in the same trace though
messages carry nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from pipeline.rows import RunRow
from pipeline.units import UnitClaim


class Tracer(Protocol):
    """Where spans go. Never raises, and never waits for longer than a moment."""

    def unit(self, claim: UnitClaim) -> AbstractContextManager[None]:
        """A unit of work, as long as the block."""
        ...

    def call(self, what: str, method: str, count: int) -> AbstractContextManager[None]:
        """A call to a provider or store inside a unit's block, about so many things; elsewhere it is passed over."""
        ...

    def run(self, row: RunRow) -> None:
        """A run that has ended."""
        ...

    def close(self) -> None:
        """Send what is left, for a bounded while. May be repeated."""
        ...


class Untraced:
    """Port `Tracer` where nobody looks."""

    def unit(self, claim: UnitClaim) -> AbstractContextManager[None]:  # noqa: ARG002  # see the port
        """See the port."""
        return nullcontext()

    def call(self, what: str, method: str, count: int) -> AbstractContextManager[None]:  # noqa: ARG002  # see the port
        """See the port."""
        return nullcontext()

    def run(self, row: RunRow) -> None:
        """See the port."""

    def close(self) -> None:
        """See the port."""


class Traced:
    """Any adapter, with spans around some of its methods."""

    def __init__(self, inner: object, what: str, methods: Collection[str], tracer: Tracer) -> None:
        self._inner, self._what, self._methods, self._tracer = inner, what, frozenset(methods), tracer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._wrapped(name, found) if name in self._methods else found

    def _wrapped(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            with self._tracer.call(self._what, name, _size(given)):
                return method(*given, **named)

        return call


def _size(given: tuple[Any, ...]) -> int:
    """Of the last argument that has a length and isn't a text: texts, ids, or a batch's records."""
    for value in reversed(given):
        held = getattr(value, "ids", value)
        if not isinstance(held, str | bytes) and hasattr(held, "__len__"):
            return len(held)
    return 1
