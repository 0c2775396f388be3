"""What a page says about itself: title, language, address, and the standard fields of <meta> and <time>."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.parse.decode import clean
from pipeline.parse.html_dom import Element
from pipeline.parse.metadata import Entries, describe

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


def read(root: Element) -> Entries:
    """The standard fields of what the page says about itself; what its own elements say goes before <meta>."""
    own: dict[str, list[str]] = {}
    meta: dict[str, list[str]] = {}
    for element in _head(root):
        attributes = element.attributes
        if element.tag == "title":
            own.setdefault("title", []).append("".join(c for c in element.children if isinstance(c, str)))
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
