"""MacRAG step by step against literal transcriptions of the equations, and the invariants of every context."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs import VIEWS, strategies
from mergewise.designs.macrag import strategy as macrag
from mergewise.designs.macrag.chunks import ScoredChunk, SliceSearch
from mergewise.designs.macrag.slices import ChunkBounds, SliceSettings
from mergewise.designs.macrag.strategy import MacRAG, MergedChunks, merge, merge_neighbours
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Document
from tests.designs.towns import DOCUMENTS, QUESTION, STORE, ask, reader, store_of
from tests.memory_store import MemoryStore
from tests.support import memory_store

MODELS = Models(count_tokens)


def searching(models: Models = MODELS, store: MemoryStore = STORE, question: str = QUESTION) -> SliceSearch:
    return SliceSearch(question, HybridReader(store, None, VIEWS), models)


# -- the five steps


@given(st.integers(1, 9), st.sampled_from([1, 1.5, 2, 4]), st.integers(0, 30))
def test_scaling_takes_k2_alpha(k2: int, alpha: float, count: int) -> None:
    ranked = [ScoredChunk(i, "d", 1 - i / 100) for i in range(count)]
    search = searching()
    assert macrag.scale_up(search, ranked, MacRAG(k2=k2, alpha=alpha)) == ranked[: int(k2 * alpha)]
    assert ("all are taken" in search.trace[0].reason) == (int(k2 * alpha) > count)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.01, 1)), min_size=1, max_size=30), st.integers(1, 4), st.data()
)
def test_documents_are_the_best_k2(pairs: list[tuple[int, float]], k2: int, data: st.DataObject) -> None:
    how: macrag.DocumentRank = data.draw(st.sampled_from(["max", "mean", "sum"]))
    scaled = sorted((ScoredChunk(i, f"d{doc}", score) for i, (doc, score) in enumerate(pairs)), key=lambda c: -c.score)
    ranks, usage = macrag.rank_documents(searching(), scaled, MacRAG(k2=k2, documents=how))
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
    scaled = searching().rerank(searching().parents(100, "hybrid"))
    docs = list(dict.fromkeys(c.doc_id for c in scaled))
    chat = ScriptedChat(['Well: {"ranking": [3, 99, 1, 3, true]}'])
    models = Models(count_tokens, chat=chat)
    ranks, usage = macrag.rank_documents(searching(models), scaled, MacRAG(documents="llm", k2=9))
    assert list(ranks) == [docs[2], docs[0], docs[1], *docs[3:]]
    assert usage.calls == 1 and QUESTION in chat.asked[0].text
    assert ask("macrag(documents=llm)", models=models).usage.calls == 1
    silly = Models(count_tokens, chat=ScriptedChat(["no JSON at all"]))
    ranks, _ = macrag.rank_documents(searching(silly), scaled, MacRAG(documents="llm", k2=9))
    assert list(ranks) == docs
    with pytest.raises(UsageError, match="chat model"):
        ask("macrag(documents=llm)")


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
    chunks = [chunk for rows in STORE.document_rows([d.id for d in DOCUMENTS]) for chunk in rows["chunk"]]
    own = [chunks[i % len(chunks)] for i in picked]
    scaled = [ScoredChunk(c.id, c.doc_id, 1 - rank / 40) for rank, c in enumerate(dict.fromkeys(own))]
    documents, _ = macrag.rank_documents(searching(), scaled, MacRAG(k2=k2))
    final = merge_neighbours(searching(), scaled, documents, h)
    assert [m.doc_id for m in final] == list(documents)
    for merged in final:
        core = [c for c in chunks if c.doc_id == merged.doc_id and any(s.id == c.id for s in scaled)]
        places = {c.ordinal for c in core}
        near = [c for c in chunks if c.doc_id == merged.doc_id and any(abs(c.ordinal - at) <= h for at in places)]
        wanted = {at for c in near for at in range(c.start, c.end)}
        assert {at for a, b in merged.parts for at in range(a, b)} == wanted


WALLS = [" ".join(f"Stone {i} of wall {n} was laid by mason {i}." for i in range(160)) for n in (0, 1)]
LONG = store_of([Document(f"long{n}", text) for n, text in enumerate(WALLS)])


@pytest.mark.parametrize(("k2", "alpha", "h"), [(1, 1, 1), (1, 4, 1), (2, 3, 0), (2, 3, 1), (2, 2, 2)])
def test_c_final_is_merged_from_up_to_k2_alpha_neighbourhoods(k2: int, alpha: int, h: int) -> None:
    """Chunks so far apart that no neighbourhoods meet reach the bound, k2 alpha (2h + 1), with at most k2 merged chunks."""
    chunks = [rows["chunk"] for rows in LONG.document_rows(["long0", "long1"])]
    assert min(map(len, chunks)) > k2 * alpha * (2 * h + 1)
    picked = [own[h + 1 + i * (2 * h + 2)] for i in range(k2 * alpha) for own in chunks]
    ranked = [ScoredChunk(c.id, c.doc_id, 1 - rank / 99) for rank, c in enumerate(picked)]
    parameters, search = MacRAG(k2=k2, alpha=alpha, h=h), searching(store=LONG)
    scaled = macrag.scale_up(search, ranked, parameters)
    documents, _ = macrag.rank_documents(search, scaled, parameters)
    final = merge_neighbours(search, scaled, documents, h)
    parts = [(m.doc_id, a, b) for m in final for a, b in m.parts]
    every = [c for own in chunks for c in own]
    inside = [c for c in every if any(doc == c.doc_id and a <= c.start and c.end <= b for doc, a, b in parts)]
    of_kept = [c for c in scaled if c.doc_id in documents]
    assert len(final) == len(documents) <= k2
    assert len(inside) == len(of_kept) * (2 * h + 1) <= k2 * alpha * (2 * h + 1)
    if k2 > 1:
        assert len(inside) == k2 * alpha * (2 * h + 1) > k2 * (2 * h + 1)


# -- the whole


THREE = {
    "The lighthouse of Brook was painted green in spring.": "Which colour was the lighthouse painted?",
    "Its keeper owns seven goats.": "How many goats does the keeper have?",
    "Storms broke the lantern twice before the war of the lighthouse keepers of Brook.": "What broke the lantern?",
}


def test_no_sentence_of_a_short_document_is_lost_to_its_summary() -> None:
    store = memory_store(
        [Document("short", " ".join(THREE), "Brook"), *DOCUMENTS], slice=SliceSettings(summary="extractive")
    )
    for sentence, question in THREE.items():
        context = strategies.assemble("macrag", question, HybridReader(store, None, VIEWS), 60, Models(count_tokens))
        assert sentence in context.text


def test_sentences_of_a_better_document_come_first_if_not_all_fit() -> None:
    """Two copies of one text: only the ranks of their documents distinguish their sentences."""
    texts = {"worse": "A tower stands here. It is old.", "better": "A tower stands here. It is old."}
    store = memory_store([Document(id=name, title="T", text=text) for name, text in texts.items()])
    leaves = {leaf.doc_id: leaf for rows in store.document_rows([*texts]) for leaf in rows["leaf"]}
    final = [
        MergedChunks(n, ((0, 31),), (leaves[n].id,), 99, 0.5, rank) for n, rank in (("worse", 0.2), ("better", 0.8))
    ]
    ranked = macrag.within_reach(searching(store=store, question="Which tower?"), final, 50, MacRAG())
    assert [c.fragments[0].doc_id for c in ranked] == ["better", "better", "worse", "worse"]
    assert ranked[0].score - ranked[2].score == pytest.approx(1 - 0.2 / 0.8)


@pytest.mark.parametrize(
    "spec",
    [
        "macrag",
        "macrag(h=0)",
        "macrag(alpha=1)",
        "macrag(documents=sum)",
        "macrag(preset=paper)",
        "longrag",
        "longrag(unit=chunk)",
        "longrag(order=score)",
    ],
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
    # With 12 tokens a short sentence fits without its heading.
    assert bool(context.passages) == (budget >= 60) or budget == 12


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


def test_merged_chunks_come_in_the_order_of_their_documents_on_request() -> None:
    """A budget smaller than the first merged chunk holds only text of that chunk, from its beginning."""
    context = ask("macrag(narrow=chunks, k2=2)", 100)
    final = [step for step in context.trace if step.action == "merge"]
    (best, *_), held = final[0].inputs, [span for passage in context.passages for span in passage.spans]
    assert len(final) == 2 and {span.doc_id for span in held} == {best.doc_id}
    assert min(held).start - best.start <= len("## Part 0\n\n"), "the merged chunk begins there"
    spread = ask("macrag(k2=2)", 100)
    assert context.text != spread.text


def test_slices_are_searched_by_vectors_alone_on_request() -> None:
    for spec in ("macrag(search=vectors)", "longrag(search=vectors)"):
        found = next(step for step in ask(spec).trace if step.action == "search")
        by_vectors, by_both = (reader().view("slice").search(QUESTION, 100, by) for by in ("vectors", "hybrid"))
        assert found.inputs == tuple(span for hit, _ in by_vectors for span in hit.spans)
        assert found.inputs != tuple(span for hit, _ in by_both for span in hit.spans)


def test_the_best_evidence_comes_at_a_small_budget() -> None:
    context = ask("macrag", 60)
    assert "tower 2 of Corin was built in 1514" in context.text


@pytest.mark.parametrize(
    "spec",
    [f"macrag({given})" for given in ("k1=0", "k2=0", "alpha=0.5", "reach=0.5", "h=-1")]
    + ["longrag(k1=0)", "longrag(k2=0)"],
)
def test_parameters_are_checked(spec: str) -> None:
    with pytest.raises(UsageError):
        ask(spec)


@pytest.mark.parametrize("spec", ["macrag", "longrag"])
def test_an_empty_index_gives_an_empty_context(spec: str) -> None:
    empty = HybridReader(store_of([]), None, VIEWS)
    context = strategies.assemble(spec, QUESTION, empty, 100, Models(count_tokens))
    assert context.text == "" and context.passages == ()
