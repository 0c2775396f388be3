"""Lamina over a folder of Markdown files, in the form of the peers' ingest runners: one JSON line on stdout.

usage: ingest_lamina.py SRC STATE      (a second call over the same STATE is the re-run)

The static 256-dimension embedder, `markdown_heading` at 400 tokens without overlap. The clock starts after the imports
and after the embedder is loaded, as in the other runners. `cpu` is this process and its parsing children together;
`cpu_self` is this process alone. Environment: BENCH_SECTIONS=0 lets small sections share a chunk,
LAMINA_WORKERS sets the threads.
"""

import hashlib
import json
import os
import resource
import sys
import time
from pathlib import Path

STARTED = time.perf_counter()

from manifests import manifest_from  # noqa: E402
from pipeline import bootstrap, contexts, loop, settings  # noqa: E402
from pipeline.fingerprint import encode_path, text_hash  # noqa: E402
from pipeline.request import CurateRequest  # noqa: E402
from pipeline.types import ContextSlug  # noqa: E402

SLUG = ContextSlug("bench")
PAGE = 1000


def cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def peak_mb(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024


class Counted:
    """The embedder, with what it was asked counted."""

    def __init__(self, inner: object) -> None:
        self.inner, self.identity = inner, inner.identity
        self.concurrent, self.texts_per_call = inner.concurrent, inner.texts_per_call
        self.texts = self.calls = 0
        self.seconds = 0.0

    def embed(self, texts: list[str], *, side: str = "passage") -> object:
        began = time.perf_counter()
        result = self.inner.embed(texts, side=side)
        self.seconds += time.perf_counter() - began
        self.texts += len(texts)
        self.calls += 1
        return result


def stored(ports: object, version: int) -> list[tuple[str, str]]:
    """(source, text) of every record that is live."""
    out, after = [], ""
    while True:
        with ports.ledger.read() as session:
            page = session.records.page_at(SLUG, version, after, PAGE)
        if page:
            rows = ports.index(SLUG).fetch(page[0].namespace, [r.id for r in page], vectors=False, metadata=True)
            out += [(m["source_path"], m["text"]) for m in rows.metadata]
        if len(page) < PAGE:
            return out
        after = page[-1].id


def main() -> None:
    source, state = Path(sys.argv[1]), Path(sys.argv[2])
    sections = os.environ.get("BENCH_SECTIONS", "1") == "1"
    chosen = settings.load({**os.environ, "LAMINA_HOME": str(state), "LAMINA_EMBEDDER": "static"}, state)
    ports = bootstrap.build(chosen)
    embedder = Counted(ports.embedders["static"])
    ports.embedders["static"] = embedder
    embedder.inner.embed(["load the weights"])
    imports = time.perf_counter() - STARTED
    contexts.open_context(ports, SLUG, kind="folder", root=encode_path(os.fsencode(source.resolve())))
    chunking = {"target_size": 400, "overlap": 0, "respect_sections": sections}
    manifest = manifest_from({"curate": {"chunks": {"chunking": chunking}}})

    began, self_before = time.perf_counter(), cpu(resource.RUSAGE_SELF)
    run = loop.curate_and_follow(ports, CurateRequest(SLUG, manifest), chosen.workers)
    ports.parser.close()
    wall = time.perf_counter() - began
    cpu_self, children = cpu(resource.RUSAGE_SELF) - self_before, cpu(resource.RUSAGE_CHILDREN)
    peak = peak_mb(resource.RUSAGE_SELF)

    with ports.ledger.read() as session:
        live = session.contexts.get(SLUG).live_version
    rows = stored(ports, live)
    pairs = {(path, text_hash(text)) for path, text in rows}
    document = {
        "imports": imports, "wall": wall, "cpu": cpu_self + children, "cpu_self": cpu_self,
        "docs": sum(1 for _ in source.rglob("*.md")), "chunks": len(rows), "distinct": len(pairs),
        "sources": len({path for path, _ in rows}), "embedded": embedder.texts, "embed_s": embedder.seconds,
        "embed_calls": embedder.calls, "peak": peak, "peak_child": peak_mb(resource.RUSAGE_CHILDREN),
        "disk": sum(f.stat().st_size for f in state.rglob("*") if f.is_file()) / 2**20, "marks": {},
        "state": run.state, "version": live,
        "fp": hashlib.sha256("".join(sorted(path + digest for path, digest in pairs)).encode()).hexdigest()[:12],
    }  # fmt: skip
    bootstrap.close(ports)
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
