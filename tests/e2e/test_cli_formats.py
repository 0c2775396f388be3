"""What people see of how files were read: `inspect`, `sources`, warnings, and documents inside documents."""

from __future__ import annotations

from typing import Any

import pytest

RAGGED = "id,name,city\n1,Ana,Oslo\n2,Bo\n"
MAIL = (
    "From: ana@x.test\r\nTo: b@x.test\r\nSubject: Pump order\r\nDate: Tue, 5 Mar 2024 07:00:00 +0000\r\nMIME-Version: 1.0\r\n"
    "Content-Type: multipart/mixed; boundary=M\r\n\r\n--M\r\nContent-Type: text/plain\r\n\r\nPlease send the valve.\r\n"
    "--M\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename=parts.csv\r\n\r\nid,part\r\n7,gasket\r\n--M--\r\n"
)


def test_inspect_shows_how_a_file_is_cut(lamina: Any) -> None:
    text = "---\nauthor: Ana\n---\n# Guide\n\nintro\n\n## Rows\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    seen = lamina.json("inspect", lamina.write("g.md", text))
    assert (seen["format"], seen["title"], seen["strategy"]) == ("markdown", "Guide", "markdown_heading")
    assert seen["metadata"]["author"] == "Ana"
    assert seen["headings"] == [{"level": 1, "title": "Guide"}, {"level": 2, "title": "Rows"}]
    assert seen["tables"] == [{"columns": ["a", "b"], "rows": [["1", "2"]]}]
    assert [c["headings"] for c in seen["chunks"]] == [["Guide"], ["Guide", "Rows"]]
    shown = lamina.ok("inspect", lamina.write("g.md", text))
    assert "table: 1 row of a, b" in shown
    assert "2 chunks by markdown_heading" in shown


def test_inspect_takes_the_manifests_choices(lamina: Any) -> None:
    place = lamina.write("w.txt", "word " * 300)
    seen = lamina.json("inspect", place, "--strategy", "sliding_window", "--target-size", "50", "--overlap", "10")
    assert len(seen["chunks"]) > 5
    assert all(c["tokens"] <= 50 for c in seen["chunks"])
    assert lamina("inspect", place, "--strategy", "magic", "--json").refusal["code"] == "chunk_strategy"
    assert lamina("inspect", place, "--target-size", "5", "--overlap", "5", "--json").refusal["code"] == "chunk_options"
    assert lamina("inspect", lamina.folder / "none.md", "--json").refusal["code"] == "unreadable"
    assert (
        lamina("inspect", lamina.write("p.png", b"\x89PNG\r\n\x1a\n" + bytes(9)), "--json").refusal["code"]
        == "unsupported"
    )


def test_warnings_are_told_at_the_run_and_afterwards(lamina: Any) -> None:
    lamina.write("odd/ragged.csv", RAGGED)
    lamina.write("odd/fine.md", "# Fine\n\nwords\n")
    told = lamina.ok("curate", lamina.folder / "odd")
    assert "1 source read with warnings; see: lamina show " in told
    run = lamina.json("runs", "odd")["runs"][0]["run"]
    assert "line 3: 2 values where 3 were wanted" in lamina.ok("show", run)
    listed = {row["path"]: row for row in lamina.json("sources", "odd")["sources"]}
    assert listed["ragged.csv"]["warnings"] == ["line 3: 2 values where 3 were wanted"]
    assert listed["fine.md"]["warnings"] == []
    assert "ragged.csv: line 3" in lamina.ok("sources", "odd")
    lamina.write("odd/ragged.csv", RAGGED.replace("2,Bo", "2,Bo,Rome"))
    lamina.ok("curate", "odd")
    assert not any(row["warnings"] for row in lamina.json("sources", "odd")["sources"])


def test_failed_sources_are_listed_with_their_reason(lamina: Any) -> None:
    lamina.write("odd/bad.pdf", b"%PDF-1.4\nnot a pdf")
    lamina.write("odd/fine.md", "# Fine\n\nwords\n")
    assert lamina("curate", lamina.folder / "odd").status == 1
    bad = lamina.json("sources", "odd")["sources"][0]
    assert (bad["path"], bad["status"], bad["code"], bad["chunks"]) == ("bad.pdf", "failed", "pdf_broken", 0)
    assert bad["reason"] in lamina.ok("sources", "odd")


def test_attachments_are_found_as_what_they_are(lamina: Any) -> None:
    """A mail and its attachment are two documents of one source: they come together and go together."""
    lamina.write("post/order.eml", MAIL)
    lamina.ok("curate", lamina.folder / "post")
    hit = lamina.json("query", "post", "gasket", "--mode", "sparse")["hits"][0]
    assert (hit["source_path"], hit["part"], hit["metadata"]["filename"]) == ("order.eml", "parts.csv", "parts.csv")
    mail = lamina.json("query", "post", "valve", "--mode", "sparse")["hits"][0]
    assert (mail["part"], mail["title"], mail["metadata"]["format"]) == (None, "Pump order", "eml")
    assert hit["metadata"]["parent_id"] == mail["metadata"]["doc_id"]
    assert "order.eml (parts.csv):" in lamina.ok("query", "post", "gasket", "--mode", "sparse")
    lamina.write("post/order.eml", MAIL.replace("gasket", "washer"))
    lamina.ok("curate", "post")
    assert lamina.json("query", "post", "gasket", "--mode", "sparse")["hits"] == []
    (lamina.folder / "post" / "order.eml").unlink()
    lamina.write("post/other.md", "kettle\n")
    lamina.ok("curate", "post")
    assert {
        h["source_path"] for h in lamina.json("query", "post", "washer valve kettle", "--mode", "sparse")["hits"]
    } == {"other.md"}


@pytest.mark.parametrize("rules", ["none", "default", "too_short+symbol_soup"])
def test_screening_is_the_recipes_choice(lamina: Any, rules: str) -> None:
    lamina.write("s/a.md", "xy\n\n# A\n\nsome words to keep here\n\n# \n\n=-=-=-=-=-=\n")
    lamina.ok("curate", lamina.folder / "s", "--set", f"screen={rules}")
    kept = [c["text"] for c in lamina.json("chunks", "s")["chunks"]]
    assert len(kept) == {"none": 3, "default": 2}.get(rules, 1)
    refused = lamina("curate", lamina.folder / "s", "--set", "screen=soup", "--force", "--json").refusal
    assert "symbol_soup" in refused["message"]
