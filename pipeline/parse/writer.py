"""Text and blocks that a parser builds up piece by piece."""

from __future__ import annotations

from dataclasses import replace

from pipeline.types import Block, BlockKind


class Writer:
    """The text so far and its blocks, a blank line between each."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.blocks: list[Block] = []
        self.length = 0

    @property
    def text(self) -> str:
        """Everything that was written."""
        return "".join(self.parts)

    def heading(self, title: str, level: int = 1) -> None:
        """Append a heading; `title` is one line."""
        self.add("heading", f"{'#' * level} {title}", level=level, title=title)

    def add(self, kind: BlockKind, text: str, *, level: int = 0, title: str = "", cuts: tuple[int, ...] = ()) -> None:
        """Append a block; `cuts` count from its start."""
        start = self.length
        end = start + len(text) + 1
        self.blocks.append(Block(kind, start, end, level, title, tuple(start + cut for cut in cuts)))
        self._write(text + "\n\n")

    def include(self, text: str, blocks: tuple[Block, ...]) -> None:
        """Append a text that has blocks of its own."""
        by = self.length
        for block in blocks:
            self.blocks.append(
                replace(
                    block,
                    start=block.start + by,
                    end=block.end + by,
                    cuts=tuple(cut + by for cut in block.cuts),
                    header_end=block.header_end + by if block.header_end else 0,
                )
            )
        self._write(text)
        self._write("" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n")

    def _write(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)
