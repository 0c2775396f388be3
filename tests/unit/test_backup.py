"""backup and restore: an empty home answers the same, and nothing of a bad archive is ever shown."""

import gzip
import io
import shutil
import tarfile

import numpy as np
import postgres_server
import pytest
from world import SLUG, WHOLE, World, start, step

from manifests import manifest_from
from pipeline import curate, fsck, search
from pipeline.adapters.ledger_postgres import PostgresLedger
from pipeline.adapters.ledger_sql_dump import COLUMNS, KEYS
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.backup import backup, restore
from pipeline.errors import Conflict, Corruption, RejectedInput
from pipeline.rows import RecordRow

SUBJECTS = manifest_from(
    {
        "curate": {
            "artifacts": {
                "enabled": True,
                "artifact_types": [{"name": "Person", "description": "people", "scope": "corpus"}],
            }
        }
    }
)


@pytest.fixture
def world():
    made = World(language=ExtractiveModel())
    made.put("a.md", "alpha", "beta")
    made.files["ada.md"] = b"# Ada Lovelace\n\nAda Lovelace met Charles Babbage. Ada Lovelace wrote programs.\n"
    made.files["babbage.md"] = b"# Notes\n\nCharles Babbage knew Ada Lovelace.\n"
    made.curate(SUBJECTS)
    made.put("a.md", "alpha", "gamma")
    made.files["bad.md"] = b"REFUSE"
    made.curate(SUBJECTS)
    yield made
    made.close()


def empty(world, **more):
    """Another home, with the same sources and no context."""
    other = World(language=ExtractiveModel(), files=world.files, **more)
    other.clock = world.clock
    other.ports = other.ports_for("one")
    with other.ledger.transaction("fresh", SLUG) as session:
        session.contexts.delete(SLUG)
    return other


def answers(world):
    out = []
    for version in (1, 2):
        for mode in ("sparse", "dense", "hybrid"):
            for kind in ("chunk", "artifact"):
                found = search.search(
                    world.ports, SLUG, search.Question("gamma beta Ada", k=10, mode=mode, kind=kind, version=version)
                )
                out.append([(r.id, r.score, r.metadata) for r in found.results])
    return out


def restored(other, file):
    put = {}
    held = restore(other.ports, file, put_source=lambda slug, path, data: put.update({(slug, path): data}))
    return held, put


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
def test_an_empty_home_answers_the_same(world, tmp_path, ledger):
    file = tmp_path / "b.tar.gz"
    made = backup(world.ports, SLUG, file)
    more = {"open_ledger": lambda _home: PostgresLedger(postgres_server.fresh_url())} if ledger == "postgres" else {}
    other = empty(world, **more)
    held, put = restored(other, file)
    assert (held.records, held.files, held.rows) == (made.records, made.files, made.rows)
    assert {path for _, path in put} == set(world.files)
    assert answers(other) == answers(world)
    assert other.readable() == world.readable()
    assert fsck.fsck(other.ports, SLUG, repair=False).found == {}
    world.parser.calls.clear()
    assert other.curate(SUBJECTS).state == "noop", "nothing has changed"
    other.put("new.md", "omega")
    other.curate(SUBJECTS)
    assert other.found("omega") == ["new.md"]
    other.clock.advance(1)
    curate.rollback(other.ports, SLUG, 2)
    assert other.texts() == world.texts(2)
    other.close()


def test_every_table_is_kept_or_left_out_on_purpose():
    left = {"stat", "pin", "publication", "lane", "removal", "visited"}
    assert set(COLUMNS) == {*KEYS, *left}
    assert {"id", "logical_id", "copy_of"} <= set(COLUMNS["record"])
    assert {"warnings", "artifact_key"} <= set(COLUMNS["source"])
    assert RecordRow


def test_a_restore_that_died_is_done_again(world, tmp_path):
    """What it had written counts for nothing, and is found."""
    file = tmp_path / "b.tar.gz"
    backup(world.ports, SLUG, file)
    other = empty(world)

    def die(_slug, _path, _data):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(other.ports, file, put_source=die)
    with other.ledger.read() as session:
        assert session.contexts.get(SLUG) is None
    restored(other, file)
    assert answers(other) == answers(world)


def altered(file, target, change):
    """The archive with its members changed: `change(name, data)` gives the bytes, or None to leave a member out."""
    with tarfile.open(file, "r:gz") as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            data = change(member.name, old.extractfile(member).read())
            if data is not None:
                info = tarfile.TarInfo(member.name)
                info.size = len(data)
                new.addfile(info, io.BytesIO(data))


def unreal(name, data, *, drop="", replace=None, kind=""):
    if kind and kind in name:
        return None if replace is None else replace(data)
    return None if drop and name.startswith(drop) else data


class TestBadArchives:
    @pytest.fixture
    def file(self, world, tmp_path):
        backup(world.ports, SLUG, tmp_path / "b.tar.gz")
        return tmp_path / "b.tar.gz"

    def refused(self, world, file, words):
        other = empty(world)
        with pytest.raises(RejectedInput, match=words):
            restored(other, file)
        with other.ledger.read() as session:
            assert session.contexts.get(SLUG) is None
            assert session.dump.rows(SLUG, "record") is not None
            assert list(session.dump.rows(SLUG, "record")) == []
        other.close()

    @pytest.mark.parametrize("share", [0.2, 0.6, 0.9, 0.999])
    def test_cut_short(self, world, file, share):
        data = file.read_bytes()
        file.write_bytes(data[: int(len(data) * share)])
        self.refused(world, file, "cut short|can't be read")

    @pytest.mark.parametrize(
        "drop", ["end.json", "ledger/record/", "ledger/context/", "index/", "blobs/", "lamina-backup"]
    )
    def test_a_member_is_missing(self, world, file, tmp_path, drop):
        altered(file, tmp_path / "c.tar.gz", lambda name, data: unreal(name, data, drop=drop))
        self.refused(world, tmp_path / "c.tar.gz", "cut short|isn't one of|another context")

    def test_a_file_is_altered(self, world, file, tmp_path):
        altered(file, tmp_path / "c.tar.gz", lambda name, data: data + b"x" if name.startswith("blobs/") else data)
        self.refused(world, tmp_path / "c.tar.gz", "isn't what its key says")

    def test_a_table_or_a_column_that_there_isn_t(self, world, file, tmp_path):
        hostile = b'["id); DROP TABLE run; --"]\n["x"]'
        altered(file, tmp_path / "c.tar.gz", lambda name, data: hostile if "ledger/record/" in name else data)
        self.refused(world, tmp_path / "c.tar.gz", "other columns")

    def test_a_newer_one(self, world, file, tmp_path):
        newer = lambda name, data: data.replace(b'"schema":', b'"schema":9') if name == "lamina-backup.json" else data  # noqa: E731
        altered(file, tmp_path / "c.tar.gz", newer)
        self.refused(world, tmp_path / "c.tar.gz", "newer Lamina")

    @pytest.mark.parametrize(
        "name", ["../../etc/passwd", "/etc/passwd", "sources/../../x", "ledger/record/x.jsonl", "other.txt"]
    )
    def test_a_name_that_leads_elsewhere(self, world, file, tmp_path, name):
        with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as tar, tarfile.open(file) as old:
            head = old.next()
            tar.addfile(head, old.extractfile(head))
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        self.refused(world, tmp_path / "c.tar.gz", "no backup of Lamina does")

    def test_pickled_arrays_are_not_loaded(self, world, file, tmp_path):
        out = io.BytesIO()
        np.savez(out, ids=np.array([{"a": 1}], dtype=object))
        altered(file, tmp_path / "c.tar.gz", lambda name, data: out.getvalue() if name.startswith("index/") else data)
        self.refused(world, tmp_path / "c.tar.gz", "can't be read as a backup")

    def test_something_else(self, world, tmp_path):
        for data in (b"", b"hello", gzip.compress(b"hello")):
            (tmp_path / "c").write_bytes(data)
            self.refused(world, tmp_path / "c", "can't be read|isn't one of")


def test_what_is_not_whole_is_not_backed_up(world, tmp_path):
    row = world.listed(2)[0]
    world.raw_index.delete(row.namespace, [row.id])
    with pytest.raises(Corruption, match="1 records of ctx are listed"):
        backup(world.ports, SLUG, tmp_path / "b.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_not_beside_a_run_and_not_over_a_file(world, tmp_path):
    (tmp_path / "b.tar.gz").write_bytes(b"")
    with pytest.raises(RejectedInput, match="is there already"):
        backup(world.ports, SLUG, tmp_path / "b.tar.gz")
    world.put("new.md", "omega")
    step(world, start(world, manifest=SUBJECTS))
    with pytest.raises(Conflict, match="is not at its end"):
        backup(world.ports, SLUG, tmp_path / "c.tar.gz")


def test_a_context_of_that_name(world, tmp_path):
    backup(world.ports, SLUG, tmp_path / "b.tar.gz")
    with pytest.raises(RejectedInput, match="there is a context ctx already"):
        restored(world, tmp_path / "b.tar.gz")
    assert WHOLE
    assert shutil
