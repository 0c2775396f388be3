"""Lines of a text: where they start, how they are indented. Only a line feed ends a line, as syntax trees count them."""

from __future__ import annotations

from itertools import accumulate


class Lines:
    """Lookups by line number, from 0."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        """Offset of each line's first character; one more, past the end, for the line after the last."""
        self.starts[-1] = len(text)

    def indent(self, row: int) -> int:
        """Blanks and tabs that a line starts with; a byte each, so that byte columns compare with it."""
        line = self.lines[row]
        return len(line) - len(line.lstrip(" \t\f"))

    def is_blank(self, row: int) -> bool:
        """Whether a line holds nothing but white space."""
        line = self.lines[row]
        return not line or line.isspace()

    def follows_blank(self, row: int) -> bool:
        """Whether the line above is blank."""
        return row > 0 and self.is_blank(row - 1)

    def end(self, row: int, column: int) -> int:
        """Offset past the line that something ends in; it ends in the line before if it stops at column 0."""
        return self.starts[row + 1] if column and row + 1 < len(self.starts) else self.starts[min(row, len(self.lines))]
