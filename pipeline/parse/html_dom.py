"""A small tree of an HTML page, as forgiving as browsers are where it matters: implied ends, stray ends, depth."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

DEPTH_MAX = 200
"""Elements below this depth join their ancestor at it; the text stays."""

_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)
_CLOSES_PARAGRAPH = frozenset(
    (
        "address", "article", "aside", "blockquote", "details", "div", "dl", "fieldset", "figcaption", "figure",
        "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "main", "menu", "nav", "ol", "p", "pre",
        "section", "table", "ul",
    )
)  # fmt: skip
_IMPLIED_ENDS = {
    "li": (frozenset(("li",)), frozenset(("ul", "ol", "menu"))),
    "dt": (frozenset(("dt", "dd")), frozenset(("dl",))),
    "dd": (frozenset(("dt", "dd")), frozenset(("dl",))),
    "td": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "th": (frozenset(("td", "th")), frozenset(("tr", "table"))),
    "tr": (frozenset(("tr", "td", "th")), frozenset(("table",))),
    "thead": (frozenset(("thead", "tbody", "tfoot", "tr", "td", "th")), frozenset(("table",))),
    "tbody": (frozenset(("thead", "tbody", "tfoot", "tr", "td", "th")), frozenset(("table",))),
    "tfoot": (frozenset(("thead", "tbody", "tfoot", "tr", "td", "th")), frozenset(("table",))),
    "option": (frozenset(("option",)), frozenset(("select",))),
}
"""Start tag: open elements that it ends, and the element beyond which it doesn't reach."""
_BARRIERS = frozenset(("td", "th", "table", "body", "html"))
"""A stray end tag inside a cell doesn't close what stands outside the table."""


@dataclass(slots=True)
class Element:
    """One element and what is in it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)


def tree(text: str) -> Element:
    """The root element (tag empty) of a page. Never fails; linear in ordinary pages."""
    builder = _Builder()
    builder.feed(text)
    builder.close()
    return builder.open[0]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.imply_ends(tag)
        element = Element(tag, {key: value or "" for key, value in attrs})
        self.open[-1].children.append(element)
        if tag not in _VOID and len(self.open) < DEPTH_MAX:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        # '<script/>' and '<div/>' are start tags in HTML; only drawings close themselves, and those are not read.
        if tag in {"svg", "path", "g", "use", "circle", "rect"}:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        for at in range(len(self.open) - 1, 0, -1):
            if self.open[at].tag == tag:
                del self.open[at:]
                return
            if self.open[at].tag in _BARRIERS and tag not in {"table", "tr", "tbody", "thead", "tfoot", "body", "html"}:
                return

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def parse_html_declaration(self, i: int) -> int:
        """Marked sections but CDATA are comments up to the next '>', as browsers have it; the library raises at some."""
        if self.rawdata.startswith("<![", i) and not self.rawdata.startswith("<![CDATA[", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def unknown_decl(self, data: str) -> None:
        """A CDATA section in HTML is a comment."""

    def imply_ends(self, tag: str) -> None:
        if tag in _CLOSES_PARAGRAPH and self.open[-1].tag == "p":
            self.open.pop()
        ended, barrier = _IMPLIED_ENDS.get(tag, (frozenset(), frozenset()))
        cut = 0
        for at in range(len(self.open) - 1, 0, -1) if ended else ():
            if self.open[at].tag in barrier:
                break
            if self.open[at].tag in ended:
                cut = at
        if cut:
            del self.open[cut:]
