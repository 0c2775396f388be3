"""PDF: the text layer of each page as Markdown, page numbers kept. Nothing is recognised from pictures."""

from __future__ import annotations

import re

from pipeline.errors import RejectedInput
from pipeline.parse.decode import clean
from pipeline.parse.markdown import first_title, structure
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, ParsedDocument

PAGES_MAX = 20_000
"""More pages than any real document has; a guard against page trees that repeat themselves."""
_LISTED_MAX = 50
"""Page numbers that a warning spells out."""

_EMPTY_FENCE = re.compile(r"```text\s*```")
"""What the library writes for a page whose text layer is empty."""


def parse(data: bytes, name: str) -> ParsedDocument:
    """A document with one or more pages of text.

    Raises:
        RejectedInput: `no_text` for scans without a text layer, `encrypted`, `pdf_broken`.
    """
    pages = _pages(data, name)
    if not any(pages):
        raise RejectedInput(
            "no_text",
            f"no text was found in {name}: its {len(pages)} pages hold pictures only",
            remedy="Run text recognition over it and stage the result.",
        )
    parts: list[str] = []
    starts: list[int] = []
    blocks: list[Block] = []
    at = 0
    for page in pages:
        starts.append(at)
        if page:
            text, found = structure(page)
            blocks += [_shifted(block, at) for block in found]
            parts.append(text.rstrip("\n") + "\n\n")
            at += len(parts[-1])
    empty = [str(number) for number, page in enumerate(pages, start=1) if not page]
    return ParsedDocument(
        kind="pdf",
        text="".join(parts),
        title=first_title(tuple(blocks)),
        blocks=tuple(blocks),
        page_starts=tuple(starts),
        warnings=(_without_text(empty, len(pages)),) if empty else (),
    )


def _pages(data: bytes, name: str) -> list[str]:
    """Markdown of each page in order; empty for pages without text."""
    from liteparse import LiteParse, ParseError  # noqa: PLC0415 - 30 MB of native code that only PDF needs

    reader = LiteParse(
        output_format="markdown",
        ocr_enabled=False,
        quiet=True,
        # Without this, headings that stand on every page are taken for running headers and dropped.
        keep_headers_footers=True,
        max_pages=PAGES_MAX,
        num_workers=1,
    )
    try:
        result = reader.parse(data)
    except ParseError as error:
        if "password" in str(error).lower() or "encrypt" in str(error).lower():
            raise RejectedInput(
                "encrypted", f"{name} is protected by a password", remedy="Stage it without."
            ) from error
        raise RejectedInput("pdf_broken", f"{name} can't be read as PDF: {error}") from error
    by_number = {page.page_num: _text(page.markdown, page.text) for page in result.pages}
    total = max([len(by_number), *by_number]) if by_number else 0
    return [by_number.get(number, "") for number in range(1, total + 1)]


def _text(markdown: str, plain: str) -> str:
    if not (plain or "").strip() and not _EMPTY_FENCE.sub("", markdown or "").strip():
        return ""
    text = clean((markdown or plain).replace("\0", " "))
    return without_payloads(text)


def _shifted(block: Block, by: int) -> Block:
    return Block(
        kind=block.kind,
        start=block.start + by,
        end=block.end + by,
        level=block.level,
        title=block.title,
        cuts=tuple(cut + by for cut in block.cuts),
        header_end=block.header_end + by if block.header_end else 0,
    )


def _without_text(numbers: list[str], total: int) -> str:
    listed = ", ".join(numbers[:_LISTED_MAX]) + (", …" if len(numbers) > _LISTED_MAX else "")
    return f"{'page' if len(numbers) == 1 else 'pages'} without text: {listed} (of {total})"
