"""The socket side: routing, the key, faults, and the emulator's own paths, which start with an underscore.

`POST /_reset` forgets everything; `GET /_journal` gives the writes so far; `POST /_behaviour` changes how it behaves;
`POST /_faults` adds faults, `DELETE /_faults` takes them away. None of these needs a key.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from . import control, documents, inference, records, vectors
from .faults import AFTER, BEFORE, Fault, Faults
from .limits import URL_BYTES
from .store import Behaviour, Refused, Store
from .wire import Call, Reply

VERSION = "2026-07"

VECTORS: dict[tuple[str, str], Callable[[Call], Reply]] = {
    ("POST", "vectors/upsert"): vectors.upsert,
    ("POST", "query"): vectors.query,
    ("GET", "vectors/fetch"): vectors.fetch,
    ("GET", "vectors/list"): vectors.list_ids,
    ("POST", "vectors/delete"): vectors.delete,
    ("POST", "vectors/update"): vectors.update,
}
DOCUMENTS: dict[str, Callable[[Call, str], Reply]] = {
    "upsert": documents.upsert,
    "search": documents.search,
    "fetch": documents.fetch,
    "delete": documents.delete,
    "update": documents.update,
    "list": documents.list_ids,
}
RECORDS: dict[str, Callable[[Call, str], Reply]] = {"upsert": records.upsert, "search": records.search}

_addresses = count(2)


def fresh_address() -> str:
    """A loopback address that nobody in this process has had: clients count failures by host, whatever the port."""
    n = next(_addresses)
    return f"127.{1 + os.getpid() % 200}.{n // 250}.{n % 250 + 2}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    emulator: PineconeEmulator

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients go away, which is what some tests are about."""


class Gate:
    """Stands before the first request that fits: it waits to be carried out until it is let through."""

    def __init__(self, path: str) -> None:
        self._path = re.compile(path)
        self._lock = threading.Lock()
        self._through = threading.Event()
        self.reached = threading.Event()

    def pass_by(self, path: str) -> None:
        """Wait, if this request is the one."""
        with self._lock:
            mine = not self.reached.is_set() and self._path.search(path) is not None
            if mine:
                self.reached.set()
        if mine:
            self._through.wait(600)

    def let_through(self) -> None:
        self._through.set()


class PineconeEmulator:
    """Serves from entering the context to leaving it."""

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        *,
        key: str = "test-key",
        address: str | None = None,
        port: int = 0,
        seed: int = 0,
    ) -> None:
        self.key = key
        self.behaviour = behaviour or Behaviour()
        self.store = Store(self.behaviour, seed)
        self.faults = Faults(seed)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        """Method, path and headers (in lower case) of every request with a key."""
        self.stopping = threading.Event()
        self.gate: Gate | None = None
        self._http = _Server((address or fresh_address(), port), _Handler)
        self._http.emulator = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    @contextmanager
    def held(self, path: str) -> Iterator[Gate]:
        """Hold the first request whose path fits the regular expression, inside the block at the longest."""
        self.gate = gate = Gate(path)
        try:
            yield gate
        finally:
            self.gate = None
            gate.let_through()

    @property
    def journal(self) -> list[Any]:
        """Every write so far, as it came and as it became visible."""
        with self.store.lock:
            return list(self.store.journal)

    def release(self) -> None:
        """Let readers see at once whatever still lags."""
        self.store.release()

    def reset(self) -> None:
        """Forget indexes, journal, faults and requests; behaviour stays."""
        self.store.reset()
        self.faults.clear()
        self.requests.clear()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> Reply:
        """What a request gets; errors in the service's form."""
        try:
            return self._answer(method, target, headers, raw)
        except Refused as error:
            body = {"error": {"code": error.code, "message": error.message}, "status": error.status}
            return Reply(body, error.status, error.headers)
        except Exception as error:  # noqa: BLE001 - a mistake in here must show as what it is
            return Reply({"error": {"code": "EMULATOR_BROKEN", "message": f"{target}: {error!r}"}}, 500)

    def _answer(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> Reply:
        if len(target) > URL_BYTES:
            raise Refused(414, "URI_TOO_LONG", f"the address has {len(target)} bytes")
        url = urlsplit(target)
        parts = tuple(unquote(part) for part in url.path.strip("/").split("/"))
        call = Call(self.store, method, parts, parse_qs(url.query, keep_blank_values=True), raw, host=self.url)
        if parts[0].startswith("_"):
            return self._own(call)
        if headers.get("api-key") != self.key:
            raise Refused(401, "UNAUTHENTICATED", "Invalid API Key")
        if headers.get("x-pinecone-api-version", VERSION) != VERSION:
            raise Refused(400, "INVALID_ARGUMENT", f"this emulator speaks version {VERSION} only")
        with self.store.lock:
            return self._route(call)

    def _route(self, call: Call) -> Reply:
        match call.parts:
            case ("indexes", *_):
                return control.indexes(call)
            case ("embed",):
                return inference.embed(call)
            case ("rerank",):
                return inference.rerank(call)
            case ("models", *_):
                return inference.models(call)
            case ("index", name, *rest):
                return _data(call, name, tuple(rest))
        if len(self.store.indexes) == 1:  # the bare host is the only index
            return _data(call, next(iter(self.store.indexes)), call.parts)
        raise Refused(404, "NOT_FOUND", f"no such path: {'/'.join(call.parts)}")

    def _own(self, call: Call) -> Reply:
        match call.method, call.parts[0]:
            case "POST", "_reset":
                self.reset()
            case "GET", "_journal":
                return Reply([write.to_json() for write in self.journal])
            case "POST", "_behaviour":
                for name, value in call.body.items():
                    if not hasattr(self.behaviour, name):
                        raise Refused(400, "INVALID_ARGUMENT", f"there is no behaviour {name}")
                    setattr(self.behaviour, name, value)
            case "POST", "_faults":
                self.faults.add(*(Fault(**rule) for rule in call.body))
            case "DELETE", "_faults":
                self.faults.clear()
            case _:
                raise Refused(404, "NOT_FOUND", f"no such path: {'/'.join(call.parts)}")
        return Reply({})


def _data(call: Call, name: str, parts: tuple[str, ...]) -> Reply:
    """A request to one index."""
    index = call.store.index(name)
    inner = Call(call.store, call.method, parts, call.query, call.raw, index, call.host)
    path = "/".join(parts)
    if path == "describe_index_stats":
        return vectors.stats(inner)
    if (call.method, path) in VECTORS:
        if index.family == "documents" and path != "vectors/list":
            raise Refused(400, "FAILED_PRECONDITION", f"{name} is a document index; use the documents API")
        return VECTORS[call.method, path](inner)
    match parts:
        case ("namespaces", space, "documents", verb) if verb in DOCUMENTS and call.method == "POST":
            if index.family != "documents":
                raise Refused(400, "FAILED_PRECONDITION", f"{name} is not a document index")
            return DOCUMENTS[verb](inner, space)
        case ("records", "namespaces", space, verb) if verb in RECORDS and call.method == "POST":
            if index.family != "records":
                raise Refused(400, "FAILED_PRECONDITION", f"{name} has no integrated model")
            return RECORDS[verb](inner, space)
        case ("namespaces",) | ("namespaces", _):
            return control.namespaces(inner)
    raise Refused(404, "NOT_FOUND", f"no such path: {path}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    disable_nagle_algorithm = True
    server: _Server

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        emulator, fault = self.server.emulator, None
        if not self.path.startswith("/_"):
            emulator.requests.append((self.command, self.path, headers))
            fault = emulator.faults.next(self.path)
            if emulator.gate is not None:
                emulator.gate.pass_by(self.path)
        try:
            if fault is None or fault.kind in AFTER:
                head, body = _encoded(emulator.answer(self.command, self.path, headers, raw))
            if fault is None:
                self.wfile.write(head + body)
            elif fault.kind in BEFORE:
                self._fail(fault)
            else:
                self.close_connection = True
                self._spoil(fault.kind, head, body)
        except OSError:  # the client has had enough
            self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _serve  # noqa: N815 - the names are the base class's

    def _fail(self, fault: Fault) -> None:
        """Instead of carrying the request out."""
        if fault.kind == "status":
            extra = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
            body = {"error": {"code": "INJECTED", "message": fault.message}, "status": fault.status}
            self.wfile.write(b"".join(_encoded(Reply(body, fault.status, extra))))
            return
        self.close_connection = True
        if fault.kind == "reset_before":
            self._reset()
        else:
            self.server.emulator.stopping.wait()

    def _spoil(self, kind: str, head: bytes, body: bytes) -> None:
        """After it was carried out."""
        if kind in ("garbage", "empty"):
            text = b"<html>upstream says hello" if kind == "garbage" else b"{}"
            self.wfile.write(_head(200, {}, len(text)) + text)
        elif kind == "miscount":
            told = re.sub(
                rb'("upserted_?[cC]ount": )(\d+)', lambda found: b"%s%d" % (found[1], int(found[2]) - 1), body
            )
            self.wfile.write(_head(200, {}, len(told)) + told)
        elif kind in ("slow_body", "slow_head"):
            slow = body if kind == "slow_body" else head + body
            self.wfile.write(head if kind == "slow_body" else b"")
            for at in range(len(slow)):
                self.wfile.write(slow[at : at + 1])
                if self.server.emulator.stopping.wait(0.05):
                    return
        else:
            self.wfile.write(head + body[: len(body) // 2] if kind == "half_body" else b"")
            self._reset()

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)  # no farewell: the client reads "connection reset"
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        os.close(self.connection.detach())

    def log_message(self, *_words: object) -> None:
        """Nothing: the tests' own output is enough."""


def _encoded(reply: Reply) -> tuple[bytes, bytes]:
    body = b"" if reply.body is None else json.dumps(reply.body, ensure_ascii=False).encode("utf-8", "replace")
    return _head(reply.status, reply.headers, len(body)), body


def _head(status: int, headers: dict[str, str], length: int) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status < 400 else 'Refused'}", "Content-Type: application/json"]
    lines += [f"Content-Length: {length}", f"x-pinecone-api-version: {VERSION}"]
    lines += [f"x-pinecone-request-id: {time.monotonic_ns()}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
