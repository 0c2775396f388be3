"""The transport under the OpenAI client: what goes over the network, for how long and how much of it.

A client's own timeouts hold for one read each, so a server that sends a byte now and then keeps a call for ever. Here
one deadline holds for all of a call: connecting, TLS, every write, every read, headers and error bodies included. The
key is known here alone, so no error, log line or redirect of the client can carry it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from pipeline.errors import Unavailable

REPLY_BYTES_MAX: Final = 16 * 1024 * 1024
"""On the wire, headers included; a reply has a few hundred kilobytes at most."""
ERROR_BYTES_MAX: Final = 64 * 1024
"""An error's body past this is not read."""
_WRITE_BYTES: Final = 16 * 1024
"""Written at once: small, so that a server that reads slowly meets the deadline between two pieces."""
_ADDRESSES_MAX: Final = 4
"""Of one host, tried in order; each gets its share of what is left."""
_IDLE_S: Final = 30.0
"""An idle connection is kept this long for the next call."""
_KEPT_HEADERS: Final = ("retry-after", "retry-after-ms")
"""Of a reply. Without the others there are no cookies, no redirects and nothing to unpack, whatever a server sends."""


class Wire:
    """A transport of `httpx2.Client`. Threads may share one: each has its own deadline and size."""

    def __init__(self, host: str, key: str) -> None:
        """Nothing is imported or connected yet.

        Args:
            host: as messages name it.
            key: sent as the bearer token; none is sent if it is empty.
        """
        self._host = host
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a small packed body may unpack to any size
            "Content-Type": "application/json",
            "User-Agent": "lamina",
            **({"Authorization": f"Bearer {key}"} if key else {}),
        }
        self._allowance = _Allowance(host)
        self._lock = threading.Lock()
        self._pool: Any = None

    def allow(self, until: float) -> None:
        """Set what this thread's next request may take: time up to `until` (of `time.monotonic`), and the full size."""
        self._allowance.until = until
        self._allowance.left_bytes = REPLY_BYTES_MAX

    def handle_request(self, request: Any) -> Any:
        """Send the request's method, address and body, and read the whole reply.

        Raises:
            Unavailable: no connection, a broken one, no end before the deadline, or too large a reply.
        """
        import httpcore2  # noqa: PLC0415  # both come with the client
        import httpx2  # noqa: PLC0415

        code, failed = "provider_down", ""
        try:
            sent = self._opened().stream(
                request.method, str(request.url), headers=self._headers, content=request.read()
            )
            with sent as reply:
                kept = [pair for pair in reply.headers if pair[0].decode("ascii", "replace").lower() in _KEPT_HEADERS]
                limit = REPLY_BYTES_MAX if reply.status < 400 else ERROR_BYTES_MAX  # noqa: PLR2004
                body = _first(reply.iter_stream(), limit)
            return httpx2.Response(reply.status, headers=kept, content=body)
        except (TimeoutError, httpcore2.TimeoutException):
            code, failed = "provider_timeout", "no whole answer before the deadline"
        except httpcore2.ConnectError as error:
            failed = f"no connection: {error}"[:200]  # the system's words; the server has said nothing yet
        except (httpcore2.NetworkError, httpcore2.ProtocolError, OSError, ValueError) as error:
            failed = f"the connection broke ({type(error).__name__})"
        # Out here, so that no error hangs on to one that quotes the server's bytes.
        raise Unavailable(code, f"{self._host}: {failed}", remedy="Check that the provider is up and can be reached.")

    def close(self) -> None:
        """End idle connections; the next request opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _opened(self) -> Any:
        import httpcore2  # noqa: PLC0415
        import httpx2  # noqa: PLC0415

        with self._lock:
            if self._pool is None:
                network: Any = _Network(httpcore2.SyncBackend(), self._allowance)
                self._pool = httpcore2.ConnectionPool(
                    ssl_context=httpx2.create_ssl_context(trust_env=False),
                    max_connections=None,
                    keepalive_expiry=_IDLE_S,
                    network_backend=network,
                )
            return self._pool


def _first(parts: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    for part in parts:
        body += part
        if len(body) >= limit:
            break
    return bytes(body[:limit])


class _Allowance(threading.local):
    """What the calling thread's request may still take."""

    until = 0.0
    left_bytes = 0

    def __init__(self, host: str) -> None:
        self._host = host

    def left_s(self) -> float:
        """Seconds to the deadline, above 0."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise Unavailable(
                "provider_timeout",
                f"{self._host}: no whole answer before the deadline",
                remedy="Check that the provider is up and can be reached.",
            )
        return left

    def take(self, size_bytes: int) -> None:
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise Unavailable("bad_reply", f"{self._host}: the reply is larger than {REPLY_BYTES_MAX >> 20} MB")


class _Network:
    """A network backend of `httpcore2` whose every step ends at the deadline of the thread that takes it."""

    def __init__(self, system: Any, allowance: _Allowance) -> None:
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
        return _Stream(
            self._system.connect_tcp(address, port, self._allowance.left_s() / shares, *options), self._allowance
        )


class _Stream:
    """A connection; reads and writes count against the allowance of the thread that does them."""

    def __init__(self, system: Any, allowance: _Allowance) -> None:
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
