"""A server on loopback that speaks OpenAI's chat completions; the test says what it answers.

It is as real as a server can be without a model: HTTP/1.1 over a socket, with connections that stay open, so a client is
tested with its own network code. `Reply.raw` writes bytes of any kind, for servers that misbehave.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Reply:
    """What the server sends for one request."""

    status: int = 200
    body: Any = ""
    """JSON values are encoded; text and bytes go as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: Iterable[bytes] | None = None
    """Written in place of status, headers and body, one piece every `every_s`; then the connection is held open."""
    every_s: float = 0.0


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Any


Script = Callable[[Any], Reply]


def completion(text: Any = '{"ok": true}', *, finish: str | None = "stop", **changes: Any) -> Reply:
    """A chat completion; `changes` replaces its top-level keys, and a value of None takes a key away."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "served-model-2024",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 7,
            "total_tokens": 37,
            "prompt_tokens_details": {"cached_tokens": 20},
        },
    } | changes
    return Reply(body={name: value for name, value in body.items() if value is not None})


def failure(status: int, message: str, *, headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
    """An error in OpenAI's form; `fields` are those beside the message, such as `code` and `param`."""
    return Reply(status, {"error": {"message": message, "type": "invalid_request_error", **fields}}, headers or {})


class OpenAIServer:
    """Serves one script to any number of connections, from entering the context to leaving it."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def bodies(self) -> list[Any]:
        """The parsed bodies of all requests so far, in the order in which they came."""
        with self._lock:
            return [asked.body for asked in self.asked]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with server._lock:
                    server.asked.append(Asked(self.path, headers, body))
                reply = server.script(body) if self.path == PATH else failure(404, f"no such path: {self.path}")
                try:
                    self._send_raw(reply) if reply.raw is not None else self._send(reply)
                except OSError:  # the client has had enough, which is what some tests are about
                    self.close_connection = True

            def _send(self, reply: Reply) -> None:
                data = reply.body if isinstance(reply.body, str | bytes) else json.dumps(reply.body)
                data = data.encode() if isinstance(data, str) else data
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _send_raw(self, reply: Reply) -> None:
                self.close_connection = True
                for piece in reply.raw or ():
                    self.wfile.write(piece)
                    if server._stopping.wait(reply.every_s):
                        return
                server._stopping.wait()

            def log_message(self, *_words: object) -> None:
                """Nothing: the tests' own output is enough."""

        return Handler
