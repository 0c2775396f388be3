"""Tables as material of the artifact leg: rows keep their header, whatever window they fall into, and are never torn."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import SLUG, World

from manifests import Manifest, manifest_from
from pipeline import knowledge
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.artifacts.leg import slug_of
from pipeline.artifacts.windows import header_at, rows_of, windows
from pipeline.models import ModelReply, ModelRequest
from pipeline.parse import parse_bytes

COLUMNS = [{"name": "name"}, {"name": "price", "type": "REAL"}, {"name": "select"}]
COUNT = 120


def manifest(**more: Any) -> Manifest:
    type_ = {
        "name": "product", "kind": "entity", "scope": "document", "format": "sqlite", "natural_key": ["name"],
        "columns": COLUMNS,
    }  # fmt: skip
    return manifest_from({"curate": {"artifacts": {"enabled": True, "artifact_types": [type_], **more}}})


def as_csv() -> bytes:
    return "".join(["name,price,select\n", *(f'"Part, {n}",{n}.5,"a\nb"\n' for n in range(COUNT))]).encode()


def as_markdown() -> bytes:
    rows = [f"| Part, {n} | {n}.5 | a b |" for n in range(COUNT)]
    return "\n".join(["# Parts", "", "| name | price | select |", "|---|---|---|", *rows, "", "The end."]).encode()


def as_xlsx() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["name", "price", "select"])
    for n in range(COUNT):
        sheet.append([f"Part, {n}", n + 0.5, "a b"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


FORMATS = {"parts.csv": as_csv, "parts.md": as_markdown, "parts.xlsx": as_xlsx}


def products(world: World) -> list[tuple[Any, ...]]:
    path = world.home / "answers.sqlite"
    path.write_bytes(knowledge.database(world.ports, SLUG, world.live()))
    with closing(sqlite3.connect(path)) as held:
        return held.execute('SELECT name, price, "select" FROM product ORDER BY price').fetchall()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("window", [0, 1000])
def test_rows_of_a_table_become_rows_of_the_database(name: str, window: int) -> None:
    """Header apart or in the text, quotes and commas in cells, in one call or in many."""
    world = World(language=ExtractiveModel())
    try:
        world.files = world.tree.files = {name: FORMATS[name]()}  # type: ignore[assignment]
        world.curate(manifest(extraction_window_chars=window))
        rows = products(world)
        assert [row[:2] for row in rows] == [(f"Part, {n}", n + 0.5) for n in range(COUNT)]
        assert {" ".join(str(row[2]).split()) for row in rows} == {"a b"}
    finally:
        world.close()


def test_quotes_in_prose_around_a_table_are_no_cells() -> None:
    world = World(language=ExtractiveModel())
    try:
        text = 'A 5" disk, said he.\n\nname,price,select\nA,1,x\nB,2,"y, z"\n\nA 7" disk, said she.\n'
        world.files = world.tree.files = {"parts.txt": text.encode()}  # type: ignore[assignment]
        world.curate(manifest())
        assert products(world) == [("A", 1.0, "x"), ("B", 2.0, "y, z")]
    finally:
        world.close()


class Asked(ExtractiveModel):
    def __init__(self) -> None:
        self.prompts: list[str] = []

    def answer(self, request: ModelRequest) -> ModelReply:
        self.prompts.append(request.prompt)
        return super().answer(request)


def test_a_model_is_shown_the_header_above_each_window() -> None:
    world = World(language=Asked())
    try:
        world.files = world.tree.files = {"parts.csv": as_csv()}  # type: ignore[assignment]
        world.curate(manifest(extraction_window_chars=1000))
        prompts = world.language.prompts  # type: ignore[union-attr]
        assert len(prompts) > 2
        assert all("\nname,price,select\n" in prompt for prompt in prompts)
    finally:
        world.close()


@given(size=st.integers(200, 3000))
def test_windows_tear_no_row_and_leave_nothing_out(size: int) -> None:
    document = parse_bytes(as_csv(), "parts.csv")
    read = windows(document.text, window_chars=size, call_chars=60_000, rows=rows_of(document)).windows
    assert "".join(document.text[start:end] for start, end in read) == document.text
    ends = {block.end for block in document.blocks}
    assert all(end in ends and end - start <= size for start, end in read)


def test_a_header_is_that_of_the_table_around() -> None:
    document = parse_bytes(as_markdown(), "parts.md")
    inside, outside = document.text.index("| Part, 9 "), document.text.index("The end.")
    assert header_at(document, inside) == "| name | price | select |\n|---|---|---|\n"
    assert header_at(document, outside) == header_at(document, 0) == ""
    assert header_at(document, document.text.index("| name")) == "", "the table's own beginning holds its header"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e3", 1000.0),
        ("1e400", None),
        ("1,250.5 kg", 1250.5),
        ("99999999999999999999999", 1e23),
        ("n/a", None),
        ("-3", -3),
    ],
)
def test_numbers_are_read_as_written_or_not_at_all(written: str, read: float | None) -> None:
    world = World(language=ExtractiveModel())
    try:
        table = f'name,price,select\nA,"{written}",x\nB,2,y\n'
        world.files = world.tree.files = {"parts.csv": table.encode()}  # type: ignore[assignment]
        world.curate(manifest())
        assert {row[0]: row[1] for row in products(world)} == {"A": read, "B": 2.0}
    finally:
        world.close()


@pytest.mark.parametrize("name", ["index", "con", "nul", "com1", "lpt9"])
def test_names_that_others_keep_for_themselves_get_another_file(name: str) -> None:
    assert slug_of(name, name) != name
    assert slug_of(f"{name} x", f"{name} x") == f"{name}-x"
