from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.designs.strategies import assemble
from mergewise.designs.weave.evidence import QuestionAspects, SentencePool
from mergewise.designs.weave.sentence import Sentences, _scores
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from tests.designs.weave.support import FILMS, reader_of
from tests.support import HashEmbedder

MODELS = Models(count_tokens)
QUESTION = "Who directed Silent Rain?"


def test_a_score_is_the_sum_of_leaf_terms_and_cosine() -> None:
    reader = reader_of(FILMS, embedder=HashEmbedder())
    scores = dict(reader.rank(QUESTION, 5))
    pool = SentencePool(QuestionAspects.of(QUESTION, reader.question_vector(QUESTION)), scores)
    pool.add(reader.sentences(list(scores)).values())
    vector = reader.question_vector(QUESTION)
    assert vector is not None
    for sentence, terms, score in zip(pool.sentences, pool.terms, _scores(pool), strict=True):
        assert sentence.leaf.vectors is not None
        cosine = sentence.leaf.vectors[sentence.number] @ vector
        np.testing.assert_allclose(score, scores[sentence.leaf.id] + pool.share(terms) + cosine, atol=1e-5)


def test_the_best_sentence_comes_first_and_the_budget_holds() -> None:
    context = assemble("sentence", QUESTION, reader_of(FILMS), 25, MODELS)
    assert "directed" in context.text and 0 < context.tokens <= 25
    assert context.trace[0].reason.endswith("sentences")


def test_k_bounds_the_leaves_and_an_empty_search_gives_nothing() -> None:
    assert len(assemble("sentence(k=1)", QUESTION, reader_of(FILMS), 500, MODELS).passages) == 1
    assert assemble("sentence", "zzz qqq", reader_of(FILMS), 500, MODELS).passages == ()
    assert Sentences().k > 1


def sentences(spec: str, **models: object) -> list[str]:
    found = assemble(spec, QUESTION, reader_of(FILMS, embedder=HashEmbedder()), 500, Models(count_tokens, **models))  # type: ignore[arg-type]
    return [passage.text for passage in found.passages]


def test_recomp_takes_the_most_similar_or_none() -> None:
    reader = reader_of(FILMS, embedder=HashEmbedder())
    leaves = dict(reader.rank(QUESTION, 5))
    pool = SentencePool(QuestionAspects.of(QUESTION, reader.question_vector(QUESTION)), leaves)
    pool.add(reader.sentences(list(leaves)).values())
    cosines = pool.cosines()
    best = pool.sentences[int(np.argmax(cosines))].text
    found = sentences("recomp(n=1, least=-1)")
    assert len(found) == 1 and found[0] in best + " "
    assert len(sentences("recomp(n=3, least=-1)")) > 1
    assert sentences(f"recomp(least={float(cosines.max()) + 0.01})") == []  # selective augmentation
    context = assemble(f"recomp(least={float(cosines.max()) + 0.01})", QUESTION, reader, 500, MODELS)
    assert "the best has" in context.trace[-1].reason
    by_terms = assemble("recomp(n=1)", QUESTION, reader_of(FILMS), 500, MODELS)
    assert "directed" in by_terms.text and any("ranked by shares of its terms" in s.reason for s in by_terms.trace)


class Longest:
    """A predictor that prefers longer sentences and records its inputs."""

    spec = "longest"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def utilities(self, question: str, texts: Sequence[str]) -> list[float]:
        self.asked += texts
        return [float(len(text)) for text in texts]


def test_a_reranker_over_sentences() -> None:
    predictor = Longest()
    found = sentences("sentence(by=utility, among=4, n=1)", predictor=predictor)
    assert len(predictor.asked) == 4
    best = max(predictor.asked, key=len)
    assert len(found) == 1 and found[0].strip() in best
    assert sentences("sentence(by=utility, n=2)") == sentences("sentence(n=2)")  # without a predictor the search ranks
