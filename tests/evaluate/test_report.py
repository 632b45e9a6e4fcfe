"""Rows, their means, and what a report says of them, on sets that are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.evaluate.answers import ANSWER_SCORES
from mergewise.evaluate.judged import JudgedContext, LostStage, LostText
from mergewise.evaluate.lab import lab_report
from mergewise.evaluate.measured import measured_rows
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.report import differences, set_report
from mergewise.evaluate.rows import AnswerRow, QuestionRow, mean_row
from mergewise.evaluate.statistics import holm, sign_flip, wilson
from mergewise.types import Span


def question(number: int, answerable: bool = True) -> Question:
    return Question(str(number), f"Q{number}?", ("gold",) if answerable else (), None)


def held(
    strategy: str, scores: Sequence[float | None], budget: int = 100, clusters: Sequence[int] = ()
) -> list[QuestionRow]:
    """Rows of contexts; None is a question without an answer."""
    rows = []
    for number, score in enumerate(scores):
        lost = () if score != 0 else (LostText("gold", LostStage.SKIP),)
        context = JudgedContext(score, None, None, None if score is None else 0.1, 50 + number, lost=lost)
        asked = question(number, score is not None)
        cluster = clusters[number] if clusters else number
        rows.append(QuestionRow("set", strategy, budget, asked, cluster, context, 1.0 + number))
    return rows


def said(number: int, answerable: bool = True, error: str = "", **answer: Any) -> QuestionRow:
    asked = question(number, answerable)
    if error:
        return QuestionRow("set", "s", 100, asked, number, error=error)
    score = float(answer.pop("right", 0)) if answerable else None
    scores = dict.fromkeys(ANSWER_SCORES, score)
    row = AnswerRow("mode", "says", answer.pop("refused", False), answer.pop("sure", None), **scores)
    context = JudgedContext(None, None, None, None, 40)
    return QuestionRow("set", "s", 100, asked, number, context, 1.0, row)


def test_questions_without_an_answer_are_no_part_of_what_contexts_hold() -> None:
    row = mean_row(held("topk", [1, 0, None, 1]))
    assert (row.questions, row.unanswerable, row.answer) == (4, 1, pytest.approx(2 / 3))
    assert row.tokens == 51.5 and row.query_ms == 2.5
    assert row.intervals["answer"] == wilson(2 / 3, 3)
    alone = mean_row(held("topk", [None, None]))
    assert (alone.answer, alone.density, alone.questions, alone.unanswerable) == (None, None, 2, 2)
    assert alone.intervals.keys() == {"tokens"}


def test_refusals_are_told_apart() -> None:
    rows = [
        said(0, right=1),
        said(1, refused=True),
        said(2, answerable=False, refused=True, sure=False),
        said(3, answerable=False, sure=True),
        said(4, answerable=False, sure=False),
        said(5, answerable=False, error="it broke"),
        said(6, error="it broke"),
        said(7, answerable=False, sure=None),
    ]
    means = mean_row(rows).answers
    assert means is not None and (means.failed, means.em) == (2, pytest.approx(1 / 3))
    # a question that failed was not refused, nor was it sure; one that an older version kept may have been sure
    assert (means.refused, means.sure, means.withheld) == (
        pytest.approx(1 / 5),
        pytest.approx(1 / 4),
        pytest.approx(1 / 3),
    )
    report = set_report([rows])
    assert [table.title for table in report.tables] == ["Answers", "Questions without an answer"]
    verdicts = [one.attempts[0].verdict for one in report.questions]
    assert verdicts == ["right", "refused", "refused", "claimed, and sure", "claimed", "failed", "failed", "claimed"]
    assert [not one.is_missed for one in report.questions] == [True, False, True, False, False, False, False, False]
    assert report.questions[5].attempts[0].said == "it broke"


def test_answers_of_answerable_questions_alone_have_one_table() -> None:
    report = set_report([[said(0, right=1), said(1)]])
    assert [table.title for table in report.tables] == ["Answers"]


def test_where_evidence_alone_is_marked_answers_are_not_judged() -> None:
    marked = Question("1", "?", (), ((Span("d", 0, 1), "x"),))
    row = AnswerRow("mode", "says", False, True, None, None, None, None)
    for lost, missed in (((), False), ((LostText("x", LostStage.LEFT),), True)):
        judged = JudgedContext(None, float(not missed), float(not missed), 0.1, 9, lost=lost)
        asked = QuestionRow("set", "s", 100, marked, 0, judged, 1.0, row)
        assert asked.missed is missed and marked.answerable
        assert [asked.score(name) for name in ("answer", "em", "refused", "withheld")] == [None, None, None, 0.0]
        assert asked.score("evidence") == float(not missed)


def test_differences_are_worked_out_question_by_question() -> None:
    first, other = held("topk", [0, 0, 1, 1, None]), held("weave", [1, 1, 1, 0, None])
    (found,) = differences([first, other])
    assert (found.strategy, found.budget, found.column, found.mean) == ("weave", 100, "answer", 0.25)
    assert (found.better, found.worse, found.probability, found.is_apart) == (2, 1, 1.0, False)
    low, high = found.interval
    assert low < 0.25 < high


def test_a_clear_difference_is_told_apart_and_several_are_corrected() -> None:
    base, better = held("topk", [0] * 12), held("weave", [1] * 12)
    some = held("sentence", [1] * 6 + [0] * 6)
    found = differences([base, better, some])
    expected = holm([2 / 2**12, 2 / 2**6])
    assert [one.probability for one in found] == pytest.approx(expected)
    assert [one.is_apart for one in found] == [True, True]
    # the same questions on two documents tell nothing apart
    clusters = [0] * 6 + [1] * 6
    (found,) = differences([held("topk", [0] * 12, clusters=clusters), held("weave", [1] * 12, clusters=clusters)])
    assert not found.is_apart and found.probability == 0.5


def test_of_questions_about_one_document_the_terminal_and_the_page_give_one_probability() -> None:
    """With a single cluster every figure falls back to questions."""
    clusters = [0] * 12
    groups = [held("topk", [0] * 12, clusters=clusters), held("weave", [0] * 6 + [1] * 6, clusters=clusters)]
    (found,) = differences(groups)
    _, page = lab_report(measured_rows([row for group in groups for row in group])).pairs[0].cells[0]
    assert found.is_apart and page is not None
    assert found.probability == page[1] == pytest.approx(2 / 2**6)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=1, max_size=9))
def test_a_difference_is_the_mean_of_differences(scored: list[tuple[bool, bool, int]]) -> None:
    clusters = [cluster for _, _, cluster in scored]
    ours, theirs = [float(a) for a, _, _ in scored], [float(b) for _, b, _ in scored]
    (found,) = differences([held("topk", theirs, clusters=clusters), held("weave", ours, clusters=clusters)])
    gains = [a - b for a, b in zip(ours, theirs, strict=True)]
    assert found.mean == pytest.approx(sum(gains) / len(gains))
    assert found.probability == sign_flip(gains, clusters)
    assert (found.better, found.worse) == (gains.count(1.0), gains.count(-1.0))


def test_budgets_are_compared_apart() -> None:
    groups = [
        held("topk", [0, 0], 100),
        held("topk", [1, 1], 200),
        held("weave", [0, 1], 100),
        held("weave", [1, 1], 200),
    ]
    assert [(one.budget, one.mean) for one in differences(groups)] == [(100, 0.5), (200, 0.0)]
    assert differences(groups[:2]) == []


@pytest.mark.parametrize(
    ("scores", "clusters", "told"),
    [
        ([0, 1] * 5, (), "10 questions are few"),
        ([0, 1] * 40, (), "differ by 0.14"),
        ([0, 1] * 40, [n // 2 for n in range(80)], "by their 40 groups, not by 80 questions"),
        ([0, 1] * 40, [n // 40 for n in range(80)], "2 groups are few"),
        ([0, 1] * 40, [0] * 80, "All questions are about the same documents"),
        ([0, None] * 5, (), "5 questions without an answer: --answers"),
    ],
)
def test_remarks_say_what_figures_cannot(scores: list[float | None], clusters: list[int], told: str) -> None:
    remarks = set_report([held("topk", scores, clusters=clusters)]).remarks
    assert told in " ".join(remarks)


def test_a_run_says_which_differences_it_could_tell() -> None:
    """Ten differences of 0 and ten of 1: their standard error is 0.1147, and 1.96 and 0.84 of it reach far enough."""
    groups = [held("topk", [0] * 40), held("weave", [0, 1] * 20)]
    error = (0.25 / 39) ** 0.5
    assert f"differences of {(1.959964 + 0.841621) * error:.2f} in answer" in set_report(groups).remarks[-1]


def test_a_set_that_no_document_answers_says_so() -> None:
    rows = held("topk", [1, 1])
    lost = JudgedContext(0.0, None, None, 0.0, 9, lost=(LostText("gold", LostStage.NOWHERE),))
    rows.append(QuestionRow("set", "topk", 100, question(2), 2, lost, 1.0))
    assert "No document holds an answer of 1 question word for word" in " ".join(set_report([rows]).remarks)


def test_facts_name_documents_and_unanswered_questions() -> None:
    gold = ((Span("d", 0, 1), "x"), (Span("e", 0, 1), "y"))
    asked = [Question("1", "?", ("x",), gold), Question("2", "?", ("x",), gold), Question("3", "?", (), None)]
    judged = JudgedContext(1.0, 1.0, 1.0, 0.5, 9)
    rows = [QuestionRow("set", "topk", 9, one, n, judged, 1.0) for n, one in enumerate(asked)]
    assert set_report([rows]).facts == "3 questions, evidence in 2 documents, 1 without an answer"


def test_a_row_is_flat() -> None:
    (row,) = held("topk", [0])
    values = row.as_dict()
    assert values["gold"] == ["gold"] and values["missed"] is True and values["answer"] == 0
    assert values["lost"] == ({"text": "gold", "stage": LostStage.SKIP},)
    assert "em" not in values and {"em", "refused", "sure"} <= said(1).as_dict().keys()
    assert said(1, error="it broke").as_dict()["tokens"] is None
