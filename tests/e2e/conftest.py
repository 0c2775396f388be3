"""The command line as a person meets it: arguments in, exit status and two streams out, over a real deployment."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.app import run

CONTRACT = Path(__file__).parents[3] / "shared" / "spec" / "contract.py"

GUIDE = """# Otter guide

Otters are kept in the north pond.

## Feeding

Otters eat fish twice a day, at dawn and at dusk.

## Cleaning

The pond is drained on the first Monday of the month.
"""
DAMS = "# Beavers\n\nBeavers build dams of branches and mud.\n"


@cache
def contract() -> Any:
    """The contract's own checker, with its document read once."""
    spec = importlib.util.spec_from_file_location("contract", CONTRACT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    setattr(module, "load_spec", cache(module.load_spec))  # noqa: B010  # the module is nobody's type
    return module


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)

    @property
    def refusal(self) -> dict[str, str]:
        """The error of a call with --json: one line of JSON at the end of standard error, nothing on standard output."""
        assert self.out == ""
        told: dict[str, str] = json.loads(self.err.splitlines()[-1])["error"]
        assert set(told) == {"code", "message", "remedy"}
        return told


@dataclass
class Lamina:
    """A deployment in a folder of its own, and the command in front of it."""

    folder: Path
    capture: Callable[[], tuple[str, str]]

    @property
    def environ(self) -> dict[str, str]:
        return {"LAMINA_HOME": str(self.folder / "home"), "LAMINA_EMBEDDER": "static", "LAMINA_WORKERS": "2"}

    def __call__(self, *arguments: object, **environ: str) -> Ended:
        self.capture()
        status = run([str(a) for a in arguments], {**self.environ, **environ}, lambda: self.folder)
        return Ended(status, *self.capture())

    def ok(self, *arguments: object) -> str:
        """Standard output of a call that must succeed."""
        ended = self(*arguments)
        assert ended.status == 0, ended
        return ended.out

    def json(self, *arguments: object) -> Any:
        """The document of a call that must succeed."""
        ended = self(*arguments, "--json")
        assert ended.status == 0, ended
        return ended.document

    def holds(self, name: str, document: object) -> None:
        """The document is what the contract calls `name`; not asked where the contract isn't at hand."""
        if CONTRACT.exists():
            assert contract().validate(name, document) == []

    def write(self, path: str, content: str | bytes) -> Path:
        """A file below the test's folder."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return place

    def zoo(self) -> Path:
        """A folder of two documents."""
        self.write("zoo/guide.md", GUIDE)
        return self.write("zoo/animals/beavers.md", DAMS).parents[1]


@pytest.fixture
def lamina(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lamina:
    return Lamina(tmp_path, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type,return-value]


@pytest.fixture(scope="session")
def curated_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: context `zoo` curated from a folder, context `held` with one staged file, never curated."""
    held = Lamina(tmp_path_factory.mktemp("curated"), lambda: ("", ""))
    assert held("curate", held.zoo()).status == 0
    assert held("add", "held", held.write("a.md", "held\n")).status == 0
    return held.folder


@pytest.fixture
def curated(curated_folder: Path, capsys: pytest.CaptureFixture[str]) -> Lamina:
    """A deployment that tests only look at."""
    return Lamina(curated_folder, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type,return-value]
