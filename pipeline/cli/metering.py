"""metrics: numbers for operators, once or on a port."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import typer

from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson
from pipeline.errors import PipelineError, Unavailable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_S = 10
"""How long one client may take to ask."""


def metrics(
    context: typer.Context,
    *,
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Serve /metrics there until Ctrl-C; 0: print once."
        ),
    ] = 0,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to serve on.")] = "127.0.0.1",
    as_json: AsJson = False,
) -> int:
    """Numbers for operators out of the ledger, in Prometheus' text format: runs, units, queues, times, spending."""
    from pipeline import metrics as flow  # noqa: PLC0415  # brings the stages and their libraries

    call = invocation(context, as_json=as_json)
    if port:
        return _serve(call, host, port)
    samples = flow.collect(call.ports)
    if as_json:
        rows = [{"name": s.name, "labels": dict(s.labels), "value": s.value} for s in samples]
        call.console.document({"metrics": rows})
    else:
        call.console.block(flow.text(samples))
    return 0


def _serve(call: Invocation, host: str, port: int) -> int:
    from pipeline import metrics as flow  # noqa: PLC0415  # as above

    ports, one_at_a_time = call.ports, threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_S

        def do_GET(self) -> None:
            if self.path != "/metrics":
                self._answer(404, b"see /metrics\n")
                return
            try:
                with one_at_a_time:  # however many ask, the ledger is asked by one
                    found = flow.text(flow.collect(ports)).encode()
            except PipelineError as error:
                self._answer(503, f"{error.code}: {error.message}\n".encode())
                return
            self._answer(200, found)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: Any) -> None:
            """Nothing: whoever scrapes does it all day."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise Unavailable(
            "port_taken", f"can't serve on {host}:{port}: {error.strerror}", remedy="choose another --port"
        ) from error
    call.console.note(f"metrics: http://{host}:{port}/metrics; Ctrl-C ends it")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0
