from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tests.support import HashEmbedder, memory_store

from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader, SearchSettings
from mergewise.types import Document

DOCUMENTS = [
    Document(id=f"d{i}", text=text)
    for i, text in enumerate(["alpha beta gamma.", "alpha alpha delta.", "epsilon zeta.", "beta epsilon eta theta."])
]


def test_both_searches_count_and_each_leaf_comes_once() -> None:
    embedder = HashEmbedder()
    store = memory_store(DOCUMENTS, embedder)
    hits = HybridReader(store, embedder).search("alpha beta", 10)
    assert hits[0].row.doc_id == "d0"
    assert len({hit.row.id for hit in hits}) == len(hits) == 4
    assert hits[0].bm25 is not None and hits[0].cosine is not None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 for hit in hits)


def test_k_bounds_the_hits_and_reciprocal_ranks_are_an_option() -> None:
    embedder = HashEmbedder()
    store = memory_store(DOCUMENTS, embedder)
    reader = HybridReader(store, embedder, settings=SearchSettings(fusion="reciprocal-rank"))
    assert [hit.row.doc_id for hit in reader.search("alpha beta", 1)] == ["d0"]


def test_without_an_embedder_the_text_decides() -> None:
    store = memory_store(DOCUMENTS)
    hits = HybridReader(store, None).search("alpha", 10)
    assert [hit.row.doc_id for hit in hits] == ["d1", "d0"]
    assert hits[0].score == 1.0 and hits[0].cosine is None
    assert HybridReader(store, None).search("unknownword", 10) == []


def test_a_reranker_orders_what_was_found() -> None:
    class Longest:
        spec = "longest"

        def score(self, question: str, texts: Sequence[str]) -> FloatArray:
            self.asked = (question, list(texts))
            return np.array([len(text) / 1000 for text in texts], np.float32)

    documents = [Document(f"d{i}", "Cats eat fish. " * (i + 1), f"T{i}") for i in range(3)]
    store, longest = memory_store(documents), Longest()
    hits = HybridReader(store, None, reranker=longest).search("cats", 10)
    plain = HybridReader(store, None).search("cats", 10)
    assert {hit.row.id for hit in hits} == {hit.row.id for hit in plain}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score == pytest.approx(max(map(len, longest.asked[1])) / 1000)
    assert longest.asked[0] == "cats" and longest.asked[1][0].startswith("T")
    assert HybridReader(store, None, reranker=longest).search("nothing", 10) == []
