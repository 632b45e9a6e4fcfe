"""Component for Haystack. Needs the extra `haystack`."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

import mergewise
from mergewise import Index
from mergewise.errors import MissingExtra
from mergewise.integrations.passages import QUERY_OPTIONS, id_of, with_metadata
from mergewise.types import AnyPath, Context, Where

# Haystack reports each pipeline otherwise, unless it was imported before
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise MissingExtra("haystack-ai", "haystack", error) from error


@component
class HaystackRetriever:
    """Retriever that returns a context's passages as documents: `HaystackRetriever("my.index", budget=640)`.

    The meta of a document hold the metadata of its source, and `source`, `title`, `headings` and `spans`. A saved pipeline
    keeps only the index directory, not other arguments of `mergewise.open` such as your own embedder.

    Args:
        index: An open `Index`, or a directory, which `warm_up` or the first `run` opens.
        top_k: Maximum number of documents.
        options: The options of `Index.context`.

    Raises:
        MergewiseError: as `mergewise.open` and `Index.context` do.
    """

    def __init__(self, index: AnyPath | Index, *, top_k: int | None = None, **options: Any) -> None:
        if unknown := options.keys() - QUERY_OPTIONS.keys():
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))} (known: {', '.join(QUERY_OPTIONS)})")
        self.directory = str(index.store.directory) if isinstance(index, Index) else os.fspath(index)
        self.options = {option.name: option.default for option in QUERY_OPTIONS.values()} | options
        self.top_k = top_k
        self._index = index if isinstance(index, Index) else None
        self._opening = Lock()

    def warm_up(self) -> None:
        """Open the index, unless it is open already."""
        with self._opening:
            if self._index is None:
                self._index = mergewise.open(self.directory, create=False)

    @component.output_types(documents=list[Document])
    def run(self, query: str, where: Any = None, top_k: int | None = None) -> dict[str, Any]:
        """Return the passages of the query's context. `where` and `top_k` override the component's own."""
        return self._documents(self._open_index().context(query, **self._search(where)), top_k)

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, where: Any = None, top_k: int | None = None) -> dict[str, Any]:
        """Run asynchronously. See `run`."""
        return self._documents(await self._open_index().acontext(query, **self._search(where)), top_k)

    def to_dict(self) -> dict[str, Any]:
        """Return the component in the form that a saved pipeline keeps."""
        saved: dict[str, Any] = default_to_dict(self, index=self.directory, **self._search(None), top_k=self.top_k)
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HaystackRetriever:
        """Load the component of a saved pipeline."""
        made: HaystackRetriever = default_from_dict(cls, data)
        return made

    def _open_index(self) -> Index:
        self.warm_up()
        assert self._index is not None
        return self._index

    def _search(self, where: Where | None) -> dict[str, Any]:
        return self.options if where is None else {**self.options, "where": where}

    def _documents(self, context: Context, top_k: int | None) -> dict[str, Any]:
        described = with_metadata(context, self._open_index(), self.top_k if top_k is None else top_k)
        documents = [
            Document(id=id_of(passage), content=passage.text, meta=metadata, score=passage.score)
            for passage, metadata in described
        ]
        return {"documents": documents}
