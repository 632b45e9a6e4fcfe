"""The order of passages, their headings and their gaps, by hand and against literal sets of characters."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.fragments import Candidate, Fragment, passages_of
from mergewise.text.blocks import render
from mergewise.types import GAP, Span

TEXT = "Aa bb. Cc dd. Ee ff. Gg hh. Ii jj. Kk ll. Mm nn. Oo pp. "
SIZE = 7  # characters of a sentence with its space
SECTIONS = (("Part 0",), ("Part 1",))


def fragment(doc: str, first: int, count: int = 1) -> Fragment:
    """Return sentences of a document of eight: the first four in one section, the others in the next."""
    start, end = SIZE * first, SIZE * (first + count)
    return Fragment(doc, f"Title {doc}", SECTIONS[first // 4], start, end, start, TEXT[start:end])


def one(doc: str, first: int, score: float, count: int = 1) -> Candidate:
    return Candidate((fragment(doc, first, count),), score)


def test_in_order_of_score_each_candidate_is_a_passage() -> None:
    chosen = [one("a", 0, 0.2), one("a", 1, 0.9)]
    assert render(passages_of(chosen, "score")) == "[1] Title a › Part 0\nCc dd.\n\n[2] › Part 0\nAa bb."


def test_touching_fragments_run_on_and_gaps_are_marked() -> None:
    (passage,) = passages_of([one("a", 3, 0.2), one("a", 0, 0.9), one("a", 1, 0.5)], "document")
    assert passage.text == f"Aa bb. Cc dd.{GAP}Gg hh." and passage.score == 0.9
    assert passage.spans == (Span("a", 0, 13), Span("a", 21, 27))
    assert (passage.title, passage.headings) == ("Title a", ("Part 0",))


def test_a_section_that_another_one_interrupts_has_its_heading_again() -> None:
    outer = [Fragment("a", "T", (), start, start + SIZE, start, TEXT[start : start + SIZE]) for start in (0, 2 * SIZE)]
    inner = fragment("a", 1)
    passages = passages_of([Candidate((part,), 0.5) for part in (*outer, inner)], "document")
    assert [p.headings for p in passages] == [(), ("Part 0",), ()]


chosen_sentences = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 7)), st.sampled_from([0.1, 0.2, 0.5, 0.9]), min_size=1, max_size=12
)


@given(chosen_sentences, st.randoms())
def test_document_order_matches_a_literal_transcription(chosen: dict[tuple[str, int], float], random: object) -> None:
    candidates = [one(doc, number, score) for (doc, number), score in chosen.items()]
    random.shuffle(candidates)  # type: ignore[attr-defined]
    best = {doc: max(score for (other, _), score in chosen.items() if other == doc) for doc, _ in chosen}
    ordered = sorted(chosen, key=lambda pair: (-best[pair[0]], pair[0], pair[1]))
    blocks: list[str] = []
    above = ""
    for number, ((doc, part), group) in enumerate(groupby(ordered, key=lambda pair: (pair[0], pair[1] // 4)), 1):
        text, previous = "", None
        for _, sentence in group:
            text += ("" if previous is None else " " if sentence == previous + 1 else GAP) + TEXT[SIZE * sentence :][:6]
            previous = sentence
        blocks.append(f"[{number}] {'' if doc == above else f'Title {doc} '}› Part {part}\n{text}")
        above = doc
    passages = passages_of(candidates, "document")
    assert render(passages) == "\n\n".join(blocks)
    assert all(TEXT[span.start : span.end] == text for p in passages for span, text in p.parts())
