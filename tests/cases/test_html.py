"""O-10 to O-12: HTML. Headings in containers, table cells, inline pictures."""

from __future__ import annotations

import base64
import re

import pytest
from trouble import (
    STRATEGIES,
    Parsed,
    Passage,
    check_cover,
    check_order,
    check_slice,
    chunk,
    deployment,
    flat_strings,
    headings,
    parse,
    tables,
)


def pieces(doc: Parsed, target: int = 200) -> list[Passage]:
    return chunk(doc, "html", target, 0)


def paths(found: list[Passage], words: str) -> list[list[str]]:
    return [c.path for c in found if words in c.text]


# O-10

NESTED = (
    "<body><div class=page><header><div><h1>Valve care</h1></div></header><div><div><p>start</p>"
    "<section><h2>Daily</h2><div><p>wipe it</p></div></section></div><div><h3>Tools</h3><p>cloth</p>"
    "</div></div><div><h2>Yearly</h2><p>swap ring</p></div></div></body>"
)
WANTED = {
    "start": ["Valve care"],
    "wipe it": ["Valve care", "Daily"],
    "cloth": ["Valve care", "Daily", "Tools"],
    "swap ring": ["Valve care", "Yearly"],
}


@pytest.mark.parametrize("target", [16, 40, 200])
def test_o10_paths_whatever_the_containers(target: int) -> None:
    """O-10.1 to O-10.5."""
    found = pieces(parse(NESTED, "valve.html"), target)
    for words, path in WANTED.items():
        assert paths(found, words) == [path], words


@pytest.mark.parametrize(
    "html",
    [
        (
            "<table role=presentation><tr><td><h1>Valve care</h1></td></tr><tr><td><p>start</p></td><td><h2>Daily</h2>wipe it"
            "<h3>Tools</h3>cloth</td></tr><tr><td><h2>Yearly</h2>swap ring</td></tr></table>"
        ),
        (
            "<h1>Valve care</h1>start<ul><li><h2>Daily</h2><p>wipe it</p></li><li><h3>Tools</h3>cloth</li></ul>"
            "<ol><li><h2>Yearly</h2>swap ring</li></ol>"
        ),
        (
            "<a href=x><h1>Valve care</h1></a><p>start</p><details><summary><h2>Daily</h2></summary><p>wipe it</p>"
            "<blockquote><h3>Tools</h3><p>cloth</p></blockquote></details><article><h2>Yearly</h2>swap ring</article>"
        ),
        (
            "<h1>Valve <em>care</em></h1>start<dl><dt><h2>Daily</h2></dt><dd>wipe it<h3>Tools<br></h3>cloth</dd></dl>"
            "<form><fieldset><legend><h2>Yearly</h2></legend>swap ring</fieldset></form>"
        ),
        (
            "<main><h1>Valve care</h1><span>start<h2>Daily</h2>wipe it</span><b><i><h3>Tools</h3>cloth</i></b></main>"
            "<footer><h2>Yearly</h2>swap ring</footer>"
        ),
    ],
    ids=["layout-table", "lists", "link-details-quote", "definitions-form", "inline-elements"],
)
def test_o10_kind_other_containers(html: str) -> None:
    """O-10.1 to O-10.5, of the kind: headings in tables, lists, links, summaries, forms, inline elements."""
    doc = parse(f"<!doctype html><html><body>{html}</body></html>", "valve.html")
    found = pieces(doc)
    for words, path in WANTED.items():
        assert paths(found, words) == [path], words
    check_cover(doc, found)


def test_o10_kind_levels_that_are_skipped() -> None:
    """O-10.2 to O-10.4, of the kind: a deeper heading first, a level left out, an empty heading."""
    html = "<h3>Notice</h3><p>zero</p><h1>Valve care</h1><h4>Daily</h4><p>wipe it</p><h2></h2><h2>Yearly</h2><p>swap ring</p>"
    found = pieces(parse(html, "valve.html"))
    assert paths(found, "zero") == [["Notice"]]
    assert paths(found, "wipe it") == [["Valve care", "Daily"]]
    assert paths(found, "swap ring") == [["Valve care", "Yearly"]]


# O-11

CELLS = (
    "<table><tr><th>Part</th><th>Cost</th><th>Qty</th></tr>"
    "<tr><td>Bolt<style>td{color:red}</style></td><td>9</td><td>3</td></tr>"
    "<tr><td>Nut<script>var leak=1</script></td><td>4<table><tr><td>vat</td><td>1</td></tr></table></td>"
    "<td>7</td></tr></table>"
)
JOINED = ("PartCost", "CostQty", "Bolt9", "93", "4vat", "vat1", "17")


def everything(doc: Parsed, name: str, data: str) -> list[str]:
    """Every text and metadata string of the document and of its live records, and what was embedded."""
    found = chunk(doc, "html", 200, 0)
    strings = [doc.text, doc.document.title, *(s for value in doc.meta.values() for s in flat_strings(value))]
    strings += [s for c in found for s in (c.text, c.prefix, *c.path)]
    with deployment({name: data}) as made:
        made.run()
        assert made.live.ids
        return [*strings, *made.embedded, *(str(m["text"]) for m in made.live.metadata())]


def test_o11_no_style_and_no_script() -> None:
    """O-11.1."""
    doc = parse(CELLS, "t.html")
    with deployment({"t.html": CELLS}) as made:
        made.run()
        strings = [*everything(doc, "t.html", CELLS), *made.live.strings()]
    assert not [s for s in strings if "color:red" in s or "leak" in s]


def test_o11_cells_are_apart_and_in_order() -> None:
    """O-11.2, O-11.3, O-11.4."""
    text = parse(CELLS, "t.html").text
    assert re.search(r"\bBolt\W+9\W+3\b", text)
    assert re.search(r"\bNut\W+4\W+vat\W+1\W+7\b", text)
    assert not [words for words in JOINED if words in text]
    assert text.count("vat") == 1


def test_o11_what_is_indexed_says_the_same() -> None:
    """O-11.2, O-11.3, O-11.4, for what is embedded."""
    with deployment({"t.html": CELLS}) as made:
        made.run()
        (text,) = made.embedded
    assert re.search(r"\bNut\W+4\W+vat\W+1\W+7\b", text)
    assert not [words for words in JOINED if words in text]
    assert text.count("vat") == 1


@pytest.mark.parametrize(
    "html",
    [
        ("<table><thead><tr><th>Part<th>Cost<th>Qty<tbody><tr><td>Bolt<td>9<td>3<tr><td>Nut<td>4<table><tr><td>vat"
        "<td>1</table><td>7</table>"),
        ("<table><caption>Parts</caption><colgroup><col></colgroup><tr><th>Part</th><th>Cost</th><th>Qty</th></tr>"
        "<tr><td><p>Bolt</p></td><td><div>9</div></td><td><ul><li>3</li></ul></td></tr>"
        "<tr><td>Nut</td><td>4<br><ul><li>vat</li><li>1</li></ul></td><td>7</td></tr></table>"),
        ("<table><tr><td>Part</td><td>Cost</td><td>Qty</td></tr><tr><td rowspan=1>Bolt</td><td>9</td><td>3</td></tr>"
        "<tr><td>Nut</td><td>4<div><table><tbody><tr><td><table><tr><td>vat</td></tr></table></td><td>1</td></tr></tbody>"
        "</table></div></td><td>7</td></tr></table>"),
        ("<table><tr><th scope=col>Part</th><th>Cost</th><th>Qty</th></tr><tr><th scope=row>Bolt</th><td>9</td><td>3</td></tr>"
        "<tr><th scope=row>Nut<noscript>leak</noscript><template>leak</template></th><td>4<span hidden>leak</span>"
        "<div>vat</div><div>1</div></td><td>7</td></tr></table>"),
        ("<dl><dt>Part</dt><dd>Cost</dd><dd>Qty</dd><dt>Bolt</dt><dd>9</dd><dd>3</dd><dt>Nut</dt><dd>4</dd><dd>vat</dd>"
        "<dd>1</dd><dd>7</dd></dl>"),
    ],
    ids=["no-end-tags", "blocks-in-cells", "three-deep", "row-headers", "definitions"],
)  # fmt: skip
def test_o11_kind_other_tables(html: str) -> None:
    """O-11.1 to O-11.4, of the kind: tags left open, blocks and lists in cells, three tables deep, hidden parts."""
    doc = parse(html, "t.html")
    assert re.search(r"\bBolt\W+9\W+3\b", doc.text)
    assert re.search(r"\bNut\W+4\W+vat\W+1\W+7\b", doc.text)
    assert not [words for words in JOINED if words in doc.text]
    assert doc.text.count("vat") == 1
    assert "leak" not in doc.text
    check_cover(doc, pieces(doc))


def test_o11_kind_cells_read_back_as_records() -> None:
    """O-11.2, of the kind: the table's records, by column."""
    doc = parse(CELLS, "t.html")
    records = [record for one in tables(doc) for record in one.records()]
    assert {"Part": "Bolt", "Cost": "9", "Qty": "3"} in records


# O-12

BLOB = base64.b64encode(bytes(range(256)) * 400).decode()
CHART = (
    f'<h1>Chart</h1><p>before</p><img alt="sales curve" src="data:image/png;base64,{BLOB}">'
    f'<p>see <a href="data:image/png;base64,{BLOB}">full size</a> after</p>'
)
NOISE = re.compile(r"[A-Za-z0-9+/]{64,}")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_o12_inline_pictures_leave_their_words(strategy: str) -> None:
    """O-12.1, O-12.3 (HTML)."""
    doc = parse(CHART, "chart.html")
    (only,) = chunk(doc, strategy, 200, 0)
    check_order(only.text, "before", "sales curve", "full size", "after")
    check_slice(doc, [only])


def check_no_noise(html: str) -> None:
    with deployment({"chart.html": html}) as made:
        made.run()
        assert made.live.ids
        strings = [*everything(parse(html, "chart.html"), "chart.html", html), *made.live.strings()]
    assert not [s for s in strings if NOISE.search(s)]


def test_o12_no_payload_anywhere() -> None:
    """O-12.2 (HTML)."""
    check_no_noise(CHART)


@pytest.mark.parametrize(
    "html",
    [
        f'<picture><source srcset="data:image/webp;base64,{BLOB} 2x"><img alt="sales curve" src="x.png"></picture>full size',
        (
            f'<p style="background:url(data:image/png;base64,{BLOB})">sales curve</p><style>a{{b:url(data:x/y;base64,{BLOB})}}'
            "</style>full size"
        ),
        f'<meta name="description" content="data:image/png;base64,{BLOB}">sales curve full size',
        f'<a href="DATA:image/png;base64,{BLOB}">sales curve</a> full size',
        f"<p>sales curve</p><pre>data:image/png;base64,{BLOB}</pre>full size",
        f"<p>sales curve data:image/png;name=a%20b.png;base64,{BLOB} full size</p>",
        f'<object data="data:application/pdf;base64,{BLOB}">sales curve</object>sales curve full size',
    ],
    ids=["srcset", "style", "meta", "capitals", "pre", "parameters", "object"],
)
def test_o12_kind_other_places(html: str) -> None:
    """O-12.2, O-12.3, of the kind: data addresses in other attributes, in the head, in shown code."""
    whole = f"<h1>Chart</h1><p>before</p>{html}<p>after</p>"
    check_no_noise(whole)
    doc = parse(whole, "chart.html")
    (only,) = pieces(doc)
    check_order(only.text, "before", "sales curve", "full size", "after")
    assert headings(doc) == [(1, "Chart")]
