"""What holds for every verb: help with an example, a place in the documents, pure --json, light imports, plain errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import pipeline
from pipeline.cli.app import build_app

PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
HEAVY = (
    "onnxruntime",
    "tokenizers",
    "tiktoken",
    "liteparse",
    "wordllama",
    "safetensors",
    "tree_sitter",
    "manifests.model",
)


def verbs(command: Any = None, path: str = "lamina") -> Iterator[tuple[str, Any]]:
    """Every verb with its full name."""
    command = command or typer.main.get_command(build_app())
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from verbs(inner, f"{path} {name}")
        else:
            yield f"{path} {name}", inner


VERBS = dict(verbs())


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_has_help_with_an_example(lamina: Any, name: str) -> None:
    told = lamina.ok(*name.split()[1:], "--help")
    assert f"Example: {name}" in told
    assert "--json" in told
    assert len(VERBS[name].help) > 20


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_and_option_is_documented(name: str) -> None:
    """Its own section names the verb, each option and an example."""
    section = PAGE.partition(f"### `{name}")[2].partition("\n##")[0]
    assert f"\n{name}" in section
    for parameter in VERBS[name].params:
        for option in parameter.opts if parameter.param_type_name == "option" else ():
            assert f"`{option}" in section or option in ("--help", "-h"), (name, option)


def test_global_options_are_documented(lamina: Any) -> None:
    told = lamina.ok("--help")
    assert lamina.ok() == told
    for option in ("--version", "--debug", "--install-completion", "--show-completion"):
        assert option in told
        assert f"`{option}`" in PAGE
    assert lamina.ok("--version").startswith("lamina ")


def test_json_is_one_document_on_every_verb(lamina: Any) -> None:
    """Whatever else is said goes to standard error."""
    manifest = lamina.write("m.yaml", "{}\n")
    calls = [
        ("curate", lamina.zoo()), ("query", "zoo", "otters"), ("contexts",), ("runs", "zoo"), ("ledger", "zoo"), ("chunks", "zoo"),
        ("sources", "zoo"), ("inspect", manifest),
        ("versions", "zoo"), ("pin", "zoo"), ("add", "notes", manifest), ("import", "notes", manifest, "--into", "in"), ("remove", "notes", "m.yaml"), ("delete", "notes", "--yes"),
        ("manifest", "validate", manifest), ("manifest", "schema"), ("manifest", "templates"),
        ("models",), ("metrics",), ("fsck", "zoo"), ("plan", "zoo"), ("gc",), ("watch", "zoo", "--runs", "1"), ("quarantine", "list", "zoo"),
        ("manifest", "templates", "contracts"), ("manifest", "diff", manifest, manifest), ("doctor",),
    ]  # fmt: skip
    for call in calls:
        ended = lamina(*call, "--json")
        assert ended.status == 0, (call, ended)
        assert isinstance(ended.document, dict), call
    rest = {name.split()[1] for name in VERBS} - {str(call[0]) for call in calls}
    assert rest == {
        "show",
        "rollback",
        "unpin",
        "cancel",
        "artifacts",
        "graph",
        "sql",
        "knowledge",
        "merges",
        "profile",
        "submit",
        "explain",
        "requeue",
        "worker",
        "up",
        "publish",
        "delete-sources",
        "apply",
        "replay",
        "backup",
        "restore",
    }, "these are called with --json in the tests of their own"


def test_a_usage_error_is_one_json_line_too(lamina: Any) -> None:
    assert lamina("query", "zoo", "--json").refusal["code"] == "usage"
    assert lamina("nonsense", "--json").refusal["remedy"] == "see: lamina --help"


@pytest.mark.parametrize(
    "arguments", [["contexts"], ["ledger", "zoo"], ["sources", "zoo"], ["versions", "zoo"], ["--help"]], ids=" ".join
)
def test_looking_loads_no_model_and_no_parser(curated: Any, arguments: list[str]) -> None:
    """In a process of its own: what a verb that only looks at the ledger has imported when it ends."""
    script = (
        "import sys\nfrom pipeline.__main__ import main\n"
        "try:\n    main()\nfinally:\n    print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **curated.environ}, check=True, cwd=curated.folder
    )
    assert set(ended.stderr.split()) & set(HEAVY) == set()


def test_manifest_verbs(lamina: Any) -> None:
    good = lamina.write("good.yaml", "curate:\n  chunks:\n    chunking:\n      target_size: 256\n")
    bad = lamina.write("bad.yaml", "curate:\n  chunks:\n    chunking:\n      target_size: 2\n      strategy: magic\n")
    assert "a good manifest" in lamina.ok("manifest", "validate", good)
    ended = lamina("manifest", "validate", bad)
    assert ended.status == 2
    assert "2 problems" in ended.out
    listed = lamina("manifest", "validate", bad, "--json")
    assert listed.status == 2
    assert [p["path"].rpartition(".")[2] for p in listed.document["problems"]] == ["strategy", "target_size"]
    assert not listed.document["valid"]
    catalog = lamina.json("manifest", "templates")
    lamina.holds("ManifestTemplateCatalog", catalog)
    for template in catalog["templates"]:
        assert template["id"] in lamina.ok("manifest", "templates")
        assert json.loads(lamina.ok("manifest", "templates", template["id"])) == template["manifest"]
    assert "general-knowledge-base" in lamina("manifest", "templates", "none").err
    empty = lamina.write("empty.json", "{}")
    assert "target_size: 512 -> 256" in lamina.ok("manifest", "diff", empty, good)
    assert lamina.json("manifest", "diff", empty, good)["legs"]["chunks"]["stale"]
    assert lamina("manifest", "diff", empty, bad).status == 2
    assert json.loads(lamina.ok("manifest", "schema"))["type"] == "object"
    for path in ("gone.yaml", lamina.folder, lamina.write("latin.yaml", b"a: \xe9\n")):
        assert lamina("manifest", "validate", path).status == 2


def test_doctor_checks_everything(lamina: Any) -> None:
    """Each line is ok or NOT; settings say where they come from."""
    lamina.write("lamina.toml", "workers = 3\n[limits]\nkeep_versions = 7\n")
    lines = lamina.ok("doctor").splitlines()
    assert all(line.startswith("ok  ") for line in lines)
    told = "\n".join(lines)
    for name in ("python", "tokenizer", "home", "ledger", "model minilm", "model static", "parser"):
        assert f"ok  {name}: " in told
    assert "ok  setting keep_versions: 7 (file)" in told
    assert "ok  setting embedder: static (environment)" in told
    assert "ok  setting workers: 2 (environment)" in told
    assert "ok  setting lease_s: 30.0 (default)" in told


def test_doctor_says_what_to_do(lamina: Any) -> None:
    ended = lamina("doctor", LAMINA_WORKERS="many")
    assert ended.status == 3
    assert "NOT settings: " in ended.out
    assert "see docs/settings.md" in ended.out
    assert not lamina("doctor", "--json", LAMINA_WORKERS="many").document["ok"]
    lamina.write("home/ledger.sqlite", b"this is not a database, it only has its name" * 100)
    damaged = lamina("doctor")
    assert damaged.status == 3
    assert "NOT ledger: " in damaged.out


def test_bad_settings_and_a_damaged_ledger_end_every_verb_plainly(lamina: Any) -> None:
    assert lamina("contexts", LAMINA_NONSENSE="1").status == 2
    lamina.write("home/ledger.sqlite", b"this is not a database, it only has its name" * 100)
    ended = lamina("contexts")
    assert ended.status == 3
    assert "Traceback" not in ended.err


def test_a_home_that_is_a_file_is_refused(lamina: Any) -> None:
    lamina.write("home", "a file where the folder should be")
    ended = lamina("contexts")
    assert ended.status == 2
    assert "LAMINA_HOME" in ended.err
    assert "Traceback" not in ended.err


def test_what_nobody_foresaw_is_one_line(lamina: Any) -> None:
    """Exit status 3 and a way to learn more; --debug shows the trace."""
    environ = {**os.environ, **lamina.environ}
    for flags, traced in ((), False), (("--debug",), True):
        # A working folder that is gone: nothing in the program looks for that.
        command = (
            f"mkdir gone && cd gone && rmdir ../gone && {sys.executable} -P -m pipeline {' '.join(flags)} contexts"
        )
        ended = subprocess.run(
            ["sh", "-c", command], cwd=lamina.folder, env=environ, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 3
        assert ("Traceback" in ended.stderr) == traced
        assert traced or "--debug" in ended.stderr


def test_a_reader_that_goes_away_is_no_error(lamina: Any) -> None:
    """`lamina … | head`: no trace, and the status that a shell gives a closed pipe."""
    lamina.write("zoo/long.md", "".join(f"# Part {n}\n\n{'Words and more words. ' * 50}\n\n" for n in range(300)))
    lamina.ok("curate", lamina.folder / "zoo")
    command = [sys.executable, "-m", "pipeline", "chunks", "zoo"]
    environ = {**os.environ, **lamina.environ}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_only_the_console_prints() -> None:
    """No `print` elsewhere, and no reading of the environment outside the settings."""
    root = Path(pipeline.__file__).parent
    for file in root.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert "print(" not in text.replace("_print(", "").replace("fingerprint(", "") or file.name == "console.py", (
            file
        )
        assert "os.environ" not in text or file.name in ("__main__.py", "settings.py"), file
