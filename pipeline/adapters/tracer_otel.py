"""Tracer: OpenTelemetry's SDK, sending by OTLP over HTTP. Each process opens its own at its first span."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags

from pipeline.errors import PipelineError
from pipeline.rows import RunRow
from pipeline.units import UnitClaim

QUEUE: Final = 4096
"""Spans that wait to be sent; what comes past them is dropped."""
SEND_S: Final = 3.0
"""Longest one attempt to send may take, and the longest wait when a process ends."""
PERIOD_MS: Final = 1000
_NS: Final = 1_000_000_000


class _Ids(RandomIdGenerator):
    """Random, unless the thread has asked for a certain one."""

    def __init__(self) -> None:
        self.next = threading.local()

    def generate_span_id(self) -> int:
        """64 bits."""
        wanted = getattr(self.next, "span", 0)
        self.next.span = 0
        return wanted or super().generate_span_id()

    def generate_trace_id(self) -> int:
        """128 bits."""
        return getattr(self.next, "trace", 0) or super().generate_trace_id()


@dataclass(slots=True)
class _Opened:
    provider: TracerProvider
    ids: _Ids
    pid: int = field(default_factory=os.getpid)


class OtelTracer:
    """Port `Tracer`. Threads may share one; a forked child opens its own."""

    def __init__(self, endpoint: str, version: str, instance: str) -> None:
        """Nothing is sent or started yet.

        Args:
            endpoint: of the collector: `http://host:4318`.
            version: of Lamina.
            instance: names this process among the others.
        """
        self._endpoint = endpoint.rstrip("/")
        self._about = {"service.name": "lamina", "service.version": version, "service.instance.id": instance}
        self._lock = threading.Lock()
        self._opened: _Opened | None = None

    @contextmanager
    def unit(self, claim: UnitClaim) -> Iterator[None]:
        """See the port."""
        about = {
            "lamina.run": claim.run,
            "lamina.context": claim.context,
            "lamina.stage": claim.stage,
            "lamina.unit": f"{claim.stage}/{claim.batch}",
            "lamina.attempt": claim.attempts,
            "lamina.size": claim.size,
        }
        with self._span(claim.stage, about, trace.set_span_in_context(_root(claim.run))):
            yield

    @contextmanager
    def call(self, what: str, method: str, count: int) -> Iterator[None]:
        """See the port."""
        if not trace.get_current_span().get_span_context().is_valid:
            yield
            return
        with self._span(f"{what} {method}", {"lamina.port": what, "lamina.count": count}, None):
            yield

    def run(self, row: RunRow) -> None:
        """See the port."""
        opened = self._open()
        root = _root(row.id).get_span_context()
        opened.ids.next.trace, opened.ids.next.span = root.trace_id, root.span_id
        about: dict[str, str | int] = {
            "lamina.run": row.id,
            "lamina.context": row.context,
            "lamina.kind": row.kind,
            "lamina.state": row.state,
            "lamina.version": row.number,
        }
        with suppress(Exception):  # a tracer never stops a run
            tracer = opened.provider.get_tracer("lamina")
            span = tracer.start_span(
                f"{row.kind} {row.context}", trace.set_span_in_context(trace.INVALID_SPAN), attributes=about,
                start_time=int(row.created_at * _NS),
            )  # fmt: skip
            if row.state == "failed":
                span.set_status(Status(StatusCode.ERROR))
            span.end(int(max(row.ended_at, row.created_at) * _NS))
        opened.ids.next.trace = 0

    def close(self) -> None:
        """See the port."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened.pid == os.getpid():
            with suppress(Exception):
                opened.provider.force_flush(int(SEND_S * 1000))
                opened.provider.shutdown()

    @contextmanager
    def _span(self, name: str, about: dict[str, Any], context: Any) -> Iterator[None]:
        tracer = self._open().provider.get_tracer("lamina")
        with tracer.start_as_current_span(
            name, context, attributes=about, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as error:
                code = error.code if isinstance(error, PipelineError) else type(error).__name__
                span.set_attribute("error.type", code)
                span.set_status(Status(StatusCode.ERROR))
                raise

    def _open(self) -> _Opened:
        with self._lock:
            if self._opened is None or self._opened.pid != os.getpid():
                ids = _Ids()
                provider = TracerProvider(
                    resource=Resource.create(self._about), id_generator=ids, shutdown_on_exit=False
                )
                exporter = OTLPSpanExporter(endpoint=f"{self._endpoint}/v1/traces", timeout=SEND_S)
                provider.add_span_processor(
                    BatchSpanProcessor(
                        exporter,
                        max_queue_size=QUEUE,
                        schedule_delay_millis=PERIOD_MS,
                        max_export_batch_size=QUEUE // 8,
                        export_timeout_millis=SEND_S * 1000,
                    )
                )
                for name in ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk.trace.export"):
                    logging.getLogger(name).addFilter(_once)
                self._opened = _Opened(provider, ids)
            return self._opened


_said: set[str] = set()


def _once(record: logging.LogRecord) -> bool:
    """Whether that kind of trouble wasn't told of yet: a collector that is away would fill the log."""
    known = record.msg in _said
    _said.add(str(record.msg))
    return not known


def _root(run: str) -> NonRecordingSpan:
    """The run's own span, wherever it is or will be recorded."""
    digest = hashlib.sha256(f"lamina run {run}".encode()).digest()
    ids = int.from_bytes(digest[:16], "big"), int.from_bytes(digest[16:24], "big")
    return NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)))
