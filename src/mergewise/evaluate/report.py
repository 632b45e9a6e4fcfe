"""What the rows of a question set come to, for people: tables with intervals, differences to the first strategy, remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import sqrt

from mergewise.evaluate.judged import LostStage
from mergewise.evaluate.question_sets import Question
from mergewise.evaluate.ranking import GAINED, RECALLED
from mergewise.evaluate.rows import EvaluationRow, QuestionRow, mean_row
from mergewise.evaluate.statistics import POWER, Z, holm, paired_interval, sign_flip, smallest_difference
from mergewise.page.evaluation import (
    EvaluationReport,
    ReportAttempt,
    ReportCell,
    ReportColumn,
    ReportDifference,
    ReportLine,
    ReportQuestion,
    ReportTable,
)

FEW = 30
"""Independent questions below which a report says that they are few."""
LEVEL = 0.05
DISCORDANCE = 0.2
"""Share of the questions on which two strategies are taken to differ where only one was asked."""

CONTEXT_COLUMNS = {
    "answer": ReportColumn("answer", "share of questions whose context holds a gold answer, as whole words"),
    "evidence": ReportColumn("evidence", "share of marked gold texts that the context holds whole"),
    "all": ReportColumn("all", "share of questions whose context holds all of them"),
    "density": ReportColumn("density", "tokens of held gold texts (or of the answer) per token of context"),
    "tokens": ReportColumn("tokens", "tokens of a context, mean", 1, False),
    "query_ms": ReportColumn("ms", "milliseconds to find and assemble a context, median", 1, False),
}
ANSWER_COLUMNS = {
    "em": ReportColumn("EM", "share of answers that are the gold answer"),
    "f1": ReportColumn("F1", "harmonic mean of precision and recall of the words of both"),
    "relaxed_em": ReportColumn("relaxed", "share of answers that the gold answer is a part of, also within words"),
    "contains_words": ReportColumn("words", "the same, as whole words"),
    "average": ReportColumn("avg", "mean of relaxed and F1"),
    "input_tokens": ReportColumn("in", "tokens that a model read for a question, mean", 1, False),
    "output_tokens": ReportColumn("out", "tokens that a model wrote, mean", 1, False),
    "seconds": ReportColumn("seconds", "seconds of a question in all, mean", 2, False),
}
REFUSAL_COLUMNS = {
    "refused": ReportColumn("refused", "share of questions without an answer where nothing was claimed"),
    "sure": ReportColumn("sure", "share of questions without an answer where the answer was sure"),
    "withheld": ReportColumn("withheld", "share of questions with an answer where nothing was claimed"),
}
RANKING_COLUMNS = {
    **{f"recall@{k}": ReportColumn(f"R@{k}", f"share of gold documents among the first {k}") for k in RECALLED},
    "all@5": ReportColumn("all@5", "share of questions with all gold documents among the first 5"),
    f"ndcg@{GAINED}": ReportColumn(
        f"nDCG@{GAINED}", f"gains of the first {GAINED}, discounted by rank, beside the best ranking"
    ),
    "mrr": ReportColumn("MRR", "1 / rank of the first gold document, mean"),
}
COMPARED = ("answer", "evidence", "all")
COMPARED_RANKING = ("recall@2", "recall@5")
"""Where whole documents are gold."""
COMPARED_ANSWERS = ("em", "f1", "relaxed_em", "refused")


def report_line(row: EvaluationRow, columns: Sequence[str]) -> ReportLine:
    cells = (ReportCell(row.value(name), row.intervals.get(name)) for name in columns)
    return ReportLine(row.strategy, row.budget, tuple(cells))


def set_report(
    groups: Sequence[Sequence[QuestionRow]], means: Sequence[EvaluationRow] | None = None
) -> EvaluationReport:
    """The report of one set: for each strategy and budget the rows of the same questions. `means` are theirs, if known."""
    means = means or [mean_row(rows) for rows in groups]
    first, answered = means[0], any(row.answers is not None for row in means)
    main = ANSWER_COLUMNS if answered else CONTEXT_COLUMNS
    tables = [_table("Answers" if answered else "Contexts", main, means)]
    if first.ranking:
        tables.append(_table("Gold documents by rank", RANKING_COLUMNS, means))
    if answered and first.unanswerable:
        tables.append(_table("Questions without an answer", REFUSAL_COLUMNS, means))
    found = differences(groups)
    return EvaluationReport(
        name=first.dataset,
        facts=facts([row.question for row in groups[0]]),
        tables=tuple(tables),
        first=first.strategy,
        differences=tuple(found),
        remarks=tuple(remarks(groups)),
        questions=tuple(map(_report_question, zip(*groups, strict=True))),
    )


def _table(title: str, columns: Mapping[str, ReportColumn], means: Sequence[EvaluationRow]) -> ReportTable:
    lines = tuple(report_line(row, tuple(columns)) for row in means)
    return ReportTable(title, tuple(columns.values()), lines)


def facts(questions: Sequence[Question]) -> str:
    """How many questions there are, on how many documents, and how many have no answer."""
    documents = {document for question in questions for document in question.documents}
    without = sum(not question.answerable for question in questions)
    parts = [_count(len(questions), "question")]
    parts += [f"evidence in {_count(len(documents), 'document')}"] if documents else []
    parts += [f"{without} without an answer"] if without else []
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def remarks(groups: Sequence[Sequence[QuestionRow]]) -> list[str]:
    """What the figures cannot tell: few questions, clusters, the differences that such a run sees."""
    rows = groups[0]
    independent = len({row.cluster for row in rows})
    told = cluster_remarks(len(rows), independent)
    answered = any(row.answers is not None for group in groups for row in group)
    without = sum(not row.question.answerable for row in rows)
    if without and not answered:
        told.append(f"{_count(without, 'question')} without an answer: --answers tells whether they are refused.")
    nowhere = sum(
        row.context is not None and any(lost.stage is LostStage.NOWHERE for lost in row.context.lost) for row in rows
    )
    if nowhere:
        told.append(f"No document holds an answer of {_count(nowhere, 'question')} word for word: no context can.")
    return [*told, seen_differences(groups)]


def cluster_remarks(questions: int, independent: int) -> list[str]:
    """What so many questions, of so many clusters, cannot tell."""
    told = []
    if questions > 1 == independent:
        told.append("All questions are about the same documents: intervals and tests speak of these documents alone.")
    elif independent < questions:
        told.append(
            f"Questions share documents: intervals and tests go by their {independent} groups, not by {questions:,} questions."
        )
    if (few := questions if independent == 1 else independent) < FEW:
        what = _count(few, "question") if independent in (1, questions) else _count(few, "group")
        told.append(f"{what} are few: the intervals are wide, and uncertain themselves.")
    return told


def seen_differences(groups: Sequence[Sequence[QuestionRow]]) -> str:
    """The smallest differences that the run could tell from zero."""
    seen: dict[str, float] = {}
    for name, _, pairs, clusters in _pairs(groups):
        smallest = smallest_difference([ours - theirs for ours, theirs in pairs], clusters)
        seen[name] = max(seen.get(name, 0.0), smallest or 0.0)
    spelled = [f"{size:.2f} in {_label(name)}" for name, size in seen.items() if size > 0]
    if spelled:
        return f"This run could tell differences of {', '.join(spelled)} (four times out of five)."
    independent = len({row.cluster for row in groups[0]})
    size = (Z + POWER) * sqrt(DISCORDANCE / independent)
    return f"Such a set tells two strategies apart that differ by {min(1.0, size):.2f} (on every fifth question)."


def differences(groups: Sequence[Sequence[QuestionRow]]) -> list[ReportDifference]:
    """Of each further strategy to the first at the same budget, by columns. Tests of a column are corrected together."""
    found: dict[str, list[ReportDifference]] = {}
    for name, row, pairs, clusters in _pairs(groups):
        ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
        gains = [one - other for one, other in pairs]
        found.setdefault(name, []).append(
            ReportDifference(
                row.strategy,
                row.budget,
                _label(name),
                sum(gains) / len(gains),
                paired_interval(ours, theirs, clusters),
                sign_flip(gains, clusters),
                False,
                sum(gain > 0 for gain in gains),
                sum(gain < 0 for gain in gains),
            )
        )
    corrected = []
    for column in found.values():
        probabilities = holm([one.probability for one in column])
        for one, probability in zip(column, probabilities, strict=True):
            corrected.append(replace(one, probability=probability, is_apart=probability < LEVEL))
    order = {(group[0].strategy, group[0].budget): place for place, group in enumerate(groups)}
    return sorted(corrected, key=lambda one: order[one.strategy, one.budget])


def _pairs(
    groups: Sequence[Sequence[QuestionRow]],
) -> Iterator[tuple[str, QuestionRow, list[tuple[float, float]], list[int]]]:
    """For each column and further strategy the scores of both, question by question, with their clusters.

    A column that says the same as the one before, as `all` does of one gold text a question, is left out.
    """
    answered = any(row.answers is not None for group in groups for row in group)
    firsts = {group[0].budget: group for group in groups if group[0].strategy == groups[0][0].strategy}
    for group in groups:
        first = firsts.get(group[0].budget)
        if first is None or first is group:
            continue
        before = None
        by_document = any(row.question.gold_docs for row in group)
        names = COMPARED_ANSWERS if answered else (*COMPARED, *COMPARED_RANKING) if by_document else COMPARED
        for name in names:
            scored = [
                (ours.score(name), theirs.score(name), ours.cluster) for ours, theirs in zip(group, first, strict=True)
            ]
            known = [(a, b, cluster) for a, b, cluster in scored if a is not None and b is not None]
            pairs = [(a, b) for a, b, _ in known]
            if pairs and pairs != before:
                yield name, group[0], pairs, [cluster for _, _, cluster in known]
            before = pairs


def _label(name: str) -> str:
    return {**CONTEXT_COLUMNS, **RANKING_COLUMNS, **ANSWER_COLUMNS, **REFUSAL_COLUMNS}[name].label


def _report_question(rows: Sequence[QuestionRow]) -> ReportQuestion:
    question = rows[0].question
    return ReportQuestion(question.id, question.text, question.answers, tuple(map(_attempt, rows)))


def _attempt(row: QuestionRow) -> ReportAttempt:
    said = row.error or ("" if row.answers is None else row.answers.prediction)
    if not row.missed:
        return ReportAttempt(row.strategy, row.budget, _verdict(row), True)
    context = row.context
    lost = [] if context is None else [(one.text, one.stage.value) for one in context.lost]
    found = [] if context is None else [(one.place, one.text) for one in context.found]
    return ReportAttempt(row.strategy, row.budget, _verdict(row), False, said, tuple(lost), tuple(found))


def _verdict(row: QuestionRow) -> str:
    """What became of a question, in a word or two."""
    if row.error:
        return "failed"
    if row.answers is not None:
        if row.answers.refused:
            return "refused"
        if row.question.answerable:
            return "wrong" if row.missed else "right"
        return "claimed, and sure" if row.answers.sure else "claimed"
    if not row.question.answerable:
        return "not judged"
    if not row.missed:
        return "held"
    return "held in part" if row.score("evidence") else "missed"
