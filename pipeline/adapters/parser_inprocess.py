"""`Parser` in this process: no isolation. For tests, and for sources that the operator trusts."""

from __future__ import annotations

from functools import cached_property

from pipeline.parse import identity, parse_bytes
from pipeline.types import ParsedDocument


class InProcessParser:
    """Calls the parsers directly; the same documents as the sandbox, without limits of time or memory. Thread-safe."""

    @cached_property
    def identity(self) -> str:
        """See `ports.Parser.identity`."""
        return identity()

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        """See `ports.Parser.parse`."""
        return parse_bytes(data, name)

    def last_job(self) -> str:
        """Nothing is sent anywhere."""
        return ""

    def close(self) -> None:
        """Nothing to end."""
