"""LlamaParse through the package `llama-parse`, which speaks the first generation of the interface.

The package is slow to import and is loaded at the first document. It sends its requests through `_Carrier`, which puts
them on our wire: that has the key, one deadline and our errors, so the package neither repeats an upload that may
already be paid for nor goes on asking about a job that is gone. Its own waits between questions grow by a second.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Final, Self
from urllib.parse import urlsplit

from pipeline.adapters.parser_llamaparse_jobs import Options, Polls, RemotePage, Upload, is_job_id, pending
from pipeline.adapters.parser_llamaparse_pages import PAGES_MAX
from pipeline.adapters.parser_llamaparse_wire import JobLost, JobUnknown, Wire, bad_reply, failure_of
from pipeline.errors import PipelineError, Unavailable

_IMPORTING: Final = threading.Lock()
_SCREENSHOT: Final = "full_page_screenshot"
"""Type of a picture that is the page itself."""


class PackageTransport:
    """`parser_llamaparse_jobs.Transport` for the interface `/api/parsing`."""

    generation = "v1"

    def __init__(self, wire: Wire, options: Options, project_id: str, polls: Polls) -> None:
        """Nothing is imported or asked yet."""
        self._wire = wire
        self._options = options
        self._project_id = project_id
        self._polls = polls

    def run(self, upload: Upload, job_id: str, keep: Callable[[str], None], until: float) -> tuple[RemotePage, ...]:
        """See `Transport.run`."""
        package = _imported()
        carrier = _Carrier(self._wire, self._polls, job_id, keep, until)
        rows: Any = None
        given_up: tuple[str, str] | None = None
        failed = ""
        try:
            result = asyncio.run(self._follow(package, carrier, upload))
            rows = [page.model_dump() for page in result.pages]
        except (PipelineError, JobLost):
            raise
        except TimeoutError:
            raise pending(upload.name, carrier.job_id, self._polls) from None
        except package.JobFailedException as error:
            given_up = (
                str(error.status),
                " ".join(str(part) for part in (error.error_code, error.error_message) if part),
            )
        except Exception as error:  # noqa: BLE001  # the package raises plain exceptions and those of its libraries
            failed = type(error).__name__
        # Out here, so that no error hangs on to one of the package's, which quote the service.
        if failed:
            raise bad_reply(self._wire.host, f"the package llama-parse gave up: {failed}")
        if given_up:
            rows = self._rows_all_the_same(upload.name, carrier.job_id, *given_up, until)
        return _pages_of(rows, f"LlamaParse's job {carrier.job_id}", self._wire.told)

    async def _follow(self, package: Any, carrier: _Carrier, upload: Upload) -> Any:
        import httpx  # noqa: PLC0415  # there, as the package is

        async with httpx.AsyncClient(transport=carrier, trust_env=False, follow_redirects=False) as client:  # type: ignore[arg-type]
            parser = package.LlamaParse(
                api_key="held-by-the-wire",
                base_url=self._wire.base_url,
                custom_client=client,
                project_id=self._project_id or None,
                tier=self._options.tier,
                version=self._options.version,
                language=self._options.language or None,
                save_images=False,
                ignore_errors=False,
                show_progress=False,
                verbose=False,
                check_interval=0,
                max_check_interval=max(1, round(self._polls.longest_s)),
                max_timeout=max(1, round(carrier.until - time.monotonic())),
            )
            if carrier.job_id:
                work = parser.aget_result(carrier.job_id)
            else:
                work = parser.aparse(upload.data, extra_info={"file_name": upload.file_name})
            return await asyncio.wait_for(work, max(0.0, carrier.until - time.monotonic()))

    def _rows_all_the_same(self, name: str, job_id: str, status: str, words: str, until: float) -> Any:
        """The pages of a job that did some of them, which the package takes for a failure."""
        if status in ("CANCELED", "CANCELLED"):
            raise JobLost(f"LlamaParse's job {job_id} was cancelled")
        if status != "PARTIAL_SUCCESS":
            raise failure_of(name, job_id, self._wire.told(words or "no reason given"))
        answer = self._wire.get(f"/api/parsing/job/{job_id}/result/json", until)
        return answer.fields(f"LlamaParse's job {job_id}").get("pages")


class _Carrier:
    """A transport of `httpx.AsyncClient` for one document, over the wire that all share."""

    def __init__(self, wire: Wire, polls: Polls, job_id: str, keep: Callable[[str], None], until: float) -> None:
        self._wire = wire
        self._polls = polls
        self._keep = keep
        self._submitted = -math.inf
        self.job_id = job_id
        self.until = until

    async def handle_async_request(self, request: Any) -> Any:
        """Send the method, the address and the body; what fails raises our errors, which the package lets pass."""
        import httpx  # noqa: PLC0415

        content = await request.aread()
        path = request.url.raw_path.decode("ascii").removeprefix(urlsplit(self._wire.base_url).path)
        if request.method == "GET":
            try:
                return httpx.Response(200, content=self._wire.get(path, self.until).body)
            except JobUnknown:
                if not self._polls.is_new(self._submitted):
                    raise
                return httpx.Response(404)  # after which the package asks again
        reply = self._wire.post(path, content, request.headers.get("content-type", ""), self.until)
        found = reply.fields(self._wire.host).get("id")
        if not is_job_id(found):
            raise bad_reply(self._wire.host, "the upload got no job id")
        self.job_id, self._submitted = str(found), time.monotonic()
        self._keep(self.job_id)
        return httpx.Response(200, content=reply.body)

    async def aclose(self) -> None:
        """Nothing is held."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Nothing is held."""


def _imported() -> Any:
    try:
        with _IMPORTING:
            if "llama_parse" not in sys.modules:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # it announces its own end
                    importlib.import_module("llama_parse")
            importlib.import_module("llama_parse")
            return importlib.import_module("llama_cloud_services.parse.base")
    except ImportError as error:
        raise Unavailable(
            "parser_missing",
            "the package llama-parse isn't installed",
            remedy="pip install 'lamina[llamaparse]', or set llamaparse_interface to http",
        ) from error


def _pages_of(rows: Any, where: str, told: Callable[[str], str]) -> tuple[RemotePage, ...]:
    if not isinstance(rows, list):
        raise bad_reply(where, "it has no pages")
    pages: dict[int, RemotePage] = {}
    for row in rows:
        number = row.get("page") if isinstance(row, dict) else None
        if type(number) is not int or not 1 <= number <= PAGES_MAX or number in pages:
            raise bad_reply(where, "its pages aren't numbered")
        text = row.get("md") or row.get("text") or ""
        status = row.get("status")
        failed = isinstance(status, str) and status.upper() in ("ERROR", "FAILED")
        images = [image for image in row.get("images") or () if isinstance(image, dict)]
        pages[number] = RemotePage(
            number,
            text if isinstance(text, str) else "",
            told(f"the service says {status}") if failed else "",
            tuple(told(str(image.get("name"))) for image in images if image.get("type") != _SCREENSHOT),
        )
    return tuple(pages.values())
