"""An import that is killed before any of its effects on files: the tree shows none of it, or all once it is used again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import bootstrap, contexts, importing, landing, staging
from pipeline.ports import Ports
from pipeline.settings import Settings
from pipeline.types import ContextSlug

SLUG = ContextSlug("ctx")
OLD = {"a.md": b"old", "stays.md": b"stays"}
NEW = {"a.md": b"new", "b.md": b"b", "c.md": b"c"}

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from pipeline import bootstrap, importing
from pipeline.settings import Settings

folder, given = Path(sys.argv[1]), sys.argv[2:]
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
left = -1

def count(event, arguments):
    global left
    effect = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir") or (
        event == "open" and isinstance(arguments[0], str) and "/contexts/" in arguments[0] and arguments[2] & WRITES
    )
    if left > 0 and effect:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
number = 0
while True:
    number += 1
    home = folder / f"home-{number}"
    shutil.copytree(folder / "template", home)
    pid = os.fork()
    if not pid:
        settings = Settings(home=home)
        ports = bootstrap.build(settings)
        left = number
        importing.import_files(ports, "ctx", bootstrap.staged_places(settings, "ctx"), given, replace=True)
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended != -signal.SIGKILL:
        print(number, ended)
        sys.exit()
"""


def tree(places: landing.Places) -> dict[str, bytes]:
    return {str(p.relative_to(places.tree)): p.read_bytes() for p in places.tree.rglob("*") if p.is_file()}


def import_again(ports: Ports, places: landing.Places, given: Path) -> dict[str, bytes]:
    importing.import_files(ports, SLUG, places, [str(given)])
    return {given.name: given.read_bytes()}


def add(ports: Ports, places: landing.Places, given: Path) -> dict[str, bytes]:
    staging.add(ports, SLUG, places, [str(given)], into="", replace=False)
    return {given.name: given.read_bytes()}


def remove(ports: Ports, places: landing.Places, _: Path) -> dict[str, bytes]:
    staging.remove(ports, SLUG, places, ["stays.md"])
    return {}


def read(ports: Ports, _: landing.Places, __: Path) -> dict[str, bytes]:
    """What a curate does first of all."""
    with ports.ledger.read() as session:
        context = session.contexts.get(SLUG)
    assert context is not None
    assert ports.sources(context).exists()
    return {}


NEXT: tuple[Callable[[Ports, landing.Places, Path], dict[str, bytes]], ...] = (read, import_again, add, remove)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_before_every_effect(tmp_path: Path) -> None:
    """Whatever the next command is, it finds the old tree or makes the new one whole; half is seen by nobody after it."""
    folder = tmp_path
    for name, data in NEW.items():
        (folder / name).write_bytes(data)
    (folder / "next.md").write_bytes(b"next")
    settings = Settings(home=folder / "template")
    ports = bootstrap.build(settings)
    contexts.open_context(ports, SLUG, kind="staged", root="")
    places = bootstrap.staged_places(settings, SLUG)
    places.tree.mkdir(parents=True)
    for name, data in OLD.items():
        (places.tree / name).write_bytes(data)
    bootstrap.close(ports)
    root = str(Path(importing.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), *(str(folder / name) for name in NEW)],
        env={"PYTHONPATH": root}, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    number, ended = map(int, done.stdout.split())
    assert ended == 0, done.stderr
    seen = Counter(
        _after_a_kill(folder / f"home-{n}", NEXT[n % len(NEXT)], folder / "next.md") for n in range(1, number)
    )
    assert set(seen) == {"nothing", "half", "whole"}
    assert seen["half"] >= len(NEW)


def _after_a_kill(home: Path, following: Callable[..., dict[str, bytes]], given: Path) -> str:
    settings = Settings(home=home)
    places = bootstrap.staged_places(settings, SLUG)
    found = tree(places)
    imports = list(places.imports.rglob("*.jsonl")) if places.imports.exists() else []
    committed = any(p.name == "plan.jsonl" or p.parent == places.imports for p in imports)
    assert committed or found == OLD
    ports = bootstrap.build(settings)
    try:
        more = following(ports, places, given)
    finally:
        bootstrap.close(ports)
    want = {**OLD, **(NEW if committed else {}), **more}
    if following is remove:
        del want["stays.md"]
    assert tree(places) == want
    reports = [p for p in places.imports.glob("*.jsonl") if "next.md" not in p.read_text()] if imports else []
    if committed:
        records = [json.loads(line) for line in reports[0].read_text().splitlines()]
        assert [record["out"] for record in records] == [[name] for name in NEW]
        assert not list(places.imports.glob("*/plan.jsonl"))
    return "nothing" if found == OLD else "whole" if found == {**OLD, **NEW} else "half"
