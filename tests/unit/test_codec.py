"""`pipeline.codec`: what comes out of the memo equals what went in."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.codec import (
    ChunkedDocument,
    decode_chunks,
    decode_sparse,
    decode_vectors,
    empty_sparse,
    encode_chunks,
    encode_sparse,
    encode_vectors,
    take_sparse,
)
from pipeline.types import Chunk, SourcePath, SparseVectors

texts = st.text(max_size=12)
floats = st.floats(width=32, min_value=np.float32(1e-6).item(), max_value=np.float32(1e6).item())
rows = st.dictionaries(st.integers(0, 2**32 - 1), floats, max_size=6)
spans = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))


@st.composite
def documents(draw: st.DrawFn) -> ChunkedDocument:
    heads = st.lists(texts, max_size=3).map(tuple)
    pages = st.tuples(st.integers(0, 9_999), st.integers(0, 9_999))
    made = draw(
        st.lists(st.tuples(texts, spans, st.integers(0, 9_999), heads, texts, pages, st.booleans()), max_size=6)
    )
    chunks = tuple(
        Chunk(text, start, end, index, count, path, prefix, page, oversize)
        for index, (text, (start, end), count, path, prefix, page, oversize) in enumerate(made)
    )
    value = (
        texts
        | st.integers()
        | st.booleans()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.lists(texts, max_size=2).map(tuple)
    )
    metadata = draw(st.lists(st.tuples(texts, value), max_size=4))
    warnings = tuple(draw(st.lists(texts, max_size=2)))
    inner = tuple(draw(st.lists(st.tuples(texts, st.just(ChunkedDocument("P", (), (), chunks, "csv"))), max_size=2)))
    return ChunkedDocument(draw(texts), tuple(metadata), warnings, chunks, draw(texts), inner)


def sparse(*given_rows: dict[int, float]) -> SparseVectors:
    lengths = np.array([0, *map(len, given_rows)], np.int64)
    entries = [entry for row in given_rows for entry in sorted(row.items())]
    return SparseVectors(
        np.cumsum(lengths), np.array([t for t, _ in entries], np.uint32), np.array([v for _, v in entries], np.float32)
    )


def same(a: SparseVectors, b: SparseVectors) -> bool:
    pairs = ((a.indptr, b.indptr), (a.indices, b.indices), (a.values, b.values))
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs)


@given(documents())
def test_chunks(document: ChunkedDocument) -> None:
    back = decode_chunks(encode_chunks(document))
    assert back == document
    assert [type(v) for _, v in back.metadata] == [type(v) for _, v in document.metadata]
    assert encode_chunks(back) == encode_chunks(document)


def test_chunks_with_a_lone_surrogate() -> None:
    """A text may hold what UTF-8 can't: a parser's escape sequence, or a file of such."""
    document = ChunkedDocument("\ud800", (), (), (Chunk("a\udfffb", 0, 3, 0, 1),))
    assert decode_chunks(encode_chunks(document)) == document


def test_facts_are_those_of_the_path() -> None:
    part = ChunkedDocument("I", (), ("odd",), ())
    document = ChunkedDocument("T", (("a", 1),), ("own",), (), "eml", (("in.csv", part),))
    (facts, _), (inner, _) = document.each(SourcePath("p"))
    assert (facts.path, facts.title, facts.metadata, facts.format, facts.part) == ("p", "T", (("a", 1),), "eml", "")
    assert (inner.path, inner.title, inner.part) == ("p", "I", "in.csv")
    assert document.all_warnings() == ("own", "in.csv: odd")


@given(st.lists(rows, max_size=5))
def test_sparse_vectors(given_rows: list[dict[int, float]]) -> None:
    vectors = sparse(*given_rows)
    assert same(decode_sparse(encode_sparse(vectors)), vectors)
    assert len(vectors) == len(given_rows)


@given(st.lists(rows, max_size=6), st.data())
def test_taking_a_slice(given_rows: list[dict[int, float]], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(given_rows)))
    stop = data.draw(st.integers(start, len(given_rows)))
    assert same(take_sparse(sparse(*given_rows), start, stop), sparse(*given_rows[start:stop]))


def test_batches_without_a_term() -> None:
    assert same(empty_sparse(3), sparse({}, {}, {}))
    assert same(decode_sparse(encode_sparse(empty_sparse(0))), empty_sparse(0))


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3), max_size=4))
def test_dense_vectors(given_rows: list[list[float]]) -> None:
    vectors = np.array(given_rows, np.float32).reshape(len(given_rows), 3)
    back = decode_vectors(encode_vectors(vectors), 3)
    assert back.dtype == np.float32
    assert back.flags.c_contiguous
    assert np.array_equal(back, vectors)
