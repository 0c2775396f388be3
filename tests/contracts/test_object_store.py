"""The contract of port `ObjectStore`, for every adapter."""

from __future__ import annotations

import os
import random
import threading
from dataclasses import replace

import pytest
import s3_server
from hypothesis import given
from hypothesis import strategies as st

from pipeline.adapters.memory import MemoryObjectStore
from pipeline.adapters.object_store_local import LocalObjectStore
from pipeline.adapters.object_store_s3 import PART_BYTES, S3ObjectStore
from pipeline.adapters.s3_client import S3Client
from pipeline.errors import Conflict, Corruption, RejectedInput, Unavailable


class ObjectStoreContract:
    def make(self, folder):
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path):
        return self.make(tmp_path)

    def test_gives_back_the_same_bytes(self, store):
        items = {"a": b"1", "dir/b": b"", "dir/sub/c.bin": bytes(range(256)) * 100}
        store.put_many(items)
        store.put_many({})
        assert {key: store.get(key) for key in items} == items

    @pytest.mark.parametrize("key", ["gone", "dir", "dir/b/c"])
    def test_what_is_not_there(self, store, key):
        store.put_many({"dir/b": b"1"})
        with pytest.raises(RejectedInput) as caught:
            store.get(key)
        assert caught.value.code == "no_such_object"

    def test_the_same_key_takes_the_same_bytes_only(self, store):
        """On a conflict nothing of the call is written."""
        store.put_many({"a": b"1"})
        store.put_many({"a": b"1", "b": b"2"})
        with pytest.raises(Conflict):
            store.put_many({"c": b"3", "a": b"other"})
        assert list(store.list("")) == ["a", "b"]
        assert store.get("a") == b"1"

    def test_delete_may_be_repeated(self, store):
        store.put_many({"dir/a": b"1", "dir/b": b"2"})
        for _ in range(2):
            store.delete_many(["dir/a", "gone", "dir/none/x", "dir"])
        assert list(store.list("")) == ["dir/b"]
        store.put_many({"dir/a": b"other"})
        assert store.get("dir/a") == b"other"

    def test_lists_by_code_point_under_a_prefix(self, store):
        """Not by folder: 'a-b' comes before 'a/b', and a prefix may end inside a part."""
        keys = ["a/b", "a-b", "a.b", "a0", "a/c/d", "ab/x", "b", "a/c.d"]
        store.put_many(dict.fromkeys(keys, b"x"))
        assert list(store.list("")) == sorted(keys)
        for prefix in ("a", "a/", "a/c", "a/c/", "ab", "zz", "a/c/d", "a/c/d/e"):
            assert list(store.list(prefix)) == sorted(key for key in keys if key.startswith(prefix))

    def test_an_empty_store_lists_nothing(self, store):
        assert list(store.list("")) == []
        assert list(store.list("a/b")) == []

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "ä"])
    def test_refuses_keys_that_are_not_parts(self, store, key):
        with pytest.raises(RejectedInput) as caught:
            store.put_many({key: b"1"})
        assert caught.value.code == "bad_key"
        assert list(store.list("")) == []


class TestMemoryObjectStore(ObjectStoreContract):
    def make(self, _folder):
        return MemoryObjectStore()


class TestS3ObjectStore(ObjectStoreContract):
    def make(self, _folder):
        return S3ObjectStore(s3_server.fresh_bucket("some/prefix/"))

    def test_another_instance_sees_it_and_another_prefix_does_not(self):
        settings = s3_server.fresh_bucket("a/")
        S3ObjectStore(settings).put_many({"x/y": b"1"})
        assert S3ObjectStore(settings).get("x/y") == b"1"
        assert list(S3ObjectStore(replace(settings, prefix="b/")).list("")) == []

    def test_a_large_blob_goes_in_parts_and_is_created_once(self):
        store = S3ObjectStore(s3_server.fresh_bucket())
        data = random.Random(1).randbytes(PART_BYTES + 12_345)
        store.put_many({"large": data})
        store.put_many({"large": data})
        assert store.get("large") == data
        with pytest.raises(Conflict):
            store.put_many({"large": data[:-1]})

    def test_of_many_writers_one_creates(self):
        """All of the same bytes succeed; with other bytes one wins and the others are told."""
        settings = s3_server.fresh_bucket()
        stores = [S3ObjectStore(settings) for _ in range(8)]
        outcomes = []

        def write(number, store):
            try:
                store.put_many({"raced": b"%d" % number, "same": b"same"})
                outcomes.append(number)
            except Conflict:
                outcomes.append(None)

        threads = [threading.Thread(target=write, args=pair) for pair in enumerate(stores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        winners = [number for number in outcomes if number is not None]
        assert len(winners) == 1
        assert stores[0].get("raced") == b"%d" % winners[0]
        assert stores[0].get("same") == b"same"

    def test_damaged_bytes_are_noticed(self):
        settings = s3_server.fresh_bucket()
        store = S3ObjectStore(settings)
        store.put_many({"a": b"good"})
        client = S3Client(settings)()
        kept = client.head_object(Bucket=settings.bucket, Key="a")["Metadata"]
        client.put_object(Bucket=settings.bucket, Key="a", Body=b"evil", Metadata=kept)
        with pytest.raises(Corruption):
            store.get("a")

    def test_a_server_without_conditional_writes_is_refused(self):
        """Two workers could overwrite each other's objects there."""
        settings = s3_server.fresh_bucket()
        client = S3Client(settings)()
        client.meta.events.register("before-call.s3.PutObject", _forget_condition)
        store = S3ObjectStore(settings)
        store._client._held = (os.getpid(), client)
        with pytest.raises(RejectedInput) as caught:
            store.put_many({"a": b"1"})
        assert caught.value.code == "no_conditional_writes"

    def test_refusals_name_the_bucket_and_hold_no_key(self):
        settings = replace(s3_server.fresh_bucket(), bucket="there-is-none")
        with pytest.raises(RejectedInput) as caught:
            S3ObjectStore(settings).put_many({"a": b"1"})
        assert caught.value.code == "no_bucket"
        assert "there-is-none" in caught.value.message
        gone = replace(settings, endpoint_url="http://127.0.0.1:9", secret_key="very-secret")
        with pytest.raises(Unavailable) as away:
            S3ObjectStore(gone).get("a")
        assert "very-secret" not in repr(away.value) + repr(gone) + repr(away.value.__cause__)


def _forget_condition(params, **_more):
    params["headers"].pop("If-None-Match", None)


class TestLocalObjectStore(ObjectStoreContract):
    def make(self, folder):
        return LocalObjectStore(folder / "objects")

    def test_another_instance_sees_it(self, tmp_path):
        self.make(tmp_path).put_many({"a/b": b"1"})
        assert self.make(tmp_path).get("a/b") == b"1"

    def test_leaves_no_temporary_files(self, tmp_path):
        store = self.make(tmp_path)
        store.put_many({"a": b"1"})
        with pytest.raises(Conflict):
            store.put_many({"a/b": b"1"})
        assert [path.name for path in (tmp_path / "objects").rglob("*") if path.is_file()] == ["a"]

    def test_a_folder_that_cannot_be_made_is_unavailable(self, tmp_path):
        (tmp_path / "objects").write_bytes(b"a file where the folder should be")
        with pytest.raises((Unavailable, Conflict)):
            self.make(tmp_path).put_many({"a/b": b"1"})

    @given(key=st.text(max_size=12) | st.lists(st.sampled_from(["a", "..", ".", "", "~", "\\", ":"])).map("/".join))
    def test_no_key_leaves_the_folder(self, tmp_path_factory, key):
        folder = tmp_path_factory.mktemp("outside")
        store = LocalObjectStore(folder / "objects")
        try:
            store.put_many({key: b"1"})
        except RejectedInput:
            assert list(folder.iterdir()) == []
        else:
            assert [path.name for path in folder.iterdir()] == ["objects"]
            assert list(store.list("")) == [key]
