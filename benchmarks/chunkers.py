"""M-RAG's Figure 4: search over keys and over chunks.

python -m benchmarks.chunkers search [--chunks 10000,100000] [--questions 200] [--vectors words|minilm] [--keep DIR]

Only the search is measured, over four tables of one index: the keys of the marker view, keys of the paper's shape (20 tokens for
each segment of 128 tokens, a stand-in), and chunks of 128 and of 512 tokens. Each question goes to all tables in turn.
By default the vectors are artificial: the mean of fixed random vectors, one per word. A scan of them costs the same as a scan of
real vectors (`--vectors minilm`). Embedding the question is excluded, since it costs the same for all tables. Memory is
measured in a separate process for each table.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

import mergewise
from benchmarks.corpus import CHARACTERS_PER_LEAF, documents, questions
from benchmarks.peers import EMBEDDERS
from mergewise.designs import VIEWS
from mergewise.designs.mrag.chunks import FixedSettings
from mergewise.designs.mrag.chunks.fixed import fixed_bounds
from mergewise.designs.mrag.chunks.records import BY_SIZE, FIXED, rows_from
from mergewise.engine import Index
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store import sweep
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.types import DocumentRows, RowId, Rows

COARSE = replace(FIXED, name="coarse")
KEY_TOKENS, SMALL, LARGE = 20, 128, 512
K = 100  # rows per search, as in a strategy
READ = 10  # rows read from them


@dataclass(frozen=True, slots=True)
class ShapedKey:
    """A key of the length in M-RAG's Figure 5: the beginning of a segment."""

    id: RowId
    doc_id: str
    text: str


SHAPED = Table("shaped", ShapedKey, vectors=("vector",), text="text", mapped=True)
KINDS = {
    "marker": "keys of markers",
    "shaped": "keys of the paper's shape (stand-in)",
    "fixed": "chunks of 128 tokens",
    "coarse": "chunks of 512 tokens",
}


def build_coarse(rows: Sequence[DocumentRows], settings: FixedSettings, models: Models) -> list[ViewRows]:
    bounds = [fixed_bounds(row.document.text, settings.size, models.count_tokens) for row in rows]
    return rows_from(COARSE, rows, bounds, [BY_SIZE] * len(rows), models)


def build_shaped(rows: Sequence[DocumentRows], settings: FixedSettings, models: Models) -> list[ViewRows]:
    """Build a key for each chunk of the view `fixed`, which must come first."""
    texts = [[_beginning(chunk.text, settings.size) for chunk in row["fixed"]] for row in rows]
    vectors = models.embedder.embed_documents([t for own in texts for t in own])  # type: ignore[union-attr]
    ends = accumulate(map(len, texts), initial=0)
    return [
        {"shaped": Rows(tuple(ShapedKey(i, row.document.id, t) for i, t in enumerate(own)), {"vector": vectors[a:b]})}
        for row, own, (a, b) in zip(rows, texts, pairwise(ends), strict=True)
    ]


def _beginning(text: str, tokens: int) -> str:
    start, end = fixed_bounds(text, tokens, count_tokens)[0]
    return text[start:end].strip()


def add_views() -> list[str]:
    """Register the views of this benchmark. Return the names of the views to measure."""
    fixed = VIEWS["fixed"]
    VIEWS["coarse"] = replace(fixed, name="coarse", tables=lambda _: (COARSE,), build=build_coarse, problems=_none)
    VIEWS["shaped"] = replace(fixed, name="shaped", tables=lambda _: (SHAPED,), build=build_shaped, problems=_none)
    return [name for name in KINDS if name in VIEWS]


def _none(rows: DocumentRows, settings: FixedSettings, dimension: int) -> Iterator[str]:
    return iter(())


def search(options: argparse.Namespace) -> None:
    names = add_views()
    if options.table:
        index = _index_of(options.keep, options.vectors, names)
        print(json.dumps(memory(index, options.table, options.questions)))
        return
    for chunks in (int(part) for part in options.chunks.split(",")):
        folder = Path(tempfile.mkdtemp(prefix="mergewise-bench-")) if options.keep is None else options.keep
        directory = folder / f"{options.vectors}-{chunks}"
        try:
            started = perf_counter()
            index = built(directory, chunks, options.vectors, names)
            print(f"\nabout {chunks} chunks of {SMALL} tokens, vectors: {options.vectors}, ", end="")
            print(f"{len(index)} documents, built or opened in {perf_counter() - started:.0f} s", flush=True)
            times = time_searches(index, names, options.questions)
            held = {name: memory_apart(directory, name, options) for name in names}
            print(report(index, directory, names, times, held), flush=True)
            index.close()
        finally:
            if options.keep is None:
                shutil.rmtree(folder)
    for name in KINDS.keys() - set(names):
        print(f"\n{KINDS[name]}: not measured, this version has no view {name!r}", file=sys.stderr)


def _index_of(directory: Path, vectors: str, names: Sequence[str]) -> Index:
    settings = {"fixed": FixedSettings(SMALL), "coarse": FixedSettings(LARGE), "shaped": FixedSettings(KEY_TOKENS)}
    embedder = vectors if vectors == "minilm" else EMBEDDERS[vectors]()
    return mergewise.open(directory, views=("leaf", *names), settings=settings, embedder=embedder)


def built(directory: Path, chunks: int, vectors: str, names: Sequence[str]) -> Index:
    """Build or complete the index. Existing documents are skipped, so an interrupted run loses one batch at most."""
    sample = [document for _, document in zip(range(40), documents(10**6), strict=False)]
    cut = sum(len(fixed_bounds(document.text, SMALL, count_tokens)) for document in sample)
    leaves = chunks * sum(len(document.text) for document in sample) // cut // CHARACTERS_PER_LEAF
    # Old versions do not count for a table's size.
    with patch.object(sweep, "KEPT", 0.0):
        index = _index_of(directory, vectors, names)
        index.add(documents(leaves))
    return index


def modes(index: Index, name: str) -> dict[str, Callable[[str], object]]:
    """Return the searches to time on one table. The vector of the question is computed before."""
    store = index.store.reader()
    reader = HybridReader(store, index.embedder, VIEWS, None, index.search_settings)
    record = next(table.record for table in VIEWS[name].tables(VIEWS[name].settings()) if table.name == name)

    def by_vectors(question: str) -> object:
        vector = reader.question_vector(question)
        assert vector is not None
        return store.vector_search(vector, K, None, name).result()

    def with_rows(question: str) -> object:
        return reader.rows(name, record, [row for row, _ in reader.rank_rows(question, K, name)[:READ]])

    return {
        "vectors": by_vectors,
        "text": lambda question: store.text_search(question, K, None, name).result(),
        "both": lambda question: reader.rank_rows(question, K, name),
        "both, rows read": with_rows,
        "": reader.question_vector,
    }


def time_searches(index: Index, names: Sequence[str], count: int, warm_up: int = 30) -> dict[str, dict[str, float]]:
    """Return median milliseconds by table and search. Each question goes to all tables in turn."""
    searches = {name: modes(index, name) for name in names}
    taken: dict[tuple[str, str], list[float]] = {}
    for number, question in enumerate(questions(count + warm_up)):
        for name, own in searches.items():
            own[""](question)
            for mode, run in own.items():
                started = perf_counter()
                run(question)
                if number >= warm_up and mode:
                    taken.setdefault((name, mode), []).append(1000 * (perf_counter() - started))
    return {
        name: {mode: statistics.median(taken[name, mode]) for mode in own if mode} for name, own in searches.items()
    }


def memory(index: Index, name: str, count: int) -> dict[str, float]:
    """Return the memory in MB that searching a table adds to this process: its own memory, and pages of files."""
    with tempfile.TemporaryDirectory() as folder, mergewise.open(folder, embedder=index.embedder) as other:
        other.add(mergewise.Document("warm", "A document to warm up with."))
        # Warm up, so that one-time loading is not measured.
        other.context("What is it for?")
    searches = modes(index, name)
    asked = questions(count)
    for question in asked:
        searches[""](question)
    before = resident_mb()
    for question in asked:
        searches["both, rows read"](question)
    after = resident_mb()
    return {kind: after[kind] - before[kind] for kind in after}


def memory_apart(directory: Path, name: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.chunkers", "search", "--table", name, "--keep", str(directory)]
    command += ["--vectors", options.vectors, "--questions", str(options.questions)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def resident_mb() -> dict[str, float]:
    """Return the resident memory of this process in MB: `own`, and mapped `files` (Linux only; zero elsewhere)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}
    return {"own": found.get("RssAnon", 0.0), "files": found.get("RssFile", 0.0)}


def disk_mb(directory: Path, name: str) -> dict[str, float]:
    """Return the size in MB of a table's data, search indexes and mapped files."""
    table = directory / f"{name}.lance"
    files = {"data": table.glob("data/**/*"), "indexes": table.glob("_indices/**/*")}
    files["mapped"] = (directory / "mapped").glob(f"{name}-*")
    return {kind: sum(f.stat().st_size for f in found if f.is_file()) / 1e6 for kind, found in files.items()}


def report(
    index: Index,
    directory: Path,
    names: Sequence[str],
    times: Mapping[str, Mapping[str, float]],
    held: Mapping[str, Mapping[str, float]],
) -> str:
    """Return a table of times and sizes. In brackets: the figure of the 128-token chunks divided by this figure."""
    counts = index.store.reader().row_counts()
    sizes = {name: disk_mb(directory, name) for name in names}
    parts, kinds = list(next(iter(sizes.values()))), list(next(iter(times.values())))
    head = [
        "searched",
        "vectors",
        *(f"{kind}, ms" for kind in kinds),
        "disk, MB",
        *parts,
        "own memory, MB",
        "files, MB",
    ]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name in names:
        whole, base = sum(sizes[name].values()), sum(sizes["fixed"].values())
        cells = [KINDS[name], str(counts[name])]
        cells += [_ratio(times[name][kind], times["fixed"][kind], 2) for kind in kinds]
        cells += [_ratio(whole, base, 1), *(f"{sizes[name][part]:.1f}" for part in parts)]
        cells += [
            _ratio(held[name]["own"], held["fixed"]["own"], 0),
            _ratio(held[name]["files"], held["fixed"]["files"], 0),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ratio(value: float, base: float, digits: int) -> str:
    return f"{value:.{digits}f} ({base / value:.2f})" if value > 0 else f"{value:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tools = parser.add_subparsers(required=True)
    second = tools.add_parser("search")
    second.add_argument("--chunks", default="10000,100000")
    second.add_argument("--questions", type=int, default=200)
    second.add_argument("--vectors", choices=EMBEDDERS, default="words")
    second.add_argument("--keep", type=Path, help="Folder in which to keep and reuse the indexes")
    # Internal: measure the memory of this table, of the index in --keep.
    second.add_argument("--table", help=argparse.SUPPRESS)
    second.set_defaults(run=search)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
