"""Pinecone's official client as the adapters use it: opened at first use, one a process, our deadlines, our errors."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

from pipeline.adapters.pinecone_wire import Wire
from pipeline.errors import Conflict, Corruption, PipelineError, RejectedInput, Unavailable

T = TypeVar("T")

CONTROL: Final = "control"
MODELS: Final = "models"
"""Parts of the client: the control plane, and the hosted models."""
SHOWN_CHARS: Final = 300
"""Of a server's own words in a message."""
_WAIT_S_MAX: Final = 86_400.0
_LASTING: Final = {
    401: ("unauthorized", "Check the API key."),
    402: ("quota", "Raise the project's limits at Pinecone, then run again."),
    403: ("unauthorized", "Check what the API key may use."),
}
"""Statuses that waiting doesn't help."""
_REFUSED: Final = {404: "not_found", 413: "too_large"}


@dataclass(frozen=True, slots=True)
class PineconeAccount:
    """Whom to ask, and as whom."""

    api_key: str = field(repr=False)
    control_url: str = "https://api.pinecone.io"
    """Of the control plane and the hosted models; where an index itself is served, the control plane says."""
    deadline_s: float = 60.0
    """For a whole call, the client's own repeats and the waits between them included."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a call gave, with the log positions of its reply; None where the reply names none."""

    value: T
    written: int | None
    indexed: int | None


@dataclass(slots=True)
class _Opened:
    """A process's own client."""

    wire: Wire
    client: Any
    parts: dict[str, Any]


class PineconeClient:
    """Threads may share one. After a fork the child opens its own and leaves the parent's connections alone."""

    def __init__(self, account: PineconeAccount) -> None:
        """Nothing is imported or connected yet.

        Raises:
            RejectedInput: the address or the key can't be used.
        """
        self.host = _host_of(account.control_url)
        self._account = account
        _check_key(account.api_key)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._opened: _Opened | None = None
        self._inherited: list[Any] = []

    def call(
        self, what: str, use: Callable[[Any], T], *, part: str = CONTROL, deadline_s: float | None = None
    ) -> Answer[T]:
        """Make one request with a part of the client.

        Args:
            what: names the call in messages.
            use: given the part; makes the request.
            part: `CONTROL`, `MODELS`, or the host of an index, as the control plane tells it.
            deadline_s: a shorter one than the account's.

        Raises:
            Unavailable: no answer in time, or the service asks to wait (`retry_after_ms`); codes `unauthorized` and
                `quota` where waiting won't help.
            RejectedInput: refused for good; code `not_found` where what the call names isn't there.
            Conflict: code `exists`.
            Corruption: code `bad_reply`: an answer that isn't one.
        """
        opened = self._open()
        import pinecone  # noqa: PLC0415  # there, since `_open` did not complain

        allowance = opened.wire.allowance
        own_s = self._account.deadline_s
        allowance.begin(time.monotonic() + (own_s if deadline_s is None else min(own_s, deadline_s)))
        failed: PipelineError
        try:
            value = use(self._part(opened, part))
            return Answer(value, allowance.written, allowance.indexed)
        except pinecone.PineconeError as error:
            failed = self._translated(what, error, pinecone)
        # Raised out here, without a cause: the client's errors carry the server's words, which may repeat the key.
        raise failed

    def close(self) -> None:
        """End idle connections. The next call opens new ones."""
        if self._pid != os.getpid():
            return
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.wire.close()

    def _open(self) -> _Opened:
        if self._pid != os.getpid():
            # The lock may have been held when the process was forked, and the sockets are the parent's.
            self._inherited.append(self._opened)
            self._lock, self._opened, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._opened is None:
                secure = self._account.control_url.startswith("https:")
                wire = Wire(self.host, self._account.api_key, secure=secure)
                client = _client(self._account, wire, secure=secure)
                self._opened = _Opened(wire, client, {CONTROL: client})
            return self._opened

    def _part(self, opened: _Opened, name: str) -> Any:
        with self._lock:
            found = opened.parts.get(name)
            if found is None:
                found = opened.client.inference if name == MODELS else opened.client.index(host=name)
                _put_under(found._http, opened.wire)  # noqa: SLF001
                opened.parts[name] = found
            return found

    def _translated(self, what: str, error: Any, pinecone: Any) -> PipelineError:
        status = getattr(error, "status_code", None)
        words = _told(str(getattr(error, "message", "")), self._account.api_key)
        where = f"{self.host}: {what}: {words or type(error).__name__}"
        if isinstance(error, pinecone.ResponseParsingError):
            return Corruption(
                "bad_reply",
                f"{self.host}: {what}: the answer isn't one of Pinecone's",
                remedy="Check the control URL, and that the installed client fits the service.",
            )
        if isinstance(error, pinecone.PineconeConnectionError | pinecone.PineconeTimeoutError):
            return Unavailable("provider_down", where, remedy="Check that Pinecone is up and can be reached.")
        if status is None:
            return RejectedInput("refused", where)
        return _by_status(status, where, getattr(error, "retry_after", None))


def bad_reply(what: str, problem: str) -> Corruption:
    """The error for an answer that contradicts what was asked."""
    return Corruption("bad_reply", f"{what}: {problem}", remedy="Report this; ask Pinecone with the time of the call.")


def _by_status(status: int, where: str, retry_after_s: float | None) -> PipelineError:
    message = f"{where} ({status})"
    if status == 429:  # noqa: PLR2004
        wait_ms = None if retry_after_s is None else math.ceil(1000 * min(_WAIT_S_MAX, retry_after_s))
        return Unavailable("rate_limited", message, remedy="Lower the number of workers.", retry_after_ms=wait_ms)
    if status in _LASTING:
        return Unavailable(_LASTING[status][0], message, remedy=_LASTING[status][1])
    if status == 409:  # noqa: PLR2004
        return Conflict("exists", message)
    if status >= 500 or status in (408, 425):  # noqa: PLR2004
        return Unavailable("provider_down", message)
    if status >= 400:  # noqa: PLR2004
        return RejectedInput(_REFUSED.get(status, "refused"), message, remedy="See what the service says.")
    return Corruption("bad_reply", message, remedy="Check the control URL: the server points elsewhere.")


def _client(account: PineconeAccount, wire: Wire, *, secure: bool) -> Any:
    # Imported here: it takes a third of a second, and only a deployment that uses the service has it.
    try:
        import pinecone  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "pinecone_missing", "Pinecone's client isn't installed", remedy="pip install 'lamina[pinecone]'"
        ) from error
    # The client looks into the environment for whatever it isn't given. The key isn't its business: `Wire` has it.
    client = pinecone.Pinecone(
        api_key="held-by-the-transport",
        host=account.control_url,
        additional_headers={"Accept-Encoding": "identity"},
        grpc_scheme="https",
        timeout=account.deadline_s,
        ssl_verify=secure,  # of transports that `wire` replaces at once; reading certificates takes them a while
    )
    _put_under(client._http, wire)  # noqa: SLF001
    return client


def _put_under(http: Any, wire: Wire) -> None:
    """Make a part of the client send through `wire`. It retries above it; what stood there is closed."""
    retrying: Any = getattr(getattr(http, "_client", None), "_transport", None)
    own = getattr(retrying, "_transport", None)
    if own is None:
        raise Unavailable(
            "pinecone_unknown",
            "the installed version of Pinecone's client is built another way than the one that Lamina knows",
            remedy="pip install 'lamina[pinecone]'",
        )
    own.close()
    retrying._transport = wire  # noqa: SLF001  # it offers no other way to bound a call or to see a delete's headers


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username is not None or parts.fragment:
        # Not shown: a wrong address may hold a password.
        raise RejectedInput(
            "bad_control_url",
            "Pinecone's control URL isn't an http or https address without a user name",
            remedy="Write it like https://api.pinecone.io; the key has a setting of its own.",
        )
    return host if port is None else f"{host}:{port}"


def _check_key(key: str) -> None:
    if not (key and key.isascii() and key.isprintable() and key == key.strip()):
        raise RejectedInput(
            "bad_api_key",
            "Pinecone's API key is missing, or holds white space or characters that a header can't carry",
            remedy="Copy the key again, without quotes and line ends.",
        )


def _told(words: str, key: str) -> str:
    """The words on one line, shortened, without the key: as it is and as JSON writes it."""
    for form in (key, json.dumps(key)[1:-1], key.replace("/", "\\/")):
        words = words.replace(form, "[key]")
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"
