"""Language model: any endpoint that speaks OpenAI's chat completions, through the official client.

Servers differ in what they take, so the fullest request goes first and what a server refuses by name is left out from
then on, model by model. The client's transport is `Wire`: it holds the key, sends a fixed set of headers and
gives each call one deadline and one size, whatever the client or the environment would have it do.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

from pipeline.adapters.model_openai_wire import ERROR_BYTES_MAX, Wire
from pipeline.errors import RejectedInput, Unavailable
from pipeline.models import CatalogModel, Finish, ModelReply, ModelRequest, Tier, TokenUsage
from pipeline.ports import Clock

SHOWN_CHARS: Final = 300
"""Of a server's own words in a message."""
_WAIT_MS_MAX: Final = 24 * 3600 * 1000
_COUNTED_CHARS: Final = 1_000_000
"""Counted exactly where a server reports no usage (2 s at worst); past it, four characters are a token."""
_SEED: Final = 1
_FALLBACKS: Final[Mapping[Tier, tuple[Tier, ...]]] = {
    "lite": ("lite", "standard", "pro"),
    "standard": ("standard", "pro", "lite"),
    "pro": ("pro", "standard", "lite"),
}

_FORMAT = r"response_?format|json_?schema|structured.?output|guided|grammar"
_FEATURES: Final = {
    "temperature": re.compile(r"\btemperature\b"),
    "seed": re.compile(r"\bseed\b"),
    "max_completion_tokens": re.compile(r"\bmax_completion_tokens\b"),
    "json_schema": re.compile(_FORMAT),
    "json_object": re.compile(rf"{_FORMAT}|json_?object|json.?mode"),
}
"""What a server may refuse, with the words by which it does; the first that was sent and is named is left out."""
_UNSUPPORTED = re.compile(r"not supported|unsupported|not implemented")
_OWN_SCHEMA = re.compile(r"invalid_json_schema|invalid (?:json.?)?schema")
"""The schema of this one request is refused, not schemas as such."""
_TOO_LONG = re.compile(
    r"context.?length|context.?window|context.?size|too many (?:input |prompt )?tokens|maximum (?:input|prompt) length|"
    r"(?:prompt|input|request|message|messages) (?:is|are|was) too (?:long|large)|string_above_max_length|max_new_tokens"
)
_NO_CREDIT = re.compile(r"insufficient_quota|insufficient.{0,20}(?:credit|balance|funds)|exceeded your current quota")


@dataclass(frozen=True, slots=True)
class OpenAISettings:
    """Where the models are."""

    base_url: str
    """Up to and without `/chat/completions`."""
    api_key: str = field(repr=False)
    """Empty where the server asks for none."""
    models: Mapping[Tier, str]
    """At least one."""
    deadline_s: float = 180.0
    """For a whole call, from connecting to the last byte, all attempts at a request that the server takes included."""
    structured: bool = True
    """Ask the server to hold to the schema; otherwise the schema only stands in the prompt."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class OpenAIModel:
    """Port `LanguageModel`. Threads may share one instance and its connections."""

    deterministic: Final = False

    def __init__(self, settings: OpenAISettings, clock: Clock) -> None:
        """Nothing is imported or connected yet.

        Raises:
            RejectedInput: no model is named, or address or key can't be used.
        """
        if not any(settings.models.values()):
            raise RejectedInput("no_model", "no language model is named", remedy="Name one for at least one tier.")
        self._settings = settings
        self._clock = clock
        self._host = _host_of(settings.base_url)
        self._wire = Wire(self._host, _checked_key(settings.api_key))
        self._lock = threading.Lock()
        self._client: Any = None
        self._refused: dict[str, frozenset[str]] = {}

    def model(self, tier: Tier) -> str:
        """The tier's own model, otherwise the nearest that is configured, a stronger one before a weaker one."""
        models = self._settings.models
        return next(models[near] for near in _FALLBACKS[tier] if models.get(near))

    def catalog(self) -> tuple[CatalogModel, ...]:
        """The configured models, weakest tier first; a model that serves two tiers stands once."""
        names = dict.fromkeys(self._settings.models.get(tier) for tier in _FALLBACKS["lite"])
        return tuple(CatalogModel(name, name, self._host) for name in names if name)

    def close(self) -> None:
        """End idle connections. The next call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def answer(self, request: ModelRequest) -> ModelReply:
        """One answer; see the port for the contract. What the server refuses by name is left out and asked again."""
        model = self.model(request.tier)
        until = time.monotonic() + self._settings.deadline_s
        plain = frozenset[str]() if self._settings.structured else frozenset(("json_schema", "json_object"))
        with self._lock:
            refused = self._refused.get(model, plain)
        learned = refused
        for _ in range(len(_FEATURES) + 1):  # each round leaves one feature out, or ends
            answer = self._post(_wire_request(request, model, refused), until)
            if answer.status == 200:  # noqa: PLR2004
                reply = _reply_of(answer.body, request, model)
                if reply is None:
                    raise self._bad_reply(model, answer.body)
                with self._lock:
                    self._refused[model] = self._refused.get(model, plain) | learned
                return reply
            shown, searched = _words_of(answer.body)
            feature = _refused_feature(answer.status, searched, refused)
            if feature is None:
                break
            refused |= {feature}
            if not (feature == "json_schema" and _OWN_SCHEMA.search(searched)):
                learned |= {feature}
        where = f"{model} at {self._host} answered {answer.status}: {self._told(shown)}"
        raise _error_of(answer.status, searched, where, _retry_after_ms(answer.headers, self._clock.now()))

    def _post(self, body: Mapping[str, Any], until: float) -> _Answer:
        client = self._open()
        import openai  # noqa: PLC0415  # there, since `_open` did not complain

        self._wire.allow(until)
        failed = ""
        try:
            raw = client.chat.completions.with_raw_response.create(**body)
            response = raw.http_response
        except openai.APIStatusError as error:
            response = error.response
        except openai.OpenAIError as error:
            failed = type(error).__name__
        # Raised out here, without a cause: the client's errors carry the server's words, which may repeat the key.
        if failed:
            raise Unavailable("provider_down", f"the client of {self._host} gave up: {failed}")
        return _Answer(response.status_code, response.headers, response.content)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _client(self._settings.base_url, self._wire)
            return self._client

    def _bad_reply(self, model: str, body: bytes) -> Unavailable:
        words = self._told(_words_of(body[:ERROR_BYTES_MAX])[0])
        return Unavailable(
            "bad_reply",
            f"{model} at {self._host} answered with something that isn't a chat completion: {words}",
            remedy="Check that the base URL is that of an OpenAI-compatible API.",
        )

    def _told(self, words: str) -> str:
        return _told(words, self._settings.api_key)


def _host_of(base_url: str) -> str:
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https") or parts.username is not None or parts.fragment:
        # Not shown: a wrong address may hold a password.
        raise RejectedInput(
            "bad_base_url",
            "the language model's base URL isn't an http or https address without a user name",
            remedy="Write it like https://host/v1; the key has a setting of its own.",
        )
    return host if port is None else f"{host}:{port}"


def _checked_key(key: str) -> str:
    if key.isascii() and (key.isprintable() and key == key.strip()):
        return key
    raise RejectedInput(
        "bad_api_key",
        "the language model's API key holds white space or characters that a header can't carry",
        remedy="Copy the key again, without quotes and line ends.",
    )


def _client(base_url: str, wire: Wire) -> Any:
    # Imported here: it takes a second, and only a deployment with such a model has it.
    try:
        import httpx2  # noqa: PLC0415  # the client's own HTTP library
        import openai  # noqa: PLC0415
    except ImportError as error:
        raise Unavailable(
            "language_model_missing",
            "the client for OpenAI-compatible language models isn't installed",
            remedy="pip install 'lamina[openai]'",
        ) from error
    http = httpx2.Client(transport=wire, trust_env=False, follow_redirects=False)  # type: ignore[arg-type]
    # The client looks into the environment for whatever it isn't given. The key isn't its business: `Wire` has it.
    return openai.OpenAI(
        api_key="held-by-the-transport",
        admin_api_key="",
        organization="",
        project="",
        webhook_secret="",
        base_url=base_url,
        max_retries=0,
        timeout=None,
        http_client=http,
    )


def _wire_request(request: ModelRequest, model: str, refused: frozenset[str]) -> dict[str, Any]:
    system = request.system
    body: dict[str, Any] = {"model": model}
    body["max_tokens" if "max_completion_tokens" in refused else "max_completion_tokens"] = request.max_tokens
    if "temperature" not in refused:
        body["temperature"] = 0
    if "seed" not in refused:
        body["seed"] = _SEED
    if "json_schema" not in refused:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", request.schema_name)[:64] or "reply"
        wanted = {"name": name, "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    else:
        schema = json.dumps(dict(request.schema), ensure_ascii=False, sort_keys=True)
        system = f"{system}\n\nAnswer with one JSON value that obeys this JSON schema, and with nothing else:\n{schema}"
        if "json_object" not in refused:
            body["response_format"] = {"type": "json_object"}
    body["messages"] = [
        {"role": "system", "content": _encodable(system)},
        {"role": "user", "content": _encodable(request.prompt)},
    ]
    return body


def _refused_feature(status: int, searched: str, refused: frozenset[str]) -> str | None:
    """The feature to leave out, in the server's words or, where it names none, the reply format."""
    if status not in (400, 422) or _TOO_LONG.search(searched):
        return None
    sent = [feature for feature in _FEATURES if feature not in refused]
    if "json_schema" in sent and "json_object" in sent:
        sent.remove("json_object")  # goes out only once the schema is refused
    named = next((feature for feature in sent if _FEATURES[feature].search(searched)), None)
    if named is None and _UNSUPPORTED.search(searched):
        named = next((feature for feature in sent if feature.startswith("json")), None)
    return named


def _words_of(body: bytes) -> tuple[str, str]:
    """What an error's body says to a person, and all of it that rules look into, in lower case."""
    text = body.decode("utf-8", "replace")
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    if isinstance(error, str):
        return error, error.lower()
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        values = (error.get(name) for name in ("message", "code", "type", "param"))
        return error["message"], " ".join(value for value in values if isinstance(value, str)).lower()
    return text, text.lower()


def _told(words: str, key: str) -> str:
    """The words on one line, shortened, without the key: as it is and as JSON writes it."""
    for form in (key, json.dumps(key)[1:-1], key.replace("/", "\\/")) if key else ():
        words = words.replace(form, "[key]")
    line = " ".join("".join(char if char.isprintable() else " " for char in words).split())
    return line if len(line) <= SHOWN_CHARS else line[: SHOWN_CHARS - 1] + "…"


def _error_of(status: int, searched: str, where: str, wait_ms: int | None) -> Unavailable | RejectedInput:
    if status in (401, 403):
        return Unavailable("unauthorized", where, remedy="Check the API key and which models it may use.")
    if status == 402 or (status == 429 and _NO_CREDIT.search(searched)):  # noqa: PLR2004
        return Unavailable("quota", where, remedy="Add credit or raise the limit at the provider, then run again.")
    if status == 429:  # noqa: PLR2004
        return Unavailable("rate_limited", where, remedy="Lower the number of calls at once.", retry_after_ms=wait_ms)
    if status >= 500 or status in (408, 409, 425):  # noqa: PLR2004  # the latter three ask for another try, by their definition
        return Unavailable("provider_down", where, retry_after_ms=wait_ms)
    if status < 400:  # noqa: PLR2004
        return Unavailable(
            "bad_reply", where, remedy="Check the base URL: the server points elsewhere or says nothing."
        )
    return _rejection_of(status, searched, where)


def _rejection_of(status: int, searched: str, where: str) -> RejectedInput:
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(searched)):  # noqa: PLR2004
        return RejectedInput("too_long", where, remedy="Name a model with a longer context, or split the document.")
    return RejectedInput("model_refused", where, remedy="Check the model's name, the base URL and the server's log.")


def _retry_after_ms(headers: Mapping[str, str], now: float) -> int | None:
    """What the provider asks to wait, at most a day; None where it says nothing that can be read."""
    for name, unit_ms in (("retry-after-ms", 1.0), ("retry-after", 1000.0)):
        try:
            value = float(headers.get(name, "")) * unit_ms
        except ValueError:
            continue
        if math.isfinite(value):
            return min(_WAIT_MS_MAX, max(0, math.ceil(value)))
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        left_ms = ((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now) * 1000
    except (ValueError, TypeError, OverflowError):
        return None
    return min(_WAIT_MS_MAX, max(0, math.ceil(left_ms)))


def _reply_of(body: bytes, request: ModelRequest, model: str) -> ModelReply | None:
    """The reply in a chat completion; None if it isn't one."""
    try:
        parsed = json.loads(body)
        choice = parsed["choices"][0]
        message, reason = choice["message"], choice.get("finish_reason")
        text, refusal = message.get("content"), message.get("refusal")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    finish: Finish = "length" if reason == "length" else "stop"
    if reason == "content_filter" or (isinstance(refusal, str) and refusal):
        finish = "refusal"
        text = text or refusal
    if not isinstance(text, str):
        if text is not None or finish == "stop":
            return None
        text = ""  # cut before the first word, or declined without one
    text = _encodable(text)
    name = parsed.get("model")
    name = _encodable(name)[:200] if isinstance(name, str) and name else model
    return ModelReply(text, finish, _usage_of(parsed.get("usage"), request, text), name)


def _usage_of(usage: Any, request: ModelRequest, text: str) -> TokenUsage:
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    prompt, completion = _amount(usage.get("prompt_tokens")), _amount(usage.get("completion_tokens"))
    return TokenUsage(
        prompt=_count(request.system) + _count(request.prompt) if prompt is None else prompt,
        completion=_count(text) if completion is None else completion,
        cache_read=(_amount(details.get("cached_tokens")) or 0) if isinstance(details, dict) else 0,
    )


def _amount(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _count(text: str) -> int:
    from pipeline import tokens  # noqa: PLC0415  # a vocabulary of megabytes, wanted where a server tells no usage

    return tokens.count(text[:_COUNTED_CHARS]) + max(0, len(text) - _COUNTED_CHARS) // 4


def _encodable(text: str) -> str:
    # Half of a surrogate pair, which JSON can spell, would fail wherever the text is written.
    return text.encode("utf-8", "replace").decode("utf-8")
