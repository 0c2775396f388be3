"""Windows: exact size and step, progress, positions, whole characters."""

import re
from itertools import pairwise

import pytest

from pipeline import tokens
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.chunk.sliding_window import windows
from pipeline.errors import RejectedInput
from pipeline.parse import parse_bytes

CREW = "\U0001f469\U0001f3fd‍\U0001f692"


def document(text):
    return parse_bytes(text.encode(), "t.txt")


def chunks(text, target, overlap):
    return chunk_document(document(text), "sliding_window", ChunkOptions(target, overlap))


@pytest.mark.parametrize(("target", "overlap"), [(10, 10), (10, 11), (0, 0), (-5, 0), (10, -1)])
def test_sizes_that_cannot_progress_are_refused(target, overlap):
    """O-06.1: the message names both settings and their values, for every strategy."""
    for strategy in ("sliding_window", "markdown_heading"):
        with pytest.raises(RejectedInput) as error:
            chunk_document(document("x"), strategy, ChunkOptions(target, overlap))
        assert f"target_size={target}" in error.value.message
        assert f"overlap={overlap}" in error.value.message


def test_largest_overlap_progresses():
    """O-06.2: a step of one token still moves every window."""
    text = "ab\n" * 200
    found = chunks(text, 50, 49)
    assert len(found) <= tokens.count(text)
    assert all(a.start < b.start for a, b in pairwise(found))


def test_exact_number_of_windows():
    """O-06.3: 103 words, 10 a window, 3 repeated: 15 windows, the last one short, none inside another."""
    words = " ".join(f"w{i}" for i in range(103))
    starts = [m.start() for m in re.finditer(r"\s*\S+", words)]
    found = windows(words, starts, ChunkOptions(10, 3), lambda a, b: len(words[a:b].split()))
    assert len(found) == 15
    assert found[-1][1] == len(words)
    assert all(b[1] > a[1] for a, b in pairwise(found))
    assert len(set(found)) == 15
    assert [len(words[a:b].split()) for a, b in found[:-1]] == [10] * 14


@pytest.mark.parametrize("strategy", ["sliding_window", "markdown_heading", "html", "csv", "code"])
def test_control_tokens_are_text(strategy):
    """O-07: nothing raises, nothing is lost, and the budget holds."""
    text = "The marker <|endoftext|> ends a sample; <|im_start|>system<|im_end|> and <|fim_prefix|> are markup.\n" * 30
    found = chunk_document(document(text), strategy, ChunkOptions(64))
    assert "".join(c.text for c in found).count("<|endoftext|>") == 30
    for c in found:
        assert c.tokens == tokens.count(c.prefix + c.text) <= 64


def test_offsets_where_the_text_repeats():
    """O-08: positions are kept, never searched for."""
    unit = "alpha beta.\n"
    text = unit * 40 + "omega\n" + unit * 40
    found = chunks(text, 12, 4)
    assert all(text[c.start : c.end] == c.text for c in found)
    assert all(0 <= a.start < b.start for a, b in pairwise(found))
    holding = [c for c in found if "omega" in c.text]
    assert holding
    assert all(c.start <= text.index("omega") < c.end for c in holding)


@pytest.mark.parametrize("strategy", ["sliding_window", "markdown_heading"])
@pytest.mark.parametrize("overlap", [0, 4])
def test_joined_characters(strategy, overlap):
    """O-09: no window starts or ends inside a cluster, and without overlap the windows are the text."""
    text = ("工程" + CREW + "报告") * 60
    found = chunk_document(document(text), strategy, ChunkOptions(16, overlap))
    for c in found:
        assert c.text[0] not in "\U0001f3fd‍\U0001f692"
        assert c.text[-1] != "‍"
        assert text[c.start : c.end] == c.text
        assert c.tokens == tokens.count(c.text)
        assert c.tokens <= 16 or (c.text == CREW and c.oversize)
    if not overlap:
        assert "".join(c.text for c in found) == text
        assert sum(c.text.count(CREW) for c in found) == 60


@pytest.mark.parametrize("strategy", ["sliding_window", "markdown_heading"])
def test_cluster_above_the_budget(strategy):
    """A cluster longer than the budget stays whole, alone, and says so."""
    found = chunk_document(document("ab " + CREW + " cd"), strategy, ChunkOptions(3))
    assert [c.text.strip() for c in found if c.oversize] == [CREW]
    assert "".join(c.text for c in found).replace(" ", "") == "ab" + CREW + "cd"


def test_white_space_is_no_chunk():
    found = chunks("a" + "\n" * 400 + " \n" * 200 + "b", 4, 0)
    assert all(c.text.strip() for c in found)
    assert [c.index for c in found] == list(range(len(found)))


def test_code_fences_are_text_like_any_other():
    """Only what gives cells their meaning is repeated in front of a window."""
    text = "```python\n" + "".join(f"value_{i} = {i}\n" for i in range(60)) + "```\n"
    document = parse_bytes(text.encode(), "a.md")
    windows = chunk_document(document, "sliding_window", ChunkOptions(40))
    assert len(windows) > 3
    assert not any(c.prefix for c in windows)
    assert all(c.prefix == "```python\n" for c in chunk_document(document, "markdown_heading", ChunkOptions(40))[1:])
