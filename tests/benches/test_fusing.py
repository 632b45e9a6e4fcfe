"""MergeRAG's tables: counts of a merge tree, and the tables over a small set."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks import fusing
from benchmarks.cells import Cells
from benchmarks.fusing import tree

import mergewise
from mergewise.designs.mergerag.notes import MergeNode, MergeNote
from mergewise.evaluate.loaders import load_question_set


def note(number: int, source: int, host: int, result: int, taken: bool = True) -> MergeNote:
    a, b, merged = (MergeNode(i, 0.5, 10) for i in (source, host, result))
    return MergeNote(number, a, b, merged, how="extractive", taken=taken)


def test_fusions_batches_and_depth() -> None:
    """Eight chunks: four merges in the first round, two in the second, and one unneeded merge in the third."""
    first = [note(1, 2 * i, 2 * i + 1, 10 + i) for i in range(4)]
    second = [note(2, 10, 11, 20), note(2, 12, 13, 21)]
    third = [note(3, 20, 21, 30, taken=False)]
    assert tree([*first, *second, *third], at_once=3) == {"fusions": 7, "batches": 2 + 1 + 1, "depth": 2}
    assert tree([*first, *second, *third], at_once=8)["batches"] == 3
    chain = [note(i + 1, i, 100 if i == 0 else 100 + i, 101 + i) for i in range(5)]
    assert tree(chain) == {"fusions": 5, "batches": 5, "depth": 5}
    assert tree([]) == {"fusions": 0, "batches": 0, "depth": 0}


def test_counts_match_the_merging(tmp_path: Path) -> None:
    """The counts agree with the trace's summary of the merging."""
    folder = written(tmp_path)
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(load_question_set(folder).documents)
        for schedule in ("sequential", "hierarchical"):
            spec = f"mergerag-sym(schedule={schedule}, at_once=3, guard=no)"
            context = index.context("How high did the river rise in year 3?", strategy=spec, budget=40)
            counted = tree([step.note for step in context.trace if isinstance(step.note, MergeNote)], at_once=3)
            (reason,) = (step.reason for step in context.trace if step.action == "merged")
            assert f"{counted['fusions']} fusions in {counted['batches']} batches" in reason
            assert f"depth {counted['depth']}," in reason
            assert counted["fusions"] > 5


def written(folder: Path) -> Path:
    texts = [
        f"# Rivers {n}\n\n" + " ".join(f"In year {i} river {n} rose by {i * n} feet." for i in range(9))
        for n in range(6)
    ]
    questions = []
    for n, text in enumerate(texts):
        piece = f"In year 3 river {n} rose by {3 * n} feet."
        start = text.index(piece)
        gold = [{"doc": f"d{n}", "start": start, "end": start + len(piece), "text": piece}]
        questions.append(
            {"id": str(n), "question": f"How high did river {n} rise?", "answers": ["feet"], "evidence": gold}
        )
    made = folder / "rivers"
    made.mkdir()
    corpus = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    rows: dict[str, list[Any]] = {"corpus": corpus, "questions": questions}
    for name, lines in rows.items():
        with gzip.open(made / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(json.dumps(line) for line in lines))
    return made


@pytest.mark.parametrize("table", ["curve", "schedules"])
def test_tables_resume_from_the_cache(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, cache = load_question_set(written(tmp_path)), tmp_path / "cache"
    mergewise.open(cache / "rivers", embedder="none").close()
    file = tmp_path / "cells.jsonl"
    make = getattr(fusing, table)
    shown = make(task, cache, Cells(file), "test", 2)
    assert len(shown.splitlines()) - 2 == {"curve": len(fusing.METHODS), "schedules": 4}[table]
    assert "rivers test 2" in shown

    def fail(*given: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(fusing, "mean_scores", fail)
    assert make(task, cache, Cells(file), "test", 2) == shown
