"""doctor: whether this installation and this deployment can work, and what to do where they can't."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import typer

from pipeline import settings as configuration
from pipeline.cli.invocation import Invocation, invocation
from pipeline.cli.options import AsJson
from pipeline.console import bytes_text, counted
from pipeline.errors import PipelineError
from pipeline.ports import DenseEmbedder
from pipeline.types import ContextSlug, Namespace

UNFINISHED = 3
FREE_BYTES_MIN = 1_000_000_000
"""Below this much free space a curate of any size may run out of it."""
PYTHON_MIN = (3, 11)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def doctor(context: typer.Context, *, as_json: AsJson = False) -> int:
    """Check the installation, the settings, the models, the parser and the ledger."""
    call = invocation(context, as_json=as_json)
    checks: list[Check] = []
    for check in _checks(call):
        checks.append(check)
        call.console.line(f"{'ok ' if check.ok else 'NOT'} {check.name}: {check.detail}")
        if not check.ok and check.remedy:
            call.console.line(check.remedy, indent=4)
    whole = all(check.ok for check in checks)
    if as_json:
        listed = [{"name": c.name, "ok": c.ok, "detail": c.detail, "remedy": c.remedy} for c in checks]
        call.console.document({"ok": whole, "checks": listed})
    return 0 if whole else UNFINISHED


def _checks(call: Invocation) -> Iterator[Check]:
    yield _python()
    yield from _dependencies()
    settings = _settings(call)
    yield from settings
    yield _tokens()
    if not all(check.ok for check in settings):
        return
    yield _tried("home", lambda: _home(call))
    opened = _tried("ledger", lambda: _ledger(call))
    yield opened
    if opened.ok:
        for name, embedder in call.ports.embedders.items():
            yield _tried(f"model {name}", lambda embedder=embedder: _model(embedder))  # type: ignore[misc]
        yield _tried("parser", lambda: _parser(call))
        yield from _services(call)


def _tried(name: str, check: Callable[[], str | Check]) -> Check:
    try:
        found = check()
    except PipelineError as error:
        return Check(name, ok=False, detail=error.message, remedy=error.remedy)
    except OSError as error:
        return Check(
            name, ok=False, detail=str(error), remedy="check the folder's permissions, or set LAMINA_HOME to another"
        )
    return found if isinstance(found, Check) else Check(name, ok=True, detail=found)


def _python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info[:2] >= PYTHON_MIN, version, "install Python 3.11 or newer")


def _dependencies() -> Iterator[Check]:
    try:
        requirements = importlib.metadata.requires("lamina") or []
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "lamina", ok=False, detail="runs from its source, not installed", remedy="install it: pip install ."
        )
        return
    for requirement in requirements:
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        if match is None or "extra ==" in requirement:
            continue
        try:
            yield Check(match.group(), ok=True, detail=importlib.metadata.version(match.group()))
        except importlib.metadata.PackageNotFoundError:
            yield Check(
                match.group(), ok=False, detail="not installed", remedy=f"install it: pip install '{requirement}'"
            )


def _settings(call: Invocation) -> list[Check]:
    """The settings in effect and where each comes from, found by loading them with less and less to read."""
    file_only = {
        key: value
        for key, value in call.environ.items()
        if key in (configuration.CONFIG, configuration.PREFIX + "HOME")
    }
    try:
        held = _values(call.settings)
        from_file = _values(configuration.load(file_only, call.folder()))
    except PipelineError as error:
        return [Check("settings", ok=False, detail=error.message, remedy=error.remedy)]
    default = _values(configuration.Settings(call.settings.home))
    named = configuration.PREFIX + "HOME" in call.environ
    out = []
    for key in configuration.setting_names():
        if key == "home":
            origin = "environment" if named else "default" if held[key] == from_file[key] else "file"
        elif held[key] != from_file[key]:
            origin = "environment"
        else:
            origin = "default" if held[key] == default[key] or key == "user" else "file"
        shown = "(set, not shown)" if key in configuration.SECRET and held[key] else held[key]
        out.append(Check(f"setting {key}", ok=True, detail=f"{shown} ({origin})"))
    return out


def _values(settings: configuration.Settings) -> dict[str, object]:
    owners = (settings, *(getattr(settings, group) for group in configuration.GROUPS))
    return {item.name: getattr(owner, item.name) for owner in owners for item in fields(owner)}


def _home(call: Invocation) -> Check:
    home = call.settings.home
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=home):
        free = shutil.disk_usage(home).free
    detail = f"{home} can be written, {bytes_text(free)} free"
    return Check("home", free >= FREE_BYTES_MIN, detail, "free some space, or set LAMINA_HOME to another disk")


def _ledger(call: Invocation) -> str:
    with call.ports.ledger.read() as session:
        return counted(len(session.contexts.list()), "context")


def _services(call: Invocation) -> Iterator[Check]:
    """Those that the settings name."""
    from pipeline import hosted  # noqa: PLC0415  # adapters are for verbs that use them

    if call.settings.services.broker_url or hosted.broker_file(call.settings).exists():
        yield _tried("broker", lambda: _broker(call))
    if call.settings.services.objects_url:
        yield _tried("objects", lambda: _objects(call))
    if call.settings.index != "local":
        yield _tried("index", lambda: _index(call))


def _broker(call: Invocation) -> str:
    from pipeline import hosted  # noqa: PLC0415  # as above

    dispatch = hosted.dispatch(call.settings)
    try:
        dispatch.check()
    finally:
        dispatch.close()
    return "answers"


def _objects(call: Invocation) -> str:
    store = call.ports.objects(ContextSlug("doctor"))
    store.put_many({"checked": b"lamina doctor"})
    store.delete_many(["checked"])
    return f"{call.settings.services.objects_url} takes objects, and none twice"


def _index(call: Invocation) -> str:
    held = sum(1 for _ in call.ports.index(ContextSlug("doctor")).scan(Namespace("doctor.g1.chunks")))
    return f"{call.settings.index} answers" + (f", {held} records" if held else "")


def _tokens() -> Check:
    from pipeline import tokens  # noqa: PLC0415  # loads a vocabulary of 1.7 MB

    def check() -> str:
        return f"{tokens.IDENTITY}, {tokens.count('one word')} tokens in 'one word'"

    return _tried("tokenizer", check)


def _model(embedder: DenseEmbedder) -> str:
    embedded = embedder.embed(["word"])
    identity = embedder.identity
    return f"{identity.name} {identity.version}, {embedded.vectors.shape[1]} dimensions, sha256 {identity.sha256[:12]}"


def _parser(call: Invocation) -> str:
    document = call.ports.parser.parse(b"# Check\n\nOne sentence.\n", "check.md")
    return f"{call.ports.parser.identity}; a child process read a {document.kind} file"
