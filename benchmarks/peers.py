"""mergewise against the auto-merging of LlamaIndex and Haystack, with the same documents and the same embedder.

    python -m benchmarks.peers [--leaves 20000] [--questions 60] [--vectors minilm|words] [--json]

`make peers` makes the environment of the peers. `peers_requirements.txt` pins llama-index-core==0.14.25 and haystack-ai==3.4.0.

Each system runs in a separate process, one after another:

- mergewise: `Index.add` into an empty directory: trees, rows on disk, full text, id and vector indexes. A query is
  `Index.context` with `auto-merge(k=24)` and 640 tokens: BM25 and vectors, fusion, merging, budget and rendering.
- LlamaIndex: `HierarchicalNodeParser` 2048/512/128, all nodes into a `SimpleDocumentStore`, the leaves into a
  `VectorStoreIndex` with a `SimpleVectorStore`. A query is `AutoMergingRetriever.retrieve` over 24 hits.
- Haystack: `HierarchicalDocumentSplitter` 1500/380/95 words, the leaves into one `InMemoryDocumentStore`, the nodes
  above them into another one, as in its documentation. A query is `InMemoryEmbeddingRetriever` with 24 hits, then
  `AutoMergingRetriever` with the threshold 0.5.

Embedding is excluded from every figure: the peers get leaves and questions with vectors, and the time of the embedder
in mergewise is subtracted. The peers search only vectors and keep everything in memory; nothing is saved to disk.
Each system uses the leaves of its own splitter, so their numbers differ. Ratios are of wall-clock time. The table also
gives the processor time of all threads, which other programs disturb less.

`--vectors words` replaces the model's vectors by the mean of fixed random vectors, one per word: embedding a large
corpus takes seconds instead of minutes. A scan of all vectors costs the same for any values.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any
from zlib import crc32

import numpy as np

import mergewise
from benchmarks.corpus import documents, questions
from mergewise import Document
from mergewise.models.onnx import minilm
from mergewise.protocols import Embedder, FloatArray

HITS, BUDGET = 24, 640
WARM_UP = 5
GOAL = 10
PINNED = {"llama-index-core": "0.14.25", "haystack-ai": "3.4.0"}
ROOT = Path(__file__).parents[1]


class Words:
    """A fake embedder: texts with common words get similar vectors."""

    spec = "words"
    dimension = 384

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        rows = np.stack([np.mean([_word_vector(word) for word in _words(text)], axis=0) for text in texts])
        unit: FloatArray = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self.embed_documents(texts)


def _words(text: str) -> list[str]:
    return re.findall(r"\w{4,}", text.lower()) or [text]


@cache
def _word_vector(word: str) -> FloatArray:
    return np.random.default_rng(crc32(word.encode())).standard_normal(Words.dimension, dtype=np.float32)


EMBEDDERS: dict[str, Callable[[], Embedder]] = {"minilm": minilm, "words": Words}


@dataclass
class Watch:
    """Wall-clock and processor seconds by label."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, label: str) -> Iterator[None]:
        started, cpu = perf_counter(), process_time()
        try:
            yield
        finally:
            self.seconds[label] = self.seconds.get(label, 0.0) + perf_counter() - started
            self.cpu[label] = self.cpu.get(label, 0.0) + process_time() - cpu


@dataclass(eq=False)
class Prepared:
    """An embedder for mergewise that times the documents and has precomputed vectors of the questions."""

    embedder: Embedder
    known: dict[str, FloatArray]
    watch: Watch

    spec = "minilm"
    dimension = 384

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        with self.watch("embed"):
            return self.embedder.embed_documents(texts)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return np.stack([self.known[text] for text in texts])


@dataclass(frozen=True)
class Built:
    """A system with the corpus. `merged` checks an answer of `ask` for nodes larger than leaves."""

    leaves: int
    seconds: dict[str, float]
    cpu: float
    ask: Callable[[str], Any]
    merged: Callable[[Any], bool]


@dataclass(frozen=True)
class Result:
    """The figures of one system. `merged` counts the questions with merged parents in the answer."""

    system: str
    documents: int
    leaves: int
    index_s: float
    index_cpu_s: float
    where_s: dict[str, float]
    median_ms: float
    p95_ms: float
    cpu_ms: float
    merged: int
    peak_mb: float


def build_mergewise(corpus: Sequence[Document], embedder: Embedder, known: dict[str, FloatArray]) -> Built:
    watch, directory = Watch(), tempfile.mkdtemp(prefix="mergewise-bench-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    index = mergewise.open(Path(directory) / "index", embedder="minilm")
    index._models = replace(index._models, embedder=Prepared(embedder, known, watch))
    with watch("all"):
        index.add(corpus)

    def ask(question: str) -> Any:
        return index.context(question, strategy=f"auto-merge(k={HITS})", budget=BUDGET)

    return Built(
        leaves=index.store.reader().row_counts()["leaf"],
        seconds={"trees, rows, indexes": watch.seconds["all"] - watch.seconds["embed"]},
        cpu=watch.cpu["all"] - watch.cpu["embed"],
        ask=ask,
        merged=lambda context: any(step.action == "merge" for step in context.trace),
    )


def build_llamaindex(corpus: Sequence[Document], embedder: Embedder, known: dict[str, FloatArray]) -> Built:
    from llama_index.core import Document as Whole
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.embeddings import MockEmbedding
    from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
    from llama_index.core.retrievers import AutoMergingRetriever
    from llama_index.core.schema import MetadataMode, QueryBundle
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.core.vector_stores import SimpleVectorStore

    watch = Watch()
    whole = [Whole(id_=document.id, text=document.text) for document in corpus]
    parser = HierarchicalNodeParser.from_defaults(chunk_sizes=[2048, 512, 128])
    with watch("split"):
        nodes = parser.get_nodes_from_documents(whole)
        leaves = get_leaf_nodes(nodes)
    vectors = embedder.embed_documents([leaf.get_content(MetadataMode.EMBED) for leaf in leaves])
    for leaf, vector in zip(leaves, vectors.tolist(), strict=True):
        leaf.embedding = vector
    with watch("store"):
        docstore = SimpleDocumentStore()
        docstore.add_documents(nodes)
        storage = StorageContext.from_defaults(docstore=docstore, vector_store=SimpleVectorStore())
        # Nodes and questions already carry vectors, so this model is never called.
        index = VectorStoreIndex(leaves, storage_context=storage, embed_model=MockEmbedding(embedder.dimension))
    retriever = AutoMergingRetriever(index.as_retriever(similarity_top_k=HITS), storage)
    bundles = {text: QueryBundle(text, embedding=vector.tolist()) for text, vector in known.items()}
    return Built(
        leaves=len(leaves),
        seconds=watch.seconds,
        cpu=sum(watch.cpu.values()),
        ask=lambda question: retriever.retrieve(bundles[question]),
        merged=lambda hits: any(hit.node.child_nodes for hit in hits),
    )


def build_haystack(corpus: Sequence[Document], embedder: Embedder, known: dict[str, FloatArray]) -> Built:
    from haystack import Document as Node
    from haystack.components.preprocessors import HierarchicalDocumentSplitter
    from haystack.components.retrievers import AutoMergingRetriever, InMemoryEmbeddingRetriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    watch = Watch()
    whole = [Node(id=document.id, content=document.text) for document in corpus]
    splitter = HierarchicalDocumentSplitter(block_sizes={1500, 380, 95}, split_overlap=0, split_by="word")
    with watch("split"):
        nodes = splitter.run(whole)["documents"]
        leaves = [node for node in nodes if not node.meta["__children_ids"]]
        inner = [node for node in nodes if node.meta["__children_ids"]]
    vectors = embedder.embed_documents([leaf.content or "" for leaf in leaves])
    leaves = [replace(leaf, embedding=vector) for leaf, vector in zip(leaves, vectors.tolist(), strict=True)]
    with watch("store"):
        leaf_store, parent_store = InMemoryDocumentStore(), InMemoryDocumentStore()
        leaf_store.write_documents(leaves)
        parent_store.write_documents(inner)
    retriever = InMemoryEmbeddingRetriever(leaf_store, top_k=HITS)
    merger = AutoMergingRetriever(parent_store, threshold=0.5)
    lists = {text: vector.tolist() for text, vector in known.items()}

    def ask(question: str) -> list[Node]:
        hits = retriever.run(query_embedding=lists[question])["documents"]
        # Haystack refuses a document that was too short to split. Such a hit stays unmerged.
        alone = [hit for hit in hits if not hit.meta["__parent_id"]]
        merged: list[Node] = merger.run([hit for hit in hits if hit.meta["__parent_id"]])["documents"]
        return merged + alone

    return Built(
        leaves=len(leaves),
        seconds=watch.seconds,
        cpu=sum(watch.cpu.values()),
        ask=ask,
        merged=lambda nodes: any(node.meta["__children_ids"] for node in nodes),
    )


SYSTEMS = {"mergewise": build_mergewise, "llamaindex": build_llamaindex, "haystack": build_haystack}


def measure(system: str, leaves: int, count: int, vectors: str) -> Result:
    """Measure one system in this process."""
    corpus = list(documents(leaves))
    asked = questions(count + WARM_UP)
    embedder = EMBEDDERS[vectors]()
    known = dict(zip(asked, embedder.embed_queries(asked), strict=True))
    built = SYSTEMS[system](corpus, embedder, known)
    for question in asked[:WARM_UP]:
        built.ask(question)
    watch, times, merged = Watch(), [], 0
    for question in asked[WARM_UP:]:
        started = perf_counter()
        with watch("ask"):
            answer = built.ask(question)
        times.append(1000 * (perf_counter() - started))
        merged += built.merged(answer)
    return Result(
        system=system,
        documents=len(corpus),
        leaves=built.leaves,
        index_s=sum(built.seconds.values()),
        index_cpu_s=built.cpu,
        where_s=built.seconds,
        median_ms=statistics.median(times),
        p95_ms=statistics.quantiles(times, n=20)[-1],
        cpu_ms=1000 * watch.cpu["ask"] / count,
        merged=merged,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def measure_apart(system: str, leaves: int, count: int, vectors: str) -> Result:
    """Measure one system in a separate process, with a fresh heap."""
    words = ["--system", system, "--leaves", str(leaves), "--questions", str(count), "--vectors", vectors]
    quiet = os.environ | {"HF_HUB_OFFLINE": "1", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    command = [sys.executable, "-m", "benchmarks.peers", *words]
    done = subprocess.run(command, cwd=ROOT, env=quiet, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{system} failed with the error above")
    return Result(**json.loads(done.stdout.splitlines()[-1]))


def peer_versions() -> dict[str, str]:
    """Return the peers' versions. Exit if a package is missing."""
    versions = {}
    for package, pinned in PINNED.items():
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            sys.exit(f"package not installed: {package}. See `python -m benchmarks.peers --help` for the environment")
        if versions[package] != pinned:
            print(f"version of {package}: {versions[package]} (published figures: {pinned})", file=sys.stderr)
    return versions


def table(results: Sequence[Result], count: int) -> str:
    ours = results[0]
    head = "system, documents, leaves, index s, CPU s, ratio, median ms, p95 ms, CPU ms, ratio, merged in, peak MB"
    rows = [head.split(", ")]
    for r in results:
        index = (f"{r.index_s:.1f}", f"{r.index_cpu_s:.1f}", f"{r.index_s / ours.index_s:.1f}")
        query = (f"{r.median_ms:.1f}", f"{r.p95_ms:.1f}", f"{r.cpu_ms:.1f}", f"{r.median_ms / ours.median_ms:.1f}")
        sizes = (str(r.documents), str(r.leaves))
        rows.append([r.system, *sizes, *index, *query, f"{r.merged}/{count}", f"{r.peak_mb:.0f}"])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(x.ljust(w) if i == 0 else x.rjust(w) for i, (x, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    spent = [
        f"{r.system}: " + ", ".join(f"{label} {seconds:.1f} s" for label, seconds in r.where_s.items()) for r in results
    ]
    return "\n".join([*lines, "", *spent, "", *verdicts(results)])


def verdicts(results: Sequence[Result]) -> list[str]:
    """Return, for each peer, the speed of mergewise relative to it and to the goal (ten times as fast)."""
    ours, *peers = results
    lines = []
    for peer in peers:
        for what, clock, cpu in (
            ("index", peer.index_s / ours.index_s, peer.index_cpu_s / ours.index_cpu_s),
            ("query", peer.median_ms / ours.median_ms, peer.cpu_ms / ours.cpu_ms),
        ):
            reached = "reached" if clock >= GOAL else "NOT reached"
            lines.append(f"{peer.system}, {what}: {clock:.1f} times ours, {cpu:.1f} by CPU; {GOAL} times: {reached}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=20_000, help="Approximate number of leaves in mergewise")
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--vectors", choices=EMBEDDERS, default="minilm")
    parser.add_argument("--system", choices=SYSTEMS, help="Measure one system and print a line of JSON")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = (options.leaves, options.questions, options.vectors)
    if options.system:
        print(json.dumps(asdict(measure(options.system, *chosen))))
        return
    versions = peer_versions()
    results = [measure_apart(system, *chosen) for system in SYSTEMS]
    if options.json:
        print(json.dumps({"versions": versions, "systems": [asdict(result) for result in results]}, indent=2))
    else:
        print(table(results, options.questions))


if __name__ == "__main__":
    main()
