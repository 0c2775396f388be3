"""Reading knowledge at its limits: hubs, namesakes, hostile SQL, hostile paths, decisions under a run at work."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from world import SLUG, World

from pipeline import graph, knowledge, merges
from pipeline.adapters.database_local import select
from pipeline.adapters.export_local import PART, ExportFolder
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.errors import Conflict, Corruption, RejectedInput
from pipeline.fingerprint import canonical_json
from pipeline.rows import ArtifactRow, DecisionRow, EdgeRow
from pipeline.types import LogicalId, RunId, SourcePath


def artifact(id_: str, name: str, *, type_: str = "Party", aliases: tuple[str, ...] = ()) -> ArtifactRow:
    data = canonical_json({"aliases": aliases, "sources": [{"path": "a.md", "spans": []}], "model": "m", "body": "b"})
    return ArtifactRow(LogicalId(id_), type_, name, "corpus", "markdown", "b", "m", f"artifacts/{id_}.md", data, 1)


def edge(id_: str, source: str, target: str, path: str = "a.md", **attributes: str) -> EdgeRow:
    data = canonical_json({"attributes": attributes, "text": f"{source} and {target}", "spans": []})
    return EdgeRow(id_, "knows", LogicalId(source), LogicalId(target), SourcePath(path), data, 1)


@pytest.fixture
def world() -> Iterator[World]:
    """Version 1 is live; it has no artifact yet."""
    made = World()
    made.put("a.md", "otter", "pond")
    made.curate()
    yield made
    made.close()


def hold(world: World, *rows: ArtifactRow | EdgeRow) -> None:
    with world.ledger.transaction("test", SLUG) as session:
        session.knowledge.add(SLUG, rows)


def around(world: World, start: ArtifactRow, depth: int, most: int) -> graph.Graph:
    return graph.around(world.ports, SLUG, 1, start, depth=depth, most=most)


# ---- artifacts and names


def test_artifacts_come_in_pages_and_none_twice(world: World) -> None:
    """More than a page, over types, in the ledger's order."""
    rows = [artifact(f"{t}{n:04}", f"name {n % 7}", type_=t) for t in ("A", "B", "C") for n in range(600)]
    hold(world, *rows)
    listed = [a.id for a in knowledge.artifacts(world.ports, SLUG, 1)]
    assert len(listed) == len(set(listed)) == 1800
    only = list(knowledge.artifacts(world.ports, SLUG, 1, type_="B", name="NAME 3"))
    assert {a.type for a in only} == {"B"}
    assert len(only) == len([n for n in range(600) if n % 7 == 3])


def test_a_name_is_found_by_spelling_then_alias_then_refused(world: World) -> None:
    hold(
        world,
        artifact("1", "Café Müller"),
        artifact("2", "Mercury", aliases=("Hermes",)),
        artifact("3", "Mercury", type_="Metal"),
        artifact("4", "Hermes", type_="Parcel"),
        artifact("5", "Paris", aliases=("Lutetia",)),
    )

    def found(name: str, type_: str = "") -> str:
        return knowledge.artifact_named(world.ports, SLUG, 1, name, type_).id

    assert found("CAFE MULLER") == "1"
    assert found("lutetia") == "5"
    assert found("Hermes") == "4", "a name of its own goes before another's alias"
    assert found("mercury", "Metal") == "3"
    assert found("2") == "2"
    with pytest.raises(RejectedInput, match="several artifacts") as several:
        found("Mercury")
    assert several.value.code == "several_artifacts"
    assert {line.split()[0] for line in several.value.remedy.splitlines()[1:]} == {"2", "3"}
    with pytest.raises(RejectedInput) as unknown:
        found("Mercurie")
    assert "Mercury" in unknown.value.remedy
    with pytest.raises(RejectedInput):
        found("2", "Metal")


def test_hundreds_of_namesakes_are_not_all_named(world: World) -> None:
    hold(world, *(artifact(f"{n:04}", "Smith") for n in range(1200)))
    with pytest.raises(RejectedInput) as several:
        knowledge.artifact_named(world.ports, SLUG, 1, "smith")
    assert len(several.value.remedy.splitlines()) == knowledge.NAMESAKES_MAX + 2


def test_near_misses_are_few_and_best_first() -> None:
    spelled = ["Ada Lovelace", "Ada Byron", "Grace Hopper", "Countess Ada Lovelace of Ockham", *["Ada Lovelase"] * 50]
    assert knowledge.near(spelled, "ada lovelace")[:2] == ("Ada Lovelace", "Countess Ada Lovelace of Ockham")
    assert "Ada Lovelase" in knowledge.near(spelled, "Ada Lovelace")
    assert knowledge.near(spelled, "zzz") == ()
    assert knowledge.near(spelled, "") == ()
    assert len(knowledge.near([f"Adam {n}" for n in range(100)], "Adam")) == knowledge.NEAR


# ---- the graph


def test_a_graph_goes_breadth_first_in_both_directions(world: World) -> None:
    """a -> b <- c -> d, and a loop back from d to a's side."""
    names = {i: artifact(i, i.upper()) for i in "abcde"}
    hold(world, *names.values(), edge("1", "a", "b"), edge("2", "c", "b"), edge("3", "c", "d"), edge("4", "d", "e"))
    far = around(world, names["a"], 3, 50)
    assert {n.id: n.distance for n in far.nodes} == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert [(e.source, e.target) for e in far.edges] == [("a", "b"), ("c", "b"), ("c", "d")]
    assert {n.id for n in around(world, names["a"], 1, 50).nodes} == {"a", "b"}
    whole = around(world, names["a"], 4, 50)
    assert {n.id for n in whole.nodes} == set("abcde")


def test_of_too_many_neighbours_the_best_supported_are_shown(world: World) -> None:
    hub = artifact("hub", "Hub")
    rows = [artifact(f"n{n:04}", f"N {n}") for n in range(1300)]
    edges = [edge(f"e{n:04}", "hub", f"n{n:04}") for n in range(1300)]
    more = [edge(f"x{n:04}", "n0700", "hub", path=f"{n:04}.md", role=str(n)) for n in range(700)]
    hold(world, hub, *rows, *edges, *more)
    found = around(world, hub, 1, 3)
    assert [n.id for n in found.nodes] == ["hub", "n0700", "n0000"]
    assert found.left_out == 1298
    back = next(e for e in found.edges if e.source == "n0700")
    assert back.sources == 700
    assert [s.path for s in back.supports] == [f"{n:04}.md" for n in range(graph.SUPPORTS_MAX)]
    assert back.supports[3].attributes == {"role": "3"}
    assert around(world, hub, 1, 3) == found
    for depth, most in ((0, 5), (5, 5), (1, 0), (1, 1001)):
        with pytest.raises(RejectedInput):
            around(world, hub, depth, most)


def test_an_edge_to_what_the_version_does_not_show_is_left_out(world: World) -> None:
    hold(world, artifact("a", "A"), edge("1", "a", "gone"))
    found = around(world, artifact("a", "A"), 2, 50)
    assert [n.id for n in found.nodes] == ["a"]
    assert found.edges == ()


def test_names_can_not_become_syntax_of_dot() -> None:
    """What is quoted ends where it should: every quote inside is escaped, and so is what would escape it."""
    hostile = 'x"]; evil [label="\\'
    node = graph.Node(LogicalId("1"), 'T"', hostile, "", 0)
    link = graph.Edge('a\\"b\nc', LogicalId("1"), LogicalId("1"), {}, (), 1)
    lines = graph.dot(graph.Graph((node,), (link,), 0)).split("\n")
    assert lines[2] == '  "1" [label="x\\"]; evil [label=\\"\\\\", tooltip="T\\""];'
    assert lines[3] == '  "1" -> "1" [label="a\\\\\\"b c"];'
    assert lines[-1] == "}"


# ---- the database


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("db") / "k.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE invoice (number TEXT, amount REAL)")
    db.executemany("INSERT INTO invoice VALUES (?, ?)", [(f"INV-{n}", n / 2) for n in range(5)])
    db.commit()
    db.close()
    return path.read_bytes()


ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "


def test_select_reads_rows_up_to_the_limit(database: bytes) -> None:
    table = select(database, "SELECT * FROM invoice ORDER BY number", rows=2, seconds=5)
    assert (table.columns, table.rows, table.more) == (("number", "amount"), (("INV-0", 0.0), ("INV-1", 0.5)), True)
    assert not select(database, "SELECT * FROM invoice", rows=5, seconds=5).more
    odd = select(database, "SELECT 9e999, NULL, x'ff00', CAST(x'ff' AS TEXT), 9223372036854775807", rows=1, seconds=5)
    assert odd.rows == (("inf", None, "x'ff00'", "\N{REPLACEMENT CHARACTER}", 2**63 - 1),)
    assert select(database, "SELECT x FROM invoice, (SELECT 1 AS x) WHERE 0", rows=5, seconds=5).rows == ()


@pytest.mark.parametrize(
    "sql",
    [
        "ATTACH 'other.sqlite' AS o", "DETACH main", "VACUUM", "VACUUM INTO 'copy.sqlite'", "PRAGMA journal_mode = WAL",
        "PRAGMA table_info(invoice)", "SELECT * FROM pragma_table_info('invoice')", "DELETE FROM invoice",
        "CREATE TABLE t (x)", "CREATE TEMP TABLE t (x)", "WITH x AS (SELECT 1) INSERT INTO invoice SELECT 1, 2", "BEGIN",
        "SELECT load_extension('x')", "SELECT Load_Extension('x', 'y')", "ANALYZE",
        "CREATE VIRTUAL TABLE t USING fts5(x)", "ALTER TABLE invoice ADD COLUMN x", "DROP TABLE invoice",
    ],
)  # fmt: skip
def test_whatever_does_not_read_is_refused(database: bytes, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RejectedInput, match="only reading is allowed") as refused:
        select(database, sql, rows=5, seconds=5)
    assert refused.value.code == "bad_sql"
    assert "invoice(number, amount)" in refused.value.remedy
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "",
        ";",
        "-- nothing",
        "REINDEX",
        "SELEC 1",
        "SELECT ?",
        "SELECT 1; SELECT 2",
        "SELECT nothing",
        "SELECT '\0",
        "(" * 5000,
    ],
)
def test_bad_sql_is_refused_with_the_tables(database: bytes, sql: str) -> None:
    with pytest.raises(RejectedInput) as refused:
        select(database, sql, rows=5, seconds=5)
    assert refused.value.code == "bad_sql"
    assert "invoice(number, amount)" in refused.value.remedy


@pytest.mark.parametrize(
    ("sql", "codes"),
    [
        (ENDLESS + "SELECT count(*) FROM c", {"sql_time"}),
        # One call of a function, which no handler of SQLite's interrupts: the process is killed.
        ("SELECT instr(zeroblob(9000000) || x'01', zeroblob(4500000) || x'02')", {"sql_time"}),
        (ENDLESS + "SELECT hex(randomblob(4000)) AS h FROM c ORDER BY h", {"sql_time", "sql_too_large"}),
        (ENDLESS + "SELECT zeroblob(1000000) FROM c", {"sql_too_large"}),
        ("SELECT zeroblob(2000000000)", {"sql_too_large"}),
    ],
)
def test_no_question_takes_more_than_its_share(database: bytes, sql: str, codes: set[str]) -> None:
    began = time.monotonic()
    with pytest.raises(RejectedInput) as refused:
        select(database, sql, rows=100_000, seconds=1)
    assert refused.value.code in codes
    assert time.monotonic() - began < 15


def test_a_damaged_database_is_no_fault_of_the_question() -> None:
    with pytest.raises(Corruption):
        select(b"this is no database" * 500, "SELECT 1", rows=1, seconds=5)


def test_a_call_leaves_no_copy_behind(database: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    select(database, "SELECT 1", rows=1, seconds=5)
    with pytest.raises(RejectedInput):
        select(database, "nonsense", rows=1, seconds=5)
    assert list(tmp_path.iterdir()) == []


# ---- export


def test_paths_that_lead_outside_are_not_written(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path / "out", force=False)
    try:
        for path in ("../x", "/x", "a/../../x", "a//x", ".", "", "a/", "..", f"a/{PART.decode()}", "a\0b"):
            assert folder.write(path, b"evil"), path
        assert folder.write("a/b/c.md", b"good") == ""
        assert folder.write("a/b", b"in the way")
        assert folder.write("a/b/c.md/d", b"in the way")
        assert folder.write("n" * 300, b"too long")
        assert folder.write("a/b/c.md", b"better") == ""
    finally:
        folder.close()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()] == ["out/a/b/c.md"]
    assert (tmp_path / "out/a/b/c.md").read_bytes() == b"better"


def test_a_name_that_is_no_text_is_written_as_its_bytes(tmp_path: Path) -> None:
    from pipeline.fingerprint import encode_path  # noqa: PLC0415  # wanted here alone

    folder = ExportFolder(tmp_path, force=False)
    assert folder.write(encode_path(b"caf\xe9.md"), b"x") == ""
    folder.close()
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [b"caf\xe9.md"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RejectedInput) as refused:
        ExportFolder(tmp_path / "file", force=True)
    assert refused.value.code == "bad_folder"


# ---- models and decisions


def test_the_catalog_says_what_each_tier_is(world: World) -> None:
    assert knowledge.model_catalog(world.ports)["models"] == []
    catalog = knowledge.model_catalog(replace(world.ports, language=ExtractiveModel()))
    ids = [m["id"] for m in catalog["models"]]
    assert ids == [catalog["default"], "lite", "standard", "pro"]
    assert set(catalog["supported_curate_models"]) <= set(ids)
    assert "no language model" in catalog["models"][0]["label"]


def test_a_decision_is_not_taken_back_under_a_run(world: World) -> None:
    """The run may have read it already; what it carries out would stand without the decision."""
    row = DecisionRow("d1", "pin", "Party", "A", "B", 1.0, "local")
    with world.ledger.transaction("test", SLUG) as session:
        session.knowledge.decide(SLUG, row)
        done = session.runs.list(SLUG, 1)[0]
        session.runs.create(replace(done, id=RunId("r2"), state="running", number=0))
    with pytest.raises(Conflict, match="r2") as refused:
        merges.withdraw(world.ports, SLUG, "d1")
    assert refused.value.code == "run_active"
    with world.ledger.transaction("test", SLUG) as session:
        session.runs.set_state(RunId("r2"), "abandoned", 2.0)
    assert merges.withdraw(world.ports, SLUG, "d1") == row
    assert merges.decisions(world.ports, SLUG) == ()


def test_a_withdrawn_decision_keeps_the_version_that_it_held_from(world: World) -> None:
    """Otherwise taking the withdrawal back and withdrawing again would forget that there is something to undo."""
    with world.ledger.transaction("test", SLUG) as session:
        session.knowledge.decide(SLUG, DecisionRow("d1", "pin", "Party", "A", "B", 1.0, "local"))
        session.knowledge.apply_decisions(SLUG, ["d1"], 1)
    for _ in range(2):
        merges.withdraw(world.ports, SLUG, "d1")
        (held,) = merges.decisions(world.ports, SLUG)
        assert (merges.state_of(held), held.applied) == ("withdrawn", 1)
