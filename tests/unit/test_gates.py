"""Gates before the flip: each refuses what it is for, says so by name, and leaves what is live alone."""

from dataclasses import replace

import pytest
from world import SLUG, World

from pipeline import canaries, deleting, loop
from pipeline.errors import RejectedInput
from pipeline.limits import Limits

LIMITS = Limits(batch_sources=2, embed_texts=4, upsert_records=3, lease_s=30.0)


def made(**limits):
    world = World(limits=replace(LIMITS, **limits))
    for n in range(6):
        world.put(f"{n}.md", f"alpha{n}", f"beta{n}")
    world.curate()
    return world


def refused(world, gate, *said, **request):
    """The run fails by that gate, and version 1 stays live."""
    run = world.curate(**request)
    assert (run.state, world.live()) == ("failed", 1)
    assert run.error.startswith(f"gate {gate}: ")
    assert run.error.endswith("; the live version stays")
    for words in said:
        assert words in run.error
    return run


class TestShrink:
    def test_too_much_is_gone(self):
        world = made(max_shrink=0.3)
        for n in range(2):
            world.drop(f"{n}.md")
        refused(world, "shrink", "8 records where 12 are live", "33% fewer", "LAMINA_MAX_SHRINK=1")
        world.put("0.md", "alpha0", "beta0")
        assert world.curate().state == "completed"

    def test_what_is_allowed_passes(self):
        world = made(max_shrink=0.5)
        for n in range(3):
            world.drop(f"{n}.md")
        assert world.curate().state == "completed"

    def test_a_rewrite_of_everything_is_no_loss(self):
        world = made(max_shrink=0.1)
        for n in range(6):
            world.put(f"{n}.md", f"gamma{n}", f"delta{n}")
        assert world.curate().state == "completed"

    def test_a_deletion_is_meant(self):
        world = made(max_shrink=0.1)
        world.clock.advance(1)
        deleting.bury(world.ports, SLUG, [f"{n}.md" for n in range(5)])
        assert loop.curate_and_follow(world.ports, deleting.request(SLUG), 1).state == "completed"

    def test_after_a_rollback_open_rows_of_the_other_version_count_for_nothing(self):
        world = made(max_shrink=0.3)
        for n in range(6, 30):
            world.put(f"{n}.md", f"alpha{n}")
        world.curate()
        from pipeline import curate  # noqa: PLC0415

        curate.rollback(world.ports, SLUG, 1)
        for n in range(6, 30):
            world.drop(f"{n}.md")
        for n in range(3):
            world.drop(f"{n}.md")
        run = world.curate()
        assert run.error.startswith("gate shrink: version 3 would show 6 records where 12 are live")


class TestCanary:
    def asked(self, world, *questions):
        world.ports = replace(world.ports, canaries=lambda slug: questions if slug == SLUG else ())
        return world

    def test_a_source_that_is_no_longer_found(self):
        world = self.asked(
            made(), canaries.Canary("alpha3", ("3.md",), 3, "sparse"), canaries.Canary("beta5", ("5.md",))
        )
        world.put("3.md", "nothing")
        refused(world, "canary", "'alpha3' doesn't find 3.md among the first 3")

    def test_what_the_run_removes_isn_t_found_and_what_it_adds_is(self):
        """Before the seal the index still holds what goes, without a stamp."""
        world = self.asked(made(), canaries.Canary("omega", ("new.md",), 1, "sparse"))
        refused(world, "canary", "'omega' doesn't find new.md", force=True)
        world.put("new.md", "omega")
        run = world.curate()
        assert run.state == "completed", run.error
        world.drop("new.md")
        run = world.curate()
        assert (run.state, world.live()) == ("failed", run.base_version)
        assert world.found("omega") == ["new.md"]

    def test_a_run_that_changes_nothing_asks_nothing(self):
        world = self.asked(made(), canaries.Canary("omega", ("new.md",)))
        assert world.curate().state == "noop"

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("[", "can't be read"),
            ("[]", "holds no contexts"),
            ("ctx: {}", "is not a list"),
            ("ctx: [{sources: [a]}]", r"ctx\[0\] has no question"),
            ("ctx: [{question: a, sources: []}]", "names no sources"),
            ("ctx: [{question: a, sources: [b], k: 0}]", "k is a number"),
            ("ctx: [{question: a, sources: [b], mode: fast}]", "mode is one of"),
            ("ctx: [{question: a, sources: [b], extra: 1}]", "has other fields"),
        ],
    )
    def test_a_file_that_can_t_be_used(self, tmp_path, text, problem):
        file = tmp_path / "canaries.yaml"
        file.write_text(text)
        with pytest.raises(RejectedInput, match=problem):
            canaries.read(file, SLUG)

    def test_a_file(self, tmp_path):
        file = tmp_path / "canaries.yaml"
        file.write_text("ctx: [{question: a, sources: [b.md], mode: dense}]\nother: []\n")
        assert canaries.read(file, SLUG) == (canaries.Canary("a", ("b.md",), 10, "dense"),)
        assert canaries.read(file, "absent") == ()


class TestSound:
    @pytest.mark.parametrize("sample", [4, 100])
    def test_a_record_that_would_be_taken_over_is_lost(self, sample):
        world = made(fsck_sample=sample)
        for row in world.listed(1):
            world.raw_index.delete(row.namespace, [row.id])
        world.put("new.md", "omega")
        refused(world, "sound", f"{min(sample, 12)} of {min(sample, 12)} records", "lamina fsck ctx --repair")

    def test_none_is_looked_at(self):
        world = made(fsck_sample=0)
        for row in world.listed(1)[:3]:
            world.raw_index.delete(row.namespace, [row.id])
        world.put("new.md", "omega")
        assert world.curate().state == "completed"


def test_too_many_failures():
    world = made(failed_share=0.5)
    world.files["a.md"] = b"REFUSE"
    world.files["b.md"] = b"REFUSE"
    refused(world, "failed", "100% of the sources failed", "LAMINA_FAILED_SHARE=1.00")
