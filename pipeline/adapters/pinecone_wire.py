"""The transport under Pinecone's client: what goes over the network, for how long and how much of it.

The client's own timeouts hold for one read each, and it sleeps as long as a server tells it to before it tries again.
Here one deadline holds for all of a call: every try, every wait between two, connecting, TLS, each write and read. The
client goes on deciding what is tried again; what no longer fits the deadline ends the call at once. The key is known
here alone, so no error, log line or `repr` of the client can carry it.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipeline.errors import Unavailable

REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""On the wire, headers included. Ten thousand hits have a megabyte or two, a block of fetched vectors a few."""
ERROR_BYTES_MAX: Final = 64 * 1024
"""An error's body past this is not read."""
_WRITE_BYTES: Final = 16 * 1024
"""Written at once: small, so that a server that reads slowly meets the deadline between two pieces."""
_ADDRESSES_MAX: Final = 4
"""Of one host, tried in order; each gets its share of what is left."""
_IDLE_S: Final = 30.0
_TRIED_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
"""What the client tries again by itself; it waits at most a quarter second, then three times as long as before."""
_FIRST_WAIT_S: Final = 0.25
_ASKED_WAIT_FACTOR: Final = 1.5
"""The client waits up to half as long again as a server asks."""
_WRITTEN: Final = ("x-pinecone-request-lsn", "x-pinecone-lsn-committed")
_INDEXED: Final = ("x-pinecone-max-indexed-lsn", "x-pinecone-lsn-reconciled")
_SENT_HEADERS: Final = ("content-type", "user-agent", "x-pinecone-api-version")
_KEPT_HEADERS: Final = (*_WRITTEN, *_INDEXED, "retry-after", "content-type", "x-pinecone-request-id")


class Allowance(threading.local):
    """What the calling thread's call may still take, and what the last reply of it said about log positions."""

    until = 0.0
    left_bytes = 0
    tries = 0
    written: int | None = None
    """Log position of the write."""
    indexed: int | None = None
    """Up to which the search had seen the log."""

    def __init__(self, host: str) -> None:
        self._host = host

    def begin(self, until: float) -> None:
        """Start a call that ends at `until` (of `time.monotonic`)."""
        self.until, self.tries, self.written, self.indexed = until, 0, None, None

    def left_s(self) -> float:
        """Seconds to the deadline, above 0."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise self.too_late("no whole answer before the deadline")
        return left

    def take(self, size_bytes: int) -> None:
        """Count what was read."""
        self.left_bytes -= size_bytes
        if self.left_bytes < 0:
            raise Unavailable("bad_reply", f"{self._host}: the reply is larger than {REPLY_BYTES_MAX >> 20} MB")

    def too_late(self, what: str, code: str = "provider_timeout", wait_ms: int | None = None) -> Unavailable:
        """The error that ends a call."""
        remedy = "Check that Pinecone is up and can be reached, or allow more time."
        return Unavailable(code, f"{self._host}: {what}", remedy=remedy, retry_after_ms=wait_ms)


class Wire:
    """A transport of `httpx`, shared by all the client's parts. Threads may share one."""

    def __init__(self, host: str, key: str, *, secure: bool) -> None:
        """Nothing is imported or connected yet.

        Args:
            host: as messages name it.
            key: sent with every request.
            secure: whether it will be used for https; preparing for that takes a while.
        """
        self._key = key
        self._secure = secure
        self._lock = threading.Lock()
        self._pool: Any = None
        self.allowance = Allowance(host)

    def handle_request(self, request: Any) -> Any:
        """Send one try and read its whole reply.

        Raises:
            httpx.TransportError: the connection failed, and there is time for the client to try again.
            Unavailable: there is none, or the reply is too large.
        """
        import httpcore  # noqa: PLC0415  # both come with the client
        import httpx  # noqa: PLC0415

        allowance = self.allowance
        allowance.left_s()
        allowance.left_bytes = REPLY_BYTES_MAX
        allowance.tries += 1
        headers = {name: request.headers[name] for name in _SENT_HEADERS if name in request.headers}
        headers |= {"Accept": "application/json", "Accept-Encoding": "identity", "Api-Key": self._key}
        failed = ""
        try:
            sent = self._opened().stream(request.method, str(request.url), headers=headers, content=request.read())
            with sent as reply:
                kept = {name: value for name, value in _text(reply.headers) if name in _KEPT_HEADERS}
                limit = REPLY_BYTES_MAX if reply.status < 400 else ERROR_BYTES_MAX  # noqa: PLR2004
                body = _first(reply.iter_stream(), limit)
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError, httpcore.TimeoutException) as error:
            failed = type(error).__name__
        # Out here, so that no error hangs on to one that quotes the server's bytes.
        if failed:
            allowance.left_s()
            if _FIRST_WAIT_S * 3**allowance.tries >= allowance.left_s():
                raise allowance.too_late(f"the connection failed ({failed})", "provider_down")
            raise httpx.NetworkError(f"the connection failed ({failed})")
        if reply.status in _TRIED_AGAIN:
            self._check_wait(reply.status, kept)
        allowance.written, allowance.indexed = _position(kept, _WRITTEN), _position(kept, _INDEXED)
        return httpx.Response(reply.status, headers=kept, content=body)

    def close(self) -> None:
        """End idle connections; the next request opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _check_wait(self, status: int, headers: Mapping[str, str]) -> None:
        """End the call where the client's wait before the next try wouldn't end before the deadline."""
        asked_s = retry_after_s(headers)
        wait_s = _FIRST_WAIT_S * 3**self.allowance.tries if asked_s is None else _ASKED_WAIT_FACTOR * asked_s
        if wait_s >= self.allowance.left_s():
            code = "rate_limited" if status == 429 else "provider_down"  # noqa: PLR2004
            wait_ms = None if asked_s is None else math.ceil(1000 * asked_s)
            raise self.allowance.too_late(f"answered {status}, and no time is left for another try", code, wait_ms)

    def _opened(self) -> Any:
        import httpcore  # noqa: PLC0415
        import httpx  # noqa: PLC0415

        with self._lock:
            if self._pool is None:
                network: Any = _Network(httpcore.SyncBackend(), self.allowance)
                self._pool = httpcore.ConnectionPool(
                    ssl_context=httpx.create_ssl_context(trust_env=False) if self._secure else None,
                    max_connections=None,
                    keepalive_expiry=_IDLE_S,
                    network_backend=network,
                )
            return self._pool


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What a reply asks to wait, at most a day; None where it says nothing that can be read."""
    try:
        asked = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(86_400.0, asked) if math.isfinite(asked) and asked >= 0 else None


def _position(headers: Mapping[str, str], names: Iterable[str]) -> int | None:
    found = (headers[name] for name in names if name in headers)
    return next((int(value) for value in found if value.isascii() and value.isdigit() and len(value) < 20), None)  # noqa: PLR2004  # 64 bits


def _text(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[str, str]]:
    return ((name.decode("ascii", "replace").lower(), value.decode("ascii", "replace")) for name, value in headers)


def _first(parts: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    for part in parts:
        body += part
        if len(body) >= limit:
            break
    return bytes(body[:limit])


class _Network:
    """A network backend of `httpcore` whose every step ends at the deadline of the thread that takes it."""

    def __init__(self, system: Any, allowance: Allowance) -> None:
        self._system = system
        self._allowance = allowance

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _Stream:  # noqa: ARG002
        # Resolved here: the system's own way gives each address the whole time.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))[:_ADDRESSES_MAX]
        for rest in range(len(addresses), 1, -1):
            try:
                return self._connect(addresses[-rest], port, rest, options)
            except Exception:  # noqa: BLE001, S112  # refused or silent: the next address may answer
                continue
        return self._connect(addresses[-1], port, 1, options)

    def _connect(self, address: str, port: int, shares: int, options: Mapping[str, Any]) -> _Stream:
        left_s = self._allowance.left_s() / shares
        return _Stream(self._system.connect_tcp(address, port, timeout=left_s, **options), self._allowance)


class _Stream:
    """A connection; reads and writes count against the allowance of the thread that does them."""

    def __init__(self, system: Any, allowance: Allowance) -> None:
        self._system = system
        self._allowance = allowance

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002  # the deadline is ours
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
