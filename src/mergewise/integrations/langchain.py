"""Retriever for LangChain. Needs the extra `langchain`."""

from __future__ import annotations

from typing import Any

from mergewise import Index
from mergewise.errors import MissingExtra
from mergewise.integrations.passages import QUERY_OPTIONS, id_of, with_metadata
from mergewise.types import Context

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import create_model, field_validator
except ImportError as error:
    raise MissingExtra("langchain-core", "langchain", error) from error


_Options: Any = create_model(  # type: ignore[call-overload]
    "_Options",
    __base__=BaseRetriever,
    **{option.name: (option.type, option.default) for option in QUERY_OPTIONS.values()},
)


class LangChainRetriever(_Options):
    """Retriever that returns a context's passages as documents.

        LangChainRetriever(index=mergewise.open("my.index"), budget=640)

    The metadata of a document hold the metadata of its source, and `source`, `title`, `headings`, `score` and `spans`. The
    passages together fit the budget and keep the order of the context.

    Attributes:
        index: An open `Index`. The other fields are the options of `Index.context`.
        k: Maximum number of documents. A call may override it.

    Raises:
        MergewiseError: as `Index.context` does.
    """

    # Any, because pydantic would take an `Index`, a dataclass, apart
    index: Any
    k: int | None = None

    @field_validator("index")
    @classmethod
    def _is_index(cls, given: object) -> object:
        if not isinstance(given, Index):
            raise ValueError("invalid index: expected the result of mergewise.open")
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
        return {name: getattr(self, name) for name in QUERY_OPTIONS}

    def _documents(self, context: Context, k: int | None) -> list[Document]:
        return [
            Document(id=id_of(passage), page_content=passage.text, metadata={**metadata, "score": passage.score})
            for passage, metadata in with_metadata(context, self.index, self.k if k is None else k)
        ]
