"""What stands together, and what is cut where when it can't."""

from itertools import pairwise

import pytest

from pipeline import tokens
from pipeline.chunk import CHUNKERS, VERSIONS, ChunkOptions, chunk_document, strategy_for
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes


def chunks(text, target, overlap=0, *, respect=True, name="a.md"):
    document = parse_bytes(text.encode(), name)
    return chunk_document(document, "markdown_heading", ChunkOptions(target, overlap, respect))


def texts(found):
    return [c.text for c in found]


def sentence(n):
    return f"Sentence number {n} says little."


def test_tables_of_strategies_agree():
    assert set(CHUNKERS) == set(VERSIONS)


@pytest.mark.parametrize(
    ("kind", "asked", "used"),
    [
        ("csv", "markdown_heading", "csv"),
        ("pdf", "markdown_heading", "markdown_heading"),
        ("text", "html", "markdown_heading"),
        ("html", "markdown_heading", "html"),
        ("code", "csv", "code"),
        ("csv", "sliding_window", "sliding_window"),
    ],
)
def test_a_document_is_chunked_by_its_own_structure(kind, asked, used):
    assert strategy_for(kind, asked) == used


def test_unknown_strategy_is_refused():
    with pytest.raises(RejectedInput) as error:
        strategy_for("markdown", "semantic")
    assert "semantic" in error.value.message
    assert "sliding_window" in error.value.message


def test_sections_are_not_mixed():
    text = "# A\n\none\n\n## B\n\ntwo\n\n# C\n\nthree\n"
    assert texts(chunks(text, 100)) == ["# A\n\none", "## B\n\ntwo", "# C\n\nthree"]


def test_small_sections_share_a_chunk_when_allowed():
    """Without `respect_sections` whole sections share chunks while they fit, and aren't torn."""
    text = "".join(f"## S{i}\n\n{sentence(i)} {sentence(i)}\n\n" for i in range(8))
    found = chunks(text, 50, respect=False)
    assert len(found) < 8
    assert all(c.text.startswith("## S") for c in found)
    assert all(c.text.count("## S") == c.text.count("says") / 2 for c in found)


def test_heading_without_content_opens_the_section_below_it():
    found = chunks("# A\n\n## B\n\ntext\n\n## Empty\n\n## C\n\nmore\n", 100)
    assert [(c.heading_path, c.text) for c in found] == [
        (("A", "B"), "# A\n\n## B\n\ntext"),
        (("A", "Empty"), "## Empty"),
        (("A", "C"), "## C\n\nmore"),
    ]


@pytest.mark.parametrize("target", [12, 20, 33])
def test_heading_stays_with_content(target):
    """No chunk is a heading alone while its section has text."""
    text = "# A heading of some length\n\n" + " ".join(sentence(i) for i in range(20)) + "\n"
    found = chunks(text, target)
    assert found[0].text.startswith("# A heading of some length\n\nSentence")
    assert all(c.tokens <= target for c in found)


def test_lead_in_stays_with_its_list():
    text = " ".join(sentence(i) for i in range(4)) + "\n\nThe steps are:\n\n- first one\n- second one\n- third one\n"
    found = chunks(text, 32)
    assert not any(c.text.endswith("The steps are:") for c in found)


def test_paragraphs_are_cut_at_sentences():
    text = " ".join(sentence(i) for i in range(30)) + "\n"
    found = chunks(text, 40)
    assert all(c.text.startswith("Sentence") and c.text.endswith("little.") for c in found)
    assert min(c.tokens for c in found[:-1]) > 28


def test_long_sentences_are_cut_at_words():
    text = "word " * 200
    found = chunks(text, 30)
    assert {w for c in found for w in c.text.split()} == {"word"}
    assert {c.tokens for c in found[:-1]} == {30}


def test_long_words_are_cut_at_graphemes():
    text = "é" * 500
    found = chunks("x " + text, 20)
    assert "".join(texts(found)).replace("x", "").replace(" ", "") == text
    assert not any(c.text.startswith("́") for c in found)


def test_lists_stay_whole_while_they_fit():
    items = "".join(f"- item {i}\n  with a second line\n" for i in range(6))
    text = " ".join(sentence(i) for i in range(5)) + "\n\n" + items
    found = chunks(text, 66)
    assert any(c.text == items.rstrip() for c in found)
    assert all(c.text.startswith("- item") for c in chunks(items, 25))


def test_code_is_cut_at_blank_lines():
    body = "".join(f"a{i} = {i}\nb{i} = {i}\n\n" for i in range(12))
    found = chunks("```\n" + body + "```\n", 30)
    assert all(c.text.startswith(("```", "a")) for c in found)


def test_row_above_the_budget_is_cut_and_named():
    """A row longer than the budget is divided; the rows beside it stay whole."""
    long = "| x | " + " ".join(f"w{i}" for i in range(100)) + " |"
    found = chunks("| a | b |\n|---|---|\n| short | one |\n" + long + "\n| short | two |\n", 40)
    assert all(c.tokens <= 40 for c in found)
    assert any("| short | two |" in c.text for c in found)
    assert all(c.prefix == "| a | b |\n|---|---|\n" for c in found[1:])


@pytest.mark.parametrize("target", [24, 48, 96])
@pytest.mark.parametrize("overlap", [4, 10, 20])
def test_overlap(target, overlap):
    """Each chunk of a section repeats at most `overlap` tokens, from a sentence's start, and adds something."""
    text = (
        "# H\n\n" + "\n\n".join(" ".join(sentence(10 * p + i) for i in range(5)) for p in range(6)) + "\n\n# I\n\nx\n"
    )
    found = chunks(text, target, overlap)
    shared = 0
    for before, after in pairwise(found):
        assert before.start < after.start
        assert before.end < after.end
        if after.start < before.end:
            shared += 1
            assert tokens.count(text[after.start : before.end]) <= overlap
            assert text[after.start - 1].isspace()
            assert after.text.startswith("Sentence") or overlap == 4
    assert found[-1].text == "# I\n\nx"
    assert shared


@pytest.mark.parametrize("respect", [True, False])
def test_overlap_never_cuts_rows_or_lines_of_code(respect):
    """What is repeated starts with a whole row or line, in tables and code."""
    rows = "".join(f"| k{i} | value {i} |\n" for i in range(20))
    code = "```\n" + "".join(f"call({i}, {i} + 1)\n" for i in range(20)) + "```\n"
    found = chunks("| a | b |\n|---|---|\n" + rows + "\n" + code, 60, 20, respect=respect)
    assert any(a.end > b.start for a, b in pairwise(found))
    assert all(c.text.startswith(("|", "call", "```")) for c in found)


def test_appended_sections_change_nothing_before():
    """Earlier chunks are a function of the text before; this is what keeps their ids across edits."""
    text = "# A\n\n" + "\n\n".join(" ".join(sentence(i) for i in range(9)) for _ in range(5)) + "\n"
    before = chunks(text, 60, 10)
    after = chunks(text + "\n\n# New\n\nmore text\n", 60, 10)
    assert after[: len(before)] == before


def test_document_without_text():
    assert chunks("<!-- gone -->\nx\n", 10)[0].text == "x"
