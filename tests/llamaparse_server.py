"""A server on loopback that speaks both generations of LlamaParse's interface, for tests that say what it does.

    first    POST /api/parsing/upload, GET /api/parsing/job/{id}, GET /api/parsing/job/{id}/result/json
    second   POST /api/v2/parse/upload, GET /api/v2/parse/{id}?expand=markdown

Each upload that it accepts is billed, in a journal that tests read. Faults are said for one step (`upload`, `status`,
`result`) and a number of times; after them the step works again.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

ADDRESS = "127.0.0.57" if sys.platform == "linux" else "127.0.0.1"
"""Of its own, so that nothing else on the machine can be mistaken for it."""

Step = Literal["upload", "status", "result"]
_FIRST = re.compile(r"/api/parsing/job/([^/]+)(?:/result/(json))?")
_SECOND = re.compile(r"/api/v2/parse/([^/]+)")


@dataclass(frozen=True)
class Fault:
    """What goes wrong at a step."""

    status: int = 0
    """Answered in place of the step."""
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    reset: Literal["", "before", "after"] = ""
    """The connection is reset, before the step is done or after it."""
    drip_s: float = 0.0
    """One byte of an endless head so often."""


@dataclass(frozen=True)
class Plan:
    """What becomes of an upload."""

    pages: tuple[str | None, ...] = ("# One\n\nFirst page.\n", "Second page.\n")
    """Markdown by page; None for a page that fails."""
    pending: int = 2
    """Questions about the status that are answered with `PENDING` first."""
    ends: str = "done"
    """`done`, or a status of the interface's own."""
    error_code: str = ""
    error_message: str = ""
    images: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Names of pictures by page, which only the first generation tells."""
    result: Any = None
    """In place of the result."""


@dataclass
class Job:
    """One job that the server has accepted."""

    id: str
    plan: Plan
    pending: int
    file_name: str
    data: bytes
    fields: dict[str, str]


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    step: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""


class LlamaParseServer:
    """Serves any number of connections, from entering the context to leaving it."""

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan or Plan()
        self.plans: list[Plan] = []
        """What becomes of the next uploads, one after the other; after them `plan` holds again."""
        self.jobs: dict[str, Job] = {}
        self.billed: list[str] = []
        """Ids of the jobs in the order in which they were accepted, those since forgotten included."""
        self.asked: list[Asked] = []
        self._faults: list[tuple[Step, Fault]] = []
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self._http = ThreadingHTTPServer((ADDRESS, 0), type("Handler", (_Handler,), {"wanted": self}))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://{ADDRESS}:{self._http.server_address[1]}"

    def fail(self, step: Step, fault: Fault, times: int = 1) -> None:
        """Let a step go wrong the next so many times."""
        with self.lock:
            self._faults += [(step, fault)] * times

    def forget(self, job_id: str) -> None:
        """Let a job expire."""
        with self.lock:
            del self.jobs[job_id]

    def steps(self) -> list[str]:
        """The steps of all requests so far."""
        with self.lock:
            return [asked.step for asked in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def accept(self, headers: Mapping[str, str], body: bytes) -> Job:
        """Take an upload and bill it."""
        fields, file_name, data = _parts_of(headers["content-type"], body)
        with self.lock:
            plan = self.plans.pop(0) if self.plans else self.plan
            job_id = f"job-{len(self.billed) + 1}-{hashlib.sha256(data).hexdigest()[:8]}"
            job = Job(job_id, plan, plan.pending, file_name, data, fields)
            self.jobs[job.id] = job
            self.billed.append(job.id)
        return job

    def answer(self, step: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        """Status and JSON for a request that nothing goes wrong with."""
        if step == "upload":
            job = self.accept(headers, body)
            told = {"id": job.id, "status": "PENDING"}
            return 200, told if path.startswith("/api/parsing/") else told | {"project_id": "p-1", "tier": "agentic"}
        match = _FIRST.fullmatch(path) or _SECOND.fullmatch(path)
        with self.lock:
            job = self.jobs.get(match.group(1)) if match else None
            if job is None:
                return 404, {"detail": "Job not found"}
            if step == "result":
                return 200, _first_result(job) if path.startswith("/api/parsing/") else _second_result(job)
            waiting = job.pending > 0
            job.pending -= 1
        plan = job.plan
        if path.startswith("/api/parsing/"):
            status = "PENDING" if waiting else {"done": "SUCCESS"}.get(plan.ends, plan.ends)
            told = {"id": job.id, "status": status, "error_code": plan.error_code, "error_message": plan.error_message}
            return 200, told
        return 200, {"job": _second_job(job, "RUNNING" if waiting else {"done": "COMPLETED"}.get(plan.ends, plan.ends))}

    def fault_at(self, step: str) -> Fault | None:
        with self.lock:
            for at, (wanted, fault) in enumerate(self._faults):
                if wanted == step:
                    del self._faults[at]
                    return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    """One connection; `wanted` is what it serves."""

    wanted: LlamaParseServer
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self._serve("upload")

    def do_GET(self) -> None:
        expands = "expand" in parse_qs(urlsplit(self.path).query)
        self._serve("result" if expands or "/result/" in self.path else "status")

    def _serve(self, step: str) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.wanted.lock:
            self.wanted.asked.append(Asked(step, self.path, headers))
        fault = self.wanted.fault_at(step) or Fault()
        try:
            if fault.reset == "before":
                return self._reset()
            body = self.rfile.read(int(headers.get("content-length", 0)))
            if fault.drip_s:
                return self._drip(fault.drip_s)
            if fault.status:
                return self._send(fault.status, fault.body, fault.headers)
            status, told = self.wanted.answer(step, urlsplit(self.path).path, headers, body)
            if fault.reset == "after":
                return self._reset()
            return self._send(status, told, {})
        except OSError:  # the client has had enough, which is what some tests are about
            self.close_connection = True

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _drip(self, every_s: float) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not self.wanted.stopping.wait(every_s):
            self.wfile.write(b"x")

    def _send(self, status: int, told: Any, headers: Mapping[str, str]) -> None:
        data = told if isinstance(told, bytes) else json.dumps(told).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def finish(self) -> None:
        with suppress(OSError, ValueError):  # it was reset
            super().finish()

    def log_message(self, *_words: object) -> None:
        """Nothing: the tests' own output is enough."""


def _first_result(job: Job) -> Any:
    if job.plan.result is not None:
        return job.plan.result
    pages = [
        {
            "page": number,
            "text": "" if text is None else text.replace("#", ""),
            "md": text or "",
            "status": "ERROR" if text is None else "OK",
            "images": [
                *({"name": name, "height": 10, "width": 10} for name in job.plan.images.get(number, ())),
                {"name": f"page_{number}.jpg", "type": "full_page_screenshot"},
            ],
            "items": [],
        }
        for number, text in enumerate(job.plan.pages, start=1)
    ]
    return {"pages": pages, "job_metadata": {"job_pages": len(pages), "job_is_cache_hit": False}}


def _second_job(job: Job, status: str) -> Any:
    words = " ".join(part for part in (job.plan.error_code, job.plan.error_message) if part)
    return {"id": job.id, "project_id": "p-1", "status": status, "error_message": words or None}


def _second_result(job: Job) -> Any:
    if job.plan.result is not None:
        return job.plan.result
    pages = [
        {"page_number": number, "success": False, "error": "the page can't be rendered"}
        if text is None
        else {"page_number": number, "success": True, "markdown": text}
        for number, text in enumerate(job.plan.pages, start=1)
    ]
    return {"job": _second_job(job, "COMPLETED"), "markdown": {"pages": pages}}


def _parts_of(content_type: str, body: bytes) -> tuple[dict[str, str], str, bytes]:
    """The form's fields, and the file's name and bytes."""
    message = email.message_from_bytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body, policy=email.policy.HTTP
    )
    fields, file_name, data = {}, "", b""
    for part in message.iter_parts():
        content = part.get_payload(decode=True)
        if part.get_filename() is not None:
            file_name, data = part.get_filename(), content
        else:
            fields[part.get_param("name", header="content-disposition")] = content.decode()
    return fields, file_name, data
