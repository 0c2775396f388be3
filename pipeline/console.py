"""The only printer: results on standard output; progress, notes and errors on standard error.

Under --json standard output holds exactly one JSON document. Text that comes from documents, names and messages is
printed through `printable`, so that it can neither steer a terminal nor be taken for markup.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from pipeline.errors import PipelineError
from pipeline.progress import Progress, StageProgress

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 100
"""Columns of wrapped text where standard output is no terminal, and at most on one."""

LOOK_S = 0.3
"""Between two looks at a run on a terminal."""

LOOK_PLAIN_S = 1.0
"""The same where progress goes to a file or pipe."""

LINE_S = 5.0
"""At least so long between two progress lines in a file or pipe; finished stages have lines of their own."""
LINE_SHARE = 1 / 20
"""Of the time that has passed: a long run writes lines more and more seldom."""
LINE_MAX_S = 60.0

PIPE_CLOSED = 141
"""Exit status when the reader of standard output went away, as a shell reports SIGPIPE."""

BYTE_STEP = 1000
MINUTE, HOUR, DAY = 60, 3600, 86400

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles and links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # device strings
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Everything that steers: C0 and C1 controls, line and paragraph separators, marks that turn the reading direction."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def printable(text: object) -> str:
    """One line that is safe on a terminal: escapes and controls gone, line ends and tabs as spaces."""
    return re.sub(r"[\n\t]", " ", _clean(str(text)))


def printable_block(text: object) -> str:
    """Lines that are safe on a terminal: like `printable`, but line ends stay."""
    return _clean(str(text)).replace("\t", "    ")


def _clean(text: str) -> str:
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub("", text))


def bytes_text(size: float) -> str:
    """A size as people read it: `1.2 MB`."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < BYTE_STEP:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= BYTE_STEP
    return f"{value:.1f} TB"


def amount(size: float, measure: str) -> str:
    """Work in its own measure: `1.2 MB`, `12,000 tokens`."""
    return bytes_text(size) if measure == "bytes" else f"{size:,.0f} {measure}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number of things: `1 chunk`, `1,200 chunks`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """A stretch of time as people read it: `0.4 s`, `2 min 5 s`, `3 h 10 min`."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < MINUTE / 6 else f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def moment(seconds: float) -> str:
    """A point in time in the local zone; a dash for none."""
    if not seconds:
        return "-"
    there = dt.datetime.fromtimestamp(seconds, tz=dt.UTC).astimezone()
    return there.strftime("%Y-%m-%d %H:%M:%S")


class Console:
    """Where everything that a person or a program reads goes out."""

    def __init__(self, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr
        self.as_json = False
        """Whether standard output belongs to one JSON document."""

    @property
    def width(self) -> int:
        """Columns to wrap text at."""
        return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if self._out.isatty() else WIDTH

    def document(self, value: object) -> None:
        """The JSON document that --json promises."""
        self._print(_json(value, indent=2) + "\n")

    def stream(self, head: Mapping[str, object], key: str, items: Iterable[object]) -> None:
        """A JSON document whose last member is a list too long to hold: one item a line."""
        first = _json(dict(head))[:-1]
        self._print(f"{first}{', ' if head else ''}{_json(key)}: [")
        for at, item in enumerate(items):
            self._print(("," if at else "") + "\n" + _json(item))
        self._print("\n]}\n")

    def line(self, text: object = "", *, indent: int = 0) -> None:
        """One line of a result, for people; nothing under --json."""
        if not self.as_json:
            self._print((" " * indent + printable(text)).rstrip() + "\n")

    def paragraph(self, text: object, *, indent: int = 0, lines: int = 0) -> None:
        """Wrapped text of a result; at most `lines` lines unless that is 0."""
        joined = " ".join(printable(text).split())
        room = max(20, self.width - indent)
        for wrapped in textwrap.wrap(joined, room, max_lines=lines or None, placeholder=" …"):
            self.line(wrapped, indent=indent)

    def block(self, text: object, *, indent: int = 0) -> None:
        """Lines of a result as they are."""
        for each in printable_block(text).split("\n"):
            self.line(each, indent=indent)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Columns in line, numbers to the right; nothing under --json."""
        if self.as_json:
            return
        from rich.cells import cell_len  # noqa: PLC0415  # wanted by tables only

        held = [[printable(value) for value in row] for row in rows]
        kinds = [all(re.fullmatch(r"[-\d,.]*", row[i]) for row in held) for i in range(len(columns))]
        widths = [max(cell_len(cell) for cell in column) for column in zip(columns, *held, strict=True)]
        for row in (list(columns), *held):
            cells = []
            for value, width, right in zip(row, widths, kinds, strict=True):
                space = " " * (width - cell_len(value))
                cells.append(space + value if right else value + space)
            self._print("  ".join(cells).rstrip() + "\n")

    def note(self, text: object) -> None:
        """One line beside the result, on standard error; it never fails, as no result hangs on it."""
        with suppress(OSError, ValueError):
            self._err.write(_encodable(printable(text) + "\n", self._err))
            self._err.flush()

    def error(self, code: str, message: str, remedy: str) -> None:
        """What went wrong and what to do about it, on standard error; one JSON line under --json."""
        if self.as_json:
            self.note(_json({"error": {"code": code, "message": message, "remedy": remedy}}))
            return
        for each in f"error: {message}".split("\n"):
            self.note(each)
        for each in remedy.split("\n") if remedy else ():
            self.note(f"  {each}")

    def trace(self, text: str) -> None:
        """Where in the program an error came from, for --debug."""
        for each in printable_block(text).rstrip().split("\n"):
            self.note(each)

    def confirm(self, question: str) -> bool | None:
        """Ask on the terminal; None where there is nobody to ask."""
        if not (sys.stdin.isatty() and self._err.isatty()):
            return None
        self._err.write(f"{printable(question)} [y/N] ")
        self._err.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def flush(self) -> None:
        """Hand everything on."""
        try:
            self._out.flush()
        except BrokenPipeError:
            self._forsake()

    def _print(self, text: str) -> None:
        try:
            self._out.write(_encodable(text, self._out))
        except BrokenPipeError:
            self._forsake()

    def _forsake(self) -> None:
        """End as a program does whose reader went away; what is still buffered goes nowhere."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())
        raise SystemExit(PIPE_CLOSED)

    @contextmanager
    def watch(self, look: Callable[[], Progress | None]) -> Iterator[None]:
        """Show a run's progress while the body does the work.

        Args:
            look: tells how far it has got, or None when there is nothing to tell; called from a thread of its own.
        """
        stop = threading.Event()
        live = self._err.isatty() and os.isatty(self._err.fileno())
        target = self._watch_live if live else self._watch_plain
        thread = threading.Thread(target=target, args=(look, stop), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _watch_plain(self, look: Callable[[], Progress | None], stop: threading.Event) -> None:
        told: set[tuple[str, str]] = set()
        began = spoken = time.monotonic()
        ending = False
        while not ending:
            ending = stop.wait(LOOK_PLAIN_S)
            seen = _look(look)
            if seen is None:
                continue
            for stage in seen.stages:
                if stage.finished and (seen.run, stage.name) not in told:
                    told.add((seen.run, stage.name))
                    self.note(finished_line(stage))
                    spoken = time.monotonic()
            pause = min(LINE_MAX_S, max(LINE_S, (time.monotonic() - began) * LINE_SHARE))
            if not ending and time.monotonic() - spoken >= pause and any(not s.finished for s in seen.stages):
                self.note(progress_line(seen))
                spoken = time.monotonic()

    def _watch_live(self, look: Callable[[], Progress | None], stop: threading.Event) -> None:
        from rich.console import Console as RichConsole  # noqa: PLC0415  # a tenth of a second, for terminals only
        from rich.live import Live  # noqa: PLC0415

        terminal = RichConsole(file=self._err, markup=False, highlight=False, emoji=False)
        seen: dict[str, Progress] = {}
        with Live(
            console=terminal, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as live:
            while not stop.wait(LOOK_S):
                found = _look(look)
                if found is not None:
                    seen[found.run] = found
                    live.update(_table(found), refresh=True)
        found = _look(look)
        if found is not None:
            seen[found.run] = found
        for stage in (stage for progress in seen.values() for stage in progress.stages if stage.finished):
            self.note(finished_line(stage))


def _look(look: Callable[[], Progress | None]) -> Progress | None:
    """A look that failed shows nothing: the run itself reports what is wrong."""
    try:
        return look()
    except PipelineError:
        return None


def _json(value: object, indent: int | None = None) -> str:
    """JSON whose strings hold no character that steers a terminal."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    unsafe = "[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
    return re.sub(unsafe, lambda match: f"\\u{ord(match.group()):04x}", text)


def _encodable(text: str, stream: TextIO) -> str:
    """The text with what the stream's encoding lacks replaced."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding, "replace")


def finished_line(stage: StageProgress) -> str:
    """A finished stage in one line."""
    what = f" {amount(stage.done, stage.measure)}" if stage.done else ""
    return f"{stage.name}: done{',' if what else ''}{what} in {duration(stage.seconds)}"


def progress_line(progress: Progress) -> str:
    """A run under way in one line: the stage that most work goes into, and the time left."""
    unfinished = [stage for stage in progress.stages if not stage.finished]
    stage = max(unfinished, key=lambda s: s.spent)
    parts = [f"{stage.name}: {_extent(stage)}"]
    if stage.rate:
        parts.append(f"{amount(stage.rate, stage.measure)}/s")
    if progress.seconds_left:
        parts.append(f"about {duration(progress.seconds_left)} left")
    return ", ".join(parts)


def _extent(stage: StageProgress) -> str:
    if not stage.total:
        return amount(stage.done, stage.measure) if stage.done else "under way"
    share = f"{100 * stage.done / stage.total:.0f} %"
    return f"{share}, {amount(stage.done, stage.measure)} of {'about ' if stage.estimated else ''}{amount(stage.total, stage.measure)}"


def _table(progress: Progress) -> Table:
    from rich.table import Table  # noqa: PLC0415  # as above
    from rich.text import Text  # noqa: PLC0415

    out = Table.grid(padding=(0, 2))
    for stage in progress.stages:
        rate = f"{amount(stage.rate, stage.measure)}/s" if stage.rate and not stage.finished else ""
        state = "done" if stage.finished else _extent(stage)
        out.add_row(Text(stage.name), Text(state), Text(rate), Text(duration(stage.seconds)))
    if progress.seconds_left:
        out.add_row(Text(""), Text(f"about {duration(progress.seconds_left)} left"))
    return out


Rows = list[dict[str, Any]]
"""What tables and documents are made of alike."""
