"""The chunking baselines of M-RAG beside it: its Table 2 by what contexts hold, and its Figure 4, search over keys and chunks.

python -m benchmarks.chunkers table2 [--cache DIR] [--sets A,B] [--half second] [--limit N] [--budgets 128,384,640]
                                     [--strategies A,B] [--chat openai:MODEL] [--embedder minilm] [--set VIEW.NAME=VALUE]
python -m benchmarks.chunkers search [--chunks 10000,100000] [--questions 200] [--vectors words|minilm] [--keep DIR]

`table2` has the paper's rows and columns; what stands in the cells is whether a context holds the evidence, an answer, or all of
the evidence, since that needs no model. Indexes and finished cells are kept in the cache: after a kill the same command goes on.
A strategy that this version does not have is a row that says so.

`search` measures search alone, over tables of one index: the keys of the marker view, keys of the paper's shape (20 tokens, one
to a segment of 128 tokens: a stand-in), and chunks of 128 and of 512 tokens. All are asked the same questions in turn. The
vectors are made up unless `--vectors minilm` is given: a mean of fixed random vectors, one a word, which costs a scan the same.
Embedding the question is left out, since it is the same for all. Memory is measured in a process of its own for each table.
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
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from itertools import accumulate, pairwise
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import mergewise
from benchmarks.corpus import CHARACTERS_PER_LEAF, bench_folder, documents, questions
from benchmarks.peers import EMBEDDERS
from mergewise.designs import STRATEGIES, VIEWS
from mergewise.designs.mrag.chunks import FixedSettings
from mergewise.designs.mrag.chunks.fixed import fixed_bounds
from mergewise.designs.mrag.chunks.records import BY_SIZE, FIXED, rows_from
from mergewise.designs.specs import split_specs, view_settings
from mergewise.designs.strategies import resolve
from mergewise.engine import Index
from mergewise.evaluate.loaders import load_task
from mergewise.evaluate.rows import EvaluationRow
from mergewise.evaluate.run import Half, chosen_questions, evaluate
from mergewise.evaluate.tasks import Task
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store import lance_change
from mergewise.store.tables import Table
from mergewise.store.views import ViewRows
from mergewise.types import DocumentRows, RowId, Rows

# -- Table 2

SETS = "hotpotqa-long,musique-long,2wiki,squad,covidqa"
ROWS: Mapping[str, str] = {
    "Fixed-Size": "fixed",
    "Semantic": "semantic",
    "PIC": "pic",
    "DOS": "dos",
    "M-RAG-P": "mrag(order=position)",
    "M-RAG-S": "mrag(order=similarity)",
}
METRICS = ("evidence", "answer", "all")


def table2(options: argparse.Namespace) -> None:
    rows = {spec: spec for spec in split_specs(options.strategies)} if options.strategies else dict(ROWS)
    absent = {label for label, spec in rows.items() if spec.split("(")[0] not in STRATEGIES}
    specs = [spec for label, spec in rows.items() if label not in absent]
    sets, budgets = options.sets.split(","), [int(part) for part in options.budgets.split(",")]
    cells: dict[tuple[str, str, int], EvaluationRow] = {}
    for name in sets:
        task, index = _opened(name, specs, options)
        asked = len(chosen_questions(task, options.half, options.limit))
        print(
            f"{name}: {len(task.documents)} documents, {asked} questions, {index.store.reader().row_counts()}",
            flush=True,
        )
        for row in _cells(index, task, specs, budgets, options):
            cells[name, row.strategy, row.budget] = row
        index.close()
    for metric in METRICS:
        print(f"\n{metric}\n\n{_table(metric, rows, absent, sets, budgets, cells)}")
    for label in sorted(absent):
        print(f"\n{label} is missing: this version has no strategy {rows[label]!r}", file=sys.stderr)


def _opened(name: str, specs: Sequence[str], options: argparse.Namespace) -> tuple[Task, Index]:
    """The set, and its index with all views that the strategies need; what was built stays."""
    task = load_task(bench_folder() / name)
    views = list(dict.fromkeys(view for spec in specs for view in ("leaf", *resolve(spec)[0].views)))
    index = mergewise.open(
        options.cache / name,
        views=views,
        settings=view_settings(views, options.set or (), options.chat),
        embedder=options.embedder,
        chat=options.chat,
    )
    index.add(task.documents)
    return task, index


def _cells(
    index: Index, task: Task, specs: Sequence[str], budgets: Sequence[int], options: argparse.Namespace
) -> Iterator[EvaluationRow]:
    """A row for each strategy and budget; those that were finished before come from the file."""
    file = options.cache / "cells.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    known = {json.dumps(found["key"]): found["row"] for found in map(_read_line, lines) if found}
    for spec in specs:
        for budget in budgets:
            key = [task.name, spec, budget, options.half, options.limit, index.manifest.embedder, _settings(index)]
            if (stored := known.get(json.dumps(key))) is not None:
                yield EvaluationRow(**stored)
                continue
            (row,) = evaluate(index, task, [spec], [budget], options.half, options.limit)
            with file.open("a", encoding="utf-8") as out:
                out.write("\n" + json.dumps({"key": key, "row": asdict(row)}))  # what a kill cut off ends with its line
            yield row


def _read_line(line: str) -> dict[str, Any] | None:
    """A finished cell; None for a line that a kill cut off."""
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return found


def _settings(index: Index) -> dict[str, Any]:
    return {name: dict(state.settings) for name, state in sorted(index.manifest.views.items())}


def _table(
    metric: str,
    rows: Mapping[str, str],
    absent: set[str],
    sets: Sequence[str],
    budgets: Sequence[int],
    cells: Mapping[tuple[str, str, int], EvaluationRow],
) -> str:
    """As in the paper: the best of a column is bold, the second underlined."""
    columns = [(name, budget) for name in sets for budget in budgets]
    values = {
        (label, column): getattr(cells[column[0], spec, column[1]], metric)
        for label, spec in rows.items()
        if label not in absent
        for column in columns
    }
    lines = [
        "| | " + " | ".join(f"{name} {budget}" for name, budget in columns) + " |",
        "| --- |" + " ---: |" * len(columns),
    ]
    for label in rows:
        written = (
            ["not in this version"] + [""] * (len(columns) - 1)
            if label in absent
            else [_marked(values[label, c], [v for (_, other), v in values.items() if other == c]) for c in columns]
        )
        lines.append(f"| {label} | " + " | ".join(written) + " |")
    return "\n".join(lines)


def _marked(value: float | None, column: Sequence[float | None]) -> str:
    if value is None:
        return "-"
    ranked = sorted({round(v, 3) for v in column if v is not None}, reverse=True)
    place, written = ranked.index(round(value, 3)), f"{value:.3f}"
    return f"**{written}**" if place == 0 else f"<u>{written}</u>" if place == 1 else written


# -- Figure 4

COARSE = replace(FIXED, name="coarse")
KEY_TOKENS, SMALL, LARGE = 20, 128, 512
K = 100  # rows that a search returns, as a strategy asks for
READ = 10  # of which so many are read


@dataclass(frozen=True, slots=True)
class ShapedKey:
    """A key of the length that M-RAG's Figure 5 gives: the beginning of a segment."""

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
    """A key for each chunk of the view `fixed`, which comes before."""
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
    """The views of this benchmark beside those that there are; returns the names of those that are measured."""
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
            times = timed(index, names, options.questions)
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
    """The index, made if it is not whole: documents that stand are skipped, so that a kill costs a batch."""
    sample = [document for _, document in zip(range(40), documents(10**6), strict=False)]
    cut = sum(len(fixed_bounds(document.text, SMALL, count_tokens)) for document in sample)
    leaves = chunks * sum(len(document.text) for document in sample) // cut // CHARACTERS_PER_LEAF
    with patch.object(lance_change, "KEPT", timedelta(0)):  # what old versions hold is no part of a table's size
        index = _index_of(directory, vectors, names)
        index.add(documents(leaves))
    return index


def modes(index: Index, name: str) -> dict[str, Callable[[str], object]]:
    """The searches of one table that are timed. The question's vector is there before."""
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


def timed(index: Index, names: Sequence[str], count: int, warm_up: int = 30) -> dict[str, dict[str, float]]:
    """Medians in milliseconds by table and search, each question asked of all tables in turn."""
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
    """What searching a table adds to this process, in MB: its own memory, and pages of files."""
    with tempfile.TemporaryDirectory() as folder, mergewise.open(folder, embedder=index.embedder) as other:
        other.add(mergewise.Document("warm", "A document to warm up with."))
        other.context("What is it for?")  # what is loaded once is no part of what is measured
    searches = modes(index, name)
    asked = questions(count)
    for question in asked:
        searches[""](question)
    before = resident()
    for question in asked:
        searches["both, rows read"](question)
    after = resident()
    return {kind: after[kind] - before[kind] for kind in after}


def memory_apart(directory: Path, name: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.chunkers", "search", "--table", name, "--keep", str(directory)]
    command += ["--vectors", options.vectors, "--questions", str(options.questions)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def resident() -> dict[str, float]:
    """MB of this process in memory: `own`, and `files` that are mapped (Linux only; zero elsewhere)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.startswith("Rss")}
    return {"own": found.get("RssAnon", 0.0), "files": found.get("RssFile", 0.0)}


def disk(directory: Path, name: str) -> dict[str, float]:
    """MB of a table's data, of its search indexes, and of its mapped files."""
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
    """Times and sizes; in brackets how many times those of the 128-token chunks are these."""
    counts = index.store.reader().row_counts()
    sizes = {name: disk(directory, name) for name in names}
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
    first = tools.add_parser("table2")
    first.add_argument("--cache", type=Path, default=Path("chunkers.cache"))
    first.add_argument("--sets", default=SETS)
    first.add_argument("--half", default="second", choices=Half.__args__)  # type: ignore[attr-defined]
    first.add_argument("--limit", type=int)
    first.add_argument("--budgets", default="128,384,640")
    first.add_argument("--strategies", help="instead of the paper's rows")
    first.add_argument("--chat", default="extractive", help="who writes summaries and markers, where a view has some")
    first.add_argument("--embedder", default="minilm")
    first.add_argument("--set", action="append", metavar="VIEW.NAME=VALUE")
    first.set_defaults(run=table2)
    second = tools.add_parser("search")
    second.add_argument("--chunks", default="10000,100000")
    second.add_argument("--questions", type=int, default=200)
    second.add_argument("--vectors", choices=EMBEDDERS, default="words")
    second.add_argument("--keep", type=Path, help="use and keep the indexes in this folder")
    second.add_argument("--table", help=argparse.SUPPRESS)  # measure the memory of this one, of the index in --keep
    second.set_defaults(run=search)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
