"""Selection and rendering: exact budgets under any counter, exact spans, no repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.budget import pack
from mergewise.assemble.fragments import Candidate, Fragment
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context

TEXT = "".join(f"Word{i} is here, and more of it. " + ("\n\n" if i % 5 == 4 else "") for i in range(60))


def characters(texts: Sequence[str]) -> list[int]:
    return [len(text) for text in texts]


def not_additive(texts: Sequence[str]) -> list[int]:
    """Count more tokens for a whole than for its parts, as some tokenizers do at joins."""
    return [len(text.split()) + len(text) // 40 + text.count("\n") for text in texts]


def fragment(doc: str, start: int, end: int) -> Fragment:
    return Fragment(doc, f"Title {doc}", (f"Part {start // 700}",), start, end, start, TEXT[start:end])


fragments = st.builds(
    lambda doc, start, size: fragment(doc, start, min(len(TEXT), start + size)),
    st.sampled_from("ab"),
    st.integers(0, len(TEXT) - 1),
    st.integers(1, 300),
)
candidates = st.lists(
    st.builds(
        lambda parts, score: Candidate(tuple(parts), score),
        st.lists(fragments, min_size=1, max_size=3),
        st.floats(0, 1),
    ),
    max_size=12,
)
counters = st.sampled_from([count_tokens, characters, not_additive])


@given(candidates, st.integers(1, 600), counters, st.sampled_from(["document", "score"]))
def test_budget_spans_and_no_repetition(ranked: list[Candidate], budget: int, counter, order) -> None:  # type: ignore[no-untyped-def]
    context = pack("q", ranked, budget, Models(counter), order)
    assert context.tokens <= budget
    assert context.tokens == (counter([context.text])[0] if context.text else 0)
    spans = [span for passage in context.passages for span in passage.spans]
    for left, right in pairwise(sorted(spans)):
        assert not left.overlaps(right)
    for passage in context.passages:
        for span, text in passage.parts():
            assert text == TEXT[span.start : span.end] == text.strip()
            assert text in context.text


def one(start: int, end: int, score: float = 1.0) -> Candidate:
    return Candidate((fragment("a", start, end),), score)


def render(*ranked: Candidate, budget: int = 500) -> Context:
    return pack("q", ranked, budget, Models(count_tokens))


def test_overlaps_are_rendered_once_and_touching_text_runs_on() -> None:
    context = render(one(0, 60), one(30, 90), one(90, 120))
    assert [(s.start, s.end) for p in context.passages for s in p.spans] == [(0, len(TEXT[:120].rstrip()))]
    assert context.text == f"[1] Title a › Part 0\n{TEXT[:120].strip()}"


def test_a_gap_is_marked_and_the_heading_appears_once() -> None:
    first, later = TEXT[:33].strip(), TEXT[99:132].strip()
    context = render(one(99, 132), one(0, 33))
    assert context.text == f"[1] Title a › Part 0\n{first} …\n{later}"
    assert len(context.passages) == 1


def test_a_large_candidate_is_skipped_and_its_parts_are_tried() -> None:
    """The parts are far from the beginning, whose sentences get the rest of the budget."""
    large = Candidate((fragment("a", 0, 900),), 1.0, instead=(one(396, 429), one(594, 627)))
    context = render(large, one(726, 759, 0.1), budget=60)
    assert [step.action for step in context.trace][:1] == ["skip"]
    for start in (396, 594, 726):
        assert TEXT[start : start + 33].strip() in context.text
    assert context.text.index(TEXT[396:429].strip()) < context.text.index(TEXT[594:627].strip())
    without = render(replace(large, instead=()), one(726, 759, 0.1), budget=60)
    assert TEXT[396:429].strip() not in without.text


def test_the_rest_goes_to_first_sentences_of_skipped_candidates() -> None:
    context = render(one(0, 33), one(198, 330, 0.5), budget=60)
    assert [step.action for step in context.trace] == ["skip", "cut"]
    first, cut = context.passages[0].spans
    assert (first.start, cut.start) == (0, 198)
    assert TEXT[cut.start : cut.end].endswith("it.") and cut.end < 330
    assert context.tokens <= 60


def test_score_order_shows_the_best_first() -> None:
    context = pack("q", [one(300, 330, 0.9), one(0, 30, 0.5)], 500, Models(count_tokens), "score")
    assert [p.spans[0].start for p in context.passages] == [pytest.approx(300, abs=3), 0]
