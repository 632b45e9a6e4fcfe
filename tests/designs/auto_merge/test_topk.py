from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs import VIEWS
from mergewise.designs.strategies import assemble
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, Document
from tests.designs.towns import Marks
from tests.memory_store import MemoryStore
from tests.support import HashEmbedder, ScriptedReader, memory_store, reader_of

TEXT = "First here now, with some words to it.\n\nThen second, with more words to it.\n"
STORE = memory_store([Document(id="d", title="D", text=TEXT)])


def test_topk_by_score_and_in_document_order() -> None:
    reader = ScriptedReader(STORE, {0: 0.5, 1: 0.9})
    by_score = assemble("topk(order=score)", "q", reader, 100, Models(count_tokens))
    assert by_score.text.index("second") < by_score.text.index("First")
    dos = assemble("dos", "q", reader, 100, Models(count_tokens))
    assert dos.text.index("First") < dos.text.index("second")
    assert len(assemble("topk(k=1)", "q", reader, 100, Models(count_tokens)).passages[0].spans) == 1


# -- the bare baselines


BARE = Models(count_tokens)


def by(spec: str, reader: HybridReader, models: Models = BARE) -> list[str]:
    """Return the documents of the context's passages, in order."""
    return [one.spans[0].doc_id for one in assemble(spec, "tower of Brook", reader, 500, models).passages]


def test_text_alone_vectors_alone_and_reranker() -> None:
    texts = ["The tower of Brook stands.", "A mill at Corin burns today.", "Brook floods the old tower."]
    documents = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    embedder = CornEmbedder()
    store = memory_store(documents, embedder)
    reader = HybridReader(store, embedder, VIEWS, reranker=(judge := Marks([0.1, 0.2, 0.9])))
    # The vectors mean the mill, and it holds no word of the question.
    assert by("bm25", reader) == ["d0", "d2"] and embedder.queries == 0
    vectors = replace(BARE, embedder=embedder)
    assert by("dense", reader, vectors)[0] == "d1" and len(by("dense", reader, vectors)) == 3
    assert set(by("hybrid", reader)) == {"d0", "d1", "d2"} and judge.asked == []
    last = [hit.row.doc_id for hit in reader.search("tower of Brook", 9, by="search")][-1]
    assert by("reranker", reader, replace(BARE, reranker=judge))[0] == last
    with pytest.raises(UsageError, match="'reranker' needs a reranker"):
        by("reranker", reader)
    with pytest.raises(UsageError, match="'dense' needs vectors"):
        by("dense", reader)
    with pytest.raises(UsageError, match="no vectors"):
        HybridReader(memory_store(documents), None, VIEWS).searching_by("vectors")


class CornEmbedder(HashEmbedder):
    """An embedder for which every question is about mills."""

    queries = 0

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        self.queries += len(texts)
        return self.embed_documents(["A mill at Corin burns today."] * len(texts))


# -- the whole context


def full(store: MemoryStore, budget: int, where: str | None = None) -> Context:
    return assemble("full", "q", HybridReader(store, None, VIEWS, where), budget, Models(count_tokens))


def test_the_whole_context_is_cut_in_the_middle() -> None:
    documents = [Document(f"{9 - i}", " ".join(f"Sentence {i} {j} is here." for j in range(30))) for i in range(3)]
    store = memory_store(documents)
    whole = full(store, 10_000)
    # In the order of arrival, not in that of their ids.
    assert [one.spans[0].doc_id for one in whole.passages] == ["9", "8", "7"]
    assert [one.text for one in whole.passages] == [document.text for document in documents]
    cut = full(store, 200)
    assert 150 < cut.tokens <= 200 and [one.spans[0].doc_id for one in cut.passages] == ["9", "7"]
    first, last = cut.passages
    assert documents[0].text.startswith(first.text) and documents[2].text.endswith(last.text)
    assert abs(len(first.text) - len(last.text)) < 150
    start, *_ = assemble("full(beginning=1)", "q", reader_of(store), 200, BARE).passages
    *_, end = assemble("full(beginning=0)", "q", reader_of(store), 200, BARE).passages
    assert documents[0].text.startswith(start.text) and documents[2].text.endswith(end.text)
    (only,) = full(store, 10_000, "id = '8'").passages
    assert only.text == documents[1].text
    assert full(store, 10_000, "id = 'none'").text == ""


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 300))
@settings(max_examples=30, deadline=None)
def test_the_whole_context_is_a_beginning_and_an_end(lengths: list[int], budget: int) -> None:
    """The omitted text is one range, besides the rest of a leaf that is cut."""
    documents = [
        Document(f"d{i}", " ".join(f"One {i} {j} goes." for j in range(length))) for i, length in enumerate(lengths)
    ]
    store = memory_store(documents)
    context = full(store, budget)
    assert context.tokens <= budget
    held = {(span.doc_id, at) for one in context.passages for span in one.spans for at in range(span.start, span.end)}
    kept = [
        all((leaf.doc_id, at) in held for at in range(leaf.sentences[0].start, leaf.sentences[-1].end))
        for leaf in HybridReader(store, None, VIEWS).leaves(range(200)).values()
    ]
    runs = [kept[i] for i in range(len(kept)) if i == 0 or kept[i] != kept[i - 1]]
    assert runs in ([True], [False], [True, False], [False, True], [True, False, True])
