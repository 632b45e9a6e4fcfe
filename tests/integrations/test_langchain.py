"""The retriever for LangChain, with the real package."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

import mergewise as mw

from .conftest import QUESTION, TEXTS, every_where

pytest.importorskip("langchain_core", reason="the extra `langchain` is not installed: `make integrations` does it")

from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from mergewise.integrations import LangChainRetriever


def test_documents_are_the_passages_with_their_spans(index: mw.Index) -> None:
    found = LangChainRetriever(index=index, budget=120).invoke(QUESTION)
    context = index.context(QUESTION, budget=120)
    assert found and [document.page_content for document in found] == [p.text for p in context.passages]
    assert all(isinstance(document, Document) for document in found)
    for document, passage in zip(found, context.passages, strict=True):
        metadata = document.metadata
        parts = [index.document(s["doc"]).text[s["start"] : s["end"]] for s in metadata["spans"]]
        assert " …\n".join(parts) == document.page_content
        assert metadata["source"] in TEXTS and metadata["lang"] == "en" and metadata["score"] == passage.score
        assert metadata["title"] == index.document(metadata["source"]).title
    assert len({document.id for document in found}) == len(found)


@every_where
def test_the_fields_are_the_arguments_of_a_context(index: mw.Index, where: Any) -> None:
    retriever = LangChainRetriever(index=index, strategy="topk", budget=60, where=where, parameters={"k": 1}, rounds=2)
    (only,) = retriever.invoke(QUESTION)
    assert only.metadata["source"] == "thorn"
    with pytest.raises(mw.UsageError, match="unknown strategy"):
        LangChainRetriever(index=index, strategy="nope").invoke(QUESTION)
    with pytest.raises(ValueError, match="index"):
        LangChainRetriever(index="not an index")  # type: ignore[arg-type]


def test_retriever_runs_async_in_batches_and_in_a_chain(index: mw.Index) -> None:
    retriever = LangChainRetriever(index=index, budget=100)
    expected = retriever.invoke(QUESTION)

    async def ask() -> list[list[Document]]:
        return await asyncio.gather(*(retriever.ainvoke(QUESTION) for _ in range(10)))

    assert asyncio.run(ask()) == [expected] * 10
    assert retriever.batch([QUESTION, QUESTION]) == [expected] * 2
    chain = retriever | RunnableLambda(lambda documents: "\n".join(d.page_content for d in documents))
    assert "Delft" in chain.invoke(QUESTION)
    assert all(one.id != other.id for one, other in pairwise(expected))
