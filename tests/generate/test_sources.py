from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mergewise.generate.sources import Source, base_sources, batches, each_long_source, fit, long_sources
from mergewise.text.sentences import split_sentences
from mergewise.types import GAP, Context, Document, Passage, Span


def words(sources: Sequence[Source]) -> list[int]:
    return [len(source.text.split()) for source in sources]


def document(name: str, count: int) -> Document:
    return Document(name, "\n" + " ".join(f"{name.upper()}{i} has number {i}." for i in range(count)) + "\n", name)


def sentence(found: Document, number: int) -> tuple[int, int]:
    return split_sentences(found.text)[number]


def passage(found: Document, numbers: Sequence[int], score: float) -> Passage:
    spans = tuple(Span(found.id, *sentence(found, n)) for n in numbers)
    return Passage(GAP.join(found.text[s.start : s.end] for s in spans), score, spans, title=found.title)


def context(*passages: Passage) -> Context:
    return Context("q", "topk", 999, "", 0, passages)


A, B = document("a", 40), document("b", 10)
DOCUMENTS = {"a": A, "b": B}


def check_spans(sources: Sequence[Source]) -> None:
    for source in sources:
        assert source.text == GAP.join(text for _, text in source.parts)
        for span, text in source.parts:
            assert DOCUMENTS[span.doc_id].text[span.start : span.end] == text


def test_passages_keep_their_numbers_and_written_ones_have_parts() -> None:
    made = Passage("Something written.", 0.5, (Span("b", *sentence(B, 2)), Span("lost", 0, 3)), verbatim=False)
    sources = base_sources(context(passage(A, [3, 7], 0.9), made), DOCUMENTS.get)
    assert [source.number for source in sources] == [1, 2]
    assert [text for _, text in sources[0].parts] == ["A3 has number 3.", "A7 has number 7."]
    assert [text for _, text in sources[1].parts] == ["B2 has number 2."]


def test_documents_that_fit_are_complete_and_sorted() -> None:
    sources = long_sources(context(passage(B, [2], 0.3), passage(A, [3], 0.9)), DOCUMENTS.get, 1000, words)
    assert [(s.number, s.title, s.text) for s in sources] == [(1, "a", A.text.strip()), (2, "b", B.text.strip())]
    check_spans(sources)


def test_documents_over_the_room_are_cut_around_the_passages() -> None:
    found = context(passage(A, [20], 0.9), passage(B, [0], 0.3))
    a, b = long_sources(found, DOCUMENTS.get, 32, words)
    check_spans([a, b])
    assert [text for _, text in a.parts] == [" ".join(f"A{i} has number {i}." for i in range(18, 23))]
    assert [text for _, text in b.parts] == [" ".join(f"B{i} has number {i}." for i in range(3))]


def test_the_better_document_wins_between_equally_near_sentences() -> None:
    found = context(passage(B, [4], 0.9), passage(A, [4], 0.3))
    better, worse = long_sources(found, DOCUMENTS.get, 18, words)
    assert (better.title, worse.title) == ("b", "a") and len(better.text) > len(worse.text)


def test_passages_over_the_room_are_left_out_by_rank() -> None:
    found = context(passage(A, range(20), 0.9), passage(A, [30], 0.2), passage(B, range(9), 0.5))
    (a,) = long_sources(found, DOCUMENTS.get, 30, words)
    assert a.number == 1 and a.text.startswith("A") and "A30" in a.text and "A0 " not in a.text
    assert long_sources(found, DOCUMENTS.get, 3, words) == []


def test_documents_read_one_by_one_may_each_fill_the_room() -> None:
    found = context(passage(A, [20], 0.9), passage(B, [0], 0.3))
    a, b = each_long_source(found, DOCUMENTS.get, 44, words)
    assert b.text == B.text.strip() and (a.number, b.number) == (1, 2)
    assert len(a.text.split()) == 44
    assert [[s.number for s in group] for group in batches([a, b, b], 84, words)] == [[1, 2], [2]]


@given(
    st.lists(st.tuples(st.integers(0, 39), st.integers(1, 5), st.floats(0, 1)), min_size=1, max_size=6),
    st.integers(0, 260),
)
def test_excerpts_fit_and_have_complete_sentences(hits: list[tuple[int, int, float]], room: int) -> None:
    found = context(*(passage(A, range(i, min(i + n, 40)), score) for i, n, score in hits), passage(B, [4], 0.5))
    sources = long_sources(found, DOCUMENTS.get, room, words)
    assert sum(words(sources)) <= room
    check_spans(sources)
    for source in sources:
        starts, ends = zip(*split_sentences(DOCUMENTS[source.parts[0][0].doc_id].text), strict=True)
        for span, _ in source.parts:
            assert span.start in starts and span.end in ends
        assert all(one[0].end < two[0].start for one, two in zip(source.parts, source.parts[1:], strict=False))
    best = max(found.passages, key=lambda p: p.score)
    if len(best.text.replace(GAP, " ").split()) <= room:
        assert any(best.text.split(GAP)[0] in source.text for source in sources)


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), max_size=8), st.integers(0, 30))
def test_fit_takes_the_best_that_fit(sizes: list[tuple[int, float]], room: int) -> None:
    sources = [Source(i, "", (), "w " * size, (), score) for i, (size, score) in enumerate(sizes)]
    kept = fit(sources, room, words)
    left, expected = room, []
    for source in sorted(sources, key=lambda s: -s.score):
        if len(source.text.split()) <= left:
            left -= len(source.text.split())
            expected.append(source)
    assert kept == sorted(expected, key=lambda s: s.number)
