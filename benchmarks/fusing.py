"""MergeRAG without a model: its curve over k against more baselines, and its two schedules.

python -m benchmarks.fusing curve       k = 1 to 5 chunks' worth of context (the paper's Figure 4), by evidence instead of F1
python -m benchmarks.fusing schedules   sequential against hierarchical (Figure 5): evidence, fusions, batches, depth

The baselines cover the paper's three kinds: selection (BM25, vectors and both over leaves, and BM25 over leaves of up to 200
tokens), compression (`sentence`, the best sentences of the search results), and a hierarchy independent of the question
(`auto-merge`). They represent these kinds; they are not the systems that the paper names. A cell of `curve` is evidence / all.
Indexes and finished cells are cached in --cache DIR, so an interrupted command can resume.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import mergewise
from benchmarks.cells import Cell, Cells, markdown, mean_scores
from benchmarks.corpus import bench_folder
from mergewise.designs.mergerag.notes import MergeNote
from mergewise.evaluate.loaders import load_question_set
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.run import Split, chosen_questions
from mergewise.index.tree import TreeSettings
from mergewise.retrieve.hybrid import SearchSettings
from mergewise.types import Context

CHUNK = 200
BUDGETS = tuple(CHUNK * k for k in range(1, 6))
LARGE_LEAVES = TreeSettings(
    leaf_tokens=CHUNK, max_leaf_tokens=CHUNK, section_tokens=CHUNK * 4, min_section_tokens=CHUNK
)
METHODS: dict[str, tuple[str, float | None, bool]] = {
    "BM25 over leaves of up to 200 tokens": ("topk", None, True),
    "`topk`, BM25": ("topk", 0.0, False),
    "`topk`, vectors": ("topk", 1.0, False),
    "`topk`, both": ("topk", None, False),
    "`sentence`": ("sentence", None, False),
    "`auto-merge`": ("auto-merge", None, False),
    "`mergerag-sym`": ("mergerag-sym", None, False),
    "`mergerag-asym`": ("mergerag-asym", None, False),
    "`weave`": ("weave", None, False),
}
"""The strategy, the weight of the vectors (None: the default), and True for large leaves."""
SCHEDULED = (128, 320, 640)
PARTS = ("fusions", "batches", "depth")


def curve(task: QuestionSet, cache: Path, cells: Cells, split: Split, limit: int) -> str:
    leaves = mergewise.open(cache / task.name)
    large = mergewise.open(cache / f"{task.name}-{CHUNK}", embedder="none", settings={"leaf": LARGE_LEAVES})
    questions = chosen_questions(task, split, limit)
    asked = f"{task.name} {split} {len(questions)}"
    for index in (leaves, large):
        index.add(task.documents)
    rows = []
    for label, (spec, weight, larger) in METHODS.items():
        index = large if larger else leaves
        index.search_settings = SearchSettings() if weight is None else SearchSettings(weight=weight)
        row = [label]
        for budget in BUDGETS:
            cell = cells(f"{asked} {label} {budget}", partial(mean_scores, index, questions, spec, budget))
            row.append(f"{cell['evidence']:.2f}/{cell['all']:.2f}")
        rows.append(row)
    leaves.close()
    large.close()
    return markdown([asked, *(f"k = {budget // CHUNK}" for budget in BUDGETS)], rows)


# -- schedules


def schedules(task: QuestionSet, cache: Path, cells: Cells, split: Split, limit: int) -> str:
    index = mergewise.open(cache / task.name)
    index.add(task.documents)
    questions = chosen_questions(task, split, limit)
    asked = f"{task.name} {split} {len(questions)}"
    rows = []
    for name in ("mergerag-sym", "mergerag-asym"):
        for schedule in ("sequential", "hierarchical"):
            spec = f"{name}(schedule={schedule})"
            row = [f"`{name}`, {schedule}"]
            for budget in SCHEDULED:
                cell = cells(f"{asked} {spec} {budget}", partial(mean_scores, index, questions, spec, budget, counted))
                row.append(f"{cell['evidence']:.3f}/{cell['all']:.2f}; " + ", ".join(f"{cell[p]:.1f}" for p in PARTS))
            rows.append(row)
    index.close()
    return markdown([asked, *(f"B = {budget}" for budget in SCHEDULED)], rows)


def counted(question: Question, context: Context) -> Cell:
    return tree([step.note for step in context.trace if isinstance(step.note, MergeNote)])


def tree(notes: Sequence[MergeNote], at_once: int = 8) -> Cell:
    """Count fusions, batches (up to `at_once` fusions of one round), and depth (merges above the chunk with the most)."""
    depth: dict[int, int] = {}
    for note in notes:
        depth[note.result.number] = 1 + max(depth.get(note.source.number, 0), depth.get(note.host.number, 0))
    rounds = Counter(note.round for note in notes)
    taken = [depth[note.result.number] for note in notes if note.taken]
    return {
        "fusions": len(notes),
        "batches": sum(-(-count // at_once) for count in rounds.values()),
        "depth": max(taken, default=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("curve", "schedules"))
    parser.add_argument("--sets", default="hotpotqa-long,musique-long,2wiki")
    parser.add_argument("--split", default="test", choices=("dev", "test", "all"))
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("--cache", type=Path, default=Path("fusing.cache"))
    options = parser.parse_args()
    table = {"curve": curve, "schedules": schedules}[options.what]
    cells = Cells(options.cache / "fusing.jsonl")
    for name in options.sets.split(","):
        task = load_question_set(bench_folder() / name)
        print(table(task, options.cache, cells, options.split, options.limit), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
