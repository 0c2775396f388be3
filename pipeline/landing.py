"""How the files of one import get into a staged tree: all of them or none, whatever is killed when.

Everything stands in the context's folder, beside the tree and on its file system. Steps, and what a crash after each
leaves behind:

1. `imports/{id}/bodies/{n}` are written and flushed, and `imports/{id}/report.jsonl` beside them. The tree is untouched;
   the folder is cleared away once it is `LEFTOVER_S` old.
2. `plan.jsonl` (which body goes where) is written, flushed and renamed to its name: the import is committed. From here on
   whatever uses the tree first finishes it: `lamina import`, `add` and `remove`, and a curate as it starts.
3. Bodies are renamed to their places. Those that are gone from `bodies` are at their places, so this may be repeated.
4. The report moves to `imports/{id}.jsonl`, and the ledger forgets that files of these names were ever removed.
   May be repeated.
5. `imports/{id}` goes, `plan.jsonl` last.

`held` is the lock of a staged tree: commands that change it don't overlap, and no check of it is out of date when it
is acted on. It dies with its process.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import Conflict, Corruption, Unavailable
from pipeline.fingerprint import decode_path
from pipeline.ledger import Ledger
from pipeline.ports import Clock
from pipeline.types import ContextSlug, SourcePath

LEFTOVER_S = 86_400.0
"""Age past which what a killed command has left half-written is cleared away."""

LOCK_TRIES = 120
LOCK_PAUSE_S = 0.5
"""A minute in all: adding a large folder may take that long."""

_PLAN, _REPORT, _BODIES, _UNSURE = "plan.jsonl", "report.jsonl", "bodies", ".part"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one staged context."""

    tree: Path
    """Where its sources stand."""
    incoming: Path
    """Where files are written before they appear; on the same file system."""

    @property
    def imports(self) -> Path:
        """Where imports are prepared, and where their reports stay; on the same file system."""
        return self.incoming.parent / "imports"


@dataclass(frozen=True, slots=True)
class Landing:
    """The folder of one import that isn't committed yet."""

    folder: Path

    @property
    def report(self) -> Path:
        """The file that becomes the import's report."""
        return self.folder / _REPORT

    def body(self, number: int) -> Path:
        """Where one file is written."""
        return self.folder / _BODIES / str(number)

    @classmethod
    @contextmanager
    def opened(cls, places: Places, name: str) -> Iterator[Landing]:
        """A new folder, which goes again unless it was committed. `name` is a wish; the folder's own name is unique."""
        places.imports.mkdir(parents=True, exist_ok=True)
        folder = _fresh(places.imports, name)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # tells the living from leftovers; nobody else wants a new folder's lock
            (folder / _BODIES).mkdir()
            yield cls(folder)
        finally:
            os.close(handle)
            if not (folder / _PLAN).exists():
                shutil.rmtree(folder, ignore_errors=True)
                for empty in (places.imports, places.imports.parent):  # of a context that was never made
                    with suppress(OSError):
                        empty.rmdir()

    def commit(self, plan: Iterable[tuple[int, SourcePath]]) -> None:
        """Promise that every body of the plan will stand at its place. Bodies and report must be flushed already."""
        unsure = self.folder / (_PLAN + _UNSURE)
        with unsure.open("w", encoding="utf-8") as file:
            for number, path in plan:
                file.write(json.dumps([number, path]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        for folder in (self.folder / _BODIES, self.folder, self.folder.parent, self.folder.parent.parent):
            sync_folder(folder)
        unsure.rename(self.folder / _PLAN)
        sync_folder(self.folder)


def _fresh(imports: Path, name: str) -> Path:
    number = 0
    while True:  # ends at the first free number
        folder = imports / (f"{name}-{number}" if number else name)
        with suppress(FileExistsError):
            if not folder.with_name(folder.name + ".jsonl").exists():
                folder.mkdir()
                return folder
        number += 1


@contextmanager
def held(clock: Clock, ledger: Ledger, slug: ContextSlug, places: Places) -> Iterator[None]:
    """The tree for this command alone, with earlier imports finished and old leftovers cleared away.

    Raises:
        Conflict: code `staging_busy`: another command is at it.
        Unavailable: an earlier import can't be finished.
    """
    handle = _open_lock(places)
    try:
        _lock(handle, clock, slug)
        finish(ledger, slug, places)
        _clear_leftovers(places.imports, clock.now())
        yield
    finally:
        os.close(handle)


def settle(clock: Clock, ledger: Ledger, slug: ContextSlug, places: Places) -> None:
    """Finish imports that were cut short after their commit, so that nobody reads half of one.

    Raises:
        Conflict: code `staging_busy`: one is being published at this moment, and takes long.
        Unavailable: an earlier import can't be finished.
    """
    if any(_committed(places.imports)):
        with held(clock, ledger, slug, places):
            pass


def _open_lock(places: Places) -> int:
    """The lock is on the folder itself: a lock file could be cleared away by somebody who takes it for a leftover."""
    try:
        places.incoming.mkdir(parents=True, exist_ok=True)
        return os.open(places.incoming, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Unavailable(
            "not_staged",
            f"{places.incoming} can't be used: {error.strerror}",
            remedy="check space and permissions, then run again",
        ) from error


def _lock(handle: int, clock: Clock, slug: ContextSlug) -> None:
    for _ in range(LOCK_TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        clock.sleep(LOCK_PAUSE_S)
    raise Conflict(
        "staging_busy",
        f"another command is changing the staged files of {slug}",
        remedy="run this again when it has ended",
    )


def _committed(imports: Path) -> Iterator[Path]:
    try:
        with os.scandir(imports) as scan:
            names = sorted(entry.name for entry in scan if not entry.name.endswith(".jsonl"))
    except FileNotFoundError:
        return
    yield from (imports / name for name in names if (imports / name / _PLAN).exists())


def finish(ledger: Ledger, slug: ContextSlug, places: Places) -> None:
    """Steps 3 to 5 of every committed import; for whoever holds the tree.

    Raises:
        Unavailable: a file can't be put into its place.
        Corruption: a plan can't be read.
    """
    for folder in list(_committed(places.imports)):
        plan = _plan(folder)
        try:
            _publish(folder, plan, places.tree)
            with suppress(FileNotFoundError):
                (folder / _REPORT).replace(folder.with_name(folder.name + ".jsonl"))
            sync_folder(places.imports)
            with ledger.transaction("sources.add", slug) as session:
                session.sources.unmark_removed(slug, [path for _, path in plan])
            shutil.rmtree(folder / _BODIES, ignore_errors=True)
            (folder / _PLAN).unlink()
            shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise Unavailable(
                "import_unfinished",
                f"import {folder.name} of {slug} can't be finished: {error}",
                remedy="check space and permissions of the staged files, then run again: it goes on where it stopped",
            ) from error


def _plan(folder: Path) -> list[tuple[int, SourcePath]]:
    try:
        with (folder / _PLAN).open(encoding="utf-8") as file:
            return [(int(number), SourcePath(path)) for number, path in map(json.loads, file)]
    except (OSError, ValueError, TypeError) as error:
        raise Corruption(
            "bad_plan",
            f"{folder / _PLAN} can't be read: {error}",
            remedy="restore it; or remove its folder, then import again",
        ) from error


def _publish(folder: Path, plan: Iterable[tuple[int, SourcePath]], tree: Path) -> None:
    root = os.fsencode(tree)
    touched = {root, os.path.dirname(root)}  # noqa: PTH120  # paths are bytes here, which pathlib doesn't take
    for number, path in plan:
        body = os.fsencode(folder / _BODIES / str(number))
        place = os.path.join(root, decode_path(path))  # noqa: PTH118
        above = os.path.dirname(place)  # noqa: PTH120
        if os.path.lexists(body):
            os.makedirs(above, exist_ok=True)  # noqa: PTH103
            os.replace(body, place)  # noqa: PTH105
        while above not in touched:
            touched.add(above)
            above = os.path.dirname(above)  # noqa: PTH120
    for each in touched:
        with suppress(FileNotFoundError):  # removed since by hand
            sync_folder(each)


def sync_folder(folder: Path | bytes) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear_leftovers(imports: Path, now: float) -> None:
    """Drop imports that never came to their commit, old ones whose process has ended."""
    with suppress(FileNotFoundError), os.scandir(imports) as scan:
        for entry in scan:
            if entry.is_dir(follow_symlinks=False) and now - entry.stat(follow_symlinks=False).st_mtime > LEFTOVER_S:
                folder = Path(entry.path)
                handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not (folder / _PLAN).exists():
                        shutil.rmtree(folder, ignore_errors=True)
                except BlockingIOError:
                    continue
                finally:
                    os.close(handle)
