"""profile: the contract's document, nothing persisted, and bands that hold what curating then really takes."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path
from typing import Any

from pipeline import tokens
from pipeline.artifacts.candidates import read
from tests.openai_server import OpenAIServer, Reply, completion

MANIFEST = {
    "curate": {
        "artifacts": {
            "enabled": True,
            "artifact_types": [
                {"name": "Party", "kind": "entity", "scope": "corpus"},
                {"name": "Digest", "kind": "summary", "scope": "document"},
            ],
        }
    }
}
FIRST = [
    "Maria",
    "Tomas",
    "Ulla",
    "Erik",
    "Anna",
    "Bruno",
    "Clara",
    "Dario",
    "Edda",
    "Felix",
    "Greta",
    "Hanno",
    "Ida",
    "Jonas",
    "Karla",
    "Lukas",
]
LAST = [
    "Keller",
    "Brandt",
    "Stein",
    "Halvorsen",
    "Moreau",
    "Lindqvist",
    "Castellan",
    "Dvorak",
    "Egger",
    "Fontaine",
    "Grimaldi",
    "Hofmann",
]
WORDS = [
    "the",
    "board",
    "met",
    "and",
    "agreed",
    "that",
    "work",
    "on",
    "harbour",
    "roads",
    "would",
    "begin",
    "after",
    "review",
    "of",
    "costs",
    "by",
    "spring",
]
CORPORA = 10
OVER = 6
"""Tokens that the server counts for a chat's frame."""


def corpus(folder: Path, seed: int) -> Path:
    """30 to 60 documents of very different length that share some of their people."""
    draw = random.Random(seed)
    people = [f"{a} {b}" for a in FIRST for b in LAST]
    draw.shuffle(people)
    folder.mkdir(parents=True)
    for n in range(draw.randint(30, 60)):
        lines = [f"# Minutes {n}"]
        for _ in range(max(1, round(draw.lognormvariate(1.5, 0.7)))):
            who = people[min(int(draw.expovariate(1 / 25)), len(people) - 1)]
            lines.append(
                f"On that day {who} wrote to {draw.choice(people[:60])}, as {' '.join(draw.choices(WORDS, k=30))}."
            )
        (folder / f"d{n:02}.md").write_text("\n\n".join(lines) + "\n", "utf-8")
    return folder


class Server:
    """Answers like a model whose replies have lengths of its own: lognormal about means that the seed picks."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.seed = seed
        self.means = {
            "mentions": draw.uniform(6, 40),
            "document": draw.uniform(60, 500),
            "artifact": draw.uniform(30, 250),
        }
        self.billed = 0

    def __call__(self, body: Any) -> Reply:
        form = body["response_format"]["json_schema"]
        prompt = body["messages"][1]["content"]
        draw = random.Random(f"{self.seed} {prompt}")

        def words() -> str:
            number = self.means[form["name"]] * math.exp(draw.gauss(0, 0.3))
            return " ".join(draw.choices(WORDS, k=max(1, round(number))))

        if form["name"] == "mentions":
            text = re.search(r"BEGIN (\w+)\n(.*)\nEND \1", prompt, re.DOTALL).group(2)
            listed = [
                {"type": "Party", "name": c.name, "aliases": [], "mention": words(), "quote": c.name}
                for c in read(text).candidates
                if draw.random() < 0.8
            ]
            value: Any = {"mentions": listed}
        elif form["name"] == "document":
            value = {"title": "Digest", "body": words()}
        else:
            value = {"body": words()}
        reply = json.dumps(value)
        given = (
            sum(tokens.count(m["content"]) for m in body["messages"]) + tokens.count(json.dumps(form["schema"])) + OVER
        )
        taken = tokens.count(reply)
        self.billed += given + taken
        usage = {"prompt_tokens": given, "completion_tokens": taken, "total_tokens": given + taken}
        return completion(reply, usage=usage)


def asking(server: OpenAIServer) -> dict[str, str]:
    """The environment of a deployment that asks this server."""
    return {
        "LAMINA_LANGUAGE": "openai",
        "LAMINA_OPENAI_BASE_URL": server.base_url,
        "LAMINA_OPENAI_MODEL_LITE": "seeded",
        "LAMINA_PRICE_LITE_IN": "1",
        "LAMINA_PRICE_LITE_OUT": "2",
    }


def lite(document: Any) -> dict[str, int]:
    found: dict[str, int] = document["cost"]["by_tier"]["lite"]["tokens"]
    return found


def inside(lamina: Any, seed: int, sample: int) -> tuple[bool, str]:
    """Calibrate, curate, and whether what the curate took is in the band."""
    folder = corpus(lamina.folder / f"corpus-{seed}-{sample}", seed)
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    script = Server(seed)
    with OpenAIServer(script) as server:
        home = {**asking(server), "LAMINA_HOME": str(lamina.folder / f"home-{seed}-{sample}")}
        ended = lamina(
            "profile", folder, "--manifest", manifest, "--calibrate", 8, "--sample", sample, "--json", **home
        )
        assert ended.status == 0, ended
        band, before = lite(ended.document), script.billed
        assert band["hi"] <= 2 * band["lo"]
        assert band["lo"] <= band["point"] <= band["hi"]
        done = lamina("curate", folder, "--manifest", manifest, "--json", **home)
        assert done.status == 0, done
        took = script.billed - before
    told = f"seed {seed}: {took} in {band['lo']}..{band['hi']} (point {band['point']})"
    return band["lo"] <= took <= band["hi"], told


def test_a_curate_takes_what_the_band_says(lamina: Any) -> None:
    """Of ten corpora, models and lengths of reply, nine stay inside, whether all is sampled or a part of it."""
    found = [inside(lamina, seed, (100, 20)[seed % 2]) for seed in range(CORPORA)]
    assert sum(held for held, _ in found) >= CORPORA - 1, [told for held, told in found if not held]


def test_an_estimate_persists_nothing(lamina: Any) -> None:
    """A folder that is no context gets an estimate that the contract knows, and is no context afterwards."""
    folder = corpus(lamina.folder / "minutes", 3)
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    with OpenAIServer(Server(3)) as server:
        ended = lamina("profile", folder, "--manifest", manifest, "--json", **asking(server))
        assert server.bodies == []
    lamina.holds("ProfileEstimateOutput", ended.document)
    found = ended.document
    files = len(list(folder.iterdir()))
    assert (found["sampling"]["n_total"], found["sampling"]["n_sampled"]) == (files, files)
    assert found["g"]["lo"] == found["g"]["value"] == found["g"]["hi"] > files
    assert found["g"]["method"] == "count"
    assert "assumption" in found["g"]["note"]
    assert 0 < lite(found)["lo"] <= lite(found)["point"] <= lite(found)["hi"] <= 2 * lite(found)["lo"]
    assert lite(found)["input"] + lite(found)["output"] == lite(found)["point"]
    assert lamina.json("contexts")["contexts"] == []


def test_what_is_live_and_unchanged_costs_nothing(lamina: Any) -> None:
    """After a curate the same estimate is nothing; one new document costs its own calls, another manifest costs all."""
    folder = lamina.zoo()
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    with OpenAIServer(Server(5)) as server:
        home = asking(server)
        first = lite(lamina("profile", folder, "--manifest", manifest, "--json", **home).document)
        assert lamina("curate", folder, "--manifest", manifest, **home).status == 0
        again = lamina("profile", "zoo", "--json", **home)
        lamina.holds("ProfileEstimateOutput", again.document)
        assert first["point"] > 0
        assert lite(again.document)["point"] == 0
        lamina.write("zoo/otters.md", "# News\n\nOn Monday Ulla Stein fed the otters.\n")
        more = lite(lamina("profile", "zoo", "--json", **home).document)
        assert 0 < more["point"] < first["point"]
        other = json.loads(json.dumps(MANIFEST))
        other["curate"]["artifacts"]["artifact_types"][1]["description"] = "In two sentences."
        lamina.write("other.json", json.dumps(other))
        anew = lite(lamina("profile", "zoo", "--manifest", lamina.folder / "other.json", "--json", **home).document)
        assert anew["point"] > more["point"]


def test_answers_bought_to_calibrate_are_not_bought_again(lamina: Any) -> None:
    """What --calibrate asked lies in the memo: the curate after it makes the calls that are left."""
    folder = corpus(lamina.folder / "minutes", 4)
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    files = len(list(folder.iterdir()))
    with OpenAIServer(Server(4)) as server:
        ended = lamina("profile", folder, "--manifest", manifest, "--calibrate", 5, **asking(server))
        bought = len(server.bodies)
        assert "calibrating took 15 calls" in ended.err
        assert bought == 15
        assert lamina("curate", folder, "--manifest", manifest, **asking(server)).status == 0
        asked = [body["response_format"]["json_schema"]["name"] for body in server.bodies]
    assert asked.count("mentions") == asked.count("document") == files


def test_the_extractive_model_bills_nothing(lamina: Any) -> None:
    """With the model of this machine tokens are 0 and the note says why."""
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    found = lamina.json("profile", lamina.zoo(), "--manifest", manifest)
    lamina.holds("ProfileEstimateOutput", found)
    assert {tier["tokens"]["hi"] for tier in found["cost"]["by_tier"].values()} == {0}
    assert "bills no tokens" in found["g"]["note"]


def test_with_nothing_to_sample_it_says_so(lamina: Any) -> None:
    """No artifacts asked for, no sources, none that can be read: each has its reason, in the contract's form."""
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    (lamina.folder / "bare").mkdir()
    lamina.write("scans/a.pdf", b"%PDF-1.4\nnot a pdf")
    for arguments, reason in (
        ((lamina.zoo(),), "asks for no artifacts"),
        ((lamina.folder / "bare", "--manifest", manifest), "no source"),
        ((lamina.folder / "scans", "--manifest", manifest), "none of the 1 sources"),
    ):
        found = lamina.json("profile", *arguments)
        lamina.holds("ProfileEmptyOutput", found)
        assert found["state"] == "empty"
        assert reason in found["reason"]
    assert "nothing to estimate" in lamina.ok("profile", lamina.zoo())


def test_people_read_a_table_with_money(lamina: Any) -> None:
    """Tiers, tokens and, where prices are set, money; a source that can't be read is told."""
    folder = lamina.zoo()
    lamina.write("zoo/bad.pdf", b"%PDF-1.4\nnot a pdf")
    manifest = lamina.write("manifest.json", json.dumps(MANIFEST))
    with OpenAIServer(Server(1)) as server:
        ended = lamina("profile", folder, "--manifest", manifest, **asking(server))
    lines = ended.out.splitlines()
    assert "3 of 3 sources read" in lines[0]
    assert any(re.match(r"lite \*.* 0\.\d\d to 0\.\d\d", line) for line in lines), ended.out
    assert any(re.match(r"pro .* -  ", line) for line in lines), ended.out
    assert "1 of 3 sources sampled hold no text" in " ".join(ended.out.split())


def test_what_is_no_folder_and_no_context_is_refused(lamina: Any) -> None:
    """A name that nothing has, a file, a sample of nothing."""
    assert lamina("profile", "nowhere", "--json").refusal["code"] == "no_context"
    assert lamina("profile", lamina.write("a.md", "a"), "--json").refusal["code"] == "not_a_folder"
    assert lamina("profile", lamina.zoo(), "--sample", "0", "--json").refusal["code"] == "usage"
