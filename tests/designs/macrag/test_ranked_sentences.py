"""The weight of a sentence against its formula, and the sentences within a small budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.assemble.sentences import SentenceInLeaf
from mergewise.designs.macrag.ranked_sentences import (
    LEXICAL,
    NEIGHBOUR,
    matching,
    ranked_sentences,
    sentences_in,
    smooth_scores,
    weights,
)
from mergewise.protocols import FloatArray
from mergewise.text.terms import content_terms
from tests.designs.towns import EMBEDDER, QUESTION, STORE, reader


def literal_weights(
    question: str, vector: FloatArray, sentences: Sequence[SentenceInLeaf], shares: Sequence[float]
) -> list[float]:
    terms = [content_terms(p.text) | content_terms(" ".join(p.leaf.headings)) for p in sentences]
    wanted = content_terms(question)
    idf = {t: np.log(1 + len(sentences) / (1 + sum(t in own for own in terms))) for t in wanted}
    found = []
    for sentence in sentences:
        assert sentence.leaf.vectors is not None
        found.append(float(sentence.leaf.vectors[sentence.number] @ vector))
    low, high = min(found), max(found)
    return [
        (c - low) / (high - low) + LEXICAL * sum(idf[t] for t in own & wanted) / sum(idf.values()) + share
        for c, own, share in zip(found, terms, shares, strict=True)
    ]


def test_weights_are_the_formula() -> None:
    leaves = reader().sentences([leaf.id for rows in STORE.document_rows(["d1", "d2"]) for leaf in rows["leaf"]])
    sentences = [SentenceInLeaf(leaf, number) for leaf in leaves.values() for number in range(len(leaf.sentences))]
    shares = [1.0 if sentence.leaf.doc_id == "d2" else 0.4 for sentence in sentences]
    vector = EMBEDDER.embed_queries([QUESTION])[0]
    assert weights(QUESTION, vector, sentences, shares) == pytest.approx(
        literal_weights(QUESTION, vector, sentences, shares), abs=1e-5
    )
    bare = weights(QUESTION, None, sentences, shares)
    assert bare == pytest.approx(LEXICAL * matching(QUESTION, sentences) + shares, abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 3, width=32), st.integers(0, 2)), min_size=1, max_size=20))
def test_smoothing_is_the_formula(pairs: list[tuple[float, int]]) -> None:
    scores = np.array([s for s, _ in pairs], np.float32)
    expected = []
    for i, (score, section) in enumerate(pairs):
        near = [pairs[j][0] for j in (i - 1, i + 1) if 0 <= j < len(pairs) and pairs[j][1] == section]
        expected.append((1 - NEIGHBOUR) * score + NEIGHBOUR * max(near) if near else score)
    assert smooth_scores(scores, [section for _, section in pairs]) == pytest.approx(expected, abs=1e-5)


def test_sentences_come_best_first_and_no_more_than_a_budget_could_hold() -> None:
    leaves = reader().sentences([leaf.id for rows in STORE.document_rows(["d2"]) for leaf in rows["leaf"]])
    sentences = [SentenceInLeaf(leaf, number) for leaf in leaves.values() for number in range(len(leaf.sentences))]
    ranked = ranked_sentences(QUESTION, None, sentences, [1.0] * len(sentences), 20)
    assert "built in 1514" in ranked[0].fragments[0].text
    assert [c.score for c in ranked] == sorted((c.score for c in ranked), reverse=True)
    assert 20 < sum(len(c.fragments[0].text.split()) for c in ranked) < 100 and len(ranked) < len(sentences)
    assert ranked_sentences(QUESTION, None, [], [], 20) == []


def test_only_sentences_that_lie_in_the_parts_whole() -> None:
    leaves = reader().sentences([leaf.id for rows in STORE.document_rows(["d2"]) for leaf in rows["leaf"]])
    first, second, *_ = (sentence for leaf in leaves.values() for sentence in leaf.sentences)
    part = (first.start + 1, second.end)
    assert [s.sentence for s in sentences_in(leaves, sorted(leaves), [part])] == [second]
    assert [s.sentence for s in sentences_in(leaves, [10**9, *sorted(leaves)], [(first.start, second.end)])] == [
        first,
        second,
    ]
