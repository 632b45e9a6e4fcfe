from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evaluate.towns import saved_task

import mergewise
from mergewise.evaluate import evaluate
from mergewise.evaluate.loaders import find_tasks, load_question_set
from mergewise.evaluate.means import MethodMeans
from mergewise.evaluate.metrics import score_context
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.ranking import RANKING_SCORES
from mergewise.evaluate.run import chosen_questions
from mergewise.evaluate.words import normalise
from mergewise.models.tokens import count_tokens
from mergewise.types import Span

QUESTION = Question(
    "1", "q", ("The Eiffel Tower", "tower"), ((Span("d", 0, 4), "It is, in Paris."), (Span("d", 9, 12), "Iron.")),
)  # fmt: skip


def test_normalisation_worked_out_by_hand() -> None:
    assert normalise('The "Cat"  sat\non a mat—twice!') == " cat sat on mat twice "


def test_scores_worked_out_by_hand() -> None:
    context = "[1] X\nit is in PARIS, said the guide. The eiffel-tower!"
    score = score_context(QUESTION, context, 20, count_tokens)
    assert (score.answer, score.evidence, score.all) == (1.0, 0.5, 0.0)
    assert score.density == pytest.approx(count_tokens(["It is, in Paris."])[0] / 20)
    whole = score_context(QUESTION, context + " iron", 20, count_tokens)
    assert (whole.evidence, whole.all) == (1.0, 1.0)


def test_answers_match_whole_words() -> None:
    assert score_context(QUESTION, "towers of irony", 5, count_tokens).answer == 0.0
    assert score_context(QUESTION, "towers of irony", 5, count_tokens).evidence == 0.0
    assert score_context(QUESTION, "", 0, count_tokens).density == 0.0


def test_a_run_over_a_set(tmp_path: Path) -> None:
    task_folder = saved_task(tmp_path / "sets" / "towns")
    assert find_tasks(task_folder.parent) == find_tasks(task_folder) == [task_folder]
    task = load_question_set(task_folder)
    index = mergewise.open(tmp_path / "index", embedder="none")
    index.add(task.documents)
    rows = evaluate(task, ["topk", "auto-merge"], [20, 100], index=index).means()
    assert [(r.strategy, r.budget) for r in rows] == [
        ("topk", 20), ("topk", 100), ("auto-merge", 20), ("auto-merge", 100),
    ]  # fmt: skip
    means = {"answer", "evidence", "all", "density", "tokens", *RANKING_SCORES}
    assert rows[1].as_dict().keys() == {
        "dataset", "strategy", "budget", "query_ms", "questions", "unanswerable", *means,
        *(f"{name}_interval" for name in means),
    }  # fmt: skip
    assert [rows[1].scores[name] for name in ("recall@5", "all", "evidence", "answer")] == [1.0] * 4
    assert all(row.scores["tokens"] <= row.budget and 0 <= row.scores["density"] <= 1 for row in rows)


def test_splits_are_halves(tmp_path: Path) -> None:
    task = load_question_set(saved_task(tmp_path / "towns"))
    first, second = chosen_questions(task, "dev"), chosen_questions(task, "test")
    assert [*first, *second] == list(task.questions)
    assert len(chosen_questions(task, "test", 1)) == 1


def test_a_row_for_json_is_flat() -> None:
    scores = {"answer": 0.1, "evidence": 0.2, "all": 0.3, "density": 0.4, "tokens": 100.0, "query_ms": 7.5}
    row = MethodMeans("squad", "topk", 128, scores, {})
    assert json.dumps(row.as_dict()) == (
        '{"dataset": "squad", "strategy": "topk", "budget": 128, "answer": 0.1, "evidence": 0.2, "all": 0.3, '
        '"density": 0.4, "tokens": 100.0, "query_ms": 7.5, "questions": 0, "unanswerable": 0}'
    )
