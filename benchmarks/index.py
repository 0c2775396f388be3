"""The local index at scale: recall, similarities computed, filters, replacement, time beside the bare library.

usage: index.py [--sizes 5000,20000,100000] [--sets clustered,uniform] [--queries 100] [--folder F]
                [--no-replacement] [--json]

Vectors have 384 dimensions and unit length, from a fixed seed: `clustered` falls into n / 200 groups with a third of
their spread inside a group, `uniform` is spread evenly over the sphere, the hardest there is. Recall@10 is against an
exact search over all vectors. A filter keeps 50, 10, 1 and 0.1 % at random. Then 30 % of the records are replaced by
others, as the next version does it, and everything is asked again. `bare` is usearch over the same file with the same
numbers of candidates and hits: what is left is the price of versions, filters, exact scores and the ledger's ids.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime  # noqa: F401  # before usearch: the other way round the two crash
from usearch.index import Index

from pipeline.adapters.index_local import LocalIndex
from pipeline.adapters.index_local_graph import GraphSettings
from pipeline.filters import parse_filter
from pipeline.queries import DenseQuery, Search
from pipeline.types import Namespace, RecordBatch, RecordId, SparseVectors

DIM = 384
K = 10
SPACE = Namespace("bench.g1.chunks")
SHARES = {"none": None, "50 %": 500, "10 %": 100, "1 %": 10, "0.1 %": 1}
BLOCK = 8192


def unit(array: np.ndarray) -> np.ndarray:
    array /= np.linalg.norm(array, axis=1, keepdims=True)
    return array


class Points:
    """A seeded source of vectors."""

    def __init__(self, kind: str, size: int) -> None:
        self.rng = np.random.default_rng(7)
        self.centres = None
        if kind == "clustered":
            self.centres = self.rng.standard_normal((max(size // 200, 10), DIM), np.float32)

    def take(self, count: int) -> np.ndarray:
        noise = self.rng.standard_normal((count, DIM), np.float32)
        if self.centres is None:
            return unit(noise)
        return unit(self.centres[self.rng.integers(0, len(self.centres), count)] + np.float32(0.6) * noise)


def write(index: LocalIndex, vectors: np.ndarray, keys: np.ndarray, buckets: np.ndarray, added: int) -> None:
    for at in range(0, len(vectors), BLOCK):
        part = slice(at, at + BLOCK)
        count = len(vectors[part])
        index.upsert(
            RecordBatch(
                SPACE,
                added,
                tuple(RecordId(f"{key:09}") for key in keys[part]),
                vectors[part],
                SparseVectors(np.zeros(count + 1, np.int64), np.zeros(0, np.uint32), np.zeros(0, np.float32)),
                tuple({"source_path": "a.md", "bucket": int(b)} for b in buckets[part]),
            )
        )


def exact(queries: np.ndarray, vectors: np.ndarray, keys: np.ndarray, allowed: np.ndarray) -> list[set[int]]:
    best = [[] for _ in queries]
    for at in range(0, len(vectors), 65536):
        chosen = np.flatnonzero(allowed[at : at + 65536]) + at
        if not len(chosen):
            continue
        scores = queries @ vectors[chosen].T
        for row in range(len(queries)):
            top = np.argsort(-scores[row], kind="stable")[:K]
            best[row] = sorted([*best[row], *zip(-scores[row, top], keys[chosen[top]], strict=True)])[:K]
    return [{int(key) for _, key in found} for found in best]


def ask(index, queries, version, vectors, keys, buckets, live) -> dict:
    out = {}
    for name, below in SHARES.items():
        allowed = live if below is None else live & (buckets < below)
        right = exact(queries, vectors, keys, allowed)
        condition = None if below is None else parse_filter({"bucket": {"$lt": below}})
        found, short, distances, ef, graphs, milliseconds = 0, 0, [], [], [], []
        for query, wanted in zip(queries, right, strict=True):
            start = time.process_time()
            hits, trace = index.explain(SPACE, Search(DenseQuery(query), K, version, filter=condition))
            milliseconds.append((time.process_time() - start) * 1000)
            found += len({int(hit.id) for hit in hits} & wanted)
            short += len(hits) < min(K, int(allowed.sum()))
            distances.append(trace.distances)
            ef.append(trace.ef)
            graphs.append(trace.graphs)
        out[name] = {
            "recall": found / sum(map(len, right)), "short": short, "allowed": int(allowed.sum()),
            "distances": float(np.mean(distances)), "share": float(np.mean(distances)) / int(live.sum()),
            "ef": float(np.mean(ef)), "graphs": float(np.mean(graphs)), "cpu_ms": float(np.median(milliseconds)),
        }  # fmt: skip
    return out


def bare(folder: Path, queries: np.ndarray, ef: float) -> float:
    """Median CPU milliseconds of the bare library over the largest graph."""
    path = max(folder.glob("*.graph"), key=lambda p: p.stat().st_size, default=None)
    if path is None:
        return 0.0
    graph = Index.restore(str(path), view=True)
    graph.expansion_search = int(ef)
    spent = []
    for query in queries:
        start = time.process_time()
        graph.search(query, K + 16, threads=1)
        spent.append((time.process_time() - start) * 1000)
    return float(np.median(spent))


def show(r: dict, when: str) -> None:
    replaced = "30 %" if when == "replaced" else "no"
    for name, row in r[when].items():
        print(f"| {r['set']} | {r['size']} | {replaced} | {name} | {row['recall']:.3f} | {row['short']} | {row['share']:.2%} | "
              f"{row['graphs']:.1f} | {row['cpu_ms']:.2f} |", flush=True)  # fmt: skip


def measure(kind: str, size: int, queries_count: int, folder: Path, *, replace: bool) -> dict:
    points = Points(kind, size)
    vectors = points.take(size)
    queries = points.take(queries_count)
    rng = np.random.default_rng(11)
    keys, buckets = np.arange(size), rng.integers(0, 1000, size)
    live = np.ones(size, np.bool_)
    path = folder / f"{kind}{size}.sqlite"
    kept = path.exists()
    index = LocalIndex(path, graphs=GraphSettings())
    start, cpu = time.time(), time.process_time()
    if not kept:
        write(index, vectors, keys, buckets, 1)
    report = {"set": kind, "size": size, "write_s": time.time() - start, "write_cpu": time.process_time() - cpu}
    start, cpu = time.time(), time.process_time()
    index.optimize(SPACE, report=lambda done, total: print(f"\r{kind} {size}: {done}/{total}", end="", file=sys.stderr),
                   stop=lambda: False)  # fmt: skip
    print(file=sys.stderr)
    report |= {"build_s": time.time() - start, "build_cpu": time.process_time() - cpu}
    report["graphs"] = [f"{g.records} ef {g.ef_search} recall {g.recall:.3f}" for g in index.graphs(SPACE)]
    report["first"] = ask(index, queries, 1, vectors, keys, buckets, live)
    show(report, "first")
    report["bare_ms"] = bare(folder / f"{kind}{size}.graphs", queries, report["first"]["none"]["ef"] or 1)
    report["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if not replace:
        index.close()
        return report
    gone = rng.permutation(size)[: size * 3 // 10]
    for at in range(0, len(gone), BLOCK):
        index.stamp(SPACE, [RecordId(f"{key:09}") for key in gone[at : at + BLOCK]], 2)
    live[gone] = False
    fresh = points.take(len(gone))
    new = np.arange(size, size + len(gone))
    fresh_buckets = rng.integers(0, 1000, len(gone))
    write(index, fresh, new, fresh_buckets, 2)
    index.optimize(SPACE, report=lambda _d, _t: None, stop=lambda: False)
    report["graphs_after"] = [f"{g.records} ef {g.ef_search} recall {g.recall:.3f}" for g in index.graphs(SPACE)]
    everything = np.concatenate([vectors, fresh])
    report["replaced"] = ask(
        index, queries, 2, everything, np.concatenate([keys, new]), np.concatenate([buckets, fresh_buckets]),
        np.concatenate([live, np.ones(len(new), np.bool_)]),
    )  # fmt: skip
    show(report, "replaced")
    report["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    index.close()
    return report


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--sizes", default="5000,20000,100000")
    asked.add_argument("--sets", default="clustered,uniform")
    asked.add_argument("--queries", type=int, default=100)
    asked.add_argument("--folder", type=Path, help="keep the indexes here, and ask those that are there already")
    asked.add_argument("--no-replacement", action="store_true", help="ask once, replace nothing")
    asked.add_argument("--json", action="store_true")
    args = asked.parse_args()
    if not args.json:
        print(
            "| set | records | replaced | kept by filter | recall@10 | too few | similarities of all | by graph | ms |"
        )
        print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        reports = [
            measure(kind, int(size), args.queries, folder, replace=not args.no_replacement)
            for size in args.sizes.split(",")
            for kind in args.sets.split(",")
        ]
    if args.json:
        json.dump(reports, sys.stdout, indent=1)
        return
    for r in reports:
        print(f"\n{r['set']} {r['size']}: written in {r['write_s']:.0f} s ({r['write_cpu']:.0f} CPU s), graphs built in "
              f"{r['build_s']:.0f} s ({r['build_cpu']:.0f} CPU s): {r['graphs'] or 'none'}; after 30 %: {r.get('graphs_after')}; "
              f"a search {r['first']['none']['cpu_ms']:.2f} ms, bare {r['bare_ms']:.2f} ms; peak {r['peak_mib']:.0f} MiB")  # fmt: skip


if __name__ == "__main__":
    main()
