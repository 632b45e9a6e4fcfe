from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.memory_store import MemoryStore
from tests.support import HashEmbedder, memory_store

from mergewise.designs import VIEWS
from mergewise.models.calibration import Calibrated, Calibration
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader, SearchSettings, combine, over_largest, spread
from mergewise.types import Document

DOCUMENTS = [
    Document(id=f"d{i}", text=text)
    for i, text in enumerate(["alpha beta gamma.", "alpha alpha delta.", "epsilon zeta.", "beta epsilon eta theta."])
]


def test_both_searches_count_and_each_leaf_comes_once() -> None:
    embedder = HashEmbedder()
    store = memory_store(DOCUMENTS, embedder)
    hits = HybridReader(store, embedder, VIEWS).search("alpha beta", 10)
    assert hits[0].row.doc_id == "d0"
    assert len({hit.row.id for hit in hits}) == len(hits) == 4
    assert hits[0].bm25 is not None and hits[0].cosine is not None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 for hit in hits)


def test_k_bounds_the_hits_and_reciprocal_ranks_are_an_option() -> None:
    embedder = HashEmbedder()
    store = memory_store(DOCUMENTS, embedder)
    reader = HybridReader(store, embedder, VIEWS, settings=SearchSettings(fusion="reciprocal-rank"))
    assert [hit.row.doc_id for hit in reader.search("alpha beta", 1)] == ["d0"]


def test_without_an_embedder_the_text_decides() -> None:
    store = memory_store(DOCUMENTS)
    hits = HybridReader(store, None, VIEWS).search("alpha", 10)
    assert [hit.row.doc_id for hit in hits] == ["d1", "d0"]
    assert hits[0].score == 1.0 and hits[0].cosine is None
    assert HybridReader(store, None, VIEWS).search("unknownword", 10) == []


@pytest.mark.parametrize("embedder", [None, HashEmbedder()])
def test_a_condition_holds_for_both_searches(embedder: HashEmbedder | None) -> None:
    """Full text alone would find all three documents, and either search alone could let a wrong one through."""
    documents = [Document(f"d{i}", f"alpha number {i}.", metadata={"year": 2000 + i}) for i in range(3)]
    store = memory_store(documents, embedder)
    for where, wanted in ((None, {"d0", "d1", "d2"}), ("year > 2001", {"d2"}), ("year < 1990", set())):
        reader = HybridReader(store, embedder, VIEWS, where)
        assert {hit.row.doc_id for hit in reader.search("alpha", 10)} == wanted
        leaves = reader.leaves([leaf for leaf, _ in reader.rank("alpha", 10)])
        assert {leaf.doc_id for leaf in leaves.values()} == wanted


class Backwards:
    """A reranker that reverses the search: the fewer cats, the better."""

    spec = "backwards"

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return np.array([1 / (1 + text.lower().count("cats")) for text in texts], np.float32)


def test_a_reranker_alone_orders_leaves_on_request() -> None:
    documents = [Document(f"d{i}", "Cats, " * i + "cats and dogs.") for i in range(4)]
    store = memory_store(documents)
    plain = [hit.row.doc_id for hit in HybridReader(store, None, VIEWS).search("cats", 10)]
    assert plain != sorted(plain), "the search does not put them in this order by itself"
    reader = HybridReader(store, None, VIEWS, reranker=Backwards())
    hits = reader.search("cats", 10, by="reranker")
    assert [hit.row.doc_id for hit in hits] == ["d0", "d1", "d2", "d3"]
    assert [hit.score for hit in hits] == pytest.approx([1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert reader.rank("cats", 10, by="reranker") == [(hit.row.id, hit.score) for hit in hits]
    assert HybridReader(store, None, VIEWS).rank("cats", 10) == reader.rank("cats", 10, by="search")


MANY = [Document(f"d{i:02}", f"Cats sleep at{' the' * (i // 4)} mill{i}.") for i in range(30)]


class Scripted:
    """A scripted reranker, with a gain for one document and noise for all."""

    spec = "scripted"

    def __init__(self, gain: float, noise: float = 1.0) -> None:
        self.gain, self.draw = gain, np.random.default_rng(7).standard_normal(200) * noise

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        wanted = [self.gain * text.endswith("mill29.") for text in texts]
        return np.array(wanted, np.float32) + self.draw[: len(texts)].astype(np.float32)

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        return np.asarray(1 / (1 + np.exp(-self.logits(question, texts))), np.float32)


def test_a_reranker_joins_the_search() -> None:
    """A strong reranker lifts a document from far below. A useless one, or one without a scale, leaves the search unchanged."""
    store = memory_store(MANY)
    plain = HybridReader(store, None, VIEWS).search("cats", 30)
    order = [hit.row.doc_id for hit in plain]
    strong = HybridReader(store, None, VIEWS, reranker=Scripted(9)).search("cats", 30)
    assert order.index("d29") > 20 and strong[0].row.doc_id == "d29" and strong[0].score == plain[0].score
    assert all(plain[-1].score <= hit.score <= plain[0].score for hit in strong)
    useless = [hit.row.doc_id for hit in HybridReader(store, None, VIEWS, reranker=Scripted(0)).search("cats", 30)]
    assert useless[:2] == order[:2] and set(useless[:6]) <= set(order[:9])
    alone = HybridReader(store, None, VIEWS, reranker=Scripted(0)).search("cats", 30, by="reranker")
    assert not {hit.row.doc_id for hit in alone[:6]} <= set(order[:9]), "its effect on a search that it replaces"
    assert HybridReader(store, None, VIEWS, reranker=Scripted(0, 0)).search("cats", 30) == plain
    certain = Calibrated(Scripted(9), Calibration(0.0, 0.0))
    assert HybridReader(store, None, VIEWS, reranker=certain).search("cats", 30) == plain, "a fitted slope of 0"


def test_two_lifted_leaves_do_not_share_the_first_place() -> None:
    store = memory_store(MANY[1::4])
    plain = HybridReader(store, None, VIEWS).search("cats", 30)
    assert [hit.row.doc_id for hit in plain][-1] == "d29" and plain[0].score > plain[1].score
    by_evidence = Calibrated(Scripted(9), Calibration(1.0, 1.0))
    found = HybridReader(store, None, VIEWS, reranker=by_evidence).search("cats", 30)
    assert [hit.row.doc_id for hit in found[:2]] == ["d29", "d01"]
    assert found[0].score == plain[0].score > found[1].score > 0.999 * plain[0].score


def test_a_reranker_scores_the_hits() -> None:
    class Longest:
        spec = "longest"

        def score(self, question: str, texts: Sequence[str]) -> FloatArray:
            self.asked = (question, list(texts))
            return np.array([len(text) / 1000 for text in texts], np.float32)

    documents = [Document(f"d{i}", "Cats eat fish. " * (i + 1), f"T{i}") for i in range(3)]
    store, longest = memory_store(documents), Longest()
    hits = HybridReader(store, None, VIEWS, reranker=longest).search("cats", 10, by="reranker")
    plain = HybridReader(store, None, VIEWS).search("cats", 10)
    assert {hit.row.id for hit in hits} == {hit.row.id for hit in plain}
    assert [hit.score for hit in hits] == pytest.approx(sorted((len(t) / 1000 for t in longest.asked[1]), reverse=True))
    assert longest.asked[0] == "cats" and longest.asked[1][0].startswith("T")
    assert HybridReader(store, None, VIEWS, reranker=longest).search("nothing", 10) == []


class EnglishEmbedder(HashEmbedder):
    languages = frozenset({"en"})


FRENCH = Document("fr", "La rivière se jette dans le lac, qui est connu pour son eau claire et ses poissons.")
RUSSIAN = Document("ru", "Река берёт начало в горах и впадает в озеро, которое известно своей чистой водой.")
ENGLISH = Document("en", "The river flows into the lake, which is known for its clear water and its fish.")


def fused_weight(documents: Sequence[Document], question: str, embedder: HashEmbedder, weight: float = 0.4) -> float:
    """Return the weight of the vectors, computed from a hit of both searches."""
    reader = HybridReader(memory_store(documents, embedder), embedder, VIEWS, settings=SearchSettings(weight=weight))
    text, vector, _ = reader._searches(question, 10, None, "vector")
    of_text, of_vectors = over_largest(text), spread(vector)
    hit = next(hit for hit in reader.search(question, 10) if of_text.get(hit.row.id, 0) != of_vectors.get(hit.row.id))
    a, b = of_text.get(hit.row.id, 0.0), of_vectors[hit.row.id]
    return round((hit.score - a) / (b - a), 6)


def test_vectors_weigh_little_in_languages_that_their_embedder_does_not_know() -> None:
    documents = [*DOCUMENTS, ENGLISH, FRENCH, RUSSIAN]
    english, french, russian = "Where does the river flow?", "Où est la rivière ?", "Где озеро и река?"
    known = EnglishEmbedder()
    assert fused_weight(documents, english, known) == 0.4
    assert fused_weight(documents, french, known) == 0.2
    assert fused_weight(documents, russian, known) == 0.1
    assert fused_weight(documents, russian, known, weight=0.05) == 0.05
    assert fused_weight(documents, french, HashEmbedder()) == fused_weight(documents, russian, HashEmbedder()) == 0.4
    assert fused_weight([*DOCUMENTS, ENGLISH], french, known) == 0.4  # an index in English alone
    assert fused_weight(documents, "alpha", known) == 0.4  # may be English


def test_a_question_has_a_vector_if_the_embedder_knows_its_language() -> None:
    embedder = EnglishEmbedder()
    reader = HybridReader(memory_store([ENGLISH, FRENCH], embedder), embedder, VIEWS)
    assert reader.question_vector("Où est la rivière ?") is None
    assert reader.question_vector("Where is the river?") is not None
    assert reader.rank_by_vectors("Où est la rivière ?", 2, "leaf")


def test_two_searches_by_text_are_one_ranking_on_the_scale_of_the_first() -> None:
    assert combine([(1, 8.0), (2, 2.0)], [(2, 30.0), (3, 15.0)], 9) == [(1, 8.0), (2, 4.0), (3, 2.0)]
    assert combine([(1, 8.0)], [], 9) == [(1, 8.0)] == combine([], [(1, 8.0)], 9)
    assert combine([(1, 8.0), (2, 7.0)], [(3, 1.0)], 1) == [(1, 8.0)]


def test_a_question_that_may_be_english_is_searched_in_english_first() -> None:
    """Parts of its words are in a French document, and whole words in an English one."""
    english = Document("own", "The lacquer of the lake house was restored, and it is known for its colour.")
    reader = HybridReader(memory_store([ENGLISH, FRENCH, english]), None, VIEWS)
    assert reader.languages("lacquer") == ("en", "fr")
    assert reader.search("lacquer", 3)[0].row.doc_id == "own"
    assert "fr" in {hit.row.doc_id for hit in reader.search("poissons", 3)}


def test_a_question_in_english_alone_is_searched_by_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = HybridReader(memory_store([ENGLISH, FRENCH]), None, VIEWS)
    asked: list[bool] = []
    search = MemoryStore.text_search

    def counted(*given: Any, words: bool = False, **more: Any) -> Any:
        asked.append(words)
        return search(*given, words=words, **more)

    monkeypatch.setattr(MemoryStore, "text_search", counted)
    assert reader.languages("Which fish does the cat eat?") == ("en",) and reader.search(
        "Which fish does the cat eat?", 3
    )
    assert reader.search("Quels poissons mange le chat ?", 3) and asked == [False, False, True]
