"""A purge by the fleet, on services: nothing of the source stands in the database, the object store or the index."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import postgres_server
import psycopg
import pytest
import s3_server
from fleet_processes import Fleet, make_sources

from pipeline import bootstrap, purging
from pipeline.settings import load
from pipeline.types import ContextSlug

SLUG = ContextSlug("notes")
WORD = b"first3word7"
"""Stands in one source alone."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    bucket = s3_server.fresh_bucket()
    more = {
        "LAMINA_LEDGER_URL": postgres_server.fresh_url(), "LAMINA_OBJECTS_URL": f"s3://{bucket.bucket}/lamina",
        "LAMINA_S3_ENDPOINT_URL": bucket.endpoint_url, "LAMINA_S3_REGION": "us-east-1",
        "LAMINA_S3_ACCESS_KEY": bucket.access_key, "LAMINA_S3_SECRET_KEY": bucket.secret_key,
    }  # fmt: skip
    with Fleet(tmp_path / "home", LAMINA_RETAIN_SOURCES="1", **more) as made:
        yield made


def holding(fleet: Fleet) -> set[str]:
    """Tables, objects and files of the home that hold the word."""
    found: set[str] = set()
    with psycopg.connect(fleet.environ["LAMINA_LEDGER_URL"]) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            if table == "lamina_memo":
                values = [bytes(value) for (value,) in db.execute("SELECT value FROM lamina_memo").fetchall() if value]
                plain = [zlib.decompress(value[1:]) if value[:1] == b"\x01" else value for value in values]
                found |= {table} if any(WORD in value for value in plain) else set()
            else:
                rows = db.execute(f'SELECT t::text FROM "{table}" t').fetchall()  # the server's own names
                found |= {table} if any(WORD.decode() in row for (row,) in rows) else set()
    ports = bootstrap.build(load(fleet.environ, fleet.home))
    try:
        objects = ports.objects(SLUG)
        found |= {key for key in objects.list("") if WORD in objects.get(key)}
    finally:
        bootstrap.close(ports)
    files = [path for path in fleet.home.rglob("*") if path.is_file() and path.suffix != ".log"]
    return found | {path.name for path in files if WORD in path.read_bytes()}


def test_nothing_of_a_purged_source_is_left(fleet: Fleet, tmp_path: Path) -> None:
    sources = tmp_path / "notes"
    make_sources(sources, 6)
    fleet.work()
    run = fleet.lamina("submit", str(sources))["run"]
    assert fleet.until_ended(run) == "completed"
    assert len(holding(fleet)) > 3
    run = fleet.lamina("delete-sources", SLUG, "doc00003.md", "--purge", "--submit")["run"]
    assert fleet.until_ended(run) == "completed"
    ports = bootstrap.build(load(fleet.environ, fleet.home))
    try:
        assert purging.standing(ports, SLUG) == purging.Standing(unavailable=(1,), pinned=(), pending=0)
    finally:
        bootstrap.close(ports)
    assert holding(fleet) == set()
    assert fleet.lamina("fsck", SLUG)["found"] == {}
