"""`pipeline.contexts`: a folder's name as a slug, and what may be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contexts import SLUG, checked_slug, slug_from
from pipeline.errors import RejectedInput


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Notes", "notes"), ("My Notes (2024)", "my-notes-2024"), ("a__b..c", "a-b-c"), ("-x-", "x"), ("café", "caf"),
        ("x" * 80, "x" * 63), ("x" * 62 + "-yz", "x" * 62), ("7", "7"),
    ],
)  # fmt: skip
def test_a_folders_name(name: str, slug: str) -> None:
    assert slug_from(name) == slug


@given(st.text(max_size=100))
def test_every_slug_that_is_made_may_be_used(name: str) -> None:
    if not any("a" <= c <= "z" or "0" <= c <= "9" for c in name.lower()):
        with pytest.raises(RejectedInput) as caught:
            slug_from(name)
        assert caught.value.code == "bad_slug"
        return
    slug = slug_from(name)
    assert checked_slug(slug) == slug
    assert slug_from(slug) == slug


@pytest.mark.parametrize("text", ["", "-", "a-", "-a", "A", "a b", "a.b", "a_b", "é", "a" * 64, "a\n", "..", "a/b"])
def test_what_is_no_slug(text: str) -> None:
    with pytest.raises(RejectedInput) as caught:
        checked_slug(text)
    assert caught.value.code == "bad_slug"
    assert not SLUG.fullmatch(text)
