from __future__ import annotations

from dataclasses import replace

from benchmarks.languages import holds

from mergewise.types import Context, Passage, Span

TEXT = "Eins. Zwei.  Drei."


def context_with(*spans: tuple[int, int]) -> Context:
    passage = Passage("", 0.0, tuple(Span("d", start, end) for start, end in spans))
    return replace(Context("q", "s", 9, "", 0, ()), passages=(passage,))


def test_evidence_is_covered_up_to_white_space() -> None:
    gold = Span("d", 5, 18)  # includes the space before it
    assert holds(context_with((6, 18)), gold, TEXT)
    assert holds(context_with((6, 11), (13, 18)), gold, TEXT)
    assert not holds(context_with((6, 11)), gold, TEXT)
    assert not holds(context_with((7, 18)), gold, TEXT)
    assert not holds(replace(context_with((6, 18)), passages=()), gold, TEXT)
