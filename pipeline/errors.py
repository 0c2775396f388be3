"""The error tree: a class exists only where a caller behaves differently on it.

    PipelineError
    ├── RejectedInput   this item is wrong; set it aside with its reason and go on
    ├── Unavailable     something outside did not answer; try again later
    ├── Conflict        the world moved; read again and decide again
    └── Corruption      our own state contradicts itself; stop and tell a person

Every error carries a stable `code` for the ledger and the API, and a `remedy` that tells a person what to do.
"""

from __future__ import annotations


class PipelineError(Exception):
    """Base of every error that Lamina raises on purpose."""

    def __init__(self, code: str, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.code = code
        """Stable, machine-readable, snake_case."""
        self.message = message
        """What went wrong, naming the thing and the place."""
        self.remedy = remedy
        """What a person can do about it; empty when there is nothing to do."""


class RejectedInput(PipelineError):
    """The input can't be used; the rest of the work goes on."""


class Unavailable(PipelineError):
    """A provider, a store or a process did not answer; the same call may be repeated."""

    def __init__(self, code: str, message: str, *, remedy: str = "", retry_after_ms: int | None = None) -> None:
        super().__init__(code, message, remedy=remedy)
        self.retry_after_ms = retry_after_ms
        """What the provider asked for, in milliseconds; None when it said nothing."""


class Conflict(PipelineError):
    """Somebody else changed what this call relied on; read again, decide again."""


class Corruption(PipelineError):
    """Stored state contradicts itself; nothing may be built on it until a person has looked."""
