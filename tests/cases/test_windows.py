"""O-06 to O-09: windows of tokens. Progress, control-token spellings, offsets, joined characters."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from trouble import (
    STRATEGIES,
    Parsed,
    Passage,
    check_cap,
    check_clean,
    check_cover,
    check_slice,
    chunk,
    count,
    deployment,
    parse,
    sized,
)

from manifests import ManifestError
from pipeline.chunk import ChunkOptions
from pipeline.chunk.sliding_window import windows
from pipeline.errors import RejectedInput

NAME_OF = {"markdown_heading": "t.md", "sliding_window": "t.txt", "html": "t.html", "csv": "t.csv", "code": "t.py"}
"""Each strategy's own format."""

# O-06

BAD = [(10, 10), (10, 11), (0, 0), (-5, 0), (10, -1)]
SHORT_LINES = "ab\n" * 200
WORDS = " ".join(f"w{i}" for i in range(103))


def check_names_both(message: str, target: int, overlap: int) -> None:
    assert "target_size" in message
    assert "overlap" in message
    for value in (target, overlap):
        assert re.search(rf"(?<![\d-]){value}(?!\d)", message), (value, message)


@pytest.mark.parametrize(("target", "overlap"), BAD)
def test_o06_a_run_with_bad_sizes_reads_nothing(target: int, overlap: int) -> None:
    """O-06.1, for a whole run."""
    with deployment({"a.md": "text\n"}) as made:
        with pytest.raises((RejectedInput, ManifestError)) as error:
            made.run(sized(target, overlap, "sliding_window"))
        assert not made.tree.reads
        assert not made.parser.calls
    check_names_both(str(error.value), target, overlap)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("target", "overlap"), BAD)
def test_o06_bad_sizes_are_refused_by_every_strategy(target: int, overlap: int, strategy: str) -> None:
    """O-06.1, for a single document."""
    with pytest.raises(RejectedInput) as error:
        chunk(parse("text\n", "a.txt"), strategy, target, overlap)
    check_names_both(error.value.message, target, overlap)


def test_o06_a_step_of_one_token_ends() -> None:
    """O-06.2."""
    doc = parse(SHORT_LINES, "t.txt")
    began = time.perf_counter()
    found = chunk(doc, "sliding_window", 50, 49)
    assert time.perf_counter() - began < 2
    assert all(a.start < b.start for a, b in pairwise(found))
    assert len(found) <= count(SHORT_LINES)


@pytest.mark.parametrize("word", [r"\S+", r"\s*\S+"], ids=["word", "blank-and-word"])
def test_o06_exact_windows(word: str) -> None:
    """O-06.3."""
    starts = [match.start() for match in re.finditer(word, WORDS)]
    found = windows(WORDS, starts, ChunkOptions(10, 3), lambda a, b: len(WORDS[a:b].split()))
    assert len(found) == 15
    assert found[-1][1] == len(WORDS)
    assert not [1 for a, b in pairwise(found) if a[0] <= b[0] and b[1] <= a[1]]
    assert len(set(found)) == 15


@pytest.mark.parametrize(("target", "overlap"), [(64, 64), (64, 65), (100, 1024), (1000, 1024)])
def test_o06_kind_bad_sizes_within_the_limits_of_each(target: int, overlap: int) -> None:
    """O-06.1, of the kind: each number may stand alone, together they can't."""
    with deployment({"a.md": "text\n"}) as made:
        with pytest.raises((RejectedInput, ManifestError)) as error:
            made.run(sized(target, overlap))
        assert not made.tree.reads
    check_names_both(str(error.value), target, overlap)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        SHORT_LINES,
        "ab " * 200,
        "\n" * 200 + "ab",
        "工" * 200,
        "é" * 200,
        "x" * 2000,
        "|a|b|\n|-|-|\n" + "|c|d|\n" * 100,
    ],
    ids=["lines", "words", "blanks", "chinese", "accents", "one-word", "table"],
)
def test_o06_kind_largest_overlap_in_every_strategy(text: str, strategy: str) -> None:
    """O-06.2, of the kind: every strategy, and texts with nothing to cut at."""
    doc = parse(text, NAME_OF[strategy])
    began = time.perf_counter()
    found = chunk(doc, strategy, 50, 49)
    assert time.perf_counter() - began < 2
    assert all(a.start < b.start and a.end < b.end for a, b in pairwise(found))
    assert len(found) <= count(doc.text)
    check_cover(doc, found)


# O-07

CONTROL = "The marker <|endoftext|> ends a sample; <|im_start|>system<|im_end|> and <|fim_prefix|> are markup.\n" * 30


def _csv() -> str:
    return "id,text\n" + "".join(f"{i},{line}\n" for i, line in enumerate(CONTROL.splitlines()))


def _html() -> str:
    escaped = CONTROL.replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"<p>{line}</p>" for line in escaped.splitlines())


def _code() -> str:
    return "".join(f"# {line}\n" for line in CONTROL.splitlines())


def _mail() -> str:
    return f"From: a@x.test\r\nTo: b@x.test\r\nSubject: markers\r\n\r\n{CONTROL}"


def check_control(doc: Parsed, strategy: str) -> None:
    found = chunk(doc, strategy, 64, 0)
    check_slice(doc, found)
    check_cover(doc, found)
    check_cap(found, 64)
    assert "".join(c.text for c in found).count("<|endoftext|>") == 30


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["t.txt", "t.md"])
def test_o07_control_tokens_are_text(name: str, strategy: str) -> None:
    """O-07.1, O-07.2."""
    check_control(parse(CONTROL, name), strategy)


def test_o07_control_tokens_are_counted_as_text() -> None:
    """O-07.3."""
    assert count("<|endoftext|>") > 1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        (_csv(), "t.csv"),
        (_html(), "t.html"),
        (_code(), "t.py"),
        (_mail(), "t.eml"),
        (CONTROL.replace("\n", " "), "t.md"),
    ],
    ids=["csv", "html", "code", "mail", "one-line"],
)
def test_o07_kind_control_tokens_in_other_formats(text: str, name: str, strategy: str) -> None:
    """O-07.1, O-07.2, of the kind: CSV, HTML, code, mail, and one line that is too long."""
    check_control(parse(text, name), strategy)


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<|fim_middle|>", "<|endofprompt|>", "<|im_start|>", "<s>", "[CLS]"])
def test_o07_kind_every_spelling_is_text(mark: str) -> None:
    """O-07.3, of the kind; and a whole run with nothing but such marks in headings, metadata and text."""
    assert count(mark) > 1
    with deployment({"a.md": f"---\ntitle: {mark}\n---\n# {mark}\n\nsaid {mark} here\n"}) as made:
        assert list(made.run().done) == ["a.md"]
        assert mark in made.live.texts[0]


# O-08

UNIT = "alpha beta.\n"
REPEATS = UNIT * 40 + "omega\n" + UNIT * 40


def check_repeats(doc: Parsed, found: list[Passage], words: str = "omega") -> None:
    check_slice(doc, found)
    assert all(a.start < b.start for a, b in pairwise(found))
    assert all(c.start >= 0 for c in found)
    holding = [c for c in found if words in c.text]
    assert holding
    assert all(c.start <= doc.text.index(words) < c.end for c in holding)


def test_o08_offsets_are_places() -> None:
    """O-08.1, O-08.2."""
    doc = parse(REPEATS, "t.txt")
    assert doc.text == REPEATS
    check_repeats(doc, chunk(doc, "sliding_window", 12, 4))


def test_o08_line_numbers_if_there_are_any() -> None:
    """O-08.3: whatever a record says of lines is right; its offsets are."""
    with deployment({"t.txt": REPEATS}) as made:
        made.run(sized(64, 16, "sliding_window"))
        assert len(made.live.ids) > 1
        for meta in made.live.metadata():
            start, end = meta["start_index"], meta["end_index"]
            assert isinstance(start, int)
            assert isinstance(end, int)
            assert REPEATS[start:end] == meta["text"]
            line = REPEATS.count("\n", 0, start) + 1
            assert all(value == line for key, value in meta.items() if re.search(r"line", key) and "last" not in key)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("overlap", [0, 4, 11])
def test_o08_kind_every_strategy(strategy: str, overlap: int) -> None:
    """O-08.1, O-08.2, of the kind: every strategy over its own format, with no, some and the largest overlap."""
    text = {"html": REPEATS.replace("\n", "<br>"), "code": REPEATS.replace("alpha beta.", "alpha = beta")}
    doc = parse(text.get(strategy, REPEATS), NAME_OF[strategy])
    found = chunk(doc, strategy, 12, overlap)
    check_repeats(doc, found)
    check_cover(doc, found)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("overlap", [0, 8])
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("key,note\n" + "a,same row\n" * 40 + "b,omega\n" + "a,same row\n" * 40, "t.csv"),
        ("| key | note |\n| --- | --- |\n" + "| a | same row |\n" * 40 + "| b | omega |\n" + "| a | same row |\n" * 40, "t.md"),
        ("<table><tr><th>key</th><th>note</th></tr>" + "<tr><td>a</td><td>same row</td></tr>" * 40
         + "<tr><td>b</td><td>omega</td></tr>" + "<tr><td>a</td><td>same row</td></tr>" * 40 + "</table>", "t.html"),
    ],
    ids=["csv", "markdown", "html"],
)  # fmt: skip
def test_o08_kind_repeated_rows_under_a_repeated_header(text: str, name: str, overlap: int, strategy: str) -> None:
    """O-08.1, O-08.2, of the kind: a header in front of each chunk doesn't shift the offsets."""
    doc = parse(text, name)
    found = chunk(doc, strategy, 32, overlap)
    assert any(c.prefix for c in found)
    check_repeats(doc, found)
    check_cover(doc, found)
    check_cap(found, 32)


# O-09

CREW = "\U0001f469\U0001f3fd\u200d\U0001f692"
JOINED = ("工程" + CREW + "报告") * 60


def alone(cluster: str) -> Callable[[Passage], bool]:
    """What the case excepts from CAP: a chunk of nothing but one cluster that is over the target itself."""
    return lambda c: c.text.strip() == cluster


def test_o09_nothing_is_broken() -> None:
    """O-09.1, O-09.2."""
    doc = parse(JOINED, "t.txt")
    found = chunk(doc, "sliding_window", 16, 4)
    check_clean(doc, found)
    check_slice(doc, found)
    check_cover(doc, found)
    for c in found:
        assert c.text[0] not in "\U0001f3fd\u200d\U0001f692"
        assert c.text[-1] != "\u200d"


def test_o09_without_overlap_the_chunks_are_the_text() -> None:
    """O-09.3."""
    found = chunk(parse(JOINED, "t.txt"), "sliding_window", 16, 0)
    assert "".join(c.text for c in found) == JOINED
    assert sum(c.text.count(CREW) for c in found) == 60


@pytest.mark.parametrize("overlap", [0, 4])
@pytest.mark.parametrize("target", [16, 5])
def test_o09_the_target_holds(target: int, overlap: int) -> None:
    """O-09.4; at 5 a single crew is over the target."""
    found = chunk(parse(JOINED, "t.txt"), "sliding_window", target, overlap)
    check_cap(found, target, but=lambda c: c.text == CREW and count(CREW) > target)


CLUSTERS = {
    "flag": "\U0001f1e9\U0001f1ea",
    "pirate": "\U0001f3f4\u200d\u2620\ufe0f",
    "scotland": "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "family": "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "keycap": "1\ufe0f\u20e3",
    "hangul-jamo": "\u1112\u1161\u11ab",
    "devanagari": "क्षि",
    "tamil": "நி",
    "thai": "กำ",
    "accents": "e\u0301\u0323",
    "arabic-marks": "ب\u0651\u064e",
}


@pytest.mark.parametrize("overlap", [0, 4])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_o09_kind_clusters_of_other_scripts(cluster: str, strategy: str, overlap: int) -> None:
    """O-09.1 to O-09.4, of the kind: flags, keycaps, Hangul, Devanagari, marks; overlap in every strategy."""
    text = ("工程" + cluster + "报告") * 60
    doc = parse(text, "t.txt")
    found = chunk(doc, strategy, 16, overlap)
    check_clean(doc, found)
    check_slice(doc, found)
    check_cover(doc, found)
    check_cap(found, 16, but=lambda c: c.text == cluster and count(cluster) > 16)
    inner = {at + k for at in range(2, len(text), 4 + len(cluster)) for k in range(1, len(cluster))}
    assert not [c for c in found if c.start in inner or c.end in inner]
    if not overlap:
        assert "".join(c.text for c in found) == text
        assert sum(c.text.count(cluster) for c in found) == 60


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("name", ["t.csv", "t.html", "t.py", "t.ipynb"])
def test_o09_kind_clusters_in_other_formats(name: str, cluster: str) -> None:
    """O-09.1, O-09.2, O-09.4, of the kind: the same text as a record, a page, a string of code, a notebook."""
    line = ("工程" + cluster + "报告") * 60
    cell = {"cell_type": "markdown", "metadata": {}, "source": line}
    text = {
        "t.csv": f"id,note\n1,{line}\n",
        "t.html": f"<p>{line}</p>",
        "t.py": f'x = "{line}"\n',
        "t.ipynb": json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}),
    }[name]
    doc = parse(text, name)
    for strategy in ("markdown_heading", "sliding_window"):
        found = chunk(doc, strategy, 24, 4)
        check_clean(doc, found)
        check_slice(doc, found)
        check_cover(doc, found)
        check_cap(found, 24, but=alone(cluster))
        at = doc.text.index(line)
        inner = {at + k + i for k in range(2, len(line), 4 + len(cluster)) for i in range(1, len(cluster))}
        assert not [c for c in found if c.start in inner or c.end in inner]
