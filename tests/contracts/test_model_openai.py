"""Port `LanguageModel` over OpenAI's wire format: the real client, over loopback, against a server that tests script."""

from __future__ import annotations

import itertools
import json
import logging
import socket
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from email.utils import formatdate

import pytest
from openai_server import OpenAIServer, Reply, completion, failure

from pipeline import tokens
from pipeline.adapters.memory import VirtualClock
from pipeline.adapters.model_openai import OpenAIModel, OpenAISettings
from pipeline.errors import PipelineError, RejectedInput, Unavailable
from pipeline.models import ModelRequest, SameTask, TokenUsage, TypeSpec

KEY = 'sk-secret/0"1\\2'  # with characters that JSON escapes
MODELS = {"lite": "small", "standard": "medium", "pro": "large"}
SCHEMA = {"type": "object", "properties": {"same": {"type": "boolean"}}, "required": ["same"]}
TYPE = TypeSpec("person", "row")
REQUEST = ModelRequest(
    SameTask(TYPE, "Ada", ("wrote notes",), "A. Lovelace", ("a countess",)),
    system="You compare.",
    prompt="Is Ada A. Lovelace?",
    schema_name="same task",
    schema=SCHEMA,
    max_tokens=64,
)
WALL_NOW = 1_700_000_000.0


def model_of(base_url, **changes):
    settings = {"api_key": KEY, "models": MODELS, "deadline_s": 20.0} | changes
    return OpenAIModel(OpenAISettings(base_url, **settings), VirtualClock(WALL_NOW))


@contextmanager
def serving(script, **changes):
    """A server with a script, or with one reply to everything, and a model that asks it."""
    with OpenAIServer(script if callable(script) else lambda _body: script) as server:
        model = model_of(server.base_url, **changes)
        try:
            yield server, model
        finally:
            model.close()


def error_of(reply, request=REQUEST, **changes):
    with serving(reply, **changes) as (_, model), pytest.raises(PipelineError) as caught:
        model.answer(request)
    return caught.value


def head_of(*lines):
    return ("\r\n".join(["HTTP/1.1 200 OK", *lines]) + "\r\n\r\n").encode()


class Refusing:
    """A server that knows not every parameter, and says so as servers do."""

    def __init__(self, *refused, status=400, says="Unsupported parameter: '{}' is not supported with this model."):
        self.refused, self.status, self.says = refused, status, says

    def __call__(self, body):
        kind = body.get("response_format", {}).get("type")
        for name in self.refused:
            if name in body or name == kind:
                shown = f"response_format.type {name}" if name == kind else name
                return failure(self.status, self.says.format(shown), param=name)
        return completion()


def test_a_request_in_the_wire_format_and_its_reply():
    with serving(completion('{"same": true}')) as (server, model):
        reply = model.answer(replace(REQUEST, tier="pro"))
    assert (reply.text, reply.finish, reply.model) == ('{"same": true}', "stop", "served-model-2024")
    assert reply.usage == TokenUsage(prompt=30, completion=7, cache_read=20)
    assert server.bodies == [
        {
            "model": "large",
            "messages": [
                {"role": "system", "content": "You compare."},
                {"role": "user", "content": "Is Ada A. Lovelace?"},
            ],
            "max_completion_tokens": 64,
            "temperature": 0,
            "seed": 1,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "same_task", "schema": SCHEMA, "strict": True},
            },
        }
    ]
    assert model.deterministic is False


def test_only_named_headers_go_out_whatever_the_environment_says(monkeypatch):
    """Settings are the only reader of the environment; the client reads a dozen variables of its own."""
    for name in ("API_KEY", "ORG_ID", "PROJECT_ID", "ADMIN_KEY", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "leaked")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: leaked\nAuthorization: leaked\nUser-Agent: leaked")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with serving(completion()) as (server, model):
        model.answer(REQUEST)
    assert "leaked" not in str(server.asked)
    assert server.asked[0].headers.keys() == {
        *("accept", "accept-encoding", "authorization", "content-length", "content-type", "host", "user-agent")
    }
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.asked[0].headers["accept-encoding"] == "identity"  # nothing to unpack


def test_no_key_no_header():
    with serving(completion(), api_key="") as (server, model):
        model.answer(REQUEST)
    assert "authorization" not in server.asked[0].headers


def test_tiers_fall_back_to_what_is_configured():
    def served(**models):
        model = model_of("http://models.example:8080/v1", models=models)
        return [model.model(tier) for tier in ("lite", "standard", "pro")], [m.id for m in model.catalog()]

    assert served(**MODELS) == (["small", "medium", "large"], ["small", "medium", "large"])
    assert served(pro="large") == (["large", "large", "large"], ["large"])
    assert served(lite="small", pro="large") == (["small", "large", "large"], ["small", "large"])
    assert served(lite="small", standard="small") == (["small", "small", "small"], ["small"])
    assert {m.provider for m in model_of("http://models.example:8080/v1").catalog()} == {"models.example:8080"}
    with pytest.raises(RejectedInput, match="no language model"):
        served()


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        (("max_completion_tokens",), {"max_tokens", "temperature", "seed", "response_format"}),
        (("temperature",), {"max_completion_tokens", "seed", "response_format"}),
        (("seed", "temperature"), {"max_completion_tokens", "response_format"}),
        (("json_schema",), {"max_completion_tokens", "temperature", "seed", "response_format"}),
        (("json_schema", "json_object"), {"max_completion_tokens", "temperature", "seed"}),
        (("response_format", "seed", "temperature", "max_completion_tokens"), {"max_tokens"}),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_what_a_server_refuses_is_left_out_and_remembered(refused, left, status):
    with serving(Refusing(*refused, status=status)) as (server, model):
        assert model.answer(REQUEST).text == '{"ok": true}'
        first = len(server.bodies)
        assert model.answer(REQUEST).text == '{"ok": true}'
        assert first == 1 + len(refused) + (refused[0] == "response_format")
        assert len(server.bodies) == first + 1  # learned: no second detour
        assert server.bodies[-1].keys() - {"model", "messages"} == left
        assert model.answer(replace(REQUEST, tier="pro")).finish == "stop"
        assert len(server.bodies) == 2 * first + 1  # another model learns for itself


def test_the_schema_moves_into_the_system_message():
    with serving(Refusing("json_schema", says="{} is not supported")) as (server, model):
        model.answer(REQUEST)
    last = server.bodies[-1]
    assert last["response_format"] == {"type": "json_object"}
    system = last["messages"][0]["content"]
    assert system.startswith("You compare.\n\n")
    assert json.loads(system.splitlines()[-1]) == SCHEMA


def test_a_server_that_names_nothing_is_asked_without_a_format():
    def script(body):
        return Reply(400, "this feature is not supported") if "response_format" in body else completion()

    with serving(script) as (server, model):
        assert model.answer(REQUEST).finish == "stop"
    assert [b.get("response_format", {}).get("type") for b in server.bodies] == ["json_schema", "json_object", None]


def test_one_schema_that_is_refused_costs_the_others_nothing():
    def script(body):
        wanted = body["response_format"].get("json_schema", {"name": ""})
        if wanted["name"] == "bad":
            return failure(400, "Invalid schema for response_format 'bad': oneOf is not permitted.")
        return completion()

    with serving(script) as (server, model):
        model.answer(replace(REQUEST, schema_name="bad"))
        model.answer(REQUEST)
    assert [b["response_format"]["type"] for b in server.bodies] == ["json_schema", "json_object", "json_schema"]


def test_unstructured_never_asks_for_a_format():
    with serving(completion(), structured=False) as (server, model):
        model.answer(REQUEST)
    assert "response_format" not in server.bodies[0]
    assert json.dumps(SCHEMA, sort_keys=True) in server.bodies[0]["messages"][0]["content"]


def test_a_server_that_refuses_everything_is_left_after_a_few_calls():
    everything = "temperature seed max_completion_tokens max_tokens response_format not supported"
    with serving(failure(400, everything)) as (server, model):
        with pytest.raises(RejectedInput) as caught:
            model.answer(REQUEST)
        assert caught.value.code == "model_refused"
        assert len(server.bodies) == 6


@pytest.mark.parametrize(
    ("reply", "kind", "code", "wait_ms"),
    [
        (failure(429, "slow down", headers={"Retry-After": "7"}), Unavailable, "rate_limited", 7000),
        (failure(429, "slow down", headers={"Retry-After": "1.5"}), Unavailable, "rate_limited", 1500),
        (failure(429, "x", headers={"retry-after-ms": "250", "Retry-After": "9"}), Unavailable, "rate_limited", 250),
        (
            failure(429, "x", headers={"Retry-After": formatdate(WALL_NOW + 90, usegmt=True)}),
            Unavailable,
            "rate_limited",
            90_000,
        ),
        (failure(429, "x", headers={"Retry-After": formatdate(WALL_NOW - 90)}), Unavailable, "rate_limited", 0),
        (failure(429, "x", headers={"Retry-After": "-3"}), Unavailable, "rate_limited", 0),
        (failure(429, "x", headers={"Retry-After": "1e300"}), Unavailable, "rate_limited", 86_400_000),
        (failure(429, "x", headers={"Retry-After": "nan"}), Unavailable, "rate_limited", None),
        (failure(429, "x", headers={"Retry-After": "soon, 99 Foo 99999"}), Unavailable, "rate_limited", None),
        (failure(429, "x"), Unavailable, "rate_limited", None),
        (failure(429, "x", code="insufficient_quota"), Unavailable, "quota", None),
        (failure(402, "x"), Unavailable, "quota", None),
        (failure(401, "x"), Unavailable, "unauthorized", None),
        (failure(403, "x"), Unavailable, "unauthorized", None),
        (failure(503, "x", headers={"Retry-After": "2"}), Unavailable, "provider_down", 2000),
        (failure(500, "x"), Unavailable, "provider_down", None),
        (failure(408, "x"), Unavailable, "provider_down", None),
        (Reply(502, "<html>bad gateway"), Unavailable, "provider_down", None),
        (Reply(302, "", {"Location": "http://127.0.0.1:9/"}), Unavailable, "bad_reply", None),
        (Reply(204, ""), Unavailable, "bad_reply", None),
        (failure(400, "x", code="context_length_exceeded"), RejectedInput, "too_long", None),
        (failure(400, "This model's maximum context length is 8192 tokens."), RejectedInput, "too_long", None),
        (failure(422, "the prompt is too long: 9 > 8"), RejectedInput, "too_long", None),
        (failure(413, "x"), RejectedInput, "too_long", None),
        (failure(400, "bad request"), RejectedInput, "model_refused", None),
        (failure(404, "no such model"), RejectedInput, "model_refused", None),
        (Reply(422, [1, None, {"detail": "?"}]), RejectedInput, "model_refused", None),
        (Reply(400, b"\xff\xfe\x00"), RejectedInput, "model_refused", None),
        (Reply(400, "[" * 60_000), RejectedInput, "model_refused", None),
    ],
)
def test_errors_by_what_the_caller_does(reply, kind, code, wait_ms):
    error = error_of(reply)
    assert (type(error), error.code, getattr(error, "retry_after_ms", None)) == (kind, code, wait_ms)
    assert "small at 127.0.0.1:" in error.message
    assert str(reply.status) in error.message
    if code in ("quota", "unauthorized", "too_long", "model_refused"):
        assert error.remedy


def test_an_error_makes_one_call():
    """Whether to try again is decided in one place, and that isn't the client."""
    with serving(failure(500, "x")) as (server, model):
        for _ in range(2):
            with pytest.raises(Unavailable):
                model.answer(REQUEST)
        assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("reply", "finish", "text"),
    [
        (completion('{"a', finish="length"), "length", '{"a'),
        (completion(None, finish="length"), "length", ""),
        (completion("half", finish="content_filter"), "refusal", "half"),
        (completion(None, finish="content_filter"), "refusal", ""),
        (completion(choices=[{"message": {"content": None, "refusal": "I won't"}}]), "refusal", "I won't"),
        (completion("done", finish=None), "stop", "done"),
        (completion("half a pair: \ud83d."), "stop", "half a pair: ?."),
    ],
)
def test_how_a_reply_ends(reply, finish, text):
    with serving(reply) as (_, model):
        answer = model.answer(REQUEST)
    assert (answer.finish, answer.text) == (finish, text)
    answer.text.encode()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(body="<html>welcome"),
        Reply(body=b""),
        Reply(body=b"\xff\xff\xff\xff"),
        Reply(body="[" * 200_000),
        Reply(body="1" * 6000),
        Reply(body=[]),
        Reply(body={"error": {"message": "upstream said no"}}),
        completion(choices=[]),
        completion(choices={}),
        completion(choices=[None]),
        completion(choices=[{"message": "text"}]),
        completion(None),
        completion([{"type": "text"}]),
        completion({"same": True}, finish="content_filter"),
    ],
)
def test_a_reply_that_is_no_completion(reply):
    error = error_of(reply)
    assert (type(error), error.code) == (Unavailable, "bad_reply")
    assert len(error.message) < 400


def test_a_packed_reply_is_not_unpacked():
    """None is asked for; a few kilobytes could unpack to any size."""
    import gzip  # noqa: PLC0415

    packed = gzip.compress(json.dumps(completion().body).encode())
    assert error_of(Reply(body=packed, headers={"Content-Encoding": "gzip"})).code == "bad_reply"


@pytest.mark.parametrize(
    "usage", [None, [], "many", {"prompt_tokens": -1, "completion_tokens": True}, {"prompt_tokens": 1e9}]
)
def test_missing_usage_is_counted(usage):
    with serving(completion('{"same": false}', usage=usage)) as (_, model):
        reply = model.answer(REQUEST)
    prompt = tokens.count(REQUEST.system) + tokens.count(REQUEST.prompt)
    assert reply.usage == TokenUsage(prompt, tokens.count('{"same": false}'))


def test_a_reply_without_a_model_is_named_by_the_request():
    with serving(completion(model=None)) as (_, model):
        assert model.answer(REQUEST).model == "small"


DRIPS = {
    "nothing at all": lambda: Reply(raw=[]),
    "headers, then nothing": lambda: Reply(raw=[head_of("Content-Length: 9")]),
    "white space for ever": lambda: Reply(
        raw=itertools.chain([head_of("Transfer-Encoding: chunked")], itertools.repeat(b"1\r\n \r\n")), every_s=0.05
    ),
    "headers for ever": lambda: Reply(
        raw=itertools.chain([b"HTTP/1.1 200 OK\r\n"], (f"X-{n}: 1\r\n".encode() for n in itertools.count())),
        every_s=0.05,
    ),
    "early hints for ever": lambda: Reply(raw=itertools.repeat(b"HTTP/1.1 103 Early Hints\r\n\r\n"), every_s=0.05),
    "an error, byte by byte": lambda: Reply(
        raw=itertools.chain([b"HTTP/1.1 500 No\r\nContent-Length: 99999\r\n\r\n"], itertools.repeat(b"x")), every_s=0.05
    ),
}


@pytest.mark.parametrize("drip", DRIPS)
def test_the_deadline_holds_for_the_whole_call(drip):
    with serving(DRIPS[drip](), deadline_s=1.0) as (_, model):
        began = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            model.answer(REQUEST)
        took = time.monotonic() - began
    assert caught.value.code == "provider_timeout"
    assert 0.9 < took < 3


def test_the_deadline_holds_for_all_attempts_together():
    def script(body):
        time.sleep(0.4)
        return Refusing("temperature", "seed", "response_format")(body)

    with serving(script, deadline_s=1.0) as (server, model):
        began = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            model.answer(REQUEST)
        assert time.monotonic() - began < 3
        assert len(server.bodies) == 3
    assert caught.value.code == "provider_timeout"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_deadline_holds_while_sending(scheme):
    """A server that accepts and never reads: what the system doesn't buffer can't be written, and TLS never begins."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        model = model_of(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/v1", deadline_s=1.0)
        began = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            model.answer(replace(REQUEST, prompt="word " * 4_000_000))
        assert time.monotonic() - began < 5
        model.close()
    assert caught.value.code == "provider_timeout"


def test_a_reply_without_end_is_cut_off():
    endless = itertools.chain(
        [head_of("Transfer-Encoding: chunked")], itertools.repeat(b"10000\r\n" + b" " * 65536 + b"\r\n")
    )
    error = error_of(Reply(raw=endless))
    assert (type(error), error.code) == (Unavailable, "bad_reply")
    assert "16 MB" in error.message


@pytest.mark.parametrize(
    "raw",
    [
        [b"SSH-2.0-OpenSSH_9.6\r\n\r\n"],
        [head_of("Content-Length: 5", "Content-Length: 6"), b"hello"],
        [b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 300_000],
        [b"HTTP/1.1 99999 Bearer\r\n\r\n"],
    ],
)
def test_a_server_that_does_not_speak_http(raw):
    error = error_of(Reply(raw=raw), deadline_s=5.0)
    assert (type(error), error.code) == (Unavailable, "provider_down")


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "no-such-host.invalid", f"{'a' * 70}.example"):
        model = model_of(f"http://{host}/v1")
        with pytest.raises(Unavailable) as caught:
            model.answer(REQUEST)
        assert caught.value.code == "provider_down"
        assert host in caught.value.message
        model.close()


def everything_said(error, caplog):
    """All that a log of this error could hold, those errors included that it came from."""
    parts, seen = ["".join(traceback.format_exception(error)), caplog.text], error
    while seen is not None:
        parts += [repr(seen), str(seen), repr(vars(seen))]
        seen = seen.__cause__ or seen.__context__
    return "\n".join(parts)


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 500])
@pytest.mark.parametrize("form", ["message", "text", "object", "header", "status line"])
def test_the_key_is_never_told(status, form, caplog):
    """Servers repeat the key in their errors; logs and ledgers keep those for years."""
    caplog.set_level(logging.DEBUG)
    # At this level the network library logs a reply's raw headers, for whoever asks it to: nothing of ours to change.
    caplog.set_level(logging.INFO, logger="httpcore2")
    auth = f"Bearer {KEY}"
    reply = {
        "message": failure(status, f"Incorrect API key provided: {auth}"),
        "text": Reply(status, f"no: {auth}"),
        "object": Reply(status, {"headers": {"Authorization": auth}}),
        "header": Reply(status, "<html>", {"X-Echo": auth, "WWW-Authenticate": auth, "Location": "/" + KEY}),
        "status line": Reply(raw=[f"HTTP/1.1 {status}{auth}\r\n\r\n".encode()]),
    }[form]
    error = error_of(reply, deadline_s=5.0)
    said = everything_said(error, caplog)
    for told in (KEY, json.dumps(KEY)[1:-1], KEY[:9]):
        assert told not in said
    if form == "message":
        assert "[key]" in error.message


def test_the_key_is_in_no_repr():
    settings = OpenAISettings("http://127.0.0.1/v1", KEY, MODELS)
    model = OpenAIModel(settings, VirtualClock())
    assert KEY[:9] not in repr(settings) + str(settings) + repr(model)


def test_a_long_error_is_shortened_before_it_is_read():
    error = error_of(failure(400, f"so\x1b[31m\n\t much {KEY} " + "x" * 1_000_000))
    assert error.code == "model_refused"
    words = error.message.partition(" answered 400: ")[2]
    assert len(words) == 300
    assert words.isprintable()
    assert KEY[:9] not in words


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "models.example/v1",
        "ftp://models.example",
        "http://",
        "http://u:hunter2@h/v1",
        "http://h:port/v1",
        "http://[::1",
        "http://h/#v1",
    ],
)
def test_addresses_that_cannot_be_used(base_url):
    with pytest.raises(RejectedInput) as caught:
        model_of(base_url)
    assert caught.value.code == "bad_base_url"
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("key", ["sk-1\n", "sk-\u00e9", " sk", "sk\r\nX-Evil: 1"])
def test_keys_that_no_header_can_carry(key):
    with pytest.raises(RejectedInput) as caught:
        model_of("http://127.0.0.1/v1", api_key=key)
    assert caught.value.code == "bad_api_key"
    assert key.strip() not in caught.value.message


def test_a_prompt_with_half_a_surrogate_pair_is_sent():
    with serving(completion()) as (server, model):
        model.answer(replace(REQUEST, prompt="a\ud800b"))
    assert server.bodies[0]["messages"][1]["content"] == "a?b"


def test_threads_share_a_model():
    """Each gets the answer to its own question; what one has learned, all know."""
    together = threading.Barrier(8)

    def script(body):
        if "seed" in body:
            together.wait(10)  # so that all have asked before any is refused
            return failure(400, "unknown field: seed")
        return completion(body["messages"][1]["content"])

    with serving(script) as (server, model), ThreadPoolExecutor(8) as pool:
        asked = [f"question {n}" for n in range(40)]
        replies = pool.map(lambda text: model.answer(replace(REQUEST, prompt=text)), asked)
        assert [reply.text for reply in replies] == asked
        assert sum("seed" in body for body in server.bodies) == 8


def test_a_slow_call_does_not_hold_up_another():
    def script(body):
        return DRIPS["nothing at all"]() if body["messages"][1]["content"] == "slow" else completion()

    with serving(script, deadline_s=2.0) as (_, model), ThreadPoolExecutor(1) as pool:
        slow = pool.submit(model.answer, replace(REQUEST, prompt="slow"))
        assert model.answer(REQUEST).finish == "stop"
        assert not slow.done()
        assert isinstance(slow.exception(10), Unavailable)


def test_a_model_can_be_used_after_close():
    with serving(completion()) as (_, model):
        model.close()
        assert model.answer(REQUEST).finish == "stop"
        model.close()
        assert model.answer(REQUEST).finish == "stop"


def test_the_client_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    model = model_of("http://127.0.0.1:9/v1")
    assert model.model("pro") == "large"
    with pytest.raises(Unavailable) as caught:
        model.answer(REQUEST)
    assert caught.value.code == "language_model_missing"
    assert caught.value.remedy == "pip install 'lamina[openai]'"
