"""Where a vector index pays: exact scans against IVF_RQ at growing sizes, with recall, on real vectors.

python -m benchmarks.scale --embedder minilm --keep DIR     # makes an index
python -m benchmarks.vectors DIR [--sizes 5000,10000,20000,50000,100000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import lancedb
import numpy as np

from benchmarks.corpus import questions
from mergewise.models.minilm import MiniLM
from mergewise.protocols import FloatArray
from mergewise.store.lance import LanceStore
from mergewise.store.lance_reader import NPROBES, REFINE
from mergewise.store.manifest import read_manifest

K = 100


def median_ms(search: Callable[[FloatArray], Any], queries: FloatArray) -> tuple[float, list[set[int]]]:
    """The median over the queries, after a warm-up, and the rows that each returned."""
    for query in queries[:10]:
        search(query)
    taken, rows = [], []
    for query in queries:
        started = perf_counter()
        table = search(query)
        taken.append(1000 * (perf_counter() - started))
        rows.append(set(table["id"].to_pylist()))
    return statistics.median(taken), rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--sizes", default="5000,10000,20000,50000,100000")
    options = parser.parse_args()
    manifest = read_manifest(options.index)
    if manifest is None:
        parser.error(f"there is no index at {options.index}")
    leaf = LanceStore(options.index, manifest).reader()._table("leaf")
    rows = leaf.search().select(["id", "vector"]).limit(2**31 - 1).to_arrow()
    queries = MiniLM().embed_queries(questions(100)).astype(np.float16)
    print(f"{'rows':>8} {'exact ms':>9} {'IVF_RQ ms':>10} {'recall@100':>11} {'built in s':>11}")
    for size in (int(part) for part in options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            table = lancedb.connect(folder).create_table("v", rows.slice(0, size))

            def search(query: FloatArray, table: Any = table) -> Any:
                near = table.search(query, query_type="vector", vector_column_name="vector").distance_type("dot")
                return near.nprobes(NPROBES).refine_factor(REFINE).select(["id", "_distance"]).limit(K).to_arrow()

            exact, truth = median_ms(search, queries)
            started = perf_counter()
            table.create_index("vector", config=lancedb.index.IvfRq(distance_type="dot", num_bits=4))
            built = perf_counter() - started
            indexed, approximate = median_ms(search, queries)
            recall = statistics.mean(len(a & b) / len(b) for a, b in zip(approximate, truth, strict=True))
            print(f"{size:8} {exact:9.1f} {indexed:10.1f} {recall:11.3f} {built:11.1f}")


if __name__ == "__main__":
    main()
