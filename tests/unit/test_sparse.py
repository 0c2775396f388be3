"""The sparse encoder: terms, weights, determinism. A golden vector fails when output moves and VERSION does not."""

from __future__ import annotations

import math

import mmh3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.embed.sparse import (
    AVERAGE_LENGTH,
    ENCODER_IDENTITY,
    K1,
    TERMS_MAX,
    VERSION,
    B,
    SparseEncoder,
    encode,
    idf,
    query_terms,
    query_weights,
)

TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["the", "filters", "parseFilter", "snake_case", "3.11", "中文搜索", "ไทย", "한국어", "naïve", "PDFs", "हिन्दी"]
    ),
    max_size=12,
).map(" ".join)


def words(*expected):
    return {mmh3.hash(word, 0, signed=False) for word in expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("the of and", ()),
        ("don't", ()),
        ("Filters filtering", ("filter",)),
        ("parseFilter", ("parsefilt", "pars", "filter")),
        ("HTTPServer", ("httpserver", "http", "server")),
        ("snake_case_name", ("snake_case_name", "snake", "case", "name")),
        ("__init__", ("init",)),
        ("PDFs", ("pdfs",)),
        ("Python 3.11.", ("python", "3.11", "3", "11")),
        ("中文测试", ("中文", "文测", "测试")),
        ("中", ("中",)),
        ("用Python写", ("用", "python", "写")),
        ("\uff26\uff55\uff4c\uff4c", ("full",)),
        ("STRASSE straße", ("strass", "strasse")),
        ("हिन्दी", ("हिन्दी",)),
        ("!?… —", ()),
        ("C++ and C#", ("c++", "c", "c#")),
        ("C++17", ("c++", "c", "17")),
        ("C", ("c",)),
        ("F# notepad++.", ("f#", "f", "notepad++", "notepad")),
        ("# Title", ("titl",)),
        ("page.html#top", ("page", "html", "top")),
        (".NET on .gitignore", (".net", "net", ".gitignore", "gitignor")),
        ("Ende.Punkt", ("end", "punkt")),
        ("wait ... .5", ("wait", "5")),
        ("ASP.NET, use\u00a0.NET or «.NET»", ("asp", "net", ".net", "use")),
        ("repo/.env ../x foo().bar", ("repo", ".env", "env", "x", "foo", "bar")),
        ("AT&T's R&D", ("at&t", "r&d", "r")),
        ("A/B I/O his/her a/b/c", ("a/b", "b", "i/o", "o", "c")),
        ("用C++写 C#で", ("c++", "c", "用", "写", "c#", "で")),
        ("\uff23\uff0b\uff0b", ("c++", "c")),
        ("a@example.com src/app/main.py node.js", ("exampl", "com", "src", "app", "main", "py", "node", "js")),
        ("x" * 80 + "++", ("x" * 80,)),
    ],
)
def test_terms(text, expected):
    assert set(query_terms(text)) == words(*expected)


def test_options_change_terms_and_identity():
    plain = SparseEncoder(stop_words=False, stem=False)
    assert set(plain.query_terms("the filters")) == words("the", "filters")
    assert len({plain.identity, ENCODER_IDENTITY, SparseEncoder(stem=False).identity}) == 3
    assert f"average={AVERAGE_LENGTH}" in ENCODER_IDENTITY


def test_weights_are_saturated_and_normalised_by_length():
    """The stated formula, with a length that counts every term of the text."""
    vector = encode(["alpha alpha beta"])
    norm = K1 * (1 - B + B * 3 / AVERAGE_LENGTH)
    got = dict(zip(*(part.tolist() for part in vector.row(0)), strict=True))
    assert got[mmh3.hash("alpha", 0, signed=False)] == pytest.approx(2 / (2 + norm), abs=1e-6)
    assert got[mmh3.hash("beta", 0, signed=False)] == pytest.approx(1 / (1 + norm), abs=1e-6)


def test_golden():
    """Raise VERSION with any change here: stored vectors are compared only under the same identity."""
    vector = encode(["Filters parse the snake_case names of 中文 3.11"])
    assert VERSION == 4
    assert vector.indices.tolist() == GOLDEN_INDICES
    assert len(set(vector.values.tolist())) == 1
    assert vector.values[0] == pytest.approx(1 / (1 + 1.2 * (0.25 + 0.75 * 10 / 200)), abs=1e-6)


GOLDEN_INDICES = [
    152045330,
    264741300,
    580887246,
    823134346,
    1918355773,
    2560416690,
    3441048000,
    3565562061,
    3676729751,
    3685696496,
]


@given(texts=st.lists(TEXTS, max_size=6))
def test_rows_don_t_depend_on_the_batch(texts):
    """Indices rise without repeats, values lie in (0, 1), and each row is what the text gives alone."""
    batch = encode(texts)
    assert len(batch) == len(texts)
    assert (batch.indptr.dtype, batch.indices.dtype, batch.values.dtype) == (np.int64, np.uint32, np.float32)
    for position, text in enumerate(texts):
        indices, values = batch.row(position)
        alone, weights = SparseEncoder().encode([text]).row(0)
        assert indices.tolist() == alone.tolist() == sorted(set(indices.tolist()))
        assert values.tolist() == weights.tolist()
        assert ((values > 0) & (values < 1)).all()
        assert set(query_terms(text)) == set(indices.tolist())


def test_more_texts_than_one_pass_holds():
    batch = encode([f"word{i} common" for i in range(3_000)])
    assert np.diff(batch.indptr).tolist() == [2] * 3_000


def test_query_counts_repeats():
    assert query_terms("alpha beta alpha") == {
        mmh3.hash("alpha", 0, signed=False): 2.0,
        mmh3.hash("beta", 0, signed=False): 1.0,
    }


def test_idf_falls_with_frequency_and_stays_positive_and_finite():
    weights = idf(10, {1: 0, 2: 1, 3: 9, 4: 10, 5: 12, 6: -1})
    assert weights[2] == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert weights[1] == weights[6] > weights[2] > weights[3] > weights[4] == weights[5] > 0


def test_query_weights_drop_terms_that_no_record_holds():
    weights = query_weights({1: 2.0, 2: 1.0, 3: 1.0}, doc_count=10, term_counts={1: 1, 2: 1, 3: 0, 9: 4})
    assert set(weights) == {1, 2}
    assert weights[1] == pytest.approx(2 * weights[2])


def test_a_record_holds_the_heaviest_terms_alone():
    """The rule of every index, whatever it could hold; texts beside it in the batch are untouched."""
    words = [f"q{n}z" for n in range(3000)]
    long = " ".join([*words, *words[:100]])
    whole = SparseEncoder(stem=False)
    out = whole.encode(["short text", long, "another one"])
    assert np.diff(out.indptr).tolist()[1] == TERMS_MAX
    row = out.indices[out.indptr[1] : out.indptr[2]]
    weights = out.values[out.indptr[1] : out.indptr[2]]
    assert (np.diff(row.astype(np.int64)) > 0).all()
    twice = {term for word in words[:100] for term in whole.query_terms(word)}
    assert twice <= set(row.tolist()), "what is said twice stays"
    once = sorted(term for word in words[100:] for term in whole.query_terms(word))
    assert sorted(set(row.tolist()) - twice) == once[: TERMS_MAX - len(twice)], "ties go to the lower term"
    assert weights.min() > 0
    alone = whole.encode(["another one"])
    assert out.indices[out.indptr[2] :].tolist() == alone.indices.tolist()
