"""Metadata is flat, of one type a field, and says the same thing under the same name whatever the format."""

import copy
import datetime as dt
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.adapters.index_memory import MemoryIndex
from pipeline.parse import parse_bytes, wire
from pipeline.parse.metadata import ENTRIES_MAX, VALUE_CHARS_MAX, describe, epoch, flat, iso_moment
from pipeline.types import Namespace, ParsedDocument, RecordBatch, RecordId, SparseVectors

UTC = dt.UTC
META = {
    "title": "Pump", "author": None, "tags": ["a", None, "b"], "pages": [1, 2], "geo": {"lat": 1.5, "lon": None},
    "none": {}, "when": dt.datetime(2024, 3, 5, 7, 0, tzinfo=UTC), "big": 2**60 + 1, "flag": True,
}  # fmt: skip


class StrictIndex(MemoryIndex):
    """Refuses a whole batch for one value, as a hosted index does."""

    def upsert(self, batch):
        for metadata in batch.metadata:
            for value in metadata.values():
                assert type(value) in (str, bool, int, float) or (
                    isinstance(value, tuple) and all(type(part) is str for part in value)
                )
                assert not isinstance(value, float) or math.isfinite(value)
        super().upsert(batch)


def test_values_that_an_index_refuses():
    """O-31: all five assertions, through an index that refuses what a hosted one does."""
    before = copy.deepcopy(META)
    empty = SparseVectors(np.zeros(3, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32))
    ids = (RecordId("a"), RecordId("b"))
    described = (dict(describe(META)), dict(describe({"title": "Tank"})))
    index, space = StrictIndex(), Namespace("n")
    index.upsert(RecordBatch(space, 1, ids, np.ones((2, 1), np.float32), empty, described))
    stored = index.fetch(space, ids, vectors=False, metadata=True)
    assert stored.ids == ids
    pump, tank = stored.metadata
    assert dict(tank) == {"title": "Tank"}
    assert not {"author", "none", "geo", "geo.lon"} & set(pump)
    assert pump["tags"] == ("a", "b")
    assert pump["pages"] == ("1", "2")
    assert pump["geo.lat"] == 1.5
    assert pump["when"] == "2024-03-05T07:00:00+00:00"
    assert pump["when_epoch"] == 1709622000
    assert pump["big"] == "1152921504606846977"
    assert pump["flag"] is True
    assert before == META


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (2**53, 2**53),
        (-(2**53) - 1, "-9007199254740993"),
        ("  a\0b ", "a b"),
        ("\ud800", "?"),
        ("x" * 9000, "x" * VALUE_CHARS_MAX),
        (dt.time(7, 30), "07:30:00"),
        ([True, 1.5, [2, ["c"]], "", None], ("true", "1.5", "2", "c")),
        ({"b", "a", "c"}, ("a", "b", "c")),
        ([{"n": "A", "x": 1}, "s", {"n": "B"}], None),
        (b"bytes", None),
        ([[], {}, None], None),
    ],
)
def test_values(value, found):
    """Each value as one of the types there are; what has none is left out."""
    assert dict(flat({"k": value})).get("k", None) == (("s",) if isinstance(value, list) and "s" in value else found)


def test_an_integer_past_what_python_converts():
    assert flat({"k": 10**5000})[0][1] == hex(10**5000)[:VALUE_CHARS_MAX]


def test_mappings_in_lists_share_their_keys():
    """Authors with names and addresses stay findable by each."""
    assert flat({"authors": [{"name": "Ann", "org": {"id": 1}}, {"name": "Bo"}]}) == (
        ("authors.name", ("Ann", "Bo")),
        ("authors.org.id", ("1",)),
    )


def test_dates_have_numbers():
    """Days start at midnight UTC, a moment without a zone is UTC, and only names that promise a date are read as one."""
    found = flat(
        {
            "day": dt.date(2024, 3, 5), "moment": dt.datetime.fromisoformat("2024-03-05T07:00:00.9"),
            "zoned": dt.datetime(2024, 3, 5, 8, 0, tzinfo=dt.timezone(dt.timedelta(hours=1))),
            "updated": "2024-03-05T07:00Z", "publishDate": "2024-03-05", "x": {"created_at": "2024-03-05 07:00"},
            "version": "2024-03-05", "expires": "soon", "due_date": "2024-02-30",
        }
    )  # fmt: skip
    seven, midnight = 1709622000, 1709596800
    assert {key: value for key, value in found if key.endswith("_epoch")} == {
        "day_epoch": midnight, "moment_epoch": seven, "zoned_epoch": seven, "updated_epoch": seven,
        "publishDate_epoch": midnight, "x.created_at_epoch": seven,
    }  # fmt: skip
    assert dict(found)["zoned"] == "2024-03-05T08:00:00+01:00"
    assert [key for key, _ in found][:3] == ["day", "day_epoch", "moment"]


def test_a_number_that_the_file_gives_stays():
    assert dict(flat({"date": "2024-03-05", "date_epoch": 5})) == {"date": "2024-03-05", "date_epoch": 5}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1969-12-31T23:59:59.5Z", -1),
        ("2024-03-05t07:00:00.123456789z", 1709622000),
        ("2024-03-05 07:00 -01:30", 1709622000 + 5400),
        ("2024-03-05T07:00:00+0100", 1709618400),
        ("0001-01-01", -62135596800),
        ("9999-12-31T23:59:59-23:59", 253402300799 + 23 * 3600 + 59 * 60),
        ("2024-03-05T24:00", None),
        ("2024-13-01", None),
        ("20240305", None),
        ("2024-03-05 noon", None),
        ("2024-03-0\u0665", None),
        ("", None),
    ],
)
def test_iso_texts(text, seconds):
    moment = iso_moment(text)
    assert (None if moment is None else epoch(moment)) == seconds


@pytest.mark.parametrize(
    ("value", "added"),
    [
        ({"date": "2024-03-05"}, {"created": "2024-03-05", "created_epoch": 1709596800}),
        ({"date": "March 5"}, {}),
        ({"date": 2024}, {}),
        ({"lastmod": dt.date(2024, 3, 5)}, {"modified": "2024-03-05", "modified_epoch": 1709596800}),
        ({"publishDate": "2024-03-05"}, {"published": "2024-03-05", "published_epoch": 1709596800}),
        ({"authors": ["Ann", "Bo"]}, {"author": ("Ann", "Bo")}),
        ({"authors": ["Ann"]}, {"author": "Ann"}),
        ({"authors": [{"name": "Ann"}]}, {"author": "Ann"}),
        ({"author": "Ann", "authors": ["Bo"]}, {}),
        ({"lang": "de", "tags": "a, b ,a"}, {"language": "de", "keywords": ("a", "b")}),
        ({"Title": "T", "summary": "s", "canonical-url": "u"}, {"title": "T", "description": "s", "url": "u"}),
        ({"update": "2024-03-05", "longdate": 1, "étitle": "x"}, {}),
    ],
)
def test_standard_fields_are_added(value, added):
    """What the file says stays under its own name; the standard one comes last, and only if it's missing."""
    own = flat(value)
    found = describe(value)
    assert found[: len(own)] == own
    assert dict(found[len(own) :]) == added


def test_standard_fields_have_one_type():
    """`keywords` is always a tuple, `title` always a string; a flag that shares a date's name stays a flag."""
    value = {"keywords": "a, b", "title": 1984, "description": ["x", "y"], "published": True, "created": 2024}
    assert dict(describe(value)) == {
        "keywords": ("a", "b"), "title": "1984", "description": "x, y", "published": True, "created": "2024",
    }  # fmt: skip


def test_work_is_bounded():
    """Mappings that share their content a few levels deep stand for more entries than anybody can visit."""
    inner = {f"k{i}": None for i in range(100)}
    for _ in range(7):
        inner = {f"k{i}": inner for i in range(100)}
    assert flat(inner) == ()
    listed = ["x"] * 100
    for _ in range(7):
        listed = [listed] * 100
    assert len(dict(flat({"k": listed}))["k"]) <= ENTRIES_MAX
    assert len(flat({f"k{i}": i for i in range(1000)})) == ENTRIES_MAX
    circle = {}
    circle["a"], circle["b"] = circle, [circle]
    assert flat(circle) == ()


def test_pages_describe_themselves():
    """HTML: language, dates, authors and keywords from wherever pages put them, under the standard names."""
    page = (
        "<html lang=en-GB><head><title>Pump</title><meta property=og:title content=Other>"
        "<meta property=article:published_time content=2024-03-05T07:00:00Z><meta name=DC.date content=2024-03-04>"
        "<meta itemprop=dateModified content='yesterday'><meta name=author content=Ann>"
        "<meta property=article:author content=https://x.test/bo><meta name=dc.creator content=Bo>"
        "<meta name=keywords content='seal, rotor'><meta property=article:tag content=seal>"
        "<meta name=viewport content=wide><link rel=canonical href=https://x.test/p></head>"
        "<body><p>words <time datetime=1999-01-01>then</time></p></body></html>"
    )
    assert dict(parse_bytes(page.encode(), "a.html").metadata) == {
        "language": "en-GB", "title": "Pump", "published": "2024-03-05T07:00:00Z", "published_epoch": 1709622000,
        "created": "2024-03-04", "created_epoch": 1709510400, "modified": "yesterday", "author": ("Ann", "Bo"),
        "keywords": ("seal", "rotor"), "url": "https://x.test/p",
    }  # fmt: skip


@pytest.mark.parametrize("mark", ["pubdate", "itemprop=datePublished"])
def test_a_time_that_is_the_pages_own(mark):
    page = f"<p>x <time datetime=1999-01-01>then</time> <time {mark} datetime=2024-03-05>now</time></p>"
    assert dict(parse_bytes(page.encode(), "a.html").metadata) == {
        "published": "2024-03-05",
        "published_epoch": 1709596800,
    }


@pytest.mark.parametrize("value", ["!!bool x", "!!timestamp x", "!!int ''", "!!binary '~'", "!!set {b, a}", "? [a]"])
def test_tags_that_do_not_suit_their_value(value):
    """YAML's own types, misused, cost the value and not the document."""
    document = parse_bytes(f"---\ntitle: T\nv: {value}\n---\nbody\n".encode(), "a.md")
    assert (document.title, document.text) == ("T", "body\n")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=3)
    | st.datetimes() | st.datetimes(timezones=st.just(UTC)) | st.dates() | st.times()
    | st.sampled_from(["2024-03-05", "date", "title"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5) | st.integers() | st.sampled_from(["date", "tags", "author"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text(max_size=6) | st.sampled_from(["date", "title", "keywords", "created"]), values))
def test_any_mapping(value):
    """The result has only the types there are, each key once, nothing empty; the same mapping gives the same."""
    before = copy.deepcopy(value)
    found = describe(value)
    assert repr(value) == repr(before)
    assert describe(value) == found
    assert len({key for key, _ in found}) == len(found)
    assert all(entry not in ("", ()) and key for key, entry in found)
    document = ParsedDocument("text", "x", metadata=found)
    assert wire.decode(wire.encode(document)) == document
