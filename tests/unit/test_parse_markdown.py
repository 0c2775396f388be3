"""Markdown structure: what is a heading, what is text, what is neither."""

import base64
import re

import pytest
from markdown_it import MarkdownIt

from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes
from pipeline.parse.markdown_blocks import scan
from pipeline.parse.markdown_inline import plain

B3, B4 = "`" * 3, "`" * 4


def parse(text):
    return parse_bytes(text.encode() if isinstance(text, str) else text, "page.md")


def headings(document):
    return [(b.level, b.title) for b in document.blocks if b.kind == "heading"]


def chunks(document, target=200, overlap=0, strategy="markdown_heading"):
    return chunk_document(document, strategy, ChunkOptions(target, overlap))


def paths(document, needle, target=200):
    return [c.heading_path for c in chunks(document, target) if needle in c.text]


def covered(document, found):
    seen = {i for c in found for i in range(c.start, c.end)}
    return all(ch.isspace() or i in seen for i, ch in enumerate(document.text))


def test_fences_of_other_marks_and_lengths():
    """O-01: hashes in code are code, whatever the fence."""
    md = (
        "# Runbook\n\nintro line\n\n~~~sh\n# rotate the key\nrotate --now\n~~~\n\n"
        f"{B4}md\n{B3}sh\n# inner comment\n{B3}\n## still inside\n{B4}\n\n## Rollback\n\nundo step\n"
    )
    document = parse(md)
    assert headings(document) == [(1, "Runbook"), (2, "Rollback")]
    for line in ("# rotate the key", "# inner comment", "## still inside"):
        assert paths(document, line) == [("Runbook",)]
    assert paths(document, "undo step") == [("Runbook", "Rollback")]


def test_fence_that_is_never_closed():
    """O-01.4: it runs to the end, and its content is kept."""
    document = parse("# A\n\n~~~\n# x\n\n# B\n")
    assert headings(document) == [(1, "A")]
    assert any("# B" in c.text for c in chunks(document))


BODY = "---\ntitle: Pump manual\nowner: Team North\n---\n\n# Pump\n\nbody one\n\n## Seals\n\nbody two\n"


def test_front_matter_with_carriage_returns_and_mark():
    """O-02: metadata is lifted whichever newlines and marks the file has."""
    one = parse(BODY)
    two = parse(b"\xef\xbb\xbf" + BODY.replace("\n", "\r\n").encode())
    for document in (one, two):
        assert [title for _, title in headings(document)] == ["Pump", "Seals"]
        assert dict(document.metadata)["title"] == document.title == "Pump manual"
        assert dict(document.metadata)["owner"] == "Team North"
        assert not any("owner:" in c.text or "\ufeff" in c.text for c in chunks(document))
    assert [(c.heading_path, c.text) for c in chunks(one)] == [(c.heading_path, c.text) for c in chunks(two)]


def test_rule_at_the_start_is_no_front_matter():
    """O-02.5: without a closing line everything is text."""
    document = parse(b"---\nplain text\n\n# H\n\nx\n")
    assert document.metadata == ()
    assert headings(document) == [(1, "H")]
    assert any("plain text" in c.text for c in chunks(document))


def test_front_matter_is_flat_and_typed():
    """Lists stay lists of strings, nesting becomes dots, dates ISO text, nulls vanish, large integers strings."""
    document = parse(
        "---\ntags: [a, 2]\ndate: 2024-03-05\nn: {deep: 1.5, none: null}\nbig: 99999999999999999999\nflag: true\n---\ntext\n"
    )
    assert dict(document.metadata) == {
        "tags": ("a", "2"), "date": "2024-03-05", "date_epoch": 1709596800, "n.deep": 1.5,
        "big": "99999999999999999999", "flag": True,
        "created": "2024-03-05", "created_epoch": 1709596800, "keywords": ("a", "2"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "front",
    [
        "title: ok\nbad: [unclosed\n",
        "title: ok\nx: !!python/object:os.system {}\n",
        "title: ok\n" + "a: " + "[" * 5000 + "\n",
    ],
)
def test_broken_front_matter_warns(front):
    """Metadata that isn't valid YAML, or not safe, neither fails the file nor reaches the text."""
    document = parse(f"---\n{front}---\nbody\n")
    assert document.text.strip() == "body"
    assert document.title == "ok"
    assert document.warnings


def test_aliases_do_not_multiply():
    """A few lines of YAML aliases can't become a large document's worth of metadata."""
    bomb = "a0: &a0 {k: v}\n" + "".join(f"a{i}: &a{i} {{x: *a{i - 1}, y: *a{i - 1}}}\n" for i in range(1, 30))
    assert len(parse(f"---\n{bomb}---\nbody\n").metadata) <= 256


def test_toml_front_matter():
    assert dict(parse('+++\ntitle = "Pump"\n+++\ntext\n').metadata) == {"title": "Pump"}


def test_comment_with_heading_and_heading_with_comment():
    """O-03: what is commented out is no section, and a heading keeps its place without its comment."""
    document = parse(
        "# Guide\n\nseen one\n\n<!--\n## Draft part\nsecret draft line\n-->\n\n"
        "## Live part <!-- check wording -->\n\nseen two\n"
    )
    assert [title for _, title in headings(document)] == ["Guide", "Live part"]
    assert paths(document, "seen two") == [("Guide", "Live part")]
    assert "secret" not in document.text
    assert "wording" not in document.text


def test_comments_in_code_stay():
    """Comments in fenced code, nested too, in code spans and after an escape are text."""
    text = f"see `<!-- a -->` and \\<!-- b -->\n\n- item\n  {B3}\n  <!-- c -->\n  {B3}\n\n{B3}\n<!-- d -->\n{B3}\n"
    assert parse(text + "\ngone <!-- e --> here\n").text == text + "\ngone  here\n"


def test_comment_that_is_never_closed_keeps_its_text():
    assert "late words" in parse("# A\n\n<!-- open\n\nlate words\n").text
    assert parse("a <!-- b --> c <!-- d\n").text == "a  c <!-- d\n"


ROWS = [f"| k{i:02d} | v{i} \\| w{i} | n{i} |" for i in range(40)]
HEAD = "| key | value | note |\n| --- | --- | --- |\n"


def test_long_table():
    """O-04: rows stay whole, and every chunk with rows has the header right above its first row."""
    document = parse("# Limits\n\nTable 7: limits\n\n" + HEAD + "\n".join(ROWS) + "\n\nafter table\n")
    found = chunks(document, 80)
    with_rows = [c for c in found if "| k" in c.text.replace("| key", "")]
    assert len(with_rows) > 1
    for row in ROWS:
        assert sum(row in c.text.split("\n") for c in found) == 1
    for c in found:
        assert c.tokens <= 80
    for c in with_rows:
        lines = (c.prefix + c.text).split("\n")
        first = next(i for i, line in enumerate(lines) if line in ROWS)
        assert "\n".join(lines[first - 2 : first]) + "\n" == HEAD
    assert sum("Table 7: limits" in c.text for c in found) == 1
    assert sum("after table" in c.text for c in found) == 1


def test_heading_forms():
    """O-05: closing hashes go, seven hashes and tags are text, text before the first heading is kept."""
    document = parse(
        "Lead text before any heading.\n\n## Setup ##\n\nalpha\n\n###### Deep ######\n\nbeta\n\n"
        "####### seven\n\n#tag is not a heading\n\n## C# and F# ##\n\ngamma\n\n### Issue #42\n\ndelta\n"
    )
    assert headings(document) == [(2, "Setup"), (6, "Deep"), (2, "C# and F#"), (3, "Issue #42")]
    assert paths(document, "Lead text before any heading.") == [()]
    assert paths(document, "####### seven") == paths(document, "#tag is not") == [("Setup", "Deep")]
    assert paths(document, "delta") == [("C# and F#", "Issue #42")]


def test_one_line():
    """O-05.5: a file without structure is one chunk."""
    (only,) = chunks(parse("just one line\n"))
    assert only.text.strip() == "just one line"


def test_inline_pictures_leave_no_payload():
    """O-12: no base64 survives in text or metadata, and what is written around it does."""
    blob = base64.b64encode(bytes(range(256)) * 400).decode()
    document = parse(
        f"---\nicon: data:image/png;base64,{blob}\n---\n# Chart\n\nbefore\n\n![sales curve](data:image/png;base64,{blob})\n\n"
        f"see [full size](data:image/png;base64,{blob}) after\n"
    )
    (only,) = chunks(document)
    assert not re.search(r"[A-Za-z0-9+/]{64,}", only.text + str(document.metadata))
    at = [only.text.index(part) for part in ("before", "sales curve", "full size", "after")]
    assert at == sorted(at)


@pytest.mark.parametrize(
    ("markup", "title"),
    [
        ("plain", "plain"),
        ("**bold** and *it* and __b__ and _i_", "bold and it and b and i"),
        ("`code_with_marks*` end", "code_with_marks* end"),
        ("[text](http://x.test/a_b_c) tail", "text tail"),
        ("![alt](pic.png) tail", "alt tail"),
        ("[![alt](a.png)](b) x", "alt x"),
        ("snake_case_name", "snake_case_name"),
        ("a \\* b", "a * b"),
        ("Tom &amp; Ann", "Tom & Ann"),
        ("<a name='x'></a>Setup", "Setup"),
        ("List<T> of int", "List of int"),
        ("Install {#install-me}", "Install"),
        ("5 * 3 * 2", "5 * 3 * 2"),
        ("~~old~~ new", "old new"),
    ],
)
def test_plain_titles(markup, title):
    assert plain(markup) == title


KIND = {
    "heading_open": "heading", "paragraph_open": "paragraph", "bullet_list_open": "list", "ordered_list_open": "list",
    "fence": "code", "code_block": "code", "html_block": "html", "blockquote_open": "quote", "table_open": "table",
    "hr": "paragraph",
}  # fmt: skip

STRUCTURES = [
    "a\nb\n===\n\nc\n---\nd\n",
    "para\n    not code\n\n    code\n\n    more\ntext\n",
    "- a\n- b\n\n  still b\n\n      code in b\n* other list\n1. one\n2) new list\n",
    "- a\n  - b\n    lazy\nlazier\n- c\n",
    "1. a\n  - inner bullet list\n2. b\n",
    f"- x\n  {B3}\n  - not an item\n  {B3}\n  y\n\nz\n",
    f"- x\n  {B3}\nout of the fence\n",
    "-\n\n  not in the item\n",
    "-\n  in the item\n",
    "> quote\nlazy\n\nnot\n> again\n# head\n",
    f"> {B3}\nnot lazy\n",
    "text\n- item interrupts\n\ntext\n2. does not\n\ntext\n1. does\n",
    "* * *\n- - -\n___\n",
    "| a | b |\n| - | - |\n| 1 | 2 |\nrow without pipe\n\nafter\n",
    "lead\n| a | b |\n|---|---|\n> quote\n",
    "| a | b |\n|---|\nnot a table\n",
    "a | b\n--- | :-:\n1 | 2\n# h\n",
    "<div>\n# not a heading\n\n# heading\n",
    "<!-- c\n\n# no\n-->\n# yes\n",
    "<pre>\n\n# no\n</pre>\n# yes\n",
    "text\n<span>inline</span>\n<div>\nblock\n",
    "<custom-tag>\ntext\n\n# h\n",
    "   # three spaces\n    # four\n",
    "#\n## \n### x #y\n#\ttab\n",
    "\ttab code\n- \ttab item\n\n\tin item\n",
    f"{B3}py x{B3}\nnot a fence\n",
    f"  {B3}\n  a\n {B3}\nb\n    {B3}\nc\n",
    "setext * with *marks*\n-\n",
    "1. a\n\n   b\n\n\n   c\n2. d\n\n\ne\n",
    "10) a\n    b\n\n   c\n",
    "- a\n\n\n\n- b\n+ c\n",
    "- # heading in item\n- > quote\n  lazy?\nlazy\n",
]


@pytest.mark.parametrize("text", STRUCTURES)
def test_structure_agrees_with_an_independent_parser(text):
    """Outermost blocks have the kinds and lines that markdown-it-py gives them."""
    lines = text.split("\n")

    def used(first, end):
        while end > first and not lines[end - 1].strip():
            end -= 1
        return first, end

    theirs = [
        (KIND[t.type], *used(*t.map), int(t.tag[1]) if t.type == "heading_open" else 0)
        for t in MarkdownIt("commonmark").enable("table").parse(text)
        if t.level == 0 and t.map and t.type in KIND
    ]
    ours = [
        (b.kind, *used(text.count("\n", 0, b.start), text[: b.end].rstrip("\n").count("\n") + 1), b.level)
        for b in scan(text)
    ]
    assert ours == theirs


def test_link_definitions_are_no_headings():
    """A line of '=' under a link definition underlines nothing."""
    assert [b.kind for b in scan("[ref]: /url\n===\n\n[a]: /b\n---\n")] == ["paragraph", "paragraph", "paragraph"]


@pytest.mark.parametrize("text", STRUCTURES)
def test_blocks_cover_the_text_in_order(text):
    """Blocks rise, don't overlap, start lines, and leave only white space out."""
    at = 0
    for block in scan(text):
        assert not text[at : block.start].strip()
        assert block.start == 0 or text[block.start - 1] == "\n"
        assert all(block.start < cut < block.end for cut in block.cuts)
        at = block.end
    assert not text[at:].strip()


def test_nothing_but_a_comment_is_refused():
    """A file that holds no text once comments are gone is told, not indexed as nothing."""
    with pytest.raises(RejectedInput) as error:
        parse("<!-- only this -->\n")
    assert error.value.code == "empty_file"
