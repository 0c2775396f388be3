"""Connections to LlamaParse whose every step ends at one deadline.

A client's own timeouts hold for one read each, so a server that sends a byte now and then keeps a call for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any, Final

_WRITE_BYTES: Final = 64 * 1024
"""Written at once, so that a server that reads slowly meets the deadline between two pieces."""
_ADDRESSES_MAX: Final = 4
"""Of one host, tried in order; each gets its share of what is left."""


class Deadline(threading.local):
    """When the calling thread's call ends."""

    until = 0.0
    """Of `time.monotonic`."""

    def left_s(self) -> float:
        """Seconds to the deadline, above 0."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


class Network:
    """A network backend of `httpcore` whose every step ends at the deadline of the thread that takes it."""

    def __init__(self, system: Any, deadline: Deadline) -> None:
        self._system = system
        self._deadline = deadline

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
        left = self._deadline.left_s() / shares
        return _Stream(self._system.connect_tcp(address, port, left, *options), self._deadline)


class _Stream:
    """A connection; reads and writes end at the deadline of the thread that does them."""

    def __init__(self, system: Any, deadline: Deadline) -> None:
        self._system = system
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        data: bytes = self._system.read(max_bytes, self._deadline.left_s())
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        for start in range(0, len(buffer), _WRITE_BYTES):
            self._system.write(buffer[start : start + _WRITE_BYTES], self._deadline.left_s())

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> _Stream:  # noqa: ARG002
        return _Stream(self._system.start_tls(ssl_context, server_hostname, self._deadline.left_s()), self._deadline)

    def close(self) -> None:
        self._system.close()

    def get_extra_info(self, info: str) -> Any:
        return self._system.get_extra_info(info)
