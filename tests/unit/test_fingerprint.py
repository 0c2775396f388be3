"""`pipeline.fingerprint`: ids and encodings that no two different things share."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.fingerprint import (
    canonical_json,
    chunk_logical_id,
    content_hash,
    decode_path,
    encode_path,
    fingerprint,
    record_id,
    restamp,
    source_uid,
    text_hash,
)
from pipeline.types import ContextSlug, SourcePath

names = st.binary(max_size=24) | st.text(max_size=12).map(lambda t: t.encode("utf-8", "ignore")) | st.lists(
    st.sampled_from([b"%", b"%4", b"%41", b"%25", b"%FF", b"%ff", b"\xff", b"\xc3", b"\xc3\xa9", b"\xed\xb2\x80", b"A", b"/", b"\n", b" "])
).map(b"".join)  # fmt: skip
parts = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)


@given(names)
@example(b"\xed\xb2\x80")  # what UTF-8 would make of the very character that stands for a raw byte 0x80
@example(b"%\xff41")
def test_a_path_comes_back_byte_for_byte(raw: bytes) -> None:
    path = encode_path(raw)
    path.encode("utf-8")  # valid, whatever the name was
    assert decode_path(path) == raw


@given(names, names)
def test_two_names_never_share_a_path(a: bytes, b: bytes) -> None:
    assert (encode_path(a) == encode_path(b)) == (a == b)


@given(names)
def test_names_in_utf8_without_a_percent_sign_are_left_as_they_are(raw: bytes) -> None:
    try:
        plain = raw.decode("utf-8")
    except UnicodeDecodeError:
        return
    if "%" not in plain:
        assert encode_path(raw) == plain


@given(names, names)
def test_encoding_goes_part_by_part(a: bytes, b: bytes) -> None:
    """A tree's walk sorts names, and the ledger sorts paths: both must mean the same."""
    assert encode_path(a + b"/" + b) == encode_path(a) + "/" + encode_path(b)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"a b", "a b"),
        (b"caf\xe9", "caf%E9"),
        (b"%41", "%2541"),
        (b"100%", "100%"),
        (b"%4", "%4"),
        (b"%e9", "%e9"),
        (b"%25", "%2525"),
    ],
)
def test_paths_are_written_like_this_for_ever(raw: bytes, path: str) -> None:
    assert encode_path(raw) == path


@given(st.lists(parts, max_size=4), st.lists(parts, max_size=4))
@example(["ab", "c"], ["a", "bc"])
@example([1], ["1"])
@example([True], [1])
@example([None], ["None"])
@example([b"a"], ["a"])
@example([], [""])
def test_fingerprints_are_equal_exactly_when_the_parts_are(a: list[object], b: list[object]) -> None:
    same = [(type(x), x) for x in a] == [(type(x), x) for x in b]
    assert (fingerprint(*a) == fingerprint(*b)) == same  # type: ignore[arg-type]


def test_fingerprints_never_change() -> None:
    assert (
        fingerprint("stage", 1, None, True, b"\xff")
        == "f541c494e0ade752210c26797bd8f2e44f0367f44163c126b62489dab8a0f50f"
    )
    assert (
        chunk_logical_id(ContextSlug("c"), SourcePath("p"), text_hash("t"), 0) == "4de41db1-a6a7-58fe-8379-281d886b7553"
    )
    assert source_uid(SourcePath("p")) == fingerprint("source", "p")[:32]


def test_hashes_are_sha256() -> None:
    assert content_hash(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert text_hash("é") == content_hash("é".encode())


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.lists(st.booleans(), max_size=2)))
def test_canonical_json_is_one_text_for_one_value(value: dict[str, object]) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(dict(reversed(value.items()))) == text


def test_canonical_json_refuses_what_json_has_no_word_for() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json(math.nan)


@given(st.text(max_size=200), st.integers(0, 10**6), st.integers(1, 2**53))
def test_record_ids_are_short_ascii_and_restamped_by_version_alone(path: str, ordinal: int, added: int) -> None:
    path = path.encode("utf-8", "ignore").decode()
    record = record_id(SourcePath(path), text_hash("t"), ordinal, added)
    assert record.isascii()
    assert len(record) <= 512
    assert restamp(record, 7) == record_id(SourcePath(path), text_hash("t"), ordinal, 7)
    assert restamp(record, added) == record
