"""LlamaParse over plain HTTP, in the second generation of its interface: one upload, then one address to ask.

POST /api/v2/parse/upload      multipart: `configuration` (JSON) and `file`  ->  {"id", "status", …}
GET  /api/v2/parse/{id}        {"job": {"id", "status", "error_message"}}
GET  …?expand=markdown         the same with {"markdown": {"pages": [{"page_number", "success", "markdown"}]}}
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from pipeline.adapters.parser_llamaparse_jobs import Options, Polls, RemotePage, Upload, is_job_id, pending
from pipeline.adapters.parser_llamaparse_pages import PAGES_MAX
from pipeline.adapters.parser_llamaparse_wire import JobLost, JobUnknown, Wire, bad_reply, failure_of
from pipeline.errors import Unavailable

_GROWTH: Final = 1.5
"""Each wait between two questions is so much longer than the one before."""


class HttpTransport:
    """`parser_llamaparse_jobs.Transport` for the interface `/api/v2/parse`."""

    generation = "v2"

    def __init__(self, wire: Wire, options: Options, project_id: str, polls: Polls) -> None:
        """Nothing is asked yet."""
        self._wire = wire
        self._options = options
        self._project = f"project_id={quote(project_id, safe='')}" if project_id else ""
        self._polls = polls

    def run(self, upload: Upload, job_id: str, keep: Callable[[str], None], until: float) -> tuple[RemotePage, ...]:
        """See `Transport.run`."""
        submitted = -math.inf
        if not job_id:
            job_id = self._submit(upload, until)
            submitted = time.monotonic()
            keep(job_id)
        self._await(upload.name, job_id, submitted, until)
        where = f"LlamaParse's job {job_id}"
        return _pages_of(self._ask(job_id, until, "expand=markdown"), where, self._wire.told)

    def _submit(self, upload: Upload, until: float) -> str:
        content, content_type = _multipart(self._wire.base_url, configuration(self._options), upload)
        path = "/api/v2/parse/upload" + (f"?{self._project}" if self._project else "")
        answer = self._wire.post(path, content, content_type, until).fields(self._wire.host)
        if not is_job_id(answer.get("id")):
            raise bad_reply(self._wire.host, "the upload got no job id")
        return str(answer["id"])

    def _await(self, name: str, job_id: str, submitted: float, until: float) -> None:
        wait_s, answered = self._polls.first_s, False
        while True:  # until the deadline
            try:
                if self._is_done(name, job_id, until):
                    return
                answered = True
            except JobUnknown:
                if not self._polls.is_new(submitted):
                    raise
            except Unavailable as error:
                if not answered or error.code != "provider_timeout" or time.monotonic() + wait_s < until:
                    raise
                raise pending(name, job_id, self._polls) from error  # the end came while it was asked once more
            if time.monotonic() + wait_s >= until:
                raise pending(name, job_id, self._polls)
            self._polls.pause(wait_s)
            wait_s = min(self._polls.longest_s, wait_s * _GROWTH)

    def _is_done(self, name: str, job_id: str, until: float) -> bool:
        job = self._ask(job_id, until).get("job")
        status = job.get("status") if isinstance(job, dict) else None
        if not isinstance(job, dict) or not isinstance(status, str):
            raise bad_reply(f"LlamaParse's job {job_id}", "it has no status")
        if status == "FAILED":
            words = job.get("error_message")
            raise failure_of(name, job_id, self._wire.told(words if isinstance(words, str) else "no reason given"))
        if status == "CANCELLED":
            raise JobLost(f"LlamaParse's job {job_id} was cancelled")
        # Any other status, those of later versions included, is taken for one on the way.
        return status == "COMPLETED"

    def _ask(self, job_id: str, until: float, *query: str) -> dict[str, Any]:
        asked = "&".join(part for part in (*query, self._project) if part)
        path = f"/api/v2/parse/{job_id}" + (f"?{asked}" if asked else "")
        return self._wire.get(path, until).fields(f"LlamaParse's job {job_id}")


def configuration(options: Options) -> dict[str, Any]:
    """What the upload asks for. Tables are wanted as Markdown, which our parser reads; the default is HTML."""
    wanted: dict[str, Any] = {
        "tier": options.tier,
        "version": options.version,
        "client_name": "lamina",
        "output_options": {"markdown": {"tables": {"output_tables_as_markdown": True}}},
    }
    if options.language:
        wanted["processing_options"] = {"ocr_parameters": {"languages": [options.language]}}
    return wanted


def _multipart(base_url: str, wanted: dict[str, Any], upload: Upload) -> tuple[bytes, str]:
    import httpx  # noqa: PLC0415  # only a deployment that asks the service needs it

    request = httpx.Request(
        "POST",
        base_url,
        data={"configuration": json.dumps(wanted)},
        files={"file": (upload.file_name, upload.data, "application/octet-stream")},
    )
    return request.read(), str(request.headers["content-type"])


def _pages_of(answer: dict[str, Any], where: str, told: Callable[[str], str]) -> tuple[RemotePage, ...]:
    markdown = answer.get("markdown")
    rows = markdown.get("pages") if isinstance(markdown, dict) else None
    if not isinstance(rows, list):
        raise bad_reply(where, "it has no pages")
    pages: dict[int, RemotePage] = {}
    for row in rows:
        number = row.get("page_number") if isinstance(row, dict) else None
        if type(number) is not int or not 1 <= number <= PAGES_MAX or number in pages:
            raise bad_reply(where, "its pages aren't numbered")
        text, error = row.get("markdown"), row.get("error")
        if row.get("success") is False:
            pages[number] = RemotePage(number, "", told(error if isinstance(error, str) else "no reason given"))
        elif isinstance(text, str):
            pages[number] = RemotePage(number, text)
        else:
            raise bad_reply(where, f"its page {number} has no text")
    return tuple(pages.values())
