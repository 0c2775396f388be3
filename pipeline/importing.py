"""The flow behind `lamina import`: files and archives into a staged context's own tree, all of an import or nothing.

A given file is copied, an archive is expanded. An entry that can't be staged as what it is gets left out and named; a
passed limit, damage, or two files of one name end the import before anything is published. What is read how stands in
`pipeline.intake`; how files get into the tree, and what a crash at each step leaves, in `pipeline.landing`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline import contexts, landing, staging
from pipeline.archives import ImportLimits
from pipeline.errors import RejectedInput
from pipeline.fingerprint import encode_path, fingerprint
from pipeline.import_names import bytes_of, checked, collision_key, folders_above, passed_over, text_of
from pipeline.import_report import Record, Report
from pipeline.intake import COPY_BYTES, Intake, Output
from pipeline.landing import Landing, Places
from pipeline.ports import Ports
from pipeline.types import ContextSlug

NAMED_MAX = 10
"""Names that one message lists."""


@dataclass(frozen=True, slots=True)
class Imported:
    """How an import ended."""

    report: Report
    manifest_file: str
    """The file of all records, relative to the context's folder."""
    same: int
    """Of the import's files, those that were staged already with the same bytes."""


def import_files(
    ports: Ports,
    slug: ContextSlug,
    places: Places,
    given: Sequence[str],
    *,
    into: str = "",
    replace: bool = False,
    limits: ImportLimits | None = None,
) -> Imported:
    """Stage files and what is in archives, making the context where it is new.

    May be repeated: what is there already with the same bytes is left alone.

    Args:
        ports: the deployment.
        slug: the context.
        places: its folders.
        given: paths as typed.
        into: folder inside the staged tree to put everything under; empty for its top.
        replace: put files in the place of others that have the same names.
        limits: bounds; the defaults if None.

    Raises:
        RejectedInput: a path isn't there, the context reads a folder in place, an archive is damaged or passes a limit,
            or names are taken. Nothing was published.
        Unavailable: the tree can't be written. What was committed by then is finished by the next command.
        Conflict: code `staging_busy`.
    """
    staging.require_staged(ports, slug)
    limits = limits or ImportLimits()
    prefix = "" if into in ("", ".", "./") else _folder(into, ports, limits)
    for text in given:
        _require_file(text)
    wish = fingerprint("import", slug, str(ports.clock.now()), ports.owner, *map(os.fsencode, given))[:16]
    with (
        staging.writing(slug),
        Landing.opened(places, wish) as work,
        work.report.open("w", encoding="utf-8") as file,
    ):
        intake = Intake(ports, limits, prefix, work, Report(file))
        for text in given:
            _take(intake, text)
        intake.report.flush()
        with landing.held(ports.clock, ports.ledger, slug, places):
            fresh = _not_staged(places.tree, intake.outputs, work, replace=replace)
            contexts.open_context(ports, slug, kind="staged", root="")
            places.tree.mkdir(parents=True, exist_ok=True)
            work.commit((output.body, output.source) for output in fresh)
            landing.finish(ports.ledger, slug, places)
    return Imported(intake.report, f"imports/{work.folder.name}.jsonl", len(intake.outputs) - len(fresh))


def _folder(into: str, ports: Ports, limits: ImportLimits) -> str:
    try:
        path = checked(os.fsencode(into), "", limits)
        reason = passed_over(path, ports.unread_names)
    except RejectedInput as error:
        reason = error.message
    if reason:
        raise RejectedInput(
            "outside", f"--into {into}: this {reason}", remedy="give a path relative to the top of the staged files"
        )
    return path


def _require_file(text: str) -> None:
    try:
        mode = Path(text).stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RejectedInput("no_file", f"there is no {text}", remedy="check the path") from error
    except (OSError, ValueError):
        return  # named as failed when it is opened
    if stat.S_ISDIR(mode):
        raise RejectedInput("not_a_file", f"{text} is a folder", remedy="stage it with: lamina add")
    if not stat.S_ISREG(mode):
        raise RejectedInput("not_a_file", f"{text} is not a regular file", remedy="give files and archives")


def _take(intake: Intake, text: str) -> None:
    raw = os.fsencode(text)
    shown = encode_path(raw)
    try:
        handle = os.open(raw, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        intake.report.add(Record(shown, "failed", reason=f"can't read {shown}: {error.strerror}"))
        return
    with open(handle, "rb") as file:  # noqa: PTH123  # a handle
        intake.take(shown, os.path.basename(raw), file)  # noqa: PTH119  # bytes


@dataclass(slots=True)
class _Standing:
    """What of the staged tree an import has to do with."""

    files: dict[str, list[str]] = field(default_factory=dict)
    """Collision key of an output to the staged files that have it."""
    blocking: dict[str, str] = field(default_factory=dict)
    """Collision key of an output to the staged folder of its name, and of its folders to the staged file of theirs."""


def _not_staged(tree: Path, outputs: Sequence[Output], work: Landing, *, replace: bool) -> tuple[Output, ...]:
    """The outputs that aren't in the tree yet with these bytes.

    Raises:
        RejectedInput: code `name_taken`, naming what is in the way.
    """
    keys = {output.path: collision_key(output.path) for output in outputs}
    standing = _standing(tree, frozenset(keys.values()))
    fresh, taken = [], []
    for output in outputs:
        key = keys[output.path]
        blocking = next((found for k in (key, *folders_above(key)) if (found := standing.blocking.get(k))), "")
        others = standing.files.get(key, ())
        variants = [path for path in others if path != output.path]
        if blocking or variants:
            why = "a file and a folder can't share a name" if blocking else "some systems take the two for one name"
            taken.append(f"{output.source} (staged is {encode_path(bytes_of(blocking or variants[0]))}: {why})")
        elif not others:
            fresh.append(output)
        elif not _same_bytes(work.body(output.body), tree, output.path):
            fresh.append(output)
            if not replace:
                taken.append(output.source)
    if taken:
        more = f" and {len(taken) - NAMED_MAX} more" if len(taken) > NAMED_MAX else ""
        raise RejectedInput(
            "name_taken",
            f"staged already with other contents: {', '.join(taken[:NAMED_MAX])}{more}. Nothing was imported",
            remedy="add --replace to put new files in the place of others of exactly the same name, or --into FOLDER to "
            "keep both; what only looks the same has to be removed first",
        )
    return tuple(fresh)


def _standing(tree: Path, keys: frozenset[str]) -> _Standing:
    above = frozenset(folder for key in keys for folder in folders_above(key))
    standing = _Standing()
    for path, is_folder in _walk(tree):
        key = collision_key(path)
        if key in keys and not is_folder:
            standing.files.setdefault(key, []).append(path)
        if (key in keys and is_folder) or (key in above and not is_folder):
            standing.blocking.setdefault(key, path)
    return standing


def _walk(tree: Path) -> Iterator[tuple[str, bool]]:
    """Every path in the tree, and whether it is a folder. A link is none, wherever it leads."""
    root = os.fsencode(tree)
    for folder, folders, names in os.walk(root):
        for name, is_folder in (*((n, True) for n in folders), *((n, False) for n in names)):
            place = os.path.join(folder, name)  # noqa: PTH118  # paths are bytes here, which pathlib doesn't take
            yield text_of(os.path.relpath(place, root)), is_folder and not os.path.islink(place)  # noqa: PTH114


def _same_bytes(body: Path, tree: Path, path: str) -> bool:
    place = os.path.join(os.fsencode(tree), bytes_of(path))  # noqa: PTH118
    if os.path.islink(place) or not os.path.isfile(place):  # noqa: PTH113, PTH114
        return False
    with body.open("rb") as new, open(place, "rb") as old:  # noqa: PTH123
        if os.fstat(new.fileno()).st_size != os.fstat(old.fileno()).st_size:
            return False
        return all(new.read(COPY_BYTES) == piece for piece in iter(lambda: old.read(COPY_BYTES), b""))
