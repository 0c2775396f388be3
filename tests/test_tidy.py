"""Sizes, names and words: what a reader of the code may rely on."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CODE = sorted([*ROOT.glob("pipeline/**/*.py"), *ROOT.glob("manifests/**/*.py")])
TEXT = sorted(
    p for pattern in ("*.md", "docs/**/*.md", "**/*.py", "**/*.toml", "**/*.yml", "Makefile", "Dockerfile", ".ci/*")
    for p in ROOT.glob(pattern)
    if not {".venv", ".git", "build", "dist"} & set(p.relative_to(ROOT).parts) and p.is_file()
)  # fmt: skip

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
VAGUE = {"utils", "util", "helpers", "common", "base", "core", "misc", "manager", "handler"}


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", CODE, ids=_id)
def test_files_and_functions_stay_small(path: Path) -> None:
    source = path.read_text("utf-8")
    assert source.count("\n") <= FILE_LINES_MAX
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


def test_no_module_has_a_vague_name() -> None:
    assert not [p for p in CODE if p.stem in VAGUE]


def test_no_marker_words_and_no_places_of_a_machine() -> None:
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|/home/[a-z]+/[a-z]|/ro" + r"ot/")
    found = [f"{_id(p)}: {m.group()}" for p in TEXT if (m := marks.search(p.read_text("utf-8", "replace")))]
    assert not [f for f in found if "docker-compose" not in f]  # a container's own home is no place of a machine


def test_only_console_prints_and_only_settings_reads_the_environment() -> None:
    for path in CODE:
        source = path.read_text("utf-8")
        if path.name != "console.py":
            assert not re.search(r"^\s*print\(", source, re.MULTILINE), path
        if path.name not in ("settings.py", "__main__.py", "invocation.py"):
            assert "os.environ" not in source, path
            assert "os.getenv" not in source, path


def test_readme_names_every_verb() -> None:
    from typer.main import get_command  # noqa: PLC0415  # the command line is heavy for the other tests here

    from pipeline.cli.app import build_app  # noqa: PLC0415

    readme = (ROOT / "README.md").read_text("utf-8")
    for verb in get_command(build_app()).commands:  # type: ignore[attr-defined]
        assert f"lamina {verb}" in readme, verb
