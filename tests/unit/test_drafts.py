"""`pipeline.drafts`: what a record says, under which ids, and within which budgets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import tokens
from pipeline.drafts import (
    METADATA_BYTES_MAX,
    SEPARATOR,
    DocumentFacts,
    Draft,
    blob_key,
    context_line,
    draft_records,
    listing,
    listing_path,
)
from pipeline.fingerprint import source_uid, text_hash
from pipeline.types import Chunk, ContextSlug, MetadataValue, SourcePath

SLUG = ContextSlug("ctx")
FACTS = DocumentFacts(SourcePath("d/notes.md"), "Notes", ())


def as_metadata(value):
    """Metadata from JSON: lists become tuples."""
    return {key: tuple(held) if isinstance(held, list) else held for key, held in value.items()}


def chunk(text: str, index: int = 0, **more: object) -> Chunk:
    return replace(Chunk(text, 10 * index, 10 * index + len(text), index, 3), **more)


def drafts(
    *chunks: Chunk, facts: DocumentFacts = FACTS, recipe: str = "r", context_tokens: int = 64
) -> tuple[Draft, ...]:
    return draft_records(SLUG, [(facts, chunks)], recipe=recipe, context_tokens=context_tokens)


def with_metadata(*pairs: tuple[str, MetadataValue]) -> DocumentFacts:
    return replace(FACTS, metadata=pairs)


# ---------------------------------------------------------------- title and heading path
def test_the_context_line() -> None:
    assert context_line("T", ("A", "B"), 64) == "T > A > B\n\n"
    assert context_line("T", (), 64) == "T\n\n"
    assert context_line("", ("A",), 64) == "A\n\n"
    assert context_line("A", ("A", "B"), 64) == "A > B\n\n"  # a title that is the first heading isn't said twice
    assert context_line("B", ("A", "B"), 64) == "B > A > B\n\n"
    assert context_line("", ("", "B", ""), 64) == "B\n\n"
    assert context_line("T", ("A",), 0) == context_line("", (), 64) == ""


@settings(max_examples=150, deadline=None)
@given(
    title=st.text(max_size=40),
    path=st.lists(
        st.text(max_size=60) | st.sampled_from(["word " * 30, "日本語" * 20, "🙂" * 20, "x" * 90]), max_size=5
    ),
    budget=st.integers(1, 64),
)
def test_the_budget_holds_and_the_line_is_shortened_from_the_left(title: str, path: list[str], budget: int) -> None:
    parts = [*([title] if title and title not in path[:1] else []), *path]
    whole = SEPARATOR.join(part for part in parts if part)
    line = context_line(title, path, budget)
    if not line:
        return
    assert line.endswith("\n\n")
    assert tokens.count(line[:-2]) <= budget
    assert whole.endswith(line[:-2])
    if tokens.count(whole) <= budget:
        assert line[:-2] == whole


@pytest.mark.parametrize("budget", range(1, 12))
def test_the_budget_is_used(budget: int) -> None:
    """Of plain words nothing is given away: one more token to the left would not fit."""
    words = [f"word{i}" for i in range(20)]
    whole = " ".join(words)
    line = context_line("", [whole], budget)[:-2]
    assert tokens.count(line) in (budget, budget - 1)
    assert whole.endswith(line)


def test_what_is_embedded_is_context_prefix_and_text() -> None:
    (draft,) = drafts(chunk("body", heading_path=("Notes", "Part"), prefix="a | b\n"))
    assert draft.embed_text == "Notes > Part\n\na | b\nbody"
    assert draft.embed_digest == text_hash(draft.embed_text)
    assert draft.metadata["text"] == "body"
    assert drafts(chunk("body"), context_tokens=0)[0].embed_text == "body"


# ---------------------------------------------------------------- ids
def test_logical_ids_never_change() -> None:
    """They are shown to people and are what runs are compared by: these values are fixed for ever."""
    first, second, again = drafts(chunk("one"), chunk("two", 1), chunk("one", 2))
    assert first.logical_id == "a62e9362-b50d-57b5-b031-42cbed9fed0b"
    assert again.logical_id == "140d10c2-a13e-5c1c-bb12-14d5a490891b"
    assert first.record_id(FACTS.path, 7) == f"{source_uid(FACTS.path)}#{text_hash('one')[:16]}.0#7"
    assert again.record_id(FACTS.path, 7) == f"{source_uid(FACTS.path)}#{text_hash('one')[:16]}.1#7"
    assert len({first.logical_id, second.logical_id, again.logical_id}) == 3


def test_a_logical_id_depends_on_context_path_text_and_occurrence_alone() -> None:
    base = drafts(chunk("one"))[0]
    same = drafts(
        chunk("zero"), chunk("one", 1, heading_path=("H",), prefix="p", tokens=9, pages=(1, 2)),
        facts=DocumentFacts(FACTS.path, "Other", (("author", "me"),)), recipe="other", context_tokens=3,
    )[1]  # fmt: skip
    assert same.logical_id == base.logical_id
    assert same.content != base.content
    assert drafts(chunk("one"), facts=replace(FACTS, path=SourcePath("e/notes.md")))[0].logical_id != base.logical_id
    assert (
        draft_records(ContextSlug("b"), [(FACTS, [chunk("one")])], recipe="r", context_tokens=64)[0].logical_id
        != base.logical_id
    )


@pytest.mark.parametrize(
    "other",
    [
        chunk("body", heading_path=("H",)), chunk("body", start=1), chunk("body", end=99), chunk("body", prefix="p"),
        chunk("body", pages=(1, 1)), chunk("body", tokens=4),
    ],
)  # fmt: skip
def test_the_content_covers_everything_that_a_record_says(other: Chunk) -> None:
    assert drafts(other)[0].content != drafts(chunk("body"))[0].content


def test_the_content_covers_title_recipe_and_position() -> None:
    base = drafts(chunk("body"))[0]
    assert drafts(chunk("body"))[0] == base
    assert drafts(chunk("body"), facts=replace(FACTS, title="New"))[0].content != base.content
    assert drafts(chunk("body"), recipe="new")[0].content != base.content
    assert drafts(chunk("before"), chunk("body"))[1].content != base.content


def test_positions_count_what_was_kept() -> None:
    assert [d.position for d in drafts(chunk("a", 3), chunk("b", 9))] == [0, 1]


# ---------------------------------------------------------------- metadata
def test_metadata() -> None:
    (draft,) = drafts(
        chunk("body", heading_path=("A", "B"), prefix="p", pages=(2, 4)),
        facts=with_metadata(("author", "me"), ("tags", ("x", "y"))),
    )
    assert draft.metadata == {
        "author": "me", "tags": ("x", "y"), "title": "Notes", "source_path": "d/notes.md", "filename": "notes.md",
        "doc_id": source_uid(FACTS.path), "kind": "chunk", "layer": "L0", "text": "body", "chunk_index": 0, "start_index": 0,
        "end_index": 4, "tokens": 3, "section_path": "A > B", "headings": ("A", "B"), "prefix": "p", "page_first": 2,
        "page_last": 4, "pages": ("2", "3", "4"), "logical_id": draft.logical_id,
    }  # fmt: skip
    assert as_metadata(json.loads(draft.metadata_json)) == draft.metadata


@pytest.mark.parametrize(
    "name",
    [
        "text", "title", "chunk_index", "start_index", "end_index", "tokens", "section_path", "headings", "prefix", "pages",
        "page_first", "page_last", "source_path", "filename", "doc_id", "kind", "layer", "logical_id", "labels",
        "added_version", "removed_version", "",
    ],
)  # fmt: skip
def test_a_document_cannot_take_a_reserved_name(name: str) -> None:
    """Nor give itself labels, which decide who may see it. What it says stays, under a name that means nothing here."""
    plain = drafts(chunk("body"), facts=with_metadata())[0]
    own = drafts(chunk("body"), facts=with_metadata((name, "mine")))[0]
    kept = {} if name in {"", "title"} else {f"meta.{name}": "mine"}
    assert own.metadata == {**plain.metadata, **kept}


def test_own_pages_are_pages() -> None:
    assert drafts(chunk("body"), facts=with_metadata(("pages", ("1", "2"))))[0].metadata["pages"] == ("1", "2")
    paged = drafts(chunk("body", pages=(3, 3)), facts=with_metadata(("pages", ("1", "2"))))[0]
    assert paged.metadata["pages"] == ("3",)


def test_parts_are_documents_of_their_own() -> None:
    """Positions and ordinals go on through the source; ids tell parts from their source, and tie them to it."""
    mail = replace(FACTS, format="eml")
    part = DocumentFacts(FACTS.path, "", (), "csv", part="inner.eml/länge.csv")
    first, second = draft_records(
        SLUG, [(mail, [chunk("same")]), (part, [chunk("same")])], recipe="r", context_tokens=64
    )
    assert (first.position, second.position) == (0, 1)
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert second.metadata["parent_id"] == first.metadata["doc_id"] != second.metadata["doc_id"]
    assert second.metadata["filename"] == second.metadata["title"] == "länge.csv"
    assert second.metadata["source_path"] == first.metadata["source_path"] == FACTS.path
    assert (first.metadata["format"], second.metadata["format"]) == ("eml", "csv")
    assert "part" not in first.metadata


def test_empty_fields_are_left_out() -> None:
    (draft,) = drafts(
        chunk("body"), facts=DocumentFacts(SourcePath("p"), "", (("a", ""), ("b", ()), ("c", False), ("d", 0)))
    )
    assert "title" not in draft.metadata
    assert {k: draft.metadata[k] for k in "cd"} == {"c": False, "d": 0}
    assert not {"a", "b"} & set(draft.metadata)


def test_metadata_that_is_too_large_loses_the_documents_own_fields_first() -> None:
    facts = with_metadata(("small", "s"), ("huge", "h" * METADATA_BYTES_MAX), ("big", "日" * 11_000))
    (draft,) = drafts(chunk("body " * 2_000), facts=facts)
    assert {"small", "huge", "big"} & set(draft.metadata) == {"small"}
    assert draft.metadata["text"] == "body " * 2_000
    assert len(json.dumps(draft.metadata, ensure_ascii=False).encode()) <= METADATA_BYTES_MAX


# ---------------------------------------------------------------- the chunk listing
def test_a_listing_is_one_line_a_chunk() -> None:
    found = drafts(chunk("one\ntwo"), chunk("é\u2028", 1))
    lines = listing(found).decode().split("\n")
    assert lines[-1] == ""
    assert [as_metadata(json.loads(line)) for line in lines[:-1]] == [d.metadata for d in found]
    assert listing(()) == b""
    assert listing(drafts(chunk("one"))) == listing(drafts(chunk("one")))


def test_where_a_listing_stands() -> None:
    assert listing_path(SourcePath("d/a.md")) == "chunks/d/a.md.chunks.jsonl"
    assert blob_key(b"x") == blob_key(b"x") != blob_key(b"y")
