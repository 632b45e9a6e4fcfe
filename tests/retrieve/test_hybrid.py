from __future__ import annotations

from tests.support import HashEmbedder, memory_store

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
