"""Contexts of other strategies as evidence: all of their sentences, no others, and no search."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mergewise.designs.strategies import assemble
from mergewise.designs.weave.quotable import evidence_in
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.retrieve.hybrid import HybridReader
from mergewise.types import Context, Passage, Span
from tests.conftest import examples
from tests.designs.weave.support import FILMS, MANUAL
from tests.support import HashEmbedder, memory_store, reader_of

QUESTION = "Where was the director of Silent Rain born?"
STORE = memory_store([FILMS, MANUAL], HashEmbedder())
LEAVES = [leaf for stored in STORE.document_rows(["films", "manual"]) for leaf in stored["leaf"]]


class NoSearch(HybridReader):
    """A reader of these documents that fails on any search."""

    def rank_rows(self, question: str, k: int, table: str, column: str = "vector") -> list[tuple[int, float]]:
        raise AssertionError(f"searched for {question!r}")


def reader() -> NoSearch:
    allowed = reader_of(STORE, HashEmbedder())
    return NoSearch(allowed._store, allowed._embedder, allowed._registry)


def sentences_in(context: Context) -> set[Span]:
    spans = [span for passage in context.passages for span in passage.spans]
    every = (Span(leaf.doc_id, s.start, s.end) for leaf in LEAVES for s in leaf.sentences)
    return {sentence for sentence in every if any(span.contains(sentence) for span in spans)}


@pytest.mark.parametrize("strategy", ["topk", "auto-merge", "dos"])
def test_every_sentence_of_a_context_is_evidence(strategy: str) -> None:
    context = assemble(strategy, QUESTION, reader_of(STORE, HashEmbedder()), 90, Models(count_tokens))
    found = evidence_in(context, reader())
    assert {one.span for one in found} == sentences_in(context) and len(found) == len(sentences_in(context)) > 2
    relevances = [one.relevance for one in found]
    assert relevances == sorted(relevances, reverse=True)
    for one in found:
        document = {"films": FILMS, "manual": MANUAL}[one.span.doc_id]
        assert one.text == document.text[one.span.start : one.span.end] and one.span in one.needed


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(0, len(FILMS.text)), st.integers(0, 200), st.floats(-1, 2)), max_size=4))
def test_any_spans_bring_their_whole_sentences(cuts: list[tuple[int, int, float]]) -> None:
    spans = [(Span("films", start, min(start + length, len(FILMS.text))), score) for start, length, score in cuts]
    passages = tuple(Passage(FILMS.text[s.start : s.end], score, (s,)) for s, score in spans)
    context = Context(QUESTION, "by hand", 200, "", 0, passages)
    found = evidence_in(context, reader())
    assert {one.span for one in found} == sentences_in(context)
    assert all(0 <= one.relevance <= 1 and one.cosine is not None for one in found)


def test_names_lead_from_sentence_to_sentence_within_the_context() -> None:
    born = FILMS.text.index("She was born in the town of Faro.")
    at = {name: FILMS.text.index(f"# {name}") for name in ("Silent Rain", "Loud Snow", "Ada Moor")}
    spans = [
        Span("films", at["Silent Rain"], at["Loud Snow"]),
        Span("films", born, born + len("She was born in the town of Faro.")),
    ]
    linked = Context(QUESTION, "by hand", 200, "", 0, tuple(Passage("", 0.5, (span,)) for span in spans))
    alone = replace(linked, passages=linked.passages[1:])
    with_chain, without = (
        next(one.relevance for one in evidence_in(context, reader()) if one.span == spans[1])
        for context in (linked, alone)
    )
    assert with_chain > without


def test_without_passages_there_is_nothing_to_quote() -> None:
    assert evidence_in(Context(QUESTION, "topk", 200, "", 0, ()), reader()) == ()
