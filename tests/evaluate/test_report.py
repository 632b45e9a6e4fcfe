"""Rows in memory, their means, and their report, on sets worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.evaluate.answers import ANSWER_SCORES
from mergewise.evaluate.judged import LostStage, LostText
from mergewise.evaluate.means import MethodMeans, is_missed, method_means, question_rows
from mergewise.evaluate.measured import measured_runs
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.report import evaluation_report
from mergewise.evaluate.report_records import EvaluationReport, ReportPair
from mergewise.evaluate.runs.run_folder import memory_run
from mergewise.evaluate.runs.run_row import RunRow
from mergewise.evaluate.statistics import holm, interval, sign_flip, wilson
from mergewise.types import Span

Scores = Sequence[float | None]


def question(number: int, answerable: bool = True, cluster: str = "") -> Question:
    return Question(str(number), f"Q{number}?", ("gold",) if answerable else (), None, cluster=cluster)


def context_rows(strategy: str, scores: Scores, budget: int = 100) -> list[RunRow]:
    """Return rows of contexts with these scores. None is an unanswerable question."""
    return [
        RunRow(
            "set",
            str(number),
            "",
            strategy,
            "spec",
            budget,
            tokens=50 + number,
            search_seconds=0.001 * (1 + number),
            assembly_seconds=0.0,
            lost=() if score != 0 else (LostText("gold", LostStage.SKIP),),
            scores={"answer": score, "density": None if score is None else 0.1},
        )
        for number, score in enumerate(scores)
    ]


def report(
    rows: Sequence[RunRow], questions: Sequence[Question] = (), clusters: Sequence[int] = ()
) -> EvaluationReport:
    return evaluation_report(
        measured_runs([memory_run(rows, {"set": questions or question_set(rows, clusters)})]), limit=0
    )


def question_set(rows: Sequence[RunRow], clusters: Sequence[int] = ()) -> list[Question]:
    """Return the questions of these rows, in clusters with these numbers."""
    scored = {int(row.question): row.scores["answer"] is not None for row in rows}
    return [question(n, known, str(clusters[n]) if clusters else "") for n, known in scored.items()]


def means(rows: Sequence[RunRow], questions: Sequence[Question] = ()) -> MethodMeans:
    run = memory_run(rows, {"set": questions or question_set(rows)})
    (found,) = method_means(run, measured_runs([run]))
    return found


def pair(found: EvaluationReport) -> ReportPair:
    """Return the pair of the second method and the first, which is the reference."""
    (pairs,) = found.pairs
    row, column = (pairs.names.index(name) for name in ("weave", "topk"))
    cell = pairs.cells[row][column]
    assert cell is not None
    return cell


def test_scores_of_contexts_leave_out_unanswerable_questions() -> None:
    row = means(context_rows("topk", [1, 0, None, 1]))
    assert (row.questions, row.unanswerable) == (4, 1) and row.scores["answer"] == pytest.approx(2 / 3)
    assert row.scores["tokens"] == 51.5 and row.scores["query_ms"] == pytest.approx(2.5)
    assert row.intervals["answer"] == wilson(2 / 3, 3)
    alone = means(context_rows("topk", [None, None]))
    assert alone.scores.keys() == {"tokens", "query_ms"} and (alone.questions, alone.unanswerable) == (2, 2)
    assert alone.intervals.keys() == {"tokens"} and alone.as_dict()["answer"] is None


def test_refusals_are_counted_separately() -> None:
    def said(
        n: int,
        right: float = 0.0,
        refused: bool = False,
        sure: bool | None = None,
        error: str = "",
        answerable: bool = True,
    ) -> tuple[Question, RunRow]:
        if error:
            return question(n, answerable), RunRow("set", str(n), "", "s", "spec", 100, mode="mode", error=error)
        scores = dict.fromkeys(ANSWER_SCORES, right if answerable else None)
        row = RunRow(
            "set",
            str(n),
            "",
            "s",
            "spec",
            100,
            mode="mode",
            prediction="says",
            refused=refused,
            sure=sure,
            tokens=40,
            scores=scores,
        )
        return question(n, answerable), row

    questions, rows = zip(
        said(0, right=1.0),
        said(1, refused=True),
        said(2, answerable=False, refused=True, sure=False),
        said(3, answerable=False, sure=True),
        said(4, answerable=False, sure=False),
        said(5, answerable=False, error="it broke"),
        said(6, error="it broke"),
        said(7, answerable=False, sure=None),
        strict=True,
    )
    found = means(rows, questions)
    assert (found.failed, found.mode) == (2, "mode") and found.scores["em"] == pytest.approx(1 / 3)
    # a failed question is neither refused nor sure, even if a row of an older version says so
    shares = [found.scores[name] for name in ("refused", "sure", "withheld")]
    assert shares == pytest.approx([1 / 5, 1 / 4, 1 / 3])
    missed = [is_missed(row, one) for one, row in zip(questions, rows, strict=True)]
    assert missed == [False, True, False, True, True, True, True, True]
    run = memory_run(rows, {"set": questions})
    *_, broken, _ = question_rows(run, measured_runs([run]))
    assert broken["error"] == "it broke" and broken["tokens"] is None and "em" not in broken


def test_answers_are_not_judged_with_marked_evidence_only() -> None:
    marked = Question("1", "?", (), ((Span("d", 0, 1), "x"),))
    for lost, missed in (((), False), ((LostText("x", LostStage.LEFT),), True)):
        row = RunRow(
            "set",
            "1",
            "",
            "s",
            "spec",
            100,
            tokens=9,
            lost=lost,
            mode="mode",
            prediction="says",
            refused=False,
            sure=True,
            scores={**dict.fromkeys(("answer", *ANSWER_SCORES)), "evidence": float(not missed)},
        )
        found = means([row], [marked])
        assert is_missed(row, marked) is missed and marked.answerable
        assert {"answer", "em", "refused"}.isdisjoint(found.scores) and found.scores["withheld"] == 0.0
        assert found.scores["evidence"] == float(not missed)


def test_p_values_of_several_methods_are_corrected() -> None:
    rows = [
        *context_rows("topk", [0] * 12),
        *context_rows("weave", [1] * 12),
        *context_rows("sentence", [1] * 6 + [0] * 6),
    ]
    (pairs,) = report(rows).pairs
    assert pairs.names == ("weave", "sentence", "topk")
    cells = [pairs.cells[0][1], pairs.cells[0][2], pairs.cells[1][2]]
    expected = holm([2 / 2**6, 2 / 2**12, 2 / 2**6])
    assert [cell and cell.probability for cell in cells] == pytest.approx(expected)
    assert [cell and cell.is_apart for cell in cells] == [False, True, False]
    # for the same questions on two documents nothing is significant
    found = pair(
        report([*context_rows("topk", [0] * 12), *context_rows("weave", [1] * 12)], clusters=[0] * 6 + [1] * 6)
    )
    assert not found.is_apart and found.probability == 0.5


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=9))
def test_a_difference_is_the_mean_of_paired_differences(scored: list[tuple[bool, bool, int]]) -> None:
    """With a single cluster every figure uses questions instead."""
    groups = [cluster for _, _, cluster in scored]
    ours, theirs = [float(a) for a, _, _ in scored], [float(b) for _, b, _ in scored]
    found = pair(report([*context_rows("topk", theirs), *context_rows("weave", ours)], clusters=groups))
    gains = [a - b for a, b in zip(ours, theirs, strict=True)]
    assert found.difference == pytest.approx(sum(gains) / len(gains))
    assert found.probability == sign_flip(gains, groups)
    assert found.interval == pytest.approx(interval(gains, groups))
    assert (found.better, found.worse) == (gains.count(1.0), gains.count(-1.0))


def test_budgets_are_compared_separately() -> None:
    first = [*context_rows("topk", [0, 0], 100), *context_rows("topk", [1, 1], 200)]
    found = report([*first, *context_rows("weave", [0, 1], 100), *context_rows("weave", [1, 1], 200)])
    assert [one.title for one in found.pairs] == ["set, 200 tokens: answer", "set, 100 tokens: answer"]
    assert [abs(one.cells[0][1].difference) for one in found.pairs if one.cells[0][1]] == [0.0, 0.5]
    assert report(first).pairs == ()


@pytest.mark.parametrize(
    ("scores", "clusters", "told"),
    [
        ([0, 1] * 5, (), "Only 10 questions"),
        ([0, 1] * 40, (), "a difference of 0.14"),
        ([0, 1] * 40, [n // 2 for n in range(80)], "use their 40 groups, not 80 questions"),
        ([0, 1] * 40, [n // 40 for n in range(80)], "Only 2 groups"),
        ([0, 1] * 40, [0] * 80, "All questions share documents"),
        ([0, None] * 5, (), "5 questions without an answer: use --answers"),
    ],
)
def test_remarks_warn_of_the_limits_of_figures(scores: Scores, clusters: Sequence[int], told: str) -> None:
    found = report(context_rows("topk", scores), clusters=clusters)
    assert told in " ".join([*found.remarks, *(note for part in found.parts for note in part.notes)])


def test_a_report_names_the_smallest_detectable_difference() -> None:
    """The smallest difference is 1.96 + 0.84 standard errors of the paired differences."""
    found = report([*context_rows("topk", [0] * 40), *context_rows("weave", [0, 1] * 20)])
    error = (0.25 / 39) ** 0.5
    assert found.remarks[0].endswith(f"80 % power: {(1.959964 + 0.841621) * error:.2f} on set.")


def test_a_report_counts_questions_answered_by_no_document() -> None:
    gold = ((Span("d", 0, 1), "x"), (Span("e", 0, 1), "y"))
    questions = [Question("1", "?", ("x",), gold), Question("2", "?", ("x",), gold), Question("3", "?", (), None)]
    lost = (LostText("gold", LostStage.NOWHERE),)
    rows = [RunRow("set", one.id, "", "topk", "spec", 9, lost=lost * (one.id == "2")) for one in questions]
    (note,) = report(rows, questions).parts[1].notes
    assert note.startswith("set: 3 questions, evidence in 2 documents, 1 without an answer.")
    assert note.endswith("The answers of 1 question appear in no document word for word, so no context can hold them.")


def test_the_row_of_a_question_is_flat() -> None:
    rows = context_rows("topk", [0])
    run = memory_run(rows, {"set": question_set(rows)})
    (values,) = question_rows(run, measured_runs([run]))
    assert values["gold"] == ["gold"] and values["missed"] is True and values["answer"] == 0
    assert values["lost"] == [{"text": "gold", "stage": LostStage.SKIP}] and "em" not in values
