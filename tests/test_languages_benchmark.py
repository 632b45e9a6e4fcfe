from __future__ import annotations

from benchmarks.manuals import Asked
from benchmarks.sets import holds

from mergewise.evaluate.question_sets import Question
from mergewise.types import Span

TEXT = "Eins. Zwei.  Drei."


def held(gold: Span, *spans: tuple[int, int]) -> bool:
    asked = Asked(Question("1", "?", (), ()), (((gold, ""),),), (), "", "tune")
    return holds(asked, [Span("d", start, end) for start, end in spans], {"d": TEXT})


def test_evidence_is_covered_up_to_white_space_and_marks() -> None:
    gold = Span("d", 5, 18)  # includes the space before it
    assert held(gold, (6, 18))
    assert held(gold, (6, 11), (13, 18))
    assert held(gold, (6, 17))
    assert not held(gold, (6, 11))
    assert not held(gold, (7, 18))
    assert not held(gold)
