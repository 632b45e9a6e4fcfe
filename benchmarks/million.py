"""Recall, processor time, size and build time of vector indexes at a million vectors, and of eight shards of them.

python -m benchmarks.scale --embedder minilm --keep INDEX     # builds an index of 10^5 leaves
python -m benchmarks.million INDEX --keep DIR [--runs 'shape;rq;shards']

There are no million real vectors at hand, so the vectors of an index are multiplied: to a vector are added random multiples of
the differences to its near neighbours, so that the new vectors stay within the space that the real ones fill there.

shape       distances to the neighbours of vectors and of real questions, and the local dimension, of real and of made vectors:
            they should go on as they did from 10^4 to 10^5
partitions  recall by the number of partitions searched, if their rows were compared exactly: no index is built
others      recall, milliseconds, processor milliseconds over all threads, bytes and build time of an index. Candidates are
            compared exactly afterwards, as in the store

Vectors, built tables and finished runs are stored in DIR, and are not made again.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import lancedb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lancedb.index import IvfRq

import mergewise
from benchmarks.corpus import questions
from mergewise.models.onnx import minilm
from mergewise.protocols import FloatArray
from mergewise.store.snapshot import run
from mergewise.store.tables import vector_array

SIZE, SHARDS, QUESTIONS, K = 1_000_000, 8, 200, 100
# near neighbours whose differences are mixed, and the length of the mixture in mean differences
NEIGHBOURS, SPREAD = 32, 0.5
CELLS, BLOCK = 256, 20_000
Halves = npt.NDArray[np.float16]


# -- vectors


def real_vectors(index: Path) -> Halves:
    """Return the vectors of an index's leaves in random order, without equal ones."""
    column = mergewise.open(index, create=False).store.reader().whole("leaf", ["vector"])["vector"].combine_chunks()
    vectors = column.flatten().to_numpy().reshape(len(column), -1)
    _, first = np.unique(np.ascontiguousarray(vectors[:, :32]).view("V64")[:, 0], return_index=True)
    some: Halves = vectors[np.random.default_rng(0).permutation(first)]
    return some


def unit(rows: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def near_neighbours(vectors: FloatArray) -> npt.NDArray[np.int64]:
    """Return the rows of near neighbours of each vector: the nearest in its cell and the two cells beside it."""
    centres = vectors[np.random.default_rng(1).choice(len(vectors), CELLS, replace=False)]
    cell = np.concatenate([(part @ centres.T).argmax(1) for part in np.array_split(vectors, 20)])
    beside = (centres @ centres.T).argsort(1)[:, -3:]
    near = np.empty((len(vectors), NEIGHBOURS), np.int64)
    for own in range(CELLS):
        rows, others = np.flatnonzero(cell == own), np.flatnonzero(np.isin(cell, beside[own]))
        for part in np.array_split(rows, len(rows) // 2000 + 1):
            # the vector itself is the nearest
            order = np.argpartition(-(vectors[part] @ vectors[others].T), NEIGHBOURS, axis=1)[:, : NEIGHBOURS + 1]
            for row, places in zip(part, others[order], strict=True):
                near[row] = places[places != row][:NEIGHBOURS]
    return near


def write_vectors(real: Halves, file: Path, size: int, spread: float) -> None:
    """Write the real vectors first, then mixtures."""
    vectors = real.astype(np.float32)
    near = near_neighbours(vectors)
    made = np.lib.format.open_memmap(file.with_suffix(".part"), "w+", np.float16, (size, vectors.shape[1]))
    made[: len(real)] = real
    draw = np.random.default_rng(2)
    order = np.concatenate([draw.permutation(len(real)) for _ in range(-(-size // len(real)))])
    for first in range(len(real), size, BLOCK):
        base = order[first : min(first + BLOCK, size)]
        weights = draw.normal(size=(len(base), NEIGHBOURS)).astype(np.float32) * (spread / NEIGHBOURS**0.5)
        mixed = vectors[base] * (1 - weights.sum(1, keepdims=True))
        for at in range(NEIGHBOURS):
            mixed += weights[:, at, None] * vectors[near[base, at]]
        made[first : first + len(base)] = unit(mixed)
    made.flush()
    file.with_suffix(".part").replace(file)


def nearest(asked: FloatArray, vectors: Halves, k: int) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Return rows and cosines of the exact `k` nearest, nearest first."""
    rows, cosines = np.empty((len(asked), 0), np.int64), np.empty((len(asked), 0), np.float32)
    for first in range(0, len(vectors), BLOCK):
        some = asked @ vectors[first : first + BLOCK].astype(np.float32).T
        best = np.argpartition(-some, min(k, some.shape[1] - 1), axis=1)[:, :k]
        rows = np.concatenate([rows, best + first], axis=1)
        cosines = np.concatenate([cosines, np.take_along_axis(some, best, 1)], axis=1)
        kept = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        rows, cosines = np.take_along_axis(rows, kept, 1), np.take_along_axis(cosines, kept, 1)
    return rows, cosines


def shape(asked: FloatArray, vectors: Halves, own: bool) -> dict[str, float]:
    """Return median distances to neighbours, and the median local dimension from the nearest 100 (Levina and Bickel's estimate).

    `own` tells that the asked vectors are among the others.
    """
    _, cosines = nearest(asked, vectors, K + own)
    distances = np.sqrt(np.maximum(2 - 2 * cosines[:, int(own) :], 1e-6))
    dimension = 1 / np.log(distances[:, -1:] / distances[:, 9:-1]).mean(1)
    at = {f"to neighbour {n}": float(np.median(distances[:, n - 1])) for n in (1, 10, 100)}
    return {**at, "local dimension": float(np.median(dimension))}


# -- runs


@dataclass(frozen=True)
class Run:
    """Index these vectors in so many tables, and search so many partitions for candidates."""

    vectors: str
    # partitions searched in each table, and candidates as a multiple of the rows asked for
    searched: Sequence[tuple[int, int]]
    partitions: int | None = None
    tables: int = 1


SEARCHED = ((20, 2), (43, 2), (64, 2), (86, 2), (86, 4), (128, 2), (172, 2))
RUNS = {
    "real": Run("real", ((10, 2), (20, 2))),
    "real, partitions of 400": Run("real", SEARCHED, partitions=245),
    "rq": Run("made", SEARCHED),
    "shards": Run("made", ((10, 2), (20, 2), (21, 2), (27, 2)), tables=SHARDS),
}


def measure(name: str, vectors: Halves, queries: FloatArray, folder: Path) -> Iterator[dict[str, Any]]:
    """Build the index, or go on with what is built of it, and search it."""
    of = RUNS[name]
    truth, _ = nearest(queries, vectors, K)
    tables = []
    # like documents, vectors are spread over the tables
    parts = [np.arange(at, len(vectors), of.tables) for at in range(of.tables)]
    for at, rows in enumerate(parts):
        times = folder / f"t{at}.json"
        if not times.exists():
            data = pa.table({"vector": vector_array(np.asarray(vectors[rows]))})
            table = lancedb.connect(str(folder)).create_table(f"t{at}", data, mode="overwrite")
            began, cpu = perf_counter(), process_time()
            table.create_index("vector", config=IvfRq(distance_type="dot", num_bits=4, num_partitions=of.partitions))
            times.write_text(json.dumps([perf_counter() - began, process_time() - cpu]))
        tables.append(run(opened(folder, f"t{at}")))
    built = np.array([json.loads((folder / f"t{at}.json").read_text()) for at in range(len(parts))]).sum(0)
    files = [file.stat().st_size for file in folder.glob("*/_indices/**/*") if file.is_file()]
    costs = {"build_s": built[0], "build_cpu_s": built[1], "bytes_per_row": sum(files) / len(vectors)}

    async def hits(table: Any, query: FloatArray, probes: int, limit: int) -> Any:
        search = table.query().nearest_to(query.astype(np.float16)).column("vector").distance_type("dot")
        return await search.nprobes(probes).with_row_id().select(["_distance"]).limit(limit).to_arrow()

    def search(query: FloatArray, probes: int, limit: int) -> set[int]:
        found = [
            rows[run(hits(t, query, probes, limit))["_rowid"].to_numpy()] for t, rows in zip(tables, parts, strict=True)
        ]
        rows = np.sort(np.concatenate(found))
        # the exact comparison costs time, but all of the nearest among the candidates come first
        _ = vectors[rows].astype(np.float32) @ query
        return {*rows.tolist()}

    for probes, refine in of.searched:
        for query in queries[:20]:
            search(query, probes, refine * K)
        found, milliseconds, cpu_milliseconds = [], [], []
        for query in queries:
            began, cpu = perf_counter(), process_time()
            found.append(search(query, probes, refine * K))
            milliseconds.append(1000 * (perf_counter() - began))
            cpu_milliseconds.append(1000 * (process_time() - cpu))
        recalls = {}
        for k in (10, 100):
            near = [{*rows[:k].tolist()} for rows in truth]
            recalls[f"recall@{k}"] = sum(len(a & b) for a, b in zip(near, found, strict=True)) / sum(map(len, near))
        spent = {"ms": median(milliseconds), "cpu_ms": median(cpu_milliseconds)}
        yield {"run": name, "rows": len(vectors), "probes": probes, "refine": refine, **recalls, **spent, **costs}


# -- partitions alone

# vectors, partitions of all tables, tables
CURVES = (("real", 24, 1), ("real", 245, 1), ("made", 245, 1), ("made", 248, SHARDS), ("made", 1024, 1))
SHARES = (0.05, 0.08, 0.12, 0.175, 0.25, 0.35, 0.5, 0.65, 0.8)


def partition_recall(vectors: Halves, queries: FloatArray, partitions: int, tables: int) -> Iterator[dict[str, Any]]:
    """Return recall by the share of partitions searched, if their rows were compared exactly: the most that an index finds."""
    truth, _ = nearest(queries, vectors, K)
    draw = np.random.default_rng(5)
    each = partitions // tables
    rank = np.empty(truth.shape, np.int64)
    for at in range(tables):
        mine = truth % tables == at
        sample = np.arange(at, len(vectors), tables)
        sample = np.sort(draw.choice(sample, min(len(sample), 60 * each), replace=False))
        trained = vectors[sample].astype(np.float32)
        centres = trained[draw.choice(len(trained), each, replace=False)]
        # k-means
        for _ in range(6):
            cell = (trained @ centres.T).argmax(1)
            sums = np.zeros_like(centres)
            np.add.at(sums, cell, trained)
            full = np.linalg.norm(sums, axis=1) > 0
            centres[full] = unit(sums[full])
        rows = truth[mine]
        cells = (vectors[rows].astype(np.float32) @ centres.T).argmax(1)
        # when a question searches each partition
        places = (-(queries @ centres.T)).argsort(1).argsort(1)
        rank[mine] = places[np.nonzero(mine)[0], cells]
    for share in SHARES:
        probes = max(1, round(share * each))
        recalls = {f"recall@{k}": float((rank[:, :k] < probes).mean()) for k in (10, 100)}
        yield {"partitions": partitions, "tables": tables, "probes of each": probes, **recalls}


async def opened(folder: Path, name: str) -> Any:
    return await (await lancedb.connect_async(str(folder))).open_table(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument(
        "--runs", default="shape;rq;shards", help="Any of: " + "; ".join(["shape", "partitions", *RUNS])
    )
    parser.add_argument("--spread", type=float, default=SPREAD)
    parser.add_argument("--size", type=int, default=SIZE)
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    results = options.keep / "runs.jsonl"
    done = {json.loads(line)["run"] for line in results.read_text().splitlines()} if results.exists() else set()
    queries = minilm().embed_queries(questions(QUESTIONS))

    def vectors_of(kind: str) -> Halves:
        file = options.keep / f"{kind}.npy"
        if not file.exists():
            if kind == "made":
                write_vectors(vectors_of("real"), file, options.size, options.spread)
            else:
                np.save(file, real_vectors(options.index))
        return np.load(file, mmap_mode="r")

    for name in options.runs.split(";"):
        if name in done:
            continue
        if name == "shape":
            real, made = vectors_of("real"), vectors_of("made")
            rows = []
            for kind, vectors in (("real", real[:10_000]), ("real", real[:31_600]), ("real", real), ("made", made)):
                draw = np.random.default_rng(3).choice(len(vectors), 500, replace=False)
                rows.append({"run": name, "kind": kind, "rows": len(vectors), "spread": options.spread})
                rows[-1] |= {"vectors": shape(vectors[np.sort(draw)].astype(np.float32), vectors, own=True)}
                rows[-1] |= {"questions": shape(queries, vectors, own=False)}
        elif name == "partitions":
            rows = []
            for kind, partitions, tables in CURVES:
                for row in partition_recall(vectors_of(kind), queries, partitions, tables):
                    rows.append({"run": name, "kind": kind, **row})
                    print(json.dumps(rows[-1]), flush=True)
        else:
            rows = list(measure(name, vectors_of(RUNS[name].vectors), queries, options.keep / name.replace(" ", "-")))
        with results.open("a") as lines:
            for row in rows:
                row["load"] = os.getloadavg()[0]
                print(json.dumps(row), flush=True)
                lines.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
