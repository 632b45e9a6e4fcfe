"""Retriever for LlamaIndex. Needs the extra `llama-index`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mergewise import Index
from mergewise.errors import MissingExtra
from mergewise.integrations.passages import QUERY_OPTIONS, id_of, with_metadata
from mergewise.types import Context, Passage, Span

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise MissingExtra("llama-index-core", "llama-index", error) from error

# metadata that is useless to a model
_NOT_FOR_MODELS = ["spans", "source"]


class LlamaIndexRetriever(BaseRetriever):
    """Retriever that returns a context's passages as nodes: `LlamaIndexRetriever(mergewise.open("my.index"), budget=640)`.

    If a passage is one span of its document, its node has `start_char_idx` and `end_char_idx`. A passage of several spans
    has them only in `metadata["spans"]`.

    Args:
        index: An open `Index`.
        by_span: Return each span as a separate node.
        similarity_top_k: Maximum number of passages.
        options: The options of `Index.context`, and those of LlamaIndex's `BaseRetriever`, such as `callback_manager`.

    Raises:
        MergewiseError: as `Index.context` does.
    """

    def __init__(
        self, index: Index, *, by_span: bool = False, similarity_top_k: int | None = None, **options: Any
    ) -> None:
        search = {name: options.pop(name) for name in QUERY_OPTIONS if name in options}
        super().__init__(**options)
        self._index = index
        self._by_span = by_span
        self._most = similarity_top_k
        self._search = search

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(self._index.context(query_bundle.query_str, **self._search))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes(await self._index.acontext(query_bundle.query_str, **self._search))

    def _nodes(self, context: Context) -> list[NodeWithScore]:
        nodes = []
        for passage, metadata in with_metadata(context, self._index, self._most):
            is_whole = not passage.verbatim or (len(passage.spans) > 1 and not self._by_span)
            for span, text in [(None, passage.text)] if is_whole else passage.parts():
                nodes.append(NodeWithScore(node=_node(passage, text, span, metadata), score=passage.score))
        return nodes


def _node(passage: Passage, text: str, span: Span | None, metadata: Mapping[str, Any]) -> TextNode:
    """Make the node of a whole passage, or of one of its spans, with offsets."""
    source = metadata.get("source") if span is None else span.doc_id
    own = {} if span is None else {"spans": [{"doc": span.doc_id, "start": span.start, "end": span.end}]}
    return TextNode(
        id_=id_of(passage, span),
        text=text,
        metadata={**metadata, **own},
        start_char_idx=None if span is None else span.start,
        end_char_idx=None if span is None else span.end,
        excluded_llm_metadata_keys=_NOT_FOR_MODELS,
        excluded_embed_metadata_keys=_NOT_FOR_MODELS,
        relationships={} if source is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)},
    )
