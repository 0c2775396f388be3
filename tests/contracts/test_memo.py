"""The contract of port `Memo`, for every adapter."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
import threading

import postgres_server
import pytest

from pipeline.adapters.memo_postgres import PostgresMemo
from pipeline.adapters.memo_sqlite import SqliteMemo
from pipeline.adapters.memory import MemoryMemo, MemoryObjectStore, VirtualClock
from pipeline.errors import Corruption, Unavailable

TEXT = json.dumps([{"text": "the same words again and again"}] * 50).encode()
NOISE = random.Random(1).randbytes(5_000)


class MemoContract:
    def make(self, folder):
        raise NotImplementedError

    @pytest.fixture
    def memo(self, tmp_path):
        memo = self.make(tmp_path)
        yield memo
        memo.close()
        memo.close()

    def test_gives_back_the_same_bytes(self, memo):
        items = {
            "text": TEXT,
            "noise": NOISE,
            "empty": b"",
            "short": b"x",
            "nul": b"\0" * 1_000,
            "tag": b"\x01abc" * 99,
        }
        memo.put_many(items)
        assert memo.get_many([*items, "gone"]) == items
        assert memo.get_many([]) == {}
        assert memo.get_many(["gone"]) == {}

    def test_a_key_keeps_its_first_value(self, memo):
        memo.put_many({"a": b"1"})
        memo.put_many({"a": b"2", "b": b"3"})
        memo.put_many({})
        assert memo.get_many(["a", "b", "a"]) == {"a": b"1", "b": b"3"}

    def test_more_keys_than_one_statement_takes(self, memo):
        items = {f"key{i}": str(i).encode() for i in range(3_000)}
        memo.put_many(items)
        assert memo.get_many([*items]) == items

    def test_threads_may_share_it(self, memo):
        failures = []

        def work(number):
            try:
                for i in range(20):
                    memo.put_many({f"shared{i}": b"s", f"own{number}.{i}": b"o"})
                    assert memo.get_many([f"own{number}.{i}"]) == {f"own{number}.{i}": b"o"}
            except Exception as error:  # noqa: BLE001 - a thread's failure must reach the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(memo.get_many([f"own{n}.{i}" for n in range(4) for i in range(20)])) == 80

    def test_what_comes_from_several_sources_stays_until_the_last_is_forgotten(self, memo):
        memo.put_many({"text": b"1", "own": b"2", "nobody's": b"3"}, {"text": ["a/x", "b/y"], "own": ["a/x"]})
        memo.put_many({}, {"text": ["c/z"], "not there": ["a/x"]})
        assert memo.forget(["a/x", "b/y", "none"]) == 1
        assert memo.get_many(["text", "own", "nobody's", "not there"]) == {"text": b"1", "nobody's": b"3"}
        assert memo.forget(["c/z"]) == 1
        assert memo.get_many(["text", "nobody's"]) == {"nobody's": b"3"}
        assert memo.forget(["a/x", "b/y", "c/z"]) == memo.forget([]) == 0

    def test_several_that_are_forgotten_at_once(self, memo):
        memo.put_many({"text": b"1"}, {"text": ["a", "b"]})
        assert memo.forget(["a", "b"]) == 1
        assert memo.get_many(["text"]) == {}

    def test_what_comes_from_several_together_goes_with_any(self, memo):
        memo.put_many({"both": b"1", "other": b"2"}, {"both": ["a", "b"], "other": ["b", "c"]}, joint=True)
        assert memo.forget(["a"]) == 1
        assert memo.get_many(["both", "other"]) == {"other": b"2"}
        memo.put_many({"both": b"3"}, {"both": ["c"]})
        assert memo.get_many(["both"]) == {"both": b"3"}, "a key that was forgotten takes a new value"
        assert memo.forget(["b"]) == 1
        assert memo.get_many(["both", "other"]) == {"both": b"3"}


class TestMemoryMemo(MemoContract):
    def make(self, _folder):
        return MemoryMemo()


class TestPostgresMemo(MemoContract):
    def make(self, folder):
        del folder
        return PostgresMemo(postgres_server.fresh_url(), VirtualClock())

    def test_another_instance_sees_it(self):
        url = postgres_server.fresh_url()
        one, other = PostgresMemo(url, VirtualClock()), PostgresMemo(url, VirtualClock())
        one.put_many({"a": b"1"})
        assert other.get_many(["a"]) == {"a": b"1"}
        one.close()
        other.close()

    def test_the_longest_unused_go_first(self):
        clock = VirtualClock()
        objects = MemoryObjectStore()
        memo = PostgresMemo(postgres_server.fresh_url(), clock, objects=objects, max_bytes=900_000)
        memo._stores = itertools.repeat(0)  # every store looks
        for n in range(6):
            memo.put_many({f"k{n}": random.Random(n).randbytes(300_000)})
            clock.advance(10_000)
        assert set(memo.get_many([f"k{n}" for n in range(6)])) == {"k4", "k5"}
        assert len(list(objects.list(""))) == 2, "large values are objects, and go with their rows"
        memo.close()

    def test_a_value_whose_object_is_gone_is_not_there_and_can_be_stored_again(self):
        objects = MemoryObjectStore()
        memo = PostgresMemo(postgres_server.fresh_url(), VirtualClock(), objects=objects)
        large = random.Random(3).randbytes(300_000)
        memo.put_many({"large": large, "small": b"x"})
        assert memo.get_many(["large", "small"]) == {"large": large, "small": b"x"}
        objects.delete_many(list(objects.list("")))
        assert memo.get_many(["large", "small"]) == {"small": b"x"}
        memo.put_many({"large": large})
        assert memo.get_many(["large"]) == {"large": large}
        memo.close()


class TestSqliteMemo(MemoContract):
    def make(self, folder, **options):
        return SqliteMemo(folder / "memo.db", VirtualClock(), **options)

    def test_survives_reopening(self, tmp_path):
        self.make(tmp_path).put_many({"a": TEXT})
        assert self.make(tmp_path).get_many(["a"]) == {"a": TEXT}

    def test_only_text_is_compressed(self, tmp_path):
        memo = self.make(tmp_path)
        memo.put_many({"text": TEXT, "noise": NOISE})
        sizes = dict(sqlite3.connect(tmp_path / "memo.db").execute("SELECT key, length(value) FROM memo"))
        assert sizes["text"] < len(TEXT) // 5
        assert sizes["noise"] == len(NOISE) + 1

    def test_the_longest_unused_go_first(self, tmp_path):
        """A read keeps a value, but is written down only when the last one was over an hour ago."""
        clock = VirtualClock()
        memo = SqliteMemo(tmp_path / "memo.db", clock, max_bytes=10_500)
        for i in range(10):
            memo.put_many({f"k{i}": NOISE[:1_000]})
            clock.advance(60)
        clock.advance(7_200)
        assert "k0" in memo.get_many(["k0"])
        memo.put_many({"new": NOISE[:1_000]})
        kept = memo.get_many([f"k{i}" for i in range(10)] + ["new"])
        assert set(kept) == {"k0", *(f"k{i}" for i in range(2, 10)), "new"}

    def test_the_limit_holds_over_many_small_values(self, tmp_path):
        memo = self.make(tmp_path, max_bytes=1_000)
        for at in range(0, 3_000, 1_000):
            memo.put_many({f"k{i}": NOISE[:9] for i in range(at, at + 1_000)})
        db = sqlite3.connect(tmp_path / "memo.db")
        assert db.execute("SELECT sum(size), sum(length(value)) FROM memo").fetchone() == (1_000, 1_000)
        assert db.execute("SELECT size FROM total").fetchone() == (1_000,)

    def test_what_is_forgotten_stands_nowhere_in_the_files(self, tmp_path):
        memo = self.make(tmp_path, max_bytes=100_000)
        secret = random.Random(2).randbytes(64)
        for i in range(200):  # some of it is evicted before it is forgotten
            memo.put_many({f"k{i}": secret * 20}, {f"k{i}": ["a/x"]})
        held = [path.read_bytes() for path in tmp_path.iterdir()]
        assert any(secret in data for data in held)
        assert 0 < memo.forget(["a/x"]) < 200
        assert not [path.name for path in tmp_path.iterdir() if secret in path.read_bytes()]
        db = sqlite3.connect(tmp_path / "memo.db")
        for table in ("memo", "origin", "derived"):
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
        assert db.execute("SELECT size FROM total").fetchone() == (0,)

    def test_a_file_that_tells_no_origins_is_emptied(self, tmp_path):
        db = sqlite3.connect(tmp_path / "memo.db")
        db.executescript(
            "CREATE TABLE memo (key TEXT PRIMARY KEY, used_at REAL, size INTEGER, value BLOB); CREATE TABLE total (size "
            "INTEGER); INSERT INTO total VALUES (2); INSERT INTO memo VALUES ('a', 1, 2, x'0031'); PRAGMA user_version = 1"
        )
        db.close()
        memo = self.make(tmp_path)
        assert memo.get_many(["a"]) == {}
        memo.put_many({"a": b"2"}, {"a": ["x"]})
        assert memo.forget(["x"]) == 1

    def test_reads_within_the_hour_write_nothing(self, tmp_path):
        memo = self.make(tmp_path)
        memo.put_many({"a": b"1"})
        other = sqlite3.connect(tmp_path / "memo.db")
        before = other.execute("PRAGMA data_version").fetchone()
        memo.get_many(["a"])
        assert other.execute("PRAGMA data_version").fetchone() == before

    def test_a_foreign_file_is_corruption(self, tmp_path):
        (tmp_path / "memo.db").write_bytes(b"not a database, but long enough to look like one" * 400)
        memo = self.make(tmp_path)
        for _ in range(2):
            with pytest.raises(Corruption):
                memo.get_many(["a"])

    def test_a_damaged_value_is_corruption(self, tmp_path):
        memo = self.make(tmp_path)
        memo.put_many({"a": TEXT})
        with sqlite3.connect(tmp_path / "memo.db") as db:
            db.execute("UPDATE memo SET value = x'01ffff'")
        with pytest.raises(Corruption):
            memo.get_many(["a"])

    def test_a_busy_file_is_unavailable(self, tmp_path):
        self.make(tmp_path).put_many({"b": b"2"})
        memo = self.make(tmp_path, busy_timeout_ms=1)
        other = sqlite3.connect(tmp_path / "memo.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable) as caught:
            memo.put_many({"a": b"1"})
        assert caught.value.code == "memo_busy"
        assert memo.get_many(["a", "b"]) == {"b": b"2"}
        other.execute("ROLLBACK")
        memo.put_many({"a": b"1"})
        assert memo.get_many(["a"]) == {"a": b"1"}
