from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.mergerag.pieces import ChunkLengths, ChunkSentence
from mergewise.designs.mergerag.relevance import BACKLINK, BEST, COVERAGE, LINK, OPENING, PATH, Floors, relevance
from mergewise.models.tokens import count_tokens
from mergewise.text.terms import content_terms
from tests.designs.mergerag.support import sentences as sentences_in
from tests.designs.mergerag.support import source


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 300), st.sampled_from([0.0, 0.5, 0.9]))
def test_floors_fall_with_room_and_hold_the_budget(values: list[int], budget: int, keep: float) -> None:
    text = " ".join(f"Number {i} says something of its own." for i in range(len(values)))
    sentences = sentences_in(source("d", text))
    relevant = {s: value + i / 1000 for i, (s, value) in enumerate(zip(sentences, values, strict=False))}
    lengths = ChunkLengths(sentences, count_tokens)
    floor = Floors(relevant, lengths, budget, keep)
    for depth in range(12):
        assert floor(depth) <= floor(depth + 1)
        kept = [s for s in sentences if s in relevant and relevant[s] >= floor(depth)]
        assert kept  # the best sentence always passes
        if keep == 0 and depth and len(kept) > 1:
            assert sum(s.tokens for s in kept) <= budget
    assert Floors({}, lengths, budget, keep)(3) == 0.0


ROOT = Path(__file__).parents[3]
SCORED = """
from mergewise.designs.mergerag.relevance import relevance
from tests.designs.mergerag.support import sentences, source
words = "pump valve ring alarm pressure fish rice zebra stone".split()
said = ["".join(word + " " for word in words[i % 4 :: 1 + i % 3]) + "turns." for i in range(12)]
worth = relevance(" ".join(words), sentences(source("d", " ".join(map(str.capitalize, said)), 0.3, ("Pump",))), [0.3])
print([value.hex() for value in worth.values()])
"""


def test_relevance_is_the_same_in_every_process() -> None:
    """Sums over sets would differ in their last digits with the seed of string hashes."""

    def scored(seed: str) -> str:
        settings = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", SCORED], env=settings, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout

    assert len({scored(seed) for seed in "123"}) == 1


def test_a_title_replaces_a_missing_heading() -> None:
    sentences = sentences_in(source("zebra", "Stripes hide it.", 0.1), source("herd", "A Zebra walks here.", 0.9))
    found = relevance("Who hides?", sentences, [0.1, 0.9])
    without = relevance("Who hides?", sentences_in(replace(source("x", "Stripes hide it.", 0.1))), [0.1])
    assert found[sentences[0]] > next(iter(without.values())) + 0.1


def literal(question: str, sentences: Sequence[ChunkSentence], scores: Sequence[float]) -> list[float]:
    """Compute the sum in the module's docstring, sentence by sentence."""
    wanted = content_terms(question)

    def idf(term: str) -> float:
        holding = sum(term in s.terms for s in sentences)
        return math.log(1 + (len(sentences) - holding + 0.5) / (holding + 0.5))

    def name(s: ChunkSentence) -> frozenset[str]:
        return content_terms(s.fragment.headings[-1] if s.fragment.headings else s.fragment.title)

    def names(a: ChunkSentence, b: ChunkSentence) -> bool:
        """Return true if `a` names the heading of `b` and the question does not."""
        return name(b) <= a.terms and not name(b) <= wanted

    plain = []
    for s in sentences:
        path = content_terms(" ".join((s.fragment.title, *s.fragment.headings)))
        said = sum(idf(t) for t in wanted if t in s.terms)
        above = sum(idf(t) for t in wanted if t in path and t not in s.terms)
        share = (said + PATH * above) / (sum(map(idf, wanted)) or 1)
        plain.append(scores[s.chunk] + COVERAGE * share + OPENING * s.first)
    best = sorted(range(len(sentences)), key=lambda i: -plain[i])[:BEST]
    linked = []
    for i, s in enumerate(sentences):
        gains = [
            plain[b] * (LINK if names(sentences[b], s) else BACKLINK if names(s, sentences[b]) else 0)
            for b in best
            if sentences[b].section != s.section
        ]
        linked.append(plain[i] + max(gains, default=0))
    return linked


words = st.lists(
    st.sampled_from("cats eat fish Rice Zebra stones sleep rice zebra fish".split()), min_size=1, max_size=6
)
texts = st.lists(words.map(lambda own: " ".join(own).capitalize() + "."), min_size=1, max_size=5).map(" ".join)
headings = st.sampled_from([(), ("Rice",), ("Animals", "Zebra"), ("Fish",)])


@given(st.lists(st.tuples(st.sampled_from("abc"), texts, headings), min_size=1, max_size=4), texts, st.data())
def test_relevance_matches_the_docstring(
    parts: list[tuple[str, str, tuple[str, ...]]], question: str, data: st.DataObject
) -> None:
    # The scores are far enough apart that rounding does not change the order of the best.
    scores = data.draw(st.permutations([0.1, 1.3, 2.5, 3.7]))[: len(parts)]
    sentences = sentences_in(*(source(doc, text, headings=path) for doc, text, path in parts))
    found = relevance(question, sentences, scores)
    assert [found[s] for s in sentences] == pytest.approx(literal(question, sentences, scores), rel=1e-6)
