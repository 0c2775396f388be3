"""O-25 to O-30: artifacts, their tables, and subjects. Every assertion as the cases state it, through whole curates."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest
from knowledge_facts import knowledge, nothing_of
from world import SLUG, World

from manifests import Manifest, manifest_from
from pipeline.artifacts.clusters import Mention
from pipeline.artifacts.grouping import group
from pipeline.models import CatalogModel, MentionsTask, ModelReply, ModelRequest, ReduceTask, Tier, TokenUsage
from pipeline.rows import RunRow

DATABASE = "artifacts/knowledge.sqlite"


class Scripted:
    """A language model whose answers a test gives; no answer is made up here."""

    deterministic = False

    def __init__(self, answer: Callable[[ModelRequest], tuple[Any, str]]) -> None:
        self._answer = answer
        self.calls: list[ModelRequest] = []

    def model(self, tier: Tier) -> str:
        return f"scripted-{tier}"

    def catalog(self) -> tuple[CatalogModel, ...]:
        return (CatalogModel("scripted-lite", "Scripted", "test"),)

    def answer(self, request: ModelRequest) -> ModelReply:
        self.calls.append(request)
        value, finish = self._answer(request)
        text = value if isinstance(value, str) else json.dumps(value)
        return ModelReply(text, finish, TokenUsage(10, 5), "scripted-lite")  # type: ignore[arg-type]


def manifest(types: list[dict[str, Any]], edges: list[dict[str, Any]] | None = None) -> Manifest:
    artifacts = {"enabled": True, "artifact_types": types, "edge_types": edges or []}
    return manifest_from({"curate": {"artifacts": artifacts}})


def table(columns: list[str], key: tuple[str, ...]) -> dict[str, Any]:
    return {
        "name": "t", "scope": "document", "format": "sqlite", "natural_key": list(key),
        "columns": [{"name": name} for name in columns],
    }  # fmt: skip


def text(world: World, path: str, content: str) -> None:
    world.files[path] = content.encode()  # type: ignore[index]
    world.tree.touched[path] = int(world.clock.now() * 1e9)  # type: ignore[index]


def rows(world: World, sql: str) -> list[tuple[Any, ...]]:
    """What the live version's database says."""
    live = world.live()
    with world.ledger.read() as session:
        files = [f for f in session.files.page(SLUG, live, "", 1000) if f.path == DATABASE]
    if not files:
        return []
    db = sqlite3.connect(":memory:")
    db.deserialize(world.objects.get(files[0].blob))
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def delta(run: RunRow) -> dict[str, Any]:
    return dict(json.loads(run.output)["delta"])


class TestO25AnAnswerCutOff:
    """An answer cut off by the output limit."""

    ANSWERS = (
        ('{"rows":[{"term":"Gate","def":"opens"},{"term":"Lat', "length"),
        ('{"rows":[{"term":"Gate","def":"opens"},{"term":"Latch","def":"holds"}]}', "stop"),
    )

    def test_nothing_of_it_lives_and_the_next_run_asks_again(self) -> None:
        model = Scripted(lambda _request: self.ANSWERS[min(len(model.calls), 2) - 1])
        world = World(language=model)
        kept: dict[str, bytes] = world.memo._values  # type: ignore[attr-defined]
        text(world, "a.md", "# Parts\n\nA gate opens. A latch holds.\n")
        wanted = manifest([table(["term", "def"], ("term",))])
        first = world.curate(wanted)
        assert json.loads(first.output)["status"] == "partial"
        assert rows(world, "SELECT * FROM t") == []
        assert (delta(first)["failed_sources"], delta(first)["artifacts_errored"]) == (["a.md"], 1)
        with world.ledger.read() as session:
            (source,) = session.sources.page(SLUG, 1, "", 10)
        assert "cut off" in source.artifact_reason
        assert not any(b"Gate" in value and b"opens" in value and b"rows" in value for value in kept.values())
        world.curate(wanted)
        assert len(model.calls) == 2
        assert sorted(rows(world, "SELECT term, def FROM t")) == [("Gate", "opens"), ("Latch", "holds")]
        assert world.curate(wanted).state == "noop"
        world.close()


class TestO26AMissingPartOfANaturalKey:
    """SQL takes each NULL for another value; a key must hold all the same."""

    KEY = ("term", "lang")
    ROWS = (
        {"term": "Gate", "lang": None, "def": "a"},
        {"term": "Gate", "def": "b"},
        {"term": "Latch", "lang": "en", "def": "c"},
    )

    def test_three_passes(self) -> None:
        world = World(language=Scripted(lambda _request: ({"rows": list(self.ROWS)}, "stop")))
        text(world, "a.md", "# Parts\n\nGate and latch.\n")
        wanted = manifest([table(["term", "lang", "def"], self.KEY)])
        for number in range(3):
            run = world.curate(wanted, force=number > 0, artifacts_reset=number > 0)
            assert rows(world, "SELECT count(*) FROM t WHERE term = 'Latch'") == [(1,)]
            assert rows(world, "SELECT def FROM t WHERE term = 'Gate'") == [("b",)]
            if not number:
                assert any("def was 'a'" in told for told in json.loads(run.notes)["conflicts"])
        unique = [name for _, name, unique, *_ in rows(world, "PRAGMA index_list(t)") if unique]
        assert [[c for _, _, c in rows(world, f"PRAGMA index_info({name})")] for name in unique] == [["term", "lang"]]
        world.close()


class TestO27ColumnNames:
    """Column names that collide or are SQL words."""

    ROWS = (
        {"id": "x1", "order": 3, "Group": "A"},
        {"id": "x2", "order": 4, "group": "B", "select": "*", 'say "hi"': "q", "1st": "n", "a b": "s"},
    )
    COLUMNS = ("id", "order", "Group", "group", "select", 'say "hi"', "1st", "a b")

    def test_every_value_can_be_read_back(self) -> None:
        world = World(language=Scripted(lambda _request: ({"rows": list(self.ROWS)}, "stop")))
        text(world, "a.md", "# Rows\n\nx1 and x2.\n")
        type_ = table(list(self.COLUMNS), ("id",))
        type_["columns"][1]["type"] = "INTEGER"
        for number in range(2):
            world.curate(manifest([type_]), force=number > 0, artifacts_reset=number > 0)
            assert rows(world, "SELECT count(*) FROM t") == [(2,)]
        assert rows(world, 'SELECT "order" FROM t ORDER BY id') == [(3,), (4,)]
        assert rows(world, 'SELECT "group" FROM t ORDER BY id') == [("A",), ("B",)]
        columns = [name for _, name, *_ in rows(world, "PRAGMA table_info(t)")]
        assert [c.lower() for c in columns].count("group") == 1
        stored = dict(rows(world, "SELECT name, column_name FROM _columns"))
        for name, value in (("select", "*"), ('say "hi"', "q"), ("1st", "n"), ("a b", "s")):
            assert rows(world, f"""SELECT "{stored[name]}" FROM t WHERE id = 'x2'""") == [(value,)]
        world.close()


class TestO28OneSubjectManySpellings:
    """Spellings that are one subject, and plurals that are none."""

    MENTIONS = (
        ("d1", "Café Router"), ("d2", "cafe\u0301 router"), ("d3", "CAFÉ ROUTERS"), ("d4", "Café\u00a0 Router"),
        ("d5", "\uff23afé Router"), ("d6", "Café Router"), ("d7", "Mars"), ("d8", "Mar"), ("d9", "Glass"), ("d10", "Glas"),
    )  # fmt: skip

    def test_five_subjects_whatever_the_order(self) -> None:
        seen = set()
        for seed in range(20):
            mentions = [Mention(f"{d}-{name}", d, 0, name) for d, name in self.MENTIONS]
            random.Random(seed).shuffle(mentions)
            seen.add(tuple((g.key, g.name, g.aliases, tuple(m.id for m in g.mentions)) for g in group(mentions)))
        assert len(seen) == 1
        (groups,) = seen
        by_name = {name: (aliases, {m.split("-")[0] for m in members}) for _, name, aliases, members in groups}
        assert set(by_name) == {"Café Router", "Mars", "Mar", "Glass", "Glas"}
        aliases, sources = by_name["Café Router"]
        assert sources == {"d1", "d2", "d3", "d4", "d5", "d6"}
        assert set(aliases) == {name for _, name in self.MENTIONS[:6]} - {"Café Router"}


THING = {"name": "thing", "kind": "entity"}


def told(request: ModelRequest) -> tuple[Any, str]:
    """Reads lines such as `Pump feeds Tank: a says`, and joins notes."""
    task = request.task
    if isinstance(task, ReduceTask):
        return {"body": "\n".join(f"{note} [{i}]" for i, note in enumerate(task.notes, 1))}, "stop"
    assert isinstance(task, MentionsTask)
    verbs = "|".join(e.name for e in task.edges)
    mentions, edges = {}, []
    for left, verb, right, note in re.findall(rf"^(.+?) ({verbs}) (.+?): (.+)$", task.text, re.MULTILINE):
        for name in (left, right):
            mentions.setdefault(name, {"type": "thing", "name": name, "aliases": [], "mention": note, "quote": note})
        edges.append({"edge": verb, "from": left, "to": right, "quote": note})
    return {"mentions": list(mentions.values()), "edges": edges}, "stop"


def edge_types(*verbs: str) -> list[dict[str, Any]]:
    return [{"name": verb, "from": "thing", "to": "thing"} for verb in verbs]


def edges(world: World) -> dict[tuple[str, str, str], set[str]]:
    """(from, edge, to) to the sources that support it, by names; ends must be live subjects."""
    live = world.live()
    with world.ledger.read() as session:
        held = session.knowledge.page_edges(SLUG, live, "", 1000)
        names = {s.id: s.name for s in session.knowledge.page_subjects(SLUG, live, "", 1000)}
    out: dict[tuple[str, str, str], set[str]] = {}
    for edge in held:
        out.setdefault((names[edge.source], edge.type, names[edge.target]), set()).add(edge.path)
    return out


def subjects(world: World) -> dict[str, set[str]]:
    """Name to the sources that mention it."""
    live = world.live()
    with world.ledger.read() as session:
        found = session.knowledge.page_subjects(SLUG, live, "", 1000)
        members = session.knowledge.members_at(SLUG, live, [s.id for s in found])
    return {s.name: {m.path for m in members if m.subject == s.id} for s in found}


class TestO29ASourceIsDeleted:
    """What a deleted source said is gone, and comes back as it was with the source."""

    def test_gone_and_back(self) -> None:
        world = World(language=Scripted(told))
        wanted = manifest([THING], edge_types("feeds"))
        text(world, "a.md", "# A\n\nPump feeds Tank: a says\n")
        text(world, "b.md", "# B\n\nTank feeds Tower: b says\n")
        world.curate(wanted)
        first = knowledge(world, 1)
        world.drop("b.md")
        world.curate(wanted)
        assert set(subjects(world)) == {"Pump", "Tank"}
        assert edges(world) == {("Pump", "feeds", "Tank"): {"a.md"}}
        assert nothing_of("b.md", world, 2)
        assert "b says" not in json.dumps(knowledge(world, 2), default=repr)
        text(world, "b.md", "# B\n\nTank feeds Tower: b says\n")
        world.curate(wanted)
        again = knowledge(world, 3)
        assert [name for name in first if first[name] != again[name]] == []
        world.close()


class TestO30EdgesAfterAMerge:
    """Edges follow their subjects into a merge; none turns on itself, doubles or turns around."""

    EDGES = (
        ("d1", "Acme Pumps", "supplies", "Dock"), ("d2", "ACME PUMPS", "supplies", "Dock"),
        ("d2", "Dock", "pays", "ACME PUMPS"), ("d3", "ACME PUMPS", "audits", "Acme Pumps"),
        ("d4", "Acme Pumps", "pays", "Dock"),
    )  # fmt: skip

    @pytest.mark.parametrize("together", [True, False])
    def test_exactly_three(self, together: bool) -> None:
        world = World(language=Scripted(told))
        wanted = manifest([THING], edge_types("supplies", "pays", "audits"))
        for d in ("d1", "d2", "d3", "d4"):
            lines = "".join(f"{a} {e} {b}: {d} says\n" for source, a, e, b in self.EDGES if source == d)
            text(world, f"{d}.md", f"# {d}\n\n{lines}")
            if not together:
                world.curate(wanted)
        world.curate(wanted)
        assert edges(world) == {
            ("Acme Pumps", "supplies", "Dock"): {"d1.md", "d2.md"},
            ("Dock", "pays", "Acme Pumps"): {"d2.md"},
            ("Acme Pumps", "pays", "Dock"): {"d4.md"},
        }
        assert subjects(world)["Acme Pumps"] == {"d1.md", "d2.md", "d3.md", "d4.md"}
        world.close()
