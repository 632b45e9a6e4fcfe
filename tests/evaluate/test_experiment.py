"""`evaluate` and its experiment: plain arguments, watches, and run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.evaluate.towns import DOCUMENTS, QUESTIONS, TASK, saved_task

import mergewise
from mergewise.errors import UsageError
from mergewise.evaluate import evaluate, open_run
from mergewise.evaluate.experiment import Experiment
from mergewise.evaluate.methods import Method
from mergewise.evaluate.question_sets import Question, QuestionSet
from mergewise.evaluate.runs.run_folder import Run
from mergewise.evaluate.set_indexes import ModelSpecs
from mergewise.evaluate.watch import ExperimentWatch

NO_VECTORS = {"embedder": "none"}


def test_sets_with_documents_are_indexed(tmp_path: Path) -> None:
    place = saved_task(tmp_path / "sets" / "towns")
    known = evaluate(TASK, ["topk", Method("first", "topk(k=1)")], 60, models=NO_VECTORS)
    assert [(one.dataset, one.strategy, one.budget, one.questions) for one in known.means()] == [
        ("towns", "topk", 60, 4),
        ("towns", "first", 60, 4),
    ]
    for sets in (str(place), place.parent, [place]):
        run = evaluate(sets, "topk", [30, 60], models=NO_VECTORS, index=tmp_path / "indexes", limit=2)
        assert [(one.budget, one.questions) for one in run.means()] == [(30, 2), (60, 2)]
    assert (tmp_path / "indexes" / "towns").is_dir()


def test_a_run_folder_gets_further_methods(tmp_path: Path) -> None:
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        index.add(DOCUMENTS)
        for method in ("topk", "weave", "topk"):
            run = evaluate(TASK, method, 60, index=index, out=tmp_path / "run", answers=True)
        assert index.tokens(["open"])
    assert [one.name for one in run.plan.methods] == ["topk", "weave"] and run.plan.answers
    rows = list(open_run(tmp_path / "run").run_rows())
    assert [row.mode for row in rows] == ["extractive"] * 8 and "topk" in run._repr_html_()


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown model: 'chatt'"):
        evaluate(TASK, models={"chatt": "openai:x"})
    with pytest.raises(UsageError, match="unknown strategy"):
        evaluate(TASK, "none")
    with pytest.raises(UsageError, match="index not found"):
        evaluate(QuestionSet("own", (), QUESTIONS), "topk", index=tmp_path / "none")
    with mergewise.open(tmp_path / "index", embedder="none") as index:
        with pytest.raises(UsageError, match="an open index has its own models"):
            evaluate(TASK, index=index, models={"chat": "openai:x"})
        with pytest.raises(UsageError, match="needs vectors"):
            evaluate(TASK, "dense", index=index)


def test_a_watch_follows_each_set() -> None:
    class Recorder(ExperimentWatch):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def begin_set(self, task: QuestionSet, asked: Sequence[Question]) -> None:
            self.seen.append(f"{task.name}: {len(asked)} questions")

        def end_set(self, run: Run) -> None:
            self.seen.append(f"{len(run.rows())} rows")

        def warn(self, text: str) -> None:
            self.seen.append(text)

    watch = Recorder()
    methods = [(Method("topk", "topk"), 60), (Method("dense", "dense"), 60)]
    other = QuestionSet("other", DOCUMENTS, QUESTIONS[:1])
    experiment = Experiment(sets=[TASK, other], methods=methods, models=ModelSpecs(embedder="none"))
    run = experiment.run(watch)
    assert watch.seen == ["towns: 4 questions", "4 rows", "other: 1 questions", "1 rows"]
    assert [(one.set, one.method) for one in run.plan.needs()] == [("towns", "dense"), ("other", "dense")]
