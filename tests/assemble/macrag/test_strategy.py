"""MacRAG step by step against literal transcriptions of the equations, and what must hold of every context."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise import assemble as strategies
from mergewise.assemble.macrag import strategy as macrag
from mergewise.assemble.macrag.ranked_sentences import LEXICAL, NEIGHBOUR, Piece, matching, smoothed, weights
from mergewise.assemble.macrag.strategy import (
    MacRAG,
    Scored,
    document_score,
    merge,
    merge_neighbours,
    neighbourhood,
    parents,
)
from mergewise.assemble.shared.budget import Models
from mergewise.errors import UsageError
from mergewise.index.slices import SliceSettings, build_slices, embed_slices
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.retrieve.hybrid import HybridReader
from mergewise.store.memory import MemoryStore
from mergewise.text.terms import content_terms
from mergewise.types import ChunkBounds, Context, Document, SliceHit, Step
from tests.support import HashEmbedder, rows_of

EMBEDDER = HashEmbedder()
SETTINGS = SliceSettings(chunk=60, overlap=20, slice=90, slice_overlap=45)
TOWNS = ("Arden", "Brook", "Corin", "Delos", "Eryx")


def document(number: int) -> Document:
    town = TOWNS[number % 5]
    parts = [
        f"## Part {i}\n\nThe tower {i} of {town} was built in {1500 + 7 * i}. "
        f"Its mason came from {TOWNS[(number + i) % 5]}. The river floods it in spring."
        for i in range(8)
    ]
    return Document(f"d{number}", "\n\n".join(parts), town)


def store_of(documents: Sequence[Document]) -> MemoryStore:
    rows = rows_of(documents, EMBEDDER)
    built = embed_slices(EMBEDDER, build_slices(rows, count_tokens, SETTINGS), SETTINGS)
    store = MemoryStore(EMBEDDER.dimension)
    from dataclasses import replace

    store.write([replace(row, slices=own) for row, own in zip(rows, built, strict=True)])
    return store


DOCUMENTS = [document(number) for number in range(5)]
STORE = store_of(DOCUMENTS)
QUESTION = "Which tower of Corin was built in 1514?"


def reader() -> HybridReader:
    return HybridReader(STORE, EMBEDDER)


def ask(spec: str = "macrag", budget: int = 200, models: Models | None = None, question: str = QUESTION) -> Context:
    return strategies.assemble(spec, question, reader(), budget, models or Models(count_tokens))


class Marks:
    """A reranker whose scores come from a list; it keeps what it was asked."""

    spec = "marks"

    def __init__(self, scores: Sequence[float] = ()) -> None:
        self.scores = scores
        self.asked: list[list[str]] = []

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        self.asked.append(list(texts))
        given_ = [self.scores[i % len(self.scores)] if self.scores else 0.5 for i in range(len(texts))]
        return np.array(given_, np.float32)


# -- the five steps


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), max_size=40))
def test_parents_are_unique_with_their_best_slice(pairs: list[tuple[int, float]]) -> None:
    hits = [SliceHit(i, f"d{chunk // 3}", chunk, (), score) for i, (chunk, score) in enumerate(pairs)]
    found = parents(hits)
    assert found == {
        chunk: Scored(chunk, f"d{chunk // 3}", max(s for c, s in pairs if c == chunk))
        for chunk in {c for c, _ in pairs}
    }


def test_the_reranker_reads_whole_chunks_once_and_decides() -> None:
    found = parents(reader().slices(QUESTION, 100))
    marks = Marks([0.1, 0.9, 0.4])
    ranked = macrag.rerank(QUESTION, found, reader(), Models(count_tokens, reranker=marks), [])
    chunks = STORE.chunks(list(found))
    assert marks.asked == [[f"{chunks[i].title}\n{chunks[i].text}".strip() for i in found]]
    expected = dict(zip(found, marks.score("", list(map(str, found))), strict=True))
    assert [x.id for x in ranked] == sorted(found, key=lambda i: (-expected[i], i))
    plain = macrag.rerank(QUESTION, found, reader(), Models(count_tokens), [])
    assert [x.score for x in plain] == sorted((x.score for x in found.values()), reverse=True)


@given(st.integers(1, 9), st.sampled_from([1, 1.5, 2, 4]), st.integers(0, 30))
def test_scaling_takes_k2_alpha(k2: int, alpha: float, count: int) -> None:
    ranked = [Scored(i, "d", 1 - i / 100) for i in range(count)]
    trace: list[Step] = []
    assert macrag.scale_up(ranked, MacRAG(k2=k2, alpha=alpha), trace) == ranked[: int(k2 * alpha)]
    assert ("all are taken" in trace[0].reason) == (int(k2 * alpha) > count)


def test_document_scores() -> None:
    assert [document_score([0.2, 0.5, 0.1], how) for how in ("max", "mean", "sum")] == pytest.approx(
        [0.5, 0.8 / 3, 0.8]
    )
    assert document_score([-3.0, -1.0], "max") == -1.0


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 1)), min_size=1, max_size=30), st.integers(1, 4), st.data()
)
def test_documents_are_the_best_k2(pairs: list[tuple[int, float]], k2: int, data: st.DataObject) -> None:
    how = data.draw(st.sampled_from(["max", "mean", "sum"]))
    scaled = sorted((Scored(i, f"d{doc}", score) for i, (doc, score) in enumerate(pairs)), key=lambda c: -c.score)
    ranks, usage = macrag.rank_documents("q", scaled, reader(), MacRAG(k2=k2, documents=how), Models(count_tokens), [])
    every = {}
    for doc in {c.doc_id for c in scaled}:
        own = [c.score for c in scaled if c.doc_id == doc]
        every[doc] = {"max": max(own), "mean": sum(own) / len(own), "sum": sum(own)}[how]
    assert len(ranks) == min(k2, len(every)) and usage.calls == 0
    assert list(ranks.values()) == sorted(ranks.values(), reverse=True)
    assert all(ranks[doc] == pytest.approx(every[doc]) for doc in ranks)
    left_out = [every[doc] for doc in every if doc not in ranks]
    assert not left_out or max(left_out) <= min(ranks.values()) + 1e-9


def test_documents_ranked_by_a_model() -> None:
    scaled = macrag.rerank(QUESTION, parents(reader().slices(QUESTION, 100)), reader(), Models(count_tokens), [])
    docs = list(dict.fromkeys(c.doc_id for c in scaled))
    chat = ScriptedChat(['Well: {"ranking": [3, 99, 1, 3, true]}'])
    models = Models(count_tokens, chat=chat)
    ranks, usage = macrag.rank_documents(QUESTION, scaled, reader(), MacRAG(documents="llm", k2=9), models, [])
    assert list(ranks) == [docs[2], docs[0], docs[1], *docs[3:]]
    assert usage.calls == 1 and QUESTION in chat.asked[0].text
    assert ask("macrag(documents=llm)", models=models).usage.calls == 1
    silly = Models(count_tokens, chat=ScriptedChat(["no JSON at all"]))
    ranks, _ = macrag.rank_documents(QUESTION, scaled, reader(), MacRAG(documents="llm", k2=9), silly, [])
    assert list(ranks) == docs
    with pytest.raises(UsageError, match="chat model"):
        ask("macrag(documents=llm)")


def test_a_neighbourhood() -> None:
    assert list(neighbourhood(7, 0)) == [7]
    assert list(neighbourhood(7, 2)) == [5, 6, 7, 8, 9]


places = st.lists(st.tuples(st.integers(0, 80), st.integers(1, 30)), min_size=1, max_size=8)


@given(places)
def test_merged_chunks_hold_each_character_once(pairs: list[tuple[int, int]]) -> None:
    members = [ChunkBounds(i, 1, a, a + n, a // 5, n // 5 + 1, n) for i, (a, n) in enumerate(sorted(pairs))]
    merged = merge("d", members, 0.5, 0.7)
    assert {i for a, b in merged.parts for i in range(a, b)} == {i for c in members for i in range(c.start, c.end)}
    assert all(left[1] < right[0] for left, right in pairwise(merged.parts))
    assert set(merged.leaves) == {leaf for c in members for leaf in c.leaves}


@given(st.integers(0, 2), st.integers(1, 5), st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True))
def test_neighbours_stay_in_their_document(h: int, k2: int, picked: list[int]) -> None:
    chunks = [chunk for rows in STORE.stored([d.id for d in DOCUMENTS]) if rows.slices for chunk in rows.slices.chunks]
    own = [chunks[i % len(chunks)] for i in picked]
    scaled = [Scored(c.id, c.doc_id, 1 - rank / 40) for rank, c in enumerate(dict.fromkeys(own))]
    documents, _ = macrag.rank_documents("q", scaled, reader(), MacRAG(k2=k2), Models(count_tokens), [])
    final = merge_neighbours(scaled, documents, reader(), MacRAG(k2=k2, h=h), [])
    assert [m.doc_id for m in final] == list(documents)
    for merged in final:
        core = [c for c in chunks if c.doc_id == merged.doc_id and any(s.id == c.id for s in scaled)]
        wanted = {
            at
            for c in core
            for other in chunks
            if other.doc_id == c.doc_id and abs(other.ordinal - c.ordinal) <= h
            for at in range(other.start, other.end)
        }
        assert {at for a, b in merged.parts for at in range(a, b)} == wanted


# -- sentences for a budget


def literal_weights(question: str, vector: FloatArray, pieces: Sequence[Piece]) -> list[float]:
    terms = [content_terms(p.text) | content_terms(" ".join(p.leaf.headings)) for p in pieces]
    wanted = content_terms(question)
    idf = {t: np.log(1 + len(pieces) / (1 + sum(t in own for own in terms))) for t in wanted}
    found = []
    for piece in pieces:
        assert piece.leaf.vectors is not None
        found.append(float(piece.leaf.vectors[piece.number] @ vector))
    low, high = min(found), max(found)
    return [
        (c - low) / (high - low) + LEXICAL * sum(idf[t] for t in own & wanted) / sum(idf.values()) + p.share
        for c, own, p in zip(found, terms, pieces, strict=True)
    ]


def test_weights_are_the_formula() -> None:
    leaves = STORE.sentences([leaf.id for rows in STORE.stored(["d1", "d2"]) for leaf in rows.leaves])
    pieces = [
        Piece(leaf, number, 1.0 if leaf.doc_id == "d2" else 0.4)
        for leaf in leaves.values()
        for number in range(len(leaf.sentences))
    ]
    vector = EMBEDDER.embed_queries([QUESTION])[0]
    assert weights(QUESTION, vector, pieces) == pytest.approx(literal_weights(QUESTION, vector, pieces), abs=1e-5)
    bare = weights(QUESTION, None, pieces)
    assert bare == pytest.approx(LEXICAL * matching(QUESTION, pieces) + [p.share for p in pieces], abs=1e-6)


@given(st.lists(st.tuples(st.floats(0, 3, width=32), st.integers(0, 2)), min_size=1, max_size=20))
def test_smoothing_is_the_formula(pairs: list[tuple[float, int]]) -> None:
    scores = np.array([s for s, _ in pairs], np.float32)
    expected = []
    for i, (score, place) in enumerate(pairs):
        near = [pairs[j][0] for j in (i - 1, i + 1) if 0 <= j < len(pairs) and pairs[j][1] == place]
        expected.append((1 - NEIGHBOUR) * score + NEIGHBOUR * max(near) if near else score)
    assert smoothed(scores, [place for _, place in pairs]) == pytest.approx(expected, abs=1e-5)


# -- the whole


@pytest.mark.parametrize(
    "spec", ["macrag", "macrag(h=0)", "macrag(alpha=1)", "macrag(documents=sum)", "longrag", "longrag(unit=chunk)"]
)
@pytest.mark.parametrize("budget", [1, 12, 60, 200, 900, 9000])
def test_contexts_hold_the_budget_and_exact_spans(spec: str, budget: int) -> None:
    context = ask(spec, budget)
    assert context.tokens == (count_tokens([context.text])[0] if context.text else 0) <= budget
    taken: list[tuple[str, int]] = []
    for passage in context.passages:
        for span, text in passage.parts():
            assert STORE.document(span.doc_id).text[span.start : span.end] == text  # type: ignore[union-attr]
            taken += [(span.doc_id, at) for at in range(span.start, span.end)]
    assert len(taken) == len(set(taken)), "a character was given twice"
    assert bool(context.passages) == (budget >= 60)


def test_a_budget_for_all_of_it_gets_c_final() -> None:
    context = ask("macrag(k2=2)", 9000)
    final = [step for step in context.trace if step.action == "merge"]
    wanted = {(s.doc_id, at) for step in final for s in step.inputs for at in range(s.start, s.end)}
    held = {(s.doc_id, at) for p in context.passages for s in p.spans for at in range(s.start, s.end)}
    texts = {d.id: d.text for d in DOCUMENTS}
    headings = {(d.id, at) for d in DOCUMENTS for i in range(8) for at in _heading(d.text, i)}
    assert len(final) == 2
    assert {pair for pair in wanted - held if not texts[pair[0]][pair[1]].isspace()} <= headings
    assert held <= wanted


def _heading(text: str, number: int) -> range:
    start = text.index(f"## Part {number}")
    return range(start, start + len(f"## Part {number}"))


def test_the_best_evidence_comes_at_a_small_budget() -> None:
    context = ask("macrag", 60)
    assert "tower 2 of Corin was built in 1514" in context.text


def test_longrag_gives_whole_parents_where_they_fit() -> None:
    context = ask("longrag(k2=3)", 9000)
    docs = {span.doc_id for p in context.passages for span in p.spans}
    assert "d2" in docs
    for doc in docs:
        held = "".join(text for p in context.passages for span, text in p.parts() if span.doc_id == doc)
        whole = STORE.document(doc).text  # type: ignore[union-attr]
        missing = "".join(line for line in whole.splitlines() if not line.startswith("##"))
        assert "".join(held.split()) == "".join(missing.split())
    chunks = ask("longrag(k2=3, unit=chunk)", 9000)
    assert sum(len(span) for p in chunks.passages for span in p.spans) < sum(
        len(span) for p in context.passages for span in p.spans
    )


@pytest.mark.parametrize(
    "spec", ["macrag(k1=0)", "macrag(k2=0)", "macrag(alpha=0.5)", "macrag(reach=0.5)", "macrag(h=-1)", "longrag(k2=0)"]
)
def test_parameters_are_checked(spec: str) -> None:
    with pytest.raises(UsageError):
        ask(spec)


def test_more_than_there_is_says_so() -> None:
    context = ask("macrag(k2=50)", 300)
    assert any(step.action == "scale" and "all are taken" in step.reason for step in context.trace)


def test_without_the_view_the_hint_says_how() -> None:
    bare = MemoryStore(EMBEDDER.dimension)
    bare.write(rows_of(DOCUMENTS, EMBEDDER))
    for name in ("macrag", "longrag"):
        with pytest.raises(UsageError, match="--views leaf,slice"):
            strategies.assemble(name, QUESTION, HybridReader(bare, EMBEDDER), 100, Models(count_tokens))


def test_an_empty_index_gives_an_empty_context() -> None:
    class Empty(MemoryStore):
        views = ("leaf", "slice")  # type: ignore[assignment]

    for name in ("macrag", "longrag"):
        context = strategies.assemble(name, QUESTION, HybridReader(Empty(), None), 100, Models(count_tokens))
        assert context.text == "" and context.passages == ()
