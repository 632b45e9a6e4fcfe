"""Fixed, semantic and PIC chunks as strategies: the best that fit, verbatim, in the requested order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import mergewise
from mergewise.designs import VIEWS
from mergewise.designs.mrag.chunks import ChunkReader, FixedSettings, PICSettings, SemanticSettings, TextChunk
from mergewise.designs.strategies import assemble
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, Document
from tests.designs.towns import DOCUMENTS, EMBEDDER, QUESTION, Marks
from tests.support import memory_store

SETTINGS = {
    "fixed": FixedSettings(size=24),
    "semantic": SemanticSettings(neighbours=0, percentile=70),
    "pic": PICSettings(),
}
NAMES = tuple(SETTINGS)
STORE = memory_store(DOCUMENTS, EMBEDDER, **SETTINGS)
TEXTS = {document.id: document.text for document in DOCUMENTS}


def reader(where: str | None = None) -> HybridReader:
    return HybridReader(STORE.reader(), EMBEDDER, VIEWS, where)


def ask(spec: str, budget: int = 200, models: Models | None = None, where: str | None = None) -> Context:
    return assemble(spec, QUESTION, reader(where), budget, models or Models(count_tokens))


def spans(context: Context) -> list[tuple[str, int, int]]:
    return [(span.doc_id, span.start, span.end) for passage in context.passages for span in passage.spans]


def given_characters(context: Context) -> set[tuple[str, int]]:
    """Return the characters of the documents in the context. Assert that they are verbatim and unique."""
    held: set[tuple[str, int]] = set()
    for passage in context.passages:
        assert passage.verbatim
        for span, text in passage.parts():
            assert TEXTS[span.doc_id][span.start : span.end] == text
            fresh = {(span.doc_id, at) for at in range(span.start, span.end)}
            assert not fresh & held, "duplicate character"
            held |= fresh
    return held


def body(chunk: TextChunk) -> set[tuple[str, int]]:
    """Return the characters of a chunk after its headings, without white space."""
    text = TEXTS[chunk.doc_id]
    return {(chunk.doc_id, at) for at in range(chunk.body, chunk.end) if not text[at].isspace()}


def chunks_found(name: str, k: int = 50, by: Any = "hybrid") -> list[TextChunk]:
    view: ChunkReader = reader().view(name)
    return [chunk for chunk, _ in view.search(QUESTION, k, by)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("last", ["cut", "end"])
@pytest.mark.parametrize("order", ["document", "score"])
@pytest.mark.parametrize("headings", ["on", "off"])
@pytest.mark.parametrize("budget", [1, 12, 60, 128, 384, 9000])
def test_contexts_keep_the_budget_and_are_verbatim(
    name: str, last: str, order: str, headings: str, budget: int
) -> None:
    context = ask(f"{name}(last={last}, order={order}, headings={headings})", budget)
    given_characters(context)
    assert headings == "on" or not any(passage.title or passage.headings for passage in context.passages)
    assert context.tokens == (count_tokens([context.text])[0] if context.text else 0) <= budget
    assert bool(context.passages) or budget < 60


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 3])
def test_best_chunks_are_whole(name: str, k: int) -> None:
    wanted = set().union(*(body(chunk) for chunk in chunks_found(name, k)))
    assert wanted <= given_characters(ask(f"{name}(k={k})", 9000))
    assert wanted <= given_characters(ask(f"{name}(k={k}, order=score)", 9000))


@pytest.mark.parametrize("name", NAMES)
def test_budget_is_filled_by_rank(name: str) -> None:
    """The literal rule: chunks in the order of the search while they fit, and only the beginning of a skipped chunk."""
    context = ask(f"{name}(order=score)", 120)
    held, chunks = given_characters(context), chunks_found(name)
    skipped = [step.inputs[0] for step in context.trace if step.action == "skip"]
    assert body(chunks[0]) <= held or chunks[0].span in skipped
    cut = [step.output for step in context.trace if step.action == "cut"]
    for chunk in chunks:
        part = body(chunk) & held
        if part and not body(chunk) <= held:
            assert chunk.span in skipped
            assert any(span is not None and span.start == chunk.start for span in cut)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("budget", [40, 70, 100, 150])
def test_last_end_stops_at_the_first_chunk_that_does_not_fit(name: str, budget: int) -> None:
    context = ask(f"{name}(last=end, order=score)", budget)
    held, chunks = given_characters(context), chunks_found(name)
    whole = [body(chunk) <= held for chunk in chunks]
    first = whole.index(False)
    assert not any(whole[first:]) and not any(body(chunk) & held for chunk in chunks[first + 1 :])
    assert whole == [True] * first + [False] * (len(whole) - first)


def test_first_sentences_of_the_last_chunk_fill_the_budget() -> None:
    context = ask("semantic(last=end)", 40)
    assert any(step.action == "cut" for step in context.trace) and given_characters(context) <= {
        (chunk.doc_id, at) for chunk in chunks_found("semantic", 1) for at in range(chunk.start, chunk.end)
    }


@pytest.mark.parametrize("name", NAMES)
def test_order(name: str) -> None:
    by_score = ask(f"{name}(k=6, order=score)", 9000)
    assert [passage.score for passage in by_score.passages] == sorted(
        (p.score for p in by_score.passages), reverse=True
    )
    by_place = spans(ask(f"{name}(k=6)", 9000))
    of_documents = [doc for doc, _, _ in by_place]
    assert of_documents == sorted(of_documents, key=of_documents.index), "split document"
    assert all(a[1] < b[1] for a, b in pairwise(by_place) if a[0] == b[0])
    assert given_characters(ask(f"{name}(k=6)", 9000)) <= given_characters(by_score) | {
        (doc, at) for doc, text in TEXTS.items() for at, character in enumerate(text) if character.isspace()
    }


@pytest.mark.parametrize("name", NAMES)
def test_several_documents_and_filters(name: str) -> None:
    assert len({doc for doc, _, _ in spans(ask(f"{name}(k=20)", 9000))}) > 1
    assert {doc for doc, _, _ in spans(ask(name, 9000, where="id = 'd3'"))} == {"d3"}
    nothing = ask(name, 9000, where="id = 'none'")
    assert nothing.text == "" and nothing.passages == ()


@pytest.mark.parametrize("name", NAMES)
def test_search_by_vectors_ranks_by_cosine(name: str) -> None:
    (asked,) = EMBEDDER.embed_queries([QUESTION])
    everything = chunks_found(name, 10_000, "vectors")
    vectors = STORE.reader().vectors([chunk.id for chunk in everything], name)
    cosines = [float(vectors[chunk.id] @ asked) for chunk in everything]
    assert (
        cosines == sorted(cosines, reverse=True) or max(later - earlier for earlier, later in pairwise(cosines)) < 1e-3
    )
    context = ask(f"{name}(search=vectors, k=1)", 9000)
    assert body(everything[0]) <= given_characters(context)


def test_index_without_vectors_only_searches_full_text(tmp_path: Path) -> None:
    index = mergewise.open(tmp_path, embedder="none", views=("leaf", "fixed"))
    index.add(DOCUMENTS)
    assert "1514" in index.context(QUESTION, strategy="fixed", budget=300).text
    with pytest.raises(UsageError, match="no vectors"):
        index.context(QUESTION, strategy="fixed(search=vectors)")


@pytest.mark.parametrize("name", NAMES)
def test_reranker_orders_the_chunks(name: str) -> None:
    chunks = chunks_found(name)
    marks = Marks([0.0] * (len(chunks) - 1) + [1.0])
    context = ask(f"{name}(k={len(chunks)}, last=end, order=score)", 60, Models(count_tokens, reranker=marks))
    first = context.passages[0].spans[0]
    assert chunks[-1].span.contains(first)


@pytest.mark.parametrize("name", NAMES)
def test_trace_names_the_rule_of_splitting(name: str) -> None:
    reason = ask(name).trace[0].reason
    assert {"fixed": "by size", "semantic": "by distance", "pic": "by extractive summary"}[name] in reason


@pytest.mark.parametrize("spec", ["fixed(k=-1)", "pic(order=best)", "semantic(search=text)", "fixed(last=skip)"])
def test_parameters_are_checked(spec: str) -> None:
    with pytest.raises(UsageError):
        ask(spec)


@pytest.mark.parametrize("name", NAMES)
def test_chunks_of_only_markup_are_skipped(name: str) -> None:
    documents = [Document("a", "<!-- towers of Corin -->"), Document("b", "A tower of Corin.")]
    store = memory_store(documents, EMBEDDER, **SETTINGS)
    context = assemble(name, "tower of Corin", HybridReader(store.reader(), EMBEDDER, VIEWS), 100, Models(count_tokens))
    assert {span.doc_id for passage in context.passages for span in passage.spans} == {"b"}


@pytest.mark.parametrize("name", NAMES)
def test_view_is_added_to_an_existing_index(name: str, tmp_path: Path) -> None:
    """With the built-in embedder: add the view, change documents, and query."""
    mergewise.open(tmp_path).add(DOCUMENTS[:3])
    index = mergewise.open(tmp_path, views=("leaf", name))
    index.add(Document("new", "A bridge was built in Corin in 1999. It is long.", "Bridges"))
    index.remove(["d0"])
    assert index.check() == []
    context = index.context("When was the bridge of Corin built?", strategy=name, budget=128)
    assert "1999" in context.text and context.strategy == name
