"""A retriever for LangChain (`pip install 'mergewise[langchain]'`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mergewise.defaults import BUDGET, STRATEGY
from mergewise.engine import Index
from mergewise.errors import MissingExtra
from mergewise.integrations.passages import ARGUMENTS, id_of, with_metadata
from mergewise.types import Context

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import field_validator
except ImportError as error:
    raise MissingExtra("langchain-core", "langchain", error) from error


class LangChainRetriever(BaseRetriever):
    """One document a passage: `LangChainRetriever(index=mergewise.open("my.index"), budget=640)`.

    The fields are the arguments of `Index.context`. The metadata of a document hold those of its source, and `source`, `title`,
    `headings`, `score` and `spans`. Together the passages keep to the budget, in the order in which a context shows them; with
    `k`, which a call may also name, they are `k` at most.

    Raises what `Index.context` raises.
    """

    # an `Index`, which pydantic would take to pieces, since it is a dataclass
    index: Any
    strategy: str = STRATEGY
    budget: Any = BUDGET
    where: str | None = None
    parameters: Mapping[str, Any] | None = None
    rounds: int = 1
    k: int | None = None

    @field_validator("index")
    @classmethod
    def _is_index(cls, given: object) -> object:
        if not isinstance(given, Index):
            raise ValueError("index is not what mergewise.open gives")
        return given

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._documents(self.index.context(query, **self._search()), k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._documents(await self.index.acontext(query, **self._search()), k)

    def _search(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ARGUMENTS}

    def _documents(self, context: Context, k: int | None) -> list[Document]:
        return [
            Document(id=id_of(passage), page_content=passage.text, metadata={**metadata, "score": passage.score})
            for passage, metadata in with_metadata(context, self.index, self.k if k is None else k)
        ]
