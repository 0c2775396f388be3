"""`docs/faults.md` is held to its word: its rows are the promised ones, and what they name is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/faults.md").read_text("utf-8")
PROMISED = (
    "kill at every boundary", "broker flush", "duplicate delivery", "lost acknowledgement", "zombie writer", "429 storm",
    "provider outage", "poison file", "full disk", "torn file", "clock jump", "database restart",
)  # fmt: skip
SETTINGS = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/settings.md").read_text("utf-8"), re.MULTILINE))


def _rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


TWELVE, MORE = _rows("The twelve"), _rows("More of them")


def test_the_promised_faults_in_their_order() -> None:
    assert tuple(re.match(r"\*\*(.+?)\*\*", row[0]).group(1) for row in TWELVE) == PROMISED  # type: ignore[union-attr]
    assert MORE


@pytest.mark.parametrize("row", [*TWELVE, *MORE], ids=lambda row: row[0][:40])
def test_a_row_is_whole_and_its_test_is_there(row: list[str]) -> None:
    assert len(row) == (6 if row in TWELVE else 4)
    assert all(row)
    path, name = row[-1].strip("`").split("::")
    if row in TWELVE:
        assert path.startswith("tests/faults/")
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert name in there, f"{path} has no {name}"


@pytest.mark.parametrize("row", TWELVE, ids=lambda row: row[0][:40])
def test_the_times_are_settings_and_their_defaults(row: list[str]) -> None:
    """Every name that looks like a setting is one, and a number behind it is its default."""
    defaults = dict(
        re.findall(r"^\| `(\w+)` \| `([^`]*)`", (ROOT / "docs/settings.md").read_text("utf-8"), re.MULTILINE)
    )
    for name, told in re.findall(r"`(\w+_\w+)`(?: \((a day|[\d.]+)[^)]*\))?", row[3]):
        assert name in SETTINGS, f"{name} is no setting"
        if told:
            assert float(defaults[name]) == (86_400.0 if told == "a day" else float(told)), name


def test_every_fault_test_is_told_of() -> None:
    """The other way round: a module of fault tests that no row names would be a promise that nobody knows."""
    named = {row[-1].strip("`").split("::")[0] for row in [*TWELVE, *MORE]}
    modules = {f"tests/faults/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert modules - named == {"tests/faults/test_contract.py"}
