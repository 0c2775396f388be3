"""fsck: every kind of damage is told by name, and healed without reading a source, so that nothing is lost to readers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from world import SLUG, World, start, step

from manifests import manifest_from
from pipeline.adapters.model_extractive import ExtractiveModel
from pipeline.codec import empty_sparse, take_sparse
from pipeline.errors import Conflict
from pipeline.fsck import fsck
from pipeline.integrity import Checker
from pipeline.namespaces import counts_key
from pipeline.types import OPEN, RecordBatch, RecordId


@pytest.fixture
def world():
    made = World()
    made.put("a.md", "alpha", "beta")
    made.put("b.md", "gamma", "delta", "epsilon")
    made.curate()
    made.put("a.md", "alpha", "zeta")
    made.curate()
    yield made
    made.close()


def run_fsck(world, *, repair=False):
    world.clock.advance(1)  # ids of runs differ by the time
    return fsck(world.ports, SLUG, repair=repair)


def check(world, found, healed=None, *, repair=True):
    """Told by one pass, healed by the next, and then sound; the records are what they were."""
    assert run_fsck(world, repair=False).found == found
    if not repair:
        return
    report = run_fsck(world, repair=True)
    assert (report.found, report.healed) == (found, found if healed is None else healed)
    assert report.sound == (report.found == report.healed)
    again = run_fsck(world, repair=False)
    assert again.found == {
        kind: n - report.healed.get(kind, 0) for kind, n in found.items() if n != report.healed.get(kind)
    }


def rows(world, path="b.md"):
    return [row for row in world.listed(world.live()) if row.path == path]


def stored(world, row):
    return world.raw_index.fetch(row.namespace, [row.id], vectors=True, metadata=True)


def put(world, row, **changes):
    """Another record under the same id."""
    held = stored(world, row)
    batch = RecordBatch(row.namespace, row.added, (row.id,), held.dense, held.sparse, held.metadata)
    world.raw_index.delete(row.namespace, [row.id])
    world.raw_index.upsert(replace(batch, **changes))


def test_all_is_sound(world):
    asked = list(world.parser.calls)
    report = run_fsck(world, repair=False)
    assert (report.sound, report.found, report.versions) == (True, {}, (2, 1))
    assert report.records == len(world.listed(2)) + 1, "one record is shown by version 1 alone"
    assert report.files == 3
    assert world.parser.calls == asked
    with world.ledger.read() as session:
        run = session.runs.list(SLUG, 1)[0]
    assert (run.kind, run.state, run.id) == ("fsck", "completed", report.run)


def test_a_lost_record(world):
    row = rows(world)[1]
    before = world.read(2)
    held = stored(world, row)
    world.raw_index.delete(row.namespace, [row.id])
    check(world, {"missing": 1})
    assert world.read(2) == before
    again = stored(world, row)
    assert np.array_equal(again.dense, held.dense)
    assert np.array_equal(again.sparse.indices, held.sparse.indices)


def test_a_record_that_says_something_else(world):
    row = rows(world)[0]
    before = world.read(2)
    put(world, row, metadata=({**stored(world, row).metadata[0], "text": "altered"},))
    check(world, {"changed": 1})
    assert world.read(2) == before


def test_a_vector_that_is_none(world):
    row = rows(world)[0]
    put(world, row, dense=np.zeros_like(stored(world, row).dense))
    check(world, {"dense": 1})


def test_terms_of_another_text(world):
    row, other = rows(world)[:2]
    put(world, row, sparse=stored(world, other).sparse)
    check(world, {"sparse": 1})
    assert world.found("gamma") == ["b.md"]


def test_a_stamp_that_was_taken_back(world):
    """A reader of version 2 must not find what it removed; one of version 1 must."""
    (gone,) = [row for row in world.listed(1) if row.removed == 2]
    assert gone.removed != OPEN
    put(world, gone)
    check(world, {"stamp": 1})
    assert stored(world, gone).removed == (2,)


def test_a_lost_record_of_an_older_version(world):
    (gone,) = [row for row in world.listed(1) if row.removed == 2]
    world.raw_index.delete(gone.namespace, [gone.id])
    check(world, {"missing": 1})
    assert stored(world, gone).removed == (2,)
    assert ("a.md", "# beta\n\nbody of beta", 1) in [(p, t.strip(), n) for p, t, n in world.read(1)]


def test_a_stray(world):
    row = rows(world)[0]
    held = stored(world, row)
    batch = RecordBatch(row.namespace, 1, (RecordId("f" * 32),), held.dense, held.sparse, held.metadata)
    world.raw_index.upsert(batch)
    check(world, {"stray": 1})
    assert stored(world, replace(row, id=RecordId("f" * 32))).ids == ()


@pytest.mark.parametrize("spoil", ["gone", "other"])
def test_a_listing(world, spoil):
    """Made again from the records that it lists; its hash proves it."""
    with world.ledger.read() as session:
        (file,) = session.files.at_for(SLUG, 2, ["b.md"])
    data = world.objects.get(file.blob)
    world.view.files[file.path] = b""
    world.objects.delete_many([file.blob])
    if spoil == "other":
        world.objects.put_many({file.blob: b"something else"})
    check(world, {"file": 1, "view": 1})
    assert world.objects.get(file.blob) == data
    assert world.view.files[file.path] == data


def test_a_lost_file_of_which_the_folder_has_a_copy(world):
    """With a record of it lost as well: what the folder shows proves itself by its hash."""
    row = rows(world)[0]
    with world.ledger.read() as session:
        (file,) = session.files.at_for(SLUG, 2, ["b.md"])
    world.objects.delete_many([file.blob])
    world.raw_index.delete(row.namespace, [row.id])
    assert run_fsck(world).found == {"file": 1, "missing": 1}
    report = run_fsck(world, repair=True)
    assert report.sound
    assert world.objects.get(file.blob) == world.view.files[file.path]
    assert run_fsck(world).found == {}


def test_a_listing_and_a_record_of_it_are_lost(world):
    """What neither says can't be made up: it is told as it is, and a forced curate builds it."""
    row = rows(world)[0]
    with world.ledger.read() as session:
        (file,) = session.files.at_for(SLUG, 2, ["b.md"])
    world.objects.delete_many([file.blob])
    world.raw_index.delete(row.namespace, [row.id])
    del world.view.files[file.path]
    check(world, {"file": 1, "missing": 1, "view": 1}, healed={})
    with world.ledger.read() as session:
        assert session.runs.list(SLUG, 1)[0].state == "failed"


def test_a_folder_that_shows_another_version(world):
    world.view.end(1)
    check(world, {"view": 1})
    assert world.view.shown() == 2


def test_files_of_the_folder(world):
    """One that says something else, one that is gone, one that nobody put there."""
    files = dict(world.view.files)
    first, second = sorted(files)
    world.view.files[first] += b"!"
    del world.view.files[second]
    world.view.files["chunks/long-gone.md.chunks.jsonl"] = b"what a deleted source said"
    check(world, {"view": 3})
    assert world.view.files == files


def test_a_name_that_the_folder_cannot_hold_is_no_finding(world):
    with world.ledger.read() as session:
        (file,) = session.files.at_for(SLUG, 2, ["b.md"])
    del world.view.files[file.path]
    world.view.fits = lambda path: path != file.path
    assert run_fsck(world).found == {}


def test_a_count_of_documents(world):
    with world.ledger.read() as session:
        generation = session.versions.get(SLUG, 2).generation
    with world.ledger.transaction("spoil", SLUG) as session:
        session.records.add_counts(SLUG, counts_key(generation, "chunks"), 0, [(-1, 5)])
    check(world, {"counts": 1}, healed={})


def test_artifacts():
    """Their records are written again from the ledger's own rows."""
    manifest = manifest_from(
        {
            "curate": {
                "artifacts": {
                    "enabled": True,
                    "artifact_types": [{"name": "Person", "description": "people", "scope": "corpus"}],
                }
            }
        }
    )
    world = World(language=ExtractiveModel())
    world.files["a.md"] = b"# Ada Lovelace\n\nAda Lovelace wrote the first program. Ada Lovelace met Charles Babbage.\n"
    world.files["b.md"] = b"# Notes\n\nAda Lovelace was a mathematician. Charles Babbage built engines.\n"
    world.curate(manifest)
    artifacts = [row for row in world.listed(1) if row.path.startswith("/")]
    assert artifacts
    assert run_fsck(world, repair=False).found == {}
    row = artifacts[0]
    put(world, row, sparse=empty_sparse(1))
    world.raw_index.delete(row.namespace, [artifacts[-1].id])
    found = {"sparse": 1, "missing": 1} if len(artifacts) > 1 else {"missing": 1}
    check(world, found)
    world.close()


def test_not_while_a_run_is_at_work(world):
    world.put("c.md", "omega")
    begun = start(world)
    step(world, begun)
    assert run_fsck(world, repair=False).sound
    with pytest.raises(Conflict, match="is not at its end"):
        run_fsck(world, repair=True)


def test_a_text_whose_title_was_shortened_is_left_to_a_run(world):
    """What stood in front of it isn't kept, so its vectors can't be made for certain."""
    world.files["long.md"] = f"# {'word ' * 100}\n\nbody\n".encode()
    world.curate()
    row = rows(world, "long.md")[0]
    live = world.live()
    with world.ledger.read() as session:
        version = session.versions.get(SLUG, live)
    expected = Checker(world.ports, SLUG, version).expected([row])[row.id]
    assert expected.embed_text is None
    assert json.dumps(dict(expected.metadata))
    assert take_sparse(stored(world, row).sparse, 0, 1).indices.size
    world.raw_index.delete(row.namespace, [row.id])
    check(world, {"missing": 1}, healed={})
