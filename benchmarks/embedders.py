"""What the local embedders cost: texts a second by CPU and by wall, threads, loading, memory, beside the graph as exported.

usage: embedders.py [FOLDER] [--texts 160] [--rounds 3] [--json]

Texts are the chunks that the product cuts from the Markdown files of FOLDER (this project's own documents, if none is
named), in a fixed shuffled order. Every variant runs in a process of its own, round after round; the best round counts.

`exported` is the same weights in the graph that their package ships, through the same batches: what rewriting the
graph gains. `2 threads` share one model, as the workers of a curation do; `2 cores a call` is one thread whose calls
may use two. `drift` is the furthest that any number of a vector is from the exported graph's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from pipeline.adapters import embedder_minilm
from pipeline.adapters.embedder_minilm import MiniLmEmbedder
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.drafts import context_line
from pipeline.parse import parse_bytes

VARIANTS = {
    "exported": (1, 1),
    "minilm": (1, 1),
    "minilm, 2 threads": (2, 1),
    "minilm, 2 cores a call": (1, 2),
    "static": (1, 1),
}
"""Threads that call, and cores that a call may use."""


def chunks(folder: Path, count: int) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*.md")):
        document = parse_bytes(path.read_bytes(), path.name)
        cut = chunk_document(document, "markdown_heading", ChunkOptions(target_size=400, overlap=0))
        found += [context_line(document.title, c.heading_path, 64) + c.prefix + c.text for c in cut]
    found.sort(key=lambda text: hashlib.sha256(text.encode()).digest())
    return found[:count]


class _AsExported:
    """The shipped graph behind the names that the rewritten one goes by."""

    def __init__(self, session) -> None:
        self.session = session

    def run(self, outputs, inputs):
        ids = inputs[embedder_minilm.IDS_INPUT]
        mask = (np.arange(ids.shape[1]) < inputs[embedder_minilm.LENGTHS_INPUT][:, None]).astype(np.int64)
        kinds = inputs[embedder_minilm.KINDS_INPUT]
        return self.session.run(outputs, {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds})


def exported() -> MiniLmEmbedder:
    """The embedder as it is, but for the graph. What it keeps to itself is reached into: nobody else should want this."""
    embedder = MiniLmEmbedder()
    rewritten, embedder_minilm.fused = embedder_minilm.fused, lambda model, **_: model
    model = embedder._model()  # noqa: SLF001
    embedder_minilm.fused = rewritten
    embedder._loaded = embedder_minilm._Model(_AsExported(model.session), model.tokenizer)  # noqa: SLF001
    return embedder


def measure(variant: str, texts: list[str], out: Path) -> dict:
    """Runs in a process of its own: the peak is the process's."""
    threads, cores = VARIANTS[variant]
    began = time.process_time()
    embedder = (
        exported()
        if variant == "exported"
        else StaticEmbedder()
        if variant == "static"
        else MiniLmEmbedder(threads=cores)
    )
    embedder.embed(["warm"])
    load = time.process_time() - began
    starts = list(range(0, len(texts), embedder.texts_per_call))
    found: dict[int, np.ndarray] = {}
    tokens = []

    def work() -> None:
        while True:
            try:
                at = starts.pop()
            except IndexError:
                return
            result = embedder.embed(texts[at : at + embedder.texts_per_call])
            found[at] = result.vectors
            tokens.append(result.tokens)

    wall, cpu = time.perf_counter(), time.process_time()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    np.save(out, np.concatenate([found[at] for at in sorted(found)]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": cpu, "wall": wall, "load_cpu": load, "tokens": sum(tokens), "peak_mib": peak}


def compare(texts: list[str], rounds: int, folder: Path) -> list[dict]:
    (folder / "texts.json").write_text(json.dumps(texts))
    runs: dict[str, list[dict]] = {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        for variant in VARIANTS:
            command = [sys.executable, __file__, "--child", variant, str(folder)]
            runs[variant].append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    vectors = {variant: np.load(folder / f"{list(VARIANTS).index(variant)}.npy") for variant in VARIANTS}
    rows = []
    for variant, found in runs.items():
        best = {key: min(run[key] for run in found) for key in ("cpu", "wall", "load_cpu", "peak_mib")}
        drift = None if variant == "static" else float(np.abs(vectors[variant] - vectors["exported"]).max())
        rows.append({"variant": variant, "texts": len(texts), "tokens": found[0]["tokens"], "drift": drift, **best})
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        variant, folder = sys.argv[2], Path(sys.argv[3])
        texts = json.loads((folder / "texts.json").read_text())
        json.dump(measure(variant, texts, folder / f"{list(VARIANTS).index(variant)}.npy"), sys.stdout)
        return
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parents[1])
    asked.add_argument("--texts", type=int, default=160)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--json", action="store_true")
    args = asked.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        rows = compare(chunks(args.folder, args.texts), args.rounds, Path(temporary))
    if args.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    print("| variant | tokens a text | texts/s by CPU | texts/s by wall | load, CPU s | peak MiB | drift |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for r in rows:
        drift = "" if r["drift"] is None else f"{r['drift']:.0e}"
        print(f"| {r['variant']} | {r['tokens'] / r['texts']:.0f} | {r['texts'] / r['cpu']:.1f} | {r['texts'] / r['wall']:.1f} "
              f"| {r['load_cpu']:.2f} | {r['peak_mib']:.0f} | {drift} |")  # fmt: skip


if __name__ == "__main__":
    main()
