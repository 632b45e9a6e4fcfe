"""Scores of citations against marked evidence and gold documents."""

from __future__ import annotations

from mergewise.evaluate.citing import score_citations
from mergewise.evaluate.question_sets import Evidence, Question
from mergewise.types import Citation, Span

TEXT = "The mill was built in 1612. It burned in 1700. Nobody knows why."


def cite(start: int, end: int, doc: str = "d") -> Citation:
    return Citation(1, TEXT[start:end], Span(doc, start, end), "")


def gold(*places: tuple[int, int], doc: str = "d") -> Evidence:
    return tuple((Span(doc, start, end), TEXT[start:end]) for start, end in places)


def scores(
    citations: list[Citation], evidence: Evidence | None, gold_docs: tuple[str, ...] = ()
) -> tuple[float | None, ...]:
    return tuple(score_citations(citations, Question("1", "?", ("x",), evidence, gold_docs=gold_docs)).values())


def test_citations_match_by_place() -> None:
    first, second = (0, 27), (28, 46)
    assert scores([cite(0, 27), cite(47, 64)], gold(first, second)) == (1 / 2, 1 / 2)
    assert scores([cite(20, 35)], gold(first, second)) == (1, 1)  # a piece of both
    assert scores([cite(0, 27, "e")], gold(first)) == (0, 0)
    assert scores([cite(27, 28)], gold(first)) == (0, 0)


def test_citations_match_by_words_without_a_place() -> None:
    somewhere = ((Span("", 0, 17), "burned in 1700"),)
    assert scores([cite(28, 46)], somewhere) == (1, 1)
    assert scores([cite(0, 27)], somewhere) == (0, 0)
    # a placeholder span at the beginning of the named document does not count as a place
    assert scores([cite(0, 27)], ((Span("d", 0, 17), "burned in 1700"),)) == (0, 0)


def test_citations_match_by_document() -> None:
    assert scores([cite(0, 27), cite(28, 46), cite(0, 5, "e")], None, ("d", "f")) == (2 / 3, 1 / 2)


def test_scores_without_gold_are_none() -> None:
    assert scores([cite(0, 27)], None) == (None, None)
    assert scores([], gold((0, 27))) == (None, 0)
