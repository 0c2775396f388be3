"""O-33 to O-35: whole runs. Equal bytes at two paths, documents that get shorter, writes that stop half way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from trouble import Deployment, check_noop, chunk, deployment, parse, sized
from world import SLUG

from pipeline import search
from pipeline.errors import Unavailable
from pipeline.file_ports import ObjectStore
from pipeline.ledger import Ledger, Session
from pipeline.limits import Limits
from pipeline.ports import Memo, Ports, VectorIndex
from pipeline.rows import RUN_ACTIVE
from pipeline.types import NO_ORIGINS, ContextSlug, Namespace, Origins, RecordBatch, RecordId

MANIFEST = sized(64)

# O-33

NOTICE = "# Notice\n\nsame words\n"


def test_o33_equal_files_are_two_sources() -> None:
    """O-33.1 to O-33.4."""
    with deployment({"a/notice.md": NOTICE, "b/notice.md": NOTICE}) as made:
        made.run(MANIFEST)
        assert made.live.find("same words") == ["a/notice.md", "b/notice.md"]
        made.drop("a/notice.md")
        second = made.run(MANIFEST)
        assert made.live.find("same words") == ["b/notice.md"]
        assert not [row for row in made.live.rows if row.path == "a/notice.md"]
        assert second.calls["embed"] == 0
        made.drop("b/notice.md")
        made.run(MANIFEST)
        assert made.live.find("same words") == []
        assert made.live.rows == []
        with made.world.ledger.read() as session:
            row = session.versions.list(SLUG)[0]
        assert (row.number, row.records) == (made.world.live(), 0)


@pytest.mark.parametrize("name", ["notice.md", "notice.csv", "notice.html", "notice.py"])
def test_o33_kind_three_copies_and_renames(name: str) -> None:
    """O-33.1 to O-33.4, of the kind: three copies; one goes, one moves over another, the last changes its folder."""
    texts = {"md": NOTICE, "csv": "id,t\n1,same words\n", "html": "<p>same words</p>", "py": 'X = "same words"\n'}
    text = texts[name.rpartition(".")[2]]
    with deployment({f"{d}/{name}": text for d in "abc"}) as made:
        first = made.run(MANIFEST)
        assert made.live.find("same words") == [f"{d}/{name}" for d in "abc"]
        assert first.calls["embed"] == 1
        made.drop(f"a/{name}")
        made.drop(f"c/{name}")
        made.put({f"z/{name}": text})
        again = made.run(MANIFEST)
        assert made.live.find("same words") == [f"b/{name}", f"z/{name}"]
        assert again.calls["embed"] == 0
        made.drop(f"z/{name}")
        made.put({f"b/{name}": text.replace("same", "other")})
        made.run(MANIFEST)
        assert made.live.find("same words") == []
        assert made.live.find("other words") == [f"b/{name}"]
        assert {row.path for row in made.live.rows} == {f"b/{name}"}


def test_o33_kind_equal_passages_in_one_source_and_in_another() -> None:
    """O-33.1, O-33.2, of the kind: the same passage twice in one file and once in another."""
    double = "# One\n\nsame words\n\n# Two\n\nsame words\n"
    with deployment({"a.md": double, "b.md": NOTICE}) as made:
        made.run(MANIFEST)
        assert [len(made.live.of(path)) for path in ("a.md", "b.md")] == [2, 1]
        made.put({"a.md": "# One\n\nsame words\n"})
        second = made.run(MANIFEST)
        assert [len(made.live.of(path)) for path in ("a.md", "b.md")] == [1, 1]
        assert second.calls["embed"] == 0
        made.drop("b.md")
        made.run(MANIFEST)
        assert made.live.find("same words") == ["a.md"]


# O-34

V1 = "".join(f"## Part {i}\n\nonly in part {i}\n\n" for i in range(5))
V2 = "## Part 0\n\nonly in part 0\n\n## Part 1\n\nchanged part 1\n"
OTHER = sized(256)


def check_live_is(made: Deployment, files: Mapping[str, str], target: int) -> None:
    """The live records are the chunks of these files under this target, no more and no fewer."""
    wanted = sorted(
        (path, c.text, i)
        for path, text in files.items()
        for i, c in enumerate(chunk(parse(text, path), "markdown_heading", target, 0))
    )
    found = [(str(m["source_path"]), str(m["text"]), m["chunk_index"]) for m in made.live.metadata()]
    assert sorted(found, key=str) == sorted(wanted, key=str)


def test_o34_nothing_of_the_longer_document_stays() -> None:
    """O-34.1."""
    with deployment({"d.md": V1}) as made:
        made.run(MANIFEST)
        check_live_is(made, {"d.md": V1}, 64)
        made.put({"d.md": V2})
        made.run(MANIFEST)
        check_live_is(made, {"d.md": V2}, 64)
        for i in range(1, 5):
            assert made.live.find(f"only in part {i}") == []
        with deployment({"d.md": V2}) as fresh:
            fresh.run(MANIFEST)
            assert {r.logical_id for r in made.live.rows} == {r.logical_id for r in fresh.live.rows}


def test_o34_another_target_leaves_one_generation() -> None:
    """O-34.2, O-34.3."""
    with deployment({"d.md": V1}) as made:
        made.run(MANIFEST)
        made.put({"d.md": V2})
        made.run(MANIFEST)
        before = dict(made.live.records())
        made.run(OTHER, force=True)
        check_live_is(made, {"d.md": V2}, 256)
        for record, meta in made.live.records():
            assert record not in before or before[record] == meta
        check_noop(made.run(OTHER))


LONG = "".join(f"Sentence number {i} says that part {i} is here. " for i in range(60))


@pytest.mark.parametrize(("first", "then"), [(64, 256), (256, 64)], ids=["larger", "smaller"])
def test_o34_kind_a_target_that_moves_every_cut(first: int, then: int) -> None:
    """O-34.2, O-34.3, of the kind: one long section, cut anew."""
    with deployment({"d.md": "# Long\n\n" + LONG + "\n"}) as made:
        made.run(sized(first))
        before = dict(made.live.records())
        made.run(sized(then), force=True)
        check_live_is(made, {"d.md": "# Long\n\n" + LONG + "\n"}, then)
        assert len(before) != len(made.live.ids)
        for record, meta in made.live.records():
            assert record not in before or before[record] == meta
        check_noop(made.run(sized(then)))


def _csv(n: int) -> str:
    return "id,note\n" + "".join(f"{i},only in part {i} {'filler ' * 20}\n" for i in range(n))


def _html(n: int) -> str:
    return "".join(f"<h2>Part {i}</h2><p>only in part {i}</p>" for i in range(n))


def _code(n: int) -> str:
    return "\n\n".join(f"def part_{i}():\n    # only in part {i} {'filler ' * 20}\n    return {i}\n" for i in range(n))


def _text(n: int) -> str:
    return "\n\n".join(f"only in part {i} {'filler ' * 20}" for i in range(n)) + "\n"


FORMATS: dict[str, tuple[str, Callable[[int], str]]] = {
    "csv": ("d.csv", _csv), "html": ("d.html", _html), "code": ("d.py", _code), "text": ("d.txt", _text),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("strategy", ["markdown_heading", "sliding_window"])
def test_o34_kind_other_formats(kind: str, strategy: str) -> None:
    """O-34.1 to O-34.3, of the kind: records, pages, functions and paragraphs that go."""
    name, make = FORMATS[kind]
    manifest, other = sized(64, 0, strategy), sized(256, 0, strategy)
    with deployment({name: make(5)}) as made:
        made.run(manifest)
        assert made.live.find("only in part 4") == [name]
        made.put({name: make(2)})
        made.run(manifest)
        assert made.live.find("only in part 1") == [name]
        for i in range(2, 5):
            assert made.live.find(f"only in part {i}") == []
        check_live_is(made, {name: make(2)}, 64) if strategy == "markdown_heading" else None
        made.run(other, force=True)
        assert len(made.live.ids) == len(chunk(parse(make(2), name), strategy, 256, 0))
        check_noop(made.run(other))


# O-35

DOCS = 250
BATCH = 100
FEW = 25
"""Documents of the tests of the kind, a tenth of the case's; their batches are a tenth too."""
POLL_S = 0.002


class FaultyError(Exception):
    """What nobody foresaw."""


def docs(word: str, many: int = DOCS) -> dict[str, bytes | str]:
    return {f"d{i:03d}.md": f"# D{i}\n\nversion {word} of {i}\n" for i in range(many)}


@dataclass
class Fault:
    """One fault that is waiting for its moment."""

    where: str = ""
    """`port.effect`; of the ledger, the label of a write block."""
    nth: int = 0
    after: bool = False
    """Whether the effect lands before the error comes."""
    lasting: bool = False
    """Whether every later call fails too, with the error that a service which is down gives."""
    seen: int = 0
    hits: int = 0

    def arm(self, where: str, nth: int = 1, *, after: bool = False, lasting: bool = False) -> None:
        self.where, self.nth, self.after, self.lasting, self.seen, self.hits = where, nth, after, lasting, 0, 0

    @contextmanager
    def around(self, name: str) -> Iterator[None]:
        here = name == self.where
        self.seen += here
        hit = here and (self.seen >= self.nth if self.lasting else self.seen == self.nth)
        self.hits += hit
        error = Unavailable("down", f"{name} doesn't answer") if self.lasting else FaultyError(name)
        if hit and not self.after:
            raise error
        yield
        if hit and self.after:
            raise error


class FaultyIndex:
    """The index behind it, with the fault at its writes."""

    def __init__(self, inner: VectorIndex, fault: Fault) -> None:
        self.inner, self.fault = inner, fault
        self.fetch, self.search, self.scan, self.close = inner.fetch, inner.search, inner.scan, inner.close
        self.settle, self.creates_only = inner.settle, inner.creates_only
        self.explain, self.optimize, self.graphs = inner.explain, inner.optimize, inner.graphs
        self.drop = inner.drop

    def upsert(self, batch: RecordBatch) -> None:
        with self.fault.around("index.upsert"):
            self.inner.upsert(batch)

    def stamp(self, namespace: Namespace, ids: Sequence[RecordId], removed: int) -> None:
        with self.fault.around("index.stamp"):
            self.inner.stamp(namespace, ids, removed)

    def delete(self, namespace: Namespace, ids: Sequence[RecordId]) -> None:
        with self.fault.around("index.delete"):
            self.inner.delete(namespace, ids)


class FaultyLedger:
    """The ledger behind it, with the fault at its write blocks: before they commit, or after."""

    def __init__(self, inner: Ledger, fault: Fault) -> None:
        self.inner, self.fault = inner, fault
        self.read, self.close = inner.read, inner.close

    @contextmanager
    def transaction(self, label: str, context: ContextSlug) -> Iterator[Session]:
        if self.fault.after:
            with self.fault.around(f"ledger.{label}"), self.inner.transaction(label, context) as session:
                yield session
            return
        with self.inner.transaction(label, context) as session:
            yield session
            with self.fault.around(f"ledger.{label}"):
                pass  # written and not committed: the error rolls it back


class FaultyMemo:
    def __init__(self, inner: Memo, fault: Fault) -> None:
        self.inner, self.fault = inner, fault
        self.get_many, self.close, self.forget = inner.get_many, inner.close, inner.forget

    def put_many(self, items: Mapping[str, bytes], origins: Origins = NO_ORIGINS, *, joint: bool = False) -> None:
        with self.fault.around("memo.put_many"):
            self.inner.put_many(items, origins, joint=joint)


class FaultyObjects:
    def __init__(self, inner: ObjectStore, fault: Fault) -> None:
        self.inner, self.fault = inner, fault
        self.get, self.list = inner.get, inner.list

    def put_many(self, items: Mapping[str, bytes]) -> None:
        with self.fault.around("objects.put_many"):
            self.inner.put_many(items)

    def delete_many(self, keys: Sequence[str]) -> None:
        with self.fault.around("objects.delete_many"):
            self.inner.delete_many(keys)


@dataclass
class Reader:
    """Polls the live version from another thread, by search, and keeps what it saw of each poll."""

    ports: Ports
    many: int
    seen: list[tuple[int, frozenset[str], int]] = field(default_factory=list)
    """Version, words of the texts, number of them."""
    errors: list[BaseException] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> None:
        question = search.Question("version", k=2 * self.many, mode="sparse")
        while not self.stop.is_set():
            try:
                answer = search.search(self.ports, SLUG, question)
            except BaseException as error:  # noqa: BLE001  # carried to the test
                self.errors.append(error)
                return
            words = frozenset(str(r.metadata["text"]).split("version ")[1].split()[0] for r in answer.results)
            self.seen.append((answer.version, words, len(answer.results)))
            self.stop.wait(POLL_S)

    @contextmanager
    def polling(self) -> Iterator[None]:
        thread = threading.Thread(target=self.poll, name="reader")
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()

    def check(self) -> None:
        """Every poll saw one whole version."""
        assert not self.errors
        assert self.seen
        for version, words, found in self.seen:
            assert len(words) == 1, (version, words)
            assert found == self.many


@dataclass
class Broken:
    """Version 1 is live, version two stands in the files, and a fault is waiting."""

    made: Deployment
    fault: Fault
    reader: Reader
    many: int

    def fails(self) -> None:
        """A run that the fault ends."""
        with pytest.raises(FaultyError):
            self.made.run(MANIFEST)
        assert self.fault.hits == 1

    def check_old(self) -> None:
        """O-35.1, and by way of the index: version 1, whole."""
        assert self.made.world.live() == 1
        self.check_is("one")

    def check_is(self, word: str) -> None:
        texts = self.made.live.texts
        assert texts == sorted(f"# D{i}\n\nversion {word} of {i}" for i in range(self.many))

    def check_nothing_done(self) -> None:
        """O-35.2: no document of the failed run is done in the ledger."""
        live = self.made.world.live()
        with self.made.world.ledger.read() as session:
            rows = session.sources.page(SLUG, live, "", 10_000)
            first = session.sources.page(SLUG, 1, "", 10_000)
        assert rows == first

    def check_kept_versions_are_whole(self) -> None:
        """O-35.4: no kept version holds a record that isn't its own, in the ledger or in the index."""
        world = self.made.world
        kept = world.readable()
        listed = {version: {row.id for row in world.listed(version)} for version in kept}
        spaces = {row.namespace for version in kept for row in world.listed(version)}
        for space in spaces:
            for record, added, removed in world.raw_index.scan(space):
                for version in kept:
                    assert (record in listed[version]) == (added <= version < removed), (record, version)
        for version in kept:
            words = {text.split("version ")[1].split()[0] for text in world.texts(version)}
            assert len(words) == 1
            assert len(listed[version]) == self.many


@contextmanager
def broken(many: int = DOCS, *, still: bool = True) -> Iterator[Broken]:
    """`still`: whether the files stay as they are, so that every version is of one kind."""
    fault, batch = Fault(), BATCH * many // DOCS
    limits = Limits(batch_sources=batch, upsert_records=batch, embed_texts=batch)
    with deployment(docs("one", many), wrap_index=lambda index: FaultyIndex(index, fault), limits=limits) as made:
        ports = made.world.ports
        made.run(MANIFEST)
        assert made.world.live() == 1
        objects, memo = FaultyObjects(made.world.objects, fault), FaultyMemo(made.world.memo, fault)
        made.world.ports = replace(
            ports, ledger=FaultyLedger(ports.ledger, fault), memo=memo, objects=lambda _slug: objects
        )
        made.world.clock.advance(60)
        made.put(docs("two", many))
        reader = Reader(ports, many)
        with reader.polling():
            yield Broken(made, fault, reader, many)
        if still:
            reader.check()
        assert not reader.errors


def active(made: Deployment) -> str:
    """State of the context's newest run."""
    with made.world.ledger.read() as session:
        return session.runs.list(SLUG, 1)[0].state


def check_repaired(it: Broken) -> None:
    """O-35.3: the next run writes what is missing and flips once."""
    moves = it.made.moves()
    report = it.made.run(MANIFEST)
    assert it.made.moves() - moves == report.flips == 1
    it.check_is("two")
    assert len(it.made.live.ids) == it.many
    it.check_kept_versions_are_whole()
    check_noop(it.made.run(MANIFEST))


def test_o35_a_batch_that_fails_changes_nothing_for_readers() -> None:
    """O-35.1, O-35.5."""
    with broken() as it:
        it.fault.arm("index.upsert", 2)
        it.fails()
        it.check_old()
        it.check_kept_versions_are_whole()


@pytest.mark.parametrize("lasting", [False, True], ids=["unforeseen", "index-down"])
def test_o35_the_run_is_failed_and_nothing_is_done(lasting: bool) -> None:
    """O-35.2: whoever asked gets the error, the ledger calls the run failed or says why it stands still."""
    with broken() as it:
        it.fault.arm("index.upsert", 2, lasting=lasting)
        with pytest.raises((FaultyError, Unavailable)):
            it.made.run(MANIFEST)
        it.check_old()
        it.check_nothing_done()
        with it.made.world.ledger.read() as session:
            (newest,) = session.runs.list(SLUG, 1)
        assert newest.state not in {"completed", "noop", "sealed", "flipped"}
        assert newest.state == "failed" or newest.error, f"the ledger says {newest.state!r} and gives no reason"


@pytest.mark.parametrize("after", [False, True], ids=["before-it-lands", "after-it-lands"])
@pytest.mark.parametrize(("nth", "many"), [(2, DOCS), (1, FEW), (3, FEW)])
def test_o35_the_next_run_ends_it(nth: int, many: int, after: bool) -> None:
    """O-35.3, O-35.5; and of the kind: the first batch and the last."""
    with broken(many) as it:
        it.fault.arm("index.upsert", nth, after=after)
        it.fails()
        it.check_old()
        check_repaired(it)


def test_o35_what_was_written_is_not_written_again() -> None:
    """O-35.3: the next run writes what is missing."""
    with broken() as it:
        it.fault.arm("index.upsert", 2)
        it.fails()
        done = sum(len(batch.ids) for batch in it.made.index.upserts if batch.added != 1)
        assert done == BATCH
        report = it.made.run(MANIFEST)
        later = sum(len(batch.ids) for batch in it.made.index.upserts if batch.added != 1) - done
        assert later == DOCS - done
        assert report.calls["parse"] <= DOCS - done


def test_o35_b_a_pointer_write_that_never_lands() -> None:
    """O-35.4 (b), O-35.5."""
    with broken() as it:
        it.fault.arm("ledger.flip")
        it.fails()
        it.check_old()
        check_repaired(it)


def test_o35_c_a_pointer_write_that_lands_and_then_raises() -> None:
    """O-35.4 (c), O-35.5."""
    with broken() as it:
        moves = it.made.moves()
        it.fault.arm("ledger.flip", after=True)
        it.fails()
        it.made.run(MANIFEST)
        assert it.made.moves() - moves == 1, "it has flipped exactly once, whoever reported it"
        it.check_is("two")
        assert len(it.made.live.ids) == it.many
        it.check_kept_versions_are_whole()
        check_noop(it.made.run(MANIFEST))


@pytest.mark.parametrize("after", [False, True], ids=["before-it-lands", "after-it-lands"])
@pytest.mark.parametrize(
    "where",
    [
        "memo.put_many",
        "objects.put_many",
        "index.stamp",
        "ledger.upsert",
        "ledger.seal",
        "ledger.screen",
        "ledger.verify",
        "ledger.reclaim",
        "ledger.unit.claim",
        "ledger.inventory.rows",
    ],
)
def test_o35_kind_other_places_that_fail(where: str, after: bool) -> None:
    """O-35.1, O-35.3, O-35.4, O-35.5, of the kind: memo, blobs, stamps, and other write blocks of the ledger."""
    with broken(FEW) as it:
        moves = it.made.moves()
        it.fault.arm(where, after=after)
        it.fails()
        if it.made.world.live() == 1:
            it.check_old()
        it.made.run(MANIFEST)
        assert it.made.moves() - moves == 1
        it.check_is("two")
        it.check_kept_versions_are_whole()
        assert active(it.made) not in RUN_ACTIVE
        check_noop(it.made.run(MANIFEST))


def test_o35_kind_two_faults_in_a_row() -> None:
    """O-35.1, O-35.3, O-35.4, of the kind: the run that repairs fails too."""
    with broken(FEW) as it:
        for where, after in (
            ("index.upsert", True), ("index.upsert", False), ("ledger.seal", False), ("index.stamp", True),
            ("ledger.flip", False),
        ):  # fmt: skip
            it.fault.arm(where, after=after)
            it.fails()
            it.check_old()
        check_repaired(it)


def test_o35_kind_the_files_change_back_before_the_next_run() -> None:
    """O-35.4, of the kind: what the broken run wrote is wanted no more, and nothing of it stays live."""
    with broken(FEW, still=False) as it:
        it.fault.arm("index.upsert", 2)
        it.fails()
        it.made.world.clock.advance(60)
        it.made.put(docs("one", FEW))
        it.made.run(MANIFEST)
        it.check_is("one")
        assert len(it.made.live.ids) == it.many
        assert [row for row in it.made.live.rows if row.added > it.made.world.live()] == []
        check_noop(it.made.run(MANIFEST))
