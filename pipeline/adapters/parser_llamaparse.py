"""`Parser` that sends chosen formats to LlamaParse and everything else to a parser of this machine.

A document costs money at the service, so its job's id is stored before anything is asked about it: a crash, a second
worker or a deadline that passes leads back to the same job (`parser_llamaparse_jobs.JobBook` says when it can't). What
comes back is Markdown, page by page, and is read by our own Markdown parser.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal

from pipeline.adapters.parser_llamaparse_jobs import JobBook, JobStore, Options, Polls, RemotePage, Transport, Upload
from pipeline.adapters.parser_llamaparse_package import PackageTransport
from pipeline.adapters.parser_llamaparse_pages import document_of
from pipeline.adapters.parser_llamaparse_v2 import HttpTransport
from pipeline.adapters.parser_llamaparse_wire import JobLost, Wire
from pipeline.errors import RejectedInput, Unavailable
from pipeline.fingerprint import content_hash, fingerprint
from pipeline.parse import PARSERS
from pipeline.parse.detect import KIND_OF_EXTENSION, detect, extension
from pipeline.ports import Clock, Parser
from pipeline.types import ParsedDocument

VERSION: Final = 1
"""Raised whenever the same answer of the service gives another document."""
_SPARE_S: Final = 60.0
"""How much longer a claim lasts than an upload may take."""
_JOBS_MAX: Final = 2
"""Jobs that one call follows: a stored or a new one, and one in its place if the service lost it."""
_PLACES_TRIED: Final = 8
"""Places that one call may see others lose while it waits."""
_FORMAT: Final = re.compile(r"[a-z0-9]{1,16}")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class LlamaParseSettings:
    """Where the service is and what it is to do."""

    api_key: str = field(repr=False)
    formats: frozenset[str] = frozenset(("pdf", "docx", "pptx"))
    """What is sent: formats as `parse.detect` names them, or file name endings of those that this machine can't read."""
    interface: Literal["http", "package"] = "http"
    """`http` speaks the interface's second generation, `package` the first, through llama-parse."""
    base_url: str = "https://api.cloud.llamaindex.ai"
    tier: str = "cost_effective"
    """`cost_effective`, `agentic` or `agentic_plus`."""
    version: str = "latest"
    """Of the tier: a date keeps results alike, `latest` doesn't."""
    language: str = ""
    """ISO code of the language of text in pictures; empty: the service's default."""
    project_id: str = ""
    """Empty: the key's own project."""
    deadline_s: float = 600.0
    """For a document, from the upload to its pages; shorter than a unit's hard limit. The job outlives it."""
    call_s: float = 120.0
    """For one call, an upload included."""
    poll_first_s: float = 1.0
    poll_max_s: float = 10.0
    """Waits between two questions, which grow from the first to this."""


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """The job behind a document."""

    job_id: str
    pages: int
    """Pages that the service gave back, which is about what it bills; 0 where it gave none."""
    resumed: bool
    """Whether the job was submitted by an earlier call or another worker."""
    service: str
    """`llamaparse` and the interface's generation."""


class LlamaParser:
    """Port `Parser`. Threads may share one."""

    def __init__(self, settings: LlamaParseSettings, inner: Parser, store: JobStore, clock: Clock) -> None:
        """Nothing is imported or connected yet.

        Args:
            settings: the service.
            inner: reads all that isn't sent, and is closed with this parser.
            store: keeps job ids, shared by all workers.
            clock: tells when a dead worker's claim on a document ends.

        Raises:
            RejectedInput: a setting can't be used.
        """
        _check(settings)
        self._settings = settings
        self._inner = inner
        self._closed = threading.Event()
        self._seen = threading.local()
        self._wire = Wire(
            settings.base_url,
            settings.api_key,
            clock,
            call_s=settings.call_s,
            first_wait_s=settings.poll_first_s,
            pause=self._pause,
        )
        self._options = Options(settings.tier, settings.version, settings.language)
        polls = Polls(settings.poll_first_s, settings.poll_max_s, self._pause)
        kind = HttpTransport if settings.interface == "http" else PackageTransport
        self._transport: Transport = kind(self._wire, self._options, settings.project_id, polls)
        self._book = JobBook(store, clock, claim_s=settings.call_s + _SPARE_S, pause=self._pause)

    @property
    def identity(self) -> str:
        """See `ports.Parser.identity`: service, interface, what changes results, and the parser of everything else."""
        options = self._options
        parts = (
            f"llamaparse@{VERSION}",
            self._transport.generation,
            f"tier={options.tier}",
            f"version={options.version}",
            f"language={options.language}",
            f"formats={','.join(sorted(self._settings.formats))}",
            self._inner.identity,
        )
        return " ".join(parts)

    def parse(self, data: bytes, name: str) -> ParsedDocument:
        """See `ports.Parser.parse`.

        Further codes, RejectedInput: `encrypted`, `too_large`, `parse_refused` (the service won't have the document),
        `parse_failed` (it failed at it, twice). Unavailable: `quota`, `unauthorized`, `rate_limited`, `provider_down`,
        `provider_timeout`, `bad_reply`, `parser_missing`, `parser_closed`; `parse_pending` for a job that goes on.
        """
        self._seen.job = None
        kind, ending = self._format(data, name)
        if not kind:
            return self._inner.parse(data, name)
        upload = Upload(data, f"{content_hash(data)[:16]}.{ending}", name)
        pages = self._pages(upload, self._key(data, ending))
        return document_of(pages, kind, name)

    def last_job(self) -> str:
        """See the port."""
        job = self.remote_job()
        return job.job_id if job else ""

    def remote_job(self) -> RemoteJob | None:
        """The job behind this thread's last call of `parse`, failed ones included; None if nothing was sent."""
        job: RemoteJob | None = getattr(self._seen, "job", None)
        return job

    def close(self) -> None:
        """End waits and connections, and close the inner parser. Jobs under way are found again."""
        self._closed.set()
        self._wire.close()
        self._inner.close()

    def _format(self, data: bytes, name: str) -> tuple[str, str]:
        """The format to send and the ending that tells it to the service; empty for what stays here."""
        formats, ending = self._settings.formats, extension(name)
        try:
            kind = detect(data, name)
        except RejectedInput as error:
            # A name alone says the format only where content can't: one of ours would have been recognised.
            if error.code == "unsupported" and ending in formats and ending not in PARSERS:
                return ending, ending
            return "", ""
        own = KIND_OF_EXTENSION.get(ending) == kind
        if kind in formats or (own and ending in formats):
            return kind, ending if own else kind
        return "", ""

    def _key(self, data: bytes, ending: str) -> str:
        """Of the job: the bytes, the options, and whose job it is."""
        chosen, options = self._settings, self._options
        account = (self._transport.generation, self._wire.host, chosen.project_id)
        return fingerprint(
            "llamaparse", content_hash(data), ending, *account, options.tier, options.version, options.language
        )

    def _pages(self, upload: Upload, key: str) -> tuple[RemotePage, ...]:
        if self._closed.is_set():
            raise _closed()
        until = time.monotonic() + self._settings.deadline_s
        lost: JobLost | None = None
        jobs = 0
        for _ in range(_PLACES_TRIED):
            place = self._book.open_place(key)
            job_id = self._book.job_at(key, place, until)
            if job_id is None:
                continue
            try:
                return self._follow(upload, key, place, job_id, until)
            except JobLost as error:
                self._book.lose(key, place)
                lost, jobs = error, jobs + 1
                if jobs == _JOBS_MAX:
                    break
        if lost is None:
            raise Unavailable("parse_pending", f"other workers keep losing {upload.name} at LlamaParse")
        raise RejectedInput("parse_failed", str(lost), remedy="Try again later, or read its format locally.")

    def _follow(self, upload: Upload, key: str, place: int, job_id: str, until: float) -> tuple[RemotePage, ...]:
        service = f"llamaparse {self._transport.generation}"

        def keep(found: str) -> None:
            self._seen.job = RemoteJob(found, 0, resumed=False, service=service)
            self._book.keep(key, place, found)

        self._seen.job = RemoteJob(job_id, 0, resumed=True, service=service) if job_id else None
        try:
            pages = self._transport.run(upload, job_id, keep, until)
        except BaseException:
            if self._seen.job is None:
                with suppress(Unavailable):  # nobody needs to wait for an upload that came to nothing
                    self._book.lose(key, place)
            raise
        seen: RemoteJob = self._seen.job
        self._seen.job = RemoteJob(seen.job_id, len(pages), seen.resumed, service)
        return pages

    def _pause(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            raise _closed()


def _closed() -> Unavailable:
    return Unavailable("parser_closed", "the parser has been closed")


def _check(settings: LlamaParseSettings) -> None:
    wrong = ""
    if settings.interface not in ("http", "package"):
        wrong = f"interface is {settings.interface!r}; use http or package"
    elif not settings.formats or not all(_FORMAT.fullmatch(one) for one in settings.formats):
        wrong = "formats are file name endings in lower case, without dots, at least one"
    elif settings.tier == "fast":
        wrong = "the tier `fast` gives no Markdown; use cost_effective, agentic or agentic_plus"
    elif not all(_PLAIN.fullmatch(one) for one in (settings.tier, settings.version, settings.language)):
        wrong = "tier, version and language are plain words"
    elif min(settings.deadline_s, settings.call_s, settings.poll_first_s, settings.poll_max_s) <= 0:
        wrong = "deadlines and waits are above 0"
    if wrong:
        raise RejectedInput("bad_settings", f"LlamaParse's {wrong}", remedy="Correct the setting.")
