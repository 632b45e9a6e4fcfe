"""The retriever for LlamaIndex, with the real package."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import mergewise as mw

from .conftest import QUESTION, TEXTS, every_where

pytest.importorskip("llama_index.core", reason="the extra `llama-index` is not installed: `make integrations` does it")

from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import Document as LlamaDocument
from llama_index.core.schema import MetadataMode, NodeWithScore

from mergewise.integrations import LlamaIndexRetriever


def test_nodes_are_the_passages_with_their_scores(index: mw.Index) -> None:
    nodes = LlamaIndexRetriever(index, budget=120).retrieve(QUESTION)
    context = index.context(QUESTION, budget=120)
    assert nodes and all(isinstance(node, NodeWithScore) for node in nodes)
    assert [(node.text, node.score) for node in nodes] == [(p.text, p.score) for p in context.passages]
    for node in nodes:
        metadata = node.metadata
        parts = [index.document(s["doc"]).text[s["start"] : s["end"]] for s in metadata["spans"]]
        assert " …\n".join(parts) == node.text
        assert node.node.ref_doc_id == metadata["source"] in TEXTS and metadata["year"] >= 1900
        assert "spans" not in node.node.get_content(MetadataMode.LLM)
        assert node.node.get_content(MetadataMode.LLM).endswith(node.text)


def test_nodes_of_one_span_have_exact_offsets(index: mw.Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def span(source: str, sentence: str) -> mw.Span:
        start = TEXTS[source].index(sentence)
        return mw.Span(source, start, start + len(sentence))

    born, smith = "Ada Brix, the inventor, was born in Delft.", "Ada Brix was a smith."
    gapped = mw.Passage(f"{smith} …\n{born}", 0.9, (span("brix", smith), span("brix", born)))
    whole = mw.Passage("The lamp burns oil. It is old.", 0.5, (span("lamp", "The lamp burns oil. It is old."),))
    fused = mw.Passage("An old oil lamp.", 0.4, whole.spans, verbatim=False)
    context = mw.Context(QUESTION, "weave", 100, "", 40, (gapped, whole, fused))
    monkeypatch.setattr(mw.Index, "context", lambda self, question, **search: context)

    def offsets(**options: bool) -> list[tuple[str, int | None, int | None]]:
        nodes = [node.node for node in LlamaIndexRetriever(index, **options).retrieve(QUESTION)]  # type: ignore[arg-type]
        return [(node.text, node.start_char_idx, node.end_char_idx) for node in nodes]

    alone = (whole.text, whole.spans[0].start, whole.spans[0].end)
    fusion = (fused.text, None, None)
    assert offsets() == [(gapped.text, None, None), alone, fusion]
    parts = [(text, one.start, one.end) for one, text in gapped.parts()]
    assert offsets(by_span=True) == [*parts, alone, fusion]
    assert all(TEXTS["brix"][start:end] == text for text, start, end in parts)


@every_where
def test_the_arguments_are_those_of_a_context(index: mw.Index, where: Any) -> None:
    retriever = LlamaIndexRetriever(index, strategy="topk", where=where, parameters={"k": 1}, verbose=True)
    (only,) = retriever.retrieve(QUESTION)
    assert only.metadata["source"] == "thorn"
    with pytest.raises(mw.UsageError, match="invalid budget"):
        LlamaIndexRetriever(index, budget=0).retrieve(QUESTION)


def test_aretrieve_returns_the_same_nodes(index: mw.Index) -> None:
    retriever = LlamaIndexRetriever(index, budget=100)

    async def ask() -> list[list[NodeWithScore]]:
        return await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(10)))

    assert asyncio.run(ask()) == [retriever.retrieve(QUESTION)] * 10


def test_a_query_engine_answers_from_it(index: mw.Index) -> None:
    from llama_index.core.llms import MockLLM

    made = get_response_synthesizer(llm=MockLLM())
    engine = RetrieverQueryEngine(LlamaIndexRetriever(index, budget=100), response_synthesizer=made)
    assert "Delft" in "".join(node.text for node in engine.query(QUESTION).source_nodes)


def test_similarity_top_k_limits_passages_and_llama_documents_can_be_indexed(index: mw.Index) -> None:
    index.add(LlamaDocument(text="Ida Thorn sold lamps too.", metadata={"file_path": "ida.txt"}, id_="ida"))
    assert index.document("ida").metadata["file_path"] == "ida.txt"
    best = max(index.context(QUESTION, budget=200).passages, key=lambda passage: passage.score)
    (only,) = LlamaIndexRetriever(index, budget=200, similarity_top_k=1).retrieve(QUESTION)
    assert only.text == best.text
    with pytest.raises(mw.UsageError, match="limit of passages"):
        LlamaIndexRetriever(index, similarity_top_k=0).retrieve(QUESTION)
