"""Sources and files on S3, ledger and memo on PostgreSQL: the command as on one machine, and the same results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import postgres_server
import pytest
import s3_server
from fleet_processes import ROOT, make_sources

from pipeline.adapters.s3_client import S3Client, S3Settings


class Deployment:
    """Everything shared: nothing but the index stands in the home folder."""

    def __init__(self, folder: Path) -> None:
        self.bucket: S3Settings = s3_server.fresh_bucket()
        self.client: Any = S3Client(self.bucket)()
        self.environ = {
            "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "LAMINA_HOME": str(folder / "home"), "LAMINA_EMBEDDER": "static",
            "LAMINA_LEDGER_URL": postgres_server.fresh_url(), "LAMINA_OBJECTS_URL": f"s3://{self.bucket.bucket}/lamina",
            "LAMINA_S3_ENDPOINT_URL": self.bucket.endpoint_url, "LAMINA_S3_REGION": "us-east-1",
            "LAMINA_S3_ACCESS_KEY": "marked-access-key", "LAMINA_S3_SECRET_KEY": "marked-secret-key",
        }  # fmt: skip

    def put(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            self.client.put_object(
                Bucket=self.bucket.bucket, Key=f"corpus/{path.relative_to(folder)}", Body=path.read_bytes()
            )

    def lamina(self, *arguments: str, status: int = 0) -> Any:
        ended = subprocess.run(
            [sys.executable, "-m", "pipeline", *arguments, "--json"],
            env=self.environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ended.returncode == status, ended.stdout + ended.stderr
        assert "marked-" not in ended.stdout + ended.stderr
        return json.loads(ended.stdout or ended.stderr)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


def test_a_prefix_is_curated_in_place(deployment: Deployment, tmp_path: Path) -> None:
    """First run, nothing changed, one object replaced, one deleted; versions' files are objects, too."""
    make_sources(tmp_path / "corpus", 12)
    deployment.put(tmp_path / "corpus")
    address = f"s3://{deployment.bucket.bucket}/corpus"
    assert deployment.lamina("curate", address)["delta"]["new"] == 12
    assert deployment.lamina("curate", "corpus")["delta"] == "empty"
    found = deployment.lamina("query", "corpus", "first3word1", "--mode", "sparse")
    assert "doc00003.md" in json.dumps(found)
    deployment.client.put_object(Bucket=deployment.bucket.bucket, Key="corpus/doc00003.md", Body=b"# New\n\nwombats\n")
    deployment.client.delete_object(Bucket=deployment.bucket.bucket, Key="corpus/doc00004.md")
    delta = deployment.lamina("curate", address)["delta"]
    assert (delta["changed"], delta["deleted"], delta["new"]) == (1, 1, 0)
    assert "wombats" in json.dumps(deployment.lamina("query", "corpus", "wombats", "--mode", "sparse"))
    listed = deployment.client.list_objects_v2(Bucket=deployment.bucket.bucket, Prefix="lamina/contexts/corpus/")
    assert listed["KeyCount"] >= 12
    assert "wombats" in json.dumps(deployment.lamina("knowledge", "read", "corpus", "chunks/doc00003.md.chunks.jsonl"))


def test_it_gives_what_a_folder_gives(deployment: Deployment, tmp_path: Path) -> None:
    make_sources(tmp_path / "corpus", 6)
    deployment.put(tmp_path / "corpus")
    deployment.lamina("curate", f"s3://{deployment.bucket.bucket}/corpus")
    far = deployment.lamina("chunks", "corpus")
    local = {
        k: v
        for k, v in deployment.environ.items()
        if not k.startswith(("LAMINA_S3", "LAMINA_OBJECTS", "LAMINA_LEDGER"))
    }
    deployment.environ = {**local, "LAMINA_HOME": str(tmp_path / "other")}
    deployment.lamina("curate", str(tmp_path / "corpus"))
    assert deployment.lamina("chunks", "corpus")["chunks"] == far["chunks"]


def test_a_bucket_that_is_not_there_is_named(deployment: Deployment) -> None:
    refused = deployment.lamina("curate", "s3://there-is-none/corpus", status=2)
    assert "there-is-none" in json.dumps(refused)


def test_secrets_are_shown_nowhere(deployment: Deployment) -> None:
    """`doctor` lists every setting in effect."""
    told = json.dumps(deployment.lamina("doctor"))
    assert "marked-" not in told
    assert "s3_secret_key" in told


def test_files_staged_on_one_machine_are_refused(deployment: Deployment, tmp_path: Path) -> None:
    """Workers elsewhere would take them for deleted."""
    (tmp_path / "a.md").write_text("# A\n\nbody\n")
    for verb in ("add", "import"):
        refused = deployment.lamina(verb, "notes", str(tmp_path / "a.md"), status=2)
        assert "staged_elsewhere" in json.dumps(refused)
