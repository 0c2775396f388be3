"""What a manifest chooses about chunking, checked."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class ChunkOptions:
    """Sizes in cl100k tokens."""

    target_size: int
    """Upper bound of `Chunk.tokens`, prefix included; only an indivisible grapheme may pass it."""
    overlap: int = 0
    """Tokens that a chunk repeats from the end of its predecessor, at most."""
    respect_sections: bool = True
    """True: no chunk reaches past a heading into another section. False: small sections share chunks."""

    def check(self) -> None:
        """Refuse sizes with which chunking can't progress.

        Raises:
            RejectedInput: code `chunk_options`, naming both settings and their values.
        """
        if self.target_size < 1 or self.overlap < 0 or self.overlap >= self.target_size:
            raise RejectedInput(
                "chunk_options",
                f"chunking needs target_size >= 1 and 0 <= overlap < target_size; got target_size={self.target_size} "
                f"and overlap={self.overlap}",
                remedy="Make overlap smaller than target_size.",
            )
