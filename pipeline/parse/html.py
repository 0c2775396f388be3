"""HTML: what a reader of the page sees, as blocks in reading order. Scripts, styles, menus and hidden parts are gone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.parse import html_metadata
from pipeline.parse.decode import clean, decode
from pipeline.parse.html_dom import Element, tree
from pipeline.parse.markdown_inline import without_payloads
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
_SECTIONS = frozenset((*_HEADINGS, "section", "article"))
_STRUCTURED = _SECTIONS | {"table", "pre"}
"""What a list item or a cell may hold that makes its list or table a means of layout."""
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w-]{2,40})", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BREAK = "\x01"
"""Stands for <br> until white space has been collapsed."""
_POWER = "\x02"
"""Stands before <sup> until it's known what it follows."""
_IS_POWER = re.compile(rf"(?<=\d){_POWER}(?=[-+\u2212]?\d)")
_UNSEEN = dict.fromkeys(map(ord, "\xad\u2060\ufeff"))
"""Soft hyphens and word joiners: nobody sees them, and no search finds a word through them."""
_WORD = re.compile(r"\w")
_CODE_MARKS = re.compile(r"`([^`]+)`")
_NUMBERING = frozenset(("lineno", "linenos", "linenodiv", "gutter"))
"""Classes of the numbers beside lines of code; gone where there is nothing but numbers in them."""
_NOT_NUMBERS = re.compile(r"[^\d\s]")
_CELLS_MAX = 1_000
"""Columns to which cells that span several fill up a row."""
_DIGITS_MAX = 6
_BLANKS_MAX = 20_000
"""Blank cells of one table that spans may make."""
_DISPLAY_NONE = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def parse(data: bytes, name: str) -> ParsedDocument:
    """A page as headings, paragraphs, lists, tables and code; title and description as metadata."""
    del name
    declared = _CHARSET.search(data[:4096])
    text, warnings = decode(data, declared.group(1).decode("ascii") if declared else "")
    root = tree(without_payloads(_without_comments(text.replace(_BREAK, " ").replace(_POWER, " "))))
    writer = _Writer()
    writer.walk(root)
    writer.flush()
    metadata = html_metadata.read(root)
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
        self.marker = ""
        """Bullet or number of the list item whose first paragraph is to come."""

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
            text = _heading(element)
            if text:
                title = _CODE_MARKS.sub(r"\1", text)
                self.add("heading", f"{'#' * _HEADINGS[tag]} {text}", level=_HEADINGS[tag], title=title)
        elif tag == "pre":
            self.flush()
            self.code(element)
        elif tag == "table" and not _is_layout(element):
            self.flush()
            self.table(element)
        elif tag in {"ul", "ol"} and not _holds(element, _STRUCTURED):
            self.flush()
            self.list(element)
        elif tag in {"ul", "ol"} and not _holds(element, _SECTIONS):
            self.flush()
            self.walk_items(element)
        else:
            self.flush()
            self.walk(element)
            self.flush()

    def walk_items(self, element: Element) -> None:
        """A list whose items hold code or tables: the first paragraph of each has its bullet or number."""
        for item, marker in _marked(element):
            self.marker = marker
            self.element(item)
            self.marker = ""

    def flush(self) -> None:
        """Make a paragraph of the waiting text."""
        lines = (" ".join(line.split()) for line in _seen("".join(self.waiting)).split(_BREAK))
        text = "\n".join(line for line in lines if line)
        self.waiting.clear()
        if text:
            self.add("paragraph", self.marker + text)

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
        self.marker = ""
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
        rows = [(row, cells) for row, cells in _grid(element) if any(cells)]
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
    attributes = element.attributes
    if attributes.get("role") == "navigation" or (element.tag == "dialog" and "open" not in attributes):
        return True
    classes = attributes.get("class", "").split()
    if "mw-editsection" in classes:  # a link beside every heading of a wiki
        return True
    if not _NUMBERING.isdisjoint(classes) and _holds_numbers(element):
        return True
    style = attributes.get("style", "")
    return bool(style) and _DISPLAY_NONE.search(style) is not None


def _holds_numbers(element: Element) -> bool:
    """Whether there is no text but numbers; all of it counts, so that this asks nothing of what is inside."""
    ahead: list[Element | str] = [element]
    while ahead:
        one = ahead.pop()
        if isinstance(one, Element):
            ahead += one.children
        elif _NOT_NUMBERS.search(one):
            return False
    return True


def _elements(element: Element) -> Iterator[Element]:
    return (child for child in element.children if isinstance(child, Element) and not _is_gone(child))


def _holds(element: Element, tags: frozenset[str]) -> bool:
    """Whether any of `tags` stands somewhere inside."""
    return any(child.tag in tags or _holds(child, tags) for child in _elements(element))


def _is_layout(table: Element) -> bool:
    """A table that arranges the page rather than data."""
    if table.attributes.get("role") in {"presentation", "none"}:
        return True
    rows = [len(list(_cells(row))) for row in _rows(table)]
    if all(cells < 2 for cells in rows):  # noqa: PLR2004 - one column
        return True
    return _holds(table, frozenset(_HEADINGS)) or (len(rows) == 1 and _holds(table, frozenset(("pre",))))


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
    if tag == "sup" and not _holds(element, frozenset(("a",))):
        return _POWER + text  # without a link it's no note
    return text if tag in _INLINE else f" {text} "


def _flat(element: Element) -> str:
    return " ".join(_seen(_inline(element)).replace(_BREAK, " ").split())


def _seen(text: str) -> str:
    """Inline text as it's read: powers of numbers are told from their digits."""
    if _POWER in text:
        text = _IS_POWER.sub("^", text).replace(_POWER, "")
    return text if text.isascii() else text.translate(_UNSEEN)


def _heading(element: Element) -> str:
    """A heading's text without the sign that links to itself."""
    own = [child for child in element.children if isinstance(child, str) or not _is_anchor(child)]
    return _flat(Element(element.tag, {}, own))


def _is_anchor(element: Element) -> bool:
    if element.tag != "a" or not element.attributes.get("href", "").startswith("#"):
        return False
    return _WORD.search(_flat(element)) is None


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


def _grid(table: Element) -> Iterator[tuple[Element, list[str]]]:
    """Rows with the texts of their cells, each in its column; one that spans several stands in the first of them."""
    covered: dict[int, int] = {}
    blanks, width = _BLANKS_MAX, 0
    for number, row in enumerate(_rows(table)):
        line: list[str] = []
        for cell in _cells(row):
            while covered.get(len(line), 0) > number and blanks:
                line.append("")
                blanks -= 1
            wide = min(_number(cell, "colspan"), max(1, _CELLS_MAX - len(line)), blanks + 1)
            down = number + _number(cell, "rowspan")
            covered.update((len(line) + i, down) for i in range(wide if down > number + 1 else 0))
            line += [_flat(cell).replace("|", "\\|"), *([""] * (wide - 1))]
            blanks -= wide - 1
        width = width or len(line)
        while len(line) > width and not line[-1]:
            line.pop()  # "all columns" is written as some large number
        yield row, line


def _number(element: Element, name: str, least: int = 1) -> int:
    """A small number among the attributes."""
    value = element.attributes.get(name, "").strip()
    return max(least, int(value)) if value.isascii() and value.isdecimal() and len(value) <= _DIGITS_MAX else 1


def _cells(row: Element) -> Iterator[Element]:
    return (cell for cell in _elements(row) if cell.tag in {"td", "th"})


def _items(element: Element, depth: int) -> Iterator[tuple[int, str]]:
    """Lines of a list with their depth; lists inside an item follow it."""
    for item, marker in _marked(element):
        if item.tag in {"ul", "ol"}:
            yield from _items(item, depth + 1)
            continue
        inner = [child for child in _elements(item) if child.tag in {"ul", "ol"}]
        own = Element(item.tag, {}, [c for c in item.children if isinstance(c, str) or c.tag not in {"ul", "ol"}])
        text = _flat(own)
        if text:
            yield depth, f"{'  ' * depth}{marker}{text}"
        for nested in inner:
            yield from _items(nested, depth + 1)


def _marked(element: Element) -> Iterator[tuple[Element, str]]:
    """What a list holds, each with its bullet or number; lists and text that stand right in it have none."""
    number = _number(element, "start", 0)
    for child in element.children:
        item = Element("", {}, [child]) if isinstance(child, str) else child
        if not item.tag or item.tag in {"ul", "ol"}:
            yield item, ""
            continue
        if _is_gone(item):
            continue
        number = _number(item, "value", 0) if "value" in item.attributes else number
        yield item, f"{number}. " if element.tag == "ol" else "- "
        number += 1
