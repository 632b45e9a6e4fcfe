from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.mergerag.pieces import Lengths
from mergewise.assemble.mergerag.relevance import BACKLINK, LINK, OPENING, Floors, relevance
from mergewise.models.tokens import count_tokens
from tests.assemble.mergerag.support import sentences as sentences_in
from tests.assemble.mergerag.support import source


def test_a_sentence_that_says_the_questions_rare_words_is_worth_more() -> None:
    sentences = sentences_in(source("a", "Nothing here. Cats eat fish. Cats sleep. Cats purr."))
    found = relevance("What do cats eat?", sentences, [0.5])
    ranked = sorted(sentences, key=lambda s: -found[s])
    assert ranked[0].text == "Cats eat fish."
    assert found[sentences[0]] == pytest.approx(0.5 + OPENING)
    better = relevance("What do cats eat?", sentences, [0.9])
    assert all(better[s] == pytest.approx(found[s] + 0.4) for s in sentences)


def test_what_the_best_sentences_name_is_linked_and_what_names_their_place() -> None:
    start = source("alcala", "Larry Alcala studied at the University of the Philippines.", 0.9, ("Larry Alcala",))
    named = source("up", "Training began in 1912.", 0.1, ("University of the Philippines",))
    naming = source("prize", "Larry Alcala was given a prize.", 0.1, ("Awards",))
    apart = source("rice", "Rice is boiled.", 0.1, ("Rice",))
    sentences = sentences_in(start, named, naming, apart)
    question = "When did it begin where he studied?"
    found = relevance(question, sentences, [0.9, 0.1, 0.1, 0.1])
    best = found[sentences[0]]
    assert found[sentences[1]] == pytest.approx(0.1 + OPENING + LINK * best, abs=0.2)
    assert found[sentences[2]] == pytest.approx(0.1 + OPENING + BACKLINK * best, abs=0.1)
    assert found[sentences[3]] == pytest.approx(0.1 + OPENING)
    known = relevance("University of the Philippines", sentences[1:], [0.9, 0.1, 0.1, 0.1])
    assert known[sentences[3]] == pytest.approx(0.1 + OPENING)  # names of the question lead nowhere new


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 300), st.sampled_from([0.0, 0.5, 0.9]))
def test_floors_fall_with_room_and_hold_the_budget(values: list[int], budget: int, keep: float) -> None:
    text = " ".join(f"Number {i} says something of its own." for i in range(len(values)))
    sentences = sentences_in(source("d", text))
    relevant = {s: value + i / 1000 for i, (s, value) in enumerate(zip(sentences, values, strict=False))}
    lengths = Lengths(sentences, count_tokens)
    floor = Floors(relevant, lengths, budget, keep)
    for depth in range(12):
        assert floor(depth) <= floor(depth + 1)
        kept = [s for s in sentences if s in relevant and relevant[s] >= floor(depth)]
        assert kept  # the best sentence always passes
        if keep == 0 and depth and len(kept) > 1:
            assert sum(s.tokens for s in kept) <= budget
    assert Floors({}, lengths, budget, keep)(3) == 0.0


def test_a_title_stands_in_for_a_heading() -> None:
    sentences = sentences_in(source("zebra", "Stripes hide it.", 0.1), source("herd", "A Zebra walks here.", 0.9))
    found = relevance("Who hides?", sentences, [0.1, 0.9])
    without = relevance("Who hides?", sentences_in(replace(source("x", "Stripes hide it.", 0.1))), [0.1])
    assert found[sentences[0]] > next(iter(without.values())) + 0.1
