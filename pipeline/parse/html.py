"""HTML: what a reader of the page sees, as blocks in reading order. Scripts, styles, menus and hidden parts are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.parse.decode import clean, decode
from pipeline.parse.html_dom import Element, tree
from pipeline.parse.markdown_inline import without_payloads
from pipeline.parse.metadata import Entries, describe
from pipeline.types import Block, BlockKind, ParsedDocument

_GONE = frozenset(
    (
        "script", "style", "noscript", "template", "nav", "svg", "iframe", "object", "embed", "canvas", "audio",
        "video", "select", "datalist", "map", "head", "title", "meta", "link",
    )
)  # fmt: skip
_INLINE = frozenset(
    (
        "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
        "img", "ins", "kbd", "label", "mark", "math", "output", "q", "rp", "rt", "ruby", "s", "samp", "small", "span",
        "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "mi", "mo", "mn", "mrow", "button",
    )
)  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_STRUCTURED = frozenset((*_HEADINGS, "table", "pre", "section", "article"))
"""What a list item or a cell may hold that makes its list or table a means of layout."""
_META = {
    **dict.fromkeys(("description", "og:description", "twitter:description", "dc.description"), "description"),
    **dict.fromkeys(("dcterms.description",), "description"),
    **dict.fromkeys(("author", "article:author", "dc.creator", "dcterms.creator"), "author"),
    **dict.fromkeys(("keywords", "article:tag", "dc.subject", "dcterms.subject"), "keywords"),
    **dict.fromkeys(("dc.date", "dc.date.created", "dcterms.created", "date", "datecreated"), "created"),
    **dict.fromkeys(("article:published_time", "datepublished", "dc.date.issued", "dcterms.issued"), "published"),
    **dict.fromkeys(("article:modified_time", "og:updated_time", "last-modified", "datemodified"), "modified"),
    **dict.fromkeys(("dc.date.modified", "dcterms.modified"), "modified"),
    **dict.fromkeys(("og:title", "dc.title", "dcterms.title"), "title"),
    **dict.fromkeys(("language", "content-language", "dc.language", "dcterms.language"), "language"),
    "og:url": "url",
}
"""What pages call the standard fields, in `name`, `property`, `itemprop` or `http-equiv`."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w-]{2,40})", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BREAK = "\x01"
"""Stands for <br> until white space has been collapsed."""
_DISPLAY_NONE = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def parse(data: bytes, name: str) -> ParsedDocument:
    """A page as headings, paragraphs, lists, tables and code; title and description as metadata."""
    del name
    declared = _CHARSET.search(data[:4096])
    text, warnings = decode(data, declared.group(1).decode("ascii") if declared else "")
    root = tree(without_payloads(_without_comments(text.replace(_BREAK, " "))))
    writer = _Writer()
    writer.walk(root)
    writer.flush()
    metadata = _metadata(root)
    first = next((block.title for block in writer.blocks if block.kind == "heading"), "")
    title = next((str(value) for key, value in metadata if key == "title"), first)
    return ParsedDocument(
        kind="html",
        text="".join(writer.parts),
        title=title,
        blocks=tuple(writer.blocks),
        metadata=metadata,
        warnings=warnings,
    )


def _without_comments(text: str) -> str:
    """The page without comments; the text after one that is never closed stays.

    The tree would drop them too, but its parser is quadratic in the number of comments that aren't closed.
    """
    if "<!--" not in text:
        return text
    end = text.rfind("-->") + len("-->") if "-->" in text else 0
    return _COMMENT.sub("", text[:end]) + text[end:].replace("<!--", "")


class _Writer:
    """Text and blocks so far, and the inline text that waits to become a paragraph."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.blocks: list[Block] = []
        self.waiting: list[str] = []
        self.length = 0

    def walk(self, element: Element) -> None:
        for child in element.children:
            if isinstance(child, str):
                self.waiting.append(child)
            elif not _is_gone(child):
                self.element(child)

    def element(self, element: Element) -> None:
        tag = element.tag
        if tag == "br":
            self.waiting.append(_BREAK)
        elif tag in _INLINE and not _holds(element, _STRUCTURED):
            self.waiting.append(_inline(element))
        elif tag in _HEADINGS:
            self.flush()
            title = _flat(element)
            if title:
                self.add("heading", f"{'#' * _HEADINGS[tag]} {title}", level=_HEADINGS[tag], title=title)
        elif tag == "pre":
            self.flush()
            self.code(element)
        elif tag == "table" and not _is_layout(element):
            self.flush()
            self.table(element)
        elif tag in {"ul", "ol"} and not _holds(element, _STRUCTURED):
            self.flush()
            self.list(element)
        else:
            self.flush()
            self.walk(element)
            self.flush()

    def flush(self) -> None:
        """Make a paragraph of the waiting text."""
        lines = (" ".join(line.split()) for line in "".join(self.waiting).split(_BREAK))
        text = "\n".join(line for line in lines if line)
        self.waiting.clear()
        if text:
            self.add("paragraph", text)

    def add(
        self,
        kind: BlockKind,
        text: str,
        *,
        level: int = 0,
        title: str = "",
        cuts: tuple[int, ...] = (),
        header: int = 0,
    ) -> None:
        """Append a block; `cuts` and `header` count from its start."""
        start = self.length
        end = start + len(text) + 1
        at = tuple(start + cut for cut in cuts)
        self.blocks.append(Block(kind, start, end, level, title, at, start + header if header else 0))
        self.parts.append(text + "\n\n")
        self.length = end + 1

    def code(self, element: Element) -> None:
        text = clean(_raw(element)).strip("\n")
        if text.strip():
            fence = "`" * max(3, max((len(run) for run in re.findall("`{3,}", text)), default=0) + 1)
            self.add("code", f"{fence}\n{text}\n{fence}")

    def table(self, element: Element) -> None:
        caption = next((c for c in element.children if isinstance(c, Element) and c.tag == "caption"), None)
        if caption is not None and (text := _flat(caption)):
            self.add("paragraph", text)
        rows = [(row, [_flat(cell).replace("|", "\\|") for cell in _cells(row)]) for row in _rows(element)]
        rows = [(row, cells) for row, cells in rows if any(cells)]
        lines = [f"| {' | '.join(cells)} |" for _, cells in rows]
        if not lines:
            return
        header = 0
        if len(lines) > 1 and all(cell.tag == "th" for cell in _cells(rows[0][0])):
            lines.insert(1, "|" + " --- |" * len(rows[0][1]))
            header = len(lines[0]) + len(lines[1]) + 2
        starts, at = [], 0
        for line in lines:
            starts.append(at)
            at += len(line) + 1
        self.add("table", "\n".join(lines), cuts=tuple(starts[3 if header else 1 :]), header=header)

    def list(self, element: Element) -> None:
        items = list(_items(element, 0))
        starts, at = [], 0
        for depth, line in items:
            if depth == 0 and at:
                starts.append(at)
            at += len(line) + 1
        if items:
            self.add("list", "\n".join(line for _, line in items), cuts=tuple(starts))


def _is_gone(element: Element) -> bool:
    if element.tag in _GONE or "hidden" in element.attributes:
        return True
    style = element.attributes.get("style", "")
    return bool(style) and _DISPLAY_NONE.search(style) is not None


def _elements(element: Element) -> Iterator[Element]:
    return (child for child in element.children if isinstance(child, Element) and not _is_gone(child))


def _holds(element: Element, tags: frozenset[str]) -> bool:
    """Whether any of `tags` stands somewhere inside."""
    return any(child.tag in tags or _holds(child, tags) for child in _elements(element))


def _is_layout(table: Element) -> bool:
    """A table that arranges the page rather than data."""
    if table.attributes.get("role") in {"presentation", "none"}:
        return True
    return _holds(table, frozenset(_HEADINGS)) or all(len(list(_cells(row))) < 2 for row in _rows(table))  # noqa: PLR2004


def _inline(element: Element) -> str:
    """Text of an element, white space as it stands; blocks and cells inside are kept apart by spaces."""
    tag = element.tag
    if tag == "img":
        return f" {element.attributes.get('alt', '')} "
    if tag == "br":
        return _BREAK
    parts = [
        child if isinstance(child, str) else "" if _is_gone(child) else _inline(child) for child in element.children
    ]
    text = "".join(parts)
    if tag == "code" and text.strip() and "`" not in text:
        return f"`{text}`"
    return text if tag in _INLINE else f" {text} "


def _flat(element: Element) -> str:
    return " ".join("".join(_inline(element)).replace(_BREAK, " ").split())


def _raw(element: Element) -> str:
    """Text of preformatted content."""
    if element.tag == "br":
        return "\n"
    return "".join(
        child if isinstance(child, str) else "" if _is_gone(child) else _raw(child) for child in element.children
    )


def _rows(table: Element) -> Iterator[Element]:
    """Rows of a table, not those of tables inside it."""
    for child in _elements(table):
        if child.tag == "tr":
            yield child
        elif child.tag in {"thead", "tbody", "tfoot"}:
            yield from (row for row in _elements(child) if row.tag == "tr")


def _cells(row: Element) -> Iterator[Element]:
    return (cell for cell in _elements(row) if cell.tag in {"td", "th"})


def _items(element: Element, depth: int) -> Iterator[tuple[int, str]]:
    """Lines of a list with their depth; lists inside an item follow it."""
    number = 0
    for item in _elements(element):
        if item.tag in {"ul", "ol"}:
            yield from _items(item, depth + 1)
            continue
        number += 1
        inner = [child for child in _elements(item) if child.tag in {"ul", "ol"}]
        own = Element(item.tag, {}, [c for c in item.children if isinstance(c, str) or c.tag not in {"ul", "ol"}])
        text = _flat(own)
        if text:
            yield depth, f"{'  ' * depth}{f'{number}.' if element.tag == 'ol' else '-'} {text}"
        for nested in inner:
            yield from _items(nested, depth + 1)


def _metadata(root: Element) -> Entries:
    """The standard fields of what the page says about itself; what its own elements say goes before <meta>."""
    own: dict[str, list[str]] = {}
    meta: dict[str, list[str]] = {}
    for element in _head(root):
        attributes = element.attributes
        if element.tag == "title":
            own.setdefault("title", []).append(_raw(element))
        elif element.tag == "html":
            own.setdefault("language", []).append(attributes.get("lang", "") or attributes.get("xml:lang", ""))
        elif element.tag == "link" and attributes.get("rel", "").lower() == "canonical":
            own.setdefault("url", []).append(attributes.get("href", ""))
        elif element.tag == "meta":
            names = (attributes.get(key, "") for key in ("name", "property", "itemprop", "http-equiv"))
            key = next((_META[name.lower()] for name in names if name.lower() in _META), "")
            meta.setdefault(key, []).append(attributes.get("content", ""))
    for key, moment in _times(root):
        meta.setdefault(key, []).append(moment)
    found: dict[object, object] = {}
    for key, values in [*own.items(), *meta.items()]:
        pieces = (piece for value in values for piece in (value.split(",") if key == "keywords" else (value,)))
        texts = list(dict.fromkeys(text for piece in pieces if (text := " ".join(clean(piece).split()))))
        if key == "author":
            texts = [text for text in texts if "://" not in text]  # a profile's address is no name
        if key and texts:
            found.setdefault(key, texts if key == "keywords" or (key == "author" and len(texts) > 1) else texts[0])
    return describe(found)


def _times(root: Element) -> Iterator[tuple[str, str]]:
    """What <time> elements say of the page itself; all others speak of something in it."""
    ahead: list[Element | str] = [root]
    while ahead:
        element = ahead.pop()
        if isinstance(element, str):
            continue
        if element.tag == "time":
            role = _META.get(element.attributes.get("itemprop", "").lower(), "")
            role = "published" if "pubdate" in element.attributes else role
            if role and (moment := element.attributes.get("datetime", "")):
                yield role, moment
        ahead += reversed(element.children)


def _head(root: Element) -> Iterator[Element]:
    """Elements that may describe the page: the root's, the head's, and stray ones beside them."""
    for child in root.children:
        if isinstance(child, Element):
            yield child
            if child.tag in {"html", "head", "body"}:
                yield from _head(child)
