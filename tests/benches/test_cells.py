"""Table cells: judged like `evaluate`, and computed once, also after an incomplete line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from benchmarks.cells import Cells, average_rows, markdown, mean_scores

import mergewise
from mergewise.evaluate import evaluate
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.types import Context, Document, Span

TOWNS = "# Aldermere\n\nThe tower was built by Ella Stone. It has nine floors.\n\n# Borth\n\nThe bridge fell in 1903.\n"


def task() -> QuestionSet:
    def asked(number: int, text: str, answer: str, piece: str) -> Question:
        start = TOWNS.index(piece)
        return Question(str(number), text, (answer,), ((Span("towns", start, start + len(piece)), piece),))

    questions = (
        asked(0, "Who built the tower?", "Ella Stone", "The tower was built by Ella Stone."),
        asked(1, "When did the bridge fall?", "1903", "The bridge fell in 1903."),
        Question("2", "Who fell?", ("nobody",), None),
    )
    return QuestionSet("towns", (Document("towns", TOWNS),), questions)


@pytest.mark.parametrize("budget", [6, 20, 60])
@pytest.mark.parametrize("spec", ["topk", "mergerag-asym"])
def test_cell_matches_evaluate(tmp_path: Path, spec: str, budget: int) -> None:
    known = task()
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(known.documents)
        (row,) = evaluate(known, spec, budget, index=index).means()
        cell = mean_scores(index, known.questions, spec, budget)
    assert cell == {name: row.scores[name] for name in ("answer", "evidence", "all", "tokens")}


def test_additional_values_are_averaged(tmp_path: Path) -> None:
    def words(question: Question, context: Context) -> dict[str, float]:
        return {"words": float(len(question.text.split()))}

    known = task()
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(known.documents)
        assert mean_scores(index, known.questions, "topk", 20, words)["words"] == pytest.approx(11 / 3)


def test_mean_skips_rows_without_the_entry() -> None:
    assert average_rows([{"a": 1.0, "b": None}, {"a": 0.0, "b": 0.5, "c": 2.0}]) == {"a": 0.5, "b": 0.5, "c": 2.0}


def test_cell_is_computed_once(tmp_path: Path) -> None:
    worked: list[float] = []

    def work(value: float) -> dict[str, float]:
        worked.append(value)
        return {"value": value}

    file = tmp_path / "deep" / "cells.jsonl"
    cells = Cells(file)
    assert [cells(key, partial(work, v))["value"] for key, v in (("a", 1.0), ("b", 2.0), ("a", 3.0))] == [1.0, 2.0, 1.0]
    assert worked == [1.0, 2.0]
    text = file.read_text(encoding="utf-8").rstrip("\n")
    file.write_text(text[:-9], encoding="utf-8")  # cut off the last line
    again = Cells(file)
    assert again("a", lambda: work(4.0)) == {"value": 1.0}
    assert again("b", lambda: work(5.0)) == {"value": 5.0}
    assert Cells(file)("b", lambda: work(6.0)) == {"value": 5.0}
    assert worked == [1.0, 2.0, 5.0]


def test_a_table_in_markdown() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"
