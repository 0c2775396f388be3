"""HTML: what a reader of the page sees, and nothing else."""

import base64
import re

import pytest

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.parse import parse_bytes


def parse(text):
    return parse_bytes(text.encode(), "page.html")


def chunks(document, target=200):
    return chunk_document(document, "html", ChunkOptions(target))


def test_headings_deep_inside_containers():
    """O-10: the path follows the headings, not the containers."""
    document = parse(
        "<body><div class=page><header><div><h1>Valve care</h1></div></header><div><div><p>start</p>"
        "<section><h2>Daily</h2><div><p>wipe it</p></div></section></div><div><h3>Tools</h3><p>cloth</p>"
        "</div></div><div><h2>Yearly</h2><p>swap ring</p></div></div></body>"
    )
    found = {needle: [c.heading_path for c in chunks(document) if needle in c.text] for needle in
             ("start", "wipe it", "cloth", "swap ring")}  # fmt: skip
    assert found == {
        "start": [("Valve care",)],
        "wipe it": [("Valve care", "Daily")],
        "cloth": [("Valve care", "Daily", "Tools")],
        "swap ring": [("Valve care", "Yearly")],
    }


def test_tables():
    """O-11: cells stay apart, a table in a cell is read once, styles and scripts are gone."""
    document = parse(
        "<table><tr><th>Part</th><th>Cost</th><th>Qty</th></tr>"
        "<tr><td>Bolt<style>td{color:red}</style></td><td>9</td><td>3</td></tr>"
        "<tr><td>Nut<script>var leak=1</script></td><td>4<table><tr><td>vat</td><td>1</td></tr></table></td>"
        "<td>7</td></tr></table>"
    )
    text = document.text
    assert "color:red" not in text
    assert "leak" not in text
    assert re.search(r"\bBolt\W+9\W+3\b", text)
    assert re.search(r"\bNut\W+4\W+vat\W+1\W+7\b", text)
    assert not any(joined in text for joined in ("PartCost", "CostQty", "Bolt9", "93", "4vat", "vat1", "17"))
    assert text.count("vat") == 1
    (table,) = document.blocks
    assert text[: table.header_end] == "| Part | Cost | Qty |\n| --- | --- | --- |\n"


def test_inline_pictures():
    """O-12: the picture's description is kept, its data isn't."""
    blob = base64.b64encode(bytes(range(256)) * 400).decode()
    (only,) = chunks(
        parse(
            f'<h1>Chart</h1><p>before</p><img alt="sales curve" src="data:image/png;base64,{blob}">'
            f'<p>see <a href="data:image/png;base64,{blob}">full size</a> after</p>'
        )
    )
    assert not re.search(r"[A-Za-z0-9+/]{64,}", only.text)
    at = [only.text.index(part) for part in ("before", "sales curve", "full size", "after")]
    assert at == sorted(at)


def test_what_readers_do_not_see():
    document = parse(
        "<html lang=en><head><title> The  page </title><meta name=description content='About it'>"
        "<style>p{}</style></head><body><nav>menu</nav><p hidden>one</p><p style='display: none'>two</p>"
        "<template>three</template><noscript>four</noscript><p>shown &amp; told</p></body></html>"
    )
    assert document.text == "shown & told\n\n"
    assert document.title == "The page"
    assert dict(document.metadata) == {"language": "en", "title": "The page", "description": "About it"}


def test_lists_code_and_breaks():
    document = parse(
        "<p>a<br>b <code>x</code></p><ul><li>one<ul><li>deep</li></ul><li>two</ul><ol><li>first</ol>"
        "<pre>if x:\n    y</pre><dl><dt>term<dd>meaning</dl>"
    )
    assert document.text == (
        "a\nb `x`\n\n- one\n  - deep\n- two\n\n1. first\n\n```\nif x:\n    y\n```\n\nterm\n\nmeaning\n\n"
    )
    assert [b.kind for b in document.blocks] == ["paragraph", "list", "list", "code", "paragraph", "paragraph"]


def test_layout_tables_are_containers():
    document = parse("<table><tr><td><h2>Left</h2><p>a</p></td><td><h2>Right</h2><p>b</p></td></tr></table>")
    assert [b.title for b in document.blocks if b.kind == "heading"] == ["Left", "Right"]


@pytest.mark.parametrize(
    "text",
    [
        "<p>one<p>two<div>three</p></div></div></table>four",
        "<ul><li>one<li>two</ul></li>three four",
        "<table><td>one<td>two<tr><td>three</b></table>four",
        "<b><i>one</b> two</i> three <!-- x --> four",
        "one two <!-- x -->three <!-- never closed <p>four",
        "<div>" * 5000 + "one two three four" + "</div>" * 5000,
        "one <a href='x>two</a> three four <b>one two three four",
    ],
)
def test_bad_markup_loses_no_words(text):
    """Missing, stray and crossed tags and absurd depth leave the words."""
    document = parse(text)
    assert all(word in document.text for word in ("one", "two", "three", "four"))


def test_declared_encoding():
    document = parse_bytes('<meta charset="iso-8859-2"><p>Łódź</p>'.encode("iso-8859-2"), "a.html")
    assert "Łódź" in document.text


@pytest.mark.parametrize(
    "odd",
    [
        "<![CDA",
        "<![if !IE]>",
        "<![endif]>",
        "<![x[",
        "<![CDATA[",
        "<!",
        "<![",
        "<![CDATA[x]]>",
        "<!doctype",
        "</",
        "<?",
        "<?x",
    ],
)
@pytest.mark.parametrize("after", ["", "<p>after</p>"])
def test_marked_sections(odd, after):
    """None of them costs the text around it, whether it's closed or not."""
    document = parse_bytes(f"<p>before</p>{odd}{after}".encode(), "a.html")
    assert "before" in document.text


def test_cells_that_span_several_leave_room():
    """A merged cell stands in the first of its columns, so that what is under a header stays under it."""
    document = parse(
        "<table><tr><th rowspan=2>Plan<th colspan=2>Price<tr><th>Month<th>Year"
        "<tr><td>Pro<td>5<td>50<tr><td>Free<td colspan=99>none</table>"
    )
    assert document.text.split("\n")[:5] == [
        "| Plan | Price |  |",
        "| --- | --- | --- |",
        "|  | Month | Year |",
        "| Pro | 5 | 50 |",
        "| Free | none |  |",
    ]


def test_spans_cost_little():
    document = parse("<table><tr>" + "<td rowspan=65534>x" * 1000 + "<tr><td>y" * 5000 + "</table>")
    assert len(document.text) < 200_000


def test_code_with_numbers_beside_it():
    """Tables that put numbers beside lines are no tables, and the numbers aren't code."""
    document = parse(
        "<table class=highlighttable><tr><td class=linenos><div class=linenodiv><pre>1\n2</pre></div></td>"
        "<td class=code><pre>import os\nprint(1)</pre></td></tr></table>"
        "<pre><span class=linenos>1</span>x = 1</pre><div class=gutter>12 real words</div>"
    )
    assert document.text == "```\nimport os\nprint(1)\n```\n\n```\nx = 1\n```\n\n12 real words\n\n"


def test_lists_keep_their_numbers():
    """Also those that go on from another list, and those whose items hold code."""
    document = parse(
        "<ol start=5><li>five<li>six<li value=9>nine</ol><ol><li><p>Run:</p><pre>make</pre><li>Wait</ol>"
        "<ul>stray<li>a<ul><li>b</ul></ul>"
    )
    assert document.text == (
        "5. five\n6. six\n9. nine\n\n1. Run:\n\n```\nmake\n```\n\n2. Wait\n\nstray\n- a\n  - b\n\n"
    )


@pytest.mark.parametrize(
    "inside",
    [
        'Fees <a class=headerlink href="#fees" title=Permalink>\u00b6</a>',
        '<a href="#fees">#</a> Fees',
        "<span>Fees</span><span class=mw-editsection>[<a href=/e>edit</a>]</span>",
        "<code>Fees</code>",
        "Fe\u00ades",
    ],
)
def test_titles_are_plain(inside):
    document = parse(f"<h2>{inside}</h2><p>text")
    assert [block.title for block in document.blocks if block.kind == "heading"] == ["Fees"]


def test_powers_are_no_further_digits():
    document = parse(
        "<p>10<sup>6</sup> and 10<sup>-3</sup> m<sup>2</sup>, 1<sup>st</sup>, 5<sup><a href=#n>1</a></sup>"
    )
    assert document.text.strip() == "10^6 and 10^-3 m2, 1st, 51"


def test_menus_and_closed_dialogs_are_gone():
    document = parse("<div role=navigation>menu</div><dialog>ask</dialog><dialog open>tell</dialog><p>text")
    assert document.text == "tell\n\ntext\n\n"


def test_nested_line_numbers_cost_little():
    """What is inside is asked once, not once for each element around it."""
    assert parse("<div class=lineno>" * 2000 + "1" * 1000 + "x").text.strip() == "1" * 1000 + "x"
