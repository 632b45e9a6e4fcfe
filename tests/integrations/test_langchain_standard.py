"""LangChain's own standard tests for retrievers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import mergewise as mw

from .conftest import QUESTION, fill

pytest.importorskip(
    "langchain_tests", reason="the package langchain-tests is not installed: `make integrations` does it"
)

from langchain_core.documents import Document
from langchain_tests.integration_tests import RetrieversIntegrationTests

from mergewise.integrations import LangChainRetriever


@cache
def shared_index() -> mw.Index:
    """Return the same index for all tests. The class needs it before any fixture exists."""
    return fill(mw.open(Path(mkdtemp()) / "index", embedder="none"))


class TestStandard(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[LangChainRetriever]:
        return LangChainRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"index": shared_index(), "budget": 200}

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def test_documents_of_langchain_are_indexed_as_they_are(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    pages = [Document(page_content=f"Owls eat {prey}.", metadata={"source": "owls.pdf", "page": n}) for n, prey in PREY]
    assert index.add(pages).added == 3
    (found,) = LangChainRetriever(index=index, k=1).invoke("What do owls eat besides mice and frogs?")
    assert found.metadata["source"].startswith("owls.pdf#") and found.metadata["page"] in (1, 2, 3)


PREY = ((1, "mice"), (2, "frogs"), (3, "beetles"))
