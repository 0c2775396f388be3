"""The network under LlamaParse: what goes over it, for how long and how much of it, and what an answer means.

One deadline holds for all of a call, from connecting to the last byte, since a client's own timeouts hold for one read
each. The key is known here alone, so no error, log line or redirect can carry it. Statuses become our errors here, the
same for both interfaces.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pipeline.adapters.parser_llamaparse_network import Deadline, Network
from pipeline.errors import RejectedInput, Unavailable
from pipeline.ports import Clock

REPLY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one reply: some thousand pages."""
_ERROR_BYTES_MAX: Final = 64 * 1024
"""An error's body past this is not read."""
_IDLE_S: Final = 30.0
_TRIES_MAX: Final = 3
"""For a question that may be repeated at no cost; an upload has one."""
_WAIT_MS_MAX: Final = 24 * 3600 * 1000
_SHOWN_CHARS: Final = 300
"""Of the service's own words in a message."""
_KEPT_HEADERS: Final = ("retry-after", "retry-after-ms")

_NO_CREDIT: Final = re.compile(
    r"quota|insufficient.{0,20}(?:credit|balance|funds)|(?:out of|no more|exceeded).{0,20}credit"
)
_ADD_CREDIT: Final = "Add credits at LlamaCloud, then run again."
_WAITED: Final = {
    401: ("unauthorized", "Check the API key, its project and its region."),
    402: ("quota", _ADD_CREDIT),
    403: ("unauthorized", "Check the API key, its project and its region."),
    429: ("rate_limited", "Lower the number of workers."),
    408: ("provider_down", ""),  # these three ask for another try, by their definition
    409: ("provider_down", ""),
    425: ("provider_down", ""),
}
"""Statuses that say nothing about the document."""
_AGAIN: Final = frozenset(("provider_down", "provider_timeout", "rate_limited"))


class JobLost(Exception):
    """The service gave the job up for no fault of the document, or no longer knows it: worth another one."""


class JobUnknown(JobLost):
    """The service doesn't know the job: it is too old, or so new that not all of the service has heard of it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back with a status below 300."""

    body: bytes

    def fields(self, where: str) -> dict[str, Any]:
        """The JSON object in the body.

        Raises:
            Unavailable: code `bad_reply`.
        """
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise bad_reply(where, "it isn't a JSON object")
        return found


class Wire:
    """Calls to one service. Threads may share one: each call has its own deadline and size."""

    def __init__(
        self,
        base_url: str,
        key: str,
        clock: Clock,
        *,
        call_s: float,
        first_wait_s: float,
        pause: Callable[[float], None],
    ) -> None:
        """Nothing is imported or connected yet.

        Args:
            base_url: up to and without `/api`.
            key: sent as the bearer token, never shown.
            clock: for a moment until which the service asks to wait.
            call_s: longest one call may take.
            first_wait_s: before a question is asked a second time; doubles.
            pause: waits so many seconds, or raises where nobody wants to wait any longer.

        Raises:
            RejectedInput: the address or the key can't be used.
        """
        self.base_url = base_url.rstrip("/")
        self.host = _host_of(base_url)
        self._key = _checked(key)
        self._clock = clock
        self._call_s = call_s
        self._first_wait_s = first_wait_s
        self._pause = pause
        self._headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a small packed body may unpack to any size
            "Authorization": f"Bearer {key}",
            "User-Agent": "lamina",
        }
        self._deadline = Deadline()
        self._lock = threading.Lock()
        self._pool: Any = None

    def get(self, path: str, until: float) -> Reply:
        """Ask, and ask again a few times where the service was away for a moment.

        Raises:
            JobUnknown: there is no such job.
            Unavailable, RejectedInput: as the status says.
        """
        for tries in range(1, _TRIES_MAX + 1):
            try:
                return self._ask("GET", path, b"", "", until)
            except Unavailable as error:
                wait_s = max((error.retry_after_ms or 0) / 1000, self._first_wait_s * 2 ** (tries - 1))
                if tries == _TRIES_MAX or error.code not in _AGAIN or time.monotonic() + wait_s >= until:
                    raise
            self._pause(wait_s)
        raise AssertionError("the last try returns or raises")

    def post(self, path: str, content: bytes, content_type: str, until: float) -> Reply:
        """Send once: what is sent may be billed although no answer comes.

        Raises:
            Unavailable, RejectedInput: as the status says.
        """
        try:
            return self._ask("POST", path, content, content_type, until)
        except JobUnknown as error:
            # Nothing that is asked for by its id: the address itself isn't known.
            raise bad_reply(self.host, "it doesn't know the address; check the base URL") from error

    def close(self) -> None:
        """End idle connections; the next call opens new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def told(self, words: str) -> str:
        """The service's words on one line, shortened, without the key."""
        for form in (self._key, json.dumps(self._key)[1:-1], self._key.replace("/", "\\/")):
            words = words.replace(form, "[key]")
        line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
        return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"

    def _ask(self, method: str, path: str, content: bytes, content_type: str, until: float) -> Reply:
        self._deadline.until = min(until, time.monotonic() + self._call_s)
        status, headers, body = self._exchange(method, self.base_url + path, content, content_type)
        if 200 <= status < 300:  # noqa: PLR2004
            if len(body) > REPLY_BYTES_MAX:
                raise bad_reply(f"LlamaParse at {self.host}", f"it is larger than {REPLY_BYTES_MAX >> 20} MB")
            return Reply(body)
        words = _words_of(body)
        where = f"LlamaParse at {self.host} answered {status}: {self.told(words)}"
        if status in (404, 410):
            raise JobUnknown(where)
        raise _error_of(status, words.lower(), where, _retry_after_ms(headers, self._clock.now()))

    def _exchange(
        self, method: str, url: str, content: bytes, content_type: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        import httpcore  # noqa: PLC0415  # only a deployment that asks the service needs it

        headers = self._headers | ({"Content-Type": content_type} if content_type else {})
        code, failed = "provider_down", ""
        try:
            with self._opened().stream(method, url, headers=headers, content=content or None) as reply:
                pairs = [(name.decode("ascii", "replace").lower(), value) for name, value in reply.headers]
                kept = {name: value.decode("latin-1") for name, value in pairs if name in _KEPT_HEADERS}
                limit = REPLY_BYTES_MAX if reply.status < 300 else _ERROR_BYTES_MAX  # noqa: PLR2004
                return reply.status, kept, _first(reply.iter_stream(), limit)
        except (TimeoutError, httpcore.TimeoutException):
            code, failed = "provider_timeout", "no whole answer in time"
        except httpcore.ConnectError as error:
            failed = f"no connection: {error}"[:200]  # the system's words; the service has said nothing yet
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
            failed = f"the connection broke ({type(error).__name__})"
        # Out here, so that no error hangs on to one that quotes the service's bytes.
        raise Unavailable(
            code, f"LlamaParse at {self.host}: {failed}", remedy="Check that it is up and can be reached."
        )

    def _opened(self) -> Any:
        import httpcore  # noqa: PLC0415
        import httpx  # noqa: PLC0415

        with self._lock:
            if self._pool is None:
                network: Any = Network(httpcore.SyncBackend(), self._deadline)
                self._pool = httpcore.ConnectionPool(
                    ssl_context=httpx.create_ssl_context(trust_env=False)
                    if self.base_url.startswith("https:")
                    else None,
                    max_connections=None,
                    keepalive_expiry=_IDLE_S,
                    network_backend=network,
                )
            return self._pool


def bad_reply(where: str, what: str) -> Unavailable:
    """An answer that makes no sense."""
    return Unavailable(
        "bad_reply", f"{where} gave an answer that can't be used: {what}", remedy="Check the service's base URL."
    )


def _error_of(status: int, searched: str, where: str, wait_ms: int | None) -> Unavailable | RejectedInput:
    if status < 400:  # noqa: PLR2004
        return bad_reply(where, "it points elsewhere")
    if status == 429 and wait_ms is None and _NO_CREDIT.search(searched):  # noqa: PLR2004
        status = 402
    if status in _WAITED:
        code, remedy = _WAITED[status]
        return Unavailable(code, where, remedy=remedy, retry_after_ms=wait_ms)
    if status >= 500:  # noqa: PLR2004
        return Unavailable("provider_down", where, retry_after_ms=wait_ms)
    if status == 413:  # noqa: PLR2004
        return RejectedInput("too_large", where, remedy="Split the document, or read its format locally.")
    return _refusal(searched, where)


def failure_of(name: str, job_id: str, words: str) -> Unavailable | RejectedInput | JobLost:
    """What a job that the service gave up means.

    Args:
        name: of the document.
        job_id: the job.
        words: the service's, without the key.
    """
    where = f"LlamaParse's job {job_id} on {name} failed: {words}"
    searched = words.lower()
    if _NO_CREDIT.search(searched):
        return Unavailable("quota", where, remedy=_ADD_CREDIT)
    if any(mark.search(searched) for mark, _, _ in _REFUSALS):
        return _refusal(searched, where)
    return JobLost(where)


def _refusal(searched: str, where: str) -> RejectedInput:
    code, remedy = next(((code, remedy) for mark, code, remedy in _REFUSALS if mark.search(searched)), _REFUSED)
    return RejectedInput(code, where, remedy=remedy)


_UNKNOWN_FORMAT: Final = re.compile(
    r"unsupported.{0,20}(?:file|format|media|extension|document)|(?:file|format|media|extension).{0,40}not.supported"
)
_REFUSALS: Final = (
    (re.compile(r"password|encrypt|\bdrm\b"), "encrypted", "Stage it without a password."),
    (re.compile(r"no.data.found|no.text|empty.(?:file|document)|no.content"), "no_text", ""),
    (_UNKNOWN_FORMAT, "unsupported", "Take its format out of those sent to LlamaParse."),
    (re.compile(r"too.large|too.many.pages|page.limit|size.limit"), "too_large", "Split the document."),
    (
        re.compile(r"broken|corrupt|malformed|damaged|invalid.(?:file|pdf|document)"),
        "parse_refused",
        "Repair the file.",
    ),
)
"""Words by which the service blames a document, in messages (`not supported`) and codes (`PDF_IS_BROKEN`) alike."""
_REFUSED: Final = ("parse_refused", "Read the service's words; the options may be at fault.")


def _words_of(body: bytes) -> str:
    """What an error's body says: `detail` of the service's framework, a message, or all of it."""
    text = body.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for name in ("detail", "error_message", "message", "error"):
        said = parsed.get(name) if isinstance(parsed, dict) else None
        if isinstance(said, str) and said:
            return said
    return text


def _retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """What the service asks to wait, at most a day; None where it says nothing that can be read."""
    for name, unit_ms in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        try:
            value = float(headers.get(name, "")) * unit_ms
        except ValueError:
            continue
        if math.isfinite(value):
            return min(_WAIT_MS_MAX, max(0, math.ceil(value)))
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        left_ms = ((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now) * 1000
    except (ValueError, TypeError, OverflowError):
        return None
    return min(_WAIT_MS_MAX, max(0, math.ceil(left_ms)))


def _host_of(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username is not None or parts.query or parts.fragment:
        # Not shown: a wrong address may hold a password.
        raise RejectedInput(
            "bad_base_url",
            "LlamaParse's base URL isn't a plain http or https address",
            remedy="Write it like https://api.cloud.llamaindex.ai; the key has a setting of its own.",
        )
    return host if port is None else f"{host}:{port}"


def _checked(key: str) -> str:
    if key and key.isascii() and key.isprintable() and key == key.strip():
        return key
    raise RejectedInput(
        "bad_api_key",
        "LlamaParse's API key is missing, or holds white space or characters that a header can't carry",
        remedy="Copy the key again, without quotes and line ends.",
    )


def _first(parts: Iterable[bytes], limit: int) -> bytes:
    """The parts up to the first that passes the limit."""
    body = bytearray()
    for part in parts:
        body += part
        if len(body) > limit:
            break
    return bytes(body)
