"""`lamina query` and `lamina chunks`: what is found, where it is said to stand, and how safely it is printed."""

from __future__ import annotations

from typing import Any

import pytest


def test_hits_are_laid_out_for_reading(curated: Any) -> None:
    """Rank, title and headings; source and span, score, version; the text; the logical id."""
    lines = curated.ok("query", "zoo", "feeding fish at dawn and dusk", "-k", "1").splitlines()
    hit = curated.json("query", "zoo", "feeding fish at dawn and dusk", "-k", "1")["hits"][0]
    assert lines[0] == "1. Otter guide > Feeding"
    assert lines[1].startswith(f"   guide.md:{hit['start']}-{hit['end']}  score 1.0000")  # best by meaning and by words
    assert lines[1].endswith("version 1")
    assert "Otters eat fish twice a day" in lines[2]
    assert lines[3] == f"   id {hit['logical_id']}"


def test_document_of_a_query(curated: Any) -> None:
    answer = curated.json("query", "zoo", "dams of branches", "--mode", "sparse")
    hit = answer["hits"][0]
    assert (answer["context"], answer["version"], answer["mode"]) == ("zoo", 1, "sparse")
    assert (hit["source_path"], hit["title"], hit["rank"], hit["version"]) == ("animals/beavers.md", "Beavers", 1, 1)
    text = (curated.folder / "zoo" / "animals" / "beavers.md").read_text()
    assert text[hit["start"] : hit["end"]] == hit["text"]
    assert curated.json("query", "zoo", "qqqq", "--mode", "sparse")["hits"] == []


def test_scope_filter_and_version(lamina: Any) -> None:
    zoo = lamina.zoo()
    lamina.ok("curate", zoo)

    def found(*arguments: str) -> set[str]:
        return {hit["source_path"] for hit in lamina.json("query", "zoo", "otters and beavers", *arguments)["hits"]}

    assert found() == {"guide.md", "animals/beavers.md"}
    assert found("--scope", "animals/") == {"animals/beavers.md"}
    assert found("--scope", "./animals", "--scope", "guide.md") == found()
    assert found("--scope", ".") == found()
    assert found("--filter", '{"title": "Beavers"}') == {"animals/beavers.md"}
    (zoo / "animals" / "beavers.md").unlink()
    lamina.ok("curate", zoo)
    assert found() == {"guide.md"}
    assert found("--version", "1") == {"guide.md", "animals/beavers.md"}


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nowhere", "x"), 2, "there is no context 'nowhere'"),
        (("zoo", "x", "--mode", "magic"), 2, "there is no mode 'magic'"),
        (("zoo", "x", "-k", "0"), 2, "k is 0"),
        (("zoo", "  "), 2, "the question is empty"),
        (("zoo", "x", "--filter", "{"), 2, "--filter is not JSON"),
        (("zoo", "x", "--filter", "[" * 100_000), 2, "nested too deeply"),
        (("zoo", "x", "--filter", '{"a": {"$near": 1}}'), 2, "$near"),
        (("zoo", "x", "--version", "99"), 2, "zoo has no version 99"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_refusals(curated: Any, arguments: tuple[str, ...], status: int, message: str) -> None:
    ended = curated("query", *arguments)
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err
    assert message in curated("query", *arguments, "--json").refusal["message"]


def test_nothing_curated_yet(curated: Any) -> None:
    ended = curated("query", "held", "text")
    assert ended.status == 2
    assert "run: lamina curate held" in ended.err


def test_a_document_can_not_steer_the_terminal(lamina: Any) -> None:
    """Escapes and controls vanish from what people read; JSON holds them escaped, and whole."""
    evil = "# Evil [bold]title[/bold]\n\nRed \x1b[31malert\x1b[0m, a bell \x07, a title \x1b]0;owned\x07, turned \u202eback.\n"
    lamina.write("zoo/evil.md", evil)
    lamina.ok("curate", lamina.zoo())
    for told in (lamina.ok("query", "zoo", "red alert bell"), lamina.ok("chunks", "zoo", "--source", "evil.md")):
        assert not set(told) & set("\x1b\x07\u202e\x9b")
        assert "Red alert, a bell , a title , turned back." in told
        assert "[bold]title[/bold]" in told
    ended = lamina("chunks", "zoo", "--source", "evil.md", "--json")
    assert not set(ended.out) & set("\x1b\x07\u202e\x9b")
    assert "\x1b[31malert" in ended.document["chunks"][0]["text"]


def test_chunks_lists_every_chunk_and_leaves_no_pin(curated: Any) -> None:
    everything = curated.json("chunks", "zoo")
    assert [c["source_path"] for c in everything["chunks"]] == ["animals/beavers.md", *["guide.md"] * 3]
    one = curated.json("chunks", "zoo", "--source", "animals/beavers.md")["chunks"]
    assert one == everything["chunks"][:1]
    assert "animals/beavers.md  (1 chunk)" in curated.ok("chunks", "zoo")
    assert curated.json("versions", "zoo")["versions"][0]["pins"] == []
    ended = curated("chunks", "zoo", "--source", "nothing.md")
    assert ended.status == 2
    assert "has no source nothing.md" in ended.err


def test_a_large_index_gets_a_graph_and_says_so(lamina: Any) -> None:
    """Past the setting the curate that made the version live builds a graph; --explain tells that it was asked."""
    items = "".join(
        f"## Item {i}\n\nThe {i}th thing is about subject {i % 97} and place {i % 89}.\n\n" for i in range(1300)
    )
    lamina.write("shop/items.md", items)
    ended = lamina("curate", lamina.folder / "shop", LAMINA_GRAPH_MIN_RECORDS="600", LAMINA_GRAPH_EF_SEARCH="48")
    assert ended.status == 0
    assert "graph: done" in ended.err
    answer = lamina.json("query", "shop", "Item 77", "--explain", "-k", "3")
    dense, sparse = (answer["explanation"]["legs"][name] for name in ("dense", "sparse"))
    assert dense["index"]["graphs"] == 1
    assert dense["index"]["by_graph"] > 600
    assert (dense["weight"], sparse["weight"]) == (0.5, 0.5)
    assert answer["hits"][0]["headings"] == ["Item 77"]
    assert answer["hits"][0]["score"] == pytest.approx(sum(answer["hits"][0]["shares"].values()))
    (graph,) = answer["explanation"]["graphs"]
    assert (graph["m"], graph["ef_construction"], graph["usable"]) == (16, 128, True)
    told = lamina.ok("query", "shop", "Item 77", "--explain", "-k", "1")
    assert "m 16, ef_construction 128, ef_search 48" in told
    assert "by 1 graph with" in told
    assert "dense adds" in told
    assert "graph" not in lamina("curate", "shop", LAMINA_GRAPH_MIN_RECORDS="600", LAMINA_GRAPH_EF_SEARCH="48").err


def test_an_explanation_of_one_retriever_has_no_shares(curated: Any) -> None:
    answer = curated.json("query", "zoo", "dams", "--mode", "sparse", "--explain")
    assert list(answer["explanation"]["legs"]) == ["sparse"]
    assert answer["hits"][0]["shares"] == {}
    assert "sparse (rank 1" in curated.ok("query", "zoo", "dams", "--mode", "sparse", "--explain")
    assert "explanation" not in curated.json("query", "zoo", "dams")


def test_reranking_is_refused_unless_it_is_served(curated: Any) -> None:
    ended = curated("query", "zoo", "dams", "--rerank")
    assert ended.status == 2
    assert "set reranker to minilm" in ended.err
    ended = curated("query", "zoo", "dams", LAMINA_RERANKER="magic")
    assert "use none, minilm or pinecone" in ended.err


def test_the_reranker_puts_hits_in_order(curated: Any) -> None:
    ended = curated("query", "zoo", "When do otters eat?", "--rerank", "--explain", "--json", LAMINA_RERANKER="minilm")
    answer = ended.document
    scores = [hit["score"] for hit in answer["hits"]]
    assert answer["hits"][0]["headings"][-1] == "Feeding"
    assert scores == sorted(scores, reverse=True)
    assert all(hit["scores"]["rerank"] == hit["score"] for hit in answer["hits"])
    assert answer["explanation"]["reranker"].startswith("ms-marco-MiniLM-L12")
    told = curated(
        "query", "zoo", "When do otters eat?", "--rerank", "--explain", "-k", "1", LAMINA_RERANKER="minilm"
    ).out
    assert "rerank says 0.9" in told


def test_a_field_or_folder_that_is_not_there_is_told(curated: Any) -> None:
    """Nothing found is an answer; that the filter can't hold of anything is worth a word, on standard error."""
    ended = curated("query", "zoo", "otters", "--filter", '{"titel": "Beavers"}')
    assert (ended.status, ended.out.strip()) == (0, "nothing found in zoo, version 1")
    assert "no passage of version 1 has the field titel" in ended.err
    assert "holds nothing under nowhere" in curated("query", "zoo", "otters", "--scope", "nowhere").err
    for quiet in (("--filter", '{"title": "Nothing"}'), ("--scope", "animals"), ()):
        assert curated("query", "zoo", "otters", *quiet).err == ""
