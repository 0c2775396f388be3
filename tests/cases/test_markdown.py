"""O-01 to O-05 and O-12: Markdown. Fences, front matter, comments, tables, headings, inline pictures."""

from __future__ import annotations

import base64
import codecs
import json
import re

import pytest
from trouble import (
    STRATEGIES,
    Parsed,
    Passage,
    check_cap,
    check_clean,
    check_cover,
    check_order,
    check_pipe_tables,
    check_slice,
    chunk,
    count,
    deployment,
    flat_strings,
    headings,
    parse,
    sized,
)

B3, B4 = "`" * 3, "`" * 4
TARGETS = (12, 40, 200)


def sections(doc: Parsed, target: int = 200, overlap: int = 0) -> list[Passage]:
    return chunk(doc, "markdown_heading", target, overlap)


def titles(doc: Parsed) -> list[str]:
    return [title for _, title in headings(doc)]


def holding(chunks: list[Passage], words: str) -> list[Passage]:
    found = [c for c in chunks if words in c.text]
    assert found, f"{words!r} is in no chunk"
    return found


# O-01

FENCED = (
    "# Runbook\n\nintro line\n\n"
    "~~~sh\n# rotate the key\nrotate --now\n~~~\n\n"
    + B4 + "md\n" + B3 + "sh\n# inner comment\n" + B3 + "\n## still inside\n" + B4 + "\n\n"
    "## Rollback\n\nundo step\n"
)  # fmt: skip
NEVER_CLOSED = "# A\n\n~~~\n# x\n\n# B\n"


def test_o01_headings_outside_fences_only() -> None:
    """O-01.1."""
    assert headings(parse(FENCED, "run.md")) == [(1, "Runbook"), (2, "Rollback")]


@pytest.mark.parametrize("target", TARGETS)
def test_o01_fenced_lines_belong_to_the_section_above(target: int) -> None:
    """O-01.2, O-01.3."""
    found = sections(parse(FENCED, "run.md"), target)
    for line in ("# rotate the key", "# inner comment", "## still inside"):
        assert any(line in c.text.splitlines() for c in found)
        assert all(c.path == ["Runbook"] for c in holding(found, line))
    assert all(c.path == ["Runbook", "Rollback"] for c in holding(found, "undo step"))


@pytest.mark.parametrize("target", TARGETS)
def test_o01_a_fence_that_is_never_closed(target: int) -> None:
    """O-01.4."""
    doc = parse(NEVER_CLOSED, "open.md")
    assert headings(doc) == [(1, "A")]
    found = sections(doc, target)
    check_cover(doc, found)
    holding(found, "# B")


@pytest.mark.parametrize(
    "text",
    [
        "# Runbook\n\n- step\n\n  ~~~sh\n  # rotate the key\n  ~~~\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n> " + B3 + "sh\n> # rotate the key\n> " + B3 + "\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n1. step\n   " + B4 + "\n   " + B3 + "\n   # rotate the key\n   " + B4 + "\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n   ~~~~\n# rotate the key\n~~~\n# rotate the key\n   ~~~~~\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n" + B3 + " sh {.numbered}\n# rotate the key\n" + B4 + "\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n    # rotate the key\n\n## Rollback\n\nundo step\n",
        "# Runbook\n\n<pre>\n# rotate the key\n\n# rotate the key\n</pre>\n\n## Rollback\n\nundo step\n",
    ],
    ids=["list", "quote", "numbered", "indented", "longer-close", "indented-code", "pre"],
)  # fmt: skip
def test_o01_kind_fences_in_containers(text: str) -> None:
    """O-01.1 to O-01.3, of the kind: in lists, quotes and other marks of code."""
    doc = parse(text, "run.md")
    assert headings(doc) == [(1, "Runbook"), (2, "Rollback")]
    found = sections(doc)
    assert all(c.path == ["Runbook"] for c in holding(found, "# rotate the key"))
    assert all(c.path == ["Runbook", "Rollback"] for c in holding(found, "undo step"))
    check_cover(doc, found)


def test_o01_kind_fences_in_a_notebook_cell() -> None:
    """O-01.1 to O-01.3, of the kind: Markdown inside a notebook."""
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": FENCED.split("## Rollback")[0]},
        {"cell_type": "code", "metadata": {}, "source": "# a comment\nx = '''\n" + B3 + "\n'''", "outputs": []},
        {"cell_type": "markdown", "metadata": {}, "source": "## Rollback\n\nundo step"},
    ]
    doc = parse(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}), "run.ipynb")
    assert headings(doc) == [(1, "Runbook"), (2, "Rollback")]
    found = sections(doc)
    for line in ("# rotate the key", "# inner comment", "## still inside", "# a comment"):
        assert all(c.path == ["Runbook"] for c in holding(found, line))


# O-02

FRONT = "---\ntitle: Pump manual\nowner: Team North\n---\n\n# Pump\n\nbody one\n\n## Seals\n\nbody two\n"
LF = FRONT.encode()
CRLF_BOM = b"\xef\xbb\xbf" + FRONT.replace("\n", "\r\n").encode()
NOT_FRONT = b"---\nplain text\n\n# H\n\nx\n"


def check_pump(data: bytes) -> list[tuple[list[str], str]]:
    doc = parse(data, "pump.md")
    assert titles(doc) == ["Pump", "Seals"]
    assert doc.meta["title"] == "Pump manual"
    assert doc.meta["owner"] == "Team North"
    found = sections(doc)
    for c in found:
        assert "owner:" not in c.text
        assert "\ufeff" not in c.text
    check_clean(doc, found)
    return [(c.path, c.text.replace("\r\n", "\n")) for c in found]


@pytest.mark.parametrize("data", [LF, CRLF_BOM], ids=["lf", "crlf-bom"])
def test_o02_headings_and_front_matter(data: bytes) -> None:
    """O-02.1, O-02.2, O-02.3."""
    check_pump(data)


def test_o02_both_files_give_the_same_chunks() -> None:
    """O-02.4."""
    assert check_pump(LF) == check_pump(CRLF_BOM)


def test_o02_a_rule_is_no_front_matter() -> None:
    """O-02.5."""
    doc = parse(NOT_FRONT, "rule.md")
    assert doc.meta == {}
    holding(sections(doc), "plain text")
    assert titles(doc) == ["H"]


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF16_LE + FRONT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + FRONT.replace("\n", "\r\n").encode("utf-16-be"),
        codecs.BOM_UTF32_LE + FRONT.encode("utf-32-le"),
        FRONT.replace("\n", "\r").encode(),
        b"\xef\xbb\xbf" + FRONT.replace("\n", "\r").encode(),
        b'+++\r\ntitle = "Pump manual"\r\nowner = "Team North"\r\n+++\r\n' + FRONT.split("---\n")[2].replace("\n", "\r\n").encode(),
        FRONT.replace("North\n---\n", "North\n...\n").encode(),
        FRONT.replace("---\n", "--- \t\n").encode(),
    ],
    ids=["utf-16-le", "utf-16-be-crlf", "utf-32-le", "cr", "cr-bom", "toml-crlf", "dots", "blanks"],
)  # fmt: skip
def test_o02_kind_other_encodings_marks_and_line_ends(data: bytes) -> None:
    """O-02.1 to O-02.4, of the kind: wide encodings, lone carriage returns, TOML, other closing lines."""
    assert check_pump(data) == check_pump(LF)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("+++\nplain text\n\n# H\n\nx\n", "plain text"),
        ("\n---\ntitle: no\n---\n\n# H\n\nx\n", "title: no"),
        ("---\n- a list\n---\n\n# H\n\nx\n", "a list"),
    ],
    ids=["toml-open", "not-first", "a-list"],
)
def test_o02_kind_what_is_no_front_matter(text: str, kept: str) -> None:
    """O-02.5, of the kind."""
    doc = parse(text, "rule.md")
    assert doc.meta == {}
    found = sections(doc)
    holding(found, kept)
    check_cover(doc, found)
    assert titles(doc)[-1] == "H"


# O-03

COMMENTED = (
    "# Guide\n\nseen one\n\n<!--\n## Draft part\nsecret draft line\n-->\n\n"
    "## Live part <!-- check wording -->\n\nseen two\n"
)


def test_o03_comments_hide_headings_and_headings_bear_comments() -> None:
    """O-03.1, O-03.2, O-03.3 (paths)."""
    doc = parse(COMMENTED, "guide.md")
    assert titles(doc) == ["Guide", "Live part"]
    found = sections(doc)
    assert all(c.path == ["Guide", "Live part"] for c in holding(found, "seen two"))
    assert all("Draft part" not in c.path for c in found)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_o03_the_embedder_never_sees_a_comment(strategy: str) -> None:
    """O-03.3."""
    with deployment({"guide.md": COMMENTED}) as made:
        made.run(sized(200, strategy=strategy))
        assert made.embedded
        assert not [text for text in made.embedded if "secret draft line" in text]
        assert not [meta for meta in made.live.metadata() if "Draft part" in str(meta.get("section_path", ""))]
        assert not [text for text in made.live.texts if "secret draft line" in text]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("# Guide\n\nseen one <!-- Draft part,\nsecret draft line --> seen on\n\n## Live part\n\nseen two\n", "g.md"),
        (("Guide\n=====\n\nseen one\n\n<!-- a --><!--\n## Draft part\n\nsecret draft line\n-->\n\n"
         "<!-- why -->\n## Live <!-- x -->part\n\nseen two\n"), "g.md"),
        ("# Guide\n\nseen one\n\n- item\n\n  <!--\n  ## Draft part\n  secret draft line\n  -->\n\n## Live part\n\nseen two\n",
         "g.md"),
        ("# Guide\r\n\r\nseen one\r\n\r\n<!--\r\n## Draft part\r\nsecret draft line\r\n-->\r\n## Live part\r\n\r\nseen two\r\n",
         "g.md"),
        (("<h1>Guide</h1><p>seen one</p><!-- <h2>Draft part</h2><p>secret draft line</p> -->"
         "<h2>Live part<!-- check wording --></h2><p>seen two</p>"), "g.html"),
    ],
    ids=["in-a-paragraph", "two-in-a-row", "in-a-list", "crlf", "html"],
)  # fmt: skip
def test_o03_kind_comments_elsewhere(text: str, name: str) -> None:
    """O-03.1 to O-03.3, of the kind: inside paragraphs and lists, one after another, in HTML."""
    doc = parse(text, name)
    assert titles(doc) == ["Guide", "Live part"]
    found = chunk(doc, "markdown_heading", 200, 0)
    assert all(c.path == ["Guide", "Live part"] for c in holding(found, "seen two"))
    assert "secret draft line" not in doc.text
    check_cover(doc, found)


def test_o03_kind_a_comment_in_code_is_code() -> None:
    """O-03.1, of the kind, from the other side: what stands in a fence is shown, not hidden."""
    doc = parse("# Guide\n\n```html\n<!-- shown as code -->\n```\n\ntext `<!-- and here -->` on\n", "g.md")
    assert titles(doc) == ["Guide"]
    holding(sections(doc), "<!-- shown as code -->")
    holding(sections(doc), "`<!-- and here -->`")


# O-04

ROWS = [f"| k{i:02d} | v{i} \\| w{i} | n{i} |" for i in range(40)]
HEAD = "| key | value | note |\n| --- | --- | --- |\n"
TABLE = "# Limits\n\nTable 7: limits\n\n" + HEAD + "\n".join(ROWS) + "\n\nafter table\n"
TARGET, OVERLAP = 80, 0


def check_rows(doc: Parsed, found: list[Passage], rows: list[str]) -> None:
    """Each row is whole in exactly one chunk, and no chunk starts or ends inside one."""
    for row in rows:
        assert sum(c.text.splitlines().count(row) for c in found) == 1
        at = doc.text.index(row)
        assert not [c for c in found if at < c.start < at + len(row) or at < c.end < at + len(row)]


def check_head(found: list[Passage], rows: list[str], head: str) -> None:
    """The header's lines stand directly above the first row of every chunk with rows."""
    for c in found:
        lines = (c.prefix + c.text).splitlines()
        own = [at for at, line in enumerate(lines) if line in rows]
        if own:
            wanted = head.splitlines()
            assert lines[own[0] - len(wanted) : own[0]] == wanted


def test_o04_rows_are_shared_out_within_the_target() -> None:
    """O-04.1."""
    doc = parse(TABLE, "limits.md")
    found = sections(doc, TARGET, OVERLAP)
    assert sum(any(row in c.text for row in ROWS) for c in found) > 1
    check_cap(found, TARGET)


def test_o04_rows_stay_whole() -> None:
    """O-04.2, O-04.5."""
    doc = parse(TABLE, "limits.md")
    found = sections(doc, TARGET, OVERLAP)
    check_rows(doc, found, ROWS)
    assert sum(c.text.count("\\|") for c in found) == 40


def test_o04_the_header_stands_above_the_first_row() -> None:
    """O-04.3."""
    check_head(sections(parse(TABLE, "limits.md"), TARGET, OVERLAP), ROWS, HEAD)


def test_o04_what_stands_around_is_said_once() -> None:
    """O-04.4."""
    found = sections(parse(TABLE, "limits.md"), TARGET, OVERLAP)
    assert sum("Table 7: limits" in c.prefix + c.text for c in found) == 1
    assert sum("after table" in c.prefix + c.text for c in found) == 1


@pytest.mark.parametrize("target", [40, 60, 80, 120])
@pytest.mark.parametrize(
    ("head", "edge"),
    [
        ("key | value | note\n:-- | :-: | --:\n", ""),
        ("| key | value | note |\n|---|---|---|\n", ""),
        ("| *key* | `a\\|b` | [note](x) |\n| :---: | ---: | --- |\n", ""),
        ("| schlüssel | 値 | ноте |\n| --- | --- | --- |\n", ""),
    ],
    ids=["no-edges", "tight", "marked-up", "wide-characters"],
)
def test_o04_kind_other_tables(head: str, edge: str, target: int) -> None:
    """O-04.1 to O-04.5, of the kind: without edges, with alignment, with other scripts, at other targets."""
    rows = [row.strip("| ") if head.startswith("key |") else row for row in ROWS]
    doc = parse("# Limits\n\nTable 7: limits\n\n" + head + "\n".join(rows) + f"\n{edge}\nafter table\n", "limits.md")
    found = sections(doc, target)
    assert sum(any(row in c.text for row in rows) for c in found) > 1
    check_cap(found, target)
    check_rows(doc, found, rows)
    if count(head) * 2 <= target:
        check_head(found, rows, head)
    for words in ("Table 7: limits", "after table"):
        assert sum(words in c.prefix + c.text for c in found) == 1


def test_o04_kind_overlap_repeats_whole_rows() -> None:
    """O-04.2, O-04.3, of the kind: with overlap a row may come twice, but whole."""
    doc = parse(TABLE, "limits.md")
    found = sections(doc, TARGET, 24)
    check_cap(found, TARGET)
    check_cover(doc, found)
    check_head(found, ROWS, HEAD)
    for c in found:
        assert not [line for line in c.text.splitlines() if line.startswith("| k") and line not in (*ROWS, HEAD[:22])]


def test_o04_kind_a_table_of_html() -> None:
    """O-04.1 to O-04.5, of the kind: the same table as HTML."""
    cells = [row.replace("\\|", "\0").strip("| ").split(" | ") for row in ROWS]
    body = "".join("<tr>" + "".join(f"<td>{c.replace(chr(0), '|')}</td>" for c in row) + "</tr>" for row in cells)
    html = (
        "<h1>Limits</h1><table><caption>Table 7: limits</caption><thead><tr><th>key</th><th>value</th><th>note</th></tr>"
        f"</thead><tbody>{body}</tbody></table><p>after table</p>"
    )
    doc = parse(html, "limits.html")
    found = chunk(doc, "html", TARGET, OVERLAP)
    assert sum(any(row in c.text for row in ROWS) for c in found) > 1
    check_cap(found, TARGET)
    check_rows(doc, found, ROWS)
    check_head(found, ROWS, HEAD)
    for c in found:
        check_pipe_tables(c.prefix + c.text)
    for words in ("Table 7: limits", "after table"):
        assert sum(words in c.prefix + c.text for c in found) == 1


# O-05

HASHES = (
    "Lead text before any heading.\n\n## Setup ##\n\nalpha\n\n###### Deep ######\n\nbeta\n\n"
    "####### seven\n\n#tag is not a heading\n\n## C# and F# ##\n\ngamma\n\n### Issue #42\n\ndelta\n"
)
PLAIN = "just one line\n"


def test_o05_headings() -> None:
    """O-05.1."""
    assert headings(parse(HASHES, "h.md")) == [(2, "Setup"), (6, "Deep"), (2, "C# and F#"), (3, "Issue #42")]


@pytest.mark.parametrize("target", TARGETS)
def test_o05_paths(target: int) -> None:
    """O-05.2, O-05.3, O-05.4."""
    found = sections(parse(HASHES, "h.md"), target)
    wanted = {
        "Lead text before any heading.": [],
        "####### seven": ["Setup", "Deep"],
        "#tag is not a heading": ["Setup", "Deep"],
        "delta": ["C# and F#", "Issue #42"],
    }
    for words, path in wanted.items():
        assert all(c.path == path for c in holding(found, words)), words


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["plain.md", "plain.txt"])
def test_o05_a_file_without_headings(name: str, strategy: str) -> None:
    """O-05.5."""
    (only,) = chunk(parse(PLAIN, name), strategy, 200, 0)
    assert only.text.strip() == "just one line"


def test_o05_kind_underlined_headings_and_escapes() -> None:
    """O-05.1 to O-05.4, of the kind: underlines, up to three blanks, escaped and empty hashes, tabs, a rule."""
    text = (
        "Lead text.\n\nSetup\n-----\n\nalpha\n\n   ###### Deep\t###### \n\nbeta\n\n\\## no heading\n\n##no heading\n\n"
        "    # code, no heading\n\n## C\\# and F# \\##\n\ngamma\n\n***\n\n### Issue #42#\n\ndelta\n\n#\n\nepsilon\n"
    )
    doc = parse(text, "h.md")
    assert [h for h in headings(doc) if h[1]] == [(2, "Setup"), (6, "Deep"), (2, "C# and F# ##"), (3, "Issue #42#")]
    found = sections(doc)
    check_cover(doc, found)
    assert all(c.path == [] for c in holding(found, "Lead text."))
    for words in ("beta", "\\## no heading", "##no heading", "# code, no heading"):
        assert all(c.path == ["Setup", "Deep"] for c in holding(found, words))
    assert all(c.path == ["C# and F# ##", "Issue #42#"] for c in holding(found, "delta"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<p>Lead text before any heading.</p><h2>Setup</h2><p>alpha</p>", "h.html"),
        ("Lead text before any heading.\r\r## Setup ##\r\ralpha\r", "h.md"),
        ("\ufeffLead text before any heading.\n\n## Setup ##\n\nalpha\n", "h.md"),
    ],
    ids=["html", "cr", "bom"],
)
def test_o05_kind_text_before_the_first_heading(text: str, name: str) -> None:
    """O-05.1, O-05.2, of the kind."""
    doc = parse(text, name)
    assert headings(doc) == [(2, "Setup")]
    assert all(c.path == [] for c in holding(chunk(doc, "markdown_heading", 200, 0), "Lead text before any heading."))


# O-12

BLOB = base64.b64encode(bytes(range(256)) * 400).decode()
PICTURES = (
    f"# Chart\n\nbefore\n\n![sales curve](data:image/png;base64,{BLOB})\n\n"
    f"see [full size](data:image/png;base64,{BLOB}) after\n"
)
NOISE = re.compile(r"[A-Za-z0-9+/]{64,}")


def check_no_noise(doc: Parsed, name: str, data: bytes | str) -> list[Passage]:
    """Nothing of a payload in any text, prefix or metadata value, of the document and of its records."""
    found = chunk(doc, "markdown_heading", 200, 0)
    strings = [doc.text, *(s for value in doc.meta.values() for s in flat_strings(value))]
    strings += [s for c in found for s in (c.text, c.prefix)]
    with deployment({name: data}) as made:
        made.run()
        strings += list(made.live.strings())
        strings += made.embedded
    assert not [s for s in strings if NOISE.search(s)]
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_o12_inline_pictures_leave_their_words(strategy: str) -> None:
    """O-12.1, O-12.3 (Markdown)."""
    doc = parse(PICTURES, "chart.md")
    (only,) = chunk(doc, strategy, 200, 0)
    check_order(only.text, "before", "sales curve", "full size", "after")


def test_o12_no_payload_anywhere() -> None:
    """O-12.2 (Markdown)."""
    check_no_noise(parse(PICTURES, "chart.md"), "chart.md", PICTURES)


FOLDED = "\n".join(BLOB[i : i + 76] for i in range(0, len(BLOB), 76))
URL_SAFE = base64.urlsafe_b64encode(bytes(range(256)) * 400).decode()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"# Chart\n\nbefore\n\n![sales curve][p]\n\nsee [full size][p] after\n\n[p]: data:image/png;base64,{BLOB}\n", "c.md"),
        (f'# Chart\n\nbefore\n\n<img alt="sales curve" src="data:image/png;base64,{BLOB}">\n\nfull size after\n', "c.md"),
        (f'# Chart\n\nbefore\n\n![sales curve](<data:image/svg+xml;charset=utf-8;base64,{BLOB}> "t") full size after\n', "c.md"),
        (f"# Chart\n\nbefore\n\n![sales curve](DATA:image/png;BASE64,{BLOB}) full size after\n", "c.md"),
        (f"# Chart\n\nbefore\n\n![sales curve](data:;base64,{BLOB}) full size after\n", "c.md"),
        (f"# Chart\n\nbefore\n\n![sales curve](data:image/png;base64,{URL_SAFE}) full size after\n", "c.md"),
        (f"# Chart\n\nbefore\n\nsales curve\n\n```\ndata:image/png;base64,{FOLDED}\n```\n\nfull size after\n", "c.md"),
        (f"---\nlogo: data:image/png;base64,{BLOB}\n---\n# Chart\n\nbefore sales curve full size after\n", "c.md"),
        (f"before sales curve data:image/png;base64,{BLOB} full size after\n", "c.txt"),
    ],
    ids=["reference", "img", "svg", "capitals", "no-type", "url-safe", "folded", "front-matter", "text"],
)  # fmt: skip
def test_o12_kind_other_spellings(text: str, name: str) -> None:
    """O-12.1 to O-12.3, of the kind: other ways to write a data address in Markdown and plain text."""
    doc = parse(text, name)
    (only,) = check_no_noise(doc, name, text)
    check_order(only.text, "before", "sales curve", "full size", "after")


def _notebook() -> str:
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": f"# Chart\n\nbefore\n\n![sales curve](data:image/png;base64,{BLOB})"},
        {"cell_type": "markdown", "metadata": {}, "source": "![full size](attachment:x.png)",
         "attachments": {"x.png": {"image/png": BLOB}}},
        {"cell_type": "code", "metadata": {}, "source": f"show('data:image/png;base64,{BLOB}')", "outputs": [
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": BLOB}},
            {"output_type": "stream", "name": "stdout", "text": "after"}]},
    ]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def _mail() -> str:
    return (
        "From: a@x.test\r\nTo: b@x.test\r\nSubject: Chart\r\nMIME-Version: 1.0\r\n"
        "Content-Type: text/html; charset=utf-8\r\n\r\n"
        f'<p>before</p><img alt="sales curve" src="data:image/png;base64,{FOLDED}"><p>full size</p><p>after</p>\r\n'
    )


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (f'what,picture\nbefore,sales curve\n"full size","data:image/png;base64,{BLOB}"\nafter,none\n', "c.csv"),
        (_notebook(), "c.ipynb"),
        (json.dumps({"a": "before", "b": "sales curve", "p": f"data:image/png;base64,{BLOB}", "c": "full size", "d": "after"},
                    indent=1), "c.json"),
        (_mail(), "c.eml"),
        (f'# before\nNAME = "sales curve"\nPICTURE = "data:image/png;base64,{BLOB}"\nSIZE = "full size"\n# after\n', "c.py"),
        (('<svg xmlns="http://www.w3.org/2000/svg"><desc>before sales curve</desc>'
         f'<image href="data:image/png;base64,{BLOB}"/><text>full size after</text></svg>'), "c.xml"),
    ],
    ids=["csv", "notebook", "json", "mail", "code", "xml"],
)  # fmt: skip
def test_o12_kind_other_formats(data: str, name: str) -> None:
    """O-12.2, O-12.3, of the kind: the same payload in other formats."""
    doc = parse(data, name)
    found = check_no_noise(doc, name, data)
    check_order("\n".join(c.text for c in found), "before", "sales curve", "full size", "after")
    check_slice(doc, found)
    check_cover(doc, found)
