"""The text that only one of several contexts holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mergewise.text.context_diff import OtherSpans, other_spans, unshared_texts
from mergewise.types import GAP, Context, Passage, Span

TEXT = "Cats eat fish. Dogs eat meat. Birds eat seeds."
#       0             15             30
SPANS = st.builds(
    lambda doc, start, length: Span(doc, start, start + length),
    st.sampled_from("de"),
    st.integers(0, len(TEXT) - 9),
    st.integers(1, 9),
)


def span(start: int, end: int, doc: str = "d") -> Span:
    return Span(doc, start, end)


def context(*spans: Span, verbatim: bool = True) -> Context:
    text = GAP.join(TEXT[s.start : s.end] for s in spans) if verbatim else "Written."
    return Context("q", "s", 99, text, 9, (Passage(text, 0.5, spans, verbatim),) if spans else ())


def unshared(*contexts: Context) -> list[list[tuple[Span, str]]]:
    text_of = lambda span: TEXT[span.start : span.end]  # noqa: E731
    return [unshared_texts(one, others, text_of) for one, others in zip(contexts, other_spans(contexts), strict=True)]


def test_sentences_that_no_other_context_shows() -> None:
    assert unshared(context(span(0, 29)), context(span(15, 46)), context()) == [
        [(span(0, 14), "Cats eat fish.")], [(span(30, 46), "Birds eat seeds.")], [],
    ]  # fmt: skip
    # Only a space is left between two sentences of the other context, which does not count.
    assert unshared(context(span(0, 29)), context(span(0, 14), span(15, 29)))[0] == []


def test_a_written_passage_holds_its_sources() -> None:
    assert unshared(context(span(0, 29), verbatim=False), context(span(0, 14))) == [
        [(span(15, 29), "Dogs eat meat.")], [],
    ]  # fmt: skip


@given(SPANS, st.lists(SPANS))
def test_pieces_tile_the_span_and_mark_unshared_text(one: Span, others: list[Span]) -> None:
    pieces = list(OtherSpans(others).pieces(one))
    assert [at for piece, _ in pieces for at in range(piece.start, piece.end)] == list(range(one.start, one.end))
    for piece, only in pieces:
        for at in range(piece.start, piece.end):
            assert only == (not any(other.contains(Span(one.doc_id, at, at + 1)) for other in others))


@given(st.lists(SPANS), st.lists(SPANS))
def test_no_character_is_unshared_on_both_sides(left: list[Span], right: list[Span]) -> None:
    ours, theirs = unshared(context(*left), context(*right))
    for piece, text in ours:
        assert text == TEXT[piece.start : piece.end] == text.strip()
        assert not any(piece.overlaps(other) for other in [*right, *(other for other, _ in theirs)])
