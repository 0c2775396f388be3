"""The text of an Office file as it grows: headings, paragraphs, lists, tables and records, each a block.

Blocks end with a newline and are parted by a blank line, as HTML's are. White space inside a line counts as one blank.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.errors import RejectedInput
from pipeline.parse.csv import has_header
from pipeline.parse.decode import clean
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, BlockKind

CHARS_MAX = 64 << 20
"""Characters of one document: parts that are used again and again make much text of few bytes."""
NAMED_MAX = 50
"""Names that a warning spells out."""
_NAME_CHARS_MAX = 200
"""Characters of such a name."""
_DEEPEST = 8
"""Levels of a list that are told apart; Office has nine, from 0."""
_LEVEL_MAX = 6


@dataclass(frozen=True, slots=True)
class Item:
    """One line of a list."""

    depth: int
    mark: str
    """`-`, or a number with its dot."""
    text: str


class Writer:
    """One document's text and blocks so far."""

    def __init__(self, name: str) -> None:
        self.length = 0
        """Characters written, where the next block starts."""
        self.blocks: list[Block] = []
        self._name = name
        self._parts: list[str] = []
        self._section = ""
        """Title of the section that is open and still empty."""

    def text(self) -> str:
        """Everything written."""
        return "".join(self._parts)

    def first_title(self) -> str:
        """The first heading's title, else empty."""
        return next((block.title for block in self.blocks if block.kind == "heading"), "")

    def section(self, title: str) -> None:
        """Open a section of level 1; its heading is written once something follows that is part of it."""
        self._section = title

    def heading(self, level: int, title: str) -> None:
        """A heading; nothing for an empty title."""
        if title := flat(title):
            level = min(level, _LEVEL_MAX)
            self._add("heading", f"{'#' * level} {title}\n", level=level, title=title)

    def paragraph(self, text: str) -> None:
        """A paragraph that keeps its line breaks; nothing for an empty one."""
        if text := lines(text):
            self._add("paragraph", text + "\n")

    def items(self, items: Sequence[Item]) -> None:
        """A list, one line an item, two blanks a level; may be divided before each item, best at the least depth."""
        shown = [(item, text) for item in items if (text := flat(item.text))]
        if not shown:
            return
        least = min(item.depth for item, _ in shown)
        written: list[str] = []
        cuts: list[int] = []
        depths: list[int] = []
        at = 0
        for item, text in shown:
            depth = min(item.depth - least, _DEEPEST)
            if at:
                cuts.append(at)
                depths.append(depth)
            written.append(f"{'  ' * depth}{item.mark} {text}\n")
            at += len(written[-1])
        self._add("list", "".join(written), cuts=cuts, depths=depths if any(depths) else ())

    def table(self, rows: Iterable[Sequence[str]], headers: int | None = None) -> None:
        """A table between pipes; blank rows are left out.

        Args:
            rows: text of the cells; those that another cell reaches into are empty.
            headers: rows at the top that name the columns; None: one if it looks like it, as in CSV.
        """
        filled: list[list[str]] = []
        top = 0
        for number, row in enumerate(rows):
            cells = [flat(cell).replace("|", "\\|") for cell in row]
            if any(cells):
                filled.append(cells)
                top += headers is not None and number < headers
        if headers is None:
            top = int(has_header(filled))
        if top >= len(filled):
            top = 0
        written = [f"| {' | '.join(cells)} |\n" for cells in filled]
        if top:
            written.insert(1, f"|{' --- |' * len(filled[0])}\n")
        if written:
            starts = _starts(written)
            # The header and the first row stay together, else the header alone could become a chunk.
            cuts, header = (starts[top + 2 :], starts[top + 1]) if top else (starts[1:], 0)
            self._add("table", "".join(written), cuts=cuts, header=header)

    def records(self, rows: Iterable[Sequence[str]], *, header: bool) -> None:
        """A table as lines of CSV, white space in its values as it stands; the first row may be a header."""
        out = io.StringIO()
        into = csv.writer(out, lineterminator="\n")
        starts: list[int] = []
        for row in rows:
            starts.append(out.tell())
            into.writerow(row)
            if self.length + starts[-1] > CHARS_MAX:
                raise self._too_long()
        header = header and len(starts) > 1
        if starts:
            self._add("records", out.getvalue(), cuts=starts[2 if header else 1 :], header=starts[1] if header else 0)

    def _add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        title: str = "",
        cuts: Sequence[int] = (),
        depths: Sequence[int] = (),
        header: int = 0,
    ) -> None:
        """Append a block; `cuts` and `header` count from its start."""
        if self._section:
            opened, self._section = self._section, ""
            self.heading(1, opened)
        start, end = self.length, self.length + len(text)
        if end > CHARS_MAX:
            raise self._too_long()
        at = tuple(start + cut for cut in cuts)
        self.blocks.append(Block(kind, start, end, level, title, at, start + header if header else 0, tuple(depths)))
        self._parts += (text, "\n")
        self.length = end + 1

    def _too_long(self) -> RejectedInput:
        return RejectedInput(
            "too_large_inside",
            f"{self._name} has more than {CHARS_MAX:,} characters of text",
            remedy="Divide it into several files.",
        )


def left_out(count: int, one: str, many: str, names: Sequence[str] = ()) -> tuple[str, ...]:
    """A warning that so many things, by name if they have any, were left out; none for none."""
    if not count:
        return ()
    listed = ", ".join(name[:_NAME_CHARS_MAX] for name in names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")
    what = f"1 {one} was" if count == 1 else f"{count:,} {many} were"
    return (f"{what} left out{': ' if names else ''}{listed}",)


def flat(text: str) -> str:
    """A text as one line: every white space is a blank, and blanks are single."""
    return " ".join(without_payloads(clean(text)).split())


def lines(text: str) -> str:
    """A text as lines that aren't blank, white space as in `flat`."""
    text = without_payloads(clean(text))
    return "\n".join(line for raw in text.split("\n") if (line := " ".join(raw.split())))


def _starts(written: Sequence[str]) -> list[int]:
    starts, at = [], 0
    for line in written:
        starts.append(at)
        at += len(line)
    return starts
