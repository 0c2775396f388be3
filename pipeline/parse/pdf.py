"""PDF: the text layer of each page as Markdown, page numbers kept. Nothing is recognised from pictures."""

from __future__ import annotations

import re

from pipeline.errors import RejectedInput
from pipeline.parse import pdf_properties
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
    pages, warnings = _pages(data, name)
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
    metadata = pdf_properties.read(data)
    own = next((str(value) for key, value in metadata if key == "title"), "")
    return ParsedDocument(
        kind="pdf",
        text="".join(parts),
        title=own or first_title(tuple(blocks)),
        blocks=tuple(blocks),
        page_starts=tuple(starts),
        metadata=metadata,
        warnings=(*((_without_text(empty, len(pages)),) if empty else ()), *warnings),
    )


def _pages(data: bytes, name: str) -> tuple[list[str], tuple[str, ...]]:
    """Markdown of each page in order, empty for pages without text; and what could not be read."""
    from liteparse import LiteParse, ParseError  # noqa: PLC0415 - 30 MB of native code that only PDF needs

    reader = LiteParse(
        output_format="markdown",
        ocr_enabled=False,
        quiet=True,
        # Without this, headings that stand on every page are taken for running headers and dropped.
        keep_headers_footers=True,
        max_pages=PAGES_MAX,
        num_workers=1,
        continue_on_page_error=True,
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
    broken = sorted({error.page_num for error in result.page_errors or ()})
    total = max([total, *broken])
    warnings = [f"{_listed('page', broken)} could not be read"] if broken else []
    if result.total_pages > PAGES_MAX:
        warnings.append(f"only the first {PAGES_MAX:,} of {result.total_pages:,} pages were read")
    return [by_number.get(number, "") for number in range(1, total + 1)], tuple(warnings)


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
        depths=block.depths,
    )


def _without_text(numbers: list[str], total: int) -> str:
    word = "page" if len(numbers) == 1 else "pages"
    return f"{word} without text: {_some(numbers)} (of {total})"


def _listed(noun: str, numbers: list[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {_some([str(number) for number in numbers])}"


def _some(numbers: list[str]) -> str:
    return ", ".join(numbers[:_LISTED_MAX]) + (", …" if len(numbers) > _LISTED_MAX else "")
