"""The contract of port `SourceTree`, for every adapter; and what only a folder can hold."""

# Paths are bytes here, which pathlib doesn't take.
# ruff: noqa: PTH103, PTH109, PTH112, PTH116, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import os
import shutil
import socket
from dataclasses import replace

import pytest
import s3_server

from pipeline.adapters import source_tree_local
from pipeline.adapters.memory_files import MemorySourceTree
from pipeline.adapters.s3_client import S3Client
from pipeline.adapters.source_tree_local import LocalSourceTree
from pipeline.adapters.source_tree_s3 import S3SourceTree
from pipeline.errors import RejectedInput
from pipeline.fingerprint import encode_path
from pipeline.types import SourcePath

NAMES = (
    b"plain.md", b"caf\xc3\xa9.md", b"caf\xe9.md", b"\xff\xfe", b"two\nlines.md", b"%41.md", b"A.md", b"%zz", b"100%",
    b"trailing  ", b"  leading", b" ", b"tab\t.md", b"#hash", b"!bang", b"-rf", b"a\\b", b"*?[x]", b"quote'\"`$x",
    "emoji \U0001f600.md".encode(), "e\u0301.md".encode(), "\u00e9.md".encode(), "\u2028".encode(), "\u202eltr".encode(), b"...",
    b"x" * 255,
)  # fmt: skip
"""Names that a file system takes; each is another file."""


class SourceTreeContract:
    names = NAMES
    """Those that this kind of tree can hold."""

    def make(self, folder, files):
        """A tree that holds `files`, by raw name."""
        raise NotImplementedError

    def found(self, tree):
        return [stat.path for stat in tree.walk()]

    def test_an_empty_tree(self, tmp_path):
        tree = self.make(tmp_path, {})
        assert tree.exists()
        assert self.found(tree) == []

    def test_order_is_by_code_point_of_the_whole_path(self, tmp_path):
        """Not by folder: `a-b` comes before `a/b`, whose folder comes before `a0`."""
        names = [
            b"a/b",
            b"a-b",
            b"a.b",
            b"a0",
            b"a/c/d",
            b"a/c.d",
            b"a/c0",
            b"B",
            b"b",
            "\u00e9".encode(),
            "\U0001f600".encode(),
            *([b"\xff"] if b"\xff\xfe" in self.names else []),
        ]
        tree = self.make(tmp_path, dict.fromkeys(names, b"x"))
        assert self.found(tree) == sorted(encode_path(name) for name in names)

    def test_any_name_is_found_once_and_read_back(self, tmp_path):
        files = {name: name for name in self.names}
        tree = self.make(tmp_path, files)
        assert self.found(tree) == sorted(encode_path(name) for name in self.names)
        for name in self.names:
            data, stat = tree.read(encode_path(name), 1_000)
            assert (data, stat.path, stat.size) == (name, encode_path(name), len(name))

    def test_reading_gives_the_state_that_walking_gives(self, tmp_path):
        tree = self.make(tmp_path, {b"a/b": b"body", b"empty": b""})
        for stat in tree.walk():
            assert tree.read(stat.path, 4)[1] == stat

    def test_a_file_that_is_not_there_has_vanished(self, tmp_path):
        tree = self.make(tmp_path, {b"a/b": b"body"})
        for path in ("gone", "a/gone", "none/b"):
            with pytest.raises(RejectedInput) as caught:
                tree.read(SourcePath(path), 9)
            assert caught.value.code == "vanished"

    def test_too_large_is_refused_by_one_byte(self, tmp_path):
        tree = self.make(tmp_path, {b"a": b"12345"})
        assert tree.read(SourcePath("a"), 5)[0] == b"12345"
        with pytest.raises(RejectedInput) as caught:
            tree.read(SourcePath("a"), 4)
        assert caught.value.code == "too_large"
        assert "5" in caught.value.message
        assert "4" in caught.value.message


class TestMemorySourceTree(SourceTreeContract):
    def make(self, _folder, files):
        return MemorySourceTree({encode_path(name): data for name, data in files.items()})

    def test_a_root_that_is_gone(self, tmp_path):
        tree = self.make(tmp_path, {})
        tree.there = False
        assert not tree.exists()


class TestS3SourceTree(SourceTreeContract):
    names = tuple(
        name for name in NAMES if name.decode("utf-8", "ignore").encode() == name and b"\n" not in name
    )  # keys are UTF-8; and this server knows no line ends in them

    def make(self, _folder, files):
        settings = s3_server.fresh_bucket("corpus/")
        client = S3Client(settings)()
        for name, data in files.items():
            client.put_object(Bucket=settings.bucket, Key="corpus/" + name.decode(), Body=data)
        client.put_object(Bucket=settings.bucket, Key="corpus-beside/other.md", Body=b"not of this context")
        return S3SourceTree(settings)

    def test_a_root_that_is_gone(self):
        assert not S3SourceTree(replace(s3_server.fresh_bucket(), bucket="there-is-none")).exists()

    def test_laminaignore(self, tmp_path):
        files = {b".laminaignore": b"*.tmp\n/private/\n", b"a.md": b"1", b"b.tmp": b"2", b"private/c.md": b"3"}
        assert self.found(self.make(tmp_path, files)) == ["a.md"]

    def test_keys_that_are_no_files_are_passed_over(self, tmp_path):
        files = {b"folder/": b"", b"a//b": b"1", b"./c": b"2", b"d/../e": b"3", b".git/x": b"4", b"ok": b"5"}
        assert self.found(self.make(tmp_path, files)) == ["ok"]

    def test_more_than_a_page(self, tmp_path):
        tree = self.make(tmp_path, {b"d/%04d.md" % n: b"x" for n in range(1_100)})
        assert self.found(tree) == [f"d/{n:04d}.md" for n in range(1_100)]

    def test_a_revision_within_the_second_shows(self, tmp_path):
        tree = self.make(tmp_path, {b"a": b"one"})
        before = next(tree.walk())
        tree._client().put_object(Bucket=tree._bucket, Key="corpus/a", Body=b"two")
        after = next(tree.walk())
        assert before.size == after.size
        assert before != after

    def test_order_holds_where_names_look_like_escapes(self, tmp_path):
        names = [b"a%1F", b"a%2g", b"a%41", b"a%41/x", b"a$", b"a&", b"b%41", b"%41%42", b"%4", b"a%"]
        tree = self.make(tmp_path, dict.fromkeys(names, b"x"))
        assert self.found(tree) == sorted(encode_path(name) for name in names)


class TestLocalSourceTree(SourceTreeContract):
    def make(self, folder, files):
        root = folder / "root"
        root.mkdir()
        for name, data in files.items():
            place = os.path.join(os.fsencode(root), name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(data)
        return LocalSourceTree(root)

    def put(self, root, **files):
        for name, text in files.items():
            (root / name).write_text(text)

    def refused(self, tree, path, limit=99):
        with pytest.raises(RejectedInput) as caught:
            tree.read(SourcePath(path), limit)
        return caught.value.code

    def test_a_root_that_is_gone(self, tmp_path):
        tree = LocalSourceTree(tmp_path / "none")
        assert not tree.exists()
        assert self.found(tree) == []

    def test_a_root_may_be_a_link(self, tmp_path):
        self.make(tmp_path, {b"a": b"x"})
        (tmp_path / "link").symlink_to("root")
        tree = LocalSourceTree(tmp_path / "link")
        assert tree.exists()
        assert self.found(tree) == ["a"]
        assert tree.read(SourcePath("a"), 9)[0] == b"x"

    # ---------------------------------------------------------------- what is left out
    @pytest.mark.parametrize(
        ("rules", "kept"),
        [
            ("", "a.md a.tmp d/a.md d/a.tmp d/e/a.tmp"),
            ("*.tmp", "a.md d/a.md"),
            ("/a.tmp", "a.md d/a.md d/a.tmp d/e/a.tmp"),
            ("d/", "a.md a.tmp"),
            ("d/*.tmp", "a.md a.tmp d/a.md d/e/a.tmp"),
            ("**/a.tmp\n!d/e/a.tmp", "a.md d/a.md d/e/a.tmp"),
            ("d\n!d/a.md", "a.md a.tmp"),  # as git has it: below a folder that is left out nothing comes back
            ("d/*\n!d/a.md", "a.md a.tmp d/a.md"),
            ("# comment\n\n*.md\r\n", "a.tmp d/a.tmp d/e/a.tmp"),
            ("*\n!*.md", "a.md"),
            ("*\n!*/\n!*.md", "a.md d/a.md"),  # the usual way to say "nothing but these"
            ("a.md\n!d/", "a.tmp d/a.tmp d/e/a.tmp"),  # taking a folder back says nothing of what is in it
            ("d/\n!d/**", "a.md a.tmp"),
            ("d/**", "a.md a.tmp"),
        ],
    )
    def test_laminaignore(self, tmp_path, rules, kept):
        tree = self.make(tmp_path, dict.fromkeys([b"a.md", b"a.tmp", b"d/a.md", b"d/a.tmp", b"d/e/a.tmp"], b"x"))
        (tmp_path / "root/.laminaignore").write_text(rules)
        assert self.found(tree) == kept.split()

    def test_the_nearest_laminaignore_decides(self, tmp_path):
        tree = self.make(tmp_path, dict.fromkeys([b"a.tmp", b"d/a.tmp", b"d/b.md", b"d/e/a.tmp", b"d/e/b.md"], b"x"))
        root = tmp_path / "root"
        (root / ".laminaignore").write_text("*.tmp\n")
        (root / "d/.laminaignore").write_text("!a.tmp\n/b.md\n")
        (root / "d/e/.laminaignore").write_text("a.tmp\n")
        assert self.found(tree) == ["d/a.tmp", "d/e/b.md"]

    @pytest.mark.parametrize("kind", ["folder", "fifo", "link to nothing", "bytes"])
    def test_a_laminaignore_that_says_nothing(self, tmp_path, kind):
        """Opening a pipe must not wait for somebody to write to it."""
        tree = self.make(tmp_path, {b"a": b"x"})
        place = tmp_path / "root/.laminaignore"
        {
            "folder": place.mkdir, "fifo": lambda: os.mkfifo(place), "link to nothing": lambda: place.symlink_to("none"),
            "bytes": lambda: place.write_bytes(b"\xff\xfe\x00 \xe9\n"),
        }[kind]()  # fmt: skip
        assert self.found(tree) == ["a"]

    def test_names_that_no_corpus_means(self, tmp_path):
        names = [
            b".git/config",
            b"d/.git/x",
            b"__pycache__/x",
            b"node_modules/x",
            b".venv/x",
            b".DS_Store",
            b".hidden",
            b"git/x",
        ]
        assert self.found(self.make(tmp_path, dict.fromkeys(names, b"x"))) == [".hidden", "git/x"]

    # ---------------------------------------------------------------- links
    def test_links(self, tmp_path):
        """Followed inside the root, under the link's name; passed over where they leave it, loop or lead nowhere."""
        tree = self.make(tmp_path, {b"a": b"a", b"d/b": b"b"})
        root = tmp_path / "root"
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "rooted").mkdir()  # a neighbour whose name starts as the root's does
        (tmp_path / "rooted/x").write_text("x")
        for name, target in {
            "in": "a", "d/up": "../a", "whole": str(root / "a"), "folder": "d", "out": "../secret", "out2": str(tmp_path / "secret"),
            "outs": "../rooted", "nothing": "none", "self": "self", "ping": "pong", "pong": "ping", "d/loop": "..", "d/here": ".",
            "chain": "out",
        }.items():  # fmt: skip
            (root / name).symlink_to(target)
        assert self.found(tree) == ["a", "d/b", "d/up", "folder/b", "folder/up", "in", "whole"]
        assert tree.read(SourcePath("folder/b"), 9)[0] == b"b"
        for path in ("out", "out2", "outs/x", "chain", "nothing"):
            assert self.refused(tree, path) == "vanished"
        assert self.refused(tree, "self") in ("vanished", "unreadable")

    @pytest.mark.parametrize("path", ["../secret", "d/../../secret", "/etc/hostname", "d/../d/../../secret"])
    def test_no_path_leads_out(self, tmp_path, path):
        tree = self.make(tmp_path, {b"d/b": b"b"})
        (tmp_path / "secret").write_text("secret")
        assert self.refused(tree, path) == "vanished"

    # ---------------------------------------------------------------- what is no file, and what moves
    def test_what_is_no_regular_file_is_passed_over(self, tmp_path):
        """And refused, without waiting, where it takes a file's place before it is read."""
        tree = self.make(tmp_path, {b"a": b"x"})
        root = tmp_path / "root"
        os.mkfifo(root / "fifo")
        server = socket.socket(socket.AF_UNIX)
        here = os.getcwd()
        os.chdir(root)  # a socket's path may have 100 characters
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        (root / "folder").mkdir()
        (root / "link").symlink_to("fifo")
        assert self.found(tree) == ["a"]
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for path in ("fifo", "socket", "folder", "link"):
            assert self.refused(tree, path) == "unreadable"
        after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        assert after == before
        server.close()

    def test_a_file_below_what_has_become_a_file(self, tmp_path):
        tree = self.make(tmp_path, {b"a": b"x"})
        assert self.refused(tree, "a/b") in ("vanished", "unreadable")

    def test_a_file_that_settles_is_read_again(self, tmp_path, monkeypatch):
        """The bytes are whole, and the state is the one under which they were read."""
        tree = self.make(tmp_path, {b"a": b"old"})
        place = tmp_path / "root/a"
        reads = []

        def read_once(real, path, limit):
            data, before, _after = real_read(real, path, limit)
            reads.append(data)
            if len(reads) == 1:
                place.write_bytes(b"newer")
            return data, before, source_tree_local._stat(path, os.stat(real))

        real_read = source_tree_local._read_once
        monkeypatch.setattr(source_tree_local, "_read_once", read_once)
        data, stat = tree.read(SourcePath("a"), 9)
        assert (data, reads) == (b"newer", [b"old", b"newer"])
        assert [stat] == list(tree.walk())

    def test_a_file_that_never_settles_is_given_up(self, tmp_path, monkeypatch):
        tree = self.make(tmp_path, {b"a": b""})

        def read_once(real, path, limit):
            data, before, _after = real_read(real, path, limit)
            with open(real, "ab") as file:
                file.write(b"more")
            return data, before, source_tree_local._stat(path, os.stat(real))

        real_read = source_tree_local._read_once
        monkeypatch.setattr(source_tree_local, "_read_once", read_once)
        assert self.refused(tree, "a") == "changing"

    def test_an_edit_that_puts_the_time_back_shows(self, tmp_path):
        tree = self.make(tmp_path, {b"a": b"one"})
        (before,) = tree.walk()
        place = tmp_path / "root/a"
        while True:  # until the file system's clock has moved on
            place.write_bytes(b"two")
            os.utime(place, ns=(before.mtime_ns, before.mtime_ns))
            (after,) = tree.walk()
            assert (after.size, after.mtime_ns) == (before.size, before.mtime_ns)
            if after.change_ns != before.change_ns:
                break

    def test_what_vanishes_during_the_walk_is_passed_over(self, tmp_path):
        """A folder that somebody deletes meanwhile is no reason to fail a run."""
        tree = self.make(tmp_path, {b"a": b"x", b"b/c": b"x", b"d/e": b"x", b"f": b"x", b"g": b"x"})
        walk = tree.walk()
        assert next(walk).path == "a"
        shutil.rmtree(tmp_path / "root/b")
        (tmp_path / "root/f").unlink()
        assert [stat.path for stat in walk] == ["d/e", "g"]

    def test_a_root_that_vanishes_during_the_walk_is_not_an_empty_one(self, tmp_path):
        tree = self.make(tmp_path, {b"a": b"x"})
        walk = tree._folder(b"", (), (b"",))
        shutil.rmtree(tmp_path / "root")
        with pytest.raises(RejectedInput) as caught:
            list(walk)
        assert caught.value.code == "unreadable_folder"

    def test_memory_is_bounded_by_one_folder(self, tmp_path):
        """A file of the first folder comes before the second one is listed."""
        tree = self.make(tmp_path, {b"a/x": b"x", b"b/x": b"x"})
        walk = tree.walk()
        assert next(walk).path == "a/x"
        (tmp_path / "root/b/y").write_bytes(b"y")
        assert [stat.path for stat in walk] == ["b/x", "b/y"]
