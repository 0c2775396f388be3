"""Settings: where they come from, what is refused, and that the page about them says what is true."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from pipeline.errors import RejectedInput
from pipeline.settings import GROUPS, Settings, load, setting_names

PAGE = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
ROWS = {row.split("`")[1]: row for row in PAGE.splitlines() if row.startswith("| `")}


def test_defaults(tmp_path: Path) -> None:
    held = load({"LAMINA_HOME": str(tmp_path)}, tmp_path)
    assert (held.home, held.embedder, held.project_id, held.limits.keep_versions) == (tmp_path, "minilm", "local", 2)
    assert held.user
    assert 1 <= held.worker_count <= 4


def test_the_environment_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "lamina.toml").write_text(
        'embedder = "static"\nworkers = 3\nkeep_runs = 4\n[limits]\nlease_s = 12\n[parser]\nwall_s = 5.5\n'
    )
    held = load({"LAMINA_HOME": str(tmp_path), "LAMINA_WORKERS": "7", "OTHER": "x"}, tmp_path)
    assert (held.embedder, held.workers, held.worker_count) == ("static", 7, 7)
    assert (held.limits.keep_runs, held.limits.lease_s, held.parser.wall_s) == (4, 12.0, 5.5)


def test_which_file_is_read(tmp_path: Path) -> None:
    """The one that is named, else the current folder's, else the home's."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    environ = {"LAMINA_HOME": str(home)}
    (home / "lamina.toml").write_text("workers = 1\n")
    assert load(environ, here).workers == 1
    (here / "lamina.toml").write_text("workers = 2\n")
    assert load(environ, here).workers == 2
    (tmp_path / "named.toml").write_text("workers = 3\n")
    assert load({**environ, "LAMINA_CONFIG": str(tmp_path / "named.toml")}, here).workers == 3
    with pytest.raises(RejectedInput, match=r"LAMINA_CONFIG names .*gone"):
        load({**environ, "LAMINA_CONFIG": str(tmp_path / "gone")}, here)


def test_every_fault_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "lamina.toml").write_text("colour = 1\nembedder = 5\n[limits]\nlease_s = true\n[nowhere]\na = 1\n")
    with pytest.raises(RejectedInput) as refused:
        load(
            {"LAMINA_HOME": str(tmp_path), "LAMINA_WORKERS": "many", "LAMINA_KEEP_RUNS": "-1", "LAMINA_SPEED": "9"},
            tmp_path,
        )
    told = refused.value.message
    for fault in (
        "'colour'",
        "embedder takes text",
        "lease_s takes a number",
        "'nowhere'",
        "LAMINA_WORKERS",
        "that isn't negative",
        "'speed'",
    ):
        assert fault in told
    assert "lamina.toml" in told
    assert refused.value.remedy


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe", b"[limits"])
def test_a_file_that_is_no_toml(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lamina.toml").write_bytes(content)
    with pytest.raises(RejectedInput, match="can't be read"):
        load({"LAMINA_HOME": str(tmp_path)}, tmp_path)


def test_every_setting_has_a_row_and_every_row_a_setting() -> None:
    assert set(ROWS) == set(setting_names())


@pytest.mark.parametrize("name", setting_names())
def test_a_row_tells_the_default(name: str) -> None:
    """As the code has it; home and user depend on the machine."""
    _, _, default, meaning, _ = ROWS[name].split("|")
    assert len(meaning.strip()) > 20
    if name not in ("home", "user"):
        owner = next(o for o in (Settings, *GROUPS.values()) if name in {f.name for f in fields(o)})
        held = next(f.default for f in fields(owner) if f.name == name)
        assert default.strip() == f"`{held}`"
