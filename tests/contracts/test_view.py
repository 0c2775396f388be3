"""The contract of port `KnowledgeView`, for every adapter."""

# Paths are bytes here, which pathlib doesn't take.
# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os

import pytest

from pipeline.adapters.memory_files import MemoryView
from pipeline.adapters.view_local import LocalView
from pipeline.errors import Unavailable
from pipeline.fingerprint import decode_path, encode_path


class ViewContract:
    def make(self, folder):
        raise NotImplementedError

    def files(self, view):
        """What the view shows: raw name to bytes."""
        raise NotImplementedError

    @pytest.fixture
    def view(self, tmp_path):
        return self.make(tmp_path)

    def test_nothing_is_shown_at_first(self, view):
        assert view.shown() == 0
        view.remove("chunks/none")

    def test_a_refresh_that_was_cut_short_shows(self, view):
        view.begin()
        assert view.shown() == -1
        view.end(7)
        assert view.shown() == 7
        view.begin()
        assert view.write("chunks/a", b"1")
        assert view.shown() == -1

    def test_files_are_replaced_and_removed(self, view):
        view.begin()
        assert view.write("chunks/d/a", b"1")
        assert view.write("chunks/d/a", b"2")
        assert view.write("chunks/d/b", b"")
        assert self.files(view) == {b"chunks/d/a": b"2", b"chunks/d/b": b""}
        for _ in range(2):
            view.remove("chunks/d/a")
        view.remove("chunks/d/none/x")
        assert self.files(view) == {b"chunks/d/b": b""}
        view.end(1)

    def test_what_is_shown_can_be_read_back_and_listed(self, view):
        assert view.read("chunks/a") is None
        assert list(view.paths()) == []
        view.begin()
        names = [f"chunks/{encode_path(name)}" for name in (b"a", b"caf\xe9", b"%41", b"deep/er/b")]
        for name in names:
            assert view.fits(name)
            view.write(name, name.encode())
        view.end(3)
        assert sorted(view.paths()) == sorted(names)
        assert [view.read(name) for name in names] == [name.encode() for name in names]
        assert view.read("chunks/none") is None
        assert view.fits("chunks/none")

    def test_clearing_hides_everything_and_may_be_repeated(self, view):
        view.begin()
        view.write("chunks/a", b"1")
        view.write("top", b"1")
        for _ in range(2):
            view.clear()
            assert self.files(view) == {}
        assert view.shown() == -1

    def test_any_source_name_stands_under_its_own_bytes(self, view):
        names = [
            b"caf\xe9.md",
            b"%41",
            b"A",
            b"two\nlines",
            b"trailing ",
            "\U0001f600".encode(),
            b"\xff",
            b".hidden",
            b"a\\b",
        ]
        view.begin()
        for name in names:
            assert view.write(f"chunks/{encode_path(name)}.x", name)
        assert self.files(view) == {b"chunks/" + name + b".x": name for name in names}
        for name in names:
            view.remove(f"chunks/{encode_path(name)}.x")
        assert self.files(view) == {}


class TestMemoryView(ViewContract):
    def make(self, _folder):
        return MemoryView()

    def files(self, view):
        return {decode_path(path): data for path, data in view.files.items()}


class TestLocalView(ViewContract):
    def make(self, folder):
        return LocalView(folder / "knowledge")

    def files(self, view):
        found, root = {}, os.fsencode(view._root)
        for folder, _, names in os.walk(root):
            for name in names:
                if name != b".lamina-version":
                    path = os.path.join(folder, name)
                    with open(path, "rb") as file:
                        found[os.path.relpath(path, root)] = file.read()
        return found

    def test_another_instance_sees_it(self, view, tmp_path):
        view.begin()
        view.end(3)
        assert self.make(tmp_path).shown() == 3

    @pytest.mark.parametrize("name", [b"x" * 250, "\U0001f600".encode() * 61, b"y" * 255, b"d" * 300 + b"/a"])
    def test_a_name_that_does_not_fit_is_told_and_leaves_nothing(self, view, name):
        """A source's name may be as long as the system takes; with the ending of its listing it is longer."""
        path = f"chunks/{encode_path(name)}.chunks.jsonl"
        view.begin()
        assert view.write(path, b"1") is False
        assert (view.read(path), view.fits(path)) == (None, False)
        view.remove(path)
        assert self.files(view) == {}

    def test_a_file_where_another_needs_a_folder_is_told(self, view):
        view.begin()
        assert view.write("chunks/a.x", b"1")
        assert view.write("chunks/a.x/b", b"2") is False
        view.remove("chunks/a.x/b")
        assert view.write("chunks/d/b", b"3")
        assert view.write("chunks/d", b"4") is False
        for path in ("chunks/a.x/b", "chunks/d"):
            assert (view.read(path), view.fits(path)) == (None, False)
        view.remove("chunks/d")
        assert self.files(view) == {b"chunks/a.x": b"1", b"chunks/d/b": b"3"}

    @pytest.mark.parametrize("path", ["../out", "chunks/../../out", "/out", "", ".lamina-version", "%2E%2E/out"])
    def test_nothing_is_written_outside_or_over_the_mark(self, view, tmp_path, path):
        view.begin()
        assert view.write(path, b"1") is False
        assert (view.read(path), view.fits(path)) == (None, False)
        view.remove(path)
        view.end(4)
        assert list(view.paths()) == []
        assert view.shown() == 4
        assert sorted(p.name for p in tmp_path.rglob("*")) == [".lamina-version", "knowledge"]

    def test_folders_that_become_empty_go(self, view, tmp_path):
        view.begin()
        view.write("chunks/d/e/a", b"1")
        view.write("chunks/b", b"1")
        view.remove("chunks/d/e/a")
        assert sorted(p.name for p in (tmp_path / "knowledge").rglob("*")) == [".lamina-version", "b", "chunks"]

    def test_a_mark_that_says_nonsense_is_a_refresh_cut_short(self, view, tmp_path):
        view.begin()
        (tmp_path / "knowledge/.lamina-version").write_bytes(b"\xff\xfe not a number")
        assert view.shown() == -1

    def test_a_folder_that_cannot_be_made_is_unavailable(self, tmp_path):
        (tmp_path / "knowledge").write_bytes(b"a file where the folder should be")
        for act in (lambda v: v.begin(), lambda v: v.end(1)):
            with pytest.raises(Unavailable):
                act(self.make(tmp_path))

    def test_a_full_disk_is_no_matter_of_names(self, view, monkeypatch):
        """A file that can't be written now must not count as one whose name doesn't fit, which nobody looks at again."""
        view.begin()

        def full(*_args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pathlib.Path.write_bytes", full)
        with pytest.raises(Unavailable):
            view.write("chunks/a", b"1")
