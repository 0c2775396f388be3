"""The alias set is what its README says: counts, spans, namesakes kept apart by what stands around them, two halves."""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from aliases import generate

HERE = Path(generate.__file__).parent
DOCUMENTS = [json.loads(line) for line in (HERE / "set.jsonl").read_text("utf-8").splitlines()]
SUBJECTS = {row["id"]: row for row in map(json.loads, (HERE / "subjects.jsonl").read_text("utf-8").splitlines())}
MENTIONS = [(d, m) for d in DOCUMENTS for m in d["mentions"]]
GROUPS = defaultdict(list)
for _subject in SUBJECTS.values():
    GROUPS[_subject["group"]].append(_subject)
UNGROUPED = GROUPS.pop("")


def bearers_of_names():
    bearers = defaultdict(set)
    for subject in SUBJECTS.values():
        for form in subject["forms"]:
            bearers[generate.folded(form)].add(subject["id"])
    return bearers


def stands_in(phrase, text):
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


def test_set_is_large_enough():
    assert len(SUBJECTS) >= 320
    assert len(MENTIONS) >= 1700
    assert len(DOCUMENTS) >= 300
    assert sum(map(len, GROUPS.values())) * 3 >= len(SUBJECTS)
    assert len({d["path"] for d in DOCUMENTS}) == len(DOCUMENTS)
    assert {s["kind"] for s in SUBJECTS.values()} == {"person", "product", "place", "organisation"}


def test_documents_have_a_heading_and_the_agreed_length():
    for document in DOCUMENTS:
        assert document["text"].startswith("# ")
        assert 60 <= len(document["text"].split()) <= 250, document["path"]


def test_spans_equal_surfaces_and_follow_one_another():
    for document in DOCUMENTS:
        end = 0
        for mention in document["mentions"]:
            assert mention["start"] >= end
            end = mention["end"]
            assert document["text"][mention["start"] : end] == mention["surface"]
            assert mention["surface"] in SUBJECTS[mention["subject"]]["forms"]


def test_no_name_stands_unmarked():
    for document in DOCUMENTS:
        rest = list(document["text"])
        for mention in document["mentions"]:
            rest[mention["start"] : mention["end"]] = "\x00" * (mention["end"] - mention["start"])
        unmarked = "".join(rest)
        for surface in {m["surface"] for m in document["mentions"]}:
            assert not stands_in(surface, unmarked), (document["path"], surface)


def test_one_name_means_one_subject_within_a_document():
    for document in DOCUMENTS:
        meant = defaultdict(set)
        for mention in document["mentions"]:
            meant[generate.folded(mention["surface"])].add(mention["subject"])
        assert all(len(ids) == 1 for ids in meant.values()), document["path"]


def test_every_subject_stands_in_two_documents_and_under_two_names():
    paths, names = defaultdict(set), defaultdict(set)
    for document, mention in MENTIONS:
        paths[mention["subject"]].add(document["path"])
        names[mention["subject"]].add(mention["surface"])
    assert set(paths) == set(SUBJECTS)
    assert min(map(len, paths.values())) >= 2
    assert min(map(len, names.values())) >= 2


def test_namesake_groups_hold_two_subjects_of_one_half():
    for group, subjects in GROUPS.items():
        assert len(subjects) >= 2, group
        assert len({s["split"] for s in subjects}) == 1, group


def test_a_name_of_two_subjects_makes_them_a_group():
    for name, ids in bearers_of_names().items():
        groups = {SUBJECTS[i]["group"] for i in ids}
        assert len(ids) == 1 or (len(groups) == 1 and "" not in groups), (name, ids)


def test_a_shared_name_stands_with_its_own_context_and_none_of_its_namesake():
    bearers = bearers_of_names()
    seen = 0
    for document, mention in MENTIONS:
        for other in bearers[generate.folded(mention["surface"])] - {mention["subject"]}:
            seen += 1
            own = SUBJECTS[mention["subject"]]["context"]
            assert any(stands_in(phrase, document["text"]) for phrase in own), (document["path"], mention)
            assert not any(stands_in(phrase, document["text"]) for phrase in SUBJECTS[other]["context"]), (
                document["path"],
                mention,
            )
    assert seen >= 100


def test_surnames_and_shared_initials_follow_the_name_in_full():
    bearers = bearers_of_names()
    for document in DOCUMENTS:
        named = set()
        for mention in document["mentions"]:
            shared = len(bearers[generate.folded(mention["surface"])]) > 1
            if mention["variation"] == "surname" or (mention["variation"] == "initials" and shared):
                assert mention["subject"] in named, (document["path"], mention)
            elif mention["variation"] != "initials":
                named.add(mention["subject"])


def test_every_acronym_is_expanded_in_one_document_and_alone_in_another():
    forms = defaultdict(lambda: defaultdict(set))
    for document, mention in MENTIONS:
        acronym = mention["variation"] in {"acronym", "dotted acronym"}
        forms[mention["subject"]][document["path"]].add("short" if acronym else "long")
    bodies = [s["id"] for s in SUBJECTS.values() if s["thing"] == "body"]
    for body in bodies:
        kinds = list(forms[body].values())
        assert {"short", "long"} in kinds, body
    assert sum({"short"} in forms[body].values() for body in bodies) * 4 >= len(bodies) * 3


@pytest.mark.parametrize(
    ("variation", "least"),
    [
        ("plain", 900),
        *((v, 80) for v in ("case", "hyphen", "initials", "legal suffix")),
        *((v, 20) for v in ("accent", "nfd", "full width", "no-break space", "plural", "word order", "abbreviation")),
        *((v, 20) for v in ("title", "surname", "middle initial", "middle name", "acronym", "dotted acronym")),
    ],
)
def test_variations_are_well_represented(variation, least):
    assert Counter(m["variation"] for _, m in MENTIONS)[variation] >= least


def test_halves_are_alike_in_size_and_share_nothing():
    halves = {split: [s for s in SUBJECTS.values() if s["split"] == split] for split in ("tune", "report")}
    sizes = [len(half) for half in halves.values()]
    assert sum(sizes) == len(SUBJECTS) and max(sizes) <= 1.05 * min(sizes)
    names = [{generate.folded(f) for s in half for f in s["forms"]} for half in halves.values()]
    assert not names[0] & names[1]
    for document, mention in MENTIONS:
        assert document["split"] == SUBJECTS[mention["subject"]]["split"]
        assert document["path"].startswith(document["split"] + "/")


def test_generating_again_gives_the_same_bytes():
    documents, subjects = generate.build()
    assert generate.as_lines(documents) == (HERE / "set.jsonl").read_bytes()
    assert generate.as_lines(subjects) == (HERE / "subjects.jsonl").read_bytes()
