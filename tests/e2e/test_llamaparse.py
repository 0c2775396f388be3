"""PDFs by LlamaParse, the rest on this machine: pages found, jobs told, and no document paid for twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from fleet_processes import ROOT
from llamaparse_server import LlamaParseServer, Plan

PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def lamina(home: Path, server: LlamaParseServer, *arguments: str) -> Any:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("LAMINA_")}
    environ |= {
        "PYTHONPATH": str(ROOT), "LAMINA_HOME": str(home), "LAMINA_EMBEDDER": "static",
        "LAMINA_PARSER_SERVICE": "llamaparse", "LAMINA_LLAMAPARSE_API_KEY": "llx-m4rked",
        "LAMINA_LLAMAPARSE_BASE_URL": server.base_url,
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline", *arguments, "--json"],
        env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "m4rked" not in ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def test_documents_go_to_the_service_once_and_their_jobs_are_told(tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    sources.mkdir()
    (sources / "report.pdf").write_bytes(PDF)
    (sources / "copy.pdf").write_bytes(PDF)
    (sources / "plain.md").write_text("# Plain\n\notters\n")
    with LlamaParseServer(Plan(("# Beavers\n\nThey build dams.\n", "Second page on lodges.\n"), pending=1)) as server:
        assert lamina(tmp_path / "home", server, "curate", str(sources))["delta"]["new"] == 3
        hits = lamina(tmp_path / "home", server, "query", "notes", "lodges", "--mode", "sparse")["hits"]
        assert hits[0]["source_path"] in ("report.pdf", "copy.pdf")
        assert len(server.billed) == 1, "the same bytes under two names are one job"
        run = lamina(tmp_path / "home", server, "runs", "notes")["runs"][0]["run"]
        steps = lamina(tmp_path / "home", server, "show", run)["steps"]
        jobs = {step["path"]: step["job_id"] for step in steps if step.get("type") == "parse"}
        assert set(jobs.values()) == set(server.billed)
        assert set(jobs) <= {"report.pdf", "copy.pdf"}
        assert jobs
        lamina(tmp_path / "home", server, "curate", str(sources), "--force")
        lamina(tmp_path / "home", server, "curate", str(sources), "--context", "again")
        assert len(server.billed) == 1, "nor are they paid for in another context"
