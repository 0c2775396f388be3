"""What the source tree holds, compared with the live version. Pure: the flow supplies both sides, ordered by path.

`unchanged` is judged against the live version, never against the last run (DESIGN §3), by content hash. The cheap state
(size, times) only saves the hashing, and is believed only when the file was at rest for a while before it was hashed:
an edit within the clock's grain of the hashing would leave the same times (git calls such entries racily clean).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from pipeline.file_ports import SourceStat
from pipeline.rows import SourceRow, StatRow

RACY_S = 2.0
"""Rest that a file needs before its hashing for the cheap state to be believed; FAT keeps times to 2 s."""

RETRIED = frozenset({"vanished", "changing", "unreadable", "vectors", "embedding"})
"""Reasons of failure that another attempt may cure though the bytes are the same."""

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one source."""

    change: str
    """unchanged, new, changed, stale, retry, deleted."""
    stale: bool = False
    """Unchanged content under a changed fingerprint, left alone because the run isn't forced."""


def trusted(stat: SourceStat, known: StatRow | None) -> bool:
    """Whether `known.hash` may stand for the file without reading it."""
    if known is None or (stat.size, stat.mtime_ns, stat.change_ns) != (known.size, known.mtime_ns, known.change_ns):
        return False
    return max(stat.mtime_ns, stat.change_ns) / NANOSECONDS < known.checked_at - RACY_S


def decide(
    live: SourceRow | None,
    seen_hash: str,
    fingerprint: str,
    *,
    force: bool,
    artifacts: str | None = None,
    held: bool = True,
) -> Decision:
    """Judge a file that is there.

    Args:
        live: what the live version knows of it.
        seen_hash: hash of the bytes there now; not looked at when `live` is None.
        fingerprint: what its chunks would be a function of today, content aside.
        force: plan it anew although nothing changed.
        held: whether a failed one is in quarantine.
        artifacts: what its statements would be a function of today, content aside; None where the run doesn't extract.
    """
    if live is None:
        return Decision("new")
    if live.seen_hash != seen_hash:
        return Decision("changed")
    if force:
        return Decision("stale")
    moved = live.fingerprint != fingerprint
    if live.status == "failed" and (live.code in RETRIED or moved or not held):
        return Decision("retry")
    if artifacts is not None and live.status == "ok":
        content, _, leg = live.artifact_key.partition(":")
        if live.artifact_status in ("errored", "behind") or (content and content != live.hash):
            return Decision("retry")
        moved = moved or leg != artifacts
    return Decision("unchanged", stale=moved)


Left = TypeVar("Left")
Right = TypeVar("Right")


def merge_by_path(
    left: Iterator[tuple[str, Left]], right: Iterator[tuple[str, Right]]
) -> Iterator[tuple[str, Left | None, Right | None]]:
    """Join two streams that are ordered by path; each path once, with what either side has."""
    a, b = next(left, None), next(right, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a[0] < b[0]):
            assert a is not None
            yield a[0], a[1], None
            a = next(left, None)
        elif a is None or b[0] < a[0]:
            yield b[0], None, b[1]
            b = next(right, None)
        else:
            yield a[0], a[1], b[1]
            a, b = next(left, None), next(right, None)
