"""The text search of the store in memory is BM25, compared with the formula."""

from __future__ import annotations

import math

import pytest
from tests.support import memory_store, reader_of

from mergewise.types import Document

TEXTS = ("cat cat fish", "cat dog dog bird tree house river", "fish", "tree house river stone cloud")
K1, B = 1.2, 0.75


def bm25(question: list[str], words: list[str]) -> float:
    """Compute BM25 by Robertson and Zaragoza 2009, equation 3.15, with Lucene's idf, which is never negative."""
    every = [text.split() for text in TEXTS]
    average = sum(map(len, every)) / len(every)
    score = 0.0
    for word in question:
        holding = sum(word in other for other in every)
        idf = math.log(1 + (len(every) - holding + 0.5) / (holding + 0.5))
        often = words.count(word)
        score += idf * often * (K1 + 1) / (often + K1 * (1 - B + B * len(words) / average))
    return score


@pytest.mark.parametrize("question", ["cat", "cat fish", "river tree dog", "fish"])
def test_scores_are_those_of_the_formula(question: str) -> None:
    store = memory_store([Document(f"d{n}", text) for n, text in enumerate(TEXTS)])
    leaves = reader_of(store).leaves([row for row, _ in store.reader().text_search(question, 9).result()])
    found = {leaves[row].text: score for row, score in store.reader().text_search(question, 9).result()}
    wanted = {text: bm25(question.split(), text.split()) for text in TEXTS}
    assert found == pytest.approx({text: score for text, score in wanted.items() if score})
    assert list(found) == sorted(found, key=found.__getitem__, reverse=True)
