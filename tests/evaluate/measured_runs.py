"""Small runs worked out by hand: runs of given rows, and a run of two sets and four methods with contexts, gold and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from mergewise.evaluate.evaluator import Evaluator
from mergewise.evaluate.judged import LostStage, LostText
from mergewise.evaluate.methods import Method
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.runs.run_folder import (
    PLAN,
    QUESTIONS_FILE,
    ROWS_FILE,
    TEXTS_FILE,
    Run,
    memory_run,
    open_run,
    planned_rows,
    questions_table,
    texts_table,
    write_table,
)
from mergewise.evaluate.runs.run_plan import RunPlan, plan_text
from mergewise.evaluate.runs.run_row import RunPassage, RunRow
from mergewise.evaluate.runs.run_schema import ROWS, SECONDS, rows_table
from mergewise.files import write_whole
from mergewise.types import Span

SETS = ("2wiki", "towns")
METHODS = ("topk", "weave", "dos", "auto-merge")
COUNT = 20
HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror=alert(1)>"


def small_run(
    folder: Path,
    rows: Sequence[RunRow],
    questions: Mapping[str, Sequence[Question]],
    texts: Iterable[tuple[str, str, str, str]] = (),
) -> Run:
    """Write a run folder of these rows, with their plan."""
    run = memory_run(rows, questions, texts)
    return write_run(folder, run.plan, rows, questions, texts)


def evaluated_run(
    evaluator: Evaluator, methods: Sequence[Method], budgets: Sequence[int], questions: Sequence[Question]
) -> Run:
    """Ask all questions by each method at each budget."""
    asked = [evaluator.method_rows(method, budget) for method in methods for budget in budgets]
    evaluator.complete(asked, questions)
    return memory_run([row for one in asked for row in one.rows(questions)], {evaluator.task.name: questions})


def without_seconds(table: pa.Table) -> pa.Table:
    """Clear the seconds of rows, so that two runs of the same plan are equal."""
    for name in SECONDS:
        place = table.column_names.index(name)
        table = table.set_column(place, ROWS.field(name), pa.nulls(len(table), pa.float64()))
    return table


def document_text(number: int) -> str:
    return f"The first line says nothing. Town {number} was founded in {1500 + number} by 🏰 Ann. {HOSTILE} It is old."


def question(number: int) -> Question:
    text = document_text(number)
    start, end = text.index("Town"), text.index(" It is")
    gold = ((Span(f"d{number}", start, end), text[start:end]),)
    return Question(
        f"q{number}", f"When was town {number} founded?", (str(1500 + number),), gold, kind="when", hops=1 + number % 2
    )


def is_held(method: str, number: int, budget: int) -> bool:
    """Decide whether a method's context holds the gold of a question.

    weave misses one question in twenty, topk and auto-merge every second, dos all. Above 200 tokens all hold every fifth, too.
    """
    step = {"weave": 20, "topk": 2, "auto-merge": 2, "dos": 1}[method]
    misses = number % step == 0
    return not misses or (budget > 200 and number % 5 == 0)


def row(set_name: str, method: str, number: int, budget: int, repeat: int = 0, mode: str | None = None) -> RunRow:
    asked, text = question(number), document_text(number)
    good = is_held(method.split()[0], number, budget)
    (span, gold), *_ = asked.evidence or ()
    spans = (Span(f"d{number}", 0, 28), span) if good else (Span(f"d{number}", 0, 28),)
    passages = (RunPassage(0.5, spans), *([RunPassage(0.4, (), f"Written {gold}")] if method == "dos" else []))
    lost = () if good else (LostText(gold, LostStage.SKIP),)
    scores: dict[str, float | None] = {
        "answer": float(good),
        "evidence": float(good),
        "all": float(good),
        "density": 0.25,
    }
    answers = {} if mode is None else {"em": float(good), "f1": good * 0.5 + 0.25 * repeat, "relaxed_em": float(good)}
    said = str(1500 + number) if good else "no idea"
    return RunRow(
        set_name, asked.id, "asked", method, "digest", budget, repeat, len(text), passages,
        lost=lost, mode=mode, prediction=None if mode is None else said,
        calls=int(mode is not None), input_tokens=90 * (mode is not None),
        search_seconds=0.01, assembly_seconds=0.02, answer_seconds=None if mode is None else 0.5, scores={**scores, **answers},
    )  # fmt: skip


def saved_run(
    folder: Path,
    methods: Sequence[str] = METHODS,
    budgets: Sequence[int] = (128, 384),
    sets: Sequence[str] = SETS,
    repeats: int = 1,
    mode: str | None = None,
) -> Run:
    rows = [
        row(name, method, number, budget, repeat, mode)
        for name in sets
        for method in methods
        for budget in budgets
        for number in range(COUNT)
        for repeat in range(repeats)
    ]
    texts = [
        (name, f"d{number}", f"Town <{number}>", document_text(number)) for name in sets for number in range(COUNT)
    ]
    return small_run(folder, rows, {name: [question(number) for number in range(COUNT)] for name in sets}, texts)


def write_run(
    folder: Path,
    plan: RunPlan,
    rows: Sequence[RunRow],
    questions: Mapping[str, Sequence[Question]],
    texts: Iterable[tuple[str, str, str, str]] = (),
) -> Run:
    """Write a finished run folder. `questions` are by set, `texts` are (set, document, title, text)."""
    folder.mkdir(parents=True, exist_ok=True)
    write_table(folder / ROWS_FILE, planned_rows(rows_table([row.as_dict() for row in rows]), plan))
    write_table(folder / QUESTIONS_FILE, questions_table(questions))
    write_table(folder / TEXTS_FILE, texts_table(texts))
    write_whole(folder / PLAN, plan_text(plan).encode())
    return open_run(folder)
