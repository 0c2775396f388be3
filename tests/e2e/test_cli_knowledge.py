"""The verbs that read what the artifact leg made, and those that decide about merges, over real curates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MANIFEST = {
    "curate": {
        "artifacts": {
            "enabled": True,
            "artifact_types": [
                {"name": "Party", "kind": "entity", "scope": "corpus"},
                {"name": "Digest", "kind": "summary", "scope": "document"},
                {
                    "name": "Invoice",
                    "kind": "doc",
                    "scope": "document",
                    "format": "sqlite",
                    "columns": [{"name": "number"}, {"name": "supplier"}, {"name": "amount", "type": "REAL"}],
                    "natural_key": ["number"],
                },
            ],
            "edge_types": [{"name": "related to", "from": "Party", "to": "Party", "attributes": ["role"]}],
        }
    }
}
HARBOUR = """# The harbour

Maria Keller founded Northwind Logistics in 1990. Maria Keller hired Tomas Brandt for Northwind Logistics.

| Number | Supplier | Amount |
|---|---|---|
| INV-1 | Northwind | 120 |
| INV-2 | Hansa | 75 |
"""
STEEL = """# The steel

Hansa Steel delivers to Northwind Logistics Ltd. Later Tomas Brandt signed for Northwind Logistics Ltd.
"""
STAGE = """# The stage

The painter Maria Keller praised Ulla Stein. In spring Ulla Stein wrote to Maria Keller.
"""


@pytest.fixture
def firm(lamina: Any) -> Any:
    """Context `firm`, curated once."""
    lamina.write("manifest.json", json.dumps(MANIFEST))
    for name, text in (("harbour", HARBOUR), ("steel", STEEL), ("stage", STAGE)):
        lamina.write(f"firm/{name}.md", text)
    curate(lamina)
    return lamina


@pytest.fixture(scope="module")
def firm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("firm")


@pytest.fixture
def looked_at(firm_folder: Path, lamina: Any) -> Any:
    """The same, made once, for tests that change nothing."""
    made = type(lamina)(firm_folder, lamina.capture)
    if not (firm_folder / "firm").exists():
        made.write("manifest.json", json.dumps(MANIFEST))
        for name, text in (("harbour", HARBOUR), ("steel", STEEL), ("stage", STAGE)):
            made.write(f"firm/{name}.md", text)
        curate(made)
    return made


def curate(lamina: Any, *more: str) -> None:
    lamina.ok("curate", lamina.folder / "firm", "--manifest", lamina.folder / "manifest.json", *more)


def parties(lamina: Any, *more: str) -> dict[str, set[str]]:
    """Name and id of each artifact of type Party, with its aliases."""
    listed = lamina.json("artifacts", "firm", "--type", "party", *more)["artifacts"]
    return {f"{a['name']}#{a['id']}": set(a["aliases"]) for a in listed}


def called(lamina: Any) -> set[str]:
    return {name.partition("#")[0] for name in parties(lamina)}


def kellers(lamina: Any) -> int:
    return sum(name.startswith("Maria Keller#") for name in parties(lamina))


def joined(lamina: Any, left: str, right: str) -> bool:
    """Whether two names are one subject."""
    return any({left, right} <= {name.partition("#")[0], *aliases} for name, aliases in parties(lamina).items())


def after_more_curates(lamina: Any, holds: Callable[[], bool]) -> None:
    """It holds, and goes on holding whatever is curated: a source that changed, all of them, one that came."""
    curate(lamina)
    assert holds()
    text = (lamina.folder / "firm/stage.md").read_text("utf-8")
    lamina.write("firm/stage.md", text + "\nThe house was full on Monday and empty on Tuesday.\n")
    curate(lamina)
    assert holds()
    curate(lamina, "--force")
    assert holds()
    lamina.write("firm/more.md", "# More\n\nNobody saw Maria Keller or Northwind Logistics that year.\n")
    curate(lamina)
    assert holds()


# ---- reading


def test_artifacts_are_listed_and_filtered(looked_at: Any) -> None:
    listed = looked_at.json("artifacts", "firm")
    assert listed["version"] == 1
    types = [a["type"] for a in listed["artifacts"]]
    assert types == sorted(types)
    assert {"Party", "Digest", "Invoice"} == set(types)
    (keller,) = looked_at.json("artifacts", "firm", "--type", "PARTY", "--name", "maria kéller")["artifacts"]
    assert (keller["name"], keller["sources"], keller["scope"]) == ("Maria Keller", 2, "corpus")
    told = looked_at.ok("artifacts", "firm", "--type", "Party")
    assert f"Maria Keller  2 sources  {keller['file']}" in told
    assert looked_at.json("artifacts", "firm", "--name", "no such name at all")["artifacts"] == []
    assert "Party, Digest, Invoice" in looked_at("artifacts", "firm", "--type", "Planet", "--json").refusal["remedy"]
    assert looked_at("artifacts", "nowhere", "--json").refusal["code"] == "no_context"
    assert looked_at("artifacts", "firm", "--version", "9", "--json").refusal["code"] == "no_version"
    assert looked_at.json("versions", "firm")["versions"][0]["pins"] == []


def test_graph_names_neighbours_and_the_sources_of_each_edge(looked_at: Any) -> None:
    found = looked_at.json("graph", "firm", "MARIA KELLER")
    called = {node["id"]: node["name"] for node in found["nodes"]}
    assert found["nodes"][0]["name"] == "Maria Keller"
    assert {node["distance"] for node in found["nodes"]} == {0, 1}
    to_stein = [
        e for e in found["edges"] if {called[e["source"]], called[e["target"]]} == {"Maria Keller", "Ulla Stein"}
    ]
    assert to_stein
    for edge in to_stein:
        assert edge["type"] == "related to"
        assert [s["path"] for s in edge["supports"]] == ["stage.md"] * edge["sources"]
        assert set(edge["attributes"]) <= {"role"}
    assert "Hansa Steel" not in called.values()
    further = looked_at.json("graph", "firm", found["nodes"][0]["id"], "--depth", "3")
    assert "Hansa Steel" in {node["name"] for node in further["nodes"]}
    alone = looked_at("graph", "firm", "Maria Keller", "--max", "1", "--json")
    assert len(alone.document["nodes"]) == 1
    assert alone.document["left_out"] == len(found["nodes"]) - 1
    assert "left out" in alone.err
    told = looked_at.ok("graph", "firm", "Maria Keller")
    assert "--related to-->" in told
    assert "stage.md" in told
    dot = looked_at.ok("graph", "firm", "Maria Keller", "--dot")
    assert dot.startswith("digraph lamina {")
    assert '[label="related to"]' in dot


def test_graph_refuses_what_it_does_not_know(looked_at: Any) -> None:
    refused = looked_at("graph", "firm", "Maria Kellar", "--json").refusal
    assert refused["code"] == "no_artifact"
    assert "Maria Keller" in refused["remedy"]
    assert looked_at("graph", "firm", "Maria Keller", "--depth", "5", "--json").refusal["code"] == "bad_graph"
    assert looked_at("graph", "firm", "", "--json").refusal["code"] == "no_artifact"
    digest = looked_at("graph", "firm", "Maria Keller", "--type", "Digest", "--json").refusal
    assert digest["code"] == "no_artifact"


def test_files_are_listed_read_and_exported(looked_at: Any, tmp_path: Path) -> None:
    listed = looked_at.json("knowledge", "list", "firm")["files"]
    assert [f["path"] for f in listed] == sorted(f["path"] for f in listed)
    page = next(f["path"] for f in listed if f["path"].startswith("artifacts/party/maria-keller"))
    text = looked_at.json("knowledge", "read", "firm", page)["text"]
    assert text.startswith("---\n")
    assert "# Maria Keller" in looked_at.ok("knowledge", "read", "firm", page)
    assert "export" in looked_at("knowledge", "read", "firm", "artifacts/knowledge.sqlite", "--json").refusal["remedy"]
    assert looked_at("knowledge", "read", "firm", "../../etc/passwd", "--json").refusal["code"] == "no_file"
    out = tmp_path / "out" / "files"
    done = looked_at.json("knowledge", "export", "firm", out)
    assert done["files"] == len(listed)
    assert done["missed"] == []
    assert (out / page).read_text("utf-8") == text
    assert {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()} == {f["path"] for f in listed}
    refused = looked_at("knowledge", "export", "firm", out, "--json").refusal
    assert refused["code"] == "not_empty"
    (out / page).write_text("spoiled")
    (out / "own.txt").write_text("stays")
    assert looked_at.json("knowledge", "export", "firm", out, "--force")["files"] == len(listed)
    assert (out / page).read_text("utf-8") == text
    assert (out / "own.txt").read_text() == "stays"


def test_an_export_never_follows_a_link_out_of_its_folder(looked_at: Any, tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (elsewhere / "victim").write_text("untouched")
    (out / "artifacts").symlink_to(elsewhere)
    (out / "chunks").mkdir()
    (out / "chunks" / "stage.md.chunks.jsonl").symlink_to(elsewhere / "victim")
    ended = looked_at("knowledge", "export", "firm", out, "--force", "--json")
    assert ended.status == 1
    assert all(each["path"].startswith("artifacts/") for each in ended.document["missed"])
    assert [p.name for p in elsewhere.iterdir()] == ["victim"]
    assert (elsewhere / "victim").read_text() == "untouched"
    assert not (out / "chunks" / "stage.md.chunks.jsonl").is_symlink()


def test_sql_reads_and_nothing_else(looked_at: Any) -> None:
    asked = "SELECT number, amount FROM invoice WHERE number LIKE 'INV-%' ORDER BY number"
    found = looked_at.json("sql", "firm", asked)
    assert found["columns"] == ["number", "amount"]
    assert found["rows"] == [["INV-1", 120.0], ["INV-2", 75.0]]
    assert not found["more"]
    assert looked_at.json("sql", "firm", asked, "--rows", "1")["more"]
    assert "INV-2" in looked_at.ok("sql", "firm", asked)
    refused = looked_at("sql", "firm", "SELECT * FROM planet", "--json").refusal
    assert refused["code"] == "bad_sql"
    assert "invoice(number, supplier, amount" in refused["remedy"]
    for rows, seconds in (("0", "1"), ("100001", "1"), ("1", "0"), ("1", "nan")):
        refused = looked_at("sql", "firm", asked, "--rows", rows, "--seconds", seconds, "--json").refusal
        assert refused["code"] == "bad_limit"


def test_sql_without_a_database_says_why(curated: Any) -> None:
    refused = curated("sql", "zoo", "SELECT 1", "--json").refusal
    assert refused["code"] == "no_database"
    assert "format sqlite" in refused["message"]


def test_models_name_what_serves_each_tier_and_no_secret(lamina: Any) -> None:
    catalog = lamina.json("models")
    lamina.holds("ModelCatalog", catalog)
    assert set(catalog["tiers"]) == {"lite", "standard", "pro"}
    assert "is no language model" in lamina.ok("models")
    hosted = {
        "LAMINA_LANGUAGE": "openai",
        "LAMINA_OPENAI_BASE_URL": "http://127.0.0.1:9/v1",  # nobody listens there, and nobody is asked
        "LAMINA_OPENAI_API_KEY": "sk-very-secret",
        "LAMINA_OPENAI_MODEL_LITE": "small-one",
        "LAMINA_OPENAI_MODEL_PRO": "big-one",
    }
    ended = lamina("models", "--json", **hosted)
    lamina.holds("ModelCatalog", ended.document)
    assert ended.document["tiers"]["lite"] == "small-one"
    assert ended.document["tiers"]["pro"] == "big-one"
    assert {"small-one", "big-one", "lite", "standard", "pro"} == set(ended.document["supported_curate_models"])
    plain = lamina("models", **hosted)
    assert "secret" not in ended.out + ended.err + plain.out + plain.err
    none = lamina("models", "--json", LAMINA_LANGUAGE="none")
    lamina.holds("ModelCatalog", none.document)
    assert none.document["models"] == []


# ---- merges


def test_a_pin_joins_two_subjects_until_it_is_taken_back(firm: Any) -> None:
    assert not joined(firm, "Tomas Brandt", "Ulla Stein")
    told = firm.json("merges", "pin", "firm", "party", "ulla stein", "Tomas Brandt")["decision"]
    assert told["names"] == ["Tomas Brandt", "Ulla Stein"]
    assert told["state"] == "pending"
    assert not joined(firm, "Tomas Brandt", "Ulla Stein")
    again = firm.json("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")["decision"]
    assert again["id"] == told["id"]
    after_more_curates(firm, lambda: joined(firm, "Tomas Brandt", "Ulla Stein"))
    listed = firm.json("merges", "list", "firm", "--type", "Party")
    assert [d["state"] for d in listed["decisions"]] == ["held"]
    assert [m["rule"] for s in listed["subjects"] for m in s["merges"] if s["name"] in told["names"]] == ["pinned"]
    assert "it holds already" in firm.ok("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")
    undone = firm.json("merges", "withdraw", "firm", told["id"])
    assert undone["undone_by_next_curate"]
    assert [d["state"] for d in firm.json("merges", "list", "firm")["decisions"]] == ["withdrawn"]
    after_more_curates(firm, lambda: not joined(firm, "Tomas Brandt", "Ulla Stein"))
    assert {"Tomas Brandt", "Ulla Stein"} <= called(firm)
    assert firm.json("merges", "list", "firm")["decisions"] == []


def test_a_forbid_keeps_apart_what_the_rules_would_join(firm: Any) -> None:
    left, right = "Northwind Logistics", "Northwind Logistics Ltd"
    assert joined(firm, left, right)
    assert "legal form" in firm.ok("merges", "list", "firm")
    decision = firm.json("merges", "forbid", "firm", "Party", right, left)["decision"]
    after_more_curates(firm, lambda: not joined(firm, left, right))
    assert {left, right} <= called(firm)
    firm.ok("merges", "withdraw", "firm", decision["id"])
    after_more_curates(firm, lambda: joined(firm, left, right))


def test_a_split_gives_a_name_a_meaning_of_its_own_in_a_source(firm: Any) -> None:
    assert kellers(firm) == 1
    decision = firm.json("merges", "split", "firm", "Party", "maria keller", "--source", "stage.md")["decision"]
    assert (decision["names"], decision["sources"]) == (["Maria Keller"], ["stage.md"])
    after_more_curates(firm, lambda: kellers(firm) == 2)
    refused = firm("graph", "firm", "Maria Keller", "--json").refusal
    assert refused["code"] == "several_artifacts"
    ids = [line.split()[0] for line in refused["remedy"].splitlines()[1:]]
    around = [{s["path"] for e in firm.json("graph", "firm", i)["edges"] for s in e["supports"]} for i in ids]
    assert sorted(map(sorted, around)) == [["harbour.md", "more.md"], ["stage.md"]]
    firm.ok("merges", "withdraw", "firm", decision["id"])
    after_more_curates(firm, lambda: kellers(firm) == 1)


def test_a_decision_survives_a_rollback(firm: Any) -> None:
    firm.ok("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")
    curate(firm)
    firm.ok("rollback", "firm")
    assert not joined(firm, "Tomas Brandt", "Ulla Stein")
    firm.write("firm/more.md", "# More\n\nNobody saw Hansa Steel that year.\n")
    curate(firm)
    assert joined(firm, "Tomas Brandt", "Ulla Stein")


def test_a_withdrawal_before_any_run_leaves_nothing_to_undo(firm: Any) -> None:
    decision = firm.json("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")["decision"]
    assert "nothing to undo" in firm.ok("merges", "withdraw", "firm", decision["id"])
    assert firm.json("merges", "list", "firm")["decisions"] == []
    assert firm("merges", "withdraw", "firm", decision["id"], "--json").refusal["code"] == "no_decision"


def test_a_withdrawal_that_is_taken_back_changes_nothing(firm: Any) -> None:
    """The pin still holds in the live version, so that withdrawing it once more has something to undo."""
    pin = ("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")
    decision = firm.json(*pin)["decision"]
    curate(firm)
    firm.ok("merges", "withdraw", "firm", decision["id"])
    assert firm.json(*pin)["decision"]["state"] == "held"
    assert firm.json("merges", "withdraw", "firm", decision["id"])["undone_by_next_curate"]
    curate(firm)
    assert not joined(firm, "Tomas Brandt", "Ulla Stein")


def test_decisions_that_can_not_be_meant_are_refused(firm: Any) -> None:
    def code(*arguments: str) -> str:
        refusal: dict[str, str] = firm("merges", *arguments, "--json").refusal
        assert refusal["remedy"]
        return refusal["code"]

    assert code("pin", "nowhere", "Party", "Tomas Brandt", "Ulla Stein") == "no_context"
    assert code("pin", "firm", "Planet", "Tomas Brandt", "Ulla Stein") == "no_type"
    assert code("pin", "firm", "Digest", "The harbour", "The stage") == "not_merged"
    assert code("pin", "firm", "Party", "Tomas Brandt", "TOMAS  BRANDT") == "same_name"
    assert code("pin", "firm", "Party", "Tomas Brandt", "") == "no_subject"
    near = firm("merges", "pin", "firm", "Party", "Tomas Brant", "Ulla Stein", "--json").refusal
    assert near["code"] == "no_subject"
    assert "Tomas Brandt" in near["remedy"]
    assert code("split", "firm", "Party", "Ulla Stein") == "no_source"
    assert code("split", "firm", "Party", "Ulla Stein", "--source", "gone.md") == "no_source"
    wrong = firm("merges", "split", "firm", "Party", "Ulla Stein", "--source", "steel.md", "--json").refusal
    assert wrong["code"] == "not_mentioned"
    assert "stage.md" in wrong["remedy"]
    firm.ok("merges", "pin", "firm", "Party", "Tomas Brandt", "Ulla Stein")
    firm.ok("merges", "pin", "firm", "Party", "Ulla Stein", "Hansa Steel")
    assert code("forbid", "firm", "Party", "Ulla Stein", "Tomas Brandt") == "contradiction"
    assert code("forbid", "firm", "Party", "Hansa Steel", "Tomas Brandt") == "contradiction"
    firm.ok("merges", "forbid", "firm", "Party", "Maria Keller", "Hansa Steel")
    assert code("pin", "firm", "Party", "Maria Keller", "Tomas Brandt") == "contradiction"
    assert len(firm.json("merges", "list", "firm")["decisions"]) == 3
