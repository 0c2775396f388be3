"""The flows behind `lamina add`, `remove` and `delete`: files in and out of a staged context's own tree.

A file appears in the tree whole or not at all: it is written beside the tree, flushed, then linked to its place. What
is added from a folder is what a curate of that folder would see: ignored files stay out, and no link out of it is
followed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline import contexts, landing, publish
from pipeline.errors import RejectedInput, Unavailable
from pipeline.file_ports import SourceTree
from pipeline.fingerprint import decode_path, encode_path
from pipeline.landing import LEFTOVER_S, Places
from pipeline.ports import Ports
from pipeline.rows import ContextRow
from pipeline.types import ContextSlug, SourcePath

__all__ = ["Added", "Places", "add", "erase_folder", "remove", "require_staged", "writing"]

NAMED_MAX = 10
"""Names that one message lists."""


@dataclass(frozen=True, slots=True)
class Added:
    """What became of one file."""

    path: SourcePath
    outcome: str
    """added, replaced, same (it was there already with these bytes) or failed."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Item:
    """A file on its way: where it is read and where it goes."""

    tree: SourceTree
    source: SourcePath
    target: SourcePath


def add(
    ports: Ports, slug: ContextSlug, places: Places, given: Sequence[str], *, into: str, replace: bool
) -> tuple[Added, ...]:
    """Copy files and folders into the staged tree, making the context where it is new.

    A given file goes in under its own name, a folder under its own name with all that is below it. Nothing at all is
    added when a name is refused. May be repeated: what is there already with the same bytes is left alone.

    Args:
        ports: the deployment.
        slug: the context.
        places: its folders.
        given: paths as typed.
        into: folder inside the staged tree to put everything under; empty for its top.
        replace: put files in the place of others that have the same names.

    Raises:
        RejectedInput: a path isn't there, the context reads a folder in place, or names are taken.
        Unavailable: the tree can't be written.
    """
    require_staged(ports, slug)
    prefix = _inside(into) if into else b""
    items = [item for text in given for item in _items(ports, text, prefix)]
    if not items:
        raise RejectedInput(
            "nothing_to_add", "there is no file in what was given", remedy="check the paths and .laminaignore"
        )
    with landing.held(ports.clock, ports.ledger, slug, places):
        _refuse_collisions(ports, places, items, replace=replace)
        contexts.open_context(ports, slug, kind="staged", root="")
        with writing(slug):
            places.tree.mkdir(parents=True, exist_ok=True)
            _clear_leftovers(places.incoming, ports.clock.now())
            added = tuple(_put(ports, places, item, replace=replace) for item in items)
        with ports.ledger.transaction("sources.add", slug) as session:
            session.sources.unmark_removed(slug, [item.path for item in added if item.outcome != "failed"])
    return added


@contextmanager
def writing(slug: ContextSlug) -> Iterator[None]:
    """Tell of a staged file that can't be written as what it is: an outage."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            "not_staged",
            f"the staged files of {slug} can't be written: {error.strerror}",
            remedy="check space and permissions, then run again",
        ) from error


def require_staged(ports: Ports, slug: ContextSlug) -> None:
    """Refuse a context that reads a folder in place; one that isn't there yet is fine.

    Raises:
        RejectedInput: code `not_staged`.
    """
    with ports.ledger.read() as session:
        held = session.contexts.get(slug)
    if held is not None and held.kind != "staged":
        raise RejectedInput(
            "not_staged",
            f"{slug} reads its files in place, from {held.root}",
            remedy="change the files there; or stage files under another context name",
        )


def _items(ports: Ports, text: str, prefix: bytes) -> Iterator[_Item]:
    """The files behind one given path. The path itself may be a link: whoever names it means what it leads to."""
    raw = os.fsencode(text)
    real = os.path.realpath(raw)
    name = os.path.basename(raw.rstrip(b"/"))  # noqa: PTH119
    name = b"" if name in (b".", b"..") else name
    if os.path.isdir(real):  # noqa: PTH112  # paths are bytes here, which pathlib doesn't take
        tree = _tree(ports, real)
        for stat in tree.walk():
            yield _Item(tree, stat.path, encode_path(_joined(prefix, name, decode_path(stat.path))))
    elif os.path.isfile(real):  # noqa: PTH113
        folder, own = os.path.split(real)
        yield _Item(_tree(ports, folder), encode_path(own), encode_path(_joined(prefix, name)))
    elif os.path.lexists(raw):
        raise RejectedInput("not_a_file", f"{text} is neither a file nor a folder", remedy="give files and folders")
    else:
        raise RejectedInput("no_file", f"there is no {text}", remedy="check the path")


def _tree(ports: Ports, folder: bytes) -> SourceTree:
    return ports.sources(ContextRow(ContextSlug(""), "folder", encode_path(folder), 0.0))


def _joined(*parts: bytes) -> bytes:
    return b"/".join(part for part in parts if part)


def _inside(text: str) -> bytes:
    """A path as typed, as one inside the tree."""
    raw = os.path.normpath(os.fsencode(text))
    if raw.startswith(b"/") or raw.split(b"/")[0] == b"..":
        raise RejectedInput(
            "outside", f"{text} leads out of the staged files", remedy="give a path relative to their top"
        )
    return b"" if raw == b"." else raw


def _refuse_collisions(ports: Ports, places: Places, items: Sequence[_Item], *, replace: bool) -> None:
    taken: list[str] = []
    first: dict[SourcePath, _Item] = {}
    for item in items:
        earlier = first.setdefault(item.target, item)
        if earlier is not item and _bytes(ports, earlier) != _bytes(ports, item):
            raise RejectedInput(
                "same_name",
                f"two of the files given would both be {item.target}",
                remedy="add them one after the other, one of them with --into FOLDER",
            )
        place = _place(places, item.target)
        if os.path.isdir(place) or _blocked(place, os.fsencode(places.tree)):  # noqa: PTH112
            raise RejectedInput(
                "name_taken",
                f"{item.target}: a file and a folder can't share a name",
                remedy="remove the staged one first",
            )
        if os.path.lexists(place) and not replace and _held(place) != _bytes(ports, item):
            taken.append(item.target)
    if taken:
        named = ", ".join(taken[:NAMED_MAX]) + (f" and {len(taken) - NAMED_MAX} more" if len(taken) > NAMED_MAX else "")
        raise RejectedInput(
            "name_taken",
            f"staged already with other contents: {named}. Nothing was added",
            remedy="add --replace to put the new files in their place, or --into FOLDER to keep both",
        )


def _blocked(place: bytes, root: bytes) -> bool:
    """Whether a part of the way to the place is a file."""
    above = os.path.dirname(place)  # noqa: PTH120
    while len(above) > len(root):
        if os.path.lexists(above) and not os.path.isdir(above):  # noqa: PTH112
            return True
        above = os.path.dirname(above)  # noqa: PTH120
    return False


def _place(places: Places, target: SourcePath) -> bytes:
    return os.path.join(os.fsencode(places.tree), decode_path(target))  # noqa: PTH118


def _held(place: bytes) -> bytes | None:
    try:
        with open(place, "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return None


def _bytes(ports: Ports, item: _Item) -> bytes | None:
    """The file's bytes; None where it can't be read, which `_put` then reports."""
    try:
        return item.tree.read(item.source, ports.limits.source_bytes)[0]
    except RejectedInput:
        return None


def _put(ports: Ports, places: Places, item: _Item, *, replace: bool) -> Added:
    place = _place(places, item.target)
    try:
        data, stat = item.tree.read(item.source, ports.limits.source_bytes)
    except RejectedInput as error:
        return Added(item.target, "failed", error.message)
    there = os.path.lexists(place)
    if there and _held(place) == data:
        return Added(item.target, "same")
    handle, name = tempfile.mkstemp(dir=places.incoming)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, 0o644)
            os.fsync(handle)
        os.utime(name, ns=(stat.mtime_ns, stat.mtime_ns))
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        if replace:
            os.replace(name, place)  # noqa: PTH105
            return Added(item.target, "replaced" if there else "added")
        os.link(name, place)  # fails where somebody else has put a file there meanwhile
    except FileExistsError:
        return Added(item.target, "failed", "another file has taken this name meanwhile")
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
    return Added(item.target, "added")


def _clear_leftovers(folder: Path, now: float) -> None:
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if now - entry.stat(follow_symlinks=False).st_mtime > LEFTOVER_S:
                os.unlink(entry.path)  # noqa: PTH108


def remove(ports: Ports, slug: ContextSlug, places: Places, given: Sequence[str]) -> tuple[SourcePath, ...]:
    """Take files out of the staged tree; what they left in the index goes at the next curate.

    The ledger knows first, so that a removal cut short is found. Nothing is removed when a path isn't there.

    Args:
        ports: the deployment.
        slug: the context.
        places: its folders.
        given: paths of sources or folders inside the tree, raw or as the ledger writes them.

    Raises:
        RejectedInput: no such context or path, or the context reads a folder in place.
        Unavailable: a file can't be removed.
    """
    with ports.ledger.read() as session:
        context = publish.require_context(session, slug)
    require_staged(ports, slug)
    with landing.held(ports.clock, ports.ledger, slug, places):
        paths = sorted({path for text in given for path in _staged_at(places.tree, text)})
        with ports.ledger.transaction("sources.remove", slug) as session:
            session.sources.mark_removed(slug, paths, context.live_version, ports.clock.now())
        try:
            for path in paths:
                with suppress(FileNotFoundError):
                    os.unlink(_place(places, path))  # noqa: PTH108
                _prune(os.path.dirname(_place(places, path)), os.fsencode(places.tree))  # noqa: PTH120
        except OSError as error:
            raise Unavailable(
                "not_removed", f"can't remove {path}: {error.strerror}", remedy="check permissions, then run again"
            ) from error
    return tuple(paths)


def _staged_at(tree: Path, text: str) -> Iterator[SourcePath]:
    root = os.fsencode(tree)
    for raw in (os.fsencode(text), decode_path(SourcePath(_unmangled(text)))):
        inside = _inside(os.fsdecode(raw))
        place = os.path.join(root, inside) if inside else root  # noqa: PTH118
        if os.path.isdir(place) and not os.path.islink(place):  # noqa: PTH112, PTH114
            found = False
            for folder, _, names in os.walk(place):
                for name in names:
                    found = True
                    yield encode_path(os.path.relpath(os.path.join(folder, name), root))  # noqa: PTH118
            if found:
                return
        elif os.path.lexists(place):
            yield encode_path(inside)
            return
    raise RejectedInput(
        "no_source",
        f"there is no staged source {text}",
        remedy="give a path as `lamina ledger` shows it, or a folder of such",
    )


def _unmangled(text: str) -> str:
    """Typed text as valid UTF-8: bytes that aren't have no place in the encoded form."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _prune(folder: bytes, root: bytes) -> None:
    """Drop folders that have become empty, up to the tree's top."""
    while len(folder) > len(root):
        try:
            os.rmdir(folder)  # noqa: PTH106
        except OSError:
            return
        folder = os.path.dirname(folder)  # noqa: PTH120


def erase_folder(folder: Path) -> bool:
    """Remove a context's folder; False where there was none. Renamed first, so that a name used again finds nothing old.

    Raises:
        Unavailable: it can't be removed.
    """
    try:
        if not folder.is_dir():
            return False
        trash = Path(tempfile.mkdtemp(prefix=".deleted-", dir=folder.parent))
        folder.rename(trash / folder.name)
        shutil.rmtree(trash)
    except OSError as error:
        raise Unavailable(
            "not_deleted",
            f"can't remove {folder}: {error.strerror}",
            remedy="check permissions, then remove it by hand",
        ) from error
    return True
