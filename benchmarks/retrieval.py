"""What retrieval finds: dense, sparse and hybrid on four public sets, with both local models.

usage: retrieval.py DATA [--models static,minilm] [--sets chroma,markdown,scifact,2wiki] [--context-tokens 64]
                    [--cache FOLDER] [--json]

DATA holds `chunking-evaluation/` (Chroma's five corpora and questions), `scifact/`, `multihop-2wiki/` and `markdown/`
(improvement proposals under `eips/`, and the order of files in `markdown-order.txt`). Sources pass through the product's
own parsers, chunkers, encoders and fusion; search is exact, over all chunks of a set.

Scores a question gets: chroma and markdown, the share of the reference characters in the five best chunks; scifact,
nDCG@10 over abstracts; 2wiki, the share of the needed passages among the five best.

The weight of the dense leg is the one parameter. It is chosen on one half of all questions (by the mean over sets) and
reported on the other, both ways round. The difference to each set's better single retriever is pooled over all
questions; its interval is a paired bootstrap's (10,000 samples, drawn within each set).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pipeline import search
from pipeline.adapters.embedder_minilm import MiniLmEmbedder
from pipeline.adapters.embedder_static import StaticEmbedder
from pipeline.chunk import ChunkOptions, chunk_document
from pipeline.drafts import context_line
from pipeline.embed.sparse import SparseEncoder, query_weights
from pipeline.fusion import fuse
from pipeline.parse import parse_bytes
from pipeline.types import Hit

csv.field_size_limit(10**9)
MODELS = {"static": StaticEmbedder, "minilm": MiniLmEmbedder}
GRID = [round(0.05 * i, 2) for i in range(21)]
SAMPLES = 10_000
EIPS = 300


@dataclass
class Set:
    """Chunks of a corpus, and questions with what answers them."""

    name: str
    questions: list[str]
    gold: list
    texts: list[str] = field(default_factory=list)
    owner: list = field(default_factory=list)
    """Document of each chunk: a number, or its name with the chunk's span."""

    def judge(self, question: int, order: list[int]) -> float:
        if self.name in ("chroma", "markdown"):
            document, references = self.gold[question]
            found = [self.owner[i][1] for i in order[:5] if self.owner[i][0] == document]
            covered = [(max(a, c), min(b, d)) for a, b in found for c, d in references if min(b, d) > max(a, c)]
            return union(covered) / sum(b - a for a, b in references)
        documents = list(dict.fromkeys(self.owner[i] for i in order))
        gold = self.gold[question]
        if self.name == "scifact":
            gains = sum(1 / np.log2(i + 2) for i, one in enumerate(documents[:10]) if one in gold)
            return gains / sum(1 / np.log2(i + 2) for i in range(min(10, len(gold))))
        return len(gold & set(documents[:5])) / len(gold)


def union(spans):
    total, end = 0, -1
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def lines(path: Path):
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return [json.loads(line) for line in text.split("\n") if line]


def cut(name: str, text: str, context_tokens: int):
    document = parse_bytes(text.encode(), name)
    chunks = chunk_document(document, "markdown_heading", ChunkOptions(target_size=400, overlap=0))
    return document.text, [
        ((c.start, c.end), context_line(document.title, c.heading_path, context_tokens) + c.prefix + c.text)
        for c in chunks
    ]


def spans_of(name: str, asked, sources, context_tokens: int) -> Set:
    made = Set(name, [question for question, _, _ in asked], [(source, spans) for _, source, spans in asked])
    for source, text in sources.items():
        parsed, chunks = cut(f"{source}.md", text, context_tokens)
        if parsed != text:  # comments are gone: the references have moved
            for at, (owner, spans) in enumerate(made.gold):
                if owner == source:
                    starts = [parsed.find(text[a:b]) for a, b in spans]
                    made.gold[at] = (
                        source,
                        [(s, s + b - a) for s, (a, b) in zip(starts, spans, strict=True) if s >= 0] or spans,
                    )
        for span, embedded in chunks:
            made.texts.append(embedded)
            made.owner.append((source, span))
    return made


def chroma(data: Path, context_tokens: int) -> Set:
    folder = data / "chunking-evaluation"
    rows = list(csv.DictReader((folder / "questions_df.csv").open(encoding="utf-8", newline="")))
    asked = [
        (row["question"], row["corpus_id"], [(r["start_index"], r["end_index"]) for r in json.loads(row["references"])])
        for row in rows
    ]
    sources = {name: (folder / f"{name}.md").read_text("utf-8") for name in dict.fromkeys(a[1] for a in asked)}
    return spans_of("chroma", asked, sources, context_tokens)


def markdown(data: Path, context_tokens: int) -> Set:
    """Proposals without their front matter, whose title and description ask for the section Abstract."""
    asked, sources = [], {}
    order = (data / "markdown-order.txt").read_text().split("\n")[:4000]
    for path in sorted((data / "markdown" / n for n in order if n.startswith("eips/")), key=lambda p: p.name):
        text = path.read_text("utf-8")
        matter = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        if not matter:
            continue
        head = dict(re.findall(r"^(title|description): *(.+)$", matter.group(1), re.MULTILINE))
        body = text[matter.end() :]
        abstract = re.search(r"^## Abstract *\n(.*?)(?=^## |\Z)", body, re.DOTALL | re.MULTILINE)
        if "description" not in head or not abstract or not 100 <= len(abstract.group(1).strip()) <= 2500:
            continue
        found = abstract.group(1)
        start = abstract.start(1) + len(found) - len(found.lstrip())
        asked.append((head["title"] + ". " + head["description"], path.name, [(start, start + len(found.strip()))]))
        sources[path.name] = body
        if len(asked) == EIPS:
            break
    return spans_of("markdown", asked, sources, context_tokens)


def passages(name: str, documents, asked, context_tokens: int) -> Set:
    made = Set(name, [question for question, _ in asked], [gold for _, gold in asked])
    for number, (title, body) in enumerate(documents):
        for _, embedded in cut(f"{number}.md", f"# {title}\n\n{body}\n", context_tokens)[1]:
            made.texts.append(embedded)
            made.owner.append(number)
    return made


def scifact(data: Path, context_tokens: int) -> Set:
    corpus = lines(data / "scifact" / "corpus.jsonl.gz")
    number = {one["_id"]: i for i, one in enumerate(corpus)}
    claims = [one for one in lines(data / "scifact" / "claims-validation.jsonl") if one["cited"]]
    documents = [(one["title"], " ".join(one["sentences"])) for one in corpus]
    return passages(
        "scifact", documents, [(c["claim"], {number[d] for d in c["cited"]}) for c in claims], context_tokens
    )


def two_wiki(data: Path, context_tokens: int) -> Set:
    corpus = lines(data / "multihop-2wiki" / "corpus.jsonl.gz")
    number = {one["title"]: i for i, one in enumerate(corpus)}
    questions = lines(data / "multihop-2wiki" / "questions.jsonl")
    asked = [(q["question"], {number[title] for title in q["gold_titles"]}) for q in questions]
    return passages("2wiki", [(one["title"], one["text"]) for one in corpus], asked, context_tokens)


SETS = {"chroma": chroma, "markdown": markdown, "scifact": scifact, "2wiki": two_wiki}


def embedded(model, texts: list[str], cache: Path | None) -> np.ndarray:
    """Vectors, from the cache where these very texts were embedded before."""
    digest = hashlib.sha256(json.dumps([model.identity.sha256, model.identity.version, texts]).encode()).hexdigest()
    path = cache / f"{digest[:32]}.npy" if cache else None
    if path and path.exists():
        return np.load(path)
    vectors = np.concatenate([model.embed(texts[at : at + 256]).vectors for at in range(0, len(texts), 256)])
    if path:
        np.save(path, vectors)
    return vectors


def sparse_scores(texts: list[str], questions: list[str]) -> np.ndarray:
    encoder = SparseEncoder()
    vectors = encoder.encode(texts)
    rows = np.repeat(np.arange(len(texts)), np.diff(vectors.indptr))
    order = np.argsort(vectors.indices, kind="stable")
    terms, rows, values = vectors.indices[order], rows[order], vectors.values[order].astype(float)
    known, counts = np.unique(terms, return_counts=True)
    held = dict(zip(known.tolist(), counts.tolist(), strict=True))
    scores = np.zeros((len(questions), len(texts)))
    for at, question in enumerate(questions):
        weights = query_weights(encoder.query_terms(question), doc_count=len(texts), term_counts=held)
        for term, weight in weights.items():
            start, end = np.searchsorted(terms, [term, term + 1])
            scores[at, rows[start:end]] += values[start:end] * weight
    return scores


def hits(scores: np.ndarray, depth: int) -> list[Hit]:
    best = np.argpartition(-scores, depth)[:depth]
    return [Hit(int(i), float(scores[i])) for i in best[np.lexsort((best, -scores[best]))] if scores[i] > 0]


@dataclass
class Measured:
    """Score of every question of a set: by each retriever, by rank fusion, and by our fusion at each weight."""

    name: str
    single: dict[str, np.ndarray]
    rank: np.ndarray
    by_weight: np.ndarray
    """(weights, questions)."""

    @property
    def better(self) -> np.ndarray:
        return max(self.single.values(), key=lambda values: values.mean())


def measure(one: Set, model, cache: Path | None) -> Measured:
    dense = embedded(model, one.questions, cache) @ embedded(model, one.texts, cache).T
    sparse = sparse_scores(one.texts, one.questions)
    single = {"dense": [], "sparse": []}
    rank, by_weight = [], []
    for at in range(len(one.questions)):
        legs = {"dense": hits(dense[at], search.DEPTH_MIN), "sparse": hits(sparse[at], search.DEPTH_MIN)}
        for name, found in legs.items():
            single[name].append(one.judge(at, [hit.id for hit in found]))
        places: dict[int, float] = {}
        for found in legs.values():
            for place, hit in enumerate(found, 1):
                places[hit.id] = places.get(hit.id, 0) + 1 / (60 + place)
        rank.append(one.judge(at, sorted(places, key=lambda i: (-places[i], i))))
        complete = [name for name, found in legs.items() if len(found) < search.DEPTH_MIN]
        by_weight.append([
            one.judge(at, [f.id for f in fuse(legs, {"dense": w, "sparse": 1 - w}, complete)]) for w in GRID
        ])  # fmt: skip
    return Measured(one.name, {n: np.array(v) for n, v in single.items()}, np.array(rank), np.array(by_weight).T)


def two_fold(results: list[Measured]) -> tuple[list[np.ndarray], list[float]]:
    """Each question's score under the weight that the other half chose; and the two weights."""
    halves = [[np.arange(len(r.rank)) % 2 == side for r in results] for side in (0, 1)]
    chosen, scores = [], [np.zeros(len(r.rank)) for r in results]
    for learn, report in ((0, 1), (1, 0)):
        means = [np.mean([r.by_weight[w][half].mean() for r, half in zip(results, halves[learn], strict=True)])
                 for w in range(len(GRID))]  # fmt: skip
        best = int(np.argmax(means))
        chosen.append(GRID[best])
        for r, half, out in zip(results, halves[report], scores, strict=True):
            out[half] = r.by_weight[best][half]
    return scores, chosen


def bootstrap(differences: list[np.ndarray]) -> tuple[float, float, float]:
    """Pooled mean of paired differences, and the bounds of its 95 % interval."""
    rng = np.random.default_rng(7)
    pooled = np.concatenate(differences)
    samples = np.zeros(SAMPLES)
    for part in differences:
        samples += part[rng.integers(0, len(part), (SAMPLES, len(part)))].sum(axis=1)
    low, high = np.quantile(samples / len(pooled), [0.025, 0.975])
    return float(pooled.mean()), float(low), float(high)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("data", type=Path)
    asked.add_argument("--models", default="static,minilm")
    asked.add_argument("--sets", default=",".join(SETS))
    asked.add_argument("--context-tokens", type=int, default=64)
    asked.add_argument("--cache", type=Path)
    asked.add_argument("--json", action="store_true")
    args = asked.parse_args()
    sets = [SETS[name](args.data, args.context_tokens) for name in args.sets.split(",")]
    report = {}
    for name in args.models.split(","):
        results = [measure(one, MODELS[name](), args.cache) for one in sets]
        scores, weights = two_fold(results)
        default = GRID.index(search.WEIGHTS["dense"])
        rows = {
            r.name: {
                "chunks": len(one.texts), "questions": len(one.questions),
                **{leg: float(v.mean()) for leg, v in r.single.items()},
                "rank_fusion": float(r.rank.mean()), "hybrid_two_fold": float(s.mean()),
                "hybrid_default": float(r.by_weight[default].mean()),
            }
            for r, one, s in zip(results, sets, scores, strict=True)
        }  # fmt: skip
        pooled = bootstrap([s - r.better for r, s in zip(results, scores, strict=True)])
        fixed = bootstrap([r.by_weight[default] - r.better for r in results])
        report[name] = {"sets": rows, "weights": weights, "pooled": pooled, "pooled_default": fixed}
    if args.json:
        json.dump(report, sys.stdout, indent=1)
        return
    for name, found in report.items():
        print(f"\n{name}: dense weight {found['weights'][0]} and {found['weights'][1]} by halves; in use "
              f"{search.WEIGHTS['dense']}")  # fmt: skip
        print("| set | questions | chunks | dense | sparse | rank fusion | hybrid, two-fold | hybrid in use |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for set_name, row in found["sets"].items():
            print(f"| {set_name} | {row['questions']} | {row['chunks']} | {row['dense']:.3f} | {row['sparse']:.3f} | "
                  f"{row['rank_fusion']:.3f} | {row['hybrid_two_fold']:.3f} | {row['hybrid_default']:.3f} |")  # fmt: skip
        for what, key in (("two-fold", "pooled"), ("in use", "pooled_default")):
            mean, low, high = found[key]
            print(f"hybrid ({what}) less the better retriever of each set, all questions pooled: "
                  f"{mean:+.4f}, 95 % [{low:+.4f}, {high:+.4f}]")  # fmt: skip


if __name__ == "__main__":
    main()
