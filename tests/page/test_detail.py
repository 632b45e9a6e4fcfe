"""The size limit of a page, and the notice on omissions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.page.detail import FRAME, LINE, PASSAGES, SHARES, Detail, details, fit_page, notice
from mergewise.page.source_texts import Overlaps, Places, bounds_around
from mergewise.types import Context, Document, Passage, Span


def context(passages: int, characters: int) -> Context:
    return Context(
        "q", "s", 9, "", 0, tuple(Passage("x" * characters, 0.5, (Span("d", 0, 1),)) for _ in range(passages))
    )


@given(st.integers(0, 300), st.integers(0, 2_000), st.integers(1_000, 400_000), st.integers(1, 3))
def test_each_detail_shows_no_more_than_the_one_before(passages: int, characters: int, limit: int, sides: int) -> None:
    contexts = [context(passages, characters)] * sides
    shown = list(details(limit, contexts))
    fits = sides * passages * (characters + FRAME) < limit
    assert len(shown) == (4 if fits else 0) + len(PASSAGES) * len(SHARES)
    for before, after in pairwise(shown[:4] if fits else []):
        assert before.around >= after.around and before.left >= after.left and before.steps >= after.steps
    cut = shown[4:] if fits else shown
    for detail in cut:
        assert detail.characters is not None and detail.characters >= LINE
        assert detail.passages is None or 1 <= detail.passages < passages
    for before, after in pairwise(cut):
        assert (before.passages or passages) >= (after.passages or passages)


def test_fit_page_returns_the_most_detailed_page_below_the_limit() -> None:
    asked: list[Detail] = []

    def render(detail: Detail) -> str:
        asked.append(detail)
        return "é" * (detail.around + 100)

    assert len(fit_page(render, 2_000, [context(1, 10)])) == 420
    assert len(asked) == 1
    assert len(fit_page(render, 700, [context(1, 10)])) == 220
    assert [detail.around for detail in asked[1:]] == [320, 120]


def test_fit_page_returns_the_smallest_page_if_none_fits() -> None:
    assert fit_page(lambda detail: f"{detail.characters} " * 1_000, 500, [context(1, 10)]).startswith(f"{LINE} ")


def test_a_whole_page_has_no_notice() -> None:
    assert Detail().omissions() == []
    assert notice(Detail()) is None


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (Detail(around=120), "surrounding text beyond 120 characters"),
        (Detail(around=0), "surrounding text."),
        (Detail(steps=0), "steps of the trace and reasons"),
        (Detail(left=0), "candidates that were not taken"),
        (Detail(characters=12_000), "the rest of passages beyond 12,000 characters"),
        (Detail(passages=1_200), "passages after the first 1,200"),
    ],
)
def test_the_notice_names_the_omissions(detail: Detail, words: str) -> None:
    shown = notice(detail)
    assert shown is not None
    assert words in shown and shown.count(",") == words.count(",")


# -- surrounding text

TEXT = "# One\n\nCats sleep a lot here.\n\n# Two\n\nDogs bark."
PLACES = Places(lambda doc_id: Document("d", TEXT, "D") if doc_id == "d" else None)


def at(words: str) -> Span:
    return Span("d", TEXT.index(words), TEXT.index(words) + len(words))


def test_surrounding_text_ends_at_headings_and_at_text_of_the_context() -> None:
    floor, ceiling = bounds_around(at("sleep"), Overlaps([at("sleep")], lambda span: span), PLACES)
    assert (TEXT[floor:].lstrip()[:4], ceiling) == ("Cats", TEXT.index("# Two"))
    taken = Overlaps([at("Cats"), at("sleep"), at("here")], lambda span: span)
    assert bounds_around(at("sleep"), taken, PLACES) == (at("Cats").end, at("here").start)
    last = bounds_around(at("bark"), Overlaps([at("bark")], lambda span: span), PLACES)
    assert last[1] is None


@given(st.integers(0, 40), st.integers(0, 40))
def test_surrounding_text_has_whole_words_within_the_limit(before: int, after: int) -> None:
    span = at("sleep")
    floor, ceiling = 0, len(TEXT)
    left, right = PLACES.around(span, before, floor, ceiling)[0], PLACES.around(span, after, floor, ceiling)[1]
    assert (left.end, right.start) == (span.start, span.end)
    assert len(left) <= before and len(right) <= after
    assert left.start in (floor, span.start) or TEXT[left.start - 1].isspace()
    assert right.end in (ceiling, span.end) or TEXT[right.end].isspace()


def test_a_missing_document_has_no_surrounding_text() -> None:
    gone = Span("gone", 5, 9)
    assert PLACES.around(gone, 10, 0, None) == (Span("gone", 5, 5), Span("gone", 9, 9))
    assert PLACES.section(gone) == (0, None)
    assert PLACES.location(gone) == "gone:5–9"
