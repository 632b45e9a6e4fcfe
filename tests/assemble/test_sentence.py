from __future__ import annotations

import numpy as np

from mergewise.assemble import assemble
from mergewise.assemble.sentence import Sentences, _scores
from mergewise.assemble.shared.budget import Models
from mergewise.assemble.weave.evidence import Asked, Candidates
from mergewise.models.tokens import count_tokens
from tests.assemble.weave.support import FILMS, reader_of
from tests.support import HashEmbedder

MODELS = Models(count_tokens)
QUESTION = "Who directed Silent Rain?"


def test_a_score_is_the_sum_of_leaf_terms_and_cosine() -> None:
    reader = reader_of(FILMS, embedder=HashEmbedder())
    scores = dict(reader.rank(QUESTION, 5))
    candidates = Candidates(Asked.of(QUESTION, reader.question_vector(QUESTION)), scores)
    candidates.add(reader.sentences(list(scores)).values())
    vector = reader.question_vector(QUESTION)
    assert vector is not None
    for sentence, terms, score in zip(candidates.sentences, candidates.terms, _scores(candidates), strict=True):
        assert sentence.leaf.vectors is not None
        cosine = sentence.leaf.vectors[sentence.number] @ vector
        np.testing.assert_allclose(score, scores[sentence.leaf.id] + candidates.share(terms) + cosine, atol=1e-5)


def test_the_best_sentence_comes_first_and_the_budget_holds() -> None:
    context = assemble("sentence", QUESTION, reader_of(FILMS), 25, MODELS)
    assert "directed" in context.text and 0 < context.tokens <= 25
    assert context.trace[0].reason.endswith("sentences")


def test_k_bounds_the_leaves_and_an_empty_search_gives_nothing() -> None:
    assert len(assemble("sentence(k=1)", QUESTION, reader_of(FILMS), 500, MODELS).passages) == 1
    assert assemble("sentence", "zzz qqq", reader_of(FILMS), 500, MODELS).passages == ()
    assert Sentences().k > 1
