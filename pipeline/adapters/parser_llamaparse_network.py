"""Connections to LlamaParse whose every step ends at one deadline, and whose answers end at one size.

A client's own timeouts hold for one read each, so a server that sends a byte now and then keeps a call for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Final

from pipeline.errors import Unavailable

_WRITE_BYTES: Final = 64 * 1024
"""Written at once, so that a server that reads slowly meets the deadline between two pieces."""
_ADDRESSES_MAX: Final = 4
"""Of one host, tried in order; each gets its share of what is left."""


class Allowance(threading.local):
    """What the calling thread's call may still take."""

    until = 0.0
    left_bytes = 0

    def __init__(self, where: str, limit_bytes: int) -> None:
        """Nothing is allowed yet.

        Args:
            where: the service, as messages name it.
            limit_bytes: of one call's answer, headers included.
        """
        self._where = where
        self._limit_bytes = limit_bytes

    def grant(self, until: float) -> None:
        """Let this thread's next call take time up to `until` (of `time.monotonic`), and the full size."""
        self.until = until
        self.left_bytes = self._limit_bytes

    def left_s(self) -> float:
        """Seconds to the deadline, above 0."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def take(self, size_bytes: int) -> None:
        """Count what was read."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise Unavailable("bad_reply", f"{self._where}: the answer is larger than {self._limit_bytes >> 20} MB")


class Network:
    """A network backend of `httpcore` whose every step ends at the deadline of the thread that takes it."""

    def __init__(self, system: Any, allowance: Allowance) -> None:
        self._system = system
        self._allowance = allowance

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002  # the names are the caller's; the deadline is ours
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> _Stream:
        """Connect to the first address of a host that answers."""
        # Resolved here: the system's own way gives each address the whole time.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))[:_ADDRESSES_MAX]
        for rest in range(len(addresses), 1, -1):
            try:
                return self._connect(addresses[-rest], port, rest, local_address, socket_options)
            except Exception:  # noqa: BLE001, S112  # refused or silent: the next address may answer
                continue
        return self._connect(addresses[-1], port, 1, local_address, socket_options)

    def _connect(self, address: str, port: int, shares: int, *options: Any) -> _Stream:
        left = self._allowance.left_s() / shares
        return _Stream(self._system.connect_tcp(address, port, left, *options), self._allowance)


class _Stream:
    """A connection; reads and writes count against the allowance of the thread that does them."""

    def __init__(self, system: Any, allowance: Allowance) -> None:
        self._system = system
        self._allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        data: bytes = self._system.read(max_bytes, self._allowance.left_s())
        self._allowance.take(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._system.write(buffer[start : start + _WRITE_BYTES], self._allowance.left_s())

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:  # noqa: ARG002
        return _Stream(self._system.start_tls(ssl_context, server_hostname, self._allowance.left_s()), self._allowance)

    def close(self) -> None:
        self._system.close()

    def get_extra_info(self, info: str) -> Any:
        return self._system.get_extra_info(info)
