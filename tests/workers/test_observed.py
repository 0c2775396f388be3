"""Traces as a collector gets them, and Flower beside real workers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fleet_processes import Fleet, lamina, make_sources, wait_for
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Takes OTLP over HTTP, as a collector does."""

    def __init__(self, *, stalls: bool = False) -> None:
        self.raw: list[bytes] = []
        self.ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if stalls:
                    outer.ended.wait(60)
                outer.raw.append(body)
                with suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Length", "0")
                    self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def spans(self) -> list[dict[str, Any]]:
        out = []
        for raw in list(self.raw):
            for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
                about = {a.key: a.value.string_value for a in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        told = {a.key: a.value.string_value or a.value.int_value for a in span.attributes}
                        out.append(
                            {
                                "name": span.name, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
                                "parent": span.parent_span_id.hex(), "error": span.status.code == 2, **about, **told,
                            }
                        )  # fmt: skip
        return out


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_one_process(collector: Collector, tmp_path: Path) -> None:
    """A root, a span for each unit under it, and calls under those; nothing of what the documents say, or are called."""
    sources = tmp_path / "m4rked-folder"
    make_sources(sources, 6, mark="m4rkedword")
    more = {"LAMINA_TRACES_URL": collector.url}
    lamina(tmp_path / "home", more, "curate", str(sources), "--context", "notes")
    run = lamina(tmp_path / "home", {}, "runs", "notes")["runs"][0]
    spans = collector.spans()
    assert b"m4rked" not in b"".join(collector.raw)
    assert len({span["trace"] for span in spans}) == 1
    roots = [span for span in spans if not span["parent"]]
    assert [(r["name"], r["lamina.run"], r["lamina.state"]) for r in roots] == [
        ("curate notes", run["run"], "completed")
    ]
    units = [span for span in spans if span["parent"] == roots[0]["id"]]
    assert {u["name"] for u in units} >= {"inventory", "parse", "chunk", "embed_dense", "upsert", "seal", "flip"}
    assert len({u["lamina.unit"] for u in units}) == len(units)
    calls = {span["name"]: span for span in spans if span["parent"] in {u["id"] for u in units}}
    assert calls["embedder embed"]["lamina.count"] >= 6
    assert calls["index upsert"]["lamina.count"] >= 6
    assert {span["service.name"] for span in spans} == {"lamina"}


def test_processes_of_a_fleet_share_a_trace(collector: Collector, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 24)
    with Fleet(tmp_path / "home", LAMINA_TRACES_URL=collector.url) as fleet:
        for _ in range(2):
            fleet.work()
        run = fleet.lamina("submit", str(sources))["run"]
        assert fleet.until_ended(run) == "completed"
        wait_for(lambda: any(not s["parent"] for s in collector.spans()), 20, "the root")
        time.sleep(1.5)
    spans = [span for span in collector.spans() if span.get("lamina.run") == run]
    assert len({span["trace"] for span in spans}) == 1
    assert len({span["service.instance.id"] for span in spans}) >= 2
    units = [span["lamina.unit"] for span in spans if span["parent"] and not span["error"]]
    assert sorted(units) == sorted(set(units)), "each unit once"


@pytest.mark.parametrize("kind", ["stalls", "away"])
def test_a_collector_that_does_not_answer_costs_nothing(kind: str, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 6)
    collector = Collector(stalls=True)
    url = collector.url
    if kind == "away":
        collector.close()
    began = time.monotonic()
    told = lamina(tmp_path / "home", {"LAMINA_TRACES_URL": url}, "curate", str(sources))
    spent = time.monotonic() - began
    collector.close()
    assert told["delta"]["new"] == 6
    assert spent < 30


def test_flower_shows_workers_and_tasks(tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 8)
    with Fleet(tmp_path / "home") as fleet, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        log = (tmp_path / "flower.log").open("wb")
        flower = subprocess.Popen(
            [sys.executable, "-m", "celery", f"--broker={fleet.broker.url}", "flower", f"--port={port}", "--address=127.0.0.1"],
            env={**os.environ, "FLOWER_UNAUTHENTICATED_API": "true"}, stdout=log, stderr=log, cwd=tmp_path,
        )  # fmt: skip
        try:

            def ask(path: str) -> Any:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
                        return json.load(reply)
                except (urllib.error.URLError, OSError, ValueError):
                    return {}

            wait_for(lambda: ask("/api/tasks?limit=1") == {} and _listens(port), 30, "flower")
            fleet.work()
            run = fleet.lamina("submit", str(sources))["run"]
            assert fleet.until_ended(run) == "completed"

            def seen() -> set[str]:
                return {task["name"] for task in ask("/api/tasks").values() if task["state"] == "SUCCESS"}

            wait_for(
                lambda: {"lamina.parse", "lamina.upsert", "lamina.flip"} <= seen(), 30, "tasks in flower", every=0.5
            )
            wait_for(lambda: any("w1@" in name for name in ask("/api/workers?refresh=1")), 30, "workers", every=1)
        finally:
            flower.kill()
            flower.wait()
            log.close()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
