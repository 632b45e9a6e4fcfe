"""Exact scans against the vector index IVF_RQ at growing sizes, with recall, on real vectors.

The candidates of the index are compared exactly afterwards, as in the store.

python -m benchmarks.scale --embedder minilm --keep DIR     # builds an index
python -m benchmarks.vectors DIR [--sizes 5000,10000,20000,50000,100000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import perf_counter
from typing import Any

import lancedb
import numpy as np

import mergewise
from benchmarks.corpus import questions
from mergewise.models.onnx import minilm
from mergewise.protocols import FloatArray
from mergewise.store.lance_search import NPROBES, REFINE
from mergewise.store.snapshot import run

K = 100


def median_ms(search: Callable[[FloatArray], list[int]], queries: FloatArray) -> tuple[float, list[set[int]]]:
    """Return the median over the queries, after a warm-up, and the rows of each."""
    for query in queries[:10]:
        search(query)
    taken, nearest = [], []
    for query in queries:
        started = perf_counter()
        rows = search(query)
        taken.append(1000 * (perf_counter() - started))
        nearest.append(set(rows))
    return statistics.median(taken), nearest


def searcher(folder: str, vectors: FloatArray, candidates: int) -> Callable[[FloatArray], list[int]]:
    """Return a search for the row numbers of the K nearest among `candidates` rows of the index."""

    async def opened() -> Any:
        return await (await lancedb.connect_async(folder)).open_table("v")

    table = run(opened())

    def found(query: FloatArray) -> Coroutine[Any, Any, Any]:
        search = table.query().nearest_to(query.astype(np.float16)).column("vector").distance_type("dot")
        return search.nprobes(NPROBES).select(["row", "_distance"]).limit(candidates).to_arrow()  # type: ignore[no-any-return]

    def search(query: FloatArray) -> list[int]:
        rows = run(found(query))["row"].to_numpy()
        cosines = np.einsum("ij,j->i", vectors[rows].astype(np.float32), query)
        return rows[np.argsort(-cosines)[:K]].tolist()  # type: ignore[no-any-return]

    return search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--sizes", default="5000,10000,20000,50000,100000")
    options = parser.parse_args()
    rows = mergewise.open(options.index, create=False).store.reader().whole("leaf", ["vector"])
    rows = rows.append_column("row", [list(range(len(rows)))]).combine_chunks()
    vectors = rows["vector"].chunk(0).flatten().to_numpy().reshape(len(rows), -1)
    queries = minilm().embed_queries(questions(100))
    print(f"{'rows':>8} {'exact ms':>9} {'IVF_RQ ms':>10} {'recall@100':>11} {'built in s':>11}")
    for size in (int(part) for part in options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            table = lancedb.connect(folder).create_table("v", rows.slice(0, size))
            exact, truth = median_ms(searcher(folder, vectors, K), queries)
            started = perf_counter()
            table.create_index("vector", config=lancedb.index.IvfRq(distance_type="dot", num_bits=4))
            built = perf_counter() - started
            indexed, nearest = median_ms(searcher(folder, vectors, REFINE * K), queries)
            recall = statistics.mean(len(a & b) / len(b) for a, b in zip(nearest, truth, strict=True))
            print(f"{size:8} {exact:9.1f} {indexed:10.1f} {recall:11.3f} {built:11.1f}")


if __name__ == "__main__":
    main()
