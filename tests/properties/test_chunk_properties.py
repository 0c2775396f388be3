"""What holds for every text, every strategy and every size."""

import re
from itertools import pairwise

import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import tokens
from pipeline.chunk import CHUNKERS, ChunkOptions, chunk_document
from pipeline.chunk.cuts import Graphemes
from pipeline.chunk.measure import Measure
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

PIECES = (
    "# Heading\n", "## Sub ##\n", "\n", "\n\n", "   ", "\t", "word ", "Sentence here. ", "it's ", "don'T", "1234567", ".",
    "!?\n", "...\n\n", ")", "- item\n", "  nested\n", "1. one\n", "| a | b |\n", "|---|---|\n", "| 1 | 2 |\n", "```\n",
    "    code\n", "> quote\n", "<div>\n", "é", "é", "工程报告", "。", "\U0001f469\U0001f3fd‍\U0001f692", "🇩🇪", "각",
    "각", "\x0b", "\x1c", "\x85", "\u00a0", "\u2028", "\u3000", "<|endoftext|>", "x" * 30, "=" * 20, "\\", '"', "…", "٣",
    "a\u0300\u0301", "\u0600", "ﬁ", "$", "_", "-- ", "'s",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
anything = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=80)
documents = st.one_of(texts, anything)
names = st.sampled_from(("a.md", "a.txt", "a.html", "a.csv", "a.py", "a.go"))
options = st.builds(
    lambda target, overlap, respect: ChunkOptions(target, min(overlap, target - 1), respect),
    st.integers(1, 60), st.integers(0, 59), st.booleans(),
)  # fmt: skip
relaxed = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@relaxed
@given(texts)
def test_counts_add_up_at_starts_of_lines(text):
    """The rule that saves encoding: a cut before a line that isn't blank is a token boundary, and counts add up."""
    for match in re.finditer(r"(?<=\n)(?=[^\n]*\S)", text):
        assert tokens.count(text[: match.start()]) + tokens.count(text[match.start() :]) == tokens.count(text)


@relaxed
@given(documents, st.data())
def test_measure_is_exact(text, data):
    """`Measure.count` is what encoding the span alone would give, wherever it starts and ends."""
    measure = Measure(text)
    for _ in range(6):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        assert measure.count(start, end) == tokens.count(text[start:end])
    line_starts = [0, *(m.end() for m in re.finditer("\n", text))]
    for start in line_starts:
        for end in (m.end() for m in re.finditer(r"\S(?=\s|$)", text[start:])):
            assert measure.count(start, start + end) == tokens.count(text[start : start + end])


@relaxed
@given(documents)
def test_graphemes_are_those_of_the_whole_text(text):
    """Boundaries worked out line by line are those of the whole text."""
    whole = {m.start() for m in regex.finditer(r"\X", text)} | {len(text)}
    graphemes = Graphemes(text)
    assert {at for at in range(len(text) + 1) if graphemes.is_boundary(at)} == whole
    for at in sorted(whole - {len(text)}):
        assert graphemes.next(at) == min(b for b in whole if b > at)


@relaxed
@given(documents, names, st.sampled_from(tuple(CHUNKERS)), options)
def test_chunks(text, name, strategy, chosen):
    """Spans are exact, everything is covered, nothing is over budget or torn, and starts rise."""
    try:
        document = parse_bytes(text.encode(), name)
    except RejectedInput as error:
        assert error.code in {"empty_file", "undecodable", "unsupported"}  # noqa: PT017
        return
    found = chunk_document(document, strategy, chosen)
    assert found == chunk_document(document, strategy, chosen)
    whole = {m.start() for m in regex.finditer(r"\X", document.text)} | {len(document.text)}
    covered = set()
    for i, c in enumerate(found):
        assert c.index == i
        assert document.text[c.start : c.end] == c.text
        assert c.text.strip()
        assert c.tokens == tokens.count(c.prefix + c.text)
        assert {c.start, c.end} <= whole
        if c.tokens > chosen.target_size:
            assert c.oversize
            assert len(regex.findall(r"\X", c.text.strip())) == 1
        covered.update(range(c.start, c.end))
    assert all(ch.isspace() or at in covered for at, ch in enumerate(document.text))
    for before, after in pairwise(found):
        assert before.start < after.start
        assert before.end < after.end
        if not chosen.overlap:
            assert before.end <= after.start
    if chosen.respect_sections and strategy != "sliding_window" and document.kind == "markdown":
        for c in found:
            inside = [b for b in document.blocks if b.kind == "heading" and c.start < b.start < c.end]
            # Only headings without content of their own stand before another one.
            for heading in inside:
                before = [b for b in document.blocks if c.start <= b.start < heading.start]
                assert all(b.kind == "heading" for b in before)


@relaxed
@given(texts, texts, options)
def test_appending_a_section_keeps_what_was_there(text, more, chosen):
    """Chunks of a text stay as they are when a section of the same or a higher level is added after it."""
    separate = ChunkOptions(chosen.target_size, chosen.overlap)
    fence_open = text.count("```") or "<" in text  # an open fence or block would take the heading in
    if fence_open or not text.strip():
        return
    before = chunk_document(parse_bytes(b"# Top\n\nlead\n\n" + text.encode(), "a.md"), "markdown_heading", separate)
    longer = f"# Top\n\nlead\n\n{text}\n\n# Added\n\n{more}\n"
    after = chunk_document(parse_bytes(longer.encode(), "a.md"), "markdown_heading", separate)
    assert after[: len(before)] == before
