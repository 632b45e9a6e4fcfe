"""Counts of the triplet benchmark: facts behind questions, and the triplets that express a fact."""

from __future__ import annotations

import pytest
from benchmarks.triplets import Fact, _behind, folded, judged

from mergewise.designs.aed.triplets import Triplet
from mergewise.types import Document

CORPUS = {
    "x": Document("x", "Red Mill is a film directed by Jean Vidal.", "Red Mill (film)"),
    "p": Document("p", "Jean Vidal (born 5 October 1901) was a director.", "Jean Vidal"),
}
DIRECTOR = Fact("x", "Red Mill", "director", "Jean Vidal", 2)
BIRTH = Fact("p", "Jean Vidal", "date of birth", "October 5, 1901", 2)


def test_facts_are_recovered_from_a_question() -> None:
    row = {
        "question": "When was the director of film Red Mill born?",
        "answers": ["5 October 1901"],
        "type": "compositional",
        "evidence": [{"doc": "x"}, {"doc": "p"}],
    }
    assert list(_behind(row, CORPUS)) == [("x", "director", "Jean Vidal"), ("p", "date of birth", "5 October 1901")]
    other = {"question": "Who is older, A or B?", "answers": ["A"], "type": "comparison", "evidence": row["evidence"]}
    assert list(_behind(other, CORPUS)) == []


@pytest.mark.parametrize(
    ("fact", "head", "relation", "tail", "expected"),
    [
        (DIRECTOR, "Red Mill", "directed by", "Jean Vidal", (1, 1, 1)),
        (DIRECTOR, "The Red Mill", "director", "Jean Vidal of Paris", (1, 1, 0)),
        (DIRECTOR, "Jean Vidal", "directed", "Red Mill", (1, 1, 1)),
        (DIRECTOR, "Red Mill", "starring", "Jean Vidal", (1, 0, 0)),
        (DIRECTOR, "Blue Barn", "directed by", "Jean Vidal", (1, 0, 0)),
        (DIRECTOR, "Red Mill", "directed by", "Ann Lee", (0, 0, 0)),
        (BIRTH, "Jean Vidal", "born on", "5 October 1901", (1, 1, 1)),
        (BIRTH, "Jean Vidal", "born in", "1901", (0, 0, 0)),
        (BIRTH, "Jean Vidal", "born in", "Paris", (0, 0, 0)),
    ],
)
def test_three_ways_to_match(fact: Fact, head: str, relation: str, tail: str, expected: tuple[int, int, int]) -> None:
    counts = judged(fact, [Triplet(head, relation, tail, 0, 5)])
    assert (counts["loose"].found, counts["match"].found, counts["strict"].found) == expected


def test_precision_is_over_answering_triplets() -> None:
    listed = [Triplet("Red Mill", "directed by", name, 0, 5) for name in ("Jean Vidal", "Ann Lee", "Ann Lee")]
    match = judged(DIRECTOR, [*listed, Triplet("Red Mill", "starring", "Bo Stern", 0, 5)])["match"]
    assert (match.right, match.answering) == (1, 2)


def test_dates_in_any_order_are_the_same() -> None:
    assert folded("October 5, 1901") == folded("5 October 1901") != folded("6 October 1901")
    assert folded("The Élan") == ("elan",)
