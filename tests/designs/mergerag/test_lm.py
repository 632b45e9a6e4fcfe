from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.mergerag.lm import MU, NU, WordModel, corpus_words, words_of

texts = st.lists(st.text("ab c.D", max_size=30), max_size=5)


def literal(source: str, anchor: str, background: Counter[str], mu: float, nu: float) -> float:
    """Compute the module's three equations word by word."""
    s, a = words_of(source), words_of(anchor)
    total = 0.0
    for t, w in enumerate(s):
        p_corpus = (background[w] + 0.5) / (background.total() + 0.5 * (len(background) + 1))
        p = (a.count(w) + mu * p_corpus) / (len(a) + mu)
        if t:
            v = s[t - 1]
            bigrams = list(pairwise(a))
            p = (bigrams.count((v, w)) + nu * p) / (sum(x == v for x, _ in bigrams) + nu)
        total += math.log(p)
    return -total / len(s) if s else 0.0


@given(texts, texts, texts, st.floats(0.5, 200), st.floats(0.5, 50))
def test_the_matrix_is_the_equations(
    sources: list[str], anchors: list[str], corpus: list[str], mu: float, nu: float
) -> None:
    background = corpus_words(corpus)
    found = WordModel(background, mu, nu).nll(sources, anchors)
    wanted = [[literal(s, a, background, mu, nu) for a in anchors] for s in sources]
    assert found.shape == (len(sources), len(anchors))
    np.testing.assert_allclose(found, np.array(wanted).reshape(found.shape), rtol=1e-4, atol=1e-4)


@given(st.lists(st.text("abc ", max_size=20), min_size=1, max_size=4), st.text("abc ", max_size=20))
def test_the_models_are_probabilities(corpus: list[str], anchor: str) -> None:
    """P(w | v, a) sums to one over all words of the corpus and the unknown word."""
    background = corpus_words([*corpus, anchor])
    vocabulary = [*background, "unknown"]
    first = next(iter(vocabulary))
    scorer = WordModel(background, MU, NU)
    two = scorer.nll([f"{first} {w}" for w in vocabulary], [anchor])[:, 0] * 2
    one = scorer.nll([first], [anchor])[0, 0]
    assert np.exp(-(two.astype(np.float64) - one)).sum() == pytest.approx(1, abs=1e-3)


def test_the_text_itself_is_the_best_anchor_and_a_related_one_the_next() -> None:
    pool = [
        "Larry Alcala taught painting at the University of the Philippines.",
        "Military instruction at the University of the Philippines began in 1912.",
        "A recipe for rice with beans, garlic and lime.",
    ]
    found = WordModel(corpus_words(pool)).nll(pool, pool)
    assert found.argmin(axis=1).tolist() == [0, 1, 2]
    assert found[0, 1] < found[0, 2]


def test_scripts_without_spaces_have_one_word_a_character() -> None:
    assert words_of("東京 is Big") == ("東", "京", "is", "big")
