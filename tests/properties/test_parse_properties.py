"""Whatever the bytes, the name and the strategy: a valid document or a refusal with a reason, and nobody else is hurt.

`FUZZ_EXAMPLES` raises the number of examples; `tests/fuzz` holds the long forms, which run by the hour.
"""

from __future__ import annotations

import os
from random import Random

import pytest
from fuzz.generate import source
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness import EXTENSIONS, STRATEGIES, judge
from world import World

from pipeline.chunk import ChunkOptions
from pipeline.types import SourcePath

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "400"))
# The same examples at every run: a grammar's native code may hang on one in some ten thousand, and only the sandbox,
# which these tests do without, could end that. The long forms go through it.
shared = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "derandomize": True}
many = settings(max_examples=EXAMPLES, **shared)
few = settings(max_examples=max(8, EXAMPLES // 50), **shared)
extensions = st.sampled_from(EXTENSIONS)
strategies = st.sampled_from(STRATEGIES)
options = st.builds(
    lambda target, overlap, respect: ChunkOptions(target, min(overlap, target - 1), respect),
    st.sampled_from((1, 5, 24, 100)), st.integers(0, 30), st.booleans(),
)  # fmt: skip


def named(extension: str) -> str:
    return f"a.{extension}" if extension else "a"


@many
@given(st.binary(max_size=300), extensions, strategies, options)
def test_arbitrary_bytes(data: bytes, extension: str, strategy: str, chosen: ChunkOptions) -> None:
    judge(data, named(extension), strategy, chosen)


@many
@given(st.integers(0, 2**32), extensions, strategies, options)
def test_broken_sources(seed: int, extension: str, strategy: str, chosen: ChunkOptions) -> None:
    judge(source(Random(seed), extension), named(extension), strategy, chosen)


@few
@given(st.integers(0, 2**32))
def test_other_sources_are_untouched(seed: int) -> None:
    """Beside a dozen broken sources two good ones end as they do alone."""
    alone, among = World(), World()
    try:
        for world in (alone, among):
            world.put("good/a.md", "one", "two")
            world.put("z.md", "three")
        random = Random(seed)
        for at in range(12):
            extension = random.choice(EXTENSIONS)
            among.files[SourcePath(f"m/{at}.{extension}" if extension else f"m/{at}")] = source(random, extension)
        alone.curate()
        run = among.curate()
        assert run.state == "completed", run.error
        mine = [row for row in among.read(among.live()) if not row[0].startswith("m/")]
        assert mine == alone.read(alone.live())
    finally:
        alone.close()
        among.close()


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_every_extension_takes_nothing_and_little(extension: str) -> None:
    for data in (b"", b"\n", b"a", b"\xff", b"\xef\xbb\xbf", b"\0" * 9, b"PK\x03\x04", b"{}", b"[]", b"\xff\xfea\0"):
        judge(data, named(extension), "markdown_heading", ChunkOptions(8))
