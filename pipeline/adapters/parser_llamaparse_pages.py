"""Pages of Markdown from LlamaParse as one document: text, blocks and the offset of every page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pipeline.adapters.parser_llamaparse_jobs import RemotePage
from pipeline.errors import RejectedInput
from pipeline.parse.decode import clean
from pipeline.parse.markdown import first_title, structure
from pipeline.parse.markdown_inline import without_payloads
from pipeline.types import Block, ParsedDocument

PAGES_MAX: Final = 20_000
"""More pages than any real document has."""
_LISTED_MAX: Final = 20
"""Pages or pictures that a warning names."""
_NOTHING: Final = "NO_CONTENT_HERE"
"""What the service writes for a page without content."""


def document_of(pages: Sequence[RemotePage], kind: str, name: str) -> ParsedDocument:
    """One document; pages that the service left out are empty.

    Args:
        pages: with different numbers from 1 to `PAGES_MAX`, in any order.
        kind: the format that was sent.
        name: as messages name it.

    Raises:
        RejectedInput: `no_text`; `parse_failed` if no page could be read, or one is nested too deeply.
    """
    by_number = {page.number: page for page in pages}
    texts = {number: _text_of(page.markdown) for number, page in by_number.items()}
    failed = sorted(number for number, page in by_number.items() if page.error and not texts[number])
    total = max(by_number, default=0)
    if not any(texts.values()):
        raise _without_text(name, total, by_number[failed[0]].error if failed else "")
    starts: list[int] = []
    parts: list[str] = []
    blocks: list[Block] = []
    at = 0
    for number in range(1, total + 1):
        starts.append(at)
        if not (page := texts.get(number, "")):
            continue
        try:
            text, found = structure(page)
        except RecursionError:
            raise RejectedInput("parse_failed", f"page {number} of {name} is nested too deeply") from None
        blocks += [_shifted(block, at) for block in found]
        parts.append(text.rstrip("\n") + "\n\n")
        at += len(parts[-1])
    empty = [number for number in range(1, total + 1) if not texts.get(number) and number not in failed]
    return ParsedDocument(
        kind=kind,
        text="".join(parts),
        title=first_title(tuple(blocks)),
        blocks=tuple(blocks),
        page_starts=tuple(starts),
        warnings=(
            *(f"page {number} could not be read: {by_number[number].error}" for number in failed[:_LISTED_MAX]),
            *((_listed(empty, total),) if empty else ()),
            *_pictures(by_number),
        ),
    )


def _text_of(markdown: str) -> str:
    text = without_payloads(clean(markdown.replace("\0", " ")))
    return "" if text.strip() in ("", _NOTHING) else text


def _without_text(name: str, total: int, error: str) -> RejectedInput:
    if error:
        return RejectedInput("parse_failed", f"LlamaParse could read no page of {name}: {error}")
    pages = f"{total} page{'' if total == 1 else 's'}"
    return RejectedInput("no_text", f"LlamaParse found no text in {name} ({pages})")


def _shifted(block: Block, by: int) -> Block:
    return replace(
        block,
        start=block.start + by,
        end=block.end + by,
        cuts=tuple(cut + by for cut in block.cuts),
        header_end=block.header_end + by if block.header_end else 0,
    )


def _listed(numbers: Sequence[int], total: int) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED_MAX])) + (", …" if len(numbers) > _LISTED_MAX else "")
    return f"page{'' if len(numbers) == 1 else 's'} without text: {shown} (of {total})"


def _pictures(pages: dict[int, RemotePage]) -> tuple[str, ...]:
    """Which pictures are left out, so that people know where to look."""
    named = [f"{image} (page {number})" for number in sorted(pages) for image in pages[number].images]
    if not named:
        return ()
    more = f" and {len(named) - _LISTED_MAX} more" if len(named) > _LISTED_MAX else ""
    return (f"pictures are not kept: {', '.join(named[:_LISTED_MAX])}{more}",)
