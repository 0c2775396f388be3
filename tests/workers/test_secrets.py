"""Marked secrets are planted in every setting that may hold one; none is found in any log, row, message, metric or error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import postgres_server
import s3_server
from fleet_processes import Fleet, make_sources
from openai_server import OpenAIServer, completion, failure
from psycopg.conninfo import conninfo_to_dict

MARK = "m4rked"
MANIFEST = {
    "curate": {
        "artifacts": {"enabled": True, "artifact_types": [{"name": "summary", "kind": "summary", "scope": "document"}]}
    }
}


def test_no_secret_is_found_anywhere(tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 8)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps(MANIFEST))
    plain, bucket = postgres_server.fresh_database(), s3_server.fresh_bucket()
    given = conninfo_to_dict(plain)
    answers = [failure(500, "down"), failure(429, "slow down", headers={"Retry-After": "1"})]
    secret = {
        "LAMINA_LEDGER_URL": f"postgresql://postgres:{MARK}-ledger@/{given['dbname']}?host={given['host']}",
        "LAMINA_OPENAI_API_KEY": f"sk-{MARK}-model", "LAMINA_S3_ACCESS_KEY": f"{MARK}-access",
        "LAMINA_S3_SECRET_KEY": f"{MARK}-secret",
    }  # fmt: skip
    with OpenAIServer(lambda _body: answers.pop() if answers else completion('{"title": "T", "body": "B"}')) as model:
        more = {
            "LAMINA_LANGUAGE": "openai", "LAMINA_OPENAI_BASE_URL": model.base_url, "LAMINA_OPENAI_MODEL_LITE": "served",
            "LAMINA_OBJECTS_URL": f"s3://{bucket.bucket}/x", "LAMINA_S3_ENDPOINT_URL": bucket.endpoint_url,
        }  # fmt: skip
        with Fleet(tmp_path / "home", password=f"{MARK}-broker", **secret, **more) as fleet:
            fleet.work()
            run = fleet.lamina("submit", str(sources), "--manifest", str(manifest))["run"]
            messages = b""
            assert fleet.until_ended(run) == "completed"
            with fleet.broker.client() as client:
                for key in client.keys("*"):
                    messages += key + (client.dump(key) or b"")
            said = {
                "doctor": json.dumps(fleet.lamina("doctor", status=None)),
                "metrics": json.dumps(fleet.lamina("metrics")),
                "explain": json.dumps(fleet.lamina("explain", run)),
                "broker": messages.decode("latin-1"),
            }
            errors = {
                **{
                    name: "postgresql://x:%zz" if name == "LAMINA_LEDGER_URL" else value
                    for name, value in secret.items()
                },
                "LAMINA_BROKER_URL": f"redis://:{MARK}-other@127.0.0.1:9/0",
            }
            for name, environ in {"away": {"LAMINA_BROKER_URL": errors["LAMINA_BROKER_URL"]}, "bad": errors}.items():
                ended = subprocess.run(
                    [sys.executable, "-m", "pipeline", "--debug", "submit", str(sources), "--force"],
                    env={**fleet.environ, **environ}, capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
                said[name] = ended.stdout + ended.stderr
        for path in (tmp_path / "home").rglob("*"):
            if path.is_file():
                said[str(path)] = path.read_bytes().decode("latin-1")
    tables = postgres_server.ask(
        plain, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    for (table,) in tables:
        said[f"table {table}"] = str(postgres_server.ask(plain, f"SELECT * FROM {table}"))
    checks = {check["name"]: check for check in json.loads(said["doctor"])["checks"]}
    assert checks["broker"]["ok"]
    assert checks["objects"]["ok"]
    assert len(tables) > 20
    assert {name for name, text in said.items() if MARK in text} == set()
