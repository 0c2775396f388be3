"""O-31 and O-32: what reaches the index. Metadata values that it refuses, vectors that would poison it."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from trouble import Deployment, Report, check_alone, check_noop, deployment, named, parse, sized
from world import HashEmbedder

from manifests import manifest_from
from pipeline.errors import RejectedInput
from pipeline.parse import metadata
from pipeline.ports import VectorIndex
from pipeline.types import Embedding, MetadataValue, RecordBatch, Side

MANIFEST = sized(200)


class StrictIndex:
    """An index that refuses what a hosted one refuses, a request whole; what it accepts it passes on.

    Its request body is JSON: the sparse part stands in a record only where there is one.
    """

    def __init__(self, inner: VectorIndex) -> None:
        self.inner = inner
        self.fetch, self.search, self.scan, self.close = inner.fetch, inner.search, inner.scan, inner.close
        self.settle, self.creates_only = inner.settle, inner.creates_only
        self.explain, self.optimize, self.graphs = inner.explain, inner.optimize, inner.graphs
        self.stamp, self.delete, self.drop = inner.stamp, inner.delete, inner.drop
        self.bodies: list[dict[str, object]] = []

    def upsert(self, batch: RecordBatch) -> None:
        body = {"namespace": batch.namespace, "vectors": [_record(batch, i) for i in range(len(batch.ids))]}
        json.dumps(body, allow_nan=False)
        self.bodies.append(body)
        self.inner.upsert(batch)

    @property
    def records(self) -> list[dict[str, object]]:
        """Every record of every request."""
        return [one for body in self.bodies for one in body["vectors"]]  # type: ignore[attr-defined]


def _record(batch: RecordBatch, i: int) -> dict[str, object]:
    for key, value in batch.metadata[i].items():
        assert type(key) is str
        assert key
        assert _is_taken(value), f"{key} is {value!r}"
    values = [float(x) for x in batch.dense[i]]
    assert all(map(math.isfinite, values))
    assert any(values), "a vector of zeros"
    assert len(values) == batch.dense.shape[1]
    meta = {key: list(v) if isinstance(v, tuple) else v for key, v in batch.metadata[i].items()}
    record: dict[str, object] = {"id": batch.ids[i], "values": values, "metadata": meta}
    indices, weights = batch.sparse.row(i)
    if len(indices):
        assert all(map(math.isfinite, map(float, weights)))
        record["sparse_values"] = {"indices": indices.tolist(), "values": [float(w) for w in weights]}
    return record


def _is_taken(value: object) -> bool:
    if isinstance(value, tuple):
        return all(type(part) is str for part in value)
    if isinstance(value, float):
        return type(value) is float and math.isfinite(value)
    return type(value) in (str, bool, int)


class Strict:
    """Keeps the strict index that a deployment was given."""

    def __init__(self) -> None:
        self.index: StrictIndex | None = None

    def __call__(self, inner: VectorIndex) -> StrictIndex:
        self.index = StrictIndex(inner)
        return self.index

    @property
    def records(self) -> list[dict[str, object]]:
        assert self.index is not None
        return self.index.records

    @property
    def bodies(self) -> list[dict[str, object]]:
        assert self.index is not None
        return self.index.bodies


# O-31

META: dict[object, object] = {
    "title": "Pump", "author": None, "tags": ["a", None, "b"], "pages": [1, 2], "geo": {"lat": 1.5, "lon": None},
    "none": {}, "when": dt.datetime(2024, 3, 5, 7, 0, tzinfo=dt.UTC), "big": 2**60 + 1, "flag": True,
}  # fmt: skip
FRONT = """---
title: Pump
author: null
tags: [a, null, b]
pages: [1, 2]
geo: {lat: 1.5, lon: null}
none: {}
when: 2024-03-05T07:00:00+00:00
big: 1152921504606846977
flag: true
---
# Pump

body of the pump
"""
TANK = "---\ntitle: Tank\n---\n# Tank\n\nbody of the tank\n"


def check_stored(stored: dict[str, object], warnings: Sequence[str] = ()) -> None:
    """O-31.2 to O-31.4 for one record's metadata."""
    assert "author" not in stored
    assert "none" not in stored
    assert stored["tags"] == ["a", "b"]
    assert stored["pages"] == ["1", "2"]
    if "geo.lat" in stored:
        assert stored["geo.lat"] == 1.5
    else:
        assert not [key for key in stored if key.startswith("geo")]
        assert [w for w in warnings if "geo" in w]
    assert not [key for key in stored if key.startswith("geo.lon")]
    assert stored["when"] == "2024-03-05T07:00:00+00:00"
    assert stored["big"] == "1152921504606846977"
    assert stored["flag"] is True


def listed(values: dict[str, MetadataValue]) -> dict[str, object]:
    """As a request says it: tuples are lists."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def test_o31_a_batch_with_odd_values_is_stored_whole() -> None:
    """O-31.1 to O-31.4, through front matter and a whole run."""
    strict = Strict()
    with deployment({"pump.md": FRONT, "tank.md": TANK}, wrap_index=strict) as made:
        report = made.run(MANIFEST)
        assert list(report.done) == ["pump.md", "tank.md"]
        assert len(strict.bodies) == 1, "both records go in one batch"
        assert len(made.live.ids) == 2
        (pump,) = made.live.of("pump.md")
        (tank,) = made.live.of("tank.md")
        assert (pump["title"], tank["title"]) == ("Pump", "Tank")
        check_stored(listed(dict(pump)), report.warnings["pump.md"])


def test_o31_values_straight_through_the_metadata_rules() -> None:
    """O-31.2 to O-31.5."""
    before = copy.deepcopy(META)
    described = dict(metadata.describe(META))
    assert before == META
    assert all(map(_is_taken, described.values()))
    check_stored(listed(described))
    assert described["title"] == "Pump"


def test_o31_the_rules_of_one_flat_mapping() -> None:
    """O-31.2 to O-31.5, for the flattening alone."""
    before = copy.deepcopy(META)
    flat = dict(metadata.flat(META))
    assert before == META
    assert all(map(_is_taken, flat.values()))
    check_stored(listed(flat))


HTML = (
    '<html lang="en"><head><title>Pump</title><meta name="author" content=""><meta name="keywords" content="a,,b">'
    '<meta name="date" content="2024-03-05T07:00:00+00:00"></head><body><h1>Pump</h1><p>body</p></body></html>'
)
TOML = """+++
title = "Pump"
author = ""
tags = ["a", "", "b"]
pages = [1, 2]
geo = {lat = 1.5}
bad = nan
none = {}
when = 2024-03-05T07:00:00+00:00
big = 1152921504606846977
flag = true
at = 07:00:00
day = 2024-03-05
far = inf
mixed = [1, "a", [2, {deep = 3}], 1.5, true]
+++
# Pump

body of the pump
"""
ODD = """---
title: 2024-03-05
author: {name: {first: null}}
tags: {a, b}
nan: .nan
inf: -.inf
binary: !!binary aGVsbG8=
? [1, 2]
: pair
null: nothing
7: seven
deep: {a: {b: {c: {d: {e: {f: {g: {h: {i: {j: {k: 1}}}}}}}}}}}
text: "\\0 nul and \\ud800 half"
huge: 123456789012345678901234567890
neg: -9007199254740993
empty: ["", null, {}]
chunk_index: nonsense
source_path: ../../etc/passwd
text_: ok
---
# Pump

body of the pump
"""


@pytest.mark.parametrize(
    ("text", "name"), [(TOML, "p.md"), (ODD, "p.md"), (HTML, "p.html")], ids=["toml", "yaml", "html"]
)
def test_o31_kind_other_descriptions(text: str, name: str) -> None:
    """O-31.1, O-31.2, O-31.4, of the kind: TOML, odd YAML, HTML; nothing that an index refuses, and the tank beside it."""
    strict = Strict()
    with deployment({name: text, "tank.md": TANK}, wrap_index=strict) as made:
        report = made.run(MANIFEST)
        assert sorted(report.done) == sorted([name, "tank.md"])
        assert len(made.live.ids) == 2
        (meta,) = made.live.of(name)
        assert meta["source_path"] == name
        assert meta["chunk_index"] == 0
        for key, value in meta.items():
            assert value not in ("", ())
            assert not isinstance(value, str) or ("\0" not in value and value != "None")
            assert key != "None"
            if type(value) is int:
                assert abs(value) <= 2**53


def test_o31_kind_toml_gives_the_same_fields() -> None:
    """O-31.2 to O-31.4, of the kind, in TOML."""
    doc = parse(TOML, "p.md")
    check_stored(listed(doc.meta))
    assert doc.meta["day"] == "2024-03-05"
    assert doc.meta["at"] == "07:00:00"
    assert all(map(_is_taken, doc.meta.values()))


@pytest.mark.parametrize(
    "head",
    [
        "---\n" + "".join(f"field{i}: {'x' * 1400}\n" for i in range(40)) + "---\n# Pump\n",
        "---\ntags: [" + ", ".join(f"tag{i}{'x' * 300}" for i in range(150)) + "]\n---\n# Pump\n",
        "---\nnames: [" + ", ".join(f'"工程报告{i}{"工" * 60}"' for i in range(200)) + "]\n---\n# Pump\n",
        "---\ntitle: " + "Pump " * 4000 + "\n---\n",
        "# " + "Pump " * 5000 + "\n",
        "".join(f"{'#' * level} Part {level} {'x' * 9000}\n\ntext\n\n" for level in range(1, 7)),
        "Pump " * 5000 + "\n---\n",
    ],
    ids=["fields", "list", "wide-list", "title", "heading", "headings", "underlined"],
)
def test_o31_kind_metadata_that_is_far_too_large(head: str) -> None:
    """O-31.1, of the kind: the limit of 40 KB for one record's metadata holds, text and place are kept."""
    strict = Strict()
    with deployment({"pump.md": head + "\nbody of the pump\n", "tank.md": TANK}, wrap_index=strict) as made:
        assert sorted(made.run(MANIFEST).done) == ["pump.md", "tank.md"]
        assert made.live.find("body of the pump") == ["pump.md"]
        for record in strict.records:
            assert len(json.dumps(record["metadata"], ensure_ascii=False).encode()) <= 40_000


# O-32

NAN, INF = float("nan"), float("inf")
DENSE = {
    "ok": [1.0, 0.0, 0.0],
    "nan": [NAN, 0.0, 1.0],
    "inf": [INF, 0.0, 1.0],
    "zero": [0.0, 0.0, 0.0],
    "short": [1.0, 0.0],
}
FAULTS = {
    "nan": ("not-a-number", "nan", "not a number"),
    "inf": ("infinit",),
    "zero": ("zero",),
    "short": ("length", "shape", "dimension", "numbers"),
}
"""Words by which a reason may name its fault."""
FILES = {f"{key}.md": f"the {key}, if it were the same of all that were there\n" for key in DENSE}
KEYWORDS_OFF = manifest_from(
    {"curate": {"chunks": {"chunking": {"target_size": 200, "overlap": 0}, "keyword": {"enabled": False}}}}
)


class TableEmbedder(HashEmbedder):
    """Gives each text the vector whose name it says; a call for vectors of several lengths is refused, as no array holds them."""

    def __init__(self, texts_per_call: int, vectors: dict[str, list[float]] = DENSE) -> None:
        super().__init__("table", dim=3)
        self.texts_per_call = texts_per_call
        self.vectors = vectors
        self.calls: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str], *, side: Side = "passage") -> Embedding:  # noqa: ARG002  # both alike
        rows = [self.vectors[next(key for key in self.vectors if f"the {key}," in text)] for text in texts]
        self.calls.append(tuple(texts))
        self.texts += texts
        if len({len(row) for row in rows}) > 1:
            raise RejectedInput("vectors", "the model gave vectors of several lengths")
        return Embedding(np.ascontiguousarray(np.array(rows, dtype=np.float32)), len(texts))


def table_world(texts_per_call: int) -> dict[str, object]:
    return {"embedders": named(TableEmbedder(texts_per_call))}


@pytest.fixture(params=[1, 8], ids=["one-a-call", "together"])
def poisoned(request: pytest.FixtureRequest) -> Iterator[tuple[Deployment, Strict]]:
    """A deployment of the five files under a strict index; texts go to the model one by one, or in one call."""
    strict = Strict()
    with deployment(FILES, wrap_index=strict, **table_world(request.param)) as made:
        yield made, strict


@pytest.mark.parametrize("keyword", [True, False], ids=["stop-words", "keywords-off"])
def test_o32_only_the_sound_vector_is_stored(poisoned: tuple[Deployment, Strict], keyword: bool) -> None:
    """O-32.1; the texts are of stop words but for their keys, or keywords are off: no sparse part, no empty one."""
    made, strict = poisoned
    if keyword:
        made.world.embedders["table"].vectors = {"very": DENSE["ok"]}  # type: ignore[attr-defined]
        for path in FILES:
            made.drop(path)
        made.put({"ok.md": "the very, if it were the same of all that were there\n"})
    report = made.run(MANIFEST if keyword else KEYWORDS_OFF)
    assert list(report.done) == ["ok.md"]
    (record,) = strict.records
    assert record["values"] == DENSE["ok"]
    assert "sparse_values" not in record
    (row,) = made.live.rows
    assert row.path == "ok.md"
    stored = made.world.raw_index.fetch(row.namespace, [row.id], vectors=True, metadata=False)
    assert len(stored.sparse.indices) == 0


def test_o32_the_other_four_fail_with_their_own_faults(poisoned: tuple[Deployment, Strict]) -> None:
    """O-32.2."""
    made, _ = poisoned
    report = made.run(MANIFEST)
    assert sorted(report.failed) == sorted(f"{key}.md" for key in FAULTS)
    for key in FAULTS:
        reason = report.failed[f"{key}.md"].lower()
        told = [name for name, words in FAULTS.items() if any(word in reason for word in words)]
        assert told == [key], (key, reason)


def test_o32_every_request_is_json(poisoned: tuple[Deployment, Strict]) -> None:
    """O-32.3."""
    made, strict = poisoned
    made.run(MANIFEST)
    assert strict.bodies
    for body in strict.bodies:
        json.dumps(body, allow_nan=False)


def test_o32_failed_sources_are_tried_again(poisoned: tuple[Deployment, Strict]) -> None:
    """O-32.4."""
    made, strict = poisoned
    report = made.run(MANIFEST)
    assert report.partial
    before = len(made.embedded)
    again = made.run(MANIFEST)
    assert again.partial
    tried = made.embedded[before:]
    assert {key for key in DENSE for text in tried if f"the {key}," in text} == set(FAULTS)
    made.world.embedders["table"].vectors = dict.fromkeys(DENSE, DENSE["ok"])  # type: ignore[attr-defined]
    healed = made.run(MANIFEST)
    assert sorted(healed.done) == sorted(FILES)
    assert not healed.partial
    assert len(strict.records) == 5
    check_noop(made.run(MANIFEST))


def test_o32_kind_one_bad_text_of_a_long_document() -> None:
    """O-32.1, O-32.2, of the kind: one vector of many fails its document, and its document alone."""
    long = "".join(f"# S{i}\n\nthe ok, section {i}\n\n" for i in range(20)) + "# Bad\n\nthe nan, here\n"
    files = {"long.md": long, "ok.md": FILES["ok.md"]}
    strict = Strict()
    with deployment(files, wrap_index=strict, **table_world(4)) as made:
        report = made.run(MANIFEST)
        assert list(report.done) == ["ok.md"]
        assert "long.md" in report.failed
        assert {record["metadata"]["source_path"] for record in strict.records} == {"ok.md"}  # type: ignore[index]


def test_o32_kind_a_bad_edit_leaves_the_last_good_vectors() -> None:
    """O-32.1, O-32.2, O-32.4, of the kind: what was live stays live while the new text fails."""
    strict = Strict()
    with deployment({"a.md": FILES["ok.md"]}, wrap_index=strict, **table_world(4)) as made:
        made.run(MANIFEST)
        before = made.live.records()
        made.put({"a.md": FILES["zero.md"]})
        report: Report = made.run(MANIFEST)
        assert "a.md" in report.failed
        assert report.partial
        assert made.live.records() == before


def test_o32_kind_nobody_else_is_touched() -> None:
    """O-32.2, of the kind (ALONE)."""
    for bad in FAULTS:
        files = {"ok.md": FILES["ok.md"], "b.md": FILES["ok.md"], f"{bad}.md": FILES[f"{bad}.md"]}
        check_alone(files, f"{bad}.md", **table_world(4))


def test_o32_kind_texts_without_a_word() -> None:
    """O-32.1, of the kind: numbers, signs and other scripts, whose sparse part may be empty, are stored and found densely."""
    strict = Strict()
    files = {"signs.md": "§§ → ∑ ∏ ≈ a\n", "stop.md": "the of and to\n", "cjk.md": "工\n", "emoji.md": "\U0001f469 x\n"}
    with deployment(files, wrap_index=strict) as made:
        report = made.run(MANIFEST)
        assert sorted(report.done) == sorted(files)
        assert len(strict.records) == 4
        assert {record["metadata"]["source_path"] for record in strict.records} == set(files)  # type: ignore[index]
